"""The tasks of the benchmark site's pages FIRST to LAST."""

from __future__ import annotations

from collections.abc import Iterator


def create(first: int, last: int, url: str) -> Iterator[dict[str, str]]:
    for number in range(first, last + 1):
        yield {"url": f"{url}/page/{number:06d}", "name": str(number)}
