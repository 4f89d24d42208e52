"""The parser's processes, seen from the crawl: pages in, outcomes out; the only place that meets pebble.

Pages go to a process in batches, as large as the backlog makes them: one call costs 0.24 ms, more than half a page's
parsing. When a process dies or hangs, only the page that it was at is charged; the rest of its batch is parsed anew.
"""

from __future__ import annotations

import collections
import concurrent.futures
import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing import forkserver, resource_tracker, sharedctypes, synchronize
from multiprocessing.context import ForkServerContext
from typing import Any

import pebble

from stateful_crawler import worker
from stateful_crawler.errors import EnvironmentFault, PluginError
from stateful_crawler.plugins import Plugin
from stateful_crawler.record import Outcome
from stateful_crawler.workdir import Claim

MAX_BATCH = 16
BATCHES_A_PROCESS = 2
NOT_BEGUN = -1
# The kernel's timer ends a page that hangs; this is for one whose code has switched that timer off.
BACKSTOP_S = 10.0

_Future = concurrent.futures.Future[list[Outcome]]


class Parser:
    """A pool of parser processes. `submit` pages, `dispatch` what waits, collect `done` when `wake_fd` can be read."""

    def __init__(self, root: str, plugin: Plugin, *, workers: int, timeout_s: float) -> None:
        self._plugin, self._timeout_s = plugin, timeout_s
        context = self._context = _Context()
        # Loaded once, in the server that all workers are forked from: lxml and parsel take 0.1 s.
        context.set_forkserver_preload(["stateful_crawler.worker"])
        _start_servers()
        slots = workers * BATCHES_A_PROCESS
        self._places = sharedctypes.RawArray("i", slots)
        self._free = list(range(slots))
        self._pool = pebble.ProcessPool(
            max_workers=workers,
            initializer=worker.set_up,
            initargs=[root, plugin, timeout_s, self._places],
            context=context,
        )
        self._waiting: collections.deque[Claim] = collections.deque()
        self._batches: dict[int, list[Claim]] = {}
        self._under_way: dict[int, _Future] = {}
        self._deadlines: dict[int, float] = {}
        self._ended: collections.deque[tuple[int, _Future]] = collections.deque()
        self._stillborn = 0
        self._doubtful: set[str] = set()
        self.wake_fd, self._wake = os.pipe()
        os.set_blocking(self.wake_fd, False)
        os.set_blocking(self._wake, False)

    def check(self) -> str:
        """Load the plugin in a process; the digest of its code. Raises PluginError where it can't be loaded."""
        try:
            digest: str = self._pool.schedule(worker.check).result(self._timeout_s + BACKSTOP_S)
        except (concurrent.futures.TimeoutError, pebble.ProcessExpired) as error:
            took = f"it took over {self._timeout_s:g} s"
            why = took if _hung(error) else f"the process ended with {_exit_words(error)}"
            raise PluginError(self._plugin.path, f"can't be loaded: {why}") from None
        return digest

    @property
    def backlog(self) -> int:
        """Pages submitted whose outcome has not been collected."""
        return len(self._waiting) + sum(len(claims) for claims in self._batches.values())

    def submit(self, claim: Claim) -> None:
        """Queue a page; `dispatch` sends it on."""
        self._waiting.append(claim)

    def dispatch(self) -> None:
        """Send what waits to processes that have room, spread evenly."""
        while self._waiting and self._free:
            size = min(MAX_BATCH, -(-len(self._waiting) // len(self._free)))
            size = 1 if self._waiting[0].name in self._doubtful else size
            self._send([self._waiting.popleft() for _ in range(size)])

    def done(self) -> list[tuple[Claim, Outcome]]:
        """The outcomes since the last call; raises EnvironmentFault where the machine failed a process."""
        self._drain()
        self._cancel_the_stuck()
        outcomes: list[tuple[Claim, Outcome]] = []
        while self._ended:
            place, future = self._ended.popleft()
            claims = self._batches.pop(place)
            self._free.append(place)
            del self._under_way[place]
            self._deadlines.pop(place, None)
            outcomes += self._collect(place, claims, future)
        return outcomes

    def withdraw(self) -> list[Claim]:
        """Take back what no process has yet begun."""
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting

    def close(self) -> None:
        """End all processes at once, whatever they are at."""
        self._pool.stop()  # type: ignore[no-untyped-call]  # pebble has not typed this one
        self._pool.join()
        os.close(self.wake_fd)
        os.close(self._wake)

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _send(self, claims: list[Claim]) -> None:
        place = self._free.pop()
        self._places[place] = NOT_BEGUN
        self._batches[place] = claims
        names = [claim.name for claim in claims]
        future = self._under_way[place] = self._pool.schedule(worker.parse_batch, args=[place, names])
        future.add_done_callback(self._note_end(place))

    def _note_end(self, place: int) -> Callable[[Any], None]:
        """Runs in pebble's thread: leave the future for the crawl's thread and wake it."""

        def note(future: _Future) -> None:
            self._ended.append((place, future))
            try:
                os.write(self._wake, b".")
            except OSError:  # the pipe is full of wake-ups already, or closed with the crawl
                return

        return note

    def _cancel_the_stuck(self) -> None:
        """End batches that run far longer than they may.

        By our clock and not by pebble's own time limit: that goes by the clock on the wall, and where it is put forward
        by an hour all that is being parsed would have taken an hour.
        """
        now = time.monotonic()
        for place, future in list(self._under_way.items()):
            if future.running():
                limit_s = self._timeout_s * len(self._batches[place]) + BACKSTOP_S
                if now > self._deadlines.setdefault(place, now + limit_s):
                    future.cancel()

    def _drain(self) -> None:
        try:
            while os.read(self.wake_fd, 4096):
                pass
        except BlockingIOError:
            return

    def _collect(self, place: int, claims: list[Claim], future: _Future) -> list[tuple[Claim, Outcome]]:
        try:
            outcomes = future.result()
        except (concurrent.futures.CancelledError, pebble.ProcessExpired) as error:
            died = Outcome("parse", False, "crash-parse", f"the parser's process ended with {_exit_words(error)}")
            return self._charge(place, claims, self._too_long() if _hung(error) else died)
        self._stillborn = 0
        return list(zip(claims, outcomes, strict=True))

    def _charge(self, place: int, claims: list[Claim], outcome: Outcome) -> list[tuple[Claim, Outcome]]:
        """The page that was under way gets the outcome; the others of its batch go back to the head of the queue."""
        at = self._places[place]
        if at == len(claims) and at > 1:
            # All were parsed, but one broke the process in passing (closed its pipe, say): each alone will show which.
            self._doubtful.update(claim.name for claim in claims)
            self._waiting.extendleft(reversed(claims))
            return []
        if at == NOT_BEGUN:
            self._stillborn += 1
            if self._stillborn > 5:
                raise EnvironmentFault(
                    "parser processes die before they begin:", self._plugin.path, hint=outcome.detail
                )
            self._waiting.extendleft(reversed(claims))
            return []
        charged = claims[min(at, len(claims) - 1)]
        self._waiting.extendleft(claim for claim in reversed(claims) if claim is not charged)
        return [(charged, outcome)]

    def _too_long(self) -> Outcome:
        return Outcome("parse", False, "timeout-parse", f"parse() took over {self._timeout_s:g} s")


class _Context(ForkServerContext):
    """Keeps the pool's locks as long as itself. The pool drops them before it ends its processes: one that is still
    starting would not find them and show a traceback."""

    def __init__(self) -> None:
        self._kept: list[object] = []

    def RLock(self) -> synchronize.RLock:  # noqa: N802 - its base's name
        lock = super().RLock()
        self._kept.append(lock)
        return lock


def _start_servers() -> None:
    """Start multiprocessing's own processes: the one that workers are forked from, and the one that tidies up.

    They must import nothing from the folder that we stand in: a json.py or signal.py that lies there would take the
    place of the standard library's. A worker takes the variable out again (`worker.set_up`), for the programs that the
    user's code may start. And the end of a terminal must not end them: the crawl decides. Without that the one that
    tidies up is missed, and started anew with a warning and a traceback.
    """
    before = os.environ.get(worker.SAFE_PATH)
    os.environ[worker.SAFE_PATH] = before or worker.OURS
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # it goes over to what is started now
    try:
        _start_quiet_tracker()
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if before is None:
            del os.environ[worker.SAFE_PATH]


def _hung(error: Exception) -> bool:
    stuck = (concurrent.futures.TimeoutError, concurrent.futures.CancelledError)
    return isinstance(error, stuck) or getattr(error, "exitcode", None) == -signal.SIGALRM


def _start_quiet_tracker() -> None:
    """Start the process that tidies up after multiprocessing, told not to talk about it.

    Without this, a crawl that is killed ends with its warning of "leaked semaphore objects" on the user's terminal.
    """
    quiet = "ignore::UserWarning:multiprocessing.resource_tracker"
    sys.warnoptions.append(quiet)  # it gets our own -W options
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.remove(quiet)


def _exit_words(error: Exception) -> str:
    code = getattr(error, "exitcode", None)
    if isinstance(code, int) and code < 0:
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:
            return f"signal {-code}"
    return f"exit code {0 if code == 70 else code}"
