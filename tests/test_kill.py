"""kill -9, again and again, on the real `sc`: nothing is lost, nothing is half, nothing is done twice."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import Project, run_sc
from servers import FaultServer, Part, Request, Wire, ok
from workdir_helpers import Started, assert_all_end, hidden, session, started_sc

from stateful_crawler.task import new_task
from stateful_crawler.workdir import Workdir

KILLS = 20
CONNECTIONS = 5
TASKS = 1000
# The parser finds the tasks after these on the pages of the first ones.
CREATED = 900
LARGE_BYTES = 1_200_000

PARSER = """\
import hashlib

def parse(page):
    number = int(page.name)
    if number <= {found}:
        yield page.follow("/" + str(number + {created}), name=str(number + {created}))
    for part in range(number % 4):
        yield {{"number": number, "part": part, "sum": hashlib.sha256(page.body).hexdigest()}}
"""


def page_of(number: int) -> bytes:
    """Pages differ in every way that matters to a page that is cut: length, content, end."""
    filler = random.Random(number).randbytes(50).hex()
    size = LARGE_BYTES if number % 100 == 0 else 200 + number * 37 % 20_000
    return f"<html><title>{number}</title>{filler * (size // 100)}</html>".encode()


class Gate:
    """Lets answers through up to a number of requests, so that a crawl can't outrun the hand that kills it."""

    def __init__(self) -> None:
        self._passed, self._limit, self._changed = 0, 0, threading.Condition()

    def let_through(self, upto: int) -> None:
        with self._changed:
            self._limit = upto
            self._changed.notify_all()

    def __call__(self, wire: Wire) -> None:
        with self._changed:
            self._passed += 1
            number = self._passed
            while not self._changed.wait_for(lambda: number <= self._limit, 0.05):
                wire.check()


class Site(FaultServer):
    """A thousand pages, each sent in two parts; every request waits at the gate."""

    def __init__(self) -> None:
        self.gate = Gate()
        super().__init__({"*": self.page})

    def page(self, request: Request) -> tuple[Part, ...]:
        (answer,) = ok(page_of(int(request.path[1:])))
        assert isinstance(answer, bytes)
        return (self.gate, answer[:-30], answer[-30:])


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as server:
        yield server


def make_project(folder: Path, site: Site, *, parser: bool) -> Project:
    project = Project(folder)
    workdir = Workdir(str(project.workdir)).open()
    for number in range(1, (CREATED if parser else TASKS) + 1):
        workdir.add(new_task(f"{site.url}/{number}", by="create", name=str(number)))
    if parser:
        (folder / "parser.py").write_text(PARSER.format(found=TASKS - CREATED, created=CREATED))
    return project


def assert_sound(project: Project, *, parser: bool) -> dict[str, str]:
    """What must hold at any instant; the state of each task."""
    states = project.states()  # none is in two
    assert {str(n) for n in range(1, (CREATED if parser else TASKS) + 1)} <= set(states)
    for path in project.workdir.glob("html/[!.]*"):
        assert path.read_bytes() == page_of(int(path.stem)), f"{path.name} is not whole"
    items = {path.stem: path.read_bytes() for path in project.workdir.glob("parsed/[!.]*")}
    for name, text in items.items():
        numbers = [json.loads(line)["part"] for line in text.splitlines()]
        assert numbers == list(range(int(name) % 4)) and text[-1:] in (b"\n", b""), f"{name}.jsonl is not whole"
    for name, state in states.items():
        if state == "success":
            assert (project.workdir / "html" / f"{name}.html").exists(), f"{name} without its page"
            assert not parser or name in items, f"{name} without its items"
            if parser and int(name) <= TASKS - CREATED:
                assert str(int(name) + CREATED) in states, f"{name} without the task that it leads to"
    return states


def in_flight(project: Project) -> set[str]:
    """The tasks that were under way, and whose page no record tells of."""
    return {name for name in project.in_state("working") if not any(r["ok"] for r in project.records(name, "fetch"))}


def kill_after(started: Started, site: Site, requests: int) -> None:
    upto = site.count() + requests
    site.gate.let_through(upto + 20)
    try:
        site.wait_for(visits=upto)
    finally:
        assert started.process.poll() is None, started.stderr
    started.process.kill()
    started.ended()


def contents(project: Project, folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (project.workdir / folder).glob("[!.]*")}


