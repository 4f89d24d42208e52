"""URLs as they go into a task: http or https, in bytes that every curl sends the same way. Pure."""

from __future__ import annotations

import contextlib
import re

from stateful_crawler.errors import printable

# All that RFC 3986 lets stand in a URL, and `|`, which curl sends as it is.
_CLEAN = re.compile(
    r"https?://[A-Za-z0-9.\-_~:@%!$&'()*+,;=\[\]]+"
    r"(?:[/?][A-Za-z0-9\-._~:/?@!$&'()*+,;=%\[\]{}|]*)?(?:#[!-~]*)?",
    re.I,
)
_BLANKS = "".join(map(chr, range(33)))
_NO_BREAKS = str.maketrans("", "", "\t\n\r")
_USERINFO = re.compile(r"(?i)([a-z][a-z0-9+.-]*://|^//)[^/?#\s'\"<>]*@")
_SCHEME = re.compile(r"(?i)^https?://[^/?#]")


def clean_url(url: str) -> str:
    """`url` as a browser would send it: blanks round it dropped, what no URL can hold encoded, the host in punycode.

    Raises ValueError for what is not an http(s) URL with a host.
    """
    if _CLEAN.fullmatch(url):
        return url
    stripped = without_blanks(url)
    if not _SCHEME.match(stripped):
        raise ValueError(f"{printable(url)[:200]!r} is not an http or https url")
    from w3lib.url import safe_url_string  # here, not above: most urls never need it

    try:
        safe = str(safe_url_string(ascii_host(stripped)))
    except (ValueError, UnicodeError) as error:
        raise ValueError(f"{printable(url)[:200]!r} is not a url that can be sent: {error}") from None
    if not _CLEAN.fullmatch(safe):
        raise ValueError(f"{printable(url)[:200]!r} has no host that can be asked")
    return safe


def without_blanks(link: str) -> str:
    """The link without blanks and control characters round it, and without line breaks and tabs in it (WHATWG)."""
    return link.strip(_BLANKS).translate(_NO_BREAKS)


def ascii_host(url: str) -> str:
    """The url with its host in punycode: this libcurl knows no IDN, and would ask the resolver for raw UTF-8."""
    scheme, separator, rest = url.partition("://")
    authority = re.split(r"[/?#\\]", rest, maxsplit=1)[0]
    if authority.isascii():
        return url
    user, at, hostport = authority.rpartition("@")
    host, colon, port = hostport.partition(":")
    import idna  # here, not above: few hosts need it

    try:
        plain = idna.encode(host, uts46=True).decode()
    except idna.IDNAError as error:
        raise ValueError(f"{printable(host)!r} is not a host name: {error}") from None
    return f"{scheme}{separator}{user}{at}{plain}{colon}{port}{rest[len(authority) :]}"


def ascii_proxy(proxy: str) -> str:
    """A proxy as `proxy` takes it, scheme or none, with its host in punycode; as it is where that can't be."""
    if proxy.isascii():
        return proxy
    scheme, separator, rest = proxy.rpartition("://")
    with contextlib.suppress(ValueError):
        return scheme + separator + ascii_host(f"//://{rest}").removeprefix("//://")
    return proxy


def without_userinfo(text: str) -> str:
    """A url, or a sentence with urls in it, without the user names and passwords that may stand before their hosts."""
    return _USERINFO.sub(r"\1", text) if "@" in text else text


def origin_of(url: str) -> tuple[str, str]:
    """Scheme and authority without userinfo, in lower case: what decides whether a secret may go along (RFC 6454)."""
    scheme, _, rest = url.partition("://")
    authority = re.split(r"[/?#\\]", rest, maxsplit=1)[0].rpartition("@")[2].lower()
    default = {"http": ":80", "https": ":443"}.get(scheme.lower(), "")
    return scheme.lower(), authority.removesuffix(default) if default else authority
