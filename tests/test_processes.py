"""Two crawls at once, locks, signals, full and read-only disks, junk in origin/, clocks that jump: the real `sc`."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pty
import signal
import socket
import stat
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import Serve
from helpers import (
    Project,
    assert_failures_explained,
    assert_in_one_state,
    assert_neighbours_well,
    assert_pages_whole,
    clean_env,
    put_neighbours,
    run_sc,
    sc_command,
)
from servers import SILENCE, FaultServer, Request, hold, ok, status
from workdir_helpers import Started, assert_all_end, end, hidden, minding_modes, small_disk, started_sc

from stateful_crawler.cli import progress
from stateful_crawler.control import CrawlSettings, Stop, Tally
from stateful_crawler.crawl import crawl
from stateful_crawler.errors import EnvironmentFault
from stateful_crawler.run import WIND_DOWN_S
from stateful_crawler.workdir import STATES, Workdir

BUSY, ENVIRONMENT, FAILED = 6, 7, 3
# For what must come at once, on a machine that is slow; far less than what it must not take.
SOON_S = 20.0


def put_many(project: Project, server: FaultServer, count: int) -> None:
    for number in range(1, count + 1):
        project.put_url(str(number), f"{server.url}/{number}")


def run_plain(project: Project, *words: str, prefix: list[str] | None = None) -> subprocess.CompletedProcess[str]:
    """`sc WORDS`, with a command before it."""
    command = [*(prefix or []), *sc_command(*words)]
    run = subprocess.run(
        command, cwd=project.folder, env=clean_env(), capture_output=True, text=True, timeout=60, check=False
    )
    assert "Traceback" not in run.stderr, run.stderr
    return run


def assert_one_line(stderr: str) -> None:
    """An error is one line: what, on which file, what to do."""
    lines = stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("sc: "), stderr


# ── two crawls on one workdir ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def held(serve: Serve) -> Iterator[tuple[FaultServer, threading.Event]]:
    """A server whose pages come when the event is set."""
    event = threading.Event()
    server = serve({"*": (hold(event), *ok("<p>page</p>"))})
    yield server, event
    event.set()


@pytest.mark.case("C081")
def test_a_second_crawl_is_refused_and_told_whose_the_first_is(
    project: Project, held: tuple[FaultServer, threading.Event]
) -> None:
    server, event = held
    put_many(project, server, 5)
    with started_sc(project, "crawl", "-c", "2") as first:
        server.wait_for(visits=2)
        before = project.states()
        for words in (["crawl"], ["retry"], ["fsck", "--fix"], ["requeue", "1"], ["crawl", "--no-parse", "-c", "9"]):
            second = run_sc(project, *words, check=BUSY)
            assert_one_line(second.stderr)
            assert f"pid {first.pid} " in second.stderr and f"kill {first.pid}" in second.stderr
        assert project.states() == before and server.count() == 2
        running = json.loads(run_sc(project, "status", "--json", check=0).stdout)["running"]
        assert running["pid"] == first.pid and running["host"] == os.uname().nodename and running["started"]
        event.set()
        assert first.ended() == 0
    assert json.loads(run_sc(project, "status", "--json", check=0).stdout)["running"] is None
    assert server.count() == 5
    run_sc(project, "crawl", check=0)
    assert server.count() == 5


def test_tasks_that_come_while_a_crawl_runs_are_done_by_it(
    project: Project, held: tuple[FaultServer, threading.Event]
) -> None:
    """create and mv need no lock."""
    server, event = held
    put_many(project, server, 1)
    (project.folder / "create.py").write_text(f"def create():\n    yield '{server.url}/created'\n")
    with started_sc(project, "crawl", "-c", "1") as first:
        server.wait_for("/1")
        run_sc(project, "create", check=0)
        project.put_url("moved", f"{server.url}/moved")
        event.set()
        assert first.ended() == 0
    assert len(project.in_state("success")) == 3
    assert server.count("/created") == server.count("/moved") == 1


@pytest.mark.case("C081")
def test_of_two_that_start_after_a_crash_one_wins(project: Project, held: tuple[FaultServer, threading.Event]) -> None:
    server, event = held
    put_many(project, server, 3)
    with started_sc(project, "crawl") as dead:
        server.wait_for(visits=3)
        dead.process.kill()
        dead.ended()
    commands = [subprocess.Popen(sc_command("crawl"), cwd=project.folder, env=clean_env()) for _ in range(3)]
    server.wait_for(visits=6)
    losers = [command for command in commands if wait_unless_it_holds(command, project)]
    event.set()
    codes = sorted(command.wait(60) for command in commands)
    assert codes == [0, BUSY, BUSY] and len(losers) == 2
    assert server.count() == 6
    assert project.in_state("success") == {"1", "2", "3"}


def wait_unless_it_holds(command: subprocess.Popen[bytes], project: Project) -> bool:
    """Wait for the end of a command that is not the one that runs."""
    run = json.loads((project.workdir / ".sc" / "run.json").read_text())
    if run["pid"] == command.pid:
        return False
    return command.wait(60) == BUSY


# ── what a lock file may be ──────────────────────────────────────────────────────────────────────────────────────────

LOCKS = [b"", b"hello", b"-1", b"99999999999", b"\xff\x00" * 3000]


@pytest.mark.case("C081")
@pytest.mark.parametrize("left", [*LOCKS, None], ids=["empty", "hello", "minus-one", "huge", "binary", "dead-pid"])
def test_a_lock_file_that_was_left_keeps_nobody_out(project: Project, serve: Serve, left: bytes | None) -> None:
    server = serve({"*": ok("x")})
    put_many(project, server, 1)
    if left is None:
        child = subprocess.Popen(["true"])
        child.wait()
        left = b"%d\n" % child.pid
    (project.workdir / ".sc").mkdir()
    for name in ("lock", "run.json"):
        (project.workdir / ".sc" / name).write_bytes(left)
    assert json.loads(run_sc(project, "status", "--json", check=0).stdout)["running"] is None
    run_sc(project, "crawl", check=0)
    assert project.in_state("success") == {"1"}


def make_directory(path: Path) -> None:
    path.mkdir()


def make_link(path: Path) -> None:
    path.with_name("precious").write_bytes(b"precious")
    path.symlink_to("precious")


def make_unreadable(path: Path) -> None:
    path.touch(mode=0)
    path.chmod(0)


@pytest.mark.case("C081")
@pytest.mark.parametrize("make", [make_directory, make_link, make_unreadable])
def test_a_lock_that_cannot_be_taken_is_one_line_that_says_what_to_do(
    project: Project, serve: Serve, make: Callable[[Path], None]
) -> None:
    server = serve({"*": ok("x")})
    put_many(project, server, 1)
    lock = project.workdir / ".sc" / "lock"
    lock.parent.mkdir()
    make(lock)
    before = os.lstat(lock)
    run = run_plain(project, "crawl", prefix=minding_modes())
    assert run.returncode == ENVIRONMENT
    assert_one_line(run.stderr)
    assert "workdir/.sc/lock" in run.stderr and "remove" in run.stderr
    assert (os.lstat(lock).st_ino, os.lstat(lock).st_mode) == (before.st_ino, before.st_mode)
    if make is make_link:
        assert lock.read_bytes() == b"precious"
    assert server.count() == 0 and project.in_state("origin") == {"1"}


# ── what a parser starts does not hold the lock ──────────────────────────────────────────────────────────────────────

LASTING = {
    "fork": "child = os.fork()\n    if child == 0:\n        time.sleep(600)\n        os._exit(0)",
    "popen": "child = subprocess.Popen(['sleep', '600']).pid",
    "inheriting-popen": "child = subprocess.Popen(['sleep', '600'], close_fds=False).pid",
}
LASTING_PARSER = """\
import os, subprocess, time, urllib.request

