"""The states and their moves, the pages and who owns them, what a crash leaves and how it is taken back."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from workdir_helpers import add, claimed, fetched, hidden, kill, put, small_disk

from stateful_crawler import files
from stateful_crawler.crawl import _take_back, requeue
from stateful_crawler.curl.config import Option
from stateful_crawler.errors import EnvironmentFault, NameTaken, TaskFileError, WorkdirBusy
from stateful_crawler.frontier import Frontier, natural_key
from stateful_crawler.pages import Pages
from stateful_crawler.record import Outcome, Record
from stateful_crawler.task import Task, new_task
from stateful_crawler.workdir import STATES, State, Workdir, read_last_record

ODD_NAMES = [
    "a b",
    "ü",
    "页",
    "caf\udce9",
    "\udcff\udcfe",
    "-rf",
    "a'b\"c",
    "x" * 200,
    "ab.conf",
    "*?",
    "[1]",
    "new\nline",
]


@pytest.fixture
def workdir(tmp_path: Path) -> Workdir:
    return Workdir(str(tmp_path / "workdir")).open()


def where(workdir: Workdir, name: str) -> list[State]:
    return [state for state in STATES if os.path.lexists(workdir.path(state, name))]


def save(workdir: Workdir, name: str, body: bytes = b"<p>page</p>") -> None:
    """Claim a task and take it to success as a crawl does."""
    claim, task = claimed(workdir, name)
    Pages(workdir).publish(task, fetched(body))
    workdir.record(claim, fetched(body).record(saved=task.page_output))
    Pages(workdir).forget_aside(task)
    workdir.settle(claim, "success")


def page(workdir: Workdir, output: str) -> bytes:
    return Path(workdir.root, output).read_bytes()


# ── opening ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_opening_makes_what_is_missing_and_keeps_what_is_there(workdir: Workdir) -> None:
    add(workdir, "1")
    shutil.rmtree(Path(workdir.root, "parsed"))
    again = Workdir(workdir.root).open()
    assert set(os.listdir(workdir.root)) >= {"origin", "working", "html", "parsed", "success", "error", ".sc"}
    assert list(again.names("origin")) == ["1"]


def test_a_file_where_a_state_should_be_is_named(workdir: Workdir) -> None:
    os.rmdir(Path(workdir.root, "error"))
    Path(workdir.root, "error").write_text("")
    with pytest.raises(EnvironmentFault, match=r"can't make .*/error"):
        Workdir(workdir.root).open()


def test_states_on_two_file_systems_are_refused(workdir: Workdir) -> None:
    """A move between them would be a copy: a kill in its middle leaves a task twice, or half."""
    with small_disk(Path(workdir.root, "success"), "1m"), pytest.raises(EnvironmentFault, match="file systems"):
        Workdir(workdir.root).open()


def test_the_lock_names_its_holder_and_falls_at_the_end(workdir: Workdir) -> None:
    assert workdir.running() is None
    with workdir.lock(["sc", "crawl"]):
        run = workdir.running()
        assert run is not None and run.pid == os.getpid()
        assert json.loads(Path(workdir.root, ".sc", "run.json").read_text())["argv"] == ["sc", "crawl"]
        with pytest.raises(WorkdirBusy, match=f"pid {os.getpid()} "), Workdir(workdir.root).lock([]):
            raise AssertionError("locked twice")
    assert workdir.running() is None
    with workdir.lock([]):
        pass


@pytest.mark.parametrize(
    "left",
    [b"", b"hello", b"{}", b"[1]", b"null", b'{"pid": "x", "host": 1, "started": 2}', b"\xff\x00", b'{"pid": {}}'],
)
def test_a_run_json_of_nonsense_is_no_run(workdir: Workdir, left: bytes) -> None:
    Path(workdir.root, ".sc", "run.json").write_bytes(left)
    assert workdir.running() is None
    with workdir.lock([]):
        assert workdir.running() is not None


@pytest.mark.parametrize("pid", ["the dead", "another's"])
def test_a_dead_run_is_not_running(workdir: Workdir, pid: str) -> None:
    """Not even where another process has got its number."""
    child = subprocess.Popen(["true"])
    child.wait()
    run = {"pid": child.pid if pid == "the dead" else os.getpid(), "host": os.uname().nodename, "started": "then"}
    Path(workdir.root, ".sc", "run.json").write_text(json.dumps(run | {"born": "1"}))
    assert workdir.running() is None


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def make_strangers(folder: Path) -> None:
    """What is not a task, though it lies in a state directory; all of it visible."""
    for name in ("x.conf~", "#x.conf#", "Thumbs.db", "readme.txt", "x.CONF"):
        (folder / name).write_bytes(b"")
    (folder / "sub.conf").mkdir()
    (folder / "sub.conf" / "inner.conf").write_text('url = "http://127.0.0.1:9/"\n')
    (folder / "sub").mkdir()
    (folder / "dangling.conf").symlink_to("nowhere")
    (folder / "link.conf").symlink_to("/etc/passwd")
    os.mkfifo(folder / "fifo.conf")
    with socket.socket(socket.AF_UNIX) as there, contextlib.chdir(folder):
        there.bind("socket.conf")


STRANGERS = 11


def test_only_regular_files_named_conf_are_tasks_and_the_rest_is_counted(workdir: Workdir) -> None:
    origin = Path(workdir.root, "origin")
    make_strangers(origin)
    for name in (".DS_Store", ".x.conf.swp", ".hidden.conf", ".1.99.part"):
        (origin / name).write_bytes(b"")
    put(workdir, "1")
    put(workdir, "2", state="error")
    assert sorted(workdir.names("origin")) == ["1"]
    counts = workdir.counts()
    assert {key: counts[key] for key in (*STATES, "ignored")} == {
        "origin": 1,
        "working": 0,
        "success": 0,
        "error": 1,
        "ignored": STRANGERS,
    }


def test_pages_and_items_are_counted_also_in_folders_and_never_those_aside(workdir: Workdir) -> None:
    for path in ("html/1.html", "html/a/b/2.html", "html/.3.part", "html/.4.error", "parsed/1.jsonl", "parsed/.1.part"):
        Path(workdir.root, path).parent.mkdir(parents=True, exist_ok=True)
        Path(workdir.root, path).write_bytes(b"")
    counts = workdir.counts()
    assert (counts["html"], counts["parsed"]) == (2, 1)


@pytest.mark.parametrize("state", STATES)
def test_the_state_of_a_task_is_the_directory_it_lies_in(workdir: Workdir, state: State) -> None:
    put(workdir, "1", state=state)
    assert workdir.state_of("1") == state
    assert workdir.state_of("2") is None
    assert workdir.read(state, "1").url == "http://127.0.0.1:9/"


def test_a_state_directory_that_has_gone_is_an_error_and_not_an_empty_one(workdir: Workdir) -> None:
    os.rmdir(Path(workdir.root, "origin"))
    with pytest.raises(EnvironmentFault, match="origin"):
        list(workdir.names("origin"))


def test_the_last_record_is_read_from_the_end_of_the_file(workdir: Workdir) -> None:
    path = put(workdir, "1", "# sc: {" + '"stage": "fetch", "n": 1}')
    for number in range(2, 60):
        files.append_line(str(path), Record({"stage": "fetch", "n": number, "x": "y" * 3000}).line())
    for torn in (b"", b'# sc: {"stage": "fe', b"\n# sc: {}x\n"):
        with open(path, "ab") as file:
            file.write(torn)
        record = read_last_record(str(path))
        assert record is not None and record.facts["n"] == 59
    assert read_last_record(str(put(workdir, "2"))) is None


# ── adding ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", STATES)
def test_a_name_that_exists_in_any_state_is_skipped(workdir: Workdir, state: State) -> None:
    before = put(workdir, "1", "# mine", state=state).read_bytes()
    assert not workdir.add(new_task("http://127.0.0.1:9/other", by="create", name="1"))
    assert where(workdir, "1") == [state]
    assert Path(workdir.path(state, "1")).read_bytes() == before
    assert hidden(workdir.root) == []


def test_a_name_taken_by_anything_at_all_is_skipped(workdir: Workdir) -> None:
    origin = Path(workdir.root, "origin")
    (origin / "link.conf").symlink_to("nowhere")
    (origin / "sub.conf").mkdir()
    for name in ("link", "sub"):
        assert not workdir.add(new_task("http://127.0.0.1:9/", by="create", name=name))
    assert os.readlink(origin / "link.conf") == "nowhere"
    assert not (origin / "nowhere").exists()


def test_an_added_task_is_whole_at_once_and_leaves_nothing_aside(workdir: Workdir) -> None:
    task = add(workdir, "1", meta={"page": 1})
    assert Path(workdir.path("origin", "1")).read_bytes() == task.text()
    assert hidden(workdir.root) == []


def test_a_name_added_and_claimed_by_others_meanwhile_is_not_added_twice(
    workdir: Workdir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two parsers find one link: the second has looked before the first one's task came, and was claimed."""
    publish_new = files.publish_new

    def late(aside: str, final: str) -> None:
        put(workdir, "1", state="working")
        publish_new(aside, final)

    monkeypatch.setattr(files, "publish_new", late)
    assert not workdir.add(new_task("http://127.0.0.1:9/", by="follow", name="1"))
    assert where(workdir, "1") == ["working"]


