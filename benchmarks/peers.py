"""The contenders that others wrote: curl, Scrapy, crawlee. Their settings are the fast ones of their documentation."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import pages, tasks, verify
from benchmarks.measure import Command, Contender, Prepare, Setting


def curl_parallel(setting: Setting, count: int, name: str = "curl -Z -K", folder: str = "") -> Contender:
    """One curl with one config of all pages: connections kept alive, no state at all."""
    argv = [setting.tools.curl, "-q", "-s", "-f", "-Z", "--parallel-max", "10", "-K", "all.conf"]

    def prepare(place: Path) -> Command:
        (place / "html").mkdir()
        with open(place / "all.conf", "w") as file:
            for number in range(1, count + 1):
                file.write(f'url = "{setting.site.url}{pages.path(number)}"\noutput = "html/{number}.html"\n')
        return Command(argv)

    return _saving(name, count, prepare, setting.tools.lacks("curl"), folder)


def curl_processes(setting: Setting, count: int) -> Contender:
    """One curl process for each task file, ten at a time."""
    tools = setting.tools
    argv = [tools.xargs, "-a", "list", "-n", "1", "-P", "10", tools.curl, "-q", "-s", "-K"]

    def prepare(place: Path) -> Command:
        tasks.write_tasks(str(place), setting.site.url, count)
        (place / "list").write_text("".join(f"origin/{number}.conf\n" for number in range(1, count + 1)))
        return Command(argv)

    return _saving("xargs -P 10 curl -K", count, prepare, tools.lacks("curl", "xargs"))


def scrapy_saving(setting: Setting, count: int) -> Contender:
    def prepare(place: Path) -> Command:
        (place / "html").mkdir()
        return _python(setting, "scrapy_books", count, "pages")

    return _saving("Scrapy, JOBDIR, saving", count, prepare, setting.tools.lacks("scrapy"))


def scrapy_parsing(setting: Setting, count: int) -> Contender:
    def verify_items(place: Path) -> str:
        with open(place / "items.jsonl", encoding="utf-8") as lines:
            return verify.saved_items(lines, count)

    command = _python(setting, "scrapy_books", count, "items")
    lacking = setting.tools.lacks("scrapy")
    return Contender("Scrapy, JOBDIR, parser", count, lambda _: command, verify_items, missing=lacking)


def crawlee_parsing(setting: Setting, count: int, storage: str) -> Contender:
    """With `storage` memory (its fastest, nothing to resume) or files (its default, resumable like ours)."""

    def verify_items(place: Path) -> str:
        items = json.loads((place / "items.json").read_text(encoding="utf-8"))
        return verify.saved_items(map(json.dumps, items), count)

    command = _python(setting, "crawlee_books", count, storage)
    lacking = setting.tools.lacks("crawlee")
    return Contender(f"crawlee, {storage}", count, lambda _: command, verify_items, missing=lacking)


def import_click(setting: Setting) -> Contender:
    command = Command([setting.tools.python, "-c", "import click"])
    return Contender("python -c 'import click'", 1, lambda _: command, lambda _: "")


def _python(setting: Setting, module: str, count: int, what: str) -> Command:
    program = [setting.tools.peer_python, "-m", f"benchmarks.children.{module}"]
    return Command([*program, setting.site.url, str(count), what])


def _saving(name: str, count: int, prepare: Prepare, lacking: str, folder: str = "") -> Contender:
    return Contender(name, count, prepare, lambda place: verify.saved_pages(place / "html", count), folder, lacking)
