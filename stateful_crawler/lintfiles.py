"""Config files on disk for `sc lint`: which to look at, and how a mended one takes the place of the old one."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stateful_crawler import files, runlock
from stateful_crawler.errors import EnvironmentFault, NameTaken, UsageError, printable
from stateful_crawler.lint import Report, lint
from stateful_crawler.workdir import MAX_TASK_BYTES, STATES, SUFFIX, Workdir

STDIN = "-"


class MustStay(NameTaken):
    """What stands under the name is not to be written over: a link, or a file that is read-only."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(path)
        self.why = why

    def __str__(self) -> str:
        return f"{printable(self.path)} is {self.why}"


@dataclass(frozen=True, slots=True)
class Config:
    """A file that was read: where it lies, its task's name, its text. `path` is empty for the standard input."""

    path: str
    shown: str
    name: str
    text: str

    def look(self) -> Report:
        """What is wrong with it."""
        return lint(self.text, self.name)


def configs(workdir: Workdir, words: Sequence[str]) -> Iterator[Config]:
    """What the words name: files, folders, tasks, `-`; without words every task of the workdir, streamed.

    A task that moves on meanwhile is passed over. Raises UsageError for a word that names nothing.
    """
    for path, shown, listed in _paths(workdir, words):
        if path == STDIN:
            yield Config("", STDIN, "stdin", _text(sys.stdin.buffer.read(MAX_TASK_BYTES)))
            continue
        try:
            data = files.read_regular(path, MAX_TASK_BYTES) if listed else _read(path)
        except OSError as error:
            if listed and isinstance(error, FileNotFoundError):
                continue
            raise EnvironmentFault.from_os("can't read", shown, error) from error
        yield Config(path, shown, _name_of(path), _text(data))


def must_exist(workdir: Workdir, words: Sequence[str]) -> None:
    """Raise UsageError for a word that names nothing, before anything is done."""
    for word in words:
        _located(workdir, word)
    if not words and not os.path.isdir(workdir.root):
        raise UsageError(f"there is no workdir {printable(workdir.root)}; name the files, or `-w DIR` another workdir")


@contextlib.contextmanager
def locked(workdir: Workdir, words: Sequence[str]) -> Iterator[None]:
    """Be the one run of every workdir that one of the files is a task of; raises WorkdirBusy."""
    paths = [_located(workdir, word) for word in words if word != STDIN]
    roots = {root for path in paths if (root := _root_of(workdir, path))} if words else {workdir.root}
    with contextlib.ExitStack() as held:
        for root in sorted(roots):
            held.enter_context(Workdir(root).open().lock(["sc", "lint", "--fix"]))
        yield


def write(workdir: Workdir, config: Config, texts: Sequence[str]) -> list[str]:
    """Put the mended text in the place of the file, or a file for each transfer; the paths that now stand there.

    Raises NameTaken, and leaves all as it was, where a part's name belongs to another file, or the file must stay.
    """
    found = os.lstat(config.path)
    mode = stat.S_IMODE(found.st_mode)
    if stat.S_ISLNK(found.st_mode):
        raise MustStay(config.path, "a symbolic link; name the file that it leads to")
    if not mode & 0o222 or not os.access(config.path, os.W_OK):  # root may write all: the mode says what is wished
        raise MustStay(config.path, "read-only; make it writable")
    path = os.path.realpath(config.path)
    with files.machine_faults("can't write", path):
        if len(texts) == 1:
            files.publish(_aside(path, texts[0], mode), path)
            return [config.path]
        return _write_parts(workdir, path, texts, mode)


def _write_parts(workdir: Workdir, path: str, texts: Sequence[str], mode: int) -> list[str]:
    stem, suffix = os.path.splitext(path)
    paths = [f"{stem}-{number}{suffix or SUFFIX}" for number in range(1, len(texts) + 1)]
    for part, text in zip(paths, texts, strict=True):
        if taken := _taken(workdir, part, text):
            raise NameTaken(taken)
    ours: list[str] = []
    try:
        for part, text in zip(paths, texts, strict=True):
            if not files.exists(part):  # one that a killed run had written already says the same
                files.publish_new(_aside(part, text, mode), part)
                ours.append(part)
    except BaseException:
        for part in ours:
            files.remove(part)
        raise
    files.remove(path)
    return paths


def _taken(workdir: Workdir, part: str, text: str) -> str | None:
    """The other file that has the name of a part: in its own folder, or, for a task, in any state."""
    if files.exists(part):
        with contextlib.suppress(OSError):
            if files.read_regular(part, MAX_TASK_BYTES) == _bytes(text):
                return None
        return part
    root = _root_of(workdir, part)
    name = os.path.basename(part).removesuffix(SUFFIX)
    state = Workdir(root).state_of(name) if root else None
    return Workdir(root).path(state, name) if root and state else None


def _aside(path: str, text: str, mode: int) -> str:
    """The whole text under a name that readers ignore, never more readable than the file it is for."""
    aside = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}.part")
    fd = files.open_aside(aside)
    try:
        os.fchmod(fd, mode)  # before there is anything to read: a task may hold a password
        files.write_all(fd, _bytes(text))
    except OSError:
        files.remove(aside)
        raise
    finally:
        os.close(fd)
    return aside


def _paths(workdir: Workdir, words: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    """Path, the path as it is shown, and whether it comes from a listing (so that it may be gone)."""
    for state in STATES if not words else ():
        if os.path.isdir(workdir.path(state, "", "")):
            for name in workdir.names(state):
                path = workdir.path(state, name)
                yield path, near(path), True
    for word in words:
        path = _located(workdir, word)
        if os.path.isdir(path):
            names = sorted(name for name in os.listdir(path) if name.endswith(SUFFIX) and name[0] != ".")
            yield from ((os.path.join(path, name), os.path.join(word, name), True) for name in names)
        else:
            yield path, word if path == word else near(path), False


def _located(workdir: Workdir, word: str) -> str:
    """The path that a word of the command line names: a file, a folder, or a task by its name."""
    if word == STDIN or os.path.exists(word):
        return word
    name = os.path.basename(word).removesuffix(SUFFIX)
    state = workdir.state_of(name) if name == word.removesuffix(SUFFIX) else None
    if state is None:
        raise UsageError(f"there is no file and no task {printable(word)!r}")
    return workdir.path(state, name)


def _root_of(workdir: Workdir, path: str) -> str | None:
    """The workdir that the file is a task of."""
    folder = os.path.dirname(os.path.realpath(path)) if not os.path.isdir(path) else os.path.realpath(path)
    root, state = os.path.split(folder)
    known = root == os.path.realpath(workdir.root) or os.path.isdir(os.path.join(root, runlock.FOLDER))
    return root if state in STATES and known else None


def _name_of(path: str) -> str:
    stem = os.path.splitext(os.path.basename(path))[0]
    return stem if stem.isprintable() and stem else "page"


def near(path: str) -> str:
    """The path as it is seen from here, unless it lies elsewhere."""
    near = os.path.relpath(path)
    return path if near.startswith("..") else near


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read(MAX_TASK_BYTES)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
