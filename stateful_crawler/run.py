"""What becomes of a claimed task: fetch, save, parse, settle; tries again, ends early.

A run takes an iterator of claims and does not ask where they come from: from origin/, from saved pages, one day from
another machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import itertools
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from stateful_crawler import retries
from stateful_crawler.control import CrawlSettings, Stop, Tally, Watch
from stateful_crawler.errors import LocalFileError, NameTaken, TaskFileError, printable
from stateful_crawler.fetch import Fetcher
from stateful_crawler.pages import Pages
from stateful_crawler.reasons import Reason
from stateful_crawler.record import Outcome, utc_at
from stateful_crawler.sidefiles import SideFiles, paths_of
from stateful_crawler.task import NO_CONTENT, Task, is_insecure
from stateful_crawler.workdir import Claim, State, Workdir

WIND_DOWN_S = 8.0
TICK_S = 0.2
# While nothing new can be known of, origin/ is looked at again this often, for tasks that someone else put there.
LOOK_AGAIN_S = 0.5
MAX_WAITING = 2000
BACKLOG_A_WORKER = 64
# What is wrong here, and will be wrong the next time.
_LOCAL_REASONS: frozenset[Reason | None] = frozenset({"config", "io"})

# Given the digest of the parser's code (empty without one): claims, and None whenever there is nothing for the moment.
Choose = Callable[[str], Iterator[Claim | None]]


def run(workdir: Workdir, settings: CrawlSettings, choose: Choose, stop: Stop, watch: Watch, tally: Tally) -> Tally:
    """Take each task that `choose` claims to its end, until there are no more or `stop` is requested.

    The caller holds the lock. On return, and after an error too, nothing of ours is left in working/.
    """
    with contextlib.ExitStack() as stack:
        parser, digest = None, ""
        if settings.parser is not None:
            from stateful_crawler.parse import Parser  # here, not above: a crawl without a parser needs no processes

            parser = Parser(workdir.root, settings.parser, workers=settings.workers, timeout_s=settings.parse_timeout_s)
            stack.callback(parser.close)
            digest = parser.check()
        fetcher = Fetcher(workdir.root, settings.limits, Pages(workdir).aside_of)
        stack.callback(fetcher.close)
        tasks = _Run(workdir, settings, choose(digest), fetcher, parser, tally, stop)
        stack.callback(tasks.put_back_all)
        fetcher.watch(stop.fd)
        tasks.go(watch)
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
        stop: Stop,
    ) -> None:
        self._workdir, self._pages, self._settings, self._claims = workdir, Pages(workdir), settings, claims
        self._side_files = SideFiles(workdir.root)
        self._fetcher, self._parser, self.tally, self._stop = fetcher, parser, tally, stop
        self._in_hand: dict[str, Claim] = {}
        self._waiting: list[tuple[float, int, Claim]] = []
        self._order = itertools.count()
        self._look_again = 0.0
        self._unsaved = 0  # answers that have come and are not yet on the disk; each keeps its connection's place
        self._max_backlog = BACKLOG_A_WORKER * settings.workers
        if parser is not None:
            fetcher.watch(parser.wake_fd)

    def go(self, watch: Watch) -> None:
        """Claim, wait, finish, until nothing is in hand and nothing new is to be found; or until asked to stop."""
        next_tick = 0.0
        while not self._stop.requested:
            ended = self._fetcher.wait(self._pause_s())
            # Each answer that is saved makes room for a request: the server works while we save the others. Not all
            # requests first: a kill would then cost those under way and as many answers that were not yet saved.
            self._unsaved = len(ended)
            for claim, outcome in ended:
                self._unsaved -= 1
                self._fetched(claim, outcome)
                self._claim_more()
            dry = self._claim_more()
            if (
                not self._stop.requested
            ):  # what a signal to the whole group did to a worker is for the wind-down to judge
                self._hand_on_parsing()
            if dry and not self._in_hand and self._is_really_dry():
                break
            if (now := time.monotonic()) >= next_tick:
                next_tick = now + TICK_S
                self._tell(watch)
        else:
            self._stop.acknowledge()
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
        return self._has_connection() and backlog < self._max_backlog and len(self._waiting) < MAX_WAITING

    def _has_connection(self) -> bool:
        """Whether a request may begin now. After a stop, which may come at any time, none does."""
        return self._fetcher.room > self._unsaved and not self._stop.requested

    def _begin(self, claim: Claim) -> None:
        """Send the task where it belongs: to the network, or past it if its page is whole."""
        task = claim.task
        if task is None:
            self._fail(claim, Outcome("fetch", False, "config", str(claim.fault)))
            return
        if not self._settings.refetch and task.record_lines and self._pages.has(task):
            self._saved(claim)
            return
        self._start(claim, task)

    def _start(self, claim: Claim, task: Task) -> None:
        claim.first_try = claim.first_try or time.monotonic()
        try:
            self._pages.check_output(task)
            self._side_files.check(paths_of(task.options), task.name)
            self._fetcher.start(claim, task)
            self.tally.insecure += not claim.attempt and is_insecure(task.options)
        except TaskFileError as error:
            reason: Reason = "io" if isinstance(error, LocalFileError) else "config"
            self._fail(claim, Outcome("fetch", False, reason, str(error)))

    def _start_those_that_waited(self) -> None:
        while self._waiting and self._has_connection() and self._waiting[0][0] <= time.monotonic():
            claim = heapq.heappop(self._waiting)[2]
            self._start(claim, _task(claim))

    # ── finishing ────────────────────────────────────────────────────────────────────────────────────────────────

    def _pause_s(self) -> float:
        """How long to wait for the network or a parser before there is something else to do."""
        if not self._in_hand:
            return 0.0
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
        if outcome.beside is not None:
            try:
                self._side_files.keep(outcome.beside, claim.name)
            except TaskFileError as error:
                outcome = Outcome("fetch", False, "config", str(error), outcome.facts)
        if outcome.ok:
            self._save(claim, outcome)
        elif self._may_try_again(claim, outcome):
            self._try_later(claim, outcome)
        else:
            self._fail(claim, outcome)

    def _save(self, claim: Claim, outcome: Outcome) -> None:
        """Publish the page, then write the record: a page without its record is fetched again after a crash."""
        task = claim.task = _named_by_server(_task(claim), outcome)
        if outcome.facts.get("not_modified"):
            outcome = self._pages.kept(task, outcome)
            if not outcome.ok:
                self._fail(claim, outcome)
                return
        elif not self._publish(claim, task, outcome):
            return
        self._workdir.record(claim, outcome.record(attempt=claim.attempt, saved=task.page_output))
        self._pages.forget_aside(task)
        if outcome.beside is not None:
            self._side_files.keep_etag(outcome.beside, claim.name)
        if claim.attempt > 1 or len(task.record_lines) > 1:
            self._pages.forget_error(task.name)
        self.tally.fetched += 1
        self.tally.empty += outcome.facts.get("bytes") == 0 and outcome.facts.get("status") not in NO_CONTENT
        self._saved(claim)

    def _publish(self, claim: Claim, task: Task, outcome: Outcome) -> bool:
        try:
            if outcome.beside is not None and outcome.beside.name:
                self._pages.check_output(task)
            self._pages.publish(task, outcome)
        except (NameTaken, TaskFileError) as error:
            self._fail(claim, Outcome("fetch", False, "config", f"the page was not saved: {error}", outcome.facts))
            return False
        return True

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
        """Whether one more try is allowed, and may help: as the task's own `retry` says, else as the settings do."""
        task = _task(claim)
        policy = retries.policy_of(task.options)
        if claim.attempt > (self._settings.retries if policy is None else policy.times):
            return False
        if (outcome.retry_after_s or 0.0) > retries.MAX_RETRY_AFTER_S:
            return False
        if policy is not None and policy.within_s and time.monotonic() - claim.first_try > policy.within_s:
            return False
        if policy is not None and policy.any_failure and outcome.reason not in _LOCAL_REASONS:
            return True
        return retries.is_transient(outcome, changes_things=task.changes_things)

    def _try_later(self, claim: Claim, outcome: Outcome) -> None:
        """Note the failure and let the task wait in working/; it holds no connection and no descriptor meanwhile."""
        self._pages.keep_error(claim.name, outcome)
        policy = retries.policy_of(_task(claim).options)
        wait_s = retries.wait_s(outcome, claim.attempt, random.random(), policy.delay_s if policy else 0.0)
        self._workdir.record(claim, outcome.record(attempt=claim.attempt, retry_in_s=round(wait_s, 1)))
        self._workdir.rest(claim)
        heapq.heappush(self._waiting, (time.monotonic() + wait_s, next(self._order), claim))

    def _succeed(self, claim: Claim) -> None:
        if self._settle(claim, "success"):
            self.tally.succeeded += 1

    def _fail(self, claim: Claim, outcome: Outcome) -> None:
        """Write down why, and settle in error/."""
        more: dict[str, object] = {"attempt": claim.attempt} if outcome.stage == "fetch" and claim.attempt else {}
        if (wait_s := outcome.retry_after_s or 0.0) > retries.MAX_RETRY_AFTER_S and outcome.reason == "http":
            more["not_before"] = utc_at(time.time() + min(wait_s, retries.MAX_NOT_BEFORE_S))
        self._pages.keep_error(claim.name, outcome)
        self._workdir.record(claim, outcome.record(**more, to="error"))
        if self._settle(claim, "error"):
            self.tally.failed += 1
            assert outcome.reason is not None
            self.tally.reasons[outcome.reason] += 1
            self.tally.newly_failed.append((claim.name, outcome.reason, outcome.detail))

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
        for claim in self._parser.withdraw() if self._parser else ():
            self._give_up(claim)
        deadline = time.monotonic() + WIND_DOWN_S
        while self._in_hand and time.monotonic() < deadline:
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
        if self._parser is not None:
            self._parser.dispatch()  # what was being fetched when the stop came may be parsed, too

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
        # What can't be moved now stays in working/, from where the next run takes it back.
        with contextlib.suppress(Exception):
            if claim.task is not None:
                self._pages.undo_unrecorded(claim.task)
            self._workdir.settle(claim, claim.source)

    def _tell(self, watch: Watch) -> None:
        tally = self.tally
        tally.total = max(tally.total, tally.claimed)
        tally.connections = self._fetcher.under_way
        tally.waiting = len(self._waiting)
        tally.parsing = self._parser.backlog if self._parser else 0
        watch(tally)
        tally.newly_failed.clear()


class _Parser(Protocol):
    """What a run needs of a parser; stateful_crawler.parse.Parser is one."""

    wake_fd: int

    @property
    def backlog(self) -> int: ...
    def submit(self, claim: Claim) -> None: ...
    def dispatch(self) -> None: ...
    def done(self) -> list[tuple[Claim, Outcome]]: ...
    def withdraw(self) -> list[Claim]: ...


def _named_by_server(task: Task, outcome: Outcome) -> Task:
    """The task with the output that its answer names, where it says `remote-header-name`."""
    if outcome.beside is None or not outcome.beside.name:
        return task
    return dataclasses.replace(task, output=f"{os.path.dirname(task.page_output)}/{outcome.beside.name}")


def _task(claim: Claim) -> Task:
    if claim.task is None:
        raise TaskFileError(printable(claim.path), None, "the task could not be read")
    return claim.task
