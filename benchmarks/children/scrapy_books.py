"""`scrapy_books URL COUNT pages|items`: Scrapy over pages 1 to COUNT with a JOBDIR, in the current directory.

`pages` saves each page as html/NUMBER.html, `items` runs the benchmark's parser into items.jsonl. The settings are
those that Scrapy's documentation names for speed (broad crawls: log level; cookies, retries, redirects off; uvloop).
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy  # type: ignore[import-not-found, unused-ignore]
from scrapy.crawler import CrawlerProcess  # type: ignore[import-not-found, unused-ignore]

from benchmarks import pages
from benchmarks.plugins.parser import parse

SETTINGS: dict[str, Any] = {
    "JOBDIR": "job",
    "CONCURRENT_REQUESTS": 10,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 10,
    "DOWNLOAD_DELAY": 0,
    "AUTOTHROTTLE_ENABLED": False,
    "ROBOTSTXT_OBEY": False,
    "COOKIES_ENABLED": False,
    "RETRY_ENABLED": False,
    "REDIRECT_ENABLED": False,
    "METAREFRESH_ENABLED": False,
    "HTTPPROXY_ENABLED": False,
    "REFERER_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "MEMUSAGE_ENABLED": False,
    "LOGSTATS_INTERVAL": 0,
    "LOG_LEVEL": "ERROR",
}
FEED = {"FEEDS": {"items.jsonl": {"format": "jsonlines"}}}


class Books(scrapy.Spider):  # type: ignore[misc, unused-ignore]
    name = "books"
    site_url = ""
    page_count = 0

    async def start(self) -> AsyncIterator[Any]:
        for number in range(1, self.page_count + 1):
            yield scrapy.Request(self.site_url + pages.path(number))

    def parse(self, response: Any) -> Iterator[dict[str, str]]:
        yield from parse(response)


class SavedPages(Books):
    def parse(self, response: Any) -> Iterator[dict[str, str]]:
        with open(f"html/{int(response.url[-6:])}.html", "wb") as file:
            file.write(response.body)
        return iter(())


def main(site_url: str, page_count: int, what: str) -> None:
    settings, spider = (SETTINGS, SavedPages) if what == "pages" else ({**SETTINGS, **FEED}, Books)
    if importlib.util.find_spec("uvloop"):
        settings = {**settings, "ASYNCIO_EVENT_LOOP": "uvloop.Loop"}
    process = CrawlerProcess(settings)
    process.crawl(spider, site_url=site_url, page_count=page_count)
    process.start()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
