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
import json
import os
import re
import socket
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from stateful_crawler import files
from stateful_crawler.errors import EnvironmentFault, NameTaken, TaskFileError, WorkdirBusy, printable
from stateful_crawler.task import Outcome, Record, Task, read_task, utc_now

State = Literal["origin", "working", "success", "error"]
STATES: tuple[State, ...] = ("origin", "working", "success", "error")
OUTPUTS = ("html", "parsed")
SUFFIX = ".conf"
ASIDE = ".part"

MAX_TASK_BYTES = 32 * 1024 * 1024
# `.NAME.error` must fit into the 255 bytes of a file name.
MAX_STEM_BYTES = 240
WINDOW = 20_000

_DIGITS = re.compile(r"([0-9]+)")
# What the machine says when the folder as a whole can't be written any more: the run stops, no task is to blame.
_MACHINE_FAULTS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE})


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


@dataclass(frozen=True, slots=True)
class Running:
    """Who holds the workdir, as run.json tells it."""

    pid: int
    host: str
    started: str


class Workdir:
    """One crawl's folder. `root` may be relative; it is made absolute once, here."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self._dirs = {name: os.path.join(self.root, name) + os.sep for name in (*STATES, *OUTPUTS)}
        self._run_json = os.path.join(self.root, ".sc", "run.json")

    # ── opening ──────────────────────────────────────────────────────────────────────────────────────────────────

    def open(self, *, create: bool = True) -> Workdir:
        """Make what is missing and see that every state can be written, before the first request is made."""
        if not create and not os.path.isdir(self.root):
            raise EnvironmentFault("there is no workdir", self.root, hint="`sc init` makes one, `-w DIR` names another")
        for path in (*self._dirs.values(), os.path.dirname(self._run_json)):
            try:
                os.makedirs(path, exist_ok=True)
            except OSError as error:
                raise EnvironmentFault.from_os("can't make", path, error) from error
            if not os.access(path, os.W_OK | os.X_OK):
                raise EnvironmentFault("can't write in", path, errno.EACCES)
        if len({os.stat(self._dirs[state]).st_dev for state in STATES}) > 1:
            raise EnvironmentFault("the states lie on different file systems:", self.root, hint="a move must be a rename")
        return self

    @contextlib.contextmanager
    def lock(self, argv: Collection[str]) -> Iterator[None]:
        """Be the one run of this workdir; raises WorkdirBusy, naming the other, where it has one already."""
        with files.only_one(os.path.join(self.root, ".sc", "lock")) as ours:
            if not ours:
                holder = self._read_run()
                raise WorkdirBusy(self.root, *((holder.pid, holder.host, holder.started) if holder else ()))
            run = {"pid": os.getpid(), "host": socket.gethostname(), "started": utc_now(), "argv": list(argv)}
            with machine_faults("can't write", self._run_json):
                files.replace(self._run_json, json.dumps(run).encode())
            try:
                yield
            finally:
                files.remove(self._run_json)

    def running(self) -> Running | None:
        """The live run of this workdir, if there is one; never takes the lock."""
        run = self._read_run()
        if run is None or (run.host == socket.gethostname() and not _alive(run.pid)):
            return None
        return run

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────

    def path(self, state: str, name: str, suffix: str = SUFFIX) -> str:
        """Where `name` lies, or would lie, in a state directory."""
        return self._dirs[state] + name + suffix

    def page_path(self, task: Task) -> str:
        """The final path of the task's page."""
        return os.path.join(self.root, task.page_output)

    def error_page_path(self, name: str) -> str:
        """Where the body of a failed answer is kept."""
        return f"{self._dirs['html']}.{name}.error"

    def items_path(self, name: str) -> str:
        """The final path of the task's items."""
        return self.path("parsed", name, ".jsonl")

    def items_aside(self, name: str) -> str:
        """Where a worker writes items before they are published."""
        return f"{self._dirs['parsed']}.{name}{ASIDE}"

    def page_aside(self, name: str) -> str:
        """Where a page is written before it is published."""
        return f"{self._dirs['html']}.{name}{ASIDE}"

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
        path = self.path(state, name)
        return read_task(name, files.read_regular(path, MAX_TASK_BYTES), self.relative(path))

    def relative(self, path: str) -> str:
        """The path as a user of this workdir would type it."""
        return os.path.relpath(path, self.root)

    def counts(self) -> dict[str, int]:
        """Tasks in each state, pages and items, and `ignored`: other things that lie in the state directories.

        Names with a leading dot are invisible here, as they are for ls.
        """
        counts = Counter[str]()
        for state in STATES:
            tasks = visible = 0
            for entry in self._scan(state):
                if not entry.name.startswith("."):
                    visible += 1
                    tasks += _is_task(entry)
            counts[state] = tasks
            counts["ignored"] += visible - tasks
        counts["html"] = sum(1 for _ in _visible_files(self._dirs["html"]))
        counts["parsed"] = sum(1 for _ in _visible_files(self._dirs["parsed"]))
        return dict(counts)

    # ── adding ───────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, task: Task) -> bool:
        """Publish a new task into origin/; False, and nothing is touched, where its name exists in any state."""
        if self.state_of(task.name):
            return False
        final = self.path("origin", task.name)
        # The pid tells a later run whether this file's owner is dead: adding needs no lock, so the lock can't tell.
        aside = f"{self._dirs['origin']}.{task.name}.{os.getpid()}{ASIDE}"
        with machine_faults("can't add", final):
            files.write_aside(aside, task.text())
            try:
                files.publish_new(aside, final)
            except NameTaken:
                return False
        return True

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
            return _read_claim(name, path, state)
        except OSError:
            # Not to be opened (no permission, a link, a FIFO put there meanwhile): it goes back to where it was.
            files.move(path, source)
            return None

    def record(self, claim: Claim, record: Record) -> None:
        """Append what happened to the task's file."""
        line = record.line()
        with machine_faults("can't write", claim.path):
            if claim.fd >= 0:
                files.write_all(claim.fd, b"\n" + line if claim.torn else line)
            else:
                files.append_line(claim.path, line)
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

    def take_back(self) -> tuple[list[str], list[str]]:
        """Put what a dead run left in working/ back into origin/; the names, and those that had to end in error/.

        A request that changes things may have reached the server: it is not sent again without being asked.
        """
        back: list[str] = []
        unknown: list[str] = []
        for name in list(self.names("working")):
            claim = self._reclaim(name)
            if claim is None:
                continue
            task = claim.task
            if task:
                self._undo_unrecorded_page(claim, task)
            doubtful = task is not None and task.changes_things and not self.has_page(task)
            if doubtful:
                detail = "the run ended while this request was under way; whether it was carried out is not known"
                self.record(claim, Outcome("fetch", False, "unknown-outcome", detail).record(to="error"))
            with contextlib.suppress(NameTaken):
                self.settle(claim, "error" if doubtful else "origin")
                (unknown if doubtful else back).append(name)
        self._sweep()
        return back, unknown

    # ── pages and items ──────────────────────────────────────────────────────────────────────────────────────────

    def has_page(self, task: Task) -> bool:
        """Whether the task's page is whole: its last fetch record is good and the file stands there."""
        record = task.last("fetch") if task.record_lines else None
        return record is not None and record.ok and os.path.isfile(self.page_path(task))

    def check_output(self, task: Task) -> None:
        """Raise TaskFileError unless the page would be saved under html/, by plain names, through no link."""
        output = task.output
        if output is None or output == f"html/{task.name}.html":
            return
        parts = output.split("/")
        if parts[0] != "html" or len(parts) < 2 or any(not part or part.startswith(".") for part in parts):
            raise TaskFileError(
                f"working/{task.name}.conf", None, f'output "{printable(output)}" lies outside html/', "write html/NAME.html"
            )
        if any(len(os.fsencode(part)) > MAX_STEM_BYTES for part in parts):
            raise TaskFileError(f"working/{task.name}.conf", None, "the output's name is too long", "200 bytes fit everywhere")
        folder = self.root
        for part in parts[:-1]:
            folder = os.path.join(folder, part)
            if part is not parts[0] and os.path.islink(folder):
                raise TaskFileError(f"working/{task.name}.conf", None, f"{self.relative(folder)} is a symbolic link")

    def publish_page(self, claim: Claim, task: Task, outcome: Outcome) -> None:
        """Put the page of a good transfer under its final name; NameTaken where that is another task's page.

        A page of this task's own is replaced. A name that must be new is published by a link that stays until the
        record is written (`forget_aside`): after a crash the second name proves whose page it is.
        """
        final = self.page_path(task)
        aside = outcome.aside or self.page_aside(task.name)
        with machine_faults("can't write", final):
            if outcome.aside is None:
                self._write_page(aside, task, outcome.body)
            if not files.exists(final):
                if task.output is None or task.output == f"html/{task.name}.html":
                    files.publish(aside, final)
                else:
                    os.link(aside, final)
                return
        if not self._owns(task):
            files.remove(aside)
            raise NameTaken(self.relative(final), self._owner_of(task.page_output, task.name))
        files.publish(aside, final)

    def forget_aside(self, task: Task) -> None:
        """Once the page is recorded: drop the second name that a new explicit output was published by."""
        if task.output is not None and task.output != f"html/{task.name}.html":
            files.remove(self.page_aside(task.name))

    def keep_error_page(self, name: str, outcome: Outcome) -> None:
        """Keep the body of a failed answer for `sc show`, in place of the one of the last try."""
        path = self.error_page_path(name)
        with machine_faults("can't write", path):
            if outcome.aside:
                files.publish(outcome.aside, path)
            elif outcome.body:
                files.write_aside(path, outcome.body)

    def publish_items(self, name: str) -> None:
        """Put the items that a worker wrote aside under their final name."""
        with machine_faults("can't write", self.items_path(name)):
            files.publish(self.items_aside(name), self.items_path(name))

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

    def _read_run(self) -> Running | None:
        try:
            run = json.loads(files.read_regular(self._run_json, 1 << 20))
            return Running(int(run["pid"]), str(run["host"]), str(run["started"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _reclaim(self, name: str) -> Claim | None:
        path = self.path("working", name)
        try:
            return _read_claim(name, path, "origin")
        except OSError:
            return None

    def _write_page(self, aside: str, task: Task, body: bytes) -> None:
        if task.page_output.count("/") > 1:
            os.makedirs(os.path.dirname(self.page_path(task)), exist_ok=True)
        files.write_aside(aside, body)

    def _owns(self, task: Task) -> bool:
        """Whether the page that stands under the task's output is its own, from before."""
        output = task.page_output
        if any(record.ok and record.facts.get("saved") == output for record in task.records):
            return True
        # html/NAME.html belongs to task NAME (a crash may have come before its record), unless another task says so.
        return output == f"html/{task.name}.html" and not self._owner_of(output, task.name)

    def _owner_of(self, output: str, but: str) -> str:
        """The task, other than `but`, that names this output. Reads every task: for conflicts only, which are rare."""
        needle = f'output = "{output}"'.encode("utf-8", "surrogateescape")
        for state in STATES:
            for name in self.names(state):
                with contextlib.suppress(OSError):
                    if name != but and needle in files.read_regular(self.path(state, name), MAX_TASK_BYTES):
                        return name
        return ""

    def _undo_unrecorded_page(self, claim: Claim, task: Task) -> None:
        """Settle what a crash left between publishing a page by a link and writing its record."""
        aside, final = self.page_aside(claim.name), self.page_path(task)
        if files.same_file(aside, final) and not self._owns(task):
            files.remove(final)

    def _sweep(self) -> None:
        """Remove what dead runs left aside. We hold the lock, so in html/ and parsed/ every owner is dead."""
        for folder in OUTPUTS:
            for entry in self._scan(folder):
                if entry.name.startswith(".") and entry.name.endswith(ASIDE):
                    files.remove(entry.path)
        for entry in self._scan("origin"):
            pid = entry.name.removesuffix(ASIDE).rpartition(".")[2]
            if entry.name.startswith(".") and entry.name.endswith(ASIDE) and pid.isdecimal() and not _alive(int(pid)):
                files.remove(entry.path)


def natural_key(name: str) -> list[str | int]:
    """Sorts 2 before 10: text and numbers in turn."""
    return [int(part) if i % 2 else part for i, part in enumerate(_DIGITS.split(name))]


class Frontier:
    """The names in origin/, in natural order within a window that is looked at, not claimed: memory stays flat.

    One scan of the folder serves many windows; the next scan is made only when someone asks again.
    """

    def __init__(self, workdir: Workdir, wanted: Callable[[str], bool] = lambda _: True, window: int = WINDOW) -> None:
        self._workdir, self._wanted, self._window_size = workdir, wanted, window
        self._scan: Iterator[str] | None = None
        self._window: list[str] = []
        self.passed_over: set[str] = set()

    def next_name(self) -> str | None:
        """The next name to claim, or None when this scan of origin/ is done. A later call begins a new scan."""
        if not self._window and not self._refill():
            return None
        return self._window.pop()

    def _refill(self) -> bool:
        self._scan = self._scan or self._workdir.names("origin")
        taken = []
        for name in self._scan:
            if self._wanted(name) and name not in self.passed_over:
                taken.append(name)
                if len(taken) == self._window_size:
                    break
        else:
            self._scan = None
        self._window = sorted(taken, key=natural_key, reverse=True)
        return bool(taken)


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


def _read_claim(name: str, path: str, source: State) -> Claim:
    fd = files.open_to_append(path)
    try:
        data = files.read_open(fd, path, MAX_TASK_BYTES)
    except OSError:
        os.close(fd)
        raise
    claim = Claim(name, path, fd, source, torn=bool(data) and not data.endswith(b"\n"))
    shown = f"working/{name}{SUFFIX}"
    try:
        if len(os.fsencode(name)) > MAX_STEM_BYTES:
            raise TaskFileError(shown, None, f"the task's name is over {MAX_STEM_BYTES} bytes", "give it a shorter one")
        claim.task = read_task(name, data, shown)
    except TaskFileError as error:
        claim.fault = error
    return claim


def _is_task(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    return name.endswith(SUFFIX) and not name.startswith(".") and entry.is_file(follow_symlinks=False)


def _visible_files(folder: str) -> Iterator[str]:
    folders = [folder]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    yield entry.path


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


class machine_faults:  # noqa: N801 - reads as a verb where it is used
    """Translate what the machine refuses into our own error; anything else is not expected and goes up as it is.

    A class and not a generator: it stands on the path of every page, and costs a quarter.
    """

    __slots__ = ("_doing", "_path")

    def __init__(self, doing: str, path: str) -> None:
        self._doing, self._path = doing, path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, OSError) and error.errno in _MACHINE_FAULTS:
            hint = "make room, then `sc crawl` goes on" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
            raise EnvironmentFault.from_os(self._doing, self._path, error, hint) from error
