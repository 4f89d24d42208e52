"""All ways in which two actors may alternate: each file-system step of theirs is a point where the other may come in.

The actors are threads that run one at a time; which one goes on is decided at every step. All schedules are tried in
which an actor is interrupted at most a number of times (most races need two): a run with a schedule tells which
decisions it met, and each other decision there begins a schedule of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

from stateful_crawler import files, pages, report, workdir

_CALLS = "open read write pread rename link unlink lstat stat fstat access scandir makedirs mkdir"
_LOOKS = "lexists isfile isdir exists"
STEPS = frozenset(f"{_CALLS} {_LOOKS}".split())
Actor = Callable[[], object]
# Which actor went on at each step, and which could have.
Trace = list[tuple[int, tuple[int, ...]]]


class Stepping:
    """A module whose functions in STEPS wait for their turn."""

    def __init__(self, module: ModuleType, turn: Callable[[], None]) -> None:
        self._module, self._turn = module, turn

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if name == "path":
            return Stepping(found, self._turn)
        if name == "getpid":
            return _pid
        return waiting(found, self._turn) if name in STEPS else found


def waiting(function: Callable[..., Any], turn: Callable[[], None]) -> Callable[..., Any]:
    def stepped(*arguments: Any, **options: Any) -> Any:
        turn()
        return function(*arguments, **options)

    return stepped


class _Play:
    """Actors in threads of their own, of which one at a time runs; who comes next is decided at each step of it."""

    def __init__(self, actors: Sequence[Actor], forced: Sequence[int]) -> None:
        self.trace: Trace = []
        self._forced, self._over = forced, threading.Semaphore(0)
        self.players = [_Player(self, number, actor) for number, actor in enumerate(actors)]

    def run(self) -> Trace:
        self.pass_on(0)
        assert self._over.acquire(timeout=60), "an actor waits for something that is no step"
        for player in self.players:
            player.join()
            if player.error is not None:
                raise player.error
        return self.trace

    def pass_on(self, now: int) -> int | None:
        """Decide who makes the next step, and wake it unless it is `now` that stands here; None when all have ended."""
        alive = tuple(player.number for player in self.players if not player.ended)
        if not alive:
            self._over.release()
            return None
        if len(self.trace) < len(self._forced):
            following = self._forced[len(self.trace)]
        else:
            following = now if now in alive else alive[0]
        self.trace.append((following, alive))
        player = self.players[following]
        if threading.current_thread() is not player:
            player.awake.release()
        return following


class _Player(threading.Thread):
    """One actor."""

    def __init__(self, play: _Play, number: int, actor: Actor) -> None:
        super().__init__(daemon=True)
        self.number, self.ended, self.awake = number, False, threading.Semaphore(0)
        self.error: BaseException | None = None
        self.at_once = False
        self._play, self._actor = play, actor
        self.start()

    def run(self) -> None:
        self.awake.acquire()
        try:
            self._actor()
        except BaseException as error:
            self.error = error
        self.ended = True
        self._play.pass_on(self.number)

    def wait_for_turn(self) -> None:
        if self._play.pass_on(self.number) != self.number:
            self.awake.acquire()


def _pid() -> int:
    """Actors stand for processes, each with a number of its own; all of these are alive."""
    player = threading.current_thread()
    return (os.getppid(), 1)[player.number] if isinstance(player, _Player) else os.getpid()


def _turn() -> None:
    player = threading.current_thread()
    if isinstance(player, _Player) and not player.at_once:
        player.wait_for_turn()


@contextmanager
def at_once() -> Iterator[None]:
    """For what no other actor is to come into: it makes the number of schedules small."""
    player = threading.current_thread()
    assert isinstance(player, _Player)
    player.at_once = True
    yield
    player.at_once = False


def step_by_step(patch: pytest.MonkeyPatch) -> None:
    """Make every file-system step of the modules that move tasks a point where another actor may come in."""
    for module in (files, workdir, pages, report):
        patch.setattr(module, "os", Stepping(os, _turn))
    if files._rename_new is not None:
        patch.setattr(files, "_rename_new", waiting(files._rename_new, _turn))


def play(actors: Sequence[Actor], forced: Sequence[int]) -> Trace:
    """Run the actors by the schedule, and then each to its end; what an actor raises is raised here."""
    return _Play(actors, forced).run()


def explore(once: Callable[[Sequence[int]], Trace], interruptions: int, start: Sequence[int] = ()) -> int:
    """Call `once` with every schedule of at most so many interruptions that begins as `start`; how many there were."""
    todo = [list(start)]
    runs = 0
    while todo:
        forced = todo.pop()
        trace = once(forced)
        runs += 1
        taken = [now for now, _ in trace]
        for at in range(len(forced), len(trace)):
            for other in trace[at][1]:
                schedule = [*taken[:at], other]
                if other != taken[at] and _interruptions(schedule, trace) <= interruptions:
                    todo.append(schedule)
    return runs


def _interruptions(schedule: Sequence[int], trace: Trace) -> int:
    """How often one was left that could have gone on."""
    pairs = zip(schedule, schedule[1:], trace[1:], strict=False)
    return sum(before != after and before in alive for before, after, (_, alive) in pairs)
