"""The story of a crawl, from top to bottom: claim, fetch, save, parse, settle, until origin/ is dry.

`crawl`, `retry` and `reparse` differ in which tasks they claim; what then happens to a task is told once, in `_Run`.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import Literal, Protocol

from stateful_crawler import plugins, retries
from stateful_crawler.errors import NameTaken, TaskFileError, printable
from stateful_crawler.fetch import Fetcher, Limits
from stateful_crawler.frontier import Frontier, natural_key
from stateful_crawler.pages import Pages
from stateful_crawler.plugins import Plugin
from stateful_crawler.reasons import PARSE_REASONS, Reason
from stateful_crawler.task import Outcome, Task, utc_at, utc_now
from stateful_crawler.workdir import Claim, State, Workdir, read_last_record

WIND_DOWN_S = 8.0
TICK_S = 0.2
# While nothing new can be known of, origin/ is looked at again this often, for tasks that someone else put there.
LOOK_AGAIN_S = 0.5
MAX_WAITING = 2000
BACKLOG_A_WORKER = 64


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
    stopped: bool = False
    reasons: Counter[Reason] = field(default_factory=Counter)
    left_alone: dict[str, str] = field(default_factory=dict)

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


# ── the commands ─────────────────────────────────────────────────────────────────────────────────────────────────────


def create_tasks(workdir: Workdir, plugin: Plugin, arguments: Collection[str]) -> Iterator[tuple[Task, bool]]:
    """Add what the user's create() yields; each task with whether it is new (a name that exists is left as it is)."""
    for task in plugins.call_create(plugin, list(arguments)):
        yield task, workdir.add(task)


def crawl(workdir: Workdir, settings: CrawlSettings, stop: Stop, watch: Watch, argv: Collection[str] = ()) -> Tally:
    """Fetch and parse all that is in origin/, what a dead run left in working/ included, until origin/ is dry."""
    with workdir.lock(argv):
        tally = _take_back(workdir)
        wanted = settings.names.__contains__ if settings.names is not None else lambda _: True
        frontier = Frontier(workdir, wanted)
        tally.total = sum(1 for name in workdir.names("origin") if wanted(name))
        return _run(workdir, settings, _from_origin(workdir, frontier, tally), stop, watch, tally, frontier)


def retry(
    workdir: Workdir,
    settings: CrawlSettings,
    stop: Stop,
    watch: Watch,
    *,
    only: Literal["fetch", "parse"] | None = None,
    now: bool = False,
    argv: Collection[str] = (),
) -> Tally:
    """As `crawl`, after all of error/ has been put back into origin/. A whole page is parsed again without a fetch,
    unless `settings.refetch`; tasks that were told to wait (`not_before`) wait on unless `now`."""
    with workdir.lock(argv):
        tally = _take_back(workdir)
        for name in list(workdir.names("error")):
            if settings.names is None or name in settings.names:
                _requeue_failed(workdir, name, only, now, tally)
        for name in settings.names or ():
            if workdir.state_of(name) == "success":
                tally.left_alone[name] = "is in success/; `sc requeue` puts it back"
        names = _those_that_need(workdir, only, settings.names)
        frontier = Frontier(workdir, names.__contains__ if names is not None else lambda _: True)
        tally.total = sum(1 for name in workdir.names("origin") if names is None or name in names)
        return _run(workdir, settings, _from_origin(workdir, frontier, tally), stop, watch, tally, frontier)


def reparse(
    workdir: Workdir,
    settings: CrawlSettings,
    stop: Stop,
    watch: Watch,
    *,
    all_pages: bool = False,
    argv: Collection[str] = (),
) -> Tally:
    """Parse saved pages again, without the network: those whose page or parser has changed, or all of them."""
    with workdir.lock(argv):
        tally = _take_back(workdir)
        return _run(workdir, settings, None, stop, watch, tally, None, all_pages=all_pages)


