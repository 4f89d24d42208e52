"""The command import-curl: tasks out of curl commands that someone pastes."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from stateful_crawler.cli import EXIT_USAGE, Project
from stateful_crawler.cli.options import as_json, count, print_json, setting
from stateful_crawler.curl.bash import Command, Fault
from stateful_crawler.curl.command import is_curl
from stateful_crawler.errors import EnvironmentFault, UsageError, printable, where
from stateful_crawler.workdir import Workdir

if TYPE_CHECKING:
    from stateful_crawler.curlimport import Imported, Wish
    from stateful_crawler.task import Task

Shell = Literal["auto", "bash", "cmd"]


class _Found(NamedTuple):
    """A curl command and where it stands; `source` is a file's path, or what the input is called."""

    source: str
    command: Command


class _ImportCurl(click.Command):
    """A command line of curl's own may stand at the end as it is: from the word curl on no option is ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        valued = {
            name
            for param in self.params
            if isinstance(param, click.Option) and not param.is_flag
            for name in param.opts
        }
        for at, word in enumerate(args):
            if word == "--":
                break
            if is_curl(word) and (at == 0 or args[at - 1] not in valued):
                args = [*args[:at], "--", *args[at:]]
                break
        return super().parse_args(ctx, args)


@click.command("import-curl", cls=_ImportCurl)
@click.argument("sources", metavar="[SOURCES]...", nargs=-1)
@setting(
    "--shell",
    type=click.Choice(["auto", "bash", "cmd"]),
    default="auto",
    help="Whose quoting the commands have.  [default: auto]",
)
@setting("--env", is_flag=True, help="Fill in $NAME and %NAME% from the environment.")
@setting("--name", metavar="NAME", default="", help="The task's name; may hold the placeholder of --template.")
@setting("--template", metavar="TEXT", default="", help="The part that counts, as in 'page={page}'.")
@setting("--range", "range_", metavar="A..B", default="", help="What it counts through: 1..100, 1..100..10, 001..100.")
@setting("--dry-run", is_flag=True, help="Print the task files, and add none.")
@as_json
@click.pass_obj
def import_curl(
    project: Project,
    sources: tuple[str, ...],
    shell: Shell,
    env: bool,
    name: str,
    template: str,
    range_: str,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Make tasks of curl commands, as a browser's 'Copy as cURL' gives them.

    SOURCES are commands, files with commands, or - for the standard input. A command may also stand at the end as it
    is: sc import-curl curl 'https://...' -H '...'. Nothing is run, and nothing is lost silently: a command that a task
    can't hold is refused with the reason, and the others are imported.
    """
    from stateful_crawler.curlimport import Wish, numbers

    if bool(template) != bool(range_):
        raise UsageError("--template and --range go together, as in --template 'page={page}' --range 1..100")
    wish = Wish(name, template, numbers(range_) if range_ else ())
    found = list(_commands(sources, shell, env))
    if name and not template and len(found) > 1:
        raise UsageError(f"--name {printable(name)}: it names one task, and there are {len(found)} commands")
    _Import(project, wish, dry_run, as_json).run(found)


