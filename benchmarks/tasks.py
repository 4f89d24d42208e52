"""Task files of the form that sc writes, for the contenders that are not sc."""

from __future__ import annotations

import os

from benchmarks import pages

STATES = ("origin", "working", "success", "error", "html")
_TASK = """# sc: {{"v": 1, "created": "2026-11-30T17:00:00Z", "by": "create"}}
url = "{url}"
output = "html/{number}.html"
user-agent = "sc/1.0"
location
compressed
fail
max-time = "60"
connect-timeout = "15"
"""


def task_text(number: int, site_url: str) -> str:
    return _TASK.format(number=number, url=site_url + pages.path(number))


def write_tasks(folder: str, site_url: str, count: int) -> None:
    """A workdir with `count` tasks in origin/."""
    for state in STATES:
        os.mkdir(os.path.join(folder, state))
    for number in range(1, count + 1):
        with open(os.path.join(folder, "origin", f"{number}.conf"), "w") as file:
            file.write(task_text(number, site_url))
