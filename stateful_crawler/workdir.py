"""The workdir: which state each task is in, and the only legal moves between states.

    add ──▶ origin ──claim──▶ working ──settle──▶ success | error
               ▲                  │                    │
               └──── take back ───┘◀───── requeue ─────┘

The listing of the folder is the truth; nothing here is remembered elsewhere. Reading and adding need no lock. All other
moves are for the one process that holds it (`Workdir.lock`).
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from stateful_crawler import files, runlock
from stateful_crawler.curl.variables import ReadFile
from stateful_crawler.errors import EnvironmentFault, NameTaken, TaskFileError, UsageError, printable
from stateful_crawler.record import Record
from stateful_crawler.task import Task, read_task

State = Literal["origin", "working", "success", "error"]
STATES: tuple[State, ...] = ("origin", "working", "success", "error")
OUTPUTS = ("html", "parsed")
SUFFIX = ".conf"
ASIDE = ".part"

MAX_TASK_BYTES = 32 * 1024 * 1024
# `.NAME.error` must fit into the 255 bytes of a file name.
MAX_STEM_BYTES = 240


@dataclass(slots=True)
class Claim:
    """A task in working/ that is ours. `task` is None where the file can't be read as one; `fault` then says why.

    `fd` stays open from the claim to the first pause (one open less for each task); -1 where it is closed.
    """

    name: str
    path: str
    fd: int
    source: State = "origin"
    task: Task | None = None
    fault: TaskFileError | None = None
    torn: bool = False
    attempt: int = 0
    first_try: float = 0.0  # time.monotonic() of the first request; 0 before it


class Workdir:
    """One crawl's folder. `root` may be relative; it is made absolute once, here."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        folders = (*STATES, *OUTPUTS, runlock.FOLDER)
        self._dirs = {name: os.path.join(self.root, name) + os.sep for name in folders}

    # ── opening ──────────────────────────────────────────────────────────────────────────────────────────────────

    def open(self, *, create: bool = True) -> Workdir:
        """Make what is missing and see that every state can be written, before the first request is made."""
        if not create and not os.path.isdir(self.root):
            raise UsageError(f"there is no workdir {printable(self.root)}; `sc init` makes one, `-w DIR` names another")
        for path in self._dirs.values():
            try:
                os.makedirs(path, exist_ok=True)
            except OSError as error:
                raise EnvironmentFault.from_os("can't make", path, error) from error
            if not os.access(path, os.W_OK | os.X_OK):
                read_only = os.statvfs(path).f_flag & os.ST_RDONLY
                raise EnvironmentFault("can't write in", path, errno.EROFS if read_only else errno.EACCES)
        if len({os.stat(self._dirs[state]).st_dev for state in STATES}) > 1:
            raise EnvironmentFault(
                "the states lie on different file systems:", self.root, hint="a move must be a rename"
            )
        return self

    def lock(self, argv: Collection[str]) -> contextlib.AbstractContextManager[None]:
        """Be the one run of this workdir, in a `with`; raises WorkdirBusy, naming the other, where there is one."""
        return runlock.hold(self.root, argv)

    def running(self) -> runlock.Running | None:
        """The live run of this workdir, if there is one; never takes the lock."""
        return runlock.running(self.root)

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────

    def path(self, state: str, name: str, suffix: str = SUFFIX) -> str:
        """Where `name` lies, or would lie, in a state directory."""
        return self._dirs[state] + name + suffix

    def names(self, state: State) -> Iterator[str]:
        """The names of the tasks of one state, streamed, in the folder's own order."""
        for entry in self._scan(state):
            if _is_task(entry):
                yield entry.name[: -len(SUFFIX)]

    def state_of(self, name: str) -> State | None:
        """The state a task is in. Looked up along the way a task goes, so that one that moves on meanwhile is seen."""
        return next((state for state in STATES if os.path.lexists(self.path(state, name))), None)

    def read(self, state: State, name: str) -> Task:
        """One task as a value; TaskFileError where it can't be read as one, FileNotFoundError if it has moved on."""
        data = files.read_regular(self.path(state, name), MAX_TASK_BYTES)
        return read_task(name, data, f"{state}/{name}{SUFFIX}", self._read_named)

    def relative(self, path: str) -> str:
        """The path as a user of this workdir would type it."""
        return os.path.relpath(path, self.root)

    def counts(self) -> dict[str, int]:
        """Tasks in each state, pages and items, and `ignored`: other things that lie in the state directories.

        Names with a leading dot are invisible here, as they are for ls. A folder that a person began by hand may lack a
        directory: there is nothing in it.
        """
        counts = Counter[str]()
        for state in STATES:
            tasks = visible = 0
            for entry in self._scan(state) if os.path.isdir(self._dirs[state]) else ():
                if not entry.name.startswith("."):
                    visible += 1
                    tasks += _is_task(entry)
            counts[state] = tasks
            counts["ignored"] += visible - tasks
        for folder in OUTPUTS:
            counts[folder] = sum(1 for _ in _visible_files(self._dirs[folder]))
        return dict(counts)

    # ── adding ───────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, task: Task) -> bool:
        """Publish a new task into origin/; False, and nothing is touched, where its name exists in any state."""
        if self.state_of(task.name):
            return False
        final = self.path("origin", task.name)
        # The pid tells a later run whether this file's owner is dead: adding needs no lock, so the lock can't tell.
        aside = f"{self._dirs['origin']}.{task.name}.{os.getpid()}{ASIDE}"
        with files.machine_faults("can't add", final):
            files.write_aside(aside, task.text())
            ours = os.lstat(aside).st_ino
            try:
                files.publish_new(aside, final)
            except NameTaken:
                return False
        return not self._withdrawn_as_twin(task.name, ours)

    # ── moving ───────────────────────────────────────────────────────────────────────────────────────────────────

    def claim(self, name: str, state: State = "origin") -> Claim | None:
        """Move a task into working/ and read it. None where it has gone, or can't be opened (it then stays).

        Raises NameTaken where working/ has a task of that name already.
        """
        source, path = self.path(state, name), self.path("working", name)
        try:
            files.move(source, path)
        except FileNotFoundError:
            self._must_exist("working")
            return None
        except OSError as error:
            raise EnvironmentFault.from_os("can't move", source, error) from error
        try:
            return _read_claim(name, path, state, self._read_named)
        except OSError as error:
            # Not to be opened (no permission, a link, a FIFO put there meanwhile): it goes back to where it was, unless
            # a person has taken it away from here, or put another in its place there.
            with contextlib.suppress(FileNotFoundError, NameTaken):
                files.move(path, source)
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise EnvironmentFault.from_os("can't open", source, error, "see `ulimit -n`") from error
            return None

    def record(self, claim: Claim, record: Record) -> None:
        """Append what happened to the task's file."""
        line = record.line()
        with files.machine_faults("can't write", claim.path):
            if claim.fd >= 0:
                files.write_all(claim.fd, b"\n" + line if claim.torn else line)
            else:
                self._append(claim.path, line)
        claim.torn = False

    def rest(self, claim: Claim) -> None:
        """Close the task's file for a while: thousands may wait, and a process has a thousand descriptors."""
        if claim.fd >= 0:
            os.close(claim.fd)
            claim.fd = -1

    def settle(self, claim: Claim, state: State) -> None:
        """Move the task on. Its page, items and new tasks must be published by now, its last record written.

        Raises NameTaken where the target has a task of that name: ours stays in working/.
        """
        self.rest(claim)
        target = self.path(state, claim.name)
        try:
            files.move(claim.path, target)
        except FileNotFoundError:
            # A person took the file out of working/: that is theirs to do, and there is nothing left to settle.
            self._must_exist(state)
        except OSError as error:
            raise EnvironmentFault.from_os("can't move", claim.path, error) from error

    def requeue(self, name: str, state: State) -> bool:
        """Move a settled task back into origin/; False where it has gone or origin/ has one of that name."""
        try:
            files.move(self.path(state, name), self.path("origin", name))
        except (FileNotFoundError, NameTaken):
            return False
        except OSError as error:
            raise EnvironmentFault.from_os("can't move", self.path(state, name), error) from error
        return True

    def left_behind(self) -> Iterator[Claim]:
        """What a dead run left in working/, as claims of ours: we hold the lock, so its owner is dead."""
        for name in list(self.names("working")):
            if (claim := self._reclaim(name)) is not None:
                yield claim

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _scan(self, folder: str) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(self._dirs[folder]) as entries:
                yield from entries
        except OSError as error:
            raise EnvironmentFault.from_os("can't list", self._dirs[folder], error) from error

    def _must_exist(self, folder: str) -> None:
        """A missing target directory gives the same errno as a task that has gone; tell them apart."""
        if not os.path.isdir(self._dirs[folder]):
            raise EnvironmentFault("the directory has gone:", self._dirs[folder], hint="make it again, then `sc crawl`")

    def _append(self, path: str, line: bytes) -> None:
        """Append to a task that may not be there any more: a person who took it out of working/ has it as it was."""
        try:
            files.append_line(path, line)
        except FileNotFoundError:
            self._must_exist("working")

    def _withdrawn_as_twin(self, name: str, ours: int) -> bool:
        """Take our new task back where its name has come up in another state.

        Since `add` looked, another process may have added the name, and the crawl claimed it: ours is one too many.
        """
        if all(_inode(self.path(state, name)) in (0, ours) for state in STATES[1:]):
            return False
        # The crawl may have claimed ours by now, and will put it back when it finds the other one where it settles.
        for state in ("origin", "working", "origin"):
            if _inode(self.path(state, name)) == ours:
                files.remove(self.path(state, name))
        return True

    def _read_named(self, path: str) -> bytes:
        """The content of a file of the workdir that a task names; OSError for any other."""
        full = files.within(self.root, path)
        if full is None:
            raise PermissionError(errno.EACCES, "it lies outside the workdir")
        return files.read_regular(full, MAX_TASK_BYTES)

    def _reclaim(self, name: str) -> Claim | None:
        path = self.path("working", name)
        try:
            return _read_claim(name, path, "origin", self._read_named)
        except FileNotFoundError:
            return None
        except OSError as error:
            # It can be moved all the same; left here, no run would ever look at it again.
            return Claim(name, path, -1, fault=TaskFileError(self.relative(path), None, f"can't be opened: {error}"))

    def sweep(self) -> None:
        """Remove what dead runs left aside. We hold the lock, so in html/ and parsed/ every owner is dead."""
        for folder in OUTPUTS:
            for entry in self._scan(folder):
                if entry.name.startswith(".") and entry.name.endswith(ASIDE):
                    files.remove(entry.path)
        for folder in ("origin", runlock.FOLDER):
            for entry in self._scan(folder):
                aside = entry.name.startswith(".") and entry.name.endswith(ASIDE)
                pid = entry.name.removesuffix(ASIDE).rpartition(".")[2]
                if aside and pid.isdecimal() and not runlock.alive(int(pid)):
                    files.remove(entry.path)


