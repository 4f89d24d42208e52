"""What a crawl saves: pages in html/, items in parsed/. Each stands under its final name whole, or not at all.

Two tasks never own the same page: `html/NAME.html` is task NAME's, any other output is the first task's that saved it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import time

from stateful_crawler import files
from stateful_crawler.curl.config import Option
from stateful_crawler.errors import NameTaken, TaskFileError, printable
from stateful_crawler.record import Outcome, Record
from stateful_crawler.task import Task
from stateful_crawler.workdir import (
    ASIDE,
    MAX_STEM_BYTES,
    MAX_TASK_BYTES,
    STATES,
    Workdir,
    read_task_records,
)

# Of all its parts together: the system refuses a path of over 4096 bytes, the workdir's own included.
MAX_OUTPUT_LENGTH = 500


class Pages:
    """The pages and items of one workdir. All that writes is for the holder of the lock."""

    def __init__(self, workdir: Workdir) -> None:
        self._workdir = workdir
        self._html = workdir.path("html", "", "")
        self._parsed = workdir.path("parsed", "", "")

    def path_of(self, task: Task) -> str:
        """The final path of the task's page."""
        return f"{self._workdir.root}/{task.page_output}"

    def error_path(self, name: str) -> str:
        """Where the body of a failed answer is kept."""
        return f"{self._html}.{name}.error"

    def items_path(self, name: str) -> str:
        """The final path of the task's items."""
        return f"{self._parsed}{name}.jsonl"

    def items_aside(self, name: str) -> str:
        """Where a worker writes items before they are published."""
        return f"{self._parsed}.{name}{ASIDE}"

    def aside_of(self, name: str) -> str:
        """Where a page is written before it is published."""
        return f"{self._html}.{name}{ASIDE}"

    def has(self, task: Task) -> bool:
        """Whether the task's page is whole: its last fetch record is good and the file stands there."""
        record = task.last("fetch") if task.record_lines else None
        return record is not None and record.ok and os.path.isfile(self.path_of(task))

    def check_output(self, task: Task) -> None:
        """Raise TaskFileError unless the page would be saved under html/, by plain names, through no link."""
        output = task.output
        if output is not None and output != f"html/{task.name}.html" and (wrong := self._wrong_with(output)):
            raise TaskFileError(f"working/{task.name}.conf", None, *wrong)

    def publish(self, task: Task, outcome: Outcome) -> None:
        """Put the page of a good transfer under its final name; NameTaken where that is another task's page.

        A page of this task's own is replaced. A name that must be new is published by a link that stays until the
        record is written (`forget_aside`): after a crash the second name proves whose page it is.
        """
        final = self.path_of(task)
        aside = outcome.aside or self.aside_of(task.name)
        with files.machine_faults("can't write", final):
            if outcome.aside is None:
                files.write_aside(aside, outcome.body)
            self._make_folder(task, aside)
            try:
                if task.output is None or task.output == f"html/{task.name}.html":
                    files.move(aside, final)
                else:
                    os.link(aside, final)
                _set_time(final, outcome)
                return
            except (NameTaken, FileExistsError):
                pass  # by an older page of its own, or by another task's
        if not self._owns(task):
            files.remove(aside)
            raise NameTaken(self._workdir.relative(final), self._owner_of(task.page_output, task.name))
        files.publish(aside, final)
        _set_time(final, outcome)

    def kept(self, task: Task, outcome: Outcome) -> Outcome:
        """What became of a conditional request that was answered by 304: good if the task's page is there.

        The record gets the facts of the page that stays, with the headers that the answer brought up to date
        (RFC 9111 section 3.2).
        """
        before = task.last("fetch")
        if before is None or not self.has(task):
            detail = "the server answered that the page is the same as before, but it is not here"
            hint = "remove the file of `etag-compare`, or the `time-cond`, and try again"
            return outcome._replace(ok=False, reason="http", detail=f"{detail}; {hint}")
        facts = dict(outcome.facts)
        fresh = {name.lower() for name, _ in facts.get("headers", []) if not name.lower().startswith("content-")}
        old = [pair for pair in before.headers if pair[0].lower() not in fresh]
        new = [pair for pair in facts.get("headers", []) if pair[0].lower() in fresh]
        facts |= {
            "status": before.facts.get("status", 200),
            "headers": old + new,
            "bytes": before.facts.get("bytes", 0),
        }
        return outcome._replace(facts=facts)

    def forget_aside(self, task: Task) -> None:
        """Once the page is recorded: drop the second name that a new explicit output was published by."""
        if task.output is not None and task.output != f"html/{task.name}.html":
            files.remove(self.aside_of(task.name))

    def undo_unrecorded(self, task: Task) -> None:
        """Settle what a crash left between publishing a page by a link and writing its record."""
        aside = self.aside_of(task.name)
        if Option("remote-header-name", True) in task.options:  # only its record tells how the server named the page
            other = files.other_name(aside, os.path.dirname(self.path_of(task)))
            task = dataclasses.replace(task, output=self._workdir.relative(other)) if other else task
        if files.same_file(aside, self.path_of(task)) and not self._owns(task):
            files.remove(self.path_of(task))

    def keep_error(self, name: str, outcome: Outcome) -> None:
        """Keep the body of a failed answer for `sc show`, in place of the one of the last try."""
        path = self.error_path(name)
        with files.machine_faults("can't write", path):
            if outcome.aside:
                files.publish(outcome.aside, path)
            elif outcome.body:
                files.write_aside(path, outcome.body)

    def forget_error(self, name: str) -> None:
        """Drop the body of a failed answer once a good one is there."""
        files.remove(self.error_path(name))

    def publish_items(self, name: str) -> None:
        """Put the items that a worker wrote aside under their final name."""
        with files.machine_faults("can't write", self.items_path(name)):
            files.publish(self.items_aside(name), self.items_path(name))

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _wrong_with(self, output: str) -> tuple[str, str] | None:
        """Why a page can't be saved there, and what to do instead."""
        parts = output.split("/")
        if parts[0] == "html" and any(part.startswith(".") and part.strip(".") for part in parts):
            return (
                f'output "{printable(output)}" has a name that begins with a dot',
                "such names are invisible: leave it out",
            )
        if parts[0] != "html" or len(parts) < 2 or any(not part or part.startswith(".") for part in parts):
            return f'output "{printable(output)}" lies outside html/', "write html/NAME.html"
        if any(len(os.fsencode(part)) > MAX_STEM_BYTES for part in parts) or len(output) > MAX_OUTPUT_LENGTH:
            return "the output's name is too long", "200 bytes fit everywhere"
        path = self._workdir.path("html", "", "")
        for folder in parts[1:-1]:
            path = os.path.join(path, folder)
            shown = printable(self._workdir.relative(path))
            if os.path.islink(path):
                return f"{shown} is a symbolic link", "html/ itself may be one"
            if os.path.ismount(path):
                # A page is renamed to its name, and no rename leads from one file system to another.
                return f"{shown} is a file system of its own", "html/ itself may be one"
        return None

    def _make_folder(self, task: Task, aside: str) -> None:
        """The folder that the output names below html/; NameTaken where a page has that name."""
        if task.page_output.count("/") > 1:
            folder = os.path.dirname(self.path_of(task))
            try:
                os.makedirs(folder, exist_ok=True)
            except (FileExistsError, NotADirectoryError):
                files.remove(aside)
                raise NameTaken(self._workdir.relative(folder)) from None

    def _owns(self, task: Task) -> bool:
        """Whether the page that stands under the task's output is its own, from before."""
        output = task.page_output
        if _has_saved(task.records, output):
            return True
        # html/NAME.html belongs to task NAME (a crash may have come before its record), unless another task saved it.
        return output == f"html/{task.name}.html" and not self._owner_of(output, task.name)

    def _owner_of(self, output: str, but: str) -> str:
        """The task, other than `but`, that saved this output. Reads every task: for conflicts only, which are rare."""
        # As the record spells it: most files need no second look.
        needle = json.dumps(output, ensure_ascii=False).encode("utf-8", "backslashreplace")
        for state in STATES:
            for name in self._workdir.names(state):
                with contextlib.suppress(OSError):
                    data = files.read_regular(self._workdir.path(state, name), MAX_TASK_BYTES)
                    if name != but and needle in data and _has_saved(read_task_records(data), output):
                        return name
        return ""


def _set_time(path: str, outcome: Outcome) -> None:
    """Give a page the time of its Last-Modified, where the task says `remote-time`."""
    if outcome.beside is not None and outcome.beside.modified:
        os.utime(path, (time.time(), outcome.beside.modified))


def _has_saved(records: list[Record], output: str) -> bool:
    return any(record.ok and record.facts.get("saved") == output for record in records)
