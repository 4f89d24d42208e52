"""`sc fsck`: each thing that can be wrong with a workdir is found, and mended where that takes no guessing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import Project, clean_env, run_sc, sc_command
from servers import FaultServer, ok
from workdir_helpers import minding_modes

from stateful_crawler.fsck import Finding, check, mend
from stateful_crawler.workdir import STATES, Workdir

DAMAGE = 9
PARSER = "def parse(page):\n    yield {'name': page.name}\n"


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with FaultServer({"*": ok("<p>page</p>")}) as server:
        yield server


@pytest.fixture(scope="module")
def original(server: FaultServer, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Tasks that went well, one of them with an output of its own, and one that failed; pages and items are there."""
    project = Project(tmp_path_factory.mktemp("fsck") / "original")
    (project.folder / "parser.py").write_text(PARSER)
    project.put_url("1", f"{server.url}/1")
    project.put_url("2", f"{server.url}/2", 'output = "html/sub/two.htm"')
    project.put_url("bad", f"{server.url}/bad", "nonsense")
    run_sc(project, "crawl", check=3)
    assert project.states() == {"1": "success", "2": "success", "bad": "error"}
    return project


@pytest.fixture
def crawled(original: Project, tmp_path: Path) -> Project:
    """A copy of it, to do harm to."""
    project = Project(tmp_path / "project")
    shutil.copytree(original.folder, project.folder, dirs_exist_ok=True)
    project.written = original.written
    return project


def findings(project: Project, *, fix: bool = False) -> dict[str, list[Finding]]:
    """kind -> what is wrong; with `fix` only what was not mended."""
    workdir = Workdir(str(project.workdir)).open()
    told: dict[str, list[Finding]] = {}
    for finding in list(check(workdir)):
        if not (fix and mend(workdir, finding)):
            told.setdefault(finding.kind, []).append(finding)
    return told


def told_as_json(project: Project, *words: str, check: int) -> list[dict[str, Any]]:
    """What `sc fsck --json` tells."""
    told: list[dict[str, Any]] = json.loads(run_sc(project, "fsck", "--json", *words, check=check).stdout)
    assert all(set(finding) == {"kind", "path", "detail", "mend", "mended"} for finding in told)
    return told


def listing(project: Project) -> dict[str, bytes]:
    """All that lies in the workdir, but the lock."""
    files = [path for path in project.workdir.rglob("*") if path.is_file() and ".sc" not in path.parts]
    return {str(path.relative_to(project.workdir)): path.read_bytes() for path in files}


def test_a_sound_workdir_has_no_findings(crawled: Project) -> None:
    run = run_sc(crawled, "fsck", check=0)
    assert (run.stdout, run.stderr) == ("", "all is well\n")
    assert json.loads(run_sc(crawled, "fsck", "--json", check=0).stdout) == []
    assert run_sc(crawled, "-q", "fsck", check=0).stderr == ""


def test_an_empty_workdir_is_sound(project: Project) -> None:
    Workdir(str(project.workdir)).open()
    run_sc(project, "fsck", check=0)


# ── each kind ────────────────────────────────────────────────────────────────────────────────────────────────────────
# What is done to a sound workdir; the path that is named; whether it is damage; whether --fix mends it.


def lose_page(p: Project) -> None:
    os.unlink(p.workdir / "html" / "1.html")


def lose_page_of_its_own(p: Project) -> None:
    os.unlink(p.workdir / "html" / "sub" / "two.htm")


def lose_items(p: Project) -> None:
    os.unlink(p.workdir / "parsed" / "1.jsonl")


def copy_that_says_less(p: Project) -> None:
    (p.workdir / "origin" / "1.conf").write_bytes(p.written["1"])


def copy_that_says_more(p: Project) -> None:
    (p.workdir / "origin" / "1.conf").write_bytes(p.written["1"] + b"# I changed this\n")


def leave_in_working(p: Project) -> None:
    (p.workdir / "working" / "9.conf").write_bytes(p.written["1"])


def spoil(p: Project) -> None:
    (p.workdir / "origin" / "9.conf").write_bytes(b"\xff\x00 nonsense")


def too_large(p: Project) -> None:
    with open(p.workdir / "origin" / "9.conf", "wb") as file:
        file.truncate(1 << 30)