def test_a_new_task_that_is_claimed_at_once_is_still_new(workdir: Workdir, monkeypatch: pytest.MonkeyPatch) -> None:
    publish_new = files.publish_new

    def claimed_at_once(aside: str, final: str) -> None:
        publish_new(aside, final)
        assert workdir.claim("1")

    monkeypatch.setattr(files, "publish_new", claimed_at_once)
    assert workdir.add(new_task("http://127.0.0.1:9/", by="follow", name="1"))
    assert where(workdir, "1") == ["working"]


# ── claiming ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["1", *ODD_NAMES])
def test_a_task_of_any_name_goes_all_the_way(workdir: Workdir, name: str) -> None:
    before = put(workdir, name).read_bytes()
    assert list(workdir.names("origin")) == [name]
    save(workdir, name)
    assert where(workdir, name) == ["success"]
    assert page(workdir, f"html/{name}.html") == b"<p>page</p>"
    task = workdir.read("success", name)
    assert Pages(workdir).has(task)
    assert Path(workdir.path("success", name)).read_bytes().startswith(before)
    assert workdir.requeue(name, "success") and where(workdir, name) == ["origin"]


def test_the_loser_of_a_claim_goes_on(workdir: Workdir) -> None:
    add(workdir, "1")
    assert workdir.claim("1") and workdir.claim("1") is None
    assert workdir.claim("never was") is None