@pytest.mark.case("C077")
@pytest.mark.parametrize("parser", [False, True], ids=["fetch-only", "with-parser"])
def test_twenty_kills_leave_no_trace(tmp_path: Path, site: Site, parser: bool) -> None:
    words = ["crawl", "-c", str(CONNECTIONS), *([] if parser else ["--no-parse"])]
    chance = random.Random(20 + parser)
    project = make_project(tmp_path / "killed", site, parser=parser)
    again: Counter[str] = Counter()
    for _ in range(KILLS):
        with started_sc(project, *words) as started:
            kill_after(started, site, chance.randint(1, 25))
            # At once, while workers of the dead run may still be ending.
            states = assert_sound(project, parser=parser)
            assert "working" in states.values()
            under_way = in_flight(project)
            assert len(under_way) <= CONNECTIONS
            again.update(under_way)
    site.gate.let_through(10**9)
    run = run_sc(project, *words, check=0)
    assert " taken back from a run that did not end" in run.stderr

    states = assert_sound(project, parser=parser)
    assert states == {str(number): "success" for number in range(1, TASKS + 1)}
    assert hidden(project.workdir) == []
    visits = Counter(request.path[1:] for request in site.requests)
    too_many = {name: count for name, count in visits.items() if count > 1 + again[name]}
    assert not too_many, "asked again though not in flight at a kill"
    assert len(site.requests) <= TASKS + KILLS * CONNECTIONS

    undisturbed = make_project(tmp_path / "undisturbed", site, parser=parser)
    run_sc(undisturbed, *words, check=0)
    assert contents(project, "html") == contents(undisturbed, "html")
    assert contents(project, "parsed") == contents(undisturbed, "parsed")
    assert project.in_state("success") == undisturbed.in_state("success")
    run_sc(project, "fsck", check=0)


STUCK = {
    "sleeps": "import time\ntime.sleep(600)",
    "spins": "while True: pass",
    "holds-the-interpreter": "import re\nre.match('(a+)+$', 'a' * 60 + 'b')",
}


# The parser tells the site that it has begun, and never ends.
BEGUN = "/0?begun"
STUCK_PARSER = """\
import urllib.request

def parse(page):
    urllib.request.urlopen(page.urljoin("{begun}")).close()
    {code}
"""


def write_stuck_parser(project: Project, code: str) -> None:
    text = STUCK_PARSER.format(begun=BEGUN, code=code.replace("\n", "\n    "))
    (project.folder / "parser.py").write_text(text)


@pytest.mark.parametrize("code", [pytest.param(code, id=name) for name, code in STUCK.items()])
def test_no_worker_outlives_a_killed_crawl(project: Project, site: Site, code: str) -> None:
    """An orphan would go on parsing, and write into the folder of the next run."""
    site.gate.let_through(10)
    project.put_url("1", f"{site.url}/1")
    write_stuck_parser(project, code)
    with started_sc(project, "crawl", "-j", "2") as started:
        site.wait_for(BEGUN)
        assert len(session(started.pid)) > 2
        started.process.kill()
        started.ended()
        assert_all_end(started.pid)


@pytest.mark.case("C077")
def test_a_kill_during_the_parse_costs_no_request(project: Project, site: Site) -> None:
    """A page that was saved and recorded is parsed by the next run, not fetched."""
    site.gate.let_through(5)
    for number in range(1, 6):
        project.put_url(str(number), f"{site.url}/{number}")
    write_stuck_parser(project, STUCK["sleeps"])
    with started_sc(project, "crawl", "-c", "1") as started:
        site.wait_for(BEGUN)
        site.wait_for("/5")  # so the fourth was answered, and the third was recorded before that
        started.process.kill()
        started.ended()
    assert project.in_state("working") == {"1", "2", "3", "4", "5"}
    assert in_flight(project) <= {"4", "5"}
    site.gate.let_through(100)
    (project.folder / "parser.py").write_text("def parse(page):\n    yield {'name': page.name}\n")
    run_sc(project, "crawl", check=0)
    assert [site.count(f"/{number}") for number in (1, 2, 3)] == [1, 1, 1]
    assert contents(project, "parsed") == {f"{n}.jsonl": b'{"name": "%d"}\n' % n for n in range(1, 6)}
    assert set(project.states().values()) == {"success"}