def parse(page):
    {code}
    with open("children", "a") as file:
        file.write(str(child) + "\\n")
    urllib.request.urlopen(page.urljoin("/child")).close()
    {then}
"""


@pytest.fixture
def children(project: Project) -> Iterator[Callable[[], list[int]]]:
    """The processes that the parser started, as it wrote them down; ended with the test."""

    def listed() -> list[int]:
        path = project.folder / "children"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    yield listed
    for pid in listed():
        end(pid)


@pytest.mark.case("C083")
@pytest.mark.parametrize("code", [pytest.param(code, id=name) for name, code in LASTING.items()])
def test_the_lock_does_not_live_on_in_what_a_parser_started(
    project: Project, serve: Serve, code: str, children: Callable[[], list[int]]
) -> None:
    server = serve({"*": ok("x")})
    put_many(project, server, 1)
    parser = project.folder / "parser.py"
    parser.write_text(LASTING_PARSER.format(code=code, then="time.sleep(600)"))
    with started_sc(project, "crawl") as killed:
        server.wait_for("/child")
        killed.process.kill()
        killed.ended()
        (child,) = children()
        os.kill(child, 0)  # it lives
        parser.write_text("def parse(page):\n    yield {'a': 1}\n")
        run_sc(project, "crawl", check=0)
    assert project.in_state("success") == {"1"} and server.count("/1") == 1


@pytest.mark.case("C083")
@pytest.mark.parametrize("code", [pytest.param(code, id=name) for name, code in LASTING.items()])
def test_the_end_of_such_a_child_does_not_unlock(
    project: Project, serve: Serve, code: str, children: Callable[[], list[int]]
) -> None:
    event = threading.Event()
    server = serve({"*": ok("x"), "/2": (hold(event), *ok("x"))})
    put_many(project, server, 2)
    quick = code.replace("600", "0")
    (project.folder / "parser.py").write_text(LASTING_PARSER.format(code=quick, then="yield {'a': 1}"))
    with started_sc(project, "crawl") as first:
        server.wait_for("/child")
        server.wait_for("/2")
        (child,) = children()
        ended(child)
        assert f"pid {first.pid} " in run_sc(project, "crawl", check=BUSY).stderr
        event.set()
        assert first.ended() == 0
    assert project.in_state("success") == {"1", "2"}


def ended(pid: int) -> None:
    """Wait for the end of a process that is no child of ours."""
    for _ in range(2000):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except OSError:
            return
        time.sleep(0.01)
    raise AssertionError(f"{pid} goes on")


# ── signals ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def stopping(started: Started) -> None:
    """Wait until the crawl has said that it is about to stop."""
    while "stopping" not in started.stderr:
        assert started.process.poll() is None, started.stderr
        time.sleep(0.01)  # nothing else tells that a signal was taken


@pytest.mark.case("C079")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_one_signal_lets_end_what_is_under_way_and_puts_back_the_rest(
    project: Project, serve: Serve, number: signal.Signals, code: int
) -> None:
    event = threading.Event()
    slow = (hold(event), *ok("slow"))
    later = status(503, retry_after="200")
    server = serve({"*": ok("x"), "/3": status(404), "/4": later, "/5": slow, "/6": slow, "/7": slow})
    put_many(project, server, 20)
    with started_sc(project, "crawl", "-c", "3") as started:
        for path in ("/5", "/6", "/7"):
            server.wait_for(path)
        os.kill(started.pid, number)
        stopping(started)
        event.set()
        assert started.ended() == code
    assert "stopped: 5 of 20 done, 1 errors; resume with: sc crawl" in started.stderr
    assert "Traceback" not in started.stderr
    assert project.in_state("success") == {"1", "2", "5", "6", "7"}
    assert project.in_state("error") == {"3"} and not project.in_state("working")
    assert server.count() == 7
    assert_in_one_state(project)
    assert_pages_whole(project)
    server.on("/4", *[ok("x")])
    run_sc(project, "crawl", check=0)
    assert len(project.in_state("success")) == 19 and server.count() == 7 + 14


@pytest.mark.case("C079")
def test_one_signal_ends_a_crawl_of_silent_servers_within_its_time(project: Project, serve: Serve) -> None:
    """docker stop waits for ten seconds. A request that changes things may have been done: it is not put back."""
    server = serve({"*": ok("x"), **{f"/{number}": (SILENCE,) for number in (3, 4, 5)}})
    put_many(project, server, 20)
    project.put_url("5", f"{server.url}/5", 'data = "a=1"')
    project.put_url("6", f"{server.url}/6", 'data = "a=1"')
    with started_sc(project, "crawl", "-c", "3") as started:
        for path in ("/3", "/4", "/5"):
            server.wait_for(path)
        os.kill(started.pid, signal.SIGTERM)
        began = time.monotonic()
        assert started.ended() == 143
        took_s = time.monotonic() - began
    assert WIND_DOWN_S <= 8 and took_s < WIND_DOWN_S + SOON_S
    assert "stopped: 2 of 20 done, 1 errors; resume with: sc crawl" in started.stderr
    assert project.in_state("success") == {"1", "2"} and not project.in_state("working")
    assert project.in_state("error") == {"5"} and project.reason("5") == "unknown-outcome"
    assert hidden(project.workdir) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_leaves_at_once_and_nothing_is_lost(
    project: Project, serve: Serve, number: signal.Signals, code: int
) -> None:
    event = threading.Event()
    server = serve({"*": ok("x"), **{f"/{number}": (hold(event), *ok("x")) for number in (3, 4, 5)}})
    put_many(project, server, 20)
    with started_sc(project, "crawl", "-c", "3") as started:
        for path in ("/3", "/4", "/5"):
            server.wait_for(path)
        os.kill(started.pid, number)
        stopping(started)
        os.kill(started.pid, number)
        assert started.ended(WIND_DOWN_S / 2) == code
    assert project.in_state("success") == {"1", "2"} and project.in_state("working") == {"3", "4", "5"}
    assert_in_one_state(project)
    event.set()
    run = run_sc(project, "crawl", check=0)
    assert "3 taken back" in run.stderr
    assert len(project.in_state("success")) == 20 and server.count() == 23


@pytest.mark.case("C079")
def test_as_the_first_process_of_a_container_it_takes_the_signal_too(project: Project, serve: Serve) -> None:
    """The kernel keeps from process 1 every signal that it has no handler for."""
    event = threading.Event()
    server = serve({"*": ok("x"), "/2": (hold(event), *ok("x"))})
    put_many(project, server, 3)
    contained = ["unshare", "--pid", "--fork", "--kill-child"]
    if os.geteuid() != 0 or subprocess.run([*contained, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs a process namespace of its own, which only root may make")
    with started_sc(project, "crawl", "-c", "1", prefix=contained) as started:
        server.wait_for("/2")
        (first,) = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
        os.kill(int(first), signal.SIGTERM)
        stopping(started)
        event.set()
        assert started.ended() == 143
    assert project.states() == {"1": "success", "2": "success", "3": "origin"}


SLOW_PARSER = """\
import urllib.request

