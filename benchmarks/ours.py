"""The contenders that are `sc` itself. Each works in a folder of its own, on `workdir` there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks import verify
from benchmarks.measure import Command, Contender, RunFailedError, Setting, run

_PLUGINS = Path(__file__).with_name("plugins")


def create(setting: Setting, count: int, name: str, folder: str) -> Contender:
    def verify_created(place: Path) -> str:
        return verify.counted(place / "workdir" / "origin", count)

    command = _create_command(setting, count)
    return Contender(name, count, lambda _: command, verify_created, folder, setting.tools.lacks("sc"))


def fetch(setting: Setting, count: int, name: str = "sc crawl --no-parse", folder: str = "") -> Contender:
    """The crawl without a parser. Tasks that the folder has already are used as they are."""
    command = Command(_sc(setting, "crawl", "-c", "10", "--no-parse"))

    def verify_saved(place: Path) -> str:
        verify.counted(place / "workdir" / "success", count)
        return verify.saved_pages(place / "workdir" / "html", count)

    return Contender(name, count, _with_tasks(setting, count, command), verify_saved, folder, setting.tools.lacks("sc"))


def parse(setting: Setting, count: int) -> Contender:
    command = Command(_sc(setting, "crawl", "-c", "10", "-j", "2", "--parser", str(_PLUGINS / "parser.py")))

    def verify_saved(place: Path) -> str:
        verify.counted(place / "workdir" / "success", count)
        verify.saved_pages(place / "workdir" / "html", count)
        return verify.saved_items(verify.lines_of(place / "workdir" / "parsed"), count)

    prepare = _with_tasks(setting, count, command)
    return Contender("sc crawl -j 2 --parser", count, prepare, verify_saved, missing=setting.tools.lacks("sc"))


def status(setting: Setting, count: int, name: str, folder: str) -> Contender:
    """Of the workdir that the folder has."""

    def verify_told(place: Path) -> str:
        told = place.with_suffix(".log").read_text().replace(",", "")
        if str(count) not in told:
            raise RunFailedError(f"status does not say {count}: {told[:200]!r}")
        return f"it says {count}"

    command = Command(_sc(setting, "status"))
    return Contender(name, count, lambda _: command, verify_told, folder, setting.tools.lacks("sc"))


def idle(setting: Setting, name: str) -> Contender:
    """A crawl of a workdir in which all is done: what starting and ending costs."""
    command = Command(_sc(setting, "crawl", "-c", "10", "--no-parse"))

    def prepare(place: Path) -> Command:
        run(_with_tasks(setting, 1, command)(place), place)
        return command

    return Contender(name, 1, prepare, lambda _: "", missing=setting.tools.lacks("sc"))


def show_help(setting: Setting) -> Contender:
    command = Command([setting.tools.sc, "--help"])
    return Contender("sc --help", 1, lambda _: command, lambda _: "", missing=setting.tools.lacks("sc"))


def _sc(setting: Setting, *arguments: str) -> list[str]:
    return [setting.tools.sc, "-w", "workdir", *arguments]


def _create_command(setting: Setting, count: int) -> Command:
    plugin = str(_PLUGINS / "create.py")
    return Command(_sc(setting, "create", "--plugin", plugin, "1", str(count), setting.site.url))


def _with_tasks(setting: Setting, count: int, command: Command) -> Callable[[Path], Command]:
    def prepare(place: Path) -> Command:
        if not (place / "workdir").exists():
            run(_create_command(setting, count), place)
        return command

    return prepare
