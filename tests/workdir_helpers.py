"""For tests on the files of a workdir and on the real `sc`: write tasks, look at states, run and end processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from stateful_crawler.task import Outcome, Task, new_task
from stateful_crawler.workdir import STATES, Claim, Workdir

SC = str(Path(sys.executable).with_name("sc"))

# ── the files of a workdir ───────────────────────────────────────────────────────────────────────────────────────────


def states(root: str | Path) -> dict[str, list[str]]:
    """Every visible name that ends in .conf, with the states it is in; also links, directories and the like."""
    found: dict[str, list[str]] = defaultdict(list)
    for state in STATES:
        for name in os.listdir(os.path.join(root, state)):
            if name.endswith(".conf") and not name.startswith("."):
                found[name.removesuffix(".conf")].append(state)
    return dict(found)


def names(root: str | Path, state: str) -> set[str]:
    """The names of the tasks in one state."""
    return {name for name, found in states(root).items() if state in found}


def hidden(root: str | Path) -> list[str]:
    """What lies aside, under names with a leading dot, in the states and the outputs."""
    folders = (*STATES, "html", "parsed")
    return sorted(f"{folder}/{n}" for folder in folders for n in os.listdir(Path(root, folder)) if n.startswith("."))


def put(root: str | Path, name: str, url: str, *lines: str, state: str = "origin") -> Path:
    """Write a task by hand, as a person would."""
    path = Path(root, state, f"{name}.conf")
    path.write_text("\n".join([f'url = "{url}"', *lines, ""]), encoding="utf-8", errors="surrogateescape")
    return path


def records(path: str | Path) -> list[dict[str, Any]]:
    """The records of a task file, read by hand."""
    text = Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    return [json.loads(line[6:]) for line in text.split("\n") if line.startswith("# sc: ")]


def add(workdir: Workdir, name: str, url: str = "http://127.0.0.1:9/", **more: Any) -> Task:
    """A task in origin/, made as `sc create` makes it."""
    task = new_task(url, by="create", name=name, **more)
    assert workdir.add(task)
    return task


def claimed(workdir: Workdir, name: str) -> Claim:
    """Claim a task that can be claimed."""
    claim = workdir.claim(name)
    assert claim is not None
    return claim


def taken(claim: Claim) -> Task:
    """The task of a claim that has one."""
    assert claim.task is not None, claim.fault
    return claim.task


def kill(workdir: Workdir, *claims: Claim) -> None:
    """What `kill -9` does to claims: their descriptors close, and that is all."""
    for claim in claims:
        workdir.rest(claim)


def fetched(body: bytes = b"<p>page</p>", **facts: Any) -> Outcome:
    """A good transfer."""
    return Outcome("fetch", True, facts={"status": 200, "bytes": len(body), **facts}, body=body)


# ── processes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def environment(**more: str) -> dict[str, str]:
    """Ours, without what would set options of `sc` or send its requests elsewhere."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("SC_") and "proxy" not in key.lower()}
    return kept | more


def run_sc(
    folder: str | Path, *arguments: str, prefix: Sequence[str] = (), **env: str
) -> subprocess.CompletedProcess[str]:
    """Run `sc` to its end."""
    return subprocess.run(
        [*prefix, SC, *arguments],
        cwd=folder,
        env=environment(**env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=100,
        check=False,
    )


@contextmanager
def started_sc(folder: str | Path, *arguments: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """`sc` in a session of its own, its stderr in the file `stderr`; killed at the end, with all that it started."""
    with (
        open(Path(folder, "stderr"), "w") as stderr,
        subprocess.Popen(
            [SC, *arguments],
            cwd=folder,
            env=environment(**env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            for pid in session(process.pid):
                _end(pid)


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


def _end(pid: int) -> None:
    try:
        os.kill(pid, 9)
    except ProcessLookupError:
        pass  # it was faster


def no_override() -> list[str]:
    """What makes a command meet file modes as an ordinary user does: nothing, or for root a command to put before it."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root is above file modes here, and there is no setpriv to give that up")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


@contextmanager
def mounted(folder: str | Path, size: str) -> Iterator[None]:
    """A tmpfs of `size` at `folder`; skips the test where we may not mount."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root, and a system that lets it")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