def parse(page):
    urllib.request.urlopen(page.urljoin("/begun")).close()
    {code}
    yield {{"name": page.name}}
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("send", [os.kill, os.killpg], ids=["process", "group"])
def test_a_signal_while_a_page_is_parsed(
    project: Project, serve: Serve, number: signal.Signals, send: Callable[[int, int], None]
) -> None:
    """Ctrl-C and the end of a terminal go to the whole group: a parser that dies of them is no fault of its page."""
    event = threading.Event()
    server = serve({"*": ok("x"), "/begun": (hold(event), *ok("x"))})
    put_many(project, server, 3)
    (project.folder / "parser.py").write_text(SLOW_PARSER.format(code=""))
    with started_sc(project, "crawl", "-j", "1") as started:
        server.wait_for("/begun")
        send(started.pid, number)
        stopping(started)
        event.set()
        assert started.ended() == 128 + number
        assert "resume with: sc crawl" in started.stderr and "Traceback" not in started.stderr
        assert_all_end(started.pid)
    assert set(project.states()) == {"1", "2", "3"} and set(project.states().values()) <= {"origin", "success"}
    run_sc(project, "crawl", check=0)
    assert project.in_state("success") == {"1", "2", "3"}
    assert [server.count(f"/{number}") for number in (1, 2, 3)] == [1, 1, 1]
    assert all((project.workdir / "parsed" / f"{name}.jsonl").exists() for name in ("1", "2", "3"))


