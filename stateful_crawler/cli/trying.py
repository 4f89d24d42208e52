"""Commands to try the tool with: the example sites, and a demo that needs nothing else."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence

import click

from stateful_crawler.cli import EXIT_TASKS_FAILED, Project
from stateful_crawler.cli.options import setting
from stateful_crawler.errors import EnvironmentFault, UsageError, printable
from stateful_crawler.sites import PORT, SITES

FOLDER = "sc-demo"
MARK = ".made-by-sc-demo"  # holds the port that the tasks ask at
PAGES = 100
MUST_FAIL = "page-404"


@click.command()
@click.argument("names", nargs=-1, metavar=f"[{'|'.join(SITES)}]...")
@setting("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 for a free one.")
def site(names: tuple[str, ...], port: int) -> None:
    """Serve the example sites (all, or those named) on 127.0.0.1 until Ctrl-C."""
    from stateful_crawler.sites import run

    run(click.echo, names or None, port)


@click.command()
@setting("--fresh", is_flag=True, help="Remove the folder of an earlier demo first.")
@click.pass_obj
def demo(project: Project, fresh: bool) -> None:
    """Crawl an example bookshop on this machine: a hundred pages, some slow, some that fail once, one that must fail.

    Everything stays in ./sc-demo to look at and to play with.
    """
    folder = os.path.join(project.folder, FOLDER)
    mark = os.path.join(folder, MARK)
    if os.path.lexists(folder) and not os.path.isfile(mark):
        raise UsageError(
            f"{FOLDER}/ is here and was not made by the demo; start it in another folder, or move that one"
        )
    if fresh:
        shutil.rmtree(folder, ignore_errors=True)
    port = _port_before(mark)
    if port is not None:
        click.echo(f"{FOLDER}/ is here from an earlier demo, and goes on; `sc demo --fresh` starts anew\n")
    server, shop = _serve(PORT if port is None else port, any_other=port is None)
    try:
        _sc(folder, "init", quiet=True, cwd=project.folder, folder_argument=FOLDER)
        with open(mark, "w", encoding="ascii") as file:
            file.write(_port_of(shop))
        _step(f"sc create 1 {PAGES} {shop}", "each page of the shop becomes one curl config file in origin/")
        _sc(folder, "create", "1", str(PAGES), shop)
        _add_one_that_must_fail(folder, shop)
        _step("sc crawl -c 10", "ten connections; each file moves to working/, then to success/ or error/")
        _sc(folder, "crawl", "-c", "10")
    finally:
        server.terminate()
        server.wait()
    click.get_current_context().exit(_show(folder, shop))


def _serve(port: int, *, any_other: bool) -> tuple[subprocess.Popen[str], str]:
    """The bookshop in a process of its own, on this port or, where that is taken, on a free one if `any_other`."""
    for number in (port, 0) if any_other else (port,):
        command = [sys.executable, "-m", "stateful_crawler.sites", "--port", str(number), "bookshop"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert server.stdout is not None
        if match := re.search(r"http://\S+", server.stdout.readline()):
            return server, match[0].rstrip("/") + "/bookshop"
        server.wait()
    raise EnvironmentFault("the example site can't be served on", f"127.0.0.1:{port}", hint="is it served already?")


def _port_of(shop: str) -> str:
    return shop.rpartition(":")[2].partition("/")[0]


def _port_before(mark: str) -> int | None:
    """The port of an earlier demo, whose tasks ask there; None where there was none."""
    try:
        with open(mark, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _sc(folder: str, *words: str, quiet: bool = False, cwd: str | None = None, folder_argument: str = "") -> int:
    """Run `sc` as a user would, in the demo's folder."""
    command: list[str] = [sys.executable, "-m", "stateful_crawler", *(["-q"] if quiet else []), *words]
    if folder_argument:
        command.append(folder_argument)
    code = subprocess.call(command, cwd=cwd or folder)
    if code not in (0, EXIT_TASKS_FAILED):
        click.get_current_context().exit(code)
    return code


def _add_one_that_must_fail(folder: str, shop: str) -> None:
    """A task by hand, as anyone may write one: a page that the shop does not have."""
    from stateful_crawler.task import new_task
    from stateful_crawler.workdir import Workdir

    if Workdir(os.path.join(folder, "workdir")).add(new_task(f"{shop}/catalogue?page=404", by="hand", name=MUST_FAIL)):
        click.echo(f"and one by hand that must fail: {FOLDER}/workdir/origin/{MUST_FAIL}.conf")


def _show(folder: str, shop: str) -> int:
    """What came of it; 0 if only the task failed that must."""
    from stateful_crawler.pages import Pages
    from stateful_crawler.report import facts_of, status_of
    from stateful_crawler.workdir import Workdir

    workdir = Workdir(os.path.join(folder, "workdir"))
    facts = status_of(workdir, failing_runs=3)
    _step(f"ls {FOLDER}/workdir", "the state of the crawl is what you see")
    click.echo(
        "  ".join(f"{name}/ {facts[name]}" for name in ("origin", "working", "html", "parsed", "success", "error"))
    )
    _step(f"head -3 {FOLDER}/workdir/parsed/1.jsonl", "the items of the first page")
    for line in _first_lines(Pages(workdir).items_path("1"), 3):
        click.echo(printable(line))
    failed = facts_of(workdir, MUST_FAIL)
    record = failed["records"][-1] if failed and failed["records"] else {}
    _step(f"sc show {MUST_FAIL}", "the one that failed says why")
    click.echo(f"{record.get('reason')}: {record.get('detail')}")
    _next_steps(folder, shop)
    return 0 if list(workdir.names("error")) == [MUST_FAIL] and facts["success"] == PAGES else EXIT_TASKS_FAILED


def _next_steps(folder: str, shop: str) -> None:
    sc, port = _own_name(folder), _port_of(shop)
    _step("and now", f"the shop is `sc site{'' if port == str(PORT) else f' --port {port}'}` in another terminal")
    for command, why in (
        (f"cd {FOLDER}; {sc} status", "count the states"),
        ("curl -q -o page.html -K workdir/success/8.conf", "any task replays with plain curl"),
        (f"{sc} retry", "take what failed again"),
        (f"$EDITOR parser.py; {sc} parse", "parse again without the network"),
    ):
        click.echo(f"  {command:52} {why}")


def _own_name(folder: str) -> str:
    """How the user calls this program from the demo's folder: `sc` if the shell would find it, else its path."""
    own = os.path.abspath(sys.argv[0])
    if not os.path.isfile(own) or own.endswith(".py"):
        return "python -m stateful_crawler"
    return "sc" if shutil.which("sc") == own else os.path.relpath(own, folder)


def _step(command: str, why: str) -> None:
    click.echo(f"\n$ {command}    # {why}")


def _first_lines(path: str, count: int) -> Sequence[str]:
    try:
        with open(path, encoding="utf-8") as file:
            return [
                json.dumps(json.loads(line), ensure_ascii=False) for _, line in zip(range(count), file, strict=False)
            ]
    except OSError:
        return []