def requeue(
    workdir: Workdir, names: Collection[str], state: State | None, argv: Collection[str] = ()
) -> tuple[list[str], dict[str, str]]:
    """Put settled tasks back into origin/, pages kept: those named, or all of one state. Gives what was moved, and what
    was not with the reason."""
    with workdir.lock(argv):
        moved: list[str] = []
        refused: dict[str, str] = {}
        for name in names or (sorted(workdir.names(state), key=natural_key) if state else ()):
            at = state or workdir.state_of(name)
            if at in ("success", "error") and workdir.requeue(name, at):
                moved.append(name)
            else:
                refused[name] = f"is in {at}/ already" if at else "no such task"
        return moved, refused


# ── which tasks ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _take_back(workdir: Workdir) -> Tally:
    """Put what a dead run left in working/ back into origin/.

    A request that changes things may have reached the server: it is not sent again without being asked.
    """
    tally, pages = Tally(), Pages(workdir)
    for claim in workdir.left_behind():
        task = claim.task
        if task is not None:
            pages.undo_unrecorded(task)
        doubtful = task is not None and task.changes_things and not pages.has(task)
        if doubtful:
            detail = "the run ended while this request was under way; whether it was carried out is not known"
            workdir.record(claim, Outcome("fetch", False, "unknown-outcome", detail).record(to="error"))
        try:
            workdir.settle(claim, "error" if doubtful else "origin")
        except NameTaken as error:
            tally.left_alone[claim.name] = f"left in working/: {error}"
            continue
        tally.taken_back += not doubtful
        tally.failed += doubtful
        tally.reasons["unknown-outcome"] += doubtful
    workdir.sweep()
    tally.reasons = +tally.reasons
    return tally


def _from_origin(workdir: Workdir, frontier: Frontier, tally: Tally) -> Iterator[Claim | None]:
    """Claims in natural order; None when origin/ is dry for the moment."""
    while True:
        name = frontier.next_name()
        if name is None:
            yield None
            continue
        try:
            claim = workdir.claim(name)
        except NameTaken:
            frontier.passed_over.add(name)
            tally.left_alone[name] = "working/ has a task of this name already"
            continue
        if claim is not None:
            yield claim
        elif os.path.lexists(workdir.path("origin", name)):
            frontier.passed_over.add(name)
            tally.left_alone[name] = "the file can't be opened"


def _from_saved(
    workdir: Workdir, names: frozenset[str] | None, digest: str, tally: Tally, all_pages: bool
) -> Iterator[Claim | None]:
    """Claims of tasks whose page is saved and whose items are stale."""
    states: tuple[State, ...] = ("success", "error")
    for state in states:
        for name in sorted(workdir.names(state), key=natural_key):
            if (names is None or name in names) and _is_stale(
                workdir, state, name, digest, all_pages or names is not None
            ):
                claim = workdir.claim(name, state)
                if claim is not None:
                    tally.total += 1
                    yield claim
    for name in names or ():
        if name not in tally.left_alone and not _is_saved(workdir, name):
            tally.left_alone[name] = "has no saved page; `sc crawl` or `sc retry` fetches it"
    while True:
        yield None


def _is_saved(workdir: Workdir, name: str) -> bool:
    state = workdir.state_of(name)
    try:
        return state is not None and Pages(workdir).has(workdir.read(state, name))
    except (OSError, TaskFileError):
        return False


def _is_stale(workdir: Workdir, state: State, name: str, digest: str, anyway: bool) -> bool:
    try:
        task = workdir.read(state, name)
        if not Pages(workdir).has(task):
            return False
        page = os.stat(Pages(workdir).path_of(task))
    except (OSError, TaskFileError):
        return False
    parsed = task.last("parse")
    if anyway or parsed is None or not os.path.exists(Pages(workdir).items_path(name)):
        return True
    return parsed.facts.get("plugin") != digest or parsed.facts.get("page") != [page.st_size, page.st_mtime_ns]


def _requeue_failed(workdir: Workdir, name: str, only: str | None, now: bool, tally: Tally) -> None:
    try:
        record = read_last_record(workdir.path("error", name))
    except OSError:
        return
    facts = record.facts if record else {}
    stage = "parse" if facts.get("reason") in PARSE_REASONS else "fetch"
    if only is not None and stage != only:
        return
    if not now and str(facts.get("not_before", "")) > utc_now():
        tally.left_alone[name] = f"not before {facts['not_before']}; `sc retry --now` does not wait"
        return
    if not workdir.requeue(name, "error"):
        tally.left_alone[name] = "origin/ has a task of this name already"