@pytest.mark.case("C079")
def test_a_parser_that_spins_holds_the_end_up_no_longer_than_a_silent_server(project: Project, serve: Serve) -> None:
    server = serve({"*": ok("x")})
    put_many(project, server, 3)
    (project.folder / "parser.py").write_text(SLOW_PARSER.format(code="while True: pass"))
    with started_sc(project, "crawl", "-j", "1") as started:
        server.wait_for("/begun")
        os.kill(started.pid, signal.SIGTERM)
        assert started.ended(WIND_DOWN_S + SOON_S) == 143
        assert "stopped: 0 of 3 done, 0 errors; resume with: sc crawl" in started.stderr
        assert_all_end(started.pid)
    assert project.in_state("origin") == {"1", "2", "3"}


# ── a disk that is full, a folder that can't be written ──────────────────────────────────────────────────────────────


def test_a_full_disk_stops_the_crawl_and_loses_nothing(project: Project, serve: Serve) -> None:
    pages = {f"/{number}": ok(b"%d" % number * 20_000) for number in range(1, 61)}
    server = serve(dict(pages))
    with small_disk(project.workdir, "700k"):
        (project.workdir / "origin").mkdir()
        put_many(project, server, 60)
        run = run_sc(project, "crawl", "-c", "5", check=ENVIRONMENT)
        assert_one_line(run.stderr)
        assert "No space left on device" in run.stderr and "make room" in run.stderr
        assert_in_one_state(project)
        assert not project.in_state("error") and not project.in_state("working")
        whole_pages(project)
        assert 0 < len(project.in_state("success")) < 60
        again = run_sc(project, "crawl", "-c", "5", check=ENVIRONMENT)
        assert_one_line(again.stderr)
        subprocess.run(["mount", "-o", "remount,size=20m", str(project.workdir)], check=True)
        run_sc(project, "crawl", "-c", "5", check=0)
        assert len(project.in_state("success")) == 60
        whole_pages(project)
        assert hidden(project.workdir) == []


def whole_pages(project: Project) -> None:
    for path in (project.workdir / "html").glob("[!.]*"):
        assert path.read_bytes() == b"%d" % int(path.stem) * 20_000
    assert project.in_state("success") <= {path.stem for path in (project.workdir / "html").glob("[!.]*")}


def test_a_disk_that_fills_up_in_the_middle_of_a_large_page(project: Project, serve: Serve) -> None:
    """It goes aside while it comes in; what was written there is removed, or the disk stays full."""
    server = serve({"*": ok(b"x" * 3_000_000)})
    with small_disk(project.workdir, "2m"):
        (project.workdir / "origin").mkdir()
        put_many(project, server, 1)
        run = run_sc(project, "crawl", check=ENVIRONMENT)
        assert_one_line(run.stderr)
        assert "No space left on device" in run.stderr
        assert project.states() == {"1": "origin"} and hidden(project.workdir) == []
        subprocess.run(["mount", "-o", "remount,size=20m", str(project.workdir)], check=True)
        run_sc(project, "crawl", check=0)
        assert len(project.page("1")) == 3_000_000


def test_a_disk_that_is_full_of_items(project: Project, serve: Serve) -> None:
    """The worker finds it out, the crawl tells it."""
    server = serve({"*": ok("x")})
    (project.folder / "parser.py").write_text("def parse(page):\n    yield {'x': 'y' * 100_000}\n")
    with small_disk(project.workdir, "700k"):
        (project.workdir / "origin").mkdir()
        put_many(project, server, 20)
        run = run_sc(project, "crawl", check=ENVIRONMENT)
        assert_one_line(run.stderr)
        assert "No space left on device" in run.stderr
        assert not project.in_state("error") and not project.in_state("working")
        for path in (project.workdir / "parsed").glob("[!.]*"):
            assert json.loads(path.read_text()) == {"x": "y" * 100_000}
        subprocess.run(["mount", "-o", "remount,size=20m", str(project.workdir)], check=True)
        run_sc(project, "crawl", check=0)
        assert len(project.in_state("success")) == 20
        assert server.count() <= 20 + 3  # again only what was under way when the crawl stopped


def test_create_on_a_full_disk(project: Project) -> None:
    (project.folder / "create.py").write_text(
        "def create():\n    for n in range(1000):\n        yield {'url': f'http://127.0.0.1:9/{n}', 'name': str(n)}\n"
    )
    with small_disk(project.workdir, "400k"):
        run = run_sc(project, "create", check=ENVIRONMENT)
        assert_one_line(run.stderr)
        assert "No space left on device" in run.stderr
        made = project.in_state("origin")
        assert 0 < len(made) < 1000 and hidden(project.workdir) == []
        for name in made:
            assert project.path_of(name).read_bytes().endswith(b'connect-timeout = "15"\n')
        subprocess.run(["mount", "-o", "remount,size=20m", str(project.workdir)], check=True)
        assert f"{1000 - len(made)} tasks created" in run_sc(project, "create", check=0).stderr


