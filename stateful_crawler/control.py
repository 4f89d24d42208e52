"""What goes into a run and what comes out of it: its settings, its tally, and the wish that it end."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from stateful_crawler.fetch import Limits
from stateful_crawler.plugins import Plugin
from stateful_crawler.reasons import Reason


@dataclass(frozen=True, slots=True)
class CrawlSettings:
    """How one run is to go. `parser` None means: fetch only. `names` None means: all tasks."""

    limits: Limits = field(default_factory=Limits)
    retries: int = 2
    parser: Plugin | None = None
    workers: int = 1
    parse_timeout_s: float = 60.0
    refetch: bool = False
    names: frozenset[str] | None = None


@dataclass(slots=True)
class Tally:
    """What a run has done so far; the caller of `crawl` may look at it at any time."""

    total: int = 0
    claimed: int = 0
    succeeded: int = 0
    failed: int = 0
    fetched: int = 0
    items: int = 0
    found: int = 0
    empty: int = 0
    put_back: int = 0
    taken_back: int = 0
    connections: int = 0
    waiting: int = 0
    parsing: int = 0
    insecure: int = 0
    stopped: bool = False
    reasons: Counter[Reason] = field(default_factory=Counter)
    left_alone: dict[str, str] = field(default_factory=dict)
    # Name, reason and detail of what failed since the watch was last told.
    newly_failed: list[tuple[str, Reason, str]] = field(default_factory=list)

    @property
    def done(self) -> int:
        """Tasks that this run has settled."""
        return self.succeeded + self.failed


# Is told how a run goes, a few times a second.
Watch = Callable[[Tally], None]


class Stop:
    """A wish, from a signal handler or another thread, that the run end; wakes it at once."""

    def __init__(self) -> None:
        self.requested = False
        self.fd, self._write = os.pipe()
        os.set_blocking(self._write, False)

    def request(self) -> None:
        """Ask the run to end. Safe in a signal handler."""
        self.requested = True
        with contextlib.suppress(OSError):
            os.write(self._write, b".")

    def acknowledge(self) -> None:
        """Take the wake-up out of the pipe: what waits on it may sleep again."""
        os.read(self.fd, 1024)

    def close(self) -> None:
        """Give the pipe back."""
        os.close(self.fd)
        os.close(self._write)