def test_a_name_that_working_has_already_is_not_claimed(workdir: Workdir) -> None:
    put(workdir, "1", "# the older", state="working")
    put(workdir, "1", "# the newer")
    with pytest.raises(NameTaken):
        workdir.claim("1")
    assert where(workdir, "1") == ["origin", "working"]
    assert b"older" in Path(workdir.path("working", "1")).read_bytes()


def test_working_that_has_gone_is_an_error_and_not_a_lost_race(workdir: Workdir) -> None:
    add(workdir, "1")
    os.rmdir(Path(workdir.root, "working"))
    with pytest.raises(EnvironmentFault, match="working"):
        workdir.claim("1")
    assert Path(workdir.path("origin", "1")).exists()


def make_link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def make_dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def make_huge(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(1 << 30)


@pytest.mark.case("C069")
@pytest.mark.parametrize("make", [make_link, make_dangling, Path.mkdir, os.mkfifo, make_huge])
def test_what_cannot_be_opened_as_a_task_stays_where_it_is(workdir: Workdir, make: Callable[[Path], None]) -> None:
    path = Path(workdir.path("origin", "odd"))
    make(path)
    before = os.lstat(path)
    assert workdir.claim("odd") is None
    assert where(workdir, "odd") == ["origin"]
    assert os.lstat(path).st_ino == before.st_ino
    assert os.listdir(Path(workdir.root, "working")) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "no url"),
        (b"\x7fELF\x00\x01\x02", "1.conf:1"),
        (b'url = "http://h/1"\nurl = "http://h/2"\n', "1.conf:2"),
        (b'url = "http://h/1"\nnext\nurl = "http://h/2"\n', "1.conf:2"),
    ],
)
def test_what_can_be_opened_and_not_read_is_claimed_with_its_fault(workdir: Workdir, text: bytes, said: str) -> None:
    Path(workdir.path("origin", "1")).write_bytes(text)
    claim = workdir.claim("1")
    assert claim is not None and claim.task is None and said in str(claim.fault)
    workdir.record(claim, Outcome("fetch", False, "config", str(claim.fault)).record(to="error"))
    workdir.settle(claim, "error")
    assert Path(workdir.path("error", "1")).read_bytes().startswith(text)
    record = read_last_record(workdir.path("error", "1"))
    assert record is not None and record.facts["reason"] == "config"