def drop_a_stranger(p: Project) -> None:
    (p.workdir / "success" / "notes.txt").write_bytes(b"mine")


def drop_a_link(p: Project) -> None:
    (p.workdir / "origin" / "9.conf").symlink_to("/etc/passwd")


def leave_half_a_page(p: Project) -> None:
    (p.workdir / "html" / ".9.part").write_bytes(b"half")


def leave_half_of_items(p: Project) -> None:
    (p.workdir / "parsed" / ".9.part").write_bytes(b"half")


def drop_a_page(p: Project) -> None:
    (p.workdir / "html" / "8.html").write_bytes(b"whose?")


def drop_items(p: Project) -> None:
    (p.workdir / "parsed" / "8.jsonl").write_bytes(b"{}\n")


Harm = Callable[[Project], None]
MENDED: list[tuple[Harm, str, str, bool]] = [
    (lose_page, "no-page", "success/1.conf", True),
    (lose_page_of_its_own, "no-page", "success/2.conf", True),
    (lose_items, "no-items", "success/1.conf", True),
    (copy_that_says_less, "two-states", "origin/1.conf", True),
    (leave_half_a_page, "aside", "html/.9.part", False),
    (leave_half_of_items, "aside", "parsed/.9.part", False),
]
LEFT: list[tuple[Harm, str, str, bool]] = [
    (copy_that_says_more, "two-states", "origin/1.conf", True),
    (leave_in_working, "left-in-working", "working/9.conf", False),
    (spoil, "unreadable", "origin/9.conf", False),
    (too_large, "unreadable", "origin/9.conf", False),
    (drop_a_stranger, "not-a-task", "success/notes.txt", False),
    (drop_a_link, "not-a-task", "origin/9.conf", False),
    (drop_a_page, "page-without-task", "html/8.html", False),
    (drop_items, "orphan-items", "parsed/8.jsonl", False),
]


@pytest.mark.parametrize(("harm", "kind", "path", "damage"), MENDED + LEFT)
def test_each_kind_is_found_and_nothing_is_touched(
    crawled: Project, harm: Harm, kind: str, path: str, damage: bool
) -> None:
    harm(crawled)
    before = listing(crawled)
    told = findings(crawled)
    assert {kind: [finding.path for finding in told[kind]] for kind in told} == {kind: [path]}
    (finding,) = told[kind]
    assert finding.detail and finding.is_damage == damage
    assert listing(crawled) == before


@pytest.mark.parametrize(("harm", "kind", "path", "damage"), MENDED)
def test_what_takes_no_guessing_is_mended(crawled: Project, harm: Harm, kind: str, path: str, damage: bool) -> None:
    harm(crawled)
    assert all(finding.mend for finding in findings(crawled)[kind])
    assert findings(crawled, fix=True) == {}
    assert findings(crawled) == {}
    assert set(crawled.states()) == {"1", "2", "bad"}


@pytest.mark.parametrize(("harm", "kind", "path", "damage"), LEFT)
def test_where_a_person_must_decide_nothing_is_touched(
    crawled: Project, harm: Harm, kind: str, path: str, damage: bool
) -> None:
    harm(crawled)
    before = listing(crawled)
    (finding,) = findings(crawled, fix=True)[kind]
    assert finding.mend == ""
    assert listing(crawled) == before


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_damage_ends_with_9_until_it_is_mended(crawled: Project) -> None:
    lose_page(crawled)
    run = run_sc(crawled, "fsck", check=DAMAGE)
    assert run.stdout.startswith("success/1.conf: no-page: html/1.html is not there (--fix would: ")
    assert run.stdout.count("\n") == 1
    (finding,) = told_as_json(crawled, check=DAMAGE)
    assert (finding["kind"], finding["path"], finding["mended"]) == ("no-page", "success/1.conf", False)
    (finding,) = told_as_json(crawled, "--fix", check=0)
    assert finding["mended"] is True
    assert told_as_json(crawled, check=0) == []


def test_what_is_only_worth_knowing_ends_with_0(crawled: Project) -> None:
    drop_a_stranger(crawled)
    leave_in_working(crawled)
    run = run_sc(crawled, "fsck", check=0)
    assert "success/notes.txt: not-a-task: " in run.stdout
    assert "working/9.conf: left-in-working: " in run.stdout and "--fix" not in run.stdout


