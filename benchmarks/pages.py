"""The benchmark site's pages: 15,000 bytes, twenty books, and their number in them: a saved page proves itself."""

from __future__ import annotations

from collections.abc import Iterator

PAGE_BYTES = 15_000
ITEMS_PER_PAGE = 20
DISTINCT_PAGES = 10_000
"""Page n shows the content of page n modulo this: 100,000 tasks don't need 1.5 GB of served files."""

_RATINGS = ("One", "Two", "Three", "Four", "Five")
_HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Page {number} | The benchmark bookshop</title>
<link rel="stylesheet" href="/static/shop.css">
<script src="/static/shop.js" defer></script>
</head>
<body id="default" class="default">
<header class="header container-fluid"><a href="/">The benchmark bookshop</a> <small>all prices made up</small></header>
<ol class="row">
"""
_BOOK = """<li class="col-xs-6 col-sm-4">
<article class="product_pod">
<div class="image_container"><a href="{href}"><img src="/media/{serial}.jpg" alt="{title}" class="thumbnail"></a></div>
<p class="star-rating {rating}"><i class="icon-star"></i><i class="icon-star"></i></p>
<h3><a href="{href}" title="{title}">{title}</a></h3>
<div class="product_price">
<p class="price_color">{price}</p>
<p class="instock availability"><i class="icon-ok"></i> In stock</p>
<form><button type="submit" class="btn">Add to basket</button></form>
</div>
</article>
</li>
"""
_FOOT = """</ol>
<ul class="pager"><li class="current">Page {number}</li><li class="next"><a href="{next}">next</a></li></ul>
<footer><p></p></footer>
</body>
</html>
"""


def path(number: int) -> str:
    """The URL path of page `number` (1 to 999,999)."""
    return f"/page/{number:06d}"


def slot(number: int) -> int:
    """Which of the distinct pages is served under `number`; nginx takes it from the last four digits."""
    return number % DISTINCT_PAGES


def books(number: int) -> Iterator[dict[str, str]]:
    """What a right parser finds on page `number`, made without one."""
    first = slot(number) * ITEMS_PER_PAGE
    for serial in range(first, first + ITEMS_PER_PAGE):
        yield {"title": f"The Chronicle of Volume {serial}", "price": f"£{serial % 90 + 9}.{serial % 100:02d}"}


def body(number: int) -> bytes:
    """The bytes that the site serves as page `number`."""
    page = slot(number)
    rows = "".join(
        _BOOK.format(**book, serial=serial, href=f"/catalogue/volume-{serial}/index.html", rating=_RATINGS[serial % 5])
        for serial, book in enumerate(books(number), page * ITEMS_PER_PAGE)
    )
    bare = _HEAD.format(number=page) + rows + _FOOT.format(number=page, next=path(page + 1))
    padding = "terms privacy delivery returns gift-cards " * 100
    return bare.replace("<p></p>", f"<p>{padding[: PAGE_BYTES - len(bare.encode())]}</p>").encode()