@pytest.mark.case("C065")
@pytest.mark.parametrize(("size", "fits"), [(240, True), (241, False), (250, False)])
def test_a_name_too_long_for_its_page_is_a_fault_before_any_request(workdir: Workdir, size: int, fits: bool) -> None:
    name = "é" * (size // 2) + "x" * (size % 2)  # the limit is one of bytes
    put(workdir, name)
    claim = workdir.claim(name)
    assert claim is not None
    assert (claim.task is not None) == fits
    if fits:
        outcome = Outcome("fetch", False, "http", "no", body=b"sorry")
        Pages(workdir).keep_error(name, outcome)
    else:
        assert "name is over" in str(claim.fault)
    workdir.settle(claim, "error")
    assert where(workdir, name) == ["error"]


# ── records ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("rested", [False, True])
@pytest.mark.parametrize("tail", [b"", b'# sc: {"stage": "fetch", "o', b"location"])
def test_a_record_stands_on_a_line_of_its_own(workdir: Workdir, tail: bytes, rested: bool) -> None:
    path = put(workdir, "1")
    path.write_bytes(path.read_bytes() + tail)
    claim = workdir.claim("1")
    assert claim is not None
    if rested:
        workdir.rest(claim)
    for number in (1, 2):
        workdir.record(claim, Record({"stage": "fetch", "ok": True, "n": number}))
    workdir.settle(claim, "error")
    lines = Path(workdir.path("error", "1")).read_bytes().split(b"\n")
    assert lines[-1] == b"" and [json.loads(line[6:])["n"] for line in lines[-3:-1]] == [1, 2]
    assert lines[:-3] == [*b'url = "http://127.0.0.1:9/"'.split(b"\n"), *([tail] if tail else [])]


@pytest.mark.parametrize("rested", [False, True])
def test_a_task_that_a_person_took_away_is_theirs(workdir: Workdir, rested: bool) -> None:
    """Also while it waits for its next try, or for the parser, and its file is closed."""
    add(workdir, "1")
    claim, _ = claimed(workdir, "1")
    if rested:
        workdir.rest(claim)
    os.rename(claim.path, Path(workdir.root, "mine.txt"))
    workdir.record(claim, Record({"stage": "fetch"}))
    workdir.settle(claim, "success")
    assert where(workdir, "1") == []
    assert Path(workdir.root, "mine.txt").exists()


# ── settling and putting back ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", ["success", "error", "origin"])
def test_settling_never_replaces_a_task(workdir: Workdir, state: State) -> None:
    add(workdir, "1")
    claim, _ = claimed(workdir, "1")
    there = put(workdir, "1", "# there first", state=state)
    with pytest.raises(NameTaken):
        workdir.settle(claim, state)
    assert b"there first" in there.read_bytes()
    assert Path(claim.path).exists()


def test_settling_into_a_directory_that_has_gone_leaves_the_task_in_working(workdir: Workdir) -> None:
    add(workdir, "1")
    claim, _ = claimed(workdir, "1")
    os.rmdir(Path(workdir.root, "success"))
    with pytest.raises(EnvironmentFault, match="success"):
        workdir.settle(claim, "success")
    assert Path(claim.path).exists()


def test_requeue_keeps_the_page_and_never_replaces(workdir: Workdir) -> None:
    add(workdir, "1")
    save(workdir, "1")
    put(workdir, "2", state="error")
    put(workdir, "2", "# newer")
    put(workdir, "3")
    moved, refused = requeue(workdir, ["1", "2", "3", "4"], None)
    assert moved == ["1"] and where(workdir, "1") == ["origin"]
    assert page(workdir, "html/1.html") == b"<p>page</p>"
    assert set(refused) == {"2", "3", "4"}
    assert where(workdir, "2") == ["origin", "error"] and b"newer" in Path(workdir.path("origin", "2")).read_bytes()


@pytest.mark.parametrize("state", ["success", "error"])
def test_requeue_of_a_whole_state_in_natural_order(workdir: Workdir, state: State) -> None:
    for name in ("10", "9", "1"):
        put(workdir, name, state=state)
    put(workdir, "other", state="error" if state == "success" else "success")
    assert requeue(workdir, [], state) == (["1", "9", "10"], {})
    assert sorted(workdir.names("origin")) == ["1", "10", "9"]


# ── the order of claims ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "names",
    [
        ["1", "2", "10", "11", "100"],
        ["a1", "a2", "a10", "b1"],
        ["", "0", "1a", "1b", "2", "a", "a1", "a1b2", "a1b10", "b"],
        ["page-2-part-1", "page-2-part-10", "page-10-part-2"],
        ["9" * 30, "1" + "0" * 30, "x" * 240],
        ["a", "é", "页", "\udcff"],
        ["1²", "2²"],
    ],
)
def test_natural_order(names: list[str]) -> None:
    backwards = names[::-1]
    assert sorted(backwards, key=natural_key) == names


def claims_of(frontier: Frontier) -> Iterator[str]:
    while (name := frontier.next_name()) is not None:
        yield name


def test_the_frontier_gives_names_in_natural_order(workdir: Workdir) -> None:
    for number in range(120, 0, -1):
        put(workdir, str(number))
    assert list(claims_of(Frontier(workdir))) == [str(number) for number in range(1, 121)]


def test_a_small_window_gives_every_name_once_and_sorts_within_itself(workdir: Workdir) -> None:
    for number in range(25):
        put(workdir, str(number))
    given = list(claims_of(Frontier(workdir, window=10)))
    assert sorted(given, key=int) == [str(number) for number in range(25)]
    for at in (0, 10, 20):
        assert given[at : at + 10] == sorted(given[at : at + 10], key=int)


def test_a_dry_frontier_looks_again_when_asked_again(workdir: Workdir) -> None:
    frontier = Frontier(workdir)
    assert frontier.next_name() is None
    put(workdir, "2")
    assert list(claims_of(frontier)) == ["2"]
    put(workdir, "1")
    assert list(claims_of(frontier)) == ["1", "2"]