@pytest.mark.parametrize("output", ["html/1.html", "html/mine.html"])
def test_a_disk_that_is_full_just_when_a_page_is_to_be_recorded(
    project: Project, serve: Serve, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    """The page stands there and nobody has said whose it is: the next run must not take it for another task's."""
    server = serve({"*": ok("x")})
    project.put_url("1", f"{server.url}/1", f'output = "{output}"')
    workdir = Workdir(str(project.workdir)).open()

    def full(*_: object) -> None:
        raise EnvironmentFault("can't write", "working/1.conf", errno.ENOSPC)

    stop = Stop()
    with contextlib.closing(stop), monkeypatch.context() as patch:
        patch.setattr(Workdir, "record", full)
        with pytest.raises(EnvironmentFault):
            crawl(workdir, CrawlSettings(), stop, lambda _: None)
    assert project.states() == {"1": "origin"}
    run_sc(project, "crawl", check=0)
    assert (project.workdir / output).read_bytes() == b"x"


@pytest.mark.case("C073")
@pytest.mark.parametrize("folder", ["html", "parsed", "working", "origin", "success", "error", ".sc"])
def test_a_directory_that_may_not_be_written_is_told_before_the_first_request(
    project: Project, serve: Serve, folder: str
) -> None:
    server = serve({"*": ok("x")})
    put_many(project, server, 3)
    Workdir(str(project.workdir)).open()
    (project.workdir / folder).chmod(0o555)
    run = run_plain(project, "crawl", prefix=minding_modes())
    (project.workdir / folder).chmod(0o755)
    assert run.returncode == ENVIRONMENT
    assert_one_line(run.stderr)
    assert f"workdir/{folder}" in run.stderr and "Permission denied" in run.stderr
    assert server.count() == 0
    assert project.states() == {"1": "origin", "2": "origin", "3": "origin"}
    run_sc(project, "crawl", check=0)
    assert server.count() == 3


@pytest.mark.case("C073")
def test_a_directory_that_is_missing_and_cannot_be_made_is_told(project: Project, serve: Serve) -> None:
    server = serve({"*": ok("x")})
    put_many(project, server, 1)
    project.workdir.chmod(0o555)
    run = run_plain(project, "crawl", prefix=minding_modes())
    project.workdir.chmod(0o755)
    assert run.returncode == ENVIRONMENT and server.count() == 0
    assert_one_line(run.stderr)


@pytest.mark.case("C073")
def test_a_read_only_disk_is_told_before_the_first_request(project: Project, serve: Serve) -> None:
    server = serve({"*": ok("x")})
    with small_disk(project.workdir, "1m"):
        (project.workdir / "origin").mkdir()
        put_many(project, server, 1)
        Workdir(str(project.workdir)).open()
        subprocess.run(["mount", "-o", "remount,ro", str(project.workdir)], check=True)
        run = run_sc(project, "crawl", check=ENVIRONMENT)
        assert_one_line(run.stderr)
        assert "Read-only file system" in run.stderr
        assert server.count() == 0
        subprocess.run(["mount", "-o", "remount,rw", str(project.workdir)], check=True)
        run_sc(project, "crawl", check=0)


@pytest.mark.parametrize("folder", ["html", "working", "success"])
def test_a_directory_that_goes_while_the_crawl_runs(project: Project, serve: Serve, folder: str) -> None:
    """An error with the directory's name; the tasks are still there, and the same command goes on."""

    def remove(_: Request) -> object:
        (project.workdir / folder).rename(project.folder / "away")
        return ok("x")

    server = serve({"*": ok("x"), "/1": [remove, ok("x")]})
    put_many(project, server, 3)
    run = run_sc(project, "crawl", "-c", "1", check=ENVIRONMENT)
    assert_one_line(run.stderr)
    assert f"workdir/{folder}" in run.stderr
    (project.folder / "away").rename(project.workdir / folder)
    run_sc(project, "crawl", check=0)
    assert project.in_state("success") == {"1", "2", "3"}


# ── other file systems ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.case("C071")
@pytest.mark.parametrize("state", STATES)
def test_states_on_another_file_system_are_refused_before_the_first_request(
    project: Project, serve: Serve, state: str
) -> None:
    server = serve({"*": ok("x")})
    Workdir(str(project.workdir)).open()
    with small_disk(project.workdir / state, "1m"):
        put_many(project, server, 1)
        run = run_sc(project, "crawl", check=ENVIRONMENT)
        assert_one_line(run.stderr)
        assert "file systems" in run.stderr
        assert server.count() == 0 and project.states() == {"1": "origin"}


@pytest.mark.case("C071")
@pytest.mark.parametrize("folder", ["html", "parsed"])
def test_pages_and_items_may_lie_on_another_file_system(project: Project, serve: Serve, folder: str) -> None:
    server = serve({"*": ok(b"x" * 2_000_000)})
    (project.folder / "parser.py").write_text("def parse(page):\n    yield {'size': len(page.body)}\n")
    with small_disk(project.workdir / folder, "20m"):
        put_many(project, server, 3)
        run_sc(project, "crawl", check=0)
        assert project.in_state("success") == {"1", "2", "3"}
        assert all(len(project.page(name)) == 2_000_000 for name in ("1", "2", "3"))


@pytest.mark.case("C071")
def test_html_may_be_a_link_to_another_directory(project: Project, serve: Serve) -> None:
    server = serve({"*": ok("x")})
    (project.folder / "big").mkdir()
    (project.workdir / "html").symlink_to("../big")
    put_many(project, server, 3)
    run_sc(project, "crawl", check=0)
    assert sorted(os.listdir(project.folder / "big")) == ["1.html", "2.html", "3.html"]
    assert (project.workdir / "html").is_symlink()
    assert_pages_whole(project)
    run_sc(project, "fsck", check=0)


def test_a_task_may_be_saved_below_a_mounted_folder_of_html_or_says_why_not(project: Project, serve: Serve) -> None:
    server = serve({"*": ok("x")})
    with small_disk(project.workdir / "html" / "sub", "1m"):
        project.put_url("1", f"{server.url}/1", 'output = "html/sub/1.html"')
        project.put_url("2", f"{server.url}/2")
        run_sc(project, "crawl", check=FAILED)
        assert project.states() == {"1": "error", "2": "success"}
        assert project.reason("1") in ("io", "config")


# ── what is not a task, or not one that can be run ───────────────────────────────────────────────────────────────────

# name -> its text; `{server}` is the url of a server that answers everything.
JUNK = {
    "binary": b"\x7fELF\x02\x01\x00\xff\xfe\n\x00",
    "empty": b"",
    "blank": b"\n\n# nothing\n",
    "two-urls": b'url = "{server}/a"\nurl = "{server}/b"\n',
    "next": b'url = "{server}/a"\nnext\nurl = "{server}/b"\n',
    "file": b'url = "file:///etc/passwd"\n',
    "ftp": b'url = "ftp://127.0.0.1/x"\n',
    "globs": b'url = "{server}/[1-3]"\n',
    "unknown": b'url = "{server}/a"\nnonsense = "x"\n',
    "into-origin": b'url = "{server}/a"\noutput = "origin/x.conf"\n',
    "into-success": b'url = "{server}/a"\noutput = "success/x.conf"\n',
    "upwards": b'url = "{server}/a"\noutput = "../x"\n',
    "round-about": b'url = "{server}/a"\noutput = "html/../x"\n',
    "absolute": b'url = "{server}/a"\noutput = "/etc/x"\n',
    "dotted": b'url = "{server}/a"\noutput = "html/.x"\n',
    "through-link": b'url = "{server}/a"\noutput = "html/link/x"\n',
    "below-a-page": b'url = "{server}/a"\noutput = "html/aa-neighbour.html/x"\n',
    "deep": b'url = "{server}/a"\noutput = "html/' + b"d/" * 3000 + b'x"\n',
    "long-part": b'url = "{server}/a"\noutput = "html/' + b"d" * 300 + b'"\n',
    "l" * 250: b'url = "{server}/a"\n',
    "\u9875" * 83: b'url = "{server}/a"\n',  # 249 bytes
}


@pytest.mark.case("C069")
def test_junk_in_origin_is_told_of_and_harms_no_neighbour(project: Project, serve: Serve) -> None:
    server, honest = serve({"*": ok("x")}), serve()
    put_neighbours(project, honest)
    (project.folder / "outside").mkdir()
    (project.workdir / "html").mkdir()
    (project.workdir / "html" / "link").symlink_to(project.folder / "outside")
    for name, text in JUNK.items():
        project.put(name, text.replace(b"{server}", server.url.encode()))
    run = run_sc(project, "crawl", "--no-parse", check=FAILED)
    assert project.in_state("error") == set(JUNK)
    assert_neighbours_well(project)
    assert_in_one_state(project)
    assert_failures_explained(project)
    asked = {"below-a-page"}  # only when it is saved is it known that a page has that name
    assert server.count() == len(asked)
    reasons = {name: project.reason(name) for name in JUNK}
    assert {name: reason for name, reason in reasons.items() if reason != "config"} == {
        "file": "forbidden",
        "ftp": "forbidden",
    }
    assert "working/two-urls.conf:2" in project.last("two-urls")["detail"]
    assert not list((project.folder / "outside").iterdir()) and not (project.folder / "x").exists()
    assert len(run.stderr.splitlines()) <= 6
    run_sc(project, "fsck", check=0)


@pytest.mark.parametrize("name", ["../x", "../../x", "/srv/x", ".x", "", "a/b", "x" * 201])
@pytest.mark.parametrize("plugin", ["create", "parser"])
def test_a_plugin_cannot_name_a_task_out_of_the_workdir(project: Project, serve: Serve, plugin: str, name: str) -> None:
    """Names often come from pages."""
    server = serve({"*": ok("x")})
    give = f"    yield Task({name!r}, 'http://127.0.0.1:9/')\n"
    argument = "page" if plugin == "parser" else ""
    function = "parse" if plugin == "parser" else "create"
    text = f"from stateful_crawler import Task\n\ndef {function}({argument}):\n{give}"
    (project.folder / f"{plugin}.py").write_text(text)
    put_many(project, server, 1)
    before = {path for path in project.folder.rglob("*") if path.is_file()}
    run = run_sc(project, "create", check=5) if plugin == "create" else run_sc(project, "crawl", check=FAILED)
    told = run.stderr if plugin == "create" else project.last("1")["detail"]
    assert "task name" in told
    new = {path for path in project.folder.rglob("*") if path.is_file()} - before
    assert all(project.workdir in path.parents for path in new) and len(list(project.workdir.glob("*/*.conf"))) == 1


def make_strangers(folder: Path, elsewhere: Path) -> None:
    for name in (".DS_Store", "x.conf~", ".x.conf.swp", "#x.conf#", "Thumbs.db", "notes.txt"):
        (folder / name).write_bytes(b'url = "http://127.0.0.1:9/"\n')
    for name in ("sub", "sub.conf"):
        (folder / name).mkdir()
        (folder / name / "inner.conf").write_bytes(b'url = "http://127.0.0.1:9/"\n')
    (folder / "dangling.conf").symlink_to("nowhere")
    elsewhere.write_bytes(b'url = "http://127.0.0.1:9/"\n')
    (folder / "link.conf").symlink_to(elsewhere)
    (folder / "passwd.conf").symlink_to("/etc/passwd")
    os.mkfifo(folder / "fifo.conf")
    with socket.socket(socket.AF_UNIX) as there, contextlib.chdir(folder):
        there.bind("socket.conf")


VISIBLE_STRANGERS = 11


@pytest.mark.case("C069")
def test_what_is_not_a_task_is_left_alone_and_counted(project: Project, serve: Serve) -> None:
    honest = serve()
    put_neighbours(project, honest)
    origin = project.workdir / "origin"
    make_strangers(origin, project.folder / "elsewhere.conf")
    before = {path.name: os.lstat(path) for path in origin.iterdir() if path.stem not in project.written}
    run = run_sc(project, "crawl", "--no-parse", check=0)
    assert f"{VISIBLE_STRANGERS} things in the state directories are not tasks, and were ignored" in run.stderr
    assert_neighbours_well(project)
    after = {path.name: os.lstat(path) for path in origin.iterdir()}
    assert {name: (s.st_ino, s.st_mode) for name, s in after.items()} == {
        name: (s.st_ino, s.st_mode) for name, s in before.items()
    }
    counts = json.loads(run_sc(project, "status", "--json", check=0).stdout)
    assert (counts["origin"], counts["success"], counts["ignored"]) == (0, 2, VISIBLE_STRANGERS)
    assert (project.folder / "elsewhere.conf").read_bytes() == b'url = "http://127.0.0.1:9/"\n'


@pytest.mark.case("C069")
@pytest.mark.parametrize("mode", [0o000, 0o200, 0o400], ids=["none", "write-only", "read-only"])
def test_a_task_that_may_not_be_opened_stays_and_is_told(project: Project, serve: Serve, mode: int) -> None:
    honest = serve()
    put_neighbours(project, honest)
    closed = project.workdir / "origin" / "closed.conf"
    closed.write_text(f'url = "{honest.url}/aa-neighbour"\n')
    closed.chmod(mode)
    run = run_plain(project, "crawl", "--no-parse", prefix=minding_modes())
    assert_neighbours_well(project)
    assert "left alone: closed: " in run.stderr
    assert stat.S_IMODE(closed.stat().st_mode) == mode and honest.count() == 2
    closed.chmod(0o644)
    run_sc(project, "crawl", "--no-parse", check=0)
    assert project.in_state("success") >= {"closed"}


def test_a_task_left_in_working_that_may_not_be_opened_goes_back_and_is_told(project: Project, serve: Serve) -> None:
    honest = serve()
    put_neighbours(project, honest)
    Workdir(str(project.workdir)).open()
    closed = project.workdir / "working" / "closed.conf"
    closed.write_text(f'url = "{honest.url}/aa-neighbour"\n')
    closed.chmod(0)
    run = run_plain(project, "crawl", "--no-parse", prefix=minding_modes())
    assert "left alone: closed: " in run.stderr
    assert project.state_of("closed") == "origin"
    assert_neighbours_well(project)


@pytest.mark.case("C067")
def test_names_that_are_not_utf8_are_crawled_shown_and_retried(project: Project, serve: Serve) -> None:
    server = serve({"*": ok("x"), "/bad": [status(404), ok("x")]})
    origin = os.fsencode(project.workdir) + b"/origin/"
    for name, path in ((b"caf\xe9", "/bad"), (b"\xff\xfe", "/good")):
        with open(origin + name + b".conf", "w") as file:
            file.write(f'url = "{server.url}{path}"\n')
    run = run_sc(project, "-v", "crawl", "--no-parse", check=FAILED)
    assert project.states() == {"caf\udce9": "error", "\udcff\udcfe": "success"}
    for words in (["status"], ["show", "caf\udce9"], ["show", "caf\udce9", "--json"], ["status", "--json"], ["fsck"]):
        told = run_sc(project, *words, check=0)
        assert told.stdout.isascii() or "\ufffd" not in told.stdout
    assert run_sc(project, "show", "caf\udce9", check=0).stdout.startswith("caf\\xe9 is in error/")
    assert run.stderr.isprintable() or "caf\\xe9" in run.stderr
    run_sc(project, "retry", "--no-parse", check=0)
    assert os.path.exists(os.fsencode(project.workdir) + b"/success/caf\xe9.conf")
    assert os.path.exists(os.fsencode(project.workdir) + b"/html/caf\xe9.html")


@pytest.mark.case("C065")
@pytest.mark.parametrize("name", ["x" * 200, "x" * 240, "é" * 120, "\u9875" * 80], ids=["200", "240", "e-acute", "cjk"])
def test_long_names_go_all_the_way(project: Project, serve: Serve, name: str) -> None:
    server = serve({"*": [status(503, "sorry"), ok("x")]})
    project.put_url(name, f"{server.url}/1")
    project.put_url(name[:-1], f"{server.url}/2")
    (project.folder / "parser.py").write_text("def parse(page):\n    yield {'name': page.name}\n")
    run_sc(project, "crawl", check=0)
    for saved in (name, name[:-1]):
        assert json.loads((project.workdir / "parsed" / f"{saved}.jsonl").read_text()) == {"name": saved}


# ── a clock that jumps ───────────────────────────────────────────────────────────────────────────────────────────────

# Jumps when the file comes up.
JUMP = """\
import os, time
_real = time.time
time.time = lambda: _real() + ({by} if os.path.exists({file!r}) else 0)
"""


@pytest.fixture(params=[-3600, 3600, 10**8], ids=["back", "forward", "years"])
def jump(request: pytest.FixtureRequest, project: Project) -> Path:
    """The file that makes the clock jump, for a crawl that is started with PYTHONPATH=jump."""
    file = project.folder / "jumped"
    (project.folder / "jump").mkdir()
    (project.folder / "jump" / "sitecustomize.py").write_text(JUMP.format(by=request.param, file=str(file)))
    return file


@pytest.mark.case("C085")
def test_a_clock_that_jumps_changes_no_wait(project: Project, serve: Serve, jump: Path) -> None:
    """Neither the wait before the next try nor the time that a transfer may take."""

    def jump_now(_: Request) -> object:
        jump.touch()
        return status(503)

    server = serve({"*": ok("x"), "/3": [jump_now, ok("x")]})
    put_many(project, server, 10)
    with started_sc(project, "crawl", env={"PYTHONPATH": "jump"}) as started:
        assert started.ended(SOON_S) == 0, started.stderr
    assert project.in_state("success") == {str(number) for number in range(1, 11)}
    assert server.count() == 11
    for name in project.states():
        for record in project.records(name, "fetch"):
            assert 0 <= record.get("seconds", 0) < 60 and 0 <= record.get("retry_in_s", 0) < 60
    assert jump.exists()


@pytest.mark.case("C085")
def test_a_clock_that_jumps_ends_no_parse(project: Project, serve: Serve, jump: Path) -> None:
    server = serve({"*": ok("x")})
    put_many(project, server, 3)
    (project.folder / "parser.py").write_text(
        "import time, urllib.request\n"
        "def parse(page):\n"
        "    urllib.request.urlopen(page.urljoin('/begun')).close()\n"
        "    time.sleep(1)\n"  # the clock jumps meanwhile, and the pool looks at it ten times
        "    yield {'name': page.name}\n"
    )
    with started_sc(project, "crawl", "-j", "1", env={"PYTHONPATH": "jump"}) as started:
        server.wait_for("/begun")
        jump.touch()
        assert started.ended(SOON_S) == 0, started.stderr
    assert project.in_state("success") == {"1", "2", "3"}
    # Another run sees a start in the future, or long ago: neither makes the work of the last one void.
    run_sc(project, "crawl", check=0)
    assert [server.count(f"/{number}") for number in (1, 2, 3)] == [1, 1, 1]


# ── how it is watched ────────────────────────────────────────────────────────────────────────────────────────────────


def test_quiet_says_nothing_but_errors(project: Project, serve: Serve) -> None:
    server = serve({"*": ok("x"), "/2": status(404)})
    put_many(project, server, 3)
    run = run_sc(project, "-q", "crawl", "--no-parse", check=FAILED)
    assert (run.stdout, run.stderr) == ("", "")
    run = run_sc(project, "-q", "-w", "nowhere/at/all", "requeue", "1", check=2)
    assert run.stderr


def test_where_there_is_no_terminal_a_line_comes_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with progress.progress(False, False) as watch:
        for step, done in ((0.2, 1), (9.9, 5), (10.1, 20), (15.0, 30), (19.9, 39), (20.2, 40)):
            now = 100.0 + step
            watch(Tally(total=100, claimed=done, succeeded=done - 1, failed=1, connections=3))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" done")[0] for line in lines] == ["20/100", "40/100"]
    assert "2.0 pages/s, 1 errors, 3 connections" in lines[0]


