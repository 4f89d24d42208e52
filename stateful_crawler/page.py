"""A saved page as the user's parser sees it: text in the right encoding, selectors, JSON, links to follow.

Pure: nothing here reads the disk or the network; the worker hands in what it has read, and what `follow` is to make.
The only importer of parsel, of w3lib and, for a page that nothing labels, of charset-normalizer.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from re import Pattern
from typing import Any, Literal, NamedTuple, overload
from urllib.parse import quote

from lxml import etree, html
from parsel import Selector, SelectorList
from w3lib.encoding import (
    html_body_declared_encoding,
    http_content_type_encoding,
    read_bom,
    resolve_encoding,
    to_unicode,
)

from stateful_crawler.urls import clean_url

Source = Literal["given", "bom", "header", "meta", "utf-8", "guess"]


class Headers:
    """The answer's headers as they came, order and duplicates kept; names match in any case, iteration gives pairs."""

    __slots__ = ("_pairs",)

    def __init__(self, pairs: Iterable[Sequence[str]] = ()) -> None:
        self._pairs = tuple((name, value) for name, value in pairs)

    def get_all(self, name: str) -> list[str]:
        """Every value of `name`, first to last; empty where there is none."""
        name = name.lower()
        return [value for key, value in self._pairs if key.lower() == name]

    @overload
    def get(self, name: str) -> str | None: ...
    @overload
    def get(self, name: str, default: str) -> str: ...
    def get(self, name: str, default: str | None = None) -> str | None:
        """The first value of `name`."""
        return next(iter(self.get_all(name)), default)

    def __getitem__(self, name: str) -> str:
        for value in self.get_all(name):
            return value
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.get_all(name))

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def __repr__(self) -> str:
        return f"Headers({list(self._pairs)!r})"


