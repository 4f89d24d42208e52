"""Which task comes next: the names in origin/, in natural order, without holding them all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from stateful_crawler.workdir import Workdir

WINDOW = 20_000
_DIGITS = re.compile(r"([0-9]+)")


def natural_key(name: str) -> list[str | int]:
    """Sorts 2 before 10: text and numbers in turn."""
    return [int(part) if i % 2 else part for i, part in enumerate(_DIGITS.split(name))]


class Frontier:
    """The names in origin/, in natural order within a window that is looked at, not claimed: memory stays flat.

    One scan of the folder serves many windows; the next scan is made only when someone asks again.
    """

    def __init__(self, workdir: Workdir, wanted: Callable[[str], bool] = lambda _: True, window: int = WINDOW) -> None:
        self._workdir, self._wanted, self._window_size = workdir, wanted, window
        self._scan: Iterator[str] | None = workdir.names("origin")
        self._window: list[str] = []

    def next_name(self) -> str | None:
        """The next name to claim, or None at the end of a scan of origin/; the call after that begins a new one.

        The None between two scans keeps a name that can't be claimed from being tried again and again without a pause.
        """
        if not self._window and not self._refill():
            self._scan = self._workdir.names("origin")
            return None
        return self._window.pop()

    def ahead(self) -> int:
        """How many names are still to come, as far as the folder shows now."""
        if not self._window:
            self._refill()
        if self._scan is None:
            return len(self._window)
        return sum(1 for name in self._workdir.names("origin") if self._wanted(name))

    def _refill(self) -> bool:
        taken = []
        for name in self._scan or ():
            if self._wanted(name):
                taken.append(name)
                if len(taken) == self._window_size:
                    break
        else:
            self._scan = None
        self._window = sorted(taken, key=natural_key, reverse=True)
        return bool(taken)