def _those_that_need(workdir: Workdir, only: str | None, names: frozenset[str] | None) -> frozenset[str] | None:
    """The names in origin/ whose next step is `only`; None for no restriction."""
    if only is None:
        return names
    chosen = []
    for name in workdir.names("origin"):
        if names is not None and name not in names:
            continue
        with contextlib.suppress(OSError, TaskFileError):
            if Pages(workdir).has(workdir.read("origin", name)) == (only == "parse"):
                chosen.append(name)
    return frozenset(chosen)


# ── one run ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _run(
    workdir: Workdir,
    settings: CrawlSettings,
    claims: Iterator[Claim | None] | None,
    stop: Stop,
    watch: Watch,
    tally: Tally,
    frontier: Frontier | None,
    *,
    all_pages: bool = False,
) -> Tally:
    with contextlib.ExitStack() as stack:
        parser = None
        if settings.parser is not None:
            from stateful_crawler.parse import Parser  # here, not above: a crawl without a parser needs no processes

            parser = Parser(workdir.root, settings.parser, workers=settings.workers, timeout_s=settings.parse_timeout_s)
            stack.callback(parser.close)
            digest = parser.check()
            claims = claims or _from_saved(workdir, settings.names, digest, tally, all_pages)
        assert claims is not None
        fetcher = Fetcher(workdir.root, settings.limits, Pages(workdir).aside_of)
        stack.callback(fetcher.close)
        run = _Run(workdir, settings, claims, fetcher, parser, tally, frontier)
        stack.callback(run.put_back_all)
        fetcher.watch(stop.fd)
        run.go(stop, watch)
    return tally


