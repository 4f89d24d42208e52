"""One run per workdir: the lock, and the run.json beside it that tells who holds it. Never state of the crawl."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from stateful_crawler import files
from stateful_crawler.errors import WorkdirBusy
from stateful_crawler.record import utc_now

FOLDER = ".sc"


@dataclass(frozen=True, slots=True)
class Running:
    """Who holds the workdir, as run.json tells it."""

    pid: int
    host: str
    started: str
    born: str = ""


@contextlib.contextmanager
def hold(root: str, argv: Collection[str]) -> Iterator[None]:
    """Be the one run of the workdir `root`; raises WorkdirBusy, naming the other, where it has one already."""
    path = _run_json(root)
    with files.only_one(os.path.join(root, FOLDER, "lock")) as ours:
        if not ours:
            holder = _read(root)
            raise WorkdirBusy(root, *((holder.pid, holder.host, holder.started) if holder else ()))
        run = {"pid": os.getpid(), "host": os.uname().nodename, "started": utc_now(), "argv": list(argv)}
        run["born"] = _born(os.getpid())
        with files.machine_faults("can't write", path):
            files.replace(path, json.dumps(run).encode())
        try:
            yield
        finally:
            files.remove(path)


def running(root: str) -> Running | None:
    """The live run of the workdir `root`, if there is one; never takes the lock."""
    run = _read(root)
    if run is None or (run.host == os.uname().nodename and not (alive(run.pid) and _born(run.pid) == run.born)):
        return None
    return run


def _run_json(root: str) -> str:
    return os.path.join(root, FOLDER, "run.json")


def _read(root: str) -> Running | None:
    try:
        run = json.loads(files.read_regular(_run_json(root), 1 << 20))
        return Running(int(run["pid"]), str(run["host"]), str(run["started"]), str(run.get("born", "")))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _born(pid: int) -> str:
    """When a process began, in the kernel's ticks; empty where the system does not tell.

    Without it another process that got a dead run's number would pass for that run.
    """
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 else ""


def alive(pid: int) -> bool:
    """Whether a process of this number runs on this machine.

    One that is dead and that its parent has not yet asked for (a zombie; in a container without an init it stays one)
    does not run any more.
    """
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return _stat(pid)[:1] not in (["Z"], ["X"])


def _stat(pid: int) -> list[str]:
    """What the kernel tells of a process, from its state on (proc(5)); empty where the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
