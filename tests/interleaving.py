"""All ways in which two actors may alternate: each file-system step of theirs is a point where the other may come in.

The actors are threads that run one at a time; which one goes on is decided at every step. All schedules are tried in
which an actor is interrupted at most a number of times (most races need two): a run with a schedule tells which
decisions it met, and each other decision there begins a schedule of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest

from stateful_crawler import files, pages, report, workdir

STEPS = frozenset(
    [
        "open",
        "read",
        "write",
        "pread",
        "rename",
        "link",
        "unlink",
        "lstat",
        "stat",
        "fstat",
        "access",
        "scandir",
        "makedirs",
        "mkdir",
        "lexists",
        "isfile",
        "isdir",
        "exists",
    ]
)
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
        return waiting(found, self._turn) if name in STEPS else found


def waiting(function: Callable[..., Any], turn: Callable[[], None]) -> Callable[..., Any]:
    def stepped(*arguments: Any, **options: Any) -> Any:
        turn()
        return function(*arguments, **options)

    return stepped


class _Player(threading.Thread):
    """An actor in a thread of its own, at a standstill until told to go on."""

    def __init__(self, actor: Actor) -> None:
        super().__init__(daemon=True)
        self._actor, self._go, self._stands = actor, threading.Semaphore(0), threading.Semaphore(0)
        self.ended, self.error = False, None
        self.start()

    def run(self) -> None:
        self._go.acquire()
        try:
            self._actor()
        except BaseException as error:
            self.error = error  # type: ignore[assignment]
        self.ended = True
        self._stands.release()

    def wait_for_turn(self) -> None:
        self._stands.release()
        self._go.acquire()

    def go_on(self) -> None:
        """Let it make one step, up to before the next one."""
        self._go.release()
        assert self._stands.acquire(timeout=30), "an actor waits for something that is no step"


def _turn() -> None:
    player = threading.current_thread()
    if isinstance(player, _Player):
        player.wait_for_turn()


def step_by_step(patch: pytest.MonkeyPatch) -> None:
    """Make every file-system step of the modules that move tasks a point where another actor may come in."""
    for module in (files, workdir, pages, report):
        patch.setattr(module, "os", Stepping(os, _turn))
    if files._rename_new is not None:
        patch.setattr(files, "_rename_new", waiting(files._rename_new, _turn))


def play(actors: Sequence[Actor], forced: Sequence[int]) -> Trace:
    """Run the actors by the schedule, and then each to its end; what an actor raises is raised here."""
    players = [_Player(actor) for actor in actors]
    trace: Trace = []
    now = 0
    while alive := tuple(i for i, player in enumerate(players) if not player.ended):
        if len(trace) < len(forced):
            now = forced[len(trace)]
        elif now not in alive:
            now = alive[0]
        trace.append((now, alive))
        players[now].go_on()
    for player in players:
        if player.error is not None:
            raise player.error
    return trace


def explore(once: Callable[[Sequence[int]], Trace], interruptions: int) -> int:
    """Call `once` with every schedule of at most so many interruptions; how many there were."""
    todo: list[list[int]] = [[]]
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