def test_the_frontier_gives_only_what_is_wanted(workdir: Workdir) -> None:
    for name in ("1", "2", "3"):
        put(workdir, name)
    assert list(claims_of(Frontier(workdir, {"1", "3", "9"}.__contains__))) == ["1", "3"]


# ── pages ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_page_of_its_own_is_replaced_whole(workdir: Workdir) -> None:
    add(workdir, "1")
    save(workdir, "1", b"old, and longer")
    workdir.requeue("1", "success")
    save(workdir, "1", b"new")
    assert page(workdir, "html/1.html") == b"new"
    assert hidden(workdir.root) == []


@pytest.mark.parametrize("output", ["html/x.html", "html/a/b/c.txt", "html/ä b.html", "html/7"])
def test_an_explicit_output_is_saved_there_and_may_be_saved_again(workdir: Workdir, output: str) -> None:
    add(workdir, "1", output=output)
    for body in (b"first", b"second"):
        save(workdir, "1", body)
        assert page(workdir, output) == body
        assert hidden(workdir.root) == []
        workdir.requeue("1", "success")


def test_a_large_page_goes_from_aside_to_a_folder_that_is_not_there_yet(workdir: Workdir) -> None:
    add(workdir, "1", output="html/a/b/c.html")
    claim, task = claimed(workdir, "1")
    aside = Pages(workdir).aside_of("1")
    Path(aside).write_bytes(b"streamed")
    Pages(workdir).publish(task, Outcome("fetch", True, aside=aside))
    assert page(workdir, "html/a/b/c.html") == b"streamed"
    kill(workdir, claim)


