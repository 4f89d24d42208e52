"""The commands that run a crawl: create, crawl, retry, parse again, requeue.

They differ in which tasks they claim; what then becomes of a task is told in run.py.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from typing import Literal

from stateful_crawler import plugins
from stateful_crawler.control import CrawlSettings, Stop, Tally, Watch
from stateful_crawler.errors import NameTaken, TaskFileError
from stateful_crawler.frontier import Frontier, natural_key
from stateful_crawler.pages import Pages
from stateful_crawler.plugins import Plugin
from stateful_crawler.reasons import PARSE_REASONS
from stateful_crawler.record import Beside, Outcome, utc_now
from stateful_crawler.run import Choose, run
from stateful_crawler.sidefiles import SideFiles
from stateful_crawler.task import Task
from stateful_crawler.workdir import Claim, State, Workdir, read_last_record

# ── the commands ─────────────────────────────────────────────────────────────────────────────────────────────────────


def create_tasks(workdir: Workdir, plugin: Plugin, arguments: Collection[str]) -> Iterator[tuple[Task, bool]]:
    """Add what the user's create() yields; each task with whether it is new (a name that exists is left as it is)."""
    for number, task in enumerate(plugins.call_create(plugin, list(arguments))):
        if number == 0:
            workdir.open()  # not before: a create() that is called wrongly must not leave a folder behind
        yield task, workdir.add(task)


def crawl(workdir: Workdir, settings: CrawlSettings, stop: Stop, watch: Watch, argv: Collection[str] = ()) -> Tally:
    """Fetch and parse all that is in origin/, what a dead run left in working/ included, until origin/ is dry."""
    with workdir.lock(argv):
        tally = _take_back(workdir)
        return run(workdir, settings, _from_origin(workdir, settings.names, tally), stop, watch, tally)


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
        return run(workdir, settings, _from_origin(workdir, names, tally), stop, watch, tally)


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

        def choose(digest: str) -> Iterator[Claim | None]:
            return _from_saved(workdir, settings.names, digest, tally, all_pages)

        return run(workdir, settings, choose, stop, watch, tally)


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
    tally, pages, side_files = Tally(), Pages(workdir), SideFiles(workdir.root)
    for claim in workdir.left_behind():
        task = claim.task
        if task is not None:
            pages.undo_unrecorded(task)
            _finish_saving(pages, side_files, task)
        doubtful = task is not None and task.changes_things and not pages.has(task)
        detail = "the run ended while this request was under way; whether it was carried out is not known"
        if doubtful:
            workdir.record(claim, Outcome("fetch", False, "unknown-outcome", detail).record(to="error"))
        try:
            workdir.settle(claim, "error" if doubtful else "origin")
        except NameTaken as error:
            tally.left_alone[claim.name] = f"left in working/: {error}"
            continue
        tally.taken_back += not doubtful
        if doubtful:
            tally.failed += 1
            tally.reasons["unknown-outcome"] += 1
            tally.newly_failed.append((claim.name, "unknown-outcome", detail))
    workdir.sweep()
    side_files.sweep()
    return tally


def _finish_saving(pages: Pages, side_files: SideFiles, task: Task) -> None:
    """Do what comes after the record of a saved page, and what the end of the dead run may have come before."""
    fetched = task.last("fetch")
    if fetched is None or fetched.ok:
        pages.forget_error(task.name)  # of a failure that was not recorded, or that is over
    path = dict(task.options).get("etag-save")
    tag = next((value for name, value in fetched.headers if name.lower() == "etag"), "") if fetched else ""
    if path and tag and pages.has(task):
        with contextlib.suppress(TaskFileError):  # the crawl says what is wrong with it
            side_files.keep_etag(Beside(etag=(str(path), tag.encode("utf-8", "replace") + b"\n")), task.name)


def _from_origin(workdir: Workdir, names: frozenset[str] | None, tally: Tally) -> Choose:
    """Claims of the tasks in origin/ (only `names`, unless None), in natural order."""

    def wanted(name: str) -> bool:
        return (names is None or name in names) and name not in tally.left_alone

    def choose(_digest: str) -> Iterator[Claim | None]:
        frontier = Frontier(workdir, wanted)
        tally.total = frontier.ahead()
        while True:
            name = frontier.next_name()
            if name is None:
                yield None
            elif claim := _claim(workdir, name, tally):
                yield claim

    return choose


def _claim(workdir: Workdir, name: str, tally: Tally) -> Claim | None:
    """The task, now in working/; None where it has gone, or must be left alone."""
    try:
        claim = workdir.claim(name)
    except NameTaken:
        tally.left_alone[name] = "working/ has a task of this name already"
        return None
    if claim is None and os.path.lexists(workdir.path("origin", name)):
        tally.left_alone[name] = "the file can't be opened"
    return claim


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
    stage = "parse" if str(facts.get("reason")) in PARSE_REASONS else "fetch"
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
