"""`crawlee_books URL COUNT`: crawlee's ParselCrawler over pages 1 to COUNT with the benchmark's parser, into items.json.

Storage in memory is crawlee's fastest documented setting; unlike sc and Scrapy with a JOBDIR it could not be resumed.
"""

from __future__ import annotations

import asyncio
import sys

from crawlee import ConcurrencySettings
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import MemoryStorageClient

from benchmarks import pages
from benchmarks.plugins.parser import parse


async def main(site_url: str, page_count: int) -> None:
    crawler = ParselCrawler(
        concurrency_settings=ConcurrencySettings(min_concurrency=10, max_concurrency=10, desired_concurrency=10),
        storage_client=MemoryStorageClient(),
        max_request_retries=0,
        use_session_pool=False,
        retry_on_blocked=False,
        configure_logging=False,
    )

    @crawler.router.default_handler
    async def handle(context: ParselCrawlingContext) -> None:
        await context.push_data(list(parse(context.selector)))

    await crawler.run([site_url + pages.path(number) for number in range(1, page_count + 1)])
    await crawler.export_data("items.json")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