def test_a_short_crawl_without_a_terminal_says_only_its_summary(project: Project, serve: Serve) -> None:
    server = serve({"*": ok("x")})
    put_many(project, server, 3)
    run = run_sc(project, "crawl", "--no-parse", check=0)
    assert run.stdout == "" and run.stderr == "3 done, 0 failed, 3 fetched (fetched only, not parsed)\n"


def test_on_a_terminal_a_bar_counts_to_a_true_total(project: Project, serve: Serve) -> None:
    event = threading.Event()
    server = serve({"*": ok("x"), "/40": (hold(event), *ok("x"))})
    put_many(project, server, 40)
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    with contextlib.closing(os.fdopen(ours, "rb", buffering=0)) as screen:
        command = sc_command("crawl", "--no-parse", "-c", "1")
        process = subprocess.Popen(command, cwd=project.folder, env=clean_env(TERM="xterm"), stderr=theirs)
        os.close(theirs)
        server.wait_for("/40")
        shown = b""
        while b"39/40" not in shown:  # the bar is drawn again a few times a second
            shown += screen.read(4096)
        event.set()
        with contextlib.suppress(OSError):  # EIO: nobody has the other end any more
            while more := screen.read(4096):
                shown += more
        assert process.wait(60) == 0
    assert b"pages" in shown and b"errors" in shown and b"connections" in shown
    assert b"40 done" in shown