def read_last_record(path: str) -> Record | None:
    """The newest record of a task file, read from the file's end."""
    for size in (4096, MAX_TASK_BYTES):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            end = os.fstat(fd).st_size
            data = os.pread(fd, size, max(0, end - size))
        finally:
            os.close(fd)
        lines = data.split(b"\n") if len(data) == end else data.split(b"\n")[1:]
        text = b"\n".join(line for line in lines if line.startswith(b"# sc: "))
        if records := read_task_records(text):
            return records[-1]
    return None


def read_task_records(data: bytes) -> list[Record]:
    """All records of a task file's text, whether or not the rest of it can be read."""
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    return Task("", "", record_lines=tuple(line[6:] for line in lines if line.startswith("# sc: "))).records


def _read_claim(name: str, path: str, source: State, read_file: ReadFile) -> Claim:
    fd = files.open_to_append(path)
    try:
        data = files.read_open(fd, path, MAX_TASK_BYTES)
    except OSError:
        os.close(fd)
        raise
    claim = Claim(name, path, fd, source, torn=bool(data) and not data.endswith(b"\n"))
    shown = f"working/{name}{SUFFIX}"
    try:
        if len(name) > MAX_STEM_BYTES // 4 and len(os.fsencode(name)) > MAX_STEM_BYTES:
            raise TaskFileError(shown, None, f"the task's name is over {MAX_STEM_BYTES} bytes", "give it a shorter one")
        claim.task = read_task(name, data, shown, read_file)
    except TaskFileError as error:
        claim.fault = error
    return claim


def _inode(path: str) -> int:
    """The number of the file; 0 where there is none."""
    try:
        return os.lstat(path).st_ino
    except FileNotFoundError:
        return 0


def _is_task(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    return name.endswith(SUFFIX) and not name.startswith(".") and entry.is_file(follow_symlinks=False)


def _visible_files(folder: str) -> Iterator[str]:
    folders = [folder] if os.path.isdir(folder) else []
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    yield entry.path
