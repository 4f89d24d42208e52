"""Runs a command and sees each system call of it, and of all that it starts, that changes a file below a folder.

    python tests/syscall_tracer.py --root DIR --out CALLS [--kill before|after --at LABEL --nth K] COMMAND...

The kernel itself tells (ptrace and a seccomp filter, Linux only), so what the command is written in and which library
makes the call does not matter. CALLS gets a line for each call before it is made: what it does, to which paths of DIR.
With --kill, all processes get SIGKILL right before, or right after, the K-th call of that line; --whom first kills the
command alone and leaves what it started to find out by itself.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import re
import signal
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

# ── which calls ──────────────────────────────────────────────────────────────────────────────────────────────────────

# name -> numbers on x86-64 and aarch64 (None: not there), and the form of its arguments: p a path, d a folder's
# descriptor and a path relative to it, f an open file, . anything else.
CALLS: dict[str, tuple[int | None, int | None, str]] = {
    "open": (2, None, "p"),
    "openat": (257, 56, "d"),
    "openat2": (437, 437, "d"),
    "creat": (85, None, "p"),
    "write": (1, 64, "f"),
    "writev": (20, 66, "f"),
    "pwrite64": (18, 68, "f"),
    "pwritev": (296, 70, "f"),
    "pwritev2": (328, 287, "f"),
    "copy_file_range": (326, 285, "..f"),
    "sendfile": (40, 71, "f"),
    "splice": (275, 76, "..f"),
    "fallocate": (285, 47, "f"),
    "truncate": (76, 45, "p"),
    "ftruncate": (77, 46, "f"),
    "rename": (82, None, "pp"),
    "renameat": (264, 38, "dd"),
    "renameat2": (316, 276, "dd"),
    "link": (86, None, "pp"),
    "linkat": (265, 37, "dd"),
    "symlink": (88, None, ".p"),
    "symlinkat": (266, 36, ".d"),
    "unlink": (87, None, "p"),
    "unlinkat": (263, 35, "d"),
    "mkdir": (83, None, "p"),
    "mkdirat": (258, 34, "d"),
    "rmdir": (84, None, "p"),
    "mknodat": (259, 33, "d"),
    "utimensat": (280, 88, "d"),
    "utimes": (235, None, "p"),
    "futimesat": (261, None, "d"),
    "chmod": (90, None, "p"),
    "fchmod": (91, 52, "f"),
    "fchmodat": (268, 53, "d"),
    "fsync": (74, 82, "f"),
    "fdatasync": (75, 83, "f"),
    "syncfs": (306, 267, "f"),
    "flock": (73, 32, "f"),
}
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
# A file is opened a thousand times to be read: of these calls only those that make or cut one are told.
_FLAGS_AT = {"open": 1, "openat": 2}
_MAKES = os.O_CREAT | os.O_TRUNC | 0o20000000  # the last is O_TMPFILE without its O_DIRECTORY
_AT_FDCWD = -100


def possible() -> bool:
    """Whether calls can be traced on this machine, as far as its kind tells."""
    return sys.platform == "linux" and platform.machine() in _MACHINES


def _numbers() -> dict[int, str]:
    column, _ = _MACHINES[platform.machine()]
    return {number: name for name, numbers in CALLS.items() if (number := numbers[column]) is not None}


# ── the kernel's side ────────────────────────────────────────────────────────────────────────────────────────────────

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_RET_TRACE, _RET_ALLOW = 0x7FF00000, 0x7FFF0000
_CONT, _SYSCALL, _SEIZE, _LISTEN, _SYSCALL_INFO = 7, 24, 0x4206, 0x4208, 0x420E
_EVENT_EXEC, _EVENT_SECCOMP, _EVENT_STOP = 4, 7, 128
# sysgood, fork, vfork, clone, exec, seccomp; and all end with the tracer
_OPTIONS = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x80 | 0x100000
_WALL = 0x40000000
_SYSCALL_STOP = signal.SIGTRAP | 0x80

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request: int, pid: int, address: Any = None, data: Any = None) -> int:
    done: int = _libc.ptrace(request, pid, address, data)
    if done < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"ptrace: {os.strerror(code)}")
    return done


def _filter() -> bytes:
    """A program that the kernel runs at each system call: stop for those of ours, let the others pass."""
    load, equal, any_bit, back = 0x20, 0x15, 0x45, 0x06
    _, machine = _MACHINES[platform.machine()]
    body: list[tuple[int, int, int, int]] = []
    for number, name in _numbers().items():
        if name in _FLAGS_AT:
            body += [
                (equal, 0, 4, number),
                (load, 0, 0, 16 + 8 * _FLAGS_AT[name]),
                (any_bit, 0, 1, _MAKES),
                (back, 0, 0, _RET_TRACE),
                (back, 0, 0, _RET_ALLOW),
            ]
        else:
            body += [(equal, 0, 1, number), (back, 0, 0, _RET_TRACE)]
    begin = [(load, 0, 0, 4), (equal, 1, 0, machine), (back, 0, 0, _RET_ALLOW), (load, 0, 0, 0)]
    return b"".join(struct.pack("HBBI", *step) for step in [*begin, *body, (back, 0, 0, _RET_ALLOW)])


def _become(command: Sequence[str], go: int) -> None:
    """In the child: a session of its own, the filter, and then the command, once the parent looks on."""
    os.setsid()
    os.read(go, 1)
    steps = _filter()
    buffer = ctypes.create_string_buffer(steps, len(steps))
    program = struct.pack("HxxxxxxP", len(steps) // 8, ctypes.addressof(buffer))
    held = ctypes.create_string_buffer(program, len(program))
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, held, 0, 0):
        os.write(2, b"this system has no seccomp filters\n")
        os._exit(125)
    os.execvp(command[0], command)


# ── the tracer ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Kill(NamedTuple):
    """Where to kill: right before or after the `nth` call (from 1) that the line `label` tells; whom."""

    when: str
    label: str
    nth: int
    first_only: bool = False


class Tracer:
    """Follows one command to its end, or to where it is killed."""

    def __init__(self, root: str, tell: Callable[[str], None], kill: Kill | None) -> None:
        self._root, self._tell, self._kill = os.path.realpath(root) + os.sep, tell, kill
        self._names = _numbers()
        self._seen: Counter[str] = Counter()
        self._known: set[int] = set()
        self._first = 0
        self.killed = False

    def run(self, command: Sequence[str]) -> int:
        """The exit status as os.waitpid gives it, when all processes have ended."""
        read, write = os.pipe()
        self._first = pid = os.fork()
        if pid == 0:
            try:
                _become(command, read)
            finally:
                os._exit(126)
        _ptrace(_SEIZE, pid, None, _OPTIONS)
        self._known.add(pid)
        os.write(write, b".")
        status = 0
        for stopped, how in self._stops():
            if stopped == pid and not os.WIFSTOPPED(how):
                status = how
        return status

    def _stops(self) -> Iterator[tuple[int, int]]:
        while True:
            try:
                pid, how = os.waitpid(-1, _WALL)
            except ChildProcessError:
                return
            if os.WIFSTOPPED(how):
                self._known.add(pid)
                self._stopped(pid, os.WSTOPSIG(how), how >> 16)
            else:
                self._known.discard(pid)
            yield pid, how

    def _stopped(self, pid: int, sign: int, event: int) -> None:
        if self.killed and self._kill is not None and not self._kill.first_only:
            self._end(pid)  # it was born while we killed the others
        try:
            if event == _EVENT_SECCOMP:
                self._called(pid)
            elif event == _EVENT_STOP and sign != signal.SIGTRAP:
                _ptrace(_LISTEN, pid)  # stopped by SIGSTOP and its like
            elif event or sign == _SYSCALL_STOP:
                _ptrace(_CONT, pid)
            else:
                _ptrace(_CONT, pid, None, sign)
        except (ProcessLookupError, FileNotFoundError):
            return  # killed in the middle of it

    def _called(self, pid: int) -> None:
        label = self._label(pid)
        if label is None:
            _ptrace(_CONT, pid)
            return
        self._tell(label)
        self._seen[label] += 1
        kill = self._kill
        if kill is None or self.killed or kill.nth != self._seen[label] or kill.label != label:
            _ptrace(_CONT, pid)
        elif kill.when == "before":
            self._kill_all()  # at this stop the call is yet to come, and a process that has SIGKILL makes none
            if kill.first_only and pid != self._first:
                _ptrace(_CONT, pid)
        else:
            _ptrace(_SYSCALL, pid)
            self._await_exit_of_call(pid)
            self._kill_all()
            _ptrace(_CONT, pid)

    def _await_exit_of_call(self, pid: int) -> None:
        _, how = os.waitpid(pid, _WALL)
        assert not os.WIFSTOPPED(how) or os.WSTOPSIG(how) == _SYSCALL_STOP or how >> 16, how

    def _kill_all(self) -> None:
        self.killed = True
        assert self._kill is not None
        for pid in [self._first] if self._kill.first_only else self._known:
            self._end(pid)

    def _end(self, pid: int) -> None:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def _label(self, pid: int) -> str | None:
        """What the call does, and to which paths below the folder; None where none of them is."""
        info = ctypes.create_string_buffer(88)
        _ptrace(_SYSCALL_INFO, pid, len(info), ctypes.addressof(info))
        number, *arguments = struct.unpack_from("<Q6Q", info.raw, 24)
        name = self._names[number]
        paths = list(self._paths(pid, CALLS[name][2], arguments))
        below = [_without_numbers(path[len(self._root) :]) for path in paths if path.startswith(self._root)]
        return " ".join([name, *below]) if below else None

    def _paths(self, pid: int, form: str, arguments: list[int]) -> Iterator[str]:
        place = 0
        for kind in form:
            if kind == "f":
                yield self._opened(pid, arguments[place])
            elif kind == "p":
                yield self._named(pid, _AT_FDCWD, arguments[place])
            elif kind == "d":
                yield self._named(pid, ctypes.c_int(arguments[place]).value, arguments[place + 1])
                place += 1
            place += 1

    def _opened(self, pid: int, fd: int) -> str:
        return os.readlink(f"/proc/{pid}/fd/{ctypes.c_int(fd).value}")

    def _named(self, pid: int, folder: int, address: int) -> str:
        text = self._string(pid, address) if address else ""
        start = os.readlink(f"/proc/{pid}/cwd" if folder == _AT_FDCWD else f"/proc/{pid}/fd/{folder}")
        return os.path.normpath(os.path.join(start, text))

    def _string(self, pid: int, address: int) -> str:
        text = b""
        with open(f"/proc/{pid}/mem", "rb", 0) as memory:
            while b"\0" not in text and len(text) < 8192:
                memory.seek(address + len(text))
                text += memory.read(256 - (address + len(text)) % 256)  # never over the end of a page of memory
        return os.fsdecode(text.partition(b"\0")[0])


def _without_numbers(path: str) -> str:
    """The path as it is in every run: names of files that lie aside hold the number of their process, and a file that
    never had a name is told by its inode."""
    return re.sub(r"#\d+ \(deleted\)$", "#INODE", re.sub(r"\.\d+\.part$", ".PID.part", path))


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────────


def main() -> int:
    """Exit code: the command's own, 128 + its signal; 137 after a kill."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--kill", choices=["before", "after"])
    parser.add_argument("--at", default="")
    parser.add_argument("--nth", type=int, default=1)
    parser.add_argument("--whom", choices=["all", "first"], default="all")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    kill = Kill(given.kill, given.at, given.nth, given.whom == "first") if given.kill else None
    with Path(given.out).open("w", buffering=1, errors="surrogateescape") as out:
        status = Tracer(given.root, lambda label: out.write(label + "\n") and None, kill).run(given.command)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
