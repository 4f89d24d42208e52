"""A bookshop: a hundred listing pages of twenty books and a page for each book; a few are slow, a few fail once.

The books are made from word lists by plain arithmetic, so they need no data file and never change.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from html import escape
from string import Template
from typing import NamedTuple

from stateful_crawler.sites.server import NOT_FOUND, Response

ABOUT = "100 listing pages of 20 books each; a few are slow, a few fail once"
PAGES, PER_PAGE = 100, 20
SLOW = frozenset({13, 37, 61})
SLOW_S = 0.3
FAIL_ONCE = frozenset({7, 42, 77})

ADJECTIVES = (
    *("Amber", "Borrowed", "Cloudless", "Distant", "Forgotten", "Half-Lit"),
    *("Left-Handed", "Patient", "Salt-White", "Second", "Unsent", "Winter"),
)
NOUNS = (
    *("Atlas", "Baker's Almanac", "Cartographer", "Ferry & Lantern", "Gardener", "Harbour", "Inkwell", "Kites"),
    *("Lighthouse", "Map of Rain", "Orchard", "Piano Tuner", "River", "Tea House", "Weathervane"),
)
PLACES = (
    *("Aarø", "Cádiz Street", "Dunmere", "Eastlake", "Føhnholm", "Göttern"),
    *("Ístafjall", "Kirkwell", "Łąka", "Old Sørby", "Tollgate", "Zürau"),
)
TITLES = (
    "The {0} {1} of {2}",
    "{2}, or the {0} {1}",
    "{0} {1}: A Year in {2}",
    "Letters from {2} to the {0} {1}",
    "No {0} {1} in {2}",
)
HEROES = ("A clerk who counts trains", "The younger of two sisters", "A town with one telephone", "A choir of six")
TURNS = ("finds a ledger in the snow", "must choose before the tide", "learns to keep bees", "misses the last ferry")
VOICES = ("Told in postcards.", "A quiet, funny first novel.", "With maps by the author.", "For readers of any age.")
STEP = 1009  # prime, and larger than a shelf: neighbours share few words


class Book(NamedTuple):
    """What the shop knows of one book; `price` is in pounds, `rating` in stars."""

    number: int
    title: str
    price: str
    rating: int
    in_stock: bool
    blurb: str


def book(number: int) -> Book:
    """Book `number` of 1 to 2000; no two have the same title, as STEP visits every combination of words once."""
    rest, adjective = divmod(number * STEP, len(ADJECTIVES))
    rest, noun = divmod(rest, len(NOUNS))
    title = TITLES[number % 5].format(ADJECTIVES[adjective], NOUNS[noun], PLACES[rest % len(PLACES)])
    pence = 499 + number * 1237 % 4500
    blurb = f"{HEROES[number % 4]} {TURNS[number // 4 % 4]}. {VOICES[number // 16 % 4]}"
    return Book(number, title, f"{pence // 100}.{pence % 100:02}", 1 + number * 7 % 5, number % 9 != 0, blurb)


def books_of(page: int) -> list[Book]:
    """The twenty books of listing page 1 to 100, in order."""
    return [book(number) for number in range((page - 1) * PER_PAGE + 1, page * PER_PAGE + 1)]


def respond(path: str, query: Mapping[str, str], visit: int) -> Response:
    kind, _, number = path[1:].partition("/")
    if path == "/catalogue":
        return _catalogue(query.get("page", "1"), visit)
    if kind == "book" and _between(number, PAGES * PER_PAGE):
        return Response(_book_page(int(number)))
    if path == "/broken":
        return Response(b"<!DOCTYPE html><title>Oops</title><h1>The till is on fire</h1>\n", status=500)
    if path == "/":
        return Response(_page("Welcome", '<p><a href="catalogue?page=1">All our books</a></p>'))
    return NOT_FOUND


def _catalogue(number: str, visit: int) -> Response:
    if not _between(number, PAGES):
        return NOT_FOUND
    page = int(number)
    if page in FAIL_ONCE and visit == 1:
        return Response(b"<!DOCTYPE html><title>Busy</title><h1>Please come back in a moment</h1>\n", status=503)
    return Response(_listing(page), delay_s=SLOW_S if page in SLOW else 0.0)


def _between(number: str, last: int) -> bool:
    return number.isascii() and number.isdigit() and 1 <= int(number) <= last


@cache
def _listing(page: int) -> bytes:
    shelf = "".join(_card(item) for item in books_of(page))
    previous = f'<a rel="prev" href="catalogue?page={page - 1}">previous</a> ' if page > 1 else ""
    following = f' <a rel="next" href="catalogue?page={page + 1}">next</a>' if page < PAGES else ""
    pager = f'<nav class="pager">{previous}page {page} of {PAGES}{following}</nav>'
    return _page(f"All books, page {page}", f'<div class="shelf">\n{shelf}</div>\n{pager}')


def _book_page(number: int) -> bytes:
    card = _card(book(number)).replace('href="book/', 'href="')
    return _page(book(number).title, f'{card}<p class="sku">Shop number {number:06}</p><p><a href="../">Home</a></p>')


def _card(item: Book) -> str:
    return CARD.substitute(
        item._asdict(),
        title=escape(item.title),
        hue=item.number * 47 % 360,
        stars="★" * item.rating + "☆" * (5 - item.rating),
        stock="In stock" if item.in_stock else "Sold out",
    )


def _page(title: str, content: str) -> bytes:
    return SHELL.substitute(title=escape(title), content=content).encode()


CARD = Template("""\
<article class="book" id="book-$number" itemscope itemtype="https://schema.org/Book">
  <a class="cover" href="book/$number" aria-label="Cover of $title">
    <svg viewBox="0 0 2 3" width="120"><rect width="2" height="3" fill="hsl($hue 40% 60%)"></rect></svg>
  </a>
  <h3><a href="book/$number" title="$title" itemprop="name">$title</a></h3>
  <p class="rating" data-rating="$rating" aria-label="$rating of 5 stars">$stars</p>
  <p class="blurb" itemprop="description">$blurb</p>
  <p class="price">&pound;$price</p>
  <p class="stock">$stock</p>
  <form method="post" action="basket">
    <input type="hidden" name="book" value="$number"><button>Add to basket</button>
  </form>
</article>
""")
SHELL = Template("""\
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>$title | The Corner Bookshop</title>
<style>
body { font: 1rem/1.5 Georgia, serif; margin: 2rem auto; max-width: 60rem }
.shelf { display: grid; grid-template-columns: repeat(auto-fill, minmax(13rem, 1fr)); gap: 1.5rem }
.rating { color: #b8860b } .price { font-weight: bold } .stock { color: #2e7d32 }
</style></head>
<body>
<header><h1>$title</h1></header>
<main>
$content
</main>
<footer><p>The Corner Bookshop is invented, and so is every book in it.</p></footer>
</body>
</html>
""")
