"""Commands that run a crawl: crawl, retry, parse."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import click

from stateful_crawler.cli import EXIT_TASKS_FAILED, Project
from stateful_crawler.cli.options import (
    Networks,
    Seconds,
    Size,
    as_json,
    cores,
    names_argument,
    print_json,
    setting,
    task_name,
)
from stateful_crawler.errors import UsageError, printable

_CRAWL_OPTIONS = (
    setting(
        "-c", "--connections", type=click.IntRange(1, 1000), default=3, show_default=True, help="Connections at once."
    ),
    setting(
        "--retries",
        type=click.IntRange(0, 100),
        default=2,
        show_default=True,
        help="More tries after a passing failure.",
    ),
    setting("--max-size", type=Size(), default="64M", show_default=True, help="The largest body that is kept."),
    setting(
        "--allow-private",
        type=Networks(),
        multiple=True,
        help="Networks that links and redirects may lead into, too: 10.0.0.0/8,fd00::/8 or all.",
    ),
    setting("--no-parse", is_flag=True, help="Fetch only, though there is a parser."),
)
_PARSE_OPTIONS = (
    setting("--parser", metavar="FILE", type=click.Path(), help="The plugin.  [default: parser.py]"),
    setting("-j", "--workers", type=click.IntRange(1, 256), help="Parser processes.  [default: the number of cores]"),
    setting(
        "--parse-timeout", type=Seconds(0.1, 86_400), default=60.0, show_default=True, help="Seconds for one page."
    ),
    as_json,
)


def _with(*groups: Iterable[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        for option in reversed([option for group in groups for option in group]):
            function = option(function)
        return function

    return decorate


@click.command()
@_with(_CRAWL_OPTIONS, _PARSE_OPTIONS)
@click.pass_obj
def crawl(project: Project, /, as_json: bool, **options: Any) -> None:
    """Fetch and parse all tasks in origin/, and what a run that was killed left in working/.

    Kill it at any moment; the same command goes on, and asks again only for what was in flight.
    """
    _run(project, options, as_json, lambda story, *run: story.crawl(*run, argv=_argv("crawl")))


@click.command()
@names_argument
@_with(_CRAWL_OPTIONS, _PARSE_OPTIONS)
@setting("--refetch", is_flag=True, help="Fetch again also where a whole page is saved.")
@setting("--only", type=click.Choice(["fetch", "parse"]), help="Only tasks whose next step is this one.")
@setting("--now", is_flag=True, help="Don't wait where a server said when to come back.")
@click.pass_obj
def retry(
    project: Project, /, names: tuple[str, ...], refetch: bool, only: Any, now: bool, as_json: bool, **options: Any
) -> None:
    """Take everything in origin/, working/ and error/ again, or only the tasks NAMES.

    A task whose page is saved is parsed again without a request, unless --refetch.
    """
    chosen = options | {"refetch": refetch, "names": _chosen(project, names)}
    _run(project, chosen, as_json, lambda story, *run: story.retry(*run, only=only, now=now, argv=_argv("retry")))


@click.command()
@names_argument
@setting("--all", "all_pages", is_flag=True, help="All pages, not only the stale ones.")
@_with(_PARSE_OPTIONS)
@click.pass_obj
def parse(project: Project, /, names: tuple[str, ...], all_pages: bool, as_json: bool, **options: Any) -> None:
    """Parse saved pages again where the page or the parser has changed; no request is made.

    A page that now fails moves its task from success/ to error/; one that is healed moves to success/.
    """
    if project.plugin_path(options["parser"], "parser.py") is None:
        raise UsageError("there is no parser.py here; `sc init` makes one, `--parser FILE` names one")
    chosen = options | {"names": _chosen(project, names)}
    _run(project, chosen, as_json, lambda story, *run: story.reparse(*run, all_pages=all_pages, argv=_argv("parse")))


def _run(project: Project, options: dict[str, Any], as_json: bool, story: Callable[..., Any]) -> None:
    """One run from its options to its exit code: watched, stopped by signals, summed up."""
    import stateful_crawler.crawl as crawl_module
    from stateful_crawler.cli.progress import progress, stop_on_signals
    from stateful_crawler.cli.summary import as_dict, summary
    from stateful_crawler.workdir import Workdir

    settings = _settings(project, options)
    _raise_descriptor_limit(settings.limits.connections)
    workdir = Workdir(project.workdir).open(create=False)
    _collect_garbage_rarely()
    with stop_on_signals() as (stop, came):
        with progress(project.quiet, project.verbose) as watch:
            tally = story(crawl_module, workdir, settings, stop, watch)
            watch(tally)  # what was still given up at the very end
        if as_json:
            print_json(as_dict(tally))
        if not project.quiet:
            again = f"sc{project.given} {'retry --refetch' if settings.refetch else 'crawl'}"
            for line in summary(tally, workdir, parsing=settings.parser is not None, again=again):
                click.echo(line, err=True)
        if came:
            click.get_current_context().exit(128 + came[0])
    click.get_current_context().exit(EXIT_TASKS_FAILED if tally.failed else 0)


def _settings(project: Project, options: dict[str, Any]) -> Any:
    from stateful_crawler.control import CrawlSettings
    from stateful_crawler.fetch import Limits
    from stateful_crawler.plugins import Plugin

    path = None if options.get("no_parse") else project.plugin_path(options["parser"], "parser.py")
    return CrawlSettings(
        limits=Limits(
            options.get("connections", 1),
            options.get("max_size", 64 << 20),
            allow_private=tuple(chain.from_iterable(options.get("allow_private", ()))),
        ),
        retries=options.get("retries", 0),
        parser=Plugin.read(path) if path else None,
        workers=options["workers"] or cores(),
        parse_timeout_s=options["parse_timeout"],
        refetch=options.get("refetch", False),
        names=options.get("names"),
    )


def _chosen(project: Project, names: tuple[str, ...]) -> frozenset[str] | None:
    """The names that were given; a UsageError names the first that is no task, before anything is moved."""
    from stateful_crawler.workdir import Workdir

    workdir = Workdir(project.workdir)
    chosen = [task_name(name) for name in names]
    for name in chosen:
        if workdir.state_of(name) is None:
            raise UsageError(f"no task {printable(name)!r} in {printable(os.path.relpath(workdir.root))}")
    return frozenset(chosen) if chosen else None


def _raise_descriptor_limit(connections: int) -> None:
    """Each connection wants a descriptor, each task in hand another: most systems give a process 1024 until it asks.

    Raises UsageError where so many connections can't be had.
    """
    import resource

    wanted = 3 * connections + 100
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, most), hard))
    if most < wanted:
        raise UsageError(f"-c {connections} needs {wanted} open files, and this system allows {hard}; see `ulimit -n`")


def _collect_garbage_rarely() -> None:
    """What is loaded by now stays; a page makes few cycles, and the default thresholds cost a tenth of its time."""
    import gc

    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _argv(command: str) -> list[str]:
    """What run.json tells of this run; options may hold secrets one day, so only the command's name."""
    return ["sc", command]
