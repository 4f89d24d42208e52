"""Commands that only look: status and show. They need no lock and work while a crawl runs."""

from __future__ import annotations

import os
from typing import Any

import click

from stateful_crawler.cli import Project
from stateful_crawler.cli.options import as_json, print_json, setting, task_name
from stateful_crawler.errors import UsageError, printable
from stateful_crawler.workdir import STATES, Workdir

FAILING_RUNS = 3
SHOWN = 10


@click.command()
@as_json
@click.pass_obj
def status(project: Project, as_json: bool) -> None:
    """Count the tasks in each state, and say why some failed; works while a crawl runs."""
    from stateful_crawler.report import status_of

    workdir = Workdir(project.workdir)
    if not os.path.isdir(workdir.root):
        raise UsageError(
            f"there is no workdir {printable(project.workdir)}; `sc init` makes one, `-w DIR` names another"
        )
    facts = status_of(workdir, FAILING_RUNS)
    if as_json:
        print_json(facts)
        return
    click.echo("  ".join(f"{name} {facts[name]}" for name in STATES))
    ignored = f"  ignored {facts['ignored']}" if facts["ignored"] else ""
    click.echo(f"html {facts['html']}  parsed {facts['parsed']}{ignored}")
    if run := facts["running"]:
        click.echo(f"running: pid {run['pid']} on {run['host']}, since {run['started']}")
    if facts["errors"]:
        click.echo("errors: " + ", ".join(f"{reason} {count}" for reason, count in facts["errors"].items()))
    _show_failing(facts["failing"])


def _blame(task: dict[str, Any]) -> str:
    if task["page"]:
        return "its page is saved, so look at the parser"
    return "no page, so look at the " + ("task file" if task["reason"] in ("config", "io", "tls") else "address")


def _show_failing(failing: list[dict[str, Any]]) -> None:
    if not failing:
        return
    click.echo(f"failed in {FAILING_RUNS} runs or more:")
    for task in failing[:SHOWN]:
        click.echo(f"  {printable(task['name'])}: {task['times']} times, {task['reason']}; {_blame(task)}")
    if len(failing) > SHOWN:
        click.echo(f"  and {len(failing) - SHOWN} more (--json lists all)")


@click.command()
@click.argument("name")
@setting("--curl", is_flag=True, help="Print the curl command that does the same, to be run in the workdir.")
@setting(
    "--shell", type=click.Choice(["bash", "cmd"]), default="bash", help="Whose quoting --curl uses.  [default: bash]"
)
@setting("--redact", is_flag=True, help="Hide passwords, tokens, cookies and the like.")
@as_json
@click.pass_obj
def show(project: Project, name: str, curl: bool, shell: str, redact: bool, as_json: bool) -> None:
    """Show task NAME: its state, its options, what happened to it, and where its page and items are."""
    from stateful_crawler.report import facts_of

    workdir = Workdir(project.workdir)
    facts = facts_of(workdir, task_name(name))
    if facts is None:
        raise UsageError(
            f"no task {printable(name)!r} in {printable(os.path.relpath(workdir.root))}; `ls */*.conf` there lists them"
        )
    if redact:
        from stateful_crawler.redact import redact_facts

        facts = redact_facts(facts)
    if curl:
        click.echo(os.fsencode(_command(facts, shell)))
    elif as_json:
        print_json(facts)
    else:
        _show_facts(facts)


def _command(facts: dict[str, Any], shell: str) -> str:
    """The task as a curl command, an option a line."""
    from stateful_crawler.curl.bash import quote_bash
    from stateful_crawler.curl.cmd import quote_cmd
    from stateful_crawler.curl.command import lines_of
    from stateful_crawler.curl.config import Option

    if facts["problem"]:
        raise UsageError(facts["problem"])
    quote, joint = (quote_cmd, " ^\n  ") if shell == "cmd" else (quote_bash, " \\\n  ")
    try:
        lines = lines_of(Option(name, value) for name, value in facts["options"])
        return joint.join(" ".join(map(quote, line)) for line in lines)
    except ValueError as error:
        raise UsageError(f"task {printable(facts['name'])}: {error}; --shell bash can") from None


def _show_facts(facts: dict[str, Any]) -> None:
    click.echo(f"{printable(facts['name'])} is in {facts['state']}/")
    if facts["problem"]:
        click.echo(f"problem: {facts['problem']}")
    for option, value in facts["options"]:
        click.echo(f"  {_option(option, value)}")
    for label in ("page", "items", "answer"):
        if facts[label]:
            click.echo(f"{label}: {printable(facts[label])}")
    for record in facts["records"]:
        click.echo(_spoken(record))


def _option(name: str, value: str | bool) -> str:
    """An option as a task file spells it, but for the quotes."""
    if isinstance(value, bool):
        return name if value else f"no-{name}"
    return f"{name} = {printable(value)}"


def _spoken(record: dict[str, Any]) -> str:
    """A record as one line, its traceback below."""
    if "by" in record:
        parts = [f"created by {record['by']}"] + [
            f"{key} {record[key]}" for key in ("parent", "depth", "meta") if key in record
        ]
        return f"{record.get('created', '')} " + ", ".join(printable(str(part)) for part in parts)
    verdict = "ok" if record.get("ok") else f"{record.get('reason')}: {record.get('detail', '')}"
    keys = ("status", "bytes", "seconds", "items", "new_tasks", "attempt", "retry_in_s", "not_before")
    numbers = ", ".join(f"{key} {record[key]}" for key in keys if key in record)
    line = f"{record.get('at', '')} {record.get('stage', '')} {printable(verdict)}" + (
        f" ({numbers})" if numbers else ""
    )
    trace = "".join(f"\n    {printable(part)}" for part in str(record.get("traceback", "")).splitlines())
    return line + trace
