"""Two commands at once, step by step in every order: create while a crawl runs, a user's mv in between, a reader
while tasks move. Afterwards each task is in one state, whole, and nothing is left aside.

INTERRUPTIONS=4 in the environment tries schedules with more changes between the two (minutes).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from interleaving import Actor, Trace, at_once, explore, play, step_by_step
from workdir_helpers import fetched, hidden

from stateful_crawler.crawl import _take_back
from stateful_crawler.errors import NameTaken
from stateful_crawler.pages import Pages
from stateful_crawler.record import Outcome
from stateful_crawler.report import facts_of, status_of
from stateful_crawler.task import new_task
from stateful_crawler.workdir import STATES, State, Workdir

MORE = int(os.environ.get("INTERRUPTIONS", "0"))
NAME = "1"
Act = Callable[[Workdir], object]


@pytest.fixture(autouse=True)
def stepped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        step_by_step(patch)
        yield


# ── the actors ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Added:
    """`add` by some command; how many of them said that the task is new."""

    def __init__(self) -> None:
        self.new = 0

    def __call__(self, workdir: Workdir) -> None:
        new = workdir.add(new_task("http://127.0.0.1:9/", by="create", name=NAME))
        self.new += new


def crawl_one(workdir: Workdir, target: State = "success") -> None:
    """What a run does with a task that it finds: claim, page, record, settle; put back where that can't be."""
    with suppress(NameTaken):
        claim = workdir.claim(NAME)
        if claim is None or claim.task is None:
            return
        pages, outcome = Pages(workdir), fetched(b"<p>page</p>")
        if target == "success":
            pages.publish(claim.task, outcome)
            workdir.record(claim, outcome.record(saved=claim.task.page_output))
        else:
            workdir.record(claim, Outcome("fetch", False, "http", "503").record(to="error"))
        try:
            workdir.settle(claim, target)
        except NameTaken:
            workdir.settle(claim, "origin")


def mv(source: State, target: State) -> Callable[[Workdir], None]:
    """A user's `mv -n`, by a file manager or a shell."""

    def move(workdir: Workdir) -> None:
        with suppress(FileNotFoundError):
            if not os.path.lexists(workdir.path(target, NAME)):
                os.rename(workdir.path(source, NAME), workdir.path(target, NAME))

    return move


def retry_first_step(workdir: Workdir) -> None:
    workdir.requeue(NAME, "error")


def status(workdir: Workdir) -> None:
    counts = status_of(workdir, 1)
    assert 0 <= sum(counts[state] for state in STATES) <= len(STATES)


def show(workdir: Workdir) -> None:
    assert facts_of(workdir, NAME) is not None


def recover(workdir: Workdir) -> None:
    _take_back(workdir)


# ── the plays ────────────────────────────────────────────────────────────────────────────────────────────────────────


def tried(
    begin: State | None,
    make: Callable[[Workdir], Sequence[Actor]],
    check: Callable[[Workdir], None],
    interruptions: int,
    start: Sequence[int] = (),
) -> int:
    """Every schedule of the actors, each in a workdir of its own, where the task is in `begin`; how many there were."""

    def once(forced: Sequence[int]) -> Trace:
        folder = tempfile.mkdtemp(prefix="sc-two-")
        try:
            workdir = Workdir(folder).open()
            if begin is not None:
                put_in(workdir, begin)
            trace = play(make(workdir), forced)
            try:
                assert_sound(workdir)
                check(workdir)
            except AssertionError as error:
                raise AssertionError(f"by the schedule {[now for now, _ in trace]}: {error}") from error
            return trace
        finally:
            shutil.rmtree(folder)

    return explore(once, max(interruptions, MORE), start)


def put_in(workdir: Workdir, state: State) -> None:
    assert workdir.add(new_task("http://127.0.0.1:9/", by="create", name=NAME))
    os.rename(workdir.path("origin", NAME), workdir.path(state, NAME))


def assert_sound(workdir: Workdir) -> None:
    states = [state for state in STATES if os.path.lexists(workdir.path(state, NAME))]
    assert len(states) == 1, f"in {states}"
    assert workdir.read(states[0], NAME).url == "http://127.0.0.1:9/"
    assert not hidden(workdir.root), hidden(workdir.root)
    if states == ["success"]:
        assert Path(workdir.path("html", NAME, ".html")).read_bytes() == b"<p>page</p>"


def nothing_more(_workdir: Workdir) -> None:
    """What assert_sound looks at is all."""


def both(first: Act, second: Act) -> Callable[[Workdir], list[Actor]]:
    return lambda workdir: [lambda: first(workdir), lambda: second(workdir)]


