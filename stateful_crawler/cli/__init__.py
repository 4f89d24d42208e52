"""The command `sc`: the group, its global options, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import os
import shlex
import sys
import traceback
from dataclasses import dataclass
from importlib import import_module

import click

from stateful_crawler._version import __version__
from stateful_crawler.errors import EnvironmentFault, PluginError, ScError, UsageError, WorkdirBusy, printable
from stateful_crawler.settings import FILE, read_settings

# name -> where the command is, and its line in `sc --help`. Modules as strings, loaded on use: help must not wait for
# libcurl or a parser.
COMMANDS = {
    "init": ("stateful_crawler.cli.project:init", "Make a project: create.py, parser.py, sc.toml, workdir/."),
    "create": ("stateful_crawler.cli.project:create", "Make tasks with your create.py."),
    "import-curl": ("stateful_crawler.cli.importing:import_curl", "Make tasks of curl commands, as browsers copy."),
    "crawl": ("stateful_crawler.cli.crawling:crawl", "Fetch and parse all tasks in origin/."),
    "retry": ("stateful_crawler.cli.crawling:retry", "Take everything in origin/, working/ and error/ again."),
    "parse": ("stateful_crawler.cli.crawling:parse", "Parse saved pages again, without the network."),
    "status": ("stateful_crawler.cli.looking:status", "Count the tasks in each state, and say why some failed."),
    "show": ("stateful_crawler.cli.looking:show", "Show one task: its state, its options, what happened to it."),
    "lint": ("stateful_crawler.cli.checking:lint", "Check config files for what curl would read otherwise."),
    "plan": ("stateful_crawler.cli.planning:plan", "Show what would be sent, and send nothing."),
    "requeue": ("stateful_crawler.cli.keeping:requeue", "Put settled tasks back into origin/, pages kept."),
    "fsck": ("stateful_crawler.cli.keeping:fsck", "Check that the folder is as it should be."),
    "demo": ("stateful_crawler.cli.trying:demo", "Crawl an example bookshop, to see how it works."),
    "site": ("stateful_crawler.cli.trying:site", "Serve the example sites on loopback until Ctrl-C."),
}

EXIT_INTERNAL, EXIT_USAGE, EXIT_TASKS_FAILED, EXIT_PLUGIN, EXIT_BUSY, EXIT_ENVIRONMENT, EXIT_DAMAGE = (
    1,
    2,
    3,
    5,
    6,
    7,
    9,
)
_EXIT_CODES: tuple[tuple[type[ScError], int], ...] = (
    (UsageError, EXIT_USAGE),
    (PluginError, EXIT_PLUGIN),
    (WorkdirBusy, EXIT_BUSY),
    (EnvironmentFault, EXIT_ENVIRONMENT),
)


@dataclass(frozen=True, slots=True)
class Project:
    """Where a command works, and how much it says."""

    folder: str
    workdir: str
    given: str  # the options, of those that say where, that this command was given: a hint to run it again repeats them
    quiet: bool
    verbose: bool
    debug: bool

    def plugin_path(self, given: str | None, name: str) -> str | None:
        """The plugin file to use: the one that was named, else the project's own if it has one."""
        if given:
            return given
        path = os.path.join(self.folder, name)
        return path if os.path.isfile(path) else None


