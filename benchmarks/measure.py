"""Contenders play in turns (A B C, A B C, ...), so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.nginx import Site
from benchmarks.tools import Tools

_LAUNCHER = Path(__file__).with_name("launch.py")
_REPOSITORY = Path(__file__).resolve().parent.parent


class Command(NamedTuple):
    """What a contender runs. A self-timed one prints {"wall_s": ..., "cpu_s": ...} of its loop as its last line."""

    argv: Sequence[str]
    self_timed: bool = False


Prepare = Callable[[Path], Command]


class Sample(NamedTuple):
    """One timed run. CPU is user + system of the command and all its descendants, the peak is the command's own."""

    pages: int
    wall_s: float
    cpu_s: float
    peak_mb: float
    connections: int
    requests: int

    @property
    def wall_ms_a_page(self) -> float:
        return self.wall_s * 1000 / self.pages

    @property
    def cpu_ms_a_page(self) -> float:
        return self.cpu_s * 1000 / self.pages


class RunFailedError(Exception):
    """A contender's command failed, or did not save what it should have."""


@dataclass(frozen=True)
class Contender:
    """`prepare` fills a folder and says what to run; `verify` looks at what the run saved and returns its digest.

    Contenders with the same `folder` find what the one before them left there. `missing` says why it can't run at all.
    """

    name: str
    pages: int
    prepare: Prepare
    verify: Callable[[Path], str]
    folder: str = ""
    missing: str = ""

    @property
    def place(self) -> str:
        return self.folder or "".join(c if c.isalnum() else "-" for c in self.name)


@dataclass
class Result:
    """What a contender did: a list of samples for each round, or why there is none."""

    pages: int
    rounds: list[list[Sample]] = field(default_factory=list)
    command: str = ""
    saved: str = ""
    trouble: str = ""
    """'missing: ...' (not installed) or 'failed: ...'; no samples are used then."""

    def samples(self) -> list[Sample]:
        return [sample for played in self.rounds for sample in played]

    def turn(self, number: int) -> Sample:
        """The median of the contender's runs in one round, by wall time."""
        ordered = sorted(self.rounds[number], key=lambda sample: sample.wall_s)
        return ordered[(len(ordered) - 1) // 2]


class Setting(NamedTuple):
    """What a suite is played with, and in which folder."""

    tools: Tools
    site: Site
    scratch: Path
    say: Callable[[str], None]


def play(contenders: Sequence[Contender], rounds: int, setting: Setting) -> dict[str, Result]:
    """Each contender once a round, in the given order. Contenders of the same name add up to one result."""
    results: dict[str, Result] = {}
    for contender in contenders:
        trouble = f"missing: {contender.missing}" if contender.missing else ""
        results.setdefault(contender.name, Result(contender.pages, trouble=trouble))
    for number in range(rounds):
        _play_round(contenders, results, number, setting)
    return results


def _play_round(contenders: Sequence[Contender], results: Mapping[str, Result], number: int, setting: Setting) -> None:
    for position, contender in enumerate(contenders):
        result = results[contender.name]
        folder = setting.scratch / contender.place
        if not result.trouble:
            if len(result.rounds) <= number:
                result.rounds.append([])
            _play_turn(contender, result, folder, setting)
        if all(later.place != contender.place for later in contenders[position + 1 :]):
            shutil.rmtree(folder, ignore_errors=True)


def _play_turn(contender: Contender, result: Result, folder: Path, setting: Setting) -> None:
    folder.mkdir(exist_ok=True)
    try:
        command = contender.prepare(folder)
        result.command = shown(command.argv, {str(folder): "DIR", str(_REPOSITORY): ".", setting.site.url: "URL"})
        sample = _timed(command, contender.pages, folder, setting)
        result.saved = contender.verify(folder)
    except RunFailedError as error:
        result.trouble = f"failed: {error}"
        setting.say(f"{contender.name}: {result.trouble}")
        return
    result.rounds[-1].append(sample)
    setting.say(f"{contender.name}: {sample.wall_s:.3f} s wall, {sample.cpu_s:.3f} s CPU, {sample.peak_mb:.0f} MB")


def _timed(command: Command, page_count: int, folder: Path, setting: Setting) -> Sample:
    # What the contender before has written must not be flushed to the disk on this one's time.
    os.sync()
    before = setting.site.traffic()
    facts = run(command, folder)
    after = setting.site.traffic()
    # The second question for the counters is itself a connection and a request.
    connections, requests = after.connections - before.connections - 1, after.requests - before.requests - 1
    return Sample(page_count, facts["wall_s"], facts["cpu_s"], facts["peak_kb"] / 1024, connections, requests)


def run(command: Command, folder: Path, timeout_s: float = 1800) -> dict[str, float]:
    """Run it in `folder` under the launcher; its measures (see launch.py). RunFailedError with its last words else."""
    result_path, log_path = folder.with_suffix(".result"), folder.with_suffix(".log")
    launcher = [sys.executable, "-I", "-S", str(_LAUNCHER), str(result_path), str(log_path), str(timeout_s)]
    subprocess.run([*launcher, *command.argv], cwd=folder, env=_environment(), check=True)
    facts: dict[str, float] = json.loads(result_path.read_text())
    log = log_path.read_text(errors="replace").strip().splitlines()
    if facts["code"] != 0:
        raise RunFailedError(f"exit code {facts['code']}: {' / '.join(log[-3:]) or 'it said nothing'}")
    if facts["killed"]:
        raise RunFailedError(f"left {facts['killed']} processes running")
    if command.self_timed:
        facts.update(json.loads(log[-1]))
    return facts


def _environment() -> dict[str, str]:
    """Ours without what would change a contender's settings, and with the path to the benchmark's own programs."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SC_", "SCRAPY_", "CRAWLEE_"))}
    return {**kept, "PYTHONPATH": str(_REPOSITORY), "no_proxy": "*"}


def shown(argv: Iterable[str], names: Mapping[str, str]) -> str:
    """The command for a reader: this run's paths and address replaced by their names."""
    words = []
    for word in argv:
        for text, name in names.items():
            word = word.replace(text, name)
        words.append(Path(word).name if word.startswith("/") else word)
    return " ".join(f"'{word}'" if " " in word else word for word in words)
