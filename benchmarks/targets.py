"""What a figure must reach, computed within each round and judged by the median of the rounds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from benchmarks.measure import Result, Sample


@dataclass(frozen=True)
class Target:
    """`figure` gets the samples of one round of the contenders named in `of`. A limit of None is only for scale."""

    what: str
    of: tuple[str, ...]
    figure: Callable[..., float]
    unit: str
    limit: float | None = None
    aim: float | None = None
    at_least: bool = False

    def reached(self, value: float, wanted: float) -> bool:
        return value >= wanted if self.at_least else value <= wanted


@dataclass(frozen=True)
class Verdict:
    target: Target
    where: str
    best: float = 0.0
    median: float = 0.0
    trouble: str = ""
    """Why there is no figure; '' if there is one."""

    @property
    def met(self) -> str:
        """'yes', 'no', or why it can't be said; the limit is held against the median."""
        target = self.target
        if self.trouble:
            return f"not measured ({self.trouble})"
        if target.limit is None:
            return "-"
        if not target.reached(self.median, target.limit):
            return "**no**"
        return "yes" if target.aim is None or target.reached(self.median, target.aim) else "yes, not the aim"


def judge(target: Target, results: Mapping[str, Result], where: str) -> Verdict:
    troubles = [f"{name} {results[name].trouble}" for name in target.of if results[name].trouble]
    if troubles:
        return Verdict(target, where, trouble="; ".join(troubles))
    played = [results[name] for name in target.of]
    rounds = range(min(len(result.rounds) for result in played))
    figures = [target.figure(*(result.turn(number) for result in played)) for number in rounds]
    best = max(figures) if target.at_least else min(figures)
    return Verdict(target, where, best, statistics.median(figures))


def wall_ratio(ours: Sample, peer: Sample) -> float:
    """Wall time a page of ours to the peer's."""
    return ours.wall_ms_a_page / peer.wall_ms_a_page


def times_faster(ours: Sample, peer: Sample) -> float:
    """Pages a second of ours to the peer's."""
    return peer.wall_ms_a_page / ours.wall_ms_a_page


def each_a_second(run: Sample) -> float:
    return run.pages / run.wall_s


def growth_of(large: float, small: float) -> float:
    """The cost at a large size to that at a small one; a small one lost in the noise counts as no growth shown."""
    return large / small if small > 0 else math.inf
