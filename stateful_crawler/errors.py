"""Every error that stateful-crawler raises on purpose; the tree stands on top.

ScError
├── UsageError            the command, an option or sc.toml is wrong                 exit 2
│   └── SettingsError     … in sc.toml, with file and line
├── TaskFileError         a task file that can't be read as one transfer             reason "config"
│   └── LocalFileError    … that names a file that can't be read                     reason "io"
├── NameTaken             a name, or an output, that belongs to another task
├── PluginError           create.py or parser.py can't be loaded                     exit 5
├── WorkdirBusy           another run holds the workdir                              exit 6
└── EnvironmentFault      disk full, no permission, a directory gone, no CA file     exit 7

An error holds fields, builds its own sentence from them (what, where, what to do next) and survives pickling,
because it may cross from a worker process to the crawl.
"""

from __future__ import annotations

import os


class ScError(Exception):
    """The root: catch this one to catch all that is ours."""


class UsageError(ScError):
    """The caller asked for something that can't be done; nothing was touched."""


class SettingsError(UsageError):
    """sc.toml can't be used as it stands."""

    def __init__(self, path: str, line: int | None, problem: str) -> None:
        super().__init__(path, line, problem)
        self.path, self.line, self.problem = path, line, problem

    def __str__(self) -> str:
        return f"{where(self.path, self.line)}: {self.problem}"


class TaskFileError(ScError):
    """A task file that can't be run, with the place and, where we know one, the way out."""

    def __init__(self, path: str, line: int | None, problem: str, hint: str = "") -> None:
        super().__init__(path, line, problem, hint)
        self.path, self.line, self.problem, self.hint = path, line, problem, hint

    def __str__(self) -> str:
        return f"{where(self.path, self.line)}: {self.problem}" + (f" ({self.hint})" if self.hint else "")


class LocalFileError(TaskFileError):
    """A file that a task names (its data, its certificate) and that can't be read."""


class NameTaken(ScError):
    """Something of that name is there already; the newcomer was left where it was."""

    def __init__(self, path: str, owner: str = "") -> None:
        super().__init__(path, owner)
        self.path, self.owner = path, owner

    def __str__(self) -> str:
        by = f" and belongs to task {printable(self.owner)}" if self.owner else ""
        return f"{printable(self.path)} exists already{by}"


class PluginError(ScError):
    """A plugin that can't be loaded or called; `detail` is the end of its traceback."""

    def __init__(self, path: str, problem: str, detail: str = "") -> None:
        super().__init__(path, problem, detail)
        self.path, self.problem, self.detail = path, problem, detail

    def __str__(self) -> str:
        return f"{printable(self.path)}: {self.problem}"


class WorkdirBusy(ScError):
    """Another run holds the lock; the fields that its run.json gave, or zero and empty where it gave none."""

    def __init__(self, workdir: str, pid: int = 0, host: str = "", started: str = "") -> None:
        super().__init__(workdir, pid, host, started)
        self.workdir, self.pid, self.host, self.started = workdir, pid, host, started

    def __str__(self) -> str:
        who = f"pid {self.pid} on {self.host}, started {self.started}" if self.pid else "a process that left no name"
        stop = f"kill {self.pid}" if self.pid else "Ctrl-C"
        return f"{printable(self.workdir)} is in use by {who}; wait for it, or stop it with {stop}"


class EnvironmentFault(ScError):
    """The machine said no: what was tried, on which path, and the system's own words."""

    def __init__(self, doing: str, path: str, code: int | None = None, hint: str = "") -> None:
        super().__init__(doing, path, code, hint)
        self.doing, self.path, self.code, self.hint = doing, path, code, hint

    def __str__(self) -> str:
        why = f": {os.strerror(self.code)}" if self.code else ""
        return f"{self.doing} {printable(self.path)}{why}" + (f" ({self.hint})" if self.hint else "")

    @classmethod
    def from_os(cls, doing: str, path: str, error: OSError, hint: str = "") -> EnvironmentFault:
        """The same fault in our words, from what the system raised."""
        return cls(doing, path, error.errno, hint)


def printable(text: str) -> str:
    """`text` fit for a terminal: bytes that are not UTF-8 and control characters are shown as escapes.

    Without this a file name of raw bytes ends the run with UnicodeEncodeError, and one with an escape sequence
    writes on the user's terminal.
    """
    try:
        raw = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair, which no file name but any message may hold
        raw = text.encode("utf-8", "backslashreplace")
    text = raw.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def where(path: str, line: int | None) -> str:
    """`path:line`, the form that editors and terminals turn into a link."""
    return f"{printable(path)}:{line}" if line else printable(path)
