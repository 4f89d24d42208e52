"""Commands that begin a crawl: init and create."""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from collections.abc import Iterator
from importlib import resources

import click

from stateful_crawler.cli import Project
from stateful_crawler.cli.options import as_json, count, print_json, setting
from stateful_crawler.errors import EnvironmentFault, PluginError, UsageError, printable
from stateful_crawler.workdir import Workdir

_SC_TOML = """\
# Defaults for this project; a flag or an SC_* variable wins over them.
# connections = 10
# retries = 2
# parse-timeout = 60
# max-size = "64M"
"""


@click.command()
@click.argument("folder", metavar="[DIR]", default=".", type=click.Path())
@click.pass_obj
def init(project: Project, folder: str) -> None:
    """Make a project in DIR (default: here): create.py and parser.py to adapt, sc.toml and an empty workdir/.

    Files that exist are left as they are. The plugins run as they are against `sc site`.
    """
    folder = os.path.join(project.folder, folder)
    texts = {
        name: resources.files("stateful_crawler").joinpath("templates", name).read_text()
        for name in ("create.py", "parser.py")
    }
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise EnvironmentFault.from_os("can't make", folder, error) from error
    for name, text in (texts | {"sc.toml": _SC_TOML}).items():
        path = os.path.join(folder, name)
        try:
            with open(path, "x", encoding="utf-8") as file:
                file.write(text)
            word = "made"
        except FileExistsError:
            word = "kept"
        except OSError as error:
            raise EnvironmentFault.from_os("can't write", path, error) from error
        if not project.quiet:
            click.echo(f"{word} {printable(os.path.relpath(path))}", err=True)
    Workdir(os.path.join(folder, "workdir")).open()
    if not project.quiet:
        into = "" if os.path.abspath(folder) == os.getcwd() else f"cd {printable(os.path.relpath(folder))} && "
        click.echo(f"try it: `sc site` in another terminal, then `{into}sc create 1 100 && sc crawl -c 10`", err=True)


@contextlib.contextmanager
def _plugins_talk() -> Iterator[None]:
    """What a plugin prints goes to stderr, as does what its child processes print: stdout is for --json."""
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


class _Create(click.Command):
    """`sc create --help` also tells what the user's create() wants."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help_text(ctx, formatter)
        # With --help the other options are not yet parsed; the plugin of the project is the one that is meant.
        path = (ctx.default_map or {}).get("create") or os.path.join(os.getcwd(), "create.py")
        with contextlib.suppress(PluginError), _plugins_talk():
            from stateful_crawler import plugins

            function = plugins.load(plugins.Plugin.read(path), "create")
            with formatter.section(printable(os.path.relpath(path))):
                formatter.write_text(f"sc create {plugins.signature_of(function)}")
                formatter.write_paragraph()
                for line in (inspect.getdoc(function) or "").splitlines():
                    formatter.write_text(line)


@click.command(cls=_Create)
@click.argument("arguments", metavar="[ARGS]...", nargs=-1)
@setting("--plugin", "--create", "create", metavar="FILE", type=click.Path(), help="The plugin.  [default: create.py]")
@as_json
@click.pass_obj
def create(project: Project, arguments: tuple[str, ...], create: str | None, as_json: bool) -> None:
    """Make tasks with your create.py: each url that create(ARGS...) yields becomes a file in origin/.

    A task whose name exists in any state is skipped, so the same command can be run again.
    """
    from stateful_crawler import crawl, plugins

    path = project.plugin_path(create, "create.py")
    if path is None:
        raise UsageError("there is no create.py here; `sc init` makes one, `-C examples/bookshop` uses an example's")
    workdir = Workdir(project.workdir)
    new = existing = 0
    with _plugins_talk():
        for _, is_new in crawl.create_tasks(workdir, plugins.Plugin.read(path), arguments):
            new, existing = new + is_new, existing + (not is_new)
    if as_json:
        print_json({"created": new, "existing": existing})
    elif not project.quiet:
        skipped = f", {existing} {'exists' if existing == 1 else 'exist'} already" if existing else ""
        folder = printable(os.path.relpath(workdir.path("origin", "", "")))
        click.echo(f"{count(new, 'task')} created in {folder}{skipped}", err=True)
