"""The quotes of a page, and a task for the page that it names as the next one."""


def parse(page):
    """One item for each quote; the last page has no `next` link, and so the crawl ends."""
    for quote in page.css("blockquote"):
        yield {
            "text": quote.css(".text::text").get(),
            "author": quote.css("cite::text").get(),
            "tags": quote.css(".tag::text").getall(),
        }
    for href in page.css("a[rel=next]::attr(href)").getall():
        yield page.follow(href)
