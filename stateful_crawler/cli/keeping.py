"""Commands that keep a workdir in order: requeue and fsck."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import click

from stateful_crawler.cli import EXIT_DAMAGE, Project
from stateful_crawler.cli.options import as_json, count, names_argument, print_json, setting, task_name
from stateful_crawler.errors import UsageError, printable
from stateful_crawler.workdir import Workdir


@click.command()
@names_argument
@setting("--state", type=click.Choice(["success", "error"]), help="All tasks of this state.")
@as_json
@click.pass_obj
def requeue(project: Project, names: tuple[str, ...], state: Any, as_json: bool) -> None:
    """Put the tasks NAMES, or all of one state, back into origin/. Their pages stay where they are."""
    from stateful_crawler import crawl

    if not names and not state:
        raise UsageError("name the tasks, or give --state success or --state error")
    workdir = Workdir(project.workdir).open(create=False)
    moved, refused = crawl.requeue(workdir, [task_name(name) for name in names], state, argv=["sc", "requeue"])
    if as_json:
        print_json({"requeued": moved, "refused": refused})
    elif not project.quiet:
        click.echo(f"{count(len(moved), 'task')} put back into origin/", err=True)
    for name, why in refused.items():
        click.echo(f"sc: {printable(name)} {why}", err=True)
    if refused and not moved:
        raise UsageError("no task was put back")


@click.command()
@setting("--fix", is_flag=True, help="Mend what can be mended without guessing.")
@as_json
@click.pass_obj
def fsck(project: Project, fix: bool, as_json: bool) -> None:
    """Check that the folder is as it should be, and tell what is not. Exit code 9 where damage remains."""
    from stateful_crawler import fsck as checks

    workdir = Workdir(project.workdir)
    if not os.path.isdir(workdir.root):
        raise UsageError(f"there is no workdir {printable(project.workdir)}")
    findings, damage = [], False
    with workdir.open().lock(["sc", "fsck"]):
        for finding in list(checks.check(workdir)):
            mended = fix and checks.mend(workdir, finding)
            damage = damage or (finding.is_damage and not mended)
            findings.append(dataclasses.asdict(finding) | {"mended": mended})
            if not as_json:
                note = (
                    "mended" if mended else f"--fix would: {finding.mend}" if finding.mend and not fix else finding.mend
                )
                click.echo(
                    f"{printable(finding.path)}: {finding.kind}: {finding.detail}" + (f" ({note})" if note else "")
                )
    if as_json:
        print_json(findings)
    elif not findings and not project.quiet:
        click.echo("all is well", err=True)
    click.get_current_context().exit(EXIT_DAMAGE if damage else 0)