def test_damage_that_a_person_must_look_at_ends_with_9_also_with_fix(crawled: Project) -> None:
    copy_that_says_more(crawled)
    (finding,) = told_as_json(crawled, "--fix", check=DAMAGE)
    assert (finding["kind"], finding["mended"]) == ("two-states", False)


# ── what comes after ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_lost_page_is_fetched_again_after_the_fix(crawled: Project, server: FaultServer) -> None:
    lose_page(crawled)
    run_sc(crawled, "fsck", "--fix", check=0)
    before = server.count()
    run_sc(crawled, "crawl", check=0)
    assert server.count() == before + 1 and server.requests[-1].target == "/1"
    assert crawled.page("1") == b"<p>page</p>"
    run_sc(crawled, "fsck", check=0)


def test_lost_items_are_parsed_again_after_the_fix_without_a_request(crawled: Project, server: FaultServer) -> None:
    lose_items(crawled)
    run_sc(crawled, "fsck", "--fix", check=0)
    before = server.count()
    run_sc(crawled, "crawl", check=0)
    assert server.count() == before
    assert json.loads((crawled.workdir / "parsed" / "1.jsonl").read_text()) == {"name": "1"}
    run_sc(crawled, "fsck", check=0)


@pytest.mark.parametrize("first", STATES)
@pytest.mark.parametrize("second", STATES)
def test_a_name_in_two_states_is_told_once(project: Project, first: str, second: str) -> None:
    if first == second:
        return
    Workdir(str(project.workdir)).open()
    for state in (first, second):
        (project.workdir / state / "1.conf").write_text(f'url = "http://127.0.0.1:9/"\n# {state}\n')
    (finding,) = findings(project)["two-states"]
    assert {finding.path.split("/")[0], finding.detail.rstrip("/").split()[-1]} == {first, second}


def test_much_at_once_is_all_told_and_what_can_be_is_mended(crawled: Project) -> None:
    harms = [lose_items, lose_page_of_its_own, copy_that_says_less, leave_in_working, drop_a_stranger, drop_a_page]
    for harm in harms:
        harm(crawled)
    kinds = {"no-items", "no-page", "two-states", "left-in-working", "not-a-task", "page-without-task"}
    assert set(findings(crawled)) == kinds
    # The twin is removed first, so that there is room in origin/ for the task whose items are lost.
    left = kinds - {"no-items", "no-page", "two-states"}
    assert set(findings(crawled, fix=True)) == left
    assert set(findings(crawled)) == left


# ── where it can't work ──────────────────────────────────────────────────────────────────────────────────────────────


def test_it_needs_a_workdir(project: Project) -> None:
    run = run_sc(project, "-w", "nowhere", "fsck", check=2)
    assert "nowhere" in run.stderr
    assert not (project.folder / "nowhere").exists()


def test_it_waits_for_no_crawl(project: Project) -> None:
    """A running crawl's moves would look like damage."""
    with Workdir(str(project.workdir)).open().lock(["sc", "crawl"]):
        run = run_sc(project, "fsck", "--fix", check=6)
    assert f"pid {os.getpid()} " in run.stderr


def test_a_task_without_permission_is_told_once(crawled: Project) -> None:
    path = crawled.workdir / "origin" / "9.conf"
    path.write_bytes(crawled.written["1"])
    path.chmod(0)
    command = [*minding_modes(), *sc_command("fsck", "--json")]
    run = subprocess.run(command, cwd=crawled.folder, env=clean_env(), capture_output=True, timeout=60, check=False)
    told = json.loads(run.stdout)
    assert [(finding["kind"], finding["path"]) for finding in told] == [("unreadable", "origin/9.conf")]
    assert run.returncode == 0


@pytest.mark.parametrize("name", ["caf\udce9", "a b", "new\nline", "esc\x1b[31m"])
def test_odd_names_are_shown_and_do_not_write_on_the_terminal(crawled: Project, name: str) -> None:
    Path(crawled.workdir, "html", f"{name}.html").write_bytes(b"whose?")
    run = run_sc(crawled, "fsck", check=0)
    assert run.stdout.count("\n") == 1 and "\x1b" not in run.stdout and "page-without-task" in run.stdout
    assert [finding["path"] for finding in told_as_json(crawled, check=0)] == [f"html/{name}.html"]
