"""What the tests of the command line and of the plugins share: the installed script `sc`, plugins, items, pages."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

from helpers import TIMEOUT_S, Project, clean_env

# The script itself, as a user types it: `python -P` would hide what a file of the user's does to our imports.
SCRIPT = str(Path(sys.executable).with_name("sc"))
TWO = "<p>one</p><p>two</p>"


def sc(
    project: Project | Path, *words: str, env: Mapping[str, str] | None = None, check: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Run the installed `sc` in the project; `check` is the exit code that it must have, None for any."""
    folder = project.folder if isinstance(project, Project) else project
    run = subprocess.run(
        [SCRIPT, *words],
        cwd=folder,
        env=clean_env(**(env or {})),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="backslashreplace",
        timeout=TIMEOUT_S,
    )
    assert check is None or run.returncode == check, f"exit code {run.returncode}, not {check}: {run.stderr}"
    if "--debug" not in words:
        assert "Traceback (most recent call last)" not in run.stderr, run.stderr
    return run


def sc_json(project: Project | Path, *words: str, check: int | None = 0) -> Any:
    """The one JSON document that `sc WORDS --json` prints."""
    return json.loads(sc(project, *words, "--json", check=check).stdout)


class Found(Project):
    """A project that `sc` itself has made."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.workdir, self.written = folder, folder / "workdir", {}


def plugin(project: Project, text: str, name: str = "parser.py") -> str:
    """Write a plugin, indented as it stands in the test; its text as written."""
    source = dedent(text).lstrip("\n")
    (project.folder / name).write_text(source, encoding="utf-8")
    return source


def put_pages(project: Project, url: str, names: Sequence[str], *lines: str) -> None:
    """A task of each name for `url`/NAME."""
    for name in names:
        project.put_url(name, f"{url}/{name}", *lines)


def items(project: Project, name: str) -> list[Any]:
    """The items of a task: strict JSON in UTF-8, one a line, the last line ended."""
    text = (project.workdir / "parsed" / f"{name}.jsonl").read_bytes().decode("utf-8", "strict")
    assert not text or text.endswith("\n")
    return [json.loads(line, parse_constant=_no_constant) for line in text.split("\n")[:-1]]


def parsed(project: Project) -> set[str]:
    """The names that have items under their final name."""
    return {path.stem for path in (project.workdir / "parsed").glob("[!.]*")}


def texts(project: Project, state: str = "origin") -> dict[str, str]:
    """name -> text of every task file of a state."""
    return {path.stem: path.read_text() for path in (project.workdir / state).glob("[!.]*.conf")}


def options(text: str) -> list[str]:
    """The lines of a task file that curl reads."""
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _no_constant(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")
