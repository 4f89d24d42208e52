"""What a workdir holds, as plain values for people and programs. Only reads; tasks may move meanwhile."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from stateful_crawler.errors import TaskFileError
from stateful_crawler.files import read_regular
from stateful_crawler.frontier import natural_key
from stateful_crawler.pages import Pages
from stateful_crawler.record import Record
from stateful_crawler.workdir import MAX_TASK_BYTES, Workdir, read_last_record, read_task_records


def status_of(workdir: Workdir, failing_runs: int) -> dict[str, Any]:
    """The counts, `errors` (reason -> count), `running` (pid, host, started; or None), and `failing`: the tasks in
    error/ that failed in that many runs or more."""
    errors = Counter[str]()
    failing = []
    for name in workdir.names("error") if os.path.isdir(workdir.path("error", "", "")) else ():
        path = workdir.path("error", name)
        try:
            record = read_last_record(path)
            errors[_reason(record)] += 1
            # A task that failed in three runs has three long records at least; the others need no second look.
            if os.stat(path).st_size > 600 and (times := _failed_runs(path)) >= failing_runs:
                failing.append(
                    {"name": name, "times": times, "reason": _reason(record), "page": _has_page(workdir, name)}
                )
        except OSError:
            continue  # it has moved on, or can't be opened: the counts tell of it all the same
    run = workdir.running()
    return {
        **workdir.counts(),
        "errors": dict(errors.most_common()),
        "running": {"pid": run.pid, "host": run.host, "started": run.started} if run else None,
        "failing": sorted(failing, key=lambda task: natural_key(str(task["name"]))),
    }


def facts_of(workdir: Workdir, name: str) -> dict[str, Any] | None:
    """All that is known of one task; None where there is none of that name."""
    for _ in range(3):  # it may move on between the look and the read
        state = workdir.state_of(name)
        if state is None:
            return None
        try:
            return _facts(workdir, state, name)
        except FileNotFoundError:
            continue
    return None


def _facts(workdir: Workdir, state: Any, name: str) -> dict[str, Any]:
    path = workdir.path(state, name)
    facts: dict[str, Any] = {"name": name, "state": state, "file": workdir.relative(path), "problem": None}
    facts |= {"url": None, "options": [], "records": [], "page": None, "items": None, "answer": None}
    try:
        facts["records"] = [dict(record.facts) for record in read_task_records(read_regular(path, MAX_TASK_BYTES))]
        task = workdir.read(state, name)
    except FileNotFoundError:
        raise
    except (OSError, TaskFileError) as error:
        facts["problem"] = str(error)
        return facts
    output = [["output", task.output]] if task.output else []
    facts["url"] = task.url
    facts["options"] = [["url", task.url], *output, *([option.name, option.value] for option in task.options)]
    pages = Pages(workdir)
    paths = {"page": pages.path_of(task), "items": pages.items_path(name), "answer": pages.error_path(name)}
    return facts | {label: workdir.relative(path) for label, path in paths.items() if os.path.isfile(path)}


def _reason(record: Record | None) -> str:
    return str(record.facts.get("reason") or "unknown") if record else "unknown"


def _failed_runs(path: str) -> int:
    return sum(
        1 for record in read_task_records(read_regular(path, MAX_TASK_BYTES)) if record.facts.get("to") == "error"
    )


def _has_page(workdir: Workdir, name: str) -> bool:
    try:
        return os.path.isfile(Pages(workdir).path_of(workdir.read("error", name)))
    except (OSError, TaskFileError):
        return False