class _Import:
    """One run of the command: what became of each of the commands that were found."""

    def __init__(self, project: Project, wish: Wish, dry_run: bool, as_json: bool) -> None:
        self.project, self.wish, self.dry_run, self.as_json = project, wish, dry_run, as_json
        self.workdir = Workdir(project.workdir)
        self.tasks: list[dict[str, Any]] = []
        self.refused: list[dict[str, Any]] = []
        self.notes = Counter[str]()
        self.places: dict[str, str] = {}  # where the command of each task stands, by the task's name
        self.new = self.existing = 0

    def run(self, found: Sequence[_Found]) -> None:
        """Refuse what can't be imported, then add the rest: a wish that can't be granted ends all before a file is
        written."""
        ready = [
            (source, command.line, tasks) for source, command in found if (tasks := self.tasks_of(source, command))
        ]
        for source, line, tasks in ready:
            for one in tasks:
                self.add(source, line, one.task)
                self.notes.update(f"{where(source, line)}: {note}" for note in one.notes)
        self.report()
        if self.refused:
            raise click.exceptions.Exit(EXIT_USAGE)

    def tasks_of(self, source: str, command: Command) -> Iterator[Imported] | None:
        from stateful_crawler.curl.values import LineError
        from stateful_crawler.curlimport import tasks_of

        fault = command.fault
        try:
            if not fault:
                return tasks_of(command.words[1:], self.wish)
        except LineError as error:
            fault = Fault(command.line, error.problem, error.hint)
        self.refuse(source, fault)
        return None

    def add(self, source: str, line: int, task: Task) -> None:
        place = where(source, line)
        if earlier := self.places.get(task.name):
            self.notes[f"{place}: the same url, method and body as in {earlier}; --name adds it all the same"] += 1
        self.places.setdefault(task.name, place)
        if self.dry_run:
            is_new = self.workdir.state_of(task.name) is None
        else:
            if len(self.places) == 1:
                self.workdir.open()  # not before: without a task no folder is to be left behind
            is_new = self.workdir.add(task)
        self.new, self.existing = self.new + is_new, self.existing + (not is_new)
        if self.as_json:
            fact = {"name": task.name, "url": task.url, "source": source, "line": line, "new": is_new}
            self.tasks.append(fact | ({"text": task.text().decode("utf-8", "replace")} if self.dry_run else {}))
        elif self.dry_run:
            click.echo(b"# origin/%b.conf\n%b" % (os.fsencode(task.name), task.text()))

    def refuse(self, source: str, fault: Fault) -> None:
        self.refused.append({"source": source, "line": fault.line, "problem": fault.problem, "hint": fault.hint})
        hint = f" ({fault.hint})" if fault.hint else ""
        click.echo(f"sc: {where(source, fault.line)}: {printable(fault.problem + hint)}", err=True)

    def report(self) -> None:
        if self.as_json:
            counts = {"created": self.new, "existing": self.existing, "dry_run": self.dry_run}
            print_json({**counts, "tasks": self.tasks, "refused": self.refused, "notes": list(self.notes)})
        if self.project.quiet:
            return
        for note in self.notes:
            click.echo(printable(note), err=True)
        if self.as_json:
            return
        skipped = f", {self.existing} {'exists' if self.existing == 1 else 'exist'} already" if self.existing else ""
        refused = f", {count(len(self.refused), 'command')} refused" if self.refused else ""
        folder = printable(os.path.relpath(self.workdir.path("origin", "", "")))
        done = "would be imported into" if self.dry_run else "imported into"
        click.echo(f"{count(self.new, 'task')} {done} {folder}{skipped}{refused}", err=True)


def _commands(sources: Sequence[str], shell: Shell, env: bool) -> Iterator[_Found]:
    """The curl commands of all sources; those of words that a shell has split already are taken as they are."""
    from stateful_crawler.curlimport import read_commands

    if len(sources) > 1 and is_curl(sources[0]):
        yield _Found("the command line", Command(1, list(sources)))
        return
    any_found = False
    for source, text in _texts(sources):
        for command in read_commands(text, shell, os.environ if env else None):
            any_found = True
            yield _Found(source, command)
    if not any_found:
        raise UsageError("there is no curl command in what was given")


def _texts(sources: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each source's name and text. A word with a blank in it that begins as a command does is the command itself."""
    if not sources:
        if sys.stdin.isatty():
            raise UsageError("no curl command given; paste one after `sc import-curl`, or name a file, or - for stdin")
        sources = ("-",)
    for source in sources:
        if source == "-":
            yield "stdin", _decoded(sys.stdin.buffer.read())
        elif _is_text(source):
            yield "argument", source
        else:
            try:
                with open(source, "rb") as file:
                    yield source, _decoded(file.read())
            except FileNotFoundError:
                hint = "a command is given in one word, or as it is at the end: sc import-curl curl 'URL'"
                raise UsageError(f"{printable(source)}: no such file ({hint})") from None
            except OSError as error:
                raise EnvironmentFault.from_os("can't read", source, error) from error


def _is_text(source: str) -> bool:
    return any(char in source.strip() for char in " \n\t") and not os.path.exists(source)


def _decoded(data: bytes) -> str:
    """UTF-8, or what a byte order mark says: Windows' clipboard often ends up in a file of UTF-16."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
