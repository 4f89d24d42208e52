"""kill -9 right before and right after every file-system call of a crawl's life; prints the number of points and what
was found to be wrong.

    python tests/syscall_kills.py [--jobs N] [--every K] [--whom all|first] [--twice] [-v]

A calm run of the real `sc` (create, crawl, retry) is traced; each of its calls that changes a file of the workdir,
workers' calls included, is a *point*. For each, the command is run again from the same folder and killed there; what
must hold at any instant is looked at; the next plain `sc crawl` (and `sc retry`) goes on; the end must be that of the
calm run. With --twice that `sc crawl` is killed, too, at another point each time.

Points are named by what the call does and to what, not by a number: the order of calls of two processes, and of two
connections, is another one each time.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from helpers import Project, clean_env, sc_command
from servers import FaultServer, Request, ok, status

from stateful_crawler import fsck
from stateful_crawler.task import read_task
from stateful_crawler.workdir import STATES, Workdir

CONNECTIONS = 2
TIMEOUT_S = 60
LARGE_BYTES = 1_100_000  # streamed to the disk, in pieces
PHASES = ("create", "crawl", "retry")
TRACER = Path(__file__).with_name("syscall_tracer.py")

CREATE = """\
def create(site):
    def task(name, **options):
        return {"url": f"{site}/{name}", "name": name, **options}

    yield task("plain")
    yield task("deep", output="html/2026/deep.html")
    yield task("gone")
    yield task("flaky", retry=1, retry_delay="0.05")
    yield task("later", retry=0)
    yield task("big")
    yield task("post", data="a=1")
    yield task("broken")
    yield task("named", output_dir="html/files", remote_name=True, remote_header_name=True)
    jar = {"cookie": "var/jar.txt", "cookie_jar": "var/jar.txt"}
    yield task("sides", **jar, dump_header="html/heads/sides.txt", etag_save="var/tags/sides.txt", remote_time=True)
    yield task("cookies", **jar, dump_header="html/cookies.txt")
"""

PARSER = """\
import os

def parse(page):
    for number in range(len(page.name) % 3):
        yield {"name": page.name, "number": number, "bytes": len(page.body)}
    if page.name in ("plain", "deep"):
        yield page.follow("/leaf", name="leaf")
        yield page.follow("/" + page.name + "-leaf", name=page.name + "-leaf")
    if page.name == "broken" and not os.path.exists("mended"):
        raise ValueError("not mended yet")
