"""The file operations that all state rests on: nothing is ever replaced, torn or followed by mistake."""

from __future__ import annotations

import errno
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from helpers import clean_env

from stateful_crawler import files
from stateful_crawler.errors import EnvironmentFault, NameTaken


@pytest.fixture(
    params=[
        pytest.param(None, id="as-it-is"),
        pytest.param("absent", id="no-such-call"),
        pytest.param(errno.EINVAL, id="file-system-refuses"),
        pytest.param(errno.ENOSYS, id="kernel-refuses"),
    ]
)
def any_system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The present system, and those that have no rename that refuses to replace."""
    if request.param == "absent":
        monkeypatch.setattr(files, "_rename_new", None)
    elif request.param is not None:
        monkeypatch.setattr(files, "_rename_new", lambda source, target: request.param)


def make_file(path: Path) -> None:
    path.write_bytes(b"there first")


def make_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def make_link(path: Path) -> None:
    path.with_name("elsewhere").write_bytes(b"there first")
    path.symlink_to("elsewhere")


def make_directory(path: Path) -> None:
    path.mkdir()


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


ANYTHING = [make_file, make_dangling_link, make_link, make_directory, make_fifo]
Make = Callable[[Path], None]


# ── move ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("any_system")
def test_move_takes_a_file_to_a_free_name(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"task")
    files.move(str(tmp_path / "a"), str(tmp_path / "b"))
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"b": b"task"}


@pytest.mark.usefixtures("any_system")
@pytest.mark.parametrize("make", ANYTHING)
def test_move_never_replaces_what_has_the_name(tmp_path: Path, make: Make) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"newcomer")
    make(target)
    before = os.lstat(target)
    with pytest.raises(NameTaken) as caught:
        files.move(str(source), str(target))
    assert caught.value.path == str(target)
    assert source.read_bytes() == b"newcomer"
    after = os.lstat(target)
    assert (after.st_ino, after.st_mode, after.st_size) == (before.st_ino, before.st_mode, before.st_size)


@pytest.mark.usefixtures("any_system")
def test_move_of_a_task_that_has_gone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.move(str(tmp_path / "gone"), str(tmp_path / "b"))


@pytest.mark.usefixtures("any_system")
def test_move_into_a_directory_that_has_gone_leaves_the_source(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"task")
    with pytest.raises(FileNotFoundError):
        files.move(str(tmp_path / "a"), str(tmp_path / "gone" / "a"))
    assert (tmp_path / "a").read_bytes() == b"task"


@pytest.mark.usefixtures("any_system")
def test_move_keeps_names_of_raw_bytes(tmp_path: Path) -> None:
    source, target = os.fsencode(tmp_path) + b"/caf\xe9", os.fsencode(tmp_path) + b"/\xff\xfe"
    Path(os.fsdecode(source)).write_bytes(b"task")
    files.move(os.fsdecode(source), os.fsdecode(target))
    assert os.listdir(os.fsencode(tmp_path)) == [b"\xff\xfe"]


def test_move_tells_what_the_machine_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"task")
    monkeypatch.setattr(files, "_rename_new", lambda source, target: errno.EXDEV)
    with pytest.raises(OSError) as caught:
        files.move(str(tmp_path / "a"), str(tmp_path / "b"))
    assert caught.value.errno == errno.EXDEV and caught.value.filename == str(tmp_path / "a")


def test_of_many_that_move_to_one_name_one_wins(tmp_path: Path) -> None:
    """Where the system has the call, not even a race replaces a file."""
    if files._rename_new is None:
        pytest.skip("this system has no rename that refuses to replace")
    for turn in range(30):
        sources = [tmp_path / f"{turn}-{i}" for i in range(4)]
        for source in sources:
            source.write_text(source.name)
        won = race([partial(files.move, str(source), str(tmp_path / f"{turn}")) for source in sources])
        assert won.count(True) == 1
        assert (tmp_path / f"{turn}").read_text() == sources[won.index(True)].name
        assert sum(source.exists() for source in sources) == 3


def race(steps: list[Callable[[], None]]) -> list[bool]:
    """Run all at once; which of them did not meet NameTaken."""
    barrier, won = threading.Barrier(len(steps)), [False] * len(steps)

    def run(index: int) -> None:
        barrier.wait()
        try:
            steps[index]()
            won[index] = True
        except NameTaken:
            pass

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(steps))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


# ── publish ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("any_system")
def test_publish_new_puts_a_whole_file_under_its_name(tmp_path: Path) -> None:
    files.write_aside(str(tmp_path / ".a.part"), b"task")
    files.publish_new(str(tmp_path / ".a.part"), str(tmp_path / "a"))
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {"a": b"task"}


@pytest.mark.usefixtures("any_system")
@pytest.mark.parametrize("make", ANYTHING)
def test_publish_new_never_replaces_and_leaves_nothing_aside(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "a")
    before = os.lstat(tmp_path / "a")
    files.write_aside(str(tmp_path / ".a.part"), b"newcomer")
    with pytest.raises(NameTaken):
        files.publish_new(str(tmp_path / ".a.part"), str(tmp_path / "a"))
    assert os.lstat(tmp_path / "a").st_ino == before.st_ino
    assert not (tmp_path / ".a.part").exists()


@pytest.mark.usefixtures("any_system")
def test_of_many_that_publish_one_name_one_wins(tmp_path: Path) -> None:
    for turn in range(30):
        final = tmp_path / f"{turn}"
        asides = [tmp_path / f".{turn}-{i}.part" for i in range(4)]
        for aside in asides:
            files.write_aside(str(aside), aside.name.encode())
        won = race([partial(files.publish_new, str(aside), str(final)) for aside in asides])
        assert won.count(True) == 1
        assert final.read_text() == asides[won.index(True)].name
        assert not any(aside.exists() for aside in asides)


def test_publish_replaces_in_one_step(tmp_path: Path) -> None:
    """A reader that has the old page open goes on reading the old page."""
    page = tmp_path / "page"
    page.write_bytes(b"old, and longer")
    with open(page, "rb") as reader:
        files.write_aside(str(tmp_path / ".page.part"), b"new")
        files.publish(str(tmp_path / ".page.part"), str(page))
        assert reader.read() == b"old, and longer"
    assert page.read_bytes() == b"new"


def test_replace_writes_anew_whole(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    for text in (b"first", b"2nd"):
        files.replace(str(path), text)
        assert [p.name for p in tmp_path.iterdir()] == ["run.json"]
        assert path.read_bytes() == text


# ── writing aside ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_aside_left_by_a_dead_run_is_unlinked_and_not_truncated(tmp_path: Path) -> None:
    """It may be a second name of a page that was published by a link: truncating it would empty the page."""
    aside, page = tmp_path / ".1.part", tmp_path / "page.html"
    page.write_bytes(b"the page")
    os.link(page, aside)
    files.write_aside(str(aside), b"next")
    assert page.read_bytes() == b"the page" and aside.read_bytes() == b"next"


@pytest.mark.parametrize("make", [make_link, make_dangling_link])
def test_an_aside_is_never_written_through_a_link(tmp_path: Path, make: Make) -> None:
    make(tmp_path / ".1.part")
    files.write_aside(str(tmp_path / ".1.part"), b"mine")
    assert not (tmp_path / ".1.part").is_symlink()
    assert not (tmp_path / "nowhere").exists()
    if make is make_link:
        assert (tmp_path / "elsewhere").read_bytes() == b"there first"


def test_a_write_that_the_disk_refuses_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write

    def fills_up(fd: int, data: bytes) -> int:
        if len(data) < 8:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(fd, data[:8])

    monkeypatch.setattr(os, "write", fills_up)
    with pytest.raises(OSError, match="No space"):
        files.write_aside(str(tmp_path / ".1.part"), b"0123456789abc")
    monkeypatch.undo()
    assert not list(tmp_path.iterdir())


def test_a_short_write_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
    files.write_aside(str(tmp_path / "a"), b"0123456789")
    files.append_line(str(tmp_path / "a"), b"abcdefg\n")
    monkeypatch.undo()
    assert (tmp_path / "a").read_bytes() == b"0123456789\nabcdefg\n"


# ── appending ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", b"line\n"),
        (b"a\n", b"a\nline\n"),
        (b'# sc: {"at": "20', b'# sc: {"at": "20\nline\n'),  # torn by a power cut
        (b"a\n\n", b"a\n\nline\n"),
        (b"a\r", b"a\r\nline\n"),
    ],
)
def test_an_appended_line_stands_on_its_own(tmp_path: Path, before: bytes, after: bytes) -> None:
    (tmp_path / "a").write_bytes(before)
    files.append_line(str(tmp_path / "a"), b"line\n")
    assert (tmp_path / "a").read_bytes() == after


def test_appending_makes_no_file(tmp_path: Path) -> None:
    """A task that a person took out of working/ must not come back as a file of one record."""
    with pytest.raises(FileNotFoundError):
        files.append_line(str(tmp_path / "gone"), b"line\n")
    assert not list(tmp_path.iterdir())


def test_appending_follows_no_link(tmp_path: Path) -> None:
    make_link(tmp_path / "a")
    with pytest.raises(OSError) as caught:
        files.append_line(str(tmp_path / "a"), b"line\n")
    assert caught.value.errno == errno.ELOOP
    assert (tmp_path / "elsewhere").read_bytes() == b"there first"


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [0, 1, 4096, 3_000_000])
def test_a_regular_file_is_read_whole(tmp_path: Path, size: int) -> None:
    (tmp_path / "a").write_bytes(b"x" * size)
    assert files.read_regular(str(tmp_path / "a"), 1 << 30) == b"x" * size


def test_short_reads_are_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    read = os.read
    monkeypatch.setattr(os, "read", lambda fd, size: read(fd, min(size, 3)))
    data = files.read_regular(str(tmp_path / "a"), 100)
    monkeypatch.undo()
    assert data == b"0123456789"


def test_a_file_at_the_limit_is_read_and_one_over_it_is_not(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 11)
    assert len(files.read_regular(str(tmp_path / "a"), 11)) == 11
    with pytest.raises(OSError) as caught:
        files.read_regular(str(tmp_path / "a"), 10)
    assert caught.value.errno == errno.EFBIG


@pytest.mark.parametrize("make", [make_link, make_dangling_link, make_directory, make_fifo])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, make: Make) -> None:
    """The FIFO above all: opening it as one opens a file would wait for a writer for ever."""
    make(tmp_path / "a")
    for read in (lambda path: files.read_regular(path, 100), read_to_append):
        with pytest.raises(OSError):
            read(str(tmp_path / "a"))


def read_to_append(path: str) -> bytes:
    """As a claim reads a task."""
    fd = files.open_to_append(path)
    try:
        return files.read_open(fd, path, 100)
    finally:
        os.close(fd)


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket may be 107 bytes long
    with socket.socket(socket.AF_UNIX) as there:
        there.bind("a")
        with pytest.raises(OSError):
            files.read_regular("a", 100)


# ── small ones ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("make", ANYTHING)
def test_a_name_exists_whatever_has_it(tmp_path: Path, make: Make) -> None:
    assert not files.exists(str(tmp_path / "a"))
    make(tmp_path / "a")
    assert files.exists(str(tmp_path / "a"))


def test_removing_what_has_gone_is_no_error(tmp_path: Path) -> None:
    files.remove(str(tmp_path / "gone"))


def test_two_names_of_one_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"same")
    (tmp_path / "copy").write_bytes(b"same")
    os.link(tmp_path / "a", tmp_path / "b")
    (tmp_path / "link").symlink_to("a")
    same = {name: files.same_file(str(tmp_path / "a"), str(tmp_path / name)) for name in ("b", "copy", "link", "gone")}
    assert same == {"b": True, "copy": False, "link": False, "gone": False}


# ── the lock ─────────────────────────────────────────────────────────────────────────────────────────────────────────

TRY = "import sys; from stateful_crawler.files import only_one\nwith only_one(sys.argv[1]) as ours: print(ours)"


def another_gets(lock: Path) -> bool:
    """Whether another process would get the lock now."""
    run = subprocess.run(
        [sys.executable, "-c", TRY, str(lock)], env=clean_env(), capture_output=True, text=True, timeout=60, check=True
    )
    return run.stdout.strip() == "True"


def test_one_process_at_a_time_has_the_lock(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with files.only_one(str(lock)) as ours:
        assert ours
        assert not another_gets(lock)
    assert another_gets(lock)


def test_a_child_does_not_inherit_the_lock(tmp_path: Path) -> None:
    """Without this a worker, or what a parser started, would keep the folder locked after a kill."""
    lock = tmp_path / "lock"
    with files.only_one(str(lock)) as ours:
        assert ours
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    try:
        assert another_gets(lock)
    finally:
        child.communicate(b"\n", timeout=60)


def test_the_lock_falls_with_a_process_that_is_killed(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    hold = TRY.replace("print(ours)", "print(ours, flush=True), input()")
    child = subprocess.Popen(
        [sys.executable, "-c", hold, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_env()
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"True\n"
    with files.only_one(str(lock)) as ours:
        assert not ours
    child.kill()
    child.communicate(timeout=60)
    with files.only_one(str(lock)) as ours:
        assert ours


@pytest.mark.parametrize("left", [b"", b"hello", b"-1", b"99999999999", b"1\n", bytes(range(256)) * 20])
def test_what_the_lock_file_says_never_matters(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "lock").write_bytes(left)
    with files.only_one(str(tmp_path / "lock")) as ours:
        assert ours


@pytest.mark.parametrize("make", [make_link, make_dangling_link, make_directory])
def test_a_lock_that_is_no_file_is_an_error_that_says_what_to_do(tmp_path: Path, make: Make) -> None:
    make(tmp_path / "lock")
    before = {p.name: stat.S_IFMT(os.lstat(p).st_mode) for p in tmp_path.iterdir()}
    with pytest.raises(EnvironmentFault, match=r"can't lock .*lock.*remove"), files.only_one(str(tmp_path / "lock")):
        raise AssertionError("locked all the same")
    assert {p.name: stat.S_IFMT(os.lstat(p).st_mode) for p in tmp_path.iterdir()} == before
    if make is make_link:
        assert (tmp_path / "elsewhere").read_bytes() == b"there first"
