"""The articles of a Chinese paper. Nothing here is about charsets: a page arrives decoded, whatever its label said."""


def parse(page):
    """The front page gives a task for each article, and an article page gives one item."""
    for href in page.css(".news a::attr(href)").getall():
        yield page.follow(href)
    for article in page.css("article"):
        yield {
            "day": article.css("time::text").get(),
            "title": article.css("h1::text").get(),
            "reporter": article.css(".reporter::text").get(),
            "text": article.css(".text p::text").getall(),
        }
