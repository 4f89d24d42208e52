"""A link on a page as an absolute URL, resolved and encoded as a browser does it. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote

from stateful_crawler.urls import clean_url, without_blanks

_WIDE = ("utf-16", "utf-32")
_OTHER_SCHEME = re.compile(r"(?!https?:)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_PARTS = re.compile(r"(?:(https?):)?([/\\]{2,}[^/\\?#]*)?([^?#]*)(\?[^#]*)?(#.*)?", re.IGNORECASE | re.DOTALL)
_HOST = r"\[[0-9a-fA-F:.]+\]|[^\x00-\x20\x7f-\U0010ffff\"%<>\\^`{|}\[\]:@/?#]+"
_VALID = re.compile(rf"https?://(?:[^@/?#]*@)?(?:{_HOST})(?::[0-9]+)?(?:[/?#]|\Z)")


class _Parts(NamedTuple):
    """A URL taken apart as WHATWG does for http and https; what it doesn't have is empty."""

    scheme: str
    host: str  # with user and port
    path: str
    query: str  # with its "?"
    fragment: str  # with its "#"


def _parts(url: str) -> _Parts:
    match = _PARTS.fullmatch(url)
    assert match is not None  # each of its parts is optional
    scheme, slashes, path, query, fragment = match.groups("")
    host = slashes.lstrip("/\\")
    if slashes and not host:
        raise ValueError("it names no host")
    user, at, name = host.rpartition("@")
    return _Parts(scheme.lower(), user + at + name.lower(), path.replace("\\", "/"), query, fragment)


def is_http(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def absolute(base: str, href: str, encoding: str) -> str:
    """`href` resolved against `base` and percent-encoded as a browser does it, the query in the page's `encoding`."""
    link = without_blanks(href)
    if _OTHER_SCHEME.match(link):
        return link
    try:
        scheme, host, path, query, fragment = _join(_parts(base), _parts(link))
        query = _encoded(query, "utf-8" if encoding.startswith(_WIDE) else encoding)
        url = clean_url(f"{scheme}://{host}{_without_dots(path)}{query}{_encoded(fragment, 'utf-8')}")
    except ValueError as error:
        raise ValueError(f"{short(href)} is not a valid URL: {error}") from error
    if not _VALID.match(url):
        raise ValueError(f"{short(href)} is not a valid URL: no valid host in {short(url)}")
    return url


def _join(base: _Parts, link: _Parts) -> _Parts:
    """RFC 3986, section 5.2, with what browsers make of "http:x" and "https:host".

    Not urllib's urljoin: it drops empty segments (/web/http://host/a) and leaves "/../" in absolute URLs.
    """
    if link.scheme not in ("", base.scheme) and not link.host:
        link = _parts(f"{link.scheme}://{link.path.lstrip('/')}{link.query}{link.fragment}")
    if link.host:
        return link._replace(scheme=link.scheme or base.scheme)
    if not link.path:
        return base._replace(query=link.query or base.query, fragment=link.fragment)
    path = link.path if link.path.startswith("/") else base.path.rpartition("/")[0] + "/" + link.path
    return base._replace(path=path, query=link.query, fragment=link.fragment)


def _without_dots(path: str) -> str:
    """An absolute path with its "." and ".." (also as %2e) resolved."""
    if "/." not in path and "/%2" not in path:
        return path or "/"
    kept: list[str] = []
    for segment in path.split("/")[1:]:
        plain = segment.lower().replace("%2e", ".")
        if plain == "..":
            del kept[-1:]
        elif plain != ".":
            kept.append(segment)
    ends_in_dots = plain in (".", "..")
    return "/" + "/".join(kept) + ("/" if ends_in_dots and kept else "")


def _encoded(text: str, codec: str) -> str:
    """All but visible ASCII percent-encoded as bytes of `codec`; what it doesn't have as &#number;, as forms do."""
    return re.sub(r"[^!-~]+", lambda run: quote(run[0].encode(codec, "xmlcharrefreplace"), safe=""), text)


def short(value: object) -> str:
    """For messages: repr, at most 200 characters (data: links run to megabytes)."""
    text = repr(value)
    return text if len(text) <= 200 else text[:199] + "…"
