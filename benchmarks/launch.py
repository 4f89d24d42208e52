"""Runs one command and measures it with all its descendants: `python -I -S launch.py RESULT LOG TIMEOUT_S COMMAND...`.

A program of its own, and a small one, for two reasons: as a sub-reaper it inherits processes whose parent has gone (the
workers of a process pool outlive the crawl by a moment; without this their CPU time is lost), and a child's peak memory
starts with what its parent had before exec.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time

_PR_SET_CHILD_SUBREAPER = 36
_LOOK_AT_MEMORY_EVERY_MS = 25
_ORPHANS_MAY_TAKE_S = 10.0


def main(result_path: str, log_path: str, timeout_s: float, command: list[str]) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with open(log_path, "wb") as log:
        started = time.perf_counter()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        peak_kb = _watch(child.pid, started + timeout_s)
        wall_s = time.perf_counter() - started
        code = child.wait()
    killed = _reap_orphans()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = used.ru_utime + used.ru_stime
    with open(result_path, "w") as file:
        json.dump({"wall_s": wall_s, "cpu_s": cpu_s, "peak_kb": peak_kb, "code": code, "killed": killed}, file)


def _watch(pid: int, deadline: float) -> int:
    """Wait until the process has ended (or the deadline has, then it is killed); the peak of its own memory in kB."""
    exit_event = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(exit_event, select.POLLIN)
    peak_kb = 0
    while not poll.poll(_LOOK_AT_MEMORY_EVERY_MS):
        peak_kb = max(peak_kb, _high_water_kb(pid))
        if time.perf_counter() > deadline:
            os.kill(pid, signal.SIGKILL)
    os.close(exit_event)
    return peak_kb


def _high_water_kb(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:
        return next((int(line.split()[1]) for line in status if line.startswith("VmHWM:")), 0)


def _reap_orphans() -> int:
    """Wait for the descendants that the command left; the number that had to be killed because they stayed."""
    deadline = time.monotonic() + _ORPHANS_MAY_TAKE_S
    killed: set[int] = set()
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return len(killed)
        if pid == 0 and time.monotonic() > deadline:
            killed |= _kill_children()
        if pid == 0:
            time.sleep(0.005)


def _kill_children() -> set[int]:
    """Kill our children, as orphaned descendants have become; only we wait for them, so no number is reused."""
    with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as file:
        children = {int(pid) for pid in file.read().split()}
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    return children


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:])
