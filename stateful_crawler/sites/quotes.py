"""A hundred quotes on ten pages; each page names the next one, and only the last doesn't."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from string import Template
from typing import NamedTuple

from stateful_crawler.sites.server import NOT_FOUND, Response

ABOUT = "10 pages of 10 quotes each; every page links to the next"
PAGES, PER_PAGE = 10, 10

SUBJECTS = ("Patience", "Doubt", "Curiosity", "Silence", "Work", "Memory", "Hope", "Rest", "Laughter", "Bread")
ENDINGS = (
    ("is a door that opens inwards.", "doors"),
    ("costs nothing & pays the rent.", "money"),
    ("never asked anyone for a map.", "travel"),
    ("is what the river teaches the stone.", "nature"),
    ("keeps better when it is shared.", "friends"),
    ("looks smaller from the ferry.", "travel"),
    ("has no use for the word “tomorrow”.", "time"),
    ("grows in the corner that nobody sweeps.", "home"),
    ("is late, but brings its own chair.", "time"),
    ("fits in a pocket if you fold it twice.", "home"),
)
AUTHORS = ("Ana Květa", "Bo Lind-Mbeki", "Ciarán Ó Duinn", "Dalisay Reyes", "Emre Öztaş", "Fatou N'Diaye", "青山 渡")


class Quote(NamedTuple):
    text: str
    author: str
    tags: tuple[str, ...]


def quotes_of(page: int) -> list[Quote]:
    """The ten quotes of page 1 to 10, in order: every subject once, each with another ending on every page."""
    return [_quote(page, subject) for subject in range(PER_PAGE)]


def _quote(page: int, subject: int) -> Quote:
    ending, tag = ENDINGS[(subject + page) % len(ENDINGS)]
    author = AUTHORS[(page * PER_PAGE + subject) % len(AUTHORS)]
    return Quote(f"{SUBJECTS[subject]} {ending}", author, (SUBJECTS[subject].lower(), tag))


def respond(path: str, _query: Mapping[str, str], _visit: int) -> Response:
    addresses = {_address(page): page for page in range(1, PAGES + 1)}
    return Response(_page(addresses[path])) if path in addresses else NOT_FOUND


def _address(page: int) -> str:
    return "/" if page == 1 else f"/page/{page}/"


def _page(page: int) -> bytes:
    previous = f'<a rel="prev" href="/quotes{_address(page - 1)}">back</a>' if page > 1 else ""
    following = f'<a rel="next" href="/quotes{_address(page + 1)}">more</a>' if page < PAGES else ""
    quotes = "".join(_block(quote) for quote in quotes_of(page))
    return SHELL.substitute(page=page, quotes=quotes, previous=previous, following=following).encode()


def _block(quote: Quote) -> str:
    tags = " ".join(f'<a class="tag" href="/quotes/">{escape(tag)}</a>' for tag in quote.tags)
    return BLOCK.substitute(text=escape(quote.text), author=escape(quote.author), tags=tags)


BLOCK = Template("""\
<blockquote>
  <p class="text">$text</p>
  <footer>said <cite>$author</cite></footer>
  <p class="tags">$tags</p>
</blockquote>
""")
SHELL = Template("""\
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>Quotes nobody said, page $page</title></head>
<body>
<h1>Quotes nobody said</h1>
$quotes<nav>$previous $following</nav>
</body>
</html>
""")