"""
LEADS_TO = {"plain": ["leaf", "plain-leaf"], "deep": ["leaf", "deep-leaf"]}


class Site(FaultServer):
    """What the tasks ask for; `begin` forgets what was asked."""

    def __init__(self) -> None:
        self.phase, self.asked = "", Counter[str]()
        super().__init__({"*": self._page})

    def begin(self) -> None:
        self.asked = Counter[str]()

    def _page(self, request: Request) -> Any:
        name = request.path[1:]
        self.asked[name] += 1
        body = f"<html><p>{name}</p></html>"
        if name == "gone" or (name == "later" and self.phase != "retry"):
            return status(503, "not yet") if name == "later" else status(404, body + "g" * LARGE_BYTES)
        if name == "flaky" and self.asked[name] == 1:
            return status(503, "not now")
        if name == "big":
            return ok(body + "b" * LARGE_BYTES)
        if name == "named":
            return ok(body, 'Content-Disposition: attachment; filename="given.html"')
        if name == "sides":
            return ok(body, "Set-Cookie: s=1", 'ETag: "v1"', "Last-Modified: Tue, 01 Jul 2025 10:00:00 GMT")
        return ok(body, "Set-Cookie: c=2") if name == "cookies" else ok(body)


class Point(NamedTuple):
    """Where to kill: the `nth` time that `phase` makes the call `label`, right before or right after it."""

    phase: str
    label: str
    nth: int
    when: str

    def __str__(self) -> str:
        return f"{self.phase}: {self.when} {self.label} #{self.nth}"


class Calm(NamedTuple):
    """What the calm run has shown: the calls of each phase, and what was there after it."""

    calls: dict[str, list[str]]
    after: dict[str, Picture]
    asked: dict[str, Counter[str]]


class Picture(NamedTuple):
    """All that an end result is: the state of each task, its own lines, all files but the tasks, times of pages."""

    states: dict[str, str]
    tasks: dict[str, tuple[object, ...]]
    files: dict[str, bytes]
    times: dict[str, int]


class Scenario:
    """A site, a folder for each phase to start from, and what the calm run made of it."""

    def __init__(self, folder: Path, site: Site) -> None:
        self._folder, self._site = folder, site
        self.calm = self._calm_run()

    # ── running ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _calm_run(self) -> Calm:
        project = Project(self._folder / "calm")
        (project.folder / "create.py").write_text(CREATE)
        (project.folder / "parser.py").write_text(PARSER)
        calm = Calm({}, {}, {})
        for phase in PHASES:
            shutil.copytree(project.folder, self._folder / f"before-{phase}", symlinks=True)
            self._enter(phase, project)
            self._site.begin()
            code, calm.calls[phase] = self._traced(project, phase)
            assert code == (0 if phase == "create" else 3), code
            calm.after[phase], calm.asked[phase] = picture(project), self._site.asked
        return calm

    def _enter(self, phase: str, project: Project) -> None:
        self._site.phase = phase
        if phase == "retry":
            (project.folder / "mended").touch()

    def _words(self, phase: str) -> list[str]:
        return ["create", self._site.url] if phase == "create" else [phase, "-c", str(CONNECTIONS), "-j", "1"]

    def _run(self, project: Project, phase: str) -> None:
        run = subprocess.run(
            sc_command(*self._words(phase)),
            cwd=project.folder,
            env=clean_env(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert run.returncode in (0, 3), f"`sc {phase}` ended with {run.returncode}: {run.stderr}"
        assert "Traceback" not in run.stderr, run.stderr

    def _traced(self, project: Project, phase: str, *kill: str) -> tuple[int, list[str]]:
        """Exit code (137 after the kill) and calls of `sc PHASE`, up to the kill."""
        out = project.folder / "calls.txt"
        tracer = [sys.executable, "-I", str(TRACER), "--root", str(project.workdir), "--out", str(out), *kill]
        run = subprocess.run(
            [*tracer, *sc_command(*self._words(phase))],
            cwd=project.folder,
            env=clean_env(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert run.returncode in (0, 3, 137), f"`sc {phase}` ended with {run.returncode}: {run.stderr}"
        return run.returncode, out.read_text().splitlines()

    # ── the points ───────────────────────────────────────────────────────────────────────────────────────────────

    def points(self) -> Iterator[Point]:
        """Before and after every call of the calm run."""
        for phase in PHASES:
            seen = Counter[str]()
            for label in self.calm.calls[phase]:
                seen[label] += 1
                for when in ("before", "after"):
                    yield Point(phase, label, seen[label], when)

    def check(self, point: Point, *, whom: str = "all", again: random.Random | None = None) -> bool:
        """Kill there and recover; AssertionError for what is wrong. False where the call was not made this time.

        With `again`, the recovery is killed too, at a call that it chooses.
        """
        with tempfile.TemporaryDirectory(dir=self._folder, prefix="point-") as folder:
            project = Project(Path(folder, "project"))
            shutil.rmtree(project.folder)
            shutil.copytree(self._folder / f"before-{point.phase}", project.folder, symlinks=True)
            self._site.begin()
            self._enter(point.phase, project)
            kill = ["--kill", point.when, "--at", point.label, "--nth", str(point.nth), "--whom", whom]
            code, _ = self._traced(project, point.phase, *kill)
            if code != 137:
                return False
            self._assert_sound(project, point.phase)
            if point.phase == "create":
                self._run(project, "create")
                self._enter("crawl", project)
            kills = 1 + (again is not None and self._kill_recovery(project, point.phase, again))
            self._run(project, "crawl")
            self._assert_recovered(project, point.phase, kills)
            self._enter("retry", project)
            self._run(project, "retry")
            assert_equal(picture(project), self.calm.after["retry"])
            assert_fsck_clean(project)
        return True

    def _kill_recovery(self, project: Project, phase: str, chance: random.Random) -> bool:
        """Kill `sc crawl` at a call of the calm one, or of what it does only after a kill."""
        started = chance.choice(self.calm.calls["crawl"])
        label = chance.choice([started, *(f"renameat2 working/{n}.conf origin/{n}.conf" for n in names_in(project))])
        code, _ = self._traced(project, "crawl", "--kill", chance.choice(["before", "after"]), "--at", label)
        self._assert_sound(project, "crawl" if phase == "create" else phase)
        return code == 137

    # ── what must hold ───────────────────────────────────────────────────────────────────────────────────────────

    def _assert_sound(self, project: Project, phase: str) -> None:
        """At any instant: each task in one state and as it was, whole files only, success as good as its word."""
        states = project.states()
        before = PHASES.index(phase) - 1
        known = self.calm.after[PHASES[before]].states if before >= 0 else {}
        assert set(known) <= set(states), f"lost: {set(known) - set(states)}"
        now, end = picture(project), self.calm.after["retry"]
        assert now.tasks.items() <= end.tasks.items(), "a task is not as it was made"
        for path, content in now.files.items():
            assert is_whole(path, content, end), f"{path} is not whole: {content[:60]!r}"
        for name in (name for name, state in states.items() if state == "success"):
            page = read_task(name, project.path_of(name).read_bytes(), name).page_output
            assert page in now.files, f"{name} without its page"
            assert f"parsed/{name}.jsonl" in now.files, f"{name} without its items"
            assert set(LEADS_TO.get(name, ())) <= set(states), f"{name} without the tasks that it leads to"
        folders = (project.workdir / folder for folder in (*STATES, "html", "parsed"))
        if all(folder.is_dir() for folder in folders):  # `sc fsck` itself would make them first
            damage = [found for found in fsck.check(Workdir(str(project.workdir))) if found.is_damage]
            assert not damage, damage

    def _assert_recovered(self, project: Project, phase: str, kills: int) -> None:
        """After the next plain `sc crawl`: nothing under way, nothing aside, hardly a request more than in the calm."""
        self._assert_sound(project, phase)
        assert not {"origin", "working"} & set(project.states().values()), project.states()
        assert_fsck_clean(project)
        calm = Counter(self.calm.asked["retry"] if phase == "retry" else self.calm.asked["crawl"])
        more = self._site.asked - calm
        assert sum(more.values()) <= kills * CONNECTIONS, f"asked again: {more}"
        assert self._site.asked["post"] <= 1, "a POST was sent twice unasked"


def names_in(project: Project) -> list[str]:
    """The tasks in working/."""
    return sorted(project.in_state("working"))


def picture(project: Project) -> Picture:
    """The workdir as it is now; hidden files count (but not those of .sc/), asides of a run and calls do not."""
    files, times = {}, {}
    for folder in ("html", "parsed", "var"):
        for path in (project.workdir / folder).rglob("*"):
            name = path.relative_to(project.workdir).as_posix()
            if path.is_file() and not path.name.endswith(".part"):
                files[name] = path.read_bytes()
                if name == "html/sides.html":
                    times[name] = int(path.stat().st_mtime)
    tasks = {}
    for name in project.states():
        task = read_task(name, project.path_of(name).read_bytes(), name)
        saved = "" if name == "named" else task.output  # the server names it
        tasks[name] = (task.url, saved, task.options, task.meta)
    return Picture(project.states(), tasks, files, times)


def is_whole(path: str, content: bytes, end: Picture) -> bool:
    """Whether a file is what it will be in the end; a jar may still lack cookies, and a failed answer may be there."""
    if path == "var/jar.txt":
        return content.endswith(b"\n") and set(content.splitlines()) <= set(end.files[path].splitlines())
    return path.endswith(".error") or content == end.files.get(path)


def assert_equal(found: Picture, calm: Picture) -> None:
    """The end results are the same; who of two came first to the jar doesn't matter."""
    assert found.states == calm.states, "other states than in the end of the calm run"
    assert found.tasks == calm.tasks
    ours, theirs = ({p: sorted(c.splitlines()) for p, c in side.files.items()} for side in (found, calm))
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    assert ours == theirs, [path for path in ours if ours[path] != theirs[path]]
    assert found.times == calm.times


