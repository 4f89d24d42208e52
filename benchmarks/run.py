"""The command: plays the suites and writes the report."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks import measure, nginx, pages, report, suites, targets, tools
from benchmarks.measure import Setting

_RAM_DISK = "/dev/shm"


def main(arguments: Sequence[str] | None = None) -> int:
    """0: all contenders did what they should (targets may be missed); 1: one failed; 2: nothing could be measured."""
    options = _parser().parse_args(arguments)
    found = tools.find(options.peer_python)
    if "nginx" in found.missing:
        print(f"benchmarks: nginx {found.missing['nginx']} (Debian: nginx-light)", file=sys.stderr)
        return 2
    try:
        with _folders(options) as places, _site(found, places[0], options) as site:
            started = os.getloadavg()
            played = list(_play_all(options, places, Setting(found, site, places[0], _say)))
    except nginx.NginxFailedError as error:
        print(f"benchmarks: nginx: {error}", file=sys.stderr)
        return 2
    text = report.render(_facts(options, found, started), played, found.missing)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    return int(any(result.trouble.startswith("failed") for suite in played for result in suite.results.values()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--pages", type=int, default=10_000, help="pages of a crawl (10000)")
    add("--parse-pages", type=int, default=2_000, help="pages of a crawl with a parser, beside slow peers (2000)")
    add("--process-pages", type=int, default=1_000, help="pages with one curl process each (1000)")
    add("--sizes", type=_numbers, default=(1_000, 10_000, 100_000), help="numbers of tasks (1000,10000,100000)")
    add("--rounds", type=int, default=3, help="turns of each contender (3)")
    add("--only", action="append", choices=list(suites.ALL), help="play only this suite; may be repeated")
    add("--on", action="append", choices=["tmpfs", "disk"], help="only on this file system")
    add("--tmpfs", type=Path, default=Path(_RAM_DISK), help=f"a folder on a tmpfs ({_RAM_DISK})")
    add("--disk", type=Path, default=Path(tempfile.gettempdir()), help="a folder on a disk (where temporary files go)")
    add("--peer-python", default=sys.executable, help="the python that has scrapy and crawlee (this one)")
    add("--out", type=Path, help="write the report to this file too")
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(part) for part in text.split(",")))


@contextlib.contextmanager
def _folders(options: argparse.Namespace) -> Iterator[list[Path]]:
    """A new folder on each wanted file system, removed at the end."""
    with contextlib.ExitStack() as stack:
        parents = [getattr(options, kind) for kind in options.on or ("tmpfs", "disk")]
        yield [Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sc-bench-", dir=p))) for p in parents]


@contextlib.contextmanager
def _site(found: tools.Tools, place: Path, options: argparse.Namespace) -> Iterator[nginx.Site]:
    prefix = place / "site"
    prefix.mkdir()
    count = max(options.pages, options.parse_pages, options.process_pages, *options.sizes)
    with nginx.serve(found.nginx, prefix, count) as site:
        yield site


def _play_all(options: argparse.Namespace, places: Sequence[Path], setting: Setting) -> Iterator[report.Played]:
    amounts = suites.Sizes(options.pages, options.parse_pages, options.process_pages, options.sizes)
    for name in options.only or suites.ALL:
        for place in places:
            suite = suites.ALL[name](setting._replace(scratch=place), amounts)
            if place == places[0] or suite.per_place:
                yield _play(suite, options.rounds, setting._replace(scratch=place))


def _play(suite: suites.Suite, rounds: int, setting: Setting) -> report.Played:
    where = tools.file_system(setting.scratch)
    setting.say(f"{suite.title}, on {where}")
    contenders = suite.contenders
    free = shutil.disk_usage(setting.scratch).free
    if free < suite.space_bytes:
        reason = f"{suite.space_bytes >> 20} MB needed on {where}, {free >> 20} free"
        contenders = [replace(contender, missing=contender.missing or reason) for contender in contenders]
    results = measure.play(contenders, max(rounds, suite.rounds), setting)
    verdicts = [targets.judge(target, results, where) for target in suite.targets]
    return report.Played(suite.title, where, results, verdicts)


def _facts(options: argparse.Namespace, found: tools.Tools, load: tuple[float, float, float]) -> dict[str, str]:
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        **tools.machine(),
        "load average at start and end": f"{load[0]:.2f}, {os.getloadavg()[0]:.2f}",
        **found.versions,
        "command": shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]]),
        "rounds": f"{options.rounds}, in turn; ratios are taken within each round",
        "pages": f"{pages.PAGE_BYTES} bytes, {pages.ITEMS_PER_PAGE} items, from nginx (one process) on loopback",
    }


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
