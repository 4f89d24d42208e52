"""`crawlee_books URL COUNT memory|files`: crawlee's ParselCrawler over pages 1 to COUNT with the benchmark's parser.

The items are exported to items.json. Storage in memory is crawlee's fastest documented setting, but such a crawl can't
be resumed; storage in files is its default, and can, as sc's and Scrapy's with a JOBDIR.
"""

from __future__ import annotations

import asyncio
import sys

from crawlee import ConcurrencySettings  # type: ignore[import-not-found, unused-ignore]
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext  # type: ignore[import-not-found, unused-ignore]
from crawlee.storage_clients import FileSystemStorageClient, MemoryStorageClient  # type: ignore[import-not-found, unused-ignore]

from benchmarks import pages
from benchmarks.plugins.parser import parse


async def main(site_url: str, page_count: int, storage: str) -> None:
    crawler = ParselCrawler(
        concurrency_settings=ConcurrencySettings(min_concurrency=10, max_concurrency=10, desired_concurrency=10),
        storage_client=MemoryStorageClient() if storage == "memory" else FileSystemStorageClient(),
        max_request_retries=0,
        use_session_pool=False,
        retry_on_blocked=False,
        configure_logging=False,
    )

    @crawler.router.default_handler  # type: ignore[untyped-decorator, unused-ignore]
    async def handle(context: ParselCrawlingContext) -> None:
        await context.push_data(list(parse(context.selector)))

    await crawler.run([site_url + pages.path(number) for number in range(1, page_count + 1)])
    await crawler.export_data("items.json")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
