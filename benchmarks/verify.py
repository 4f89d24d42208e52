"""Digests of what a run saved, against those of what it should have saved."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks import pages
from benchmarks.measure import RunFailedError


def saved_pages(folder: Path, count: int) -> str:
    """The digest of `folder`/1.html to `folder`/`count`.html; it must be the site's, and nothing else may lie there."""
    counted(folder, count)
    try:
        digest = page_digest((folder / f"{number}.html").read_bytes() for number in range(1, count + 1))
    except FileNotFoundError as error:
        raise RunFailedError(f"{error.filename} was not saved") from error
    return same(digest, served_pages(count), f"{count} pages")


def saved_items(lines: Iterable[str], count: int) -> str:
    """The digest of items (JSON, one a line, in any order); they must be the books of pages 1 to `count`."""
    items = [json.loads(line) for line in lines if line.strip()]
    expected_count = count * pages.ITEMS_PER_PAGE
    if len(items) != expected_count:
        raise RunFailedError(f"{len(items)} items instead of {expected_count}")
    return same(_item_digest(items), _expected_items(count), f"{expected_count} items")


def counted(folder: Path, count: int) -> str:
    """`count` files must lie in the folder; names with a leading dot don't count."""
    found = sum(not name.startswith(".") for name in os.listdir(folder)) if folder.is_dir() else 0
    if found != count:
        raise RunFailedError(f"{found} files in {folder.name}/ instead of {count}")
    return f"{count} files"


def lines_of(folder: Path) -> Iterator[str]:
    """All lines of all files of a folder."""
    for entry in os.scandir(folder):
        with open(entry.path, encoding="utf-8") as file:
            yield from file


def same(digest: str, expected: str, what: str) -> str:
    if digest != expected:
        raise RunFailedError(f"{what}, but not the right ones: {digest} instead of {expected}")
    return f"{what} {digest}"


def page_digest(bodies: Iterable[bytes]) -> str:
    """Of bodies in the order of their page numbers."""
    digest = hashlib.blake2b(digest_size=4)
    for body in bodies:
        digest.update(body)
    return digest.hexdigest()


@functools.cache
def served_pages(count: int) -> str:
    return page_digest(map(pages.body, range(1, count + 1)))


@functools.cache
def _expected_items(count: int) -> str:
    return _item_digest(book for number in range(1, count + 1) for book in pages.books(number))


def _item_digest(items: Iterable[dict[str, str]]) -> str:
    ordered = sorted(json.dumps(item, sort_keys=True) for item in items)
    return hashlib.blake2b("\n".join(ordered).encode(), digest_size=4).hexdigest()