class Page:
    """One saved page. What costs time (decoding, the tree) is done on first use, once.

    `encoding` is the user's own choice and beats every label. `follow` makes the new task that a parser yields from
    an absolute URL and the keyword options of the call; without it `.follow` raises.
    """

    def __init__(
        self,
        body: bytes,
        *,
        url: str,
        status: int = 200,
        headers: Iterable[Sequence[str]] = (),
        name: str = "",
        meta: Mapping[str, Any] | None = None,
        encoding: str | None = None,
        follow: Callable[[str, Mapping[str, object]], object] | None = None,
    ) -> None:
        self.body, self.url, self.status, self.name = body, url, status, name
        self.headers = Headers(headers)
        self.meta: Mapping[str, Any] = {} if meta is None else meta
        self._given = None if encoding is None else _given_codec(encoding)
        self._follow = follow

    def __repr__(self) -> str:
        return f"<Page {self.name or '-'} {self.status} {self.url}>"

    @cached_property
    def _reading(self) -> _Reading:
        if self._given is None:
            return _read(self.body, self.headers.get("content-type", ""))
        return _decode(self.body, _with_byte_order(self._given, self.body), "given")

    @property
    def text(self) -> str:
        """The body as text, without byte order mark; bytes that mean nothing in its encoding are U+FFFD."""
        return self._reading.text

    @property
    def encoding(self) -> str:
        """Python's name of the encoding that `text` was read with."""
        return self._reading.encoding

    @property
    def encoding_source(self) -> Source:
        """What named it: "given" (by the user), "bom", "header", "meta" (or an XML declaration), "utf-8" (by its bytes)
        or "guess"."""
        return self._reading.source

    @cached_property
    def selector(self) -> Selector:
        """The tree of the page: XML where the page is XML and not XHTML, HTML for all else."""
        return _tree(self.text, self.headers.get("content-type", ""))

    def css(self, query: str) -> SelectorList[Selector]:
        """What a CSS query finds in the page, with parsel's ::text and ::attr(name)."""
        return self.selector.css(query)

    def xpath(self, query: str, **options: Any) -> SelectorList[Selector]:
        """What an XPath query finds in the page; `options` fill its $names, or are parsel's namespaces={...}."""
        return self.selector.xpath(query, **options)

    def re(self, regex: str | Pattern[str]) -> list[str]:
        """All matches (their groups, if the pattern has some) in the page's tree written out as markup."""
        return self.selector.re(regex)

    def re_first(self, regex: str | Pattern[str]) -> str | None:
        """The first of `re`, or None."""
        return self.selector.re_first(regex)

    def json(self) -> Any:
        """The page as a JSON value, read with its encoding; ValueError says where it isn't JSON."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError) as error:  # the latter for 100,000 "["
            raise ValueError(f"{self.url} is not JSON: {error}; it begins {self.text[:40]!r}") from error

    @cached_property
    def _base(self) -> str:
        """What links are relative to: the first <base href>, as in browsers, if it leads to http or https."""
        if b"<base" not in self.body.lower() and b"\0" not in self.body:  # NUL: the tag may be spelled in UTF-16
            return self.url
        href = self.selector.xpath("//base/@href").get()
        try:
            base = self.url if href is None else _absolute(self.url, href, self.encoding)
        except ValueError:
            return self.url
        return base if _is_http(base) else self.url

    def urljoin(self, href: str) -> str:
        """The absolute URL of a link as a browser would ask for it; mailto: and the like come back as they are.

        Raises ValueError where there is no valid URL in it.
        """
        return _absolute(self._base, href, self.encoding)

    def follow(self, href: str | Selector, **options: object) -> object:
        """A new task for a link, to be yielded: `href` as text, or the selector of an <a> or of its ::attr(href).

        `options` are `name`, `meta` and curl options, written with underscores or (**{"max-time": "5"}) dashes.
        Raises ValueError, naming the link, where it leads to no other page over http or https.
        """
        if self._follow is None:
            raise RuntimeError("page.follow makes tasks in a crawl only: this Page was built without follow=")
        link = _href(href)
        if _without_blanks(link)[:1] in ("", "#"):
            raise ValueError(f"page.follow({_short(link)}): the link leads to no other page")
        url = self.urljoin(link)
        if not _is_http(url):
            raise ValueError(f"page.follow({_short(link)}): only http and https links can be followed")
        return self._follow(url, options)


# --- encoding ---------------------------------------------------------------------------------------------------------

_LATIN = "cp1252"  # what iso-8859-1, latin-1, ascii and windows-1252 all mean
_WIDE = ("utf-16", "utf-32")
_STRAY = 16  # fewer undecodable bytes than this say little against a label
_ASCII = bytes(range(128))
_LATE_META = re.compile(rb"<meta\b[^>]{0,400}charset", re.IGNORECASE)


def detect_encoding(body: bytes, content_type: str) -> tuple[str, Source]:
    """The encoding of a page (Python's name) and what named it; `content_type` is the header's value, or empty.

    In turn: BOM, header, meta or XML declaration, valid UTF-8, a guess. Labels mean what WHATWG's Encoding Standard
    says (gb2312 is gb18030, iso-8859-1 is cp1252), unknown ones are passed over. Where browsers would show garbage it
    goes its own way:

    - A latin-1 header, what servers say when nobody told them, gives way to a meta, and to a body that is UTF-8.
    - A label in which more than a tenth of the non-ASCII bytes mean nothing gives way to one that reads better. Where
      none does, a few stray bytes leave it as it is (they become U+FFFD), a page full of them is guessed.
    - A meta behind the first 4 kB counts if the page isn't UTF-8.
    """
    reading = _read(body, content_type)
    return reading.encoding, reading.source


class _Reading(NamedTuple):
    text: str
    encoding: str
    source: Source
    bad: int  # how many U+FFFD stand for bytes that mean nothing in the encoding


def _decode(body: bytes, encoding: str, source: Source) -> _Reading:
    """`body` read with `encoding`; never raises for what the bytes are."""
    try:
        text, bad = body.decode(encoding), 0
    except UnicodeError:
        text = to_unicode(body, encoding)
        bad = text.count("\ufffd")
    return _Reading(text.lstrip("\ufeff"), encoding, source, bad)


def _reads_well(reading: _Reading, body: bytes) -> bool:
    # Not 'without any error': titles cut in the middle of a character are common on pages in GBK and UTF-8.
    return not reading.bad or reading.bad * 10 <= len(body.translate(None, _ASCII))


def _read(body: bytes, content_type: str) -> _Reading:
    encoding, mark = read_bom(body)
    if encoding is not None and mark is not None:
        return _decode(body[len(mark) :], encoding, "bom")
    poor: list[_Reading] = []
    for encoding, source in _labels(body, content_type):
        reading = _decode(body, encoding, source)
        if _reads_well(reading, body):
            return reading
        poor.append(reading)
    best = min(poor, key=lambda reading: reading.bad, default=None)
    if best is not None and best.bad < _STRAY and not _is_utf8(body):
        return best
    return _read_unlabelled(body) or best or _decode(body, "utf-8", "guess")


def _labels(body: bytes, content_type: str) -> Iterator[tuple[str, Source]]:
    """What the page says about its encoding, best first; the body is searched only if the header doesn't do."""
    header = _header_codec(content_type)
    if header is not None and header.startswith(_WIDE):
        header = _wide_header(header, body)
    if header is not None and header != _LATIN:
        yield header, "header"
    meta = _meta_codec(body)
    if meta is not None and meta != header:
        yield meta, "meta"
    if header == _LATIN:
        if not body.isascii() and _is_utf8(body):
            yield "utf-8", "utf-8"
        yield _LATIN, "header"


def _read_unlabelled(body: bytes) -> _Reading | None:
    """The body by its bytes alone; None if they are no text that we can name."""
    shape = _shape(body)
    if shape is not None:
        return _decode(body, shape, "guess")
    reading = _decode(body, "utf-8", "utf-8")
    if not reading.bad:
        return reading
    late = _LATE_META.search(body, 0, 1 << 16)
    meta = _meta_codec(body[late.start() :]) if late else None
    if meta is not None:
        reading = _decode(body, meta, "meta")
        if _reads_well(reading, body):
            return reading
    guess = _guess(body)
    return None if guess is None else _decode(body, guess, "guess")


@lru_cache(maxsize=256)
def _header_codec(content_type: str) -> str | None:
    return _web_codec(http_content_type_encoding(content_type))


def _meta_codec(body: bytes) -> str | None:
    codec = _web_codec(html_body_declared_encoding(body))
    # A declaration that we could read as ASCII doesn't stand in UTF-16; WHATWG takes it for UTF-8.
    return "utf-8" if codec is not None and codec.startswith(_WIDE) else codec


@lru_cache(maxsize=256)
def _web_codec(name: str | None) -> str | None:
    """`name` if it is a codec that pages are written in: UTF-16, UTF-32, or one that leaves markup in ASCII as it is.

    Without this, a page that says charset=hex or charset=idna raises, and charset=unicode_escape makes lone surrogates.
    """
    if name is None or name in ("idna", "punycode", "raw-unicode-escape", "unicode-escape"):
        return None
    try:
        as_is = b"<meta charset=x>".decode(name) == "<meta charset=x>"
    except (LookupError, UnicodeError):
        as_is = False
    if name == "utf-8-sig":  # would put a BOM into each piece of a URL
        return "utf-8"
    return name if as_is or name.startswith(_WIDE) else None


def _given_codec(encoding: str) -> str:
    codec = _web_codec(resolve_encoding(encoding))
    if codec is None:
        raise ValueError(f"{encoding!r} is not an encoding of pages; try utf-8, gb18030, big5, shift_jis or latin-1")
    return codec


def _wide_header(codec: str, body: bytes) -> str | None:
    # Read as UTF-16, a plain page is well-formed Chinese nonsense: the label is believed only of what isn't UTF-8 text.
    return _with_byte_order(codec, body) if b"\0" in body or not _is_utf8(body) else None


def _with_byte_order(codec: str, body: bytes) -> str:
    """utf-16 and utf-32 with the order that the body has, little end first if it doesn't show (as WHATWG has it)."""
    if codec not in _WIDE:
        return codec
    return codec + ("-be" if body[:1] == b"\0" or body.startswith(b"\xfe\xff") else "-le")


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shape(body: bytes) -> str | None:
    """An encoding that passes for valid UTF-8 byte by byte, known by its shape."""
    if re.match(rb"<\0[!?\w]\0", body):
        return "utf-16-le"
    if re.match(rb"\0<\0[!?\w]", body):
        return "utf-16-be"
    return "iso2022_jp" if b"\x1b$B" in body and body.isascii() else None


# What pages are still found in, in charset-normalizer's names; offered all it knows, it answers cp775 or hp_roman8.
_GUESSES = (
    "gb18030 big5hkscs cp932 euc_jp cp949 cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 tis_620 "
    "iso8859_2 iso8859_5 iso8859_6 iso8859_7 iso8859_15 koi8_r cp866 mac_cyrillic mac_roman"
)


def _guess(body: bytes) -> str | None:
    """The likeliest encoding by statistics, from at most 16 kB of text; None if none fits.

    One broken character rules an encoding out, so where nothing fits the whole sample its eighths vote. Measured on
    364 pages of chardet's corpus, labels unseen: all 141 Chinese, Japanese and Korean ones right, 340 of all.
    """
    lines = _sample(body)
    votes = Counter(filter(None, [_best_fit(lines)]))
    if not votes:
        step = max(1, len(lines) // 8)
        votes.update(filter(None, (_best_fit(lines[i : i + step]) for i in range(0, len(lines), step))))
    return resolve_encoding(votes.most_common(1)[0][0]) if votes else None


def _sample(body: bytes, size: int = 16384) -> list[bytes]:
    """Pieces of text between tags that hold non-ASCII bytes. (No multi-byte encoding has "<" inside a character.)"""
    pieces: list[bytes] = []
    for match in re.finditer(rb"[^<>\0\r\n]+", body[: 1 << 20]):
        if size <= 0:
            break
        if not match[0].isascii():
            pieces.append(_cut(match[0].strip(), size))
            size -= len(pieces[-1])
    return pieces


def _cut(piece: bytes, size: int) -> bytes:
    """At most `size` bytes of `piece`, up to a blank or sign if there is one, so that no character is cut in two."""
    if len(piece) <= size:
        return piece
    end = max(piece.rfind(sign, 0, size) for sign in (b" ", b"\n", b",", b"."))
    return piece[: end if end > 0 else size]


def _best_fit(lines: Sequence[bytes]) -> str | None:
    from charset_normalizer import from_bytes  # costs more to import than a page to parse; few pages need it

    fits = from_bytes(b"\n".join(lines), cp_isolation=_GUESSES.split(), preemptive_behaviour=False)
    best = fits.best()
    if best is None:
        return None
    equals = [fit.encoding for fit in fits if (fit.chaos, fit.coherence) == (best.chaos, best.coherence)]
    return "cp1252" if "cp1252" in equals else best.encoding  # French in cp1250 looks as good, and is wrong


# --- the tree ---------------------------------------------------------------------------------------------------------


def _tree(text: str, content_type: str) -> Selector:
    """Parsed by libxml2; NULs, which would end the document for it, are left out (parsel does that)."""
    if _is_xml(text, content_type):
        selector = Selector(text=_legal_references(text), type="xml")
    else:
        selector = Selector(text=text, type="html")
    # Without this, what stands deeper than 2,048 levels, and all that follows it, is lost without a word.
    error = selector.root.getroottree().parser.error_log.last_error
    if error is not None and error.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT:
        return _deep_tree(text)
    return selector


def _is_xml(text: str, content_type: str) -> bool:
    head = text[:2048].lower()
    if "<html" in head or "<!doctype html" in head:
        return False  # XHTML too: in its namespace, css("p") would find nothing
    mime = content_type.partition(";")[0].strip().lower()
    return mime.endswith(("/xml", "+xml")) or head.lstrip().startswith("<?xml")


_REFERENCE = re.compile(r"&#(?:x0*([0-9a-f]{1,6})|0*([0-9]{1,7}));", re.IGNORECASE)


def _legal_references(text: str) -> str:
    """References to half a surrogate pair as U+FFFD: lxml lets them in and raises UnicodeDecodeError on reading."""

    def legal(match: re.Match[str]) -> str:
        number = int(match[1], 16) if match[1] else int(match[2])
        return "\ufffd" if 0xD800 <= number < 0xE000 else match[0]

    return _REFERENCE.sub(legal, text) if "&#" in text else text


def _deep_tree(text: str) -> Selector:
    """The tree at any depth, built by lxml from libxml2's events: the limit is in libxml2's own builder."""
    target = etree.TreeBuilder(parser=html.HTMLParser(encoding="utf-8"), insert_comments=True, insert_pis=True)
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, target=target)
    return Selector(root=etree.fromstring(text.replace("\0", "").encode(), parser), type="html")


# --- links ------------------------------------------------------------------------------------------------------------

_BLANKS = "".join(map(chr, range(33)))
_NO_BREAKS = str.maketrans("", "", "\t\n\r")
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


def _without_blanks(href: str) -> str:
    return href.strip(_BLANKS).translate(_NO_BREAKS)


def _is_http(url: str) -> bool:
    return url.startswith(("http://", "https://"))


def _absolute(base: str, href: str, encoding: str) -> str:
    """`href` resolved against `base` and percent-encoded as a browser does it, the query in the page's `encoding`."""
    link = _without_blanks(href)
    if _OTHER_SCHEME.match(link):
        return link
    try:
        scheme, host, path, query, fragment = _join(_parts(base), _parts(link))
        query = _encoded(query, "utf-8" if encoding.startswith(_WIDE) else encoding)
        url = clean_url(f"{scheme}://{host}{_without_dots(path)}{query}{_encoded(fragment, 'utf-8')}")
    except ValueError as error:
        raise ValueError(f"{_short(href)} is not a valid URL: {error}") from error
    if not _VALID.match(url):
        raise ValueError(f"{_short(href)} is not a valid URL: no valid host in {_short(url)}")
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


def _href(link: str | Selector) -> str:
    """The address in a link given as text, as an element with an href, or as the selector of an attribute."""
    if isinstance(link, str):
        return link
    if not isinstance(link, Selector):
        raise TypeError(f"page.follow wants one link, not {_short(link)}; did the selector find none, or several?")
    if isinstance(link.root, str):
        return link.root
    try:
        return link.attrib["href"]
    except KeyError:
        raise ValueError(f"page.follow: <{link.root.tag}> has no href") from None


def _short(value: object) -> str:
    """For messages: repr, at most 200 characters (data: links run to megabytes)."""
    text = repr(value)
    return text if len(text) <= 200 else text[:199] + "…"