class _Run:
    """A run under way: what is in hand, and what becomes of it."""

    def __init__(
        self,
        workdir: Workdir,
        settings: CrawlSettings,
        claims: Iterator[Claim | None],
        fetcher: Fetcher,
        parser: _Parser | None,
        tally: Tally,
        frontier: Frontier | None,
    ) -> None:
        self._workdir, self._pages, self._settings, self._claims = workdir, Pages(workdir), settings, claims
        self._fetcher, self._parser, self.tally, self._frontier = fetcher, parser, tally, frontier
        self._in_hand: dict[str, Claim] = {}
        self._waiting: list[tuple[float, int, Claim]] = []
        self._order = itertools.count()
        self._look_again = 0.0
        self._max_backlog = BACKLOG_A_WORKER * settings.workers
        if parser is not None:
            fetcher.watch(parser.wake_fd)

    def go(self, stop: Stop, watch: Watch) -> None:
        """Claim, wait, finish, until nothing is in hand and nothing new is to be found; or until asked to stop."""
        next_tick = 0.0
        while not stop.requested:
            ended = self._fetcher.wait(self._pause_s())
            # The next requests go out before the answers are saved: the server works while we write files.
            dry = self._claim_more()
            for claim, outcome in ended:
                self._fetched(claim, outcome)
            self._hand_on_parsing()
            if dry and not self._in_hand and self._is_really_dry():
                break
            if (now := time.monotonic()) >= next_tick:
                next_tick = now + TICK_S
                self._tell(watch)
        else:
            stop.acknowledge()
            self._wind_down(watch)
        self._tell(watch)

    # ── claiming ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _claim_more(self) -> bool:
        """Start tasks while connections are free; True where origin/ has no more for the moment."""
        self._start_those_that_waited()
        while self._has_room():
            if self._look_again > time.monotonic():
                return True
            claim = next(self._claims)
            if claim is None:
                self._look_again = time.monotonic() + LOOK_AGAIN_S
                return True
            self.tally.claimed += 1
            self._in_hand[claim.name] = claim
            self._begin(claim)
        return False

    def _is_really_dry(self) -> bool:
        """Look once more, now: what a parser or a person added since the last look must not be left behind."""
        self._look_again = 0.0
        return self._claim_more() and not self._in_hand

    def _has_room(self) -> bool:
        backlog = self._parser.backlog if self._parser else 0
        return self._fetcher.room > 0 and backlog < self._max_backlog and len(self._waiting) < MAX_WAITING

    def _begin(self, claim: Claim) -> None:
        """Send the task where it belongs: to the network, or past it if its page is whole."""
        task = claim.task
        if task is None:
            self._fail(claim, Outcome("fetch", False, "config", str(claim.fault)))
            return
        if not self._settings.refetch and task.record_lines and self._pages.has(task):
            self._saved(claim)
            return
        try:
            self._pages.check_output(task)
            self._fetcher.start(claim, task)
        except TaskFileError as error:
            self._fail(claim, Outcome("fetch", False, "config", str(error)))

    def _start_those_that_waited(self) -> None:
        while self._waiting and self._fetcher.room > 0 and self._waiting[0][0] <= time.monotonic():
            claim = heapq.heappop(self._waiting)[2]
            assert claim.task is not None
            self._fetcher.start(claim, claim.task)

    # ── finishing ────────────────────────────────────────────────────────────────────────────────────────────────

    def _pause_s(self) -> float:
        """How long to wait for the network or a parser before there is something else to do."""
        until = min(TICK_S, LOOK_AGAIN_S)
        if self._waiting and self._fetcher.room > 0:
            until = min(until, max(0.0, self._waiting[0][0] - time.monotonic()))
        return until

    def _hand_on_parsing(self) -> None:
        if self._parser is not None:
            for claim, outcome in self._parser.done():
                self._parsed(claim, outcome)
            self._parser.dispatch()

    def _fetched(self, claim: Claim, outcome: Outcome) -> None:
        claim.attempt += 1
        if outcome.ok:
            self._save(claim, outcome)
        elif claim.attempt <= self._settings.retries and self._may_try_again(claim, outcome):
            self._try_later(claim, outcome)
        else:
            self._fail(claim, outcome)

    def _save(self, claim: Claim, outcome: Outcome) -> None:
        """Publish the page, then write the record: a page without its record is fetched again after a crash."""
        task = _task(claim)
        try:
            self._pages.publish(task, outcome)
        except NameTaken as error:
            self._fail(claim, Outcome("fetch", False, "config", f"the page was not saved: {error}", outcome.facts))
            return
        self._workdir.record(claim, outcome.record(attempt=claim.attempt, saved=task.page_output))
        self._pages.forget_aside(task)
        if claim.attempt > 1 or len(task.record_lines) > 1:
            self._pages.forget_error(task.name)
        self.tally.fetched += 1
        self.tally.empty += outcome.facts.get("bytes") == 0
        self._saved(claim)

    def _saved(self, claim: Claim) -> None:
        """The page is whole: on to the parser, or to success where there is none."""
        if self._parser is None:
            self._succeed(claim)
        else:
            self._workdir.rest(claim)
            self._parser.submit(claim)

    def _parsed(self, claim: Claim, outcome: Outcome) -> None:
        """Publish the items, then write the record; the worker has published the new tasks already."""
        if not outcome.ok:
            self._fail(claim, outcome)
            return
        self._pages.publish_items(claim.name)
        self._workdir.record(claim, outcome.record())
        self.tally.items += outcome.facts.get("items", 0)
        if found := outcome.facts.get("new_tasks", 0):
            self.tally.found += found
            self.tally.total += found
            self._look_again = 0.0
        self._succeed(claim)

    def _may_try_again(self, claim: Claim, outcome: Outcome) -> bool:
        wait_s = outcome.retry_after_s or 0.0
        return (
            retries.is_transient(outcome, changes_things=_task(claim).changes_things)
            and wait_s <= retries.MAX_RETRY_AFTER_S
        )

    def _try_later(self, claim: Claim, outcome: Outcome) -> None:
        """Note the failure and let the task wait in working/; it holds no connection and no descriptor meanwhile."""
        self._pages.keep_error(claim.name, outcome)
        wait_s = retries.wait_s(outcome, claim.attempt, random.random())
        self._workdir.record(claim, outcome.record(attempt=claim.attempt, retry_in_s=round(wait_s, 1)))
        self._workdir.rest(claim)
        heapq.heappush(self._waiting, (time.monotonic() + wait_s, next(self._order), claim))

    def _succeed(self, claim: Claim) -> None:
        if self._settle(claim, "success"):
            self.tally.succeeded += 1

    def _fail(self, claim: Claim, outcome: Outcome) -> None:
        """Write down why, and settle in error/."""
        more: dict[str, object] = {"attempt": claim.attempt} if outcome.stage == "fetch" and claim.attempt else {}
        if (wait_s := outcome.retry_after_s or 0.0) > 0 and outcome.reason == "http":
            more["not_before"] = utc_at(time.time() + min(wait_s, retries.MAX_NOT_BEFORE_S))
        self._pages.keep_error(claim.name, outcome)
        self._workdir.record(claim, outcome.record(**more, to="error"))
        if self._settle(claim, "error"):
            self.tally.failed += 1
            assert outcome.reason is not None
            self.tally.reasons[outcome.reason] += 1

    def _settle(self, claim: Claim, state: State) -> bool:
        del self._in_hand[claim.name]
        try:
            self._workdir.settle(claim, state)
        except NameTaken:
            self.tally.left_alone[claim.name] = f"{state}/ has a task of this name already; this one is back in origin/"
            self._put_back(claim)
            return False
        return True

    # ── ending early ─────────────────────────────────────────────────────────────────────────────────────────────

    def _wind_down(self, watch: Watch) -> None:
        """Claim nothing more; let what is under way end, for a while; the rest goes back into origin/."""
        self.tally.stopped = True
        for _, _, claim in self._waiting:
            self._give_up(claim)
        self._waiting.clear()
        deadline = time.monotonic() + WIND_DOWN_S
        while self._in_hand and time.monotonic() < deadline:
            if self._parser is not None:
                for claim in self._parser.withdraw():
                    self._give_up(claim)
            self._wind_down_step(min(TICK_S, deadline - time.monotonic()))
            self._tell(watch)

    def _wind_down_step(self, pause_s: float) -> None:
        for claim, outcome in self._fetcher.wait(pause_s):
            if outcome.ok or not self._may_try_again(claim, outcome):
                self._fetched(claim, outcome)
            else:
                self._workdir.record(claim, outcome.record(attempt=claim.attempt + 1))
                self._give_up(claim)
        for claim, outcome in self._parser.done() if self._parser else ():
            if outcome.reason == "crash-parse":
                self._give_up(claim)  # a signal to the whole group ended the worker too: no fault of the page
            else:
                self._parsed(claim, outcome)

    def put_back_all(self) -> None:
        """Put all that is still in hand back: after a stop, and after an error that ends the run."""
        under_way = {claim.name for claim in self._fetcher.abandon()}
        for claim in list(self._in_hand.values()):
            if claim.name in under_way and _task(claim).changes_things:
                detail = "the run was stopped while this request was under way; whether it was carried out is not known"
                with contextlib.suppress(Exception):
                    self._fail(claim, Outcome("fetch", False, "unknown-outcome", detail))
                    continue
            self._give_up(claim)

    def _give_up(self, claim: Claim) -> None:
        del self._in_hand[claim.name]
        self.tally.put_back += 1
        self._put_back(claim)

    def _put_back(self, claim: Claim) -> None:
        if self._frontier is not None:
            self._frontier.passed_over.add(claim.name)
        # What can't be moved now stays in working/, from where the next run takes it back.
        with contextlib.suppress(Exception):
            self._workdir.settle(claim, claim.source)

    def _tell(self, watch: Watch) -> None:
        tally = self.tally
        tally.total = max(tally.total, tally.claimed)
        tally.connections = self._fetcher.under_way
        tally.waiting = len(self._waiting)
        tally.parsing = self._parser.backlog if self._parser else 0
        watch(tally)


class _Parser(Protocol):
    """What a run needs of a parser; stateful_crawler.parse.Parser is one."""

    wake_fd: int

    @property
    def backlog(self) -> int: ...
    def submit(self, claim: Claim) -> None: ...
    def dispatch(self) -> None: ...
    def done(self) -> list[tuple[Claim, Outcome]]: ...
    def withdraw(self) -> list[Claim]: ...


def _task(claim: Claim) -> Task:
    if claim.task is None:
        raise TaskFileError(printable(claim.path), None, "the task could not be read")
    return claim.task
