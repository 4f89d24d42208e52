"""The Markdown report."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from benchmarks.measure import Result
from benchmarks.targets import Target, Verdict

_TARGET_HEAD = ("sc's figure", "where", "best round", "median", "target", "met")
_RUN_HEAD = ("contender", "n", "best s", "median s", "ms each", "each/s", "CPU ms each", "peak MB",
             "connections", "requests", "saved")  # fmt: skip


class Played(NamedTuple):
    """A suite that was played on one file system."""

    title: str
    where: str
    results: Mapping[str, Result]
    verdicts: Sequence[Verdict]


def render(facts: Mapping[str, str], played: Sequence[Played], missing: Mapping[str, str]) -> str:
    lines = ["# Benchmarks", "", *(f"- {name}: {value}" for name, value in facts.items())]
    lines += [f"- **missing**: {name} {reason}" for name, reason in missing.items()]
    verdicts = [verdict for suite in played for verdict in suite.verdicts]
    lines += ["", "## Targets", "", *_table(_TARGET_HEAD, map(_verdict_row, verdicts))]
    for suite in played:
        lines += ["", f"## {suite.title}, on {suite.where}", ""]
        lines += _table(_RUN_HEAD, (_run_row(name, result) for name, result in suite.results.items()))
    lines += ["", "## Commands", "", *_commands(played), ""]
    return "\n".join(lines)


def _verdict_row(verdict: Verdict) -> list[str]:
    target = verdict.target
    figures = ["", ""] if verdict.trouble else [_figure(value, target) for value in (verdict.best, verdict.median)]
    return [target.what, verdict.where, *figures, _wanted(target), verdict.met]


def _figure(value: float, target: Target) -> str:
    return f"{short(value)} {target.unit}"


def _wanted(target: Target) -> str:
    if target.limit is None:
        return "for scale"
    bound = f"at {'least' if target.at_least else 'most'} {target.limit:g} {target.unit}"
    return bound if target.aim is None else f"{bound} (aim {target.aim:g})"


def _run_row(name: str, result: Result) -> list[str]:
    samples = result.samples()
    if result.trouble or not samples:
        return [name, str(result.pages), *[""] * 8, result.trouble or "not played"]
    walls = [sample.wall_s for sample in samples]
    median_s = statistics.median(walls)
    last = samples[-1]
    return [
        name,
        str(result.pages),
        short(min(walls)),
        short(median_s),
        short(median_s * 1000 / result.pages),
        short(result.pages / median_s),
        short(statistics.median(sample.cpu_ms_a_page for sample in samples)),
        short(max(sample.peak_mb for sample in samples)),
        str(last.connections or ""),
        str(last.requests or ""),
        result.saved,
    ]


def _commands(played: Sequence[Played]) -> Iterator[str]:
    commands = {name: result.command for suite in played for name, result in suite.results.items() if result.command}
    return (f"- {name}: `{command}`" for name, command in commands.items())


def short(value: float) -> str:
    """Three significant digits, without an exponent."""
    digits = next((digits for limit, digits in ((0.1, 4), (1, 3), (10, 2), (100, 1)) if abs(value) < limit), 0)
    return f"{value:.{digits}f}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"
