"""What to take out of a page: each dict that parse() yields becomes a line of parsed/NAME.jsonl."""


def parse(page):
    """One item for each book; a link worth following would be `yield page.follow(href)`."""
    for book in page.css("article.book"):
        yield {
            "page": page.meta.get("page"),  # what create.py put there
            "title": book.css("h3 a::text").get(),
            "price": float(book.css(".price::text").re_first(r"[\d.]+")),
            "rating": int(book.css(".rating").attrib["data-rating"]),
            "in_stock": book.css(".stock::text").get() == "In stock",
            "url": page.urljoin(book.css("h3 a").attrib["href"]),
        }
