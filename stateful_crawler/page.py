"""A saved page as the user's parser sees it: text in the right encoding, selectors, JSON, links to follow.

Pure: nothing here reads the disk or the network; the worker hands in what it has read, and what `follow` is to make.
The only importer of parsel.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from re import Pattern
from typing import Any, overload

from lxml import etree, html
from parsel import Selector, SelectorList

from stateful_crawler.charset import Reading, Source, given_codec, read, read_as
from stateful_crawler.links import absolute, is_http, short
from stateful_crawler.urls import without_blanks


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
        self._given = None if encoding is None else given_codec(encoding)
        self._follow = follow

    def __repr__(self) -> str:
        return f"<Page {self.name or '-'} {self.status} {self.url}>"

    @cached_property
    def _reading(self) -> Reading:
        if self._given is None:
            return read(self.body, self.headers.get("content-type", ""))
        return read_as(self.body, self._given)

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

    @property
    def was_read(self) -> bool:
        """Whether anything has needed the text: of a page that nobody read, the encoding is not worth finding out."""
        return "_reading" in self.__dict__

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
            base = self.url if href is None else absolute(self.url, href, self.encoding)
        except ValueError:
            return self.url
        return base if is_http(base) else self.url

    def urljoin(self, href: str) -> str:
        """The absolute URL of a link as a browser would ask for it; mailto: and the like come back as they are.

        Raises ValueError where there is no valid URL in it.
        """
        return absolute(self._base, href, self.encoding)

    def follow(self, href: str | Selector, **options: object) -> object:
        """A new task for a link, to be yielded: `href` as text, or the selector of an <a> or of its ::attr(href).

        `options` are `name`, `meta` and curl options, written with underscores or (**{"max-time": "5"}) dashes.
        Raises ValueError, naming the link, where it leads to no other page over http or https.
        """
        if self._follow is None:
            raise RuntimeError("page.follow makes tasks in a crawl only: this Page was built without follow=")
        link = _href(href)
        if without_blanks(link)[:1] in ("", "#"):
            raise ValueError(f"page.follow({short(link)}): the link leads to no other page")
        url = self.urljoin(link)
        if not is_http(url):
            raise ValueError(f"page.follow({short(link)}): only http and https links can be followed")
        return self._follow(url, options)


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


def _href(link: str | Selector) -> str:
    """The address in a link given as text, as an element with an href, or as the selector of an attribute."""
    if isinstance(link, str):
        return link
    if not isinstance(link, Selector):
        raise TypeError(f"page.follow wants one link, not {short(link)}; did the selector find none, or several?")
    if isinstance(link.root, str):
        return link.root
    try:
        return link.attrib["href"]
    except KeyError:
        raise ValueError(f"page.follow: <{link.root.tag}> has no href") from None