def assert_fsck_clean(project: Project) -> None:
    """`sc fsck` has nothing to say, and nothing lies aside, in .sc/ and var/ neither."""
    findings = list(fsck.check(Workdir(str(project.workdir))))
    assert not findings, findings
    aside = [str(p.relative_to(project.workdir)) for p in project.workdir.rglob("*.part")]
    assert not aside, f"left aside: {aside}"
    foreign = [n for s in STATES for n in os.listdir(project.workdir / s) if n.startswith(".")]
    assert not foreign, foreign


# ── all of them ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Result(NamedTuple):
    points: int
    not_made: list[Point]
    wrong: list[tuple[Point, str]]


def check_all(
    folder: Path,
    points: Sequence[Point] | None,
    *,
    jobs: int,
    every: int = 1,
    whom: str = "all",
    twice: bool = False,
    progress: bool = False,
) -> Result:
    """Check every `every`-th point (of all, unless they are given), `jobs` at a time."""
    mine = threading.local()
    sites: list[Site] = []

    def scenario() -> Scenario:
        if not hasattr(mine, "scenario"):
            site = Site()
            sites.append(site)
            mine.scenario = Scenario(Path(tempfile.mkdtemp(dir=folder)), site)
        found: Scenario = mine.scenario
        return found

    def one(point: Point) -> str | None:
        said = None
        try:
            if not scenario().check(point, whom=whom, again=chance(point) if twice else None):
                said = "not made"
        except Exception as error:  # also one of the check itself must not end the others
            said = f"{type(error).__name__}: {error}"
        if said or progress:
            say(f"{point}: {said or 'good'}")
        return said

    def chance(point: Point) -> random.Random:
        return random.Random(str(point))

    try:
        chosen = list(points if points is not None else scenario().points())[::every]
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            found = list(zip(chosen, pool.map(one, chosen), strict=True))
    finally:
        for site in sites:
            site.close()
    not_made = [point for point, said in found if said == "not made"]
    wrong = [(point, said) for point, said in found if said and said != "not made"]
    return Result(len(chosen), not_made, wrong)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--whom", choices=["all", "first"], default="all")
    parser.add_argument("--twice", action="store_true")
    parser.add_argument("--only", default="", help="only points whose name holds this text")
    parser.add_argument("--list", action="store_true", help="only list the points")
    parser.add_argument("-v", "--verbose", action="store_true", help="tell of each point")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sc-kills-") as folder:
        points = None
        if given.only or given.list:
            with Site() as site:
                all_points = Scenario(Path(tempfile.mkdtemp(dir=folder)), site).points()
                points = [point for point in all_points if given.only in str(point)]
        if given.list:
            say("\n".join(map(str, points or ())))
            return 0
        result = check_all(
            Path(folder),
            points,
            jobs=given.jobs,
            every=given.every,
            whom=given.whom,
            twice=given.twice,
            progress=given.verbose,
        )
    say(f"{result.points} points, {len(result.not_made)} of them not reached, {len(result.wrong)} violations")
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
