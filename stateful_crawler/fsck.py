"""Check a workdir against its invariants, and mend what can be mended without guessing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from stateful_crawler import files
from stateful_crawler.errors import TaskFileError
from stateful_crawler.pages import Pages
from stateful_crawler.sidefiles import paths_of
from stateful_crawler.task import Task
from stateful_crawler.workdir import ASIDE, OUTPUTS, STATES, SUFFIX, State, Workdir

Kind = Literal[
    "two-states",
    "left-in-working",
    "no-page",
    "no-items",
    "unreadable",
    "not-a-task",
    "aside",
    "page-without-task",
    "orphan-items",
]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be. `mend` says what --fix would do; empty where a person must decide."""

    kind: Kind
    path: str
    detail: str
    mend: str = ""

    @property
    def is_damage(self) -> bool:
        """Whether an invariant is broken; the others are only worth knowing."""
        return self.kind in ("two-states", "no-page", "no-items")


def check(workdir: Workdir) -> Iterator[Finding]:
    """All findings, streamed. Only reads; call it under the lock, or a running crawl's moves look like damage."""
    yield from _tasks(workdir)
    yield from _strangers(workdir)
    yield from _outputs(workdir)


def mend(workdir: Workdir, finding: Finding) -> bool:
    """Do what the finding's `mend` says; False where there is nothing to do. Call it under the lock."""
    path = os.path.join(workdir.root, finding.path)
    if finding.kind == "aside":
        files.remove(path)
        return True
    if finding.kind in ("no-page", "no-items"):
        return workdir.requeue(_name(finding.path), "success")
    if finding.kind == "two-states" and finding.mend:
        files.remove(path)
        return True
    return False


def _tasks(workdir: Workdir) -> Iterator[Finding]:
    for state in STATES:
        for name in workdir.names(state):
            path = workdir.path(state, name)
            yield from _doubled(workdir, state, name)
            if state == "working":
                yield Finding(
                    "left-in-working",
                    workdir.relative(path),
                    "a run that did not end left it; `sc crawl` takes it back",
                )
            try:
                task = workdir.read(state, name)
            except (FileNotFoundError, PermissionError):
                continue  # it has moved on; or `_strangers` tells of it
            except (OSError, TaskFileError) as error:
                if state != "error":
                    yield Finding("unreadable", workdir.relative(path), str(error))
                continue
            if state == "success":
                yield from _unbacked(workdir, task)


def _doubled(workdir: Workdir, state: State, name: str) -> Iterator[Finding]:
    """Another state that has the name too; told once, for the state that comes first on the way."""
    for other in STATES[STATES.index(state) + 1 :]:
        twin = workdir.path(other, name)
        if os.path.lexists(twin):
            path = workdir.path(state, name)
            mending = "remove this one: the other holds all that it says" if _says_no_more(path, twin) else ""
            yield Finding("two-states", workdir.relative(path), f"the same name is in {other}/", mending)


def _says_no_more(path: str, other: str) -> bool:
    """Whether `other` begins with the whole of `path`: then nothing is lost with it."""
    try:
        return files.read_regular(other, 1 << 26).startswith(files.read_regular(path, 1 << 26))
    except OSError:
        return False


def _unbacked(workdir: Workdir, task: Task) -> Iterator[Finding]:
    """A task in success/ that has not what success means."""
    path = workdir.relative(workdir.path("success", task.name))
    if not os.path.isfile(Pages(workdir).path_of(task)):
        yield Finding(
            "no-page", path, f"{task.page_output} is not there", "put it back into origin/: it is fetched again"
        )
    elif (parsed := task.last("parse")) and parsed.ok and not os.path.isfile(Pages(workdir).items_path(task.name)):
        yield Finding(
            "no-items", path, f"parsed/{task.name}.jsonl is not there", "put it back into origin/: it is parsed again"
        )


def _strangers(workdir: Workdir) -> Iterator[Finding]:
    for state in STATES:
        with os.scandir(os.path.join(workdir.root, state)) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                path = workdir.relative(entry.path)
                if not entry.name.endswith(SUFFIX) or not entry.is_file(follow_symlinks=False):
                    yield Finding("not-a-task", path, "ignored by every command")
                elif not os.access(entry.path, os.R_OK | os.W_OK):
                    yield Finding("unreadable", path, "no permission to read and write it")


def _outputs(workdir: Workdir) -> Iterator[Finding]:
    owned = _explicit_outputs(workdir)
    for folder in OUTPUTS:
        for entry in _walk(os.path.join(workdir.root, folder)):
            path, name = workdir.relative(entry.path), entry.name
            if name.startswith("."):
                if name.endswith(ASIDE):
                    yield Finding("aside", path, "half-written by a run that did not end", "remove it")
            elif workdir.state_of(name.rpartition(".")[0]) is None and path not in owned:
                kind: Kind = "page-without-task" if folder == "html" else "orphan-items"
                yield Finding(kind, path, "no task of this name in any state")


def _explicit_outputs(workdir: Workdir) -> set[str]:
    """What tasks save under html/ besides html/NAME.html: pages by an output of their own, headers."""
    outputs = set[str]()
    for state in STATES:
        for name in workdir.names(state):
            try:
                task = workdir.read(state, name)
            except (OSError, TaskFileError):
                continue
            outputs.update(paths_of(task.options))
            if task.page_output != f"html/{name}.html":
                outputs.add(task.page_output)
    return outputs


def _walk(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _walk(entry.path)
            else:
                yield entry


def _name(path: str) -> str:
    return os.path.basename(path).removesuffix(SUFFIX)
