"""What the tests of the whole tool share: a project in a folder, the real `sc` in a process, what must always hold."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servers import FaultServer, ok

from stateful_crawler.reasons import REASONS
from stateful_crawler.workdir import STATES

TIMEOUT_S = 60
# Without this a proxy, a CA file or a setting of whoever runs the tests would decide how they end.
_FOREIGN = ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")


class Project:
    """A folder with a workdir; knows the tasks that were written by hand, to tell later whether they are unharmed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workdir = folder / "workdir"
        self.written: dict[str, bytes] = {}
        (self.workdir / "origin").mkdir(parents=True)

    def put(self, name: str, config: str | bytes) -> None:
        """Write a task into origin/ as a person would; the text of the file as it is."""
        self.written[name] = config if isinstance(config, bytes) else config.encode()
        (self.workdir / "origin" / f"{name}.conf").write_bytes(self.written[name])

    def put_url(self, name: str, url: str, *lines: str) -> None:
        """A task of a url and more config lines."""
        self.put(name, "".join(f"{line}\n" for line in (f'url = "{url}"', *lines)))

    def path_of(self, name: str) -> Path:
        """Where the task lies now."""
        return next(p for s in STATES if (p := self.workdir / s / f"{name}.conf").exists())

    def state_of(self, name: str) -> str:
        return self.path_of(name).parent.name

    def states(self) -> dict[str, str]:
        """name -> state of every task; a task in two states is an AssertionError."""
        found: dict[str, str] = {}
        for state in STATES:
            for path in (self.workdir / state).glob("[!.]*.conf"):
                assert path.stem not in found, f"{path.stem} is in {found[path.stem]}/ and in {state}/"
                found[path.stem] = state
        return found

    def in_state(self, state: str) -> set[str]:
        return {name for name, at in self.states().items() if at == state}

    def records(self, name: str, stage: str = "") -> list[dict[str, Any]]:
        """The `# sc:` records of a task, of one stage if it is given."""
        lines = self.path_of(name).read_bytes().split(b"\n")
        records = [json.loads(line[6:]) for line in lines if line.startswith(b"# sc: ")]
        return [record for record in records if not stage or record.get("stage") == stage]

    def last(self, name: str) -> dict[str, Any]:
        """The newest record; empty where there is none."""
        return (self.records(name) or [{}])[-1]

    def reason(self, name: str) -> str | None:
        """Why the task failed; None for one that did not."""
        return self.last(name)["reason"] if self.state_of(name) == "error" else None

    def page(self, name: str) -> bytes:
        return (self.workdir / "html" / f"{name}.html").read_bytes()


def clean_env(**more: str) -> dict[str, str]:
    """The environment without whatever could change what `sc` or curl does."""
    kept = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith("SC_") and not key.lower().endswith("_proxy") and key not in _FOREIGN
    }
    return kept | more


def sc_command(*words: str) -> list[str]:
    """The command line of the real `sc`. -P: as with the script `sc`, nothing is imported from here."""
    return [sys.executable, "-P", "-m", "stateful_crawler", *words]


def run_sc(
    project: Project | Path, *words: str, env: Mapping[str, str] | None = None, check: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `sc WORDS` in the project to its end; `check` is the exit code that it must have."""
    folder = project.folder if isinstance(project, Project) else project
    run = subprocess.run(
        sc_command(*words), cwd=folder, env=clean_env(**(env or {})), capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert not re.search("^Traceback", run.stderr, re.M), run.stderr
    assert check is None or run.returncode == check, f"exit code {run.returncode}, not {check}: {run.stderr}"
    return run


def run_curl(workdir: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """Run the real curl in the workdir, without the user's curlrc."""
    command = ["curl", "-q", "-sS", "--max-time", "20", *words]
    return subprocess.run(command, cwd=workdir, env=clean_env(), capture_output=True, timeout=TIMEOUT_S)


# ── what holds after every run ───────────────────────────────────────────────────────────────────────────────────────


def assert_in_one_state(project: Project) -> None:
    """Every task written by hand is in exactly one state, under its name, with its own lines as they were."""
    states = project.states()  # asserts that none is in two
    assert set(project.written) <= set(states), f"lost: {set(project.written) - set(states)}"
    for name, before in project.written.items():
        assert _own_lines(project.path_of(name).read_bytes()) == _own_lines(before), name


def assert_pages_whole(project: Project) -> None:
    """A page under its final name for every success that this project's tasks name, and nothing else in html/."""
    shown = {path.stem for path in (project.workdir / "html").glob("[!.]*")}
    assert shown == project.in_state("success")
    for name in shown:
        size, said = len(project.page(name)), project.records(name, "fetch")[-1]
        assert size == said["bytes"], f"{name}: {size} bytes saved, the record says {said['bytes']}"
    asides = [path.name for path in (project.workdir / "html").glob(".*") if path.suffix != ".error"]
    assert not asides, "left aside after the run"


def assert_failures_explained(project: Project) -> None:
    """Every task in error/ says why: a reason of the vocabulary, and a sentence."""
    for name in project.in_state("error"):
        record = project.last(name)
        assert record["reason"] in REASONS and record["detail"] and record["to"] == "error", (name, record)


def crawl(project: Project, *words: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
    """`sc crawl --no-parse --json WORDS`, and the checks that hold in every case: each task in one state and unharmed,
    whole pages, failures explained, no traceback, counts and exit code that tell the truth."""
    success, error = project.in_state("success"), project.in_state("error")
    run = run_sc(project, "crawl", "--no-parse", "--json", *words, env=env)
    summary: dict[str, Any] = json.loads(run.stdout)
    states = Counter(project.states().values())
    assert_in_one_state(project)
    assert_pages_whole(project)
    assert_failures_explained(project)
    assert not states["working"] and not states["origin"], states
    success, error = project.in_state("success") - success, project.in_state("error") - error
    assert (summary["succeeded"], summary["failed"]) == (len(success), len(error))
    assert summary["errors"] == dict(Counter(project.reason(name) for name in error))
    assert run.returncode == (3 if error else 0), run.stderr
    return summary


def assert_only_failures_repeat(project: Project, server: FaultServer, *words: str) -> None:
    """A second `sc crawl` asks for nothing, and `sc retry` for nothing that is done."""
    done = project.in_state("success")
    before = len(server.requests)
    run_sc(project, "crawl", "--no-parse", check=0)
    assert len(server.requests) == before
    records = {name: len(project.records(name)) for name in done}
    run_sc(project, "retry", "--no-parse", "--retries", "0", *words)
    assert done <= project.in_state("success")
    assert {name: len(project.records(name)) for name in done} == records
    assert_in_one_state(project)


def _own_lines(config: bytes) -> bytes:
    lines = [line for line in config.split(b"\n") if not line.startswith(b"# sc: ")]
    return b"\n".join(lines).rstrip(b"\n")


# ── neighbours ───────────────────────────────────────────────────────────────────────────────────────────────────────

NEIGHBOUR = b"<p>neighbour</p>"
NEIGHBOURS = ("aa-neighbour", "zz-neighbour")


def put_neighbours(project: Project, honest: FaultServer) -> None:
    """An ordinary task before all others and one after them, to an honest server."""
    for name in NEIGHBOURS:
        honest.on(f"/{name}", ok(NEIGHBOUR))
        project.put_url(name, f"{honest.url}/{name}")


def assert_neighbours_well(project: Project) -> None:
    for name in NEIGHBOURS:
        assert project.state_of(name) == "success", project.last(name)
        assert project.page(name) == NEIGHBOUR
