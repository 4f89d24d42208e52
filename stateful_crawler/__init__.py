"""stateful-crawler: a crawl is a folder. Every page is one curl config file; the directory it lies in is its state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stateful_crawler._version import __version__

if TYPE_CHECKING:
    from stateful_crawler.task import Task

__all__ = ["Task", "__version__"]


def __getattr__(name: str) -> object:
    """`from stateful_crawler import Task` for plugins, without making every import of the package pay for it."""
    if name == "Task":
        from stateful_crawler.task import Task

        return Task
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
