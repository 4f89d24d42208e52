"""What is measured: each suite names its contenders, in the order of their turns, and the targets to reach."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks import floors, ours, peers
from benchmarks.measure import Contender, Sample, Setting
from benchmarks.targets import Target, each_a_second, growth_of, times_faster, wall_ratio

_BYTES_A_TASK = 28 * 1024
"""A page of 15,000 bytes and two small files in blocks of 4 KiB, with some room."""
_HELP_ROUNDS = 20
_REPEATS_OF_SMALL_SIZES = 3


class Sizes(NamedTuple):
    """How much each suite crawls."""

    pages: int
    parse_pages: int
    process_pages: int
    tasks: tuple[int, ...]


class Suite(NamedTuple):
    """`per_place`: played on each file system, not only on the first. `rounds`: at least so many."""

    title: str
    contenders: list[Contender]
    targets: list[Target]
    space_bytes: int = 0
    rounds: int = 1
    per_place: bool = True


def fetch(setting: Setting, amounts: Sizes) -> Suite:
    sc, curl, processes, scrapy = (
        ours.fetch(setting, amounts.pages),
        peers.curl_parallel(setting, amounts.pages),
        peers.curl_processes(setting, amounts.process_pages),
        peers.scrapy_saving(setting, amounts.pages),
    )
    targets = [
        Target("wall time to `curl -Z -K`", (sc.name, curl.name), wall_ratio, "x", limit=2.5, aim=2.0),
        Target("pages/s to one curl per task", (sc.name, processes.name), times_faster, "x", limit=20, at_least=True),
        Target("pages/s to Scrapy saving the pages", (sc.name, scrapy.name), times_faster, "x", at_least=True),
    ]
    return Suite("Crawl without a parser", [sc, curl, processes, scrapy], targets, amounts.pages * _BYTES_A_TASK)


def cpu(setting: Setting, amounts: Sizes) -> Suite:
    sc, floor, raw = (
        ours.fetch(setting, amounts.pages),
        floors.flow(setting, amounts.pages),
        floors.raw_multi(setting, amounts.pages),
    )

    def to_floors(crawl: Sample, files: Sample, transfers: Sample) -> float:
        return crawl.cpu_ms_a_page / (files.cpu_ms_a_page + transfers.cpu_ms_a_page)

    names = (sc.name, floor.name, raw.name)
    targets = [Target("CPU to bare file operations + raw CurlMulti", names, to_floors, "x", limit=3.0, aim=2.0)]
    return Suite("CPU of the crawl without a parser", [sc, floor, raw], targets, amounts.pages * _BYTES_A_TASK)


def parse(setting: Setting, amounts: Sizes) -> Suite:
    count = amounts.parse_pages
    sc, scrapy, in_memory, in_files = (
        ours.parse(setting, count),
        peers.scrapy_parsing(setting, count),
        peers.crawlee_parsing(setting, count, "memory"),
        peers.crawlee_parsing(setting, count, "files"),
    )

    def pages_a_second(what: str, peer: Contender, limit: float) -> Target:
        return Target(f"pages/s to {what}", (sc.name, peer.name), times_faster, "x", limit, at_least=True)

    targets = [
        pages_a_second("Scrapy with JOBDIR", scrapy, 5),
        pages_a_second("crawlee, storage in files (resumable)", in_files, 15),
        pages_a_second("crawlee, storage in memory", in_memory, 15),
    ]
    return Suite("Crawl with a parser", [sc, scrapy, in_memory, in_files], targets, count * _BYTES_A_TASK)


def overhead(setting: Setting, amounts: Sizes) -> Suite:
    with_parser, without, alone = (
        ours.parse(setting, amounts.pages),
        ours.fetch(setting, amounts.pages),
        floors.parsel_alone(setting, amounts.pages),
    )

    def cost(parsed: Sample, fetched: Sample, parsel: Sample) -> float:
        return parsed.cpu_ms_a_page - fetched.cpu_ms_a_page - parsel.cpu_ms_a_page

    names = (with_parser.name, without.name, alone.name)
    targets = [Target("our CPU a page above fetch and the parser's own", names, cost, "ms", limit=0.5, aim=0.3)]
    contenders = [with_parser, without, alone]
    return Suite("Cost of parsing", contenders, targets, amounts.pages * _BYTES_A_TASK, per_place=False)


def sizes(setting: Setting, amounts: Sizes) -> Suite:
    idle = ours.idle(setting, "sc crawl, nothing to do")
    contenders = [idle]
    for count in amounts.tasks:
        # The ratios stand on the smallest size, whose runs are short: more of them.
        for repeat in range(_REPEATS_OF_SMALL_SIZES if count == min(amounts.tasks) else 1):
            contenders += _size_contenders(setting, count, f"{count}-{repeat}")
    targets = list(_size_targets(min(amounts.tasks), max(amounts.tasks), idle.name))
    return Suite("Number of tasks", contenders, targets, max(amounts.tasks) * _BYTES_A_TASK)


def _size_contenders(setting: Setting, count: int, tag: str) -> list[Contender]:
    return [
        ours.create(setting, count, f"sc create, {count}", f"sc-{tag}"),
        ours.status(setting, count, f"sc status before, {count}", f"sc-{tag}"),
        ours.fetch(setting, count, f"sc crawl, {count}", f"sc-{tag}"),
        ours.status(setting, count, f"sc status after, {count}", f"sc-{tag}"),
        floors.create(setting, count, f"bare create, {count}", f"bare-{tag}"),
        floors.list_tasks(setting, count, f"bare listing, {count}", f"bare-{tag}"),
        peers.curl_parallel(setting, count, f"curl -Z -K, {count}", f"curl-{tag}"),
    ]


def _size_targets(small: int, large: int, idle: str) -> Iterator[Target]:
    def growth(large_run: Sample, small_run: Sample, idle_run: Sample) -> float:
        return growth_of(*((run.wall_s - idle_run.wall_s) / run.pages for run in (large_run, small_run)))

    def cpu_growth(large_run: Sample, small_run: Sample, idle_run: Sample) -> float:
        return growth_of(*((run.cpu_s - idle_run.cpu_s) / run.pages for run in (large_run, small_run)))

    def crawl(count: int) -> str:
        return f"sc crawl, {count}"

    def create(count: int) -> str:
        return f"sc create, {count}"

    to = f"a task at {large} to {small}"
    yield Target(f"crawl time {to}", (crawl(large), crawl(small)), wall_ratio, "x", 1.2)
    yield Target(f"crawl time {to}, start-up taken off", (crawl(large), crawl(small), idle), growth, "x", 1.2)
    yield Target(f"crawl CPU {to}, start-up taken off", (crawl(large), crawl(small), idle), cpu_growth, "x", 1.2)
    yield Target(f"create time {to}", (create(large), create(small)), wall_ratio, "x", 1.2)
    yield Target(f"peak memory of the crawl at {large}", (crawl(large),), lambda run: run.peak_mb, "MB", 80)
    for when in ("before", "after"):
        name = f"sc status {when}, {large}"
        yield Target(f"`sc status` {when} a crawl of {large}", (name,), lambda run: run.wall_s, "s", 1.0)
    yield Target(f"`sc create` of {large}", (create(large),), each_a_second, "tasks/s", 10_000, at_least=True)


def start(setting: Setting, _amounts: Sizes) -> Suite:
    sc, click = ours.show_help(setting), peers.import_click(setting)

    def later(help_run: Sample, import_run: Sample) -> float:
        return (help_run.wall_s - import_run.wall_s) * 1000

    targets = [Target("`sc --help` after `import click`", (sc.name, click.name), later, "ms", limit=60)]
    return Suite("Start", [sc, click], targets, rounds=_HELP_ROUNDS, per_place=False)


ALL: dict[str, Callable[[Setting, Sizes], Suite]] = {
    "fetch": fetch,
    "cpu": cpu,
    "parse": parse,
    "overhead": overhead,
    "sizes": sizes,
    "help": start,
}
