"""The few lines that end a run, and the same as JSON."""

from __future__ import annotations

from typing import Any

from stateful_crawler.cli.options import count
from stateful_crawler.control import Tally
from stateful_crawler.errors import printable
from stateful_crawler.workdir import Workdir


def summary(tally: Tally, workdir: Workdir, *, parsing: bool, again: str = "sc crawl") -> list[str]:
    """At most six lines: what was done, what failed and why, what to do next."""
    lines = [_stopped(tally, again) if tally.stopped else _done(tally, parsing)]
    if tally.taken_back:
        lines.append(f"{tally.taken_back} taken back from a run that did not end")
    if tally.reasons:
        reasons = ", ".join(f"{reason} {count}" for reason, count in tally.reasons.most_common(6))
        lines.append(f"errors: {reasons}; `sc status` and `sc show NAME` tell more, `sc retry` tries again")
    if tally.left_alone:
        name, why = next(iter(tally.left_alone.items()))
        more = f" and {len(tally.left_alone) - 1} more" if len(tally.left_alone) > 1 else ""
        lines.append(f"left alone: {printable(name)}{more}: {why}")
    if tally.empty:
        came = count(tally.empty, "page")
        lines.append(f"{came} came empty; `sc requeue NAME`, then `sc retry --refetch NAME` asks again")
    if (ignored := workdir.counts()["ignored"]) and len(lines) < 6:
        are = "is not a task, and was" if ignored == 1 else "are not tasks, and were"
        lines.append(f"{count(ignored, 'thing')} in the state directories {are} ignored")
    return lines


def as_dict(tally: Tally) -> dict[str, Any]:
    """The tally for --json."""
    counts = ("succeeded", "failed", "fetched", "items", "found", "empty", "taken_back", "put_back", "insecure")
    facts = {key: getattr(tally, key) for key in (*counts, "stopped")}
    return facts | {"errors": dict(tally.reasons), "left_alone": tally.left_alone}


def _done(tally: Tally, parsing: bool) -> str:
    if not tally.done:
        return "nothing to do" + ("" if parsing else " (fetching only: there is no parser)")
    parts = [f"{tally.succeeded} done", f"{tally.failed} failed", f"{tally.fetched} fetched"]
    if parsing:
        parts.append(count(tally.items, "item"))
    if tally.found:
        parts.append(f"{count(tally.found, 'new task')} found")
    return ", ".join(parts) + ("" if parsing else " (fetched only, not parsed)")


def _stopped(tally: Tally, again: str) -> str:
    return f"stopped: {tally.succeeded} of {tally.total} done, {tally.failed} errors; resume with: {again}"