class _Commands(click.Group):
    """The table of commands; a module is imported when its command is used or listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name][0].partition(":")
        command = getattr(import_module(module), function)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib  # here, not above: only a mistake needs it

            near = difflib.get_close_matches(args[0], COMMANDS, 1)
            ctx.fail(f"No such command {args[0]!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("-C", "folder", metavar="DIR", type=click.Path(), envvar="SC_DIR", help="Work as if started in DIR.")
@click.option(
    "-w",
    "--workdir",
    metavar="DIR",
    envvar="SC_WORKDIR",
    show_envvar=True,
    help="The crawl's folder.  [default: workdir]",
)
@click.option("-q", "--quiet", is_flag=True, envvar="SC_QUIET", help="Say nothing but errors.")
@click.option("-v", "--verbose", is_flag=True, envvar="SC_VERBOSE", help="Name each task that fails.")
@click.option("--debug", is_flag=True, envvar="SC_DEBUG", help="Show a traceback where an error ends the command.")
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def sc(ctx: click.Context, folder: str | None, workdir: str | None, quiet: bool, verbose: bool, debug: bool) -> None:
    """A crawl is a folder: every page is one curl config file, the directory it lies in is its state.

    \b
    Try it:            sc demo
    Start your own:    sc init   sc create 1 100   sc crawl -c 10   sc retry
    """
    if folder:
        try:
            os.chdir(folder)
        except OSError as error:
            raise UsageError(f"-C {printable(folder)}: {error.strerror}") from None
    here = os.getcwd()
    settings = read_settings(here)
    flat = {key.replace("-", "_"): value for key, value in settings.items()}
    ctx.default_map = dict.fromkeys(COMMANDS, flat)
    root = workdir or settings.get("workdir") or "workdir"
    given = "".join(f" {name} {shlex.quote(value)}" for name, value in (("-C", folder), ("-w", workdir)) if value)
    ctx.obj = Project(here, os.path.join(here, root), given, quiet, verbose, debug)


def main() -> None:
    """Run `sc` and exit with its code; every error ends here, as one line on stderr."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:  # closed by `2>&-`: without this the first word said ends the command, unheard
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
            setattr(sys, name, os.fdopen(number, "w"))
    debug = "--debug" in sys.argv[1:] or os.environ.get("SC_DEBUG", "").lower() in ("1", "true", "yes", "on", "t", "y")
    try:
        code = sc.main(prog_name="sc", standalone_mode=False)
    except click.exceptions.Exit as end:
        code = end.exit_code
    except click.ClickException as error:
        error.show()
        _say_if_from_file(error)
        _say_where_it_goes(error)
        code = EXIT_USAGE
    except (click.Abort, KeyboardInterrupt):
        code = 130
    except (BrokenPipeError, SystemExit):  # click makes the second of the first, with the code of an internal error
        code = _reader_went_away()
    except ScError as error:
        code = _tell(error, debug)
    except Exception as error:  # noqa: BLE001 - the last stop: without it a fault of ours shows as a traceback
        code = _tell_internal(error, debug)
    sys.exit(code if isinstance(code, int) else 0)


def _say_where_it_goes(error: click.ClickException) -> None:
    """An option of `sc` itself that was given to a command: `sc crawl -q`."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None or error.ctx.parent is None:
        return
    own = {spelling for parameter in sc.params for spelling in parameter.opts}
    if error.option_name in own and error.ctx.info_name:
        click.echo(f"It goes before the command: sc {error.option_name} {error.ctx.info_name}", err=True)


def _say_if_from_file(error: click.ClickException) -> None:
    """Click names the flag and the variable of a wrong value; say so where it is sc.toml that sets it."""
    if not isinstance(error, click.BadParameter) or not error.ctx or not error.param or not error.param.name:
        return
    if error.ctx.get_parameter_source(error.param.name) is click.core.ParameterSource.DEFAULT_MAP:
        click.echo(f"It is set in {FILE}.", err=True)


def _tell(error: ScError, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    click.echo(f"sc: {error}", err=True)
    if isinstance(error, PluginError) and error.detail:
        click.echo(_users_part(error.detail), err=True)
    return next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), EXIT_INTERNAL)


def _users_part(trace: str) -> str:
    """The last lines of the user's own traceback: where in their file, and what."""
    lines = [line for line in trace.rstrip().splitlines() if not line.startswith("Traceback ")]
    return "\n".join("  " + printable(line[:500]) for line in lines[-4:])


def _tell_internal(error: Exception, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    click.echo(f"sc: internal error: {type(error).__name__}: {printable(str(error))}", err=True)
    click.echo("sc: nothing is lost; please report it with the output of the same command with --debug", err=True)
    return EXIT_INTERNAL


def _reader_went_away() -> int:
    """`sc show 7 | head`: the reader has enough. Without the dup2 Python complains once more while it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141