@pytest.mark.parametrize(
    "output",
    [
        "x.html",
        "origin/x.conf",
        "success/1.conf",
        "parsed/1.jsonl",
        "../x.html",
        "html/../x.html",
        "html/../../x",
        "html/./x.html",
        "html/.x.html",
        "html/.sub/x.html",
        "html/",
        "html",
        "html//x.html",
        "html/x/",
        "/etc/x",
        "/html/x.html",
        "./html/x.html",
        "HTML/x.html",
        "html/" + "x" * 250,
        "html/" + "x/" * 3000 + "x",
        "html/link/x.html",
        "html/real/link/x.html",
    ],
)
def test_an_output_elsewhere_than_in_html_is_refused(workdir: Workdir, output: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    Path(workdir.root, "html", "real").mkdir()
    Path(workdir.root, "html", "link").symlink_to(outside)
    Path(workdir.root, "html", "real", "link").symlink_to("../../origin")
    with pytest.raises(TaskFileError, match=r"working/1\.conf: .*(outside html|dot|too long|symbolic link)"):
        Pages(workdir).check_output(Task("1", "http://127.0.0.1:9/", output))


@pytest.mark.parametrize(
    "output", [None, "html/1.html", "html/x.html", "html/a/b.c", "html/x" + "y" * 200, "html/ü \udcff"]
)
def test_an_output_in_html_is_taken(workdir: Workdir, output: str | None) -> None:
    Pages(workdir).check_output(Task("1", "http://127.0.0.1:9/", output))


def test_html_itself_may_be_a_link(workdir: Workdir, tmp_path: Path) -> None:
    """A big disk for the pages: html/ is the user's own, what lies below it is not."""
    os.rmdir(Path(workdir.root, "html"))
    (tmp_path / "big").mkdir()
    Path(workdir.root, "html").symlink_to(tmp_path / "big")
    add(workdir, "1", output="html/x.html")
    save(workdir, "1")
    assert (tmp_path / "big" / "x.html").read_bytes() == b"<p>page</p>"
    assert Pages(workdir).has(workdir.read("success", "1"))


def test_a_page_is_never_written_through_a_link(workdir: Workdir, tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    Path(workdir.root, "html", "1.html").symlink_to(tmp_path / "precious")
    add(workdir, "1")
    save(workdir, "1")
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert page(workdir, "html/1.html") == b"<p>page</p>" and not Path(workdir.root, "html", "1.html").is_symlink()


@pytest.mark.parametrize("there", ["html/1.html", "html/1.html/sub"])
def test_an_output_below_a_page_is_refused_when_it_would_be_saved(workdir: Workdir, there: str) -> None:
    add(workdir, "1")
    save(workdir, "1")
    add(workdir, "2", output=f"{there}/x.html")
    claim, task = claimed(workdir, "2")
    with pytest.raises(NameTaken):
        Pages(workdir).publish(task, fetched())
    assert page(workdir, "html/1.html") == b"<p>page</p>"
    assert hidden(workdir.root) == []
    kill(workdir, claim)


def test_an_output_that_is_a_directory_is_refused(workdir: Workdir) -> None:
    Path(workdir.root, "html", "x").mkdir()
    add(workdir, "1", output="html/x")
    claim, task = claimed(workdir, "1")
    with pytest.raises(NameTaken):
        Pages(workdir).publish(task, fetched())
    kill(workdir, claim)


def test_the_body_of_a_failed_answer_is_kept_until_a_good_one_comes(workdir: Workdir) -> None:
    pages = Pages(workdir)
    for body in (b"first", b"second"):
        pages.keep_error("1", Outcome("fetch", False, "http", "no", body=body))
        assert hidden(workdir.root) == ["html/.1.error"] and page(workdir, "html/.1.error") == body
    aside = pages.aside_of("1")
    Path(aside).write_bytes(b"streamed")
    pages.keep_error("1", Outcome("fetch", False, "http", "no", aside=aside))
    assert page(workdir, "html/.1.error") == b"streamed"
    pages.forget_error("1")
    assert hidden(workdir.root) == []


def test_a_page_counts_as_saved_only_with_its_file_and_its_record(workdir: Workdir) -> None:
    add(workdir, "1")
    pages = Pages(workdir)
    Path(workdir.root, "html", "1.html").write_bytes(b"by hand")
    assert not pages.has(workdir.read("origin", "1"))
    save(workdir, "1")
    assert pages.has(workdir.read("success", "1"))
    files.append_line(workdir.path("success", "1"), Record({"stage": "fetch", "ok": False, "reason": "reset"}).line())
    assert not pages.has(workdir.read("success", "1"))
    files.append_line(workdir.path("success", "1"), Record({"stage": "fetch", "ok": True}).line())
    os.unlink(pages.path_of(workdir.read("success", "1")))
    assert not pages.has(workdir.read("success", "1"))


# ── two tasks, one output ────────────────────────────────────────────────────────────────────────────────────────────

# How each of two tasks comes to the same page: by a line of its own in any spelling, or because it is called so.
SPELLINGS = [
    'output = "html/b.html"',
    "output = html/b.html",
    'output="html/b.html"',
    "-o html/b.html",
    '-o "html/\\b.html"',
]
PAIRS = [(a, b) for a in SPELLINGS[:4] for b in ("", SPELLINGS[0])]


@pytest.mark.parametrize("first_is_explicit", [True, False])
@pytest.mark.parametrize(("line", "other"), PAIRS)
def test_the_page_of_the_first_stays(workdir: Workdir, line: str, other: str, first_is_explicit: bool) -> None:
    put(workdir, "a", line)
    put(workdir, "b", *([other] if other else []))
    first, second = ("a", "b") if first_is_explicit else ("b", "a")
    save(workdir, first, b"the first")
    claim, task = claimed(workdir, second)
    with pytest.raises(NameTaken, match=f"belongs to task {first}"):
        Pages(workdir).publish(task, fetched(b"the second"))
    assert page(workdir, "html/b.html") == b"the first"
    assert hidden(workdir.root) == []
    workdir.settle(claim, "error")


def test_both_in_flight_at_once(workdir: Workdir) -> None:
    """The first that is saved owns the page, also while it is still in working/."""
    put(workdir, "a", SPELLINGS[0])
    put(workdir, "b")
    (claim_a, a), (claim_b, b) = claimed(workdir, "a"), claimed(workdir, "b")
    Pages(workdir).publish(a, fetched(b"a's"))
    workdir.record(claim_a, fetched().record(saved=a.page_output))
    Pages(workdir).forget_aside(a)
    with pytest.raises(NameTaken):
        Pages(workdir).publish(b, fetched(b"b's"))
    assert page(workdir, "html/b.html") == b"a's"
    kill(workdir, claim_a, claim_b)


def test_a_task_that_only_wants_the_page_does_not_own_it(workdir: Workdir) -> None:
    """b was killed between saving its page and saying so; that a names the same output takes nothing from b."""
    put(workdir, "a", SPELLINGS[0])
    put(workdir, "b")
    claim, task = claimed(workdir, "b")
    Pages(workdir).publish(task, fetched(b"unrecorded"))
    kill(workdir, claim)
    _take_back(workdir)
    save(workdir, "b", b"again")
    assert page(workdir, "html/b.html") == b"again"


def test_a_page_that_a_person_put_there_is_not_replaced_by_an_explicit_output(workdir: Workdir) -> None:
    Path(workdir.root, "html", "x.html").write_bytes(b"by hand")
    put(workdir, "a", 'output = "html/x.html"')
    claim, task = claimed(workdir, "a")
    with pytest.raises(NameTaken, match=r"html/x\.html exists already$"):
        Pages(workdir).publish(task, fetched())
    assert page(workdir, "html/x.html") == b"by hand"
    kill(workdir, claim)


@pytest.mark.parametrize("name", [name for name in ODD_NAMES if "\n" not in name])
def test_the_owner_is_found_whatever_it_is_called(workdir: Workdir, name: str) -> None:
    """Its output stands in its record in JSON's spelling, and in the other's file in curl's."""
    other = Task("other", "http://127.0.0.1:9/", f"html/{name}.html")
    put(workdir, name)
    save(workdir, name, b"the first")
    assert workdir.add(other)
    claim, task = claimed(workdir, "other")
    assert task.output == other.output
    with pytest.raises(NameTaken, match="belongs to task"):
        Pages(workdir).publish(task, fetched())
    kill(workdir, claim)


# ── what a crash leaves ──────────────────────────────────────────────────────────────────────────────────────────────


def test_what_was_in_working_is_back_in_origin_and_asides_are_gone(workdir: Workdir) -> None:
    for name in ("1", "2", "3"):
        add(workdir, name)
        kill(workdir, claimed(workdir, name)[0])
    for aside in ("html/.1.part", "parsed/.2.part"):
        Path(workdir.root, aside).write_bytes(b"half")
    tally = _take_back(workdir)
    assert (tally.taken_back, tally.failed, tally.left_alone) == (3, 0, {})
    assert sorted(workdir.names("origin")) == ["1", "2", "3"] and not list(workdir.names("working"))
    assert hidden(workdir.root) == []


def test_what_others_add_meanwhile_is_not_swept(workdir: Workdir) -> None:
    """Adding needs no lock: the aside file of an adder that lives is not ours to remove."""
    child = subprocess.Popen(["true"])
    child.wait()
    origin = Path(workdir.root, "origin")
    for name in (f".1.{os.getpid()}.part", f".2.{child.pid}.part", ".3.part", ".mine", ".4.x.part"):
        (origin / name).write_bytes(b"")
    _take_back(workdir)
    assert f".2.{child.pid}.part" not in os.listdir(origin)
    assert {f".1.{os.getpid()}.part", ".mine"} <= set(os.listdir(origin))


def test_the_body_of_a_failed_answer_is_not_swept(workdir: Workdir) -> None:
    Pages(workdir).keep_error("1", Outcome("fetch", False, "http", "no", body=b"sorry"))
    _take_back(workdir)
    assert hidden(workdir.root) == ["html/.1.error"]


@pytest.mark.parametrize("output", ["", "html/x.html"])
def test_killed_between_page_and_record(workdir: Workdir, output: str) -> None:
    """The page is there and nobody said so: it is fetched again, and saved under the same name."""
    task = add(workdir, "1", output=output)
    claim, task = claimed(workdir, "1")
    Pages(workdir).publish(task, fetched(b"unrecorded"))
    kill(workdir, claim)
    _take_back(workdir)
    assert not Pages(workdir).has(workdir.read("origin", "1"))
    assert hidden(workdir.root) == []
    save(workdir, "1", b"again")
    assert page(workdir, task.page_output) == b"again" and where(workdir, "1") == ["success"]


@pytest.mark.parametrize("output", ["", "html/x.html"])
def test_killed_between_record_and_move(workdir: Workdir, output: str) -> None:
    """The page is whole: it is not fetched again."""
    add(workdir, "1", output=output)
    claim, task = claimed(workdir, "1")
    Pages(workdir).publish(task, fetched(b"recorded"))
    workdir.record(claim, fetched().record(saved=task.page_output))
    kill(workdir, claim)  # before the second name of an explicit output was dropped
    _take_back(workdir)
    assert Pages(workdir).has(workdir.read("origin", "1"))
    assert page(workdir, task.page_output) == b"recorded"
    assert hidden(workdir.root) == []


def test_the_unrecorded_page_of_one_does_not_stand_in_the_way_of_another(workdir: Workdir) -> None:
    add(workdir, "1", output="html/x.html")
    add(workdir, "2", output="html/x.html")
    claim, task = claimed(workdir, "1")
    Pages(workdir).publish(task, fetched(b"unrecorded"))
    kill(workdir, claim)
    _take_back(workdir)
    save(workdir, "2", b"the second's")
    assert page(workdir, "html/x.html") == b"the second's"


def test_a_task_that_cannot_go_back_stays_and_is_told(workdir: Workdir) -> None:
    put(workdir, "1", "# the older", state="working")
    put(workdir, "1", "# the newer")
    tally = _take_back(workdir)
    assert tally.taken_back == 0 and "1" in tally.left_alone
    assert where(workdir, "1") == ["origin", "working"]
    assert b"older" in Path(workdir.path("working", "1")).read_bytes()


@pytest.mark.parametrize("text", [b"\xff\x00 not a task", b"", b'url = "http://h/"\nurl = "http://h/"\n'])
def test_what_is_no_task_goes_back_too(workdir: Workdir, text: bytes) -> None:
    Path(workdir.path("working", "1")).write_bytes(text)
    assert _take_back(workdir).taken_back == 1
    assert Path(workdir.path("origin", "1")).read_bytes() == text


def test_a_task_that_cannot_be_opened_goes_back_too(workdir: Workdir) -> None:
    """Killed in the middle of a claim that would have failed: in working/ no run would look at it again."""
    make_huge(Path(workdir.path("working", "1")))
    assert _take_back(workdir).taken_back == 1
    assert where(workdir, "1") == ["origin"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_task_of_any_name_is_taken_back(workdir: Workdir, name: str) -> None:
    put(workdir, name, state="working")
    assert _take_back(workdir).taken_back == 1
    assert where(workdir, name) == ["origin"]


CHANGING = [
    (Option("data", "a=1"),),
    (Option("json", "{}"),),
    (Option("request", "DELETE"),),
    (Option("request", "PUT"), Option("data", "x")),
]


@pytest.mark.parametrize("options", CHANGING)
def test_a_request_that_changes_things_is_not_sent_again_unasked(workdir: Workdir, options: Any) -> None:
    add(workdir, "1", options=options)
    kill(workdir, claimed(workdir, "1")[0])
    tally = _take_back(workdir)
    assert (tally.taken_back, tally.failed, dict(tally.reasons)) == (0, 1, {"unknown-outcome": 1})
    assert where(workdir, "1") == ["error"]
    record = read_last_record(workdir.path("error", "1"))
    assert record is not None and record.facts["reason"] == "unknown-outcome" and record.facts["to"] == "error"
    assert record.facts["detail"]


@pytest.mark.parametrize("options", CHANGING)
def test_a_request_that_changes_things_and_whose_page_is_whole_goes_on(workdir: Workdir, options: Any) -> None:
    add(workdir, "1", options=options)
    claim, task = claimed(workdir, "1")
    Pages(workdir).publish(task, fetched())
    workdir.record(claim, fetched().record(saved=task.page_output))
    kill(workdir, claim)
    assert _take_back(workdir).taken_back == 1
    assert Pages(workdir).has(workdir.read("origin", "1"))


def test_one_that_only_asks_is_sent_again(workdir: Workdir) -> None:
    add(workdir, "1", options=[Option("data", "a=1"), Option("get", True)])
    kill(workdir, claimed(workdir, "1")[0])
    assert _take_back(workdir).taken_back == 1


def test_killed_after_the_server_had_named_the_page(workdir: Workdir) -> None:
    """Which name that was no record tells: without a look for it the page would keep its own task out for ever."""
    lines = ('output-dir = "html/files"', "remote-name", "remote-header-name")
    put(workdir, "1", *lines, url="http://127.0.0.1:9/a")
    claim, task = claimed(workdir, "1")
    pages, outcome = Pages(workdir), fetched(b"<p>old</p>")
    named = dataclasses.replace(task, output="html/files/given.html")
    pages.publish(named, outcome)
    kill(workdir, claim)
    assert _take_back(workdir).taken_back == 1
    assert os.listdir(workdir.path("html", "files", "")) == [] == hidden(workdir.root)
    _, task = claimed(workdir, "1")
    pages.publish(named, fetched(b"<p>new</p>"))
    assert Path(pages.path_of(named)).read_bytes() == b"<p>new</p>"


@pytest.mark.parametrize("recorded", [True, False])
def test_killed_between_the_record_and_what_comes_after_it(workdir: Workdir, recorded: bool) -> None:
    """The ETag is written, and the body of a failed answer goes; not so before the record."""
    put(workdir, "1", 'etag-save = "var/tag"')
    claim, task = claimed(workdir, "1")
    pages, outcome = Pages(workdir), fetched(headers=[["ETag", '"v1"']])
    pages.keep_error("1", Outcome("fetch", False, "http", "503", body=b"sorry"))
    pages.publish(task, outcome)
    if recorded:
        workdir.record(claim, outcome.record(saved=task.page_output))
    kill(workdir, claim)
    _take_back(workdir)
    assert not os.path.exists(pages.error_path("1"))
    assert Path(workdir.root, "var", "tag").exists() == recorded


def test_what_a_dead_run_left_aside_in_other_folders_is_swept(workdir: Workdir) -> None:
    dead = subprocess.Popen(["true"])  # not waited for until the end: as long as that, a zombie of this number is there
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    for path in (f".sc/.run.json.{dead.pid}.part", "var/..1.part", "html/..1.part", f"origin/.1.{dead.pid}.part"):
        Path(workdir.root, path).parent.mkdir(exist_ok=True)
        Path(workdir.root, path).touch()
    _take_back(workdir)
    assert not list(Path(workdir.root).rglob("*.part"))
    dead.wait()
