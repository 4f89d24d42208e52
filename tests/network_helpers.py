"""One table of tasks, run by the real curl and then by `sc crawl`: what came of each, side by side."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

import pytest
from helpers import TIMEOUT_S, Project, clean_env, crawl

NEEDS_CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="compares with curl, which is not installed")


class Case(NamedTuple):
    """A task, and what must come of it: curl's exit code; our `reason`, None for a page; words of our `detail`."""

    url: str
    lines: tuple[str, ...] = ()
    curl: int = 0
    reason: str | None = None
    says: str = ""


class Pages(NamedTuple):
    """The page that curl saved, and ours; empty where there is none."""

    theirs: bytes
    ours: bytes


def by_curl(project: Project, name: str, env: Mapping[str, str] | None = None) -> tuple[int, bytes]:
    """Exit code and page of `curl -q -K` on a task, wherever it lies."""
    out = project.folder / f"{name}.curl"
    path = project.path_of(name).relative_to(project.workdir)
    command = ["curl", "-q", "-sS", "--max-time", "30", "-o", str(out), "-K", str(path)]
    environment = clean_env(**(env or {}))
    run = subprocess.run(command, cwd=project.workdir, env=environment, capture_output=True, timeout=TIMEOUT_S)
    return run.returncode, out.read_bytes() if out.exists() else b""


def run_both(
    project: Project, cases: Mapping[str, Case], *words: str, env: Mapping[str, str] | None = None
) -> dict[str, Pages]:
    """Every case by curl, one after the other, then all in one crawl; AssertionError with all that is not as it must.

    Codes and reasons are compared here. The pages are given back.
    """
    for name, case in cases.items():
        project.put_url(name, case.url, *case.lines)
    curl = {name: by_curl(project, name, env) for name in cases}
    codes = {name: (code, cases[name].curl) for name, (code, _) in curl.items() if code != cases[name].curl}
    assert not codes, f"exit codes of curl that are not as expected: {codes}"
    crawl(project, "--retries", "0", *words, env=env)
    reasons = {name: (project.reason(name), project.last(name).get("detail", "")) for name in cases}
    wrong = {
        name: (reasons[name], (case.reason, case.says))
        for name, case in cases.items()
        if reasons[name][0] != case.reason or case.says not in reasons[name][1]
    }
    assert not wrong, f"(we said, expected): {wrong}"
    return {name: Pages(curl[name][1], b"" if cases[name].reason else project.page(name)) for name in cases}
