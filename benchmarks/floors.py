"""The contenders that do less than sc must: bare file operations, a bare CurlMulti loop, parsel alone."""

from __future__ import annotations

from pathlib import Path

from benchmarks import tasks, verify
from benchmarks.measure import Command, Contender, Setting


def flow(setting: Setting, count: int) -> Contender:
    """The file operations of a crawl, without a network."""

    def prepare(place: Path) -> Command:
        tasks.write_tasks(str(place), setting.site.url, count)
        return _own(setting, "floor", "flow", str(count))

    def verify_moved(place: Path) -> str:
        verify.counted(place / "html", count)
        return verify.counted(place / "success", count)

    return Contender("bare file operations", count, prepare, verify_moved)


def create(setting: Setting, count: int, name: str, folder: str) -> Contender:
    def prepare(place: Path) -> Command:
        tasks.write_tasks(str(place), setting.site.url, 0)
        return _own(setting, "floor", "create", str(count), setting.site.url)

    return Contender(name, count, prepare, lambda place: verify.counted(place / "origin", count), folder)


def list_tasks(setting: Setting, count: int, name: str, folder: str) -> Contender:
    """Of the workdir that `create` left in the folder."""
    return Contender(name, count, lambda _: _own(setting, "floor", "list"), lambda _: "", folder)


def raw_multi(setting: Setting, count: int) -> Contender:
    command = _own(setting, "raw_multi", setting.site.url, str(count))
    return Contender("raw CurlMulti", count, lambda _: command, _printed, missing=setting.tools.lacks("pycurl"))


def parsel_alone(setting: Setting, count: int) -> Contender:
    command = _own(setting, "parsel_alone", str(count))
    return Contender("parsel alone", count, lambda _: command, _printed, missing=setting.tools.lacks("parsel"))


def _own(setting: Setting, module: str, *arguments: str) -> Command:
    return Command([setting.tools.python, "-m", f"benchmarks.children.{module}", *arguments], self_timed=True)


def _printed(place: Path) -> str:
    """The digest that a self-checking program has printed first."""
    return place.with_suffix(".log").read_text().splitlines()[0]