# A user's mv and a run's own moves: whoever comes first has the task.
MOVES: dict[str, tuple[State, Act, Act]] = {
    "crawl-and-mv-away": ("origin", crawl_one, mv("origin", "error")),
    "crawl-and-mv-out-of-working": ("origin", crawl_one, mv("working", "origin")),
    "crawl-and-mv-out-of-working-to-error": ("origin", crawl_one, mv("working", "error")),
    "failing-crawl-and-mv-back": ("origin", lambda workdir: crawl_one(workdir, "error"), mv("error", "origin")),
    "retry-and-mv": ("error", retry_first_step, mv("error", "origin")),
    "retry-and-mv-to-success": ("error", retry_first_step, mv("error", "working")),
    "recovery-and-mv": ("working", recover, mv("working", "error")),
    "recovery-and-mv-back": ("working", recover, mv("working", "origin")),
    "show-while-crawl": ("origin", crawl_one, show),
    "show-while-mv": ("origin", mv("origin", "success"), show),
}
READ: dict[str, tuple[State, Act]] = {
    "crawl": ("origin", crawl_one),
    "retry": ("error", retry_first_step),
    "recovery": ("working", recover),
    "mv": ("origin", mv("origin", "success")),
}


@pytest.mark.parametrize("play_", MOVES.values(), ids=MOVES)
def test_a_task_that_two_move_at_once(
    play_: tuple[State, Act, Act],
) -> None:
    begin, first, second = play_

    def make(workdir: Workdir) -> list[Actor]:
        Path(workdir.path("html", NAME, ".html")).write_bytes(b"<p>page</p>")  # as a user has who moves to success/
        return both(first, second)(workdir)

    assert tried(begin, make, nothing_more, 2) > 1


@pytest.mark.parametrize(("begin", "mover"), READ.values(), ids=READ)
def test_status_while_a_task_moves(begin: State, mover: Act) -> None:
    """It sees the task before, after, not at all, or twice: a listing is no snapshot; and it never fails."""

    def make(workdir: Workdir) -> list[Actor]:
        Path(workdir.path("html", NAME, ".html")).write_bytes(b"<p>page</p>")
        return both(mover, status)(workdir)

    assert tried(begin, make, nothing_more, 1) > 3


@pytest.mark.parametrize("begin", STATES)
@pytest.mark.parametrize(
    "move", [("origin", "error"), ("error", "origin"), ("error", "success"), ("working", "origin")]
)
def test_adding_a_name_that_exists_while_its_task_is_moved(begin: State, move: tuple[State, State]) -> None:
    """Forwards or backwards: it is seen, and the new one is withdrawn."""
    added = Added()

    def make(workdir: Workdir) -> list[Actor]:
        Path(workdir.path("html", NAME, ".html")).write_bytes(b"<p>page</p>")
        return both(added, mv(*move))(workdir)

    tried(begin, make, nothing_more, 2)
    assert added.new == 0


@pytest.mark.parametrize("target", ["success", "error"])
def test_adding_a_name_that_exists_while_a_crawl_takes_its_task_all_the_way(target: State) -> None:
    added = Added()
    tried("origin", both(added, lambda workdir: crawl_one(workdir, target)), nothing_more, 2)
    assert added.new == 0


def test_adding_a_name_that_exists_while_retry_puts_it_back() -> None:
    added = Added()
    tried("error", both(added, retry_first_step), nothing_more, 2)
    assert added.new == 0


def test_of_two_that_add_a_name_one_adds_it() -> None:
    """Two create commands, or create and a parser's process."""

    def make(workdir: Workdir) -> list[Actor]:
        added.new = 0
        return both(added, added)(workdir)

    def check(_workdir: Workdir) -> None:
        assert added.new == 1

    added = Added()
    assert tried(None, make, check, 2) > 50


LOOKED = [0] * 7  # the first actor has looked in all states and written its file aside


@pytest.mark.parametrize("target", ["success", "error"])
def test_a_name_that_was_added_and_crawled_since_it_was_looked_for(target: State) -> None:
    """And the crawl finds the second one of the name before it can be withdrawn."""

    def make(workdir: Workdir) -> list[Actor]:
        added.new = 0

        def other_and_crawl() -> None:
            with at_once():
                added(workdir)
                crawl_one(workdir, target)
            crawl_one(workdir, target)

        return [lambda: added(workdir), other_and_crawl]

    def check(_workdir: Workdir) -> None:
        assert added.new == 1

    added = Added()
    assert tried(None, make, check, 4, [*LOOKED, 1]) > 20
