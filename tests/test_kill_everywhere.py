"""kill -9 at file-system calls of the real `sc`: a sample of what `python tests/syscall_kills.py` does at all."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import syscall_tracer
from syscall_kills import PHASES, Point, Scenario, Site

SAMPLE = 3  # points of each kind; all of them take half an hour
LONG = pytest.mark.timeout(600)  # each point runs `sc` three or four times
POINTS = 400  # what the calm run has at least: with fewer, the tracer has missed some

TRACER = [sys.executable, "-I", syscall_tracer.__file__]


def trace(folder: Path, *words: str) -> tuple[int, list[str]]:
    """Exit code and calls of a command of the shell."""
    out = folder.parent / "calls"
    *more, script = words
    command = [*TRACER, "--root", str(folder), "--out", str(out), *more, "sh", "-c", script]
    code = subprocess.run(command, cwd=folder, timeout=60, check=False).returncode
    return code, out.read_text().splitlines() if out.exists() else []


@pytest.fixture(scope="module", autouse=True)
def tracing(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips where processes can't be traced (another system, a container that forbids it); not so in CI."""
    folder = tmp_path_factory.mktemp("tracing") / "root"
    folder.mkdir()
    if syscall_tracer.possible() and trace(folder, "mkdir a") == (0, ["mkdir a"]):
        return
    assert not os.environ.get("CI"), "CI must be able to trace system calls"
    pytest.skip("system calls can't be traced here")


# ── the tracer itself ────────────────────────────────────────────────────────────────────────────────────────────────

SCRIPT = "mkdir a; echo x > a/b; cat a/b > /dev/null; (cd a; mv b c; ln c d; rm c); exit 5"
CALLS = ["mkdir a", "openat a/b", "write a/b", "renameat2 a/b a/c", "linkat a/c a/d", "unlinkat a/c"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def test_it_tells_what_changes_files_below_the_folder_and_nothing_else(folder: Path) -> None:
    """Of all processes that the command starts, and with the command's own end."""
    assert trace(folder, SCRIPT + "; touch ../elsewhere") == (5, CALLS)
    assert trace(folder, "kill -TERM $$") == (128 + signal.SIGTERM, [])


@pytest.mark.parametrize("call", range(len(CALLS)))
def test_it_kills_right_before_and_right_after_a_call(folder: Path, call: int) -> None:
    left = {}
    for when in ("before", "after"):
        here = folder / when
        here.mkdir()
        code, calls = trace(here, "--kill", when, "--at", CALLS[call], SCRIPT)
        assert code == 128 + signal.SIGKILL and calls[-1] == CALLS[call]
        left[when] = sorted((p.relative_to(here).as_posix(), p.is_file() and p.read_text()) for p in here.rglob("*"))
    assert left["before"] != left["after"]


def test_it_kills_all_that_was_started_or_the_first_alone(folder: Path) -> None:
    wait = "(read line < ../fifo; touch after) & touch now; wait"
    os.mkfifo(folder.parent / "fifo")
    assert trace(folder, "--kill", "after", "--at", "openat now", wait)[0] == 137  # and it has come to its end
    assert os.listdir(folder) == ["now"]


# ── the crawl ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    with Site() as site:
        yield Scenario(tmp_path_factory.mktemp("kills"), site)


def test_the_calm_run_has_all_the_calls_of_a_tasks_life(scenario: Scenario) -> None:
    calls = scenario.calm.calls
    assert sum(map(len, calls.values())) > POINTS // 2
    for way in (
        "openat origin/.plain.PID.part|write origin/.plain.PID.part|renameat2 origin/.plain.PID.part origin/plain.conf",
        "renameat2 origin/plain.conf working/plain.conf|"
        "write html/.plain.part|renameat2 html/.plain.part html/plain.html|"
        "write working/plain.conf|write parsed/.plain.part|rename parsed/.plain.part parsed/plain.jsonl|"
        "write working/plain.conf|renameat2 working/plain.conf success/plain.conf",
        "link html/.deep.part html/2026/deep.html|unlink html/.deep.part",
        "renameat2 origin/.leaf.PID.part origin/leaf.conf|renameat2 origin/leaf.conf working/leaf.conf",
        "write html/.gone.part|rename html/.gone.part html/.gone.error|renameat2 working/gone.conf error/gone.conf",
        "renameat2 error/later.conf origin/later.conf|unlink html/.later.error",
        "rename html/..sides.part html/heads/sides.txt|rename var/..sides.part var/jar.txt|utimensat html/sides.html",
    ):
        done = iter(calls["create"] + calls["crawl"] + calls["retry"])
        assert all(call in done for call in way.split("|")), way


def sample(scenario: Scenario, phase: str, salt: str = "") -> list[Point]:
    """The same points each time, spread over the phase by chance, whatever their order in this run."""
    points = [point for point in scenario.points() if point.phase == phase]
    return sorted(points, key=lambda point: zlib.crc32(f"{point}{salt}".encode()))[:SAMPLE]


@LONG
@pytest.mark.case("C077")
@pytest.mark.parametrize("phase", PHASES)
def test_killed_at_a_call_nothing_is_lost_and_the_end_is_the_same(scenario: Scenario, phase: str) -> None:
    reached = [scenario.check(point) for point in sample(scenario, phase)]
    assert any(reached)


@LONG
@pytest.mark.case("C077")
def test_killed_again_while_it_recovers(scenario: Scenario) -> None:
    reached = [scenario.check(point, again=random.Random(str(point))) for point in sample(scenario, "crawl", "twice")]
    assert any(reached)


@LONG
@pytest.mark.case("C077")
def test_killed_alone_its_workers_end_by_themselves(scenario: Scenario) -> None:
    reached = [scenario.check(point, whom="first") for point in sample(scenario, "crawl", "first")]
    assert any(reached)
