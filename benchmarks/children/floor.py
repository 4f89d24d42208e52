"""The bare file operations of sc's flow, in the order sc does them and without anything else: the floor.

`floor flow COUNT` in a workdir with COUNT tasks: rename origin -> working, open, read, write the body aside, rename it,
append the record, rename working -> success. `floor create COUNT URL` writes COUNT tasks aside and links them into
origin. `floor list` counts the names in the state directories. All in the current directory, timing only their loop.
"""

from __future__ import annotations

import os
import sys

from benchmarks import pages, tasks
from benchmarks.children.timing import timed

_RECORD = (
    b'# sc: {"at": "2026-11-30T17:00:09Z", "stage": "fetch", "ok": true, "status": 200, "url": "http://127.0.0.1:8080/'
    b'page/000001", "headers": [["Server", "nginx/1.22.1"], ["Date", "Mon, 30 Nov 2026 17:00:09 GMT"], ["Content-Type",'
    b' "text/html; charset=utf-8"], ["Content-Length", "15000"], ["Connection", "keep-alive"], ["ETag", "\\"656-3a98\\"'
    b'"]], "bytes": 15000, "seconds": 0.0021, "attempt": 1}\n'
)


def flow(count: int) -> None:
    bodies = [pages.body(number) for number in range(1, min(count, 100) + 1)]
    with timed():
        for number in range(1, count + 1):
            one_task(f"{number}.conf", f"{number}.html", bodies[number % len(bodies)])


def one_task(conf: str, html: str, body: bytes) -> None:
    working = f"working/{conf}"
    os.rename(f"origin/{conf}", working)
    # One descriptor from claim to record: the least that the flow can do.
    task = os.open(working, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    os.read(task, 65536)
    aside = f"html/.{html}"
    page = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    os.write(page, body)
    os.close(page)
    os.rename(aside, f"html/{html}")
    os.write(task, _RECORD)
    os.close(task)
    os.rename(working, f"success/{conf}")


def create(count: int, site_url: str) -> None:
    with timed():
        for number in range(1, count + 1):
            aside, final = f"origin/.{number}.conf", f"origin/{number}.conf"
            task = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            os.write(task, tasks.task_text(number, site_url).encode())
            os.close(task)
            os.link(aside, final)
            os.unlink(aside)


def count_names() -> None:
    with timed():
        for state in tasks.STATES:
            with os.scandir(state) as entries:
                sum(entry.name.endswith(".conf") for entry in entries)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["flow", count]:
            flow(int(count))
        case ["create", count, url]:
            create(int(count), url)
        case ["list"]:
            count_names()
        case _:
            sys.exit(__doc__)
