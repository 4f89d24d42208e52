"""For tests on the files of a workdir and on processes: claims, what a kill leaves, sessions, modes, small disks."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers import Project, clean_env, sc_command

from stateful_crawler.record import Outcome
from stateful_crawler.task import Task, new_task
from stateful_crawler.workdir import STATES, Claim, Workdir

# ── the files of a workdir ───────────────────────────────────────────────────────────────────────────────────────────


def add(workdir: Workdir, name: str, url: str = "http://127.0.0.1:9/", **more: Any) -> Task:
    """A task in origin/, made as `sc create` makes it."""
    task = new_task(url, by="create", name=name, **more)
    assert workdir.add(task)
    return task


def put(workdir: Workdir, name: str, *lines: str, url: str = "http://127.0.0.1:9/", state: str = "origin") -> Path:
    """A task written by hand, in any state."""
    path = Path(workdir.path(state, name))
    path.write_text("".join(f"{line}\n" for line in (f'url = "{url}"', *lines)), errors="surrogateescape")
    return path


def claimed(workdir: Workdir, name: str) -> tuple[Claim, Task]:
    """Claim a task that can be claimed and read."""
    claim = workdir.claim(name)
    assert claim is not None and claim.task is not None
    return claim, claim.task


def kill(workdir: Workdir, *claims: Claim) -> None:
    """What `kill -9` does to claims: their descriptors close, and that is all."""
    for claim in claims:
        workdir.rest(claim)


def fetched(body: bytes = b"<p>page</p>", **facts: Any) -> Outcome:
    """A good transfer."""
    return Outcome("fetch", True, facts={"status": 200, "bytes": len(body), **facts}, body=body)


def hidden(root: str | Path) -> list[str]:
    """What lies aside, under names with a leading dot, in the states and the outputs."""
    folders = (*STATES, "html", "parsed")
    return sorted(f"{folder}/{n}" for folder in folders for n in os.listdir(Path(root, folder)) if n.startswith("."))


# ── processes ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Started:
    """`sc` under way, in a session of its own, what it says going to a file."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process, self._log = process, log

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def stderr(self) -> str:
        return self._log.read_text(errors="surrogateescape")

    def ended(self, timeout_s: float = 60) -> int:
        """The exit code, as soon as there is one."""
        return self.process.wait(timeout_s)


@contextmanager
def started_sc(
    project: Project, *words: str, env: dict[str, str] | None = None, prefix: Sequence[str] = ()
) -> Iterator[Started]:
    """Start `sc WORDS`; at the end it is killed, and whatever it left running."""
    log = project.folder / "stderr.log"
    with (
        open(log, "wb") as stderr,
        subprocess.Popen(
            [*prefix, *sc_command(*words)],
            cwd=project.folder,
            env=clean_env(**(env or {})),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield Started(process, log)
        finally:
            process.kill()
            process.wait()
            for pid in session(process.pid):
                end(pid)


def session(leader: int) -> list[int]:
    """The live processes of the session that `leader` began: all that it started and that did not leave it."""
    pids = []
    for entry in os.listdir("/proc"):
        try:
            stat = Path("/proc", entry, "stat").read_text() if entry.isdecimal() else ""
        except OSError:
            continue  # it has ended meanwhile
        fields = stat.rpartition(")")[2].split()
        if fields and int(fields[3]) == leader and fields[0] not in "ZX":
            pids.append(int(entry))
    return pids


def assert_all_end(leader: int) -> None:
    """Every process of the session ends within some seconds; those that don't are named."""
    for _ in range(1000):
        left = session(leader)
        if not left:
            return
        time.sleep(0.01)  # nothing else tells: they are no children of ours
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:300] for pid in left]
    raise AssertionError("still there: " + "\n".join(commands))


def end(pid: int) -> None:
    """Kill a process of ours that may have ended already."""
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass


def minding_modes() -> list[str]:
    """What to put before a command so that file modes bind it, as they bind every user but root."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root is above file modes, and there is no setpriv here to give that up")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A file system of its own at `folder`, of `size`; skips the test where we may not mount."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs to mount a small file system, which only root may")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
