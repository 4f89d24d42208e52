"""Commands that look at tasks before they are run: lint."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import click

from stateful_crawler.cli import EXIT_TASKS_FAILED, Project
from stateful_crawler.cli.options import as_json, count, setting
from stateful_crawler.errors import NameTaken, UsageError, printable, where
from stateful_crawler.workdir import Workdir


@click.command()
@click.argument("files", nargs=-1)
@setting("--fix", is_flag=True, help="Mend what can be mended without guessing.")
@as_json
@click.pass_obj
def lint(project: Project, files: tuple[str, ...], fix: bool, as_json: bool) -> None:
    """Look for what curl or the crawl would read otherwise than it is meant, in FILES or in all tasks.

    FILES are config files, folders, names of tasks, or - for the standard input. Exit code 3 where errors are left.
    """
    from stateful_crawler import lintfiles

    workdir = Workdir(project.workdir)
    lintfiles.must_exist(workdir, files)
    through = fix and lintfiles.STDIN in files
    if through and (as_json or len(files) > 1):
        raise UsageError(
            "--fix prints the mended text of - on stdout, so it goes with no other file and without --json"
        )
    totals = Counter[str]()
    if fix:
        with lintfiles.locked(workdir, files):
            _tell(_counted(_mended(workdir, files), totals), as_json, to_stderr=through)
    else:
        _tell(_counted(_found(workdir, files), totals), as_json, to_stderr=False)
    if not project.quiet and not as_json:
        _sum_up(totals, fix)
    click.get_current_context().exit(EXIT_TASKS_FAILED if totals["error"] or totals["refused"] else 0)


def _found(workdir: Workdir, words: tuple[str, ...]) -> Iterator[dict[str, Any] | None]:
    """Every finding; None after each file."""
    from stateful_crawler import lintfiles

    for config in lintfiles.configs(workdir, words):
        yield from (_as_dict(config.shown, found) for found in config.look().findings)
        yield None


def _mended(workdir: Workdir, words: tuple[str, ...]) -> Iterator[dict[str, Any] | None]:
    """What was mended, then what is left, at its place in the mended file."""
    from stateful_crawler import lintfiles
    from stateful_crawler.lint import lint as look

    for config in lintfiles.configs(workdir, words):
        report = config.look()
        mends = any(found.mends for found in report.findings)
        refused = ""
        if not config.path:
            # Several texts are not one config: then it stays as it came.
            mends = mends and len(report.texts) == 1
            text = report.texts[0] if mends else config.text
            click.echo(text.encode("utf-8", "surrogateescape"), nl=False)
        elif mends:
            try:
                paths = lintfiles.write(workdir, config, report.texts)
            except NameTaken as taken:
                mends, refused = False, str(taken)
        if not mends:
            yield from (_as_dict(config.shown, f) | {"refused": refused} for f in report.findings)
        else:
            yield from (_as_dict(config.shown, found) | {"mended": True} for found in report.findings if found.mends)
            single = len(report.texts) == 1
            for number, text in enumerate(report.texts, 1):
                shown = config.shown if single else lintfiles.near(paths[number - 1])
                name = config.name if single else f"{config.name}-{number}"
                yield from (_as_dict(shown, found) for found in look(text, name).findings)
        yield None


def _as_dict(file: str, found: Any) -> dict[str, Any]:
    facts = found._asdict()
    facts["fixable"] = facts.pop("mends")
    return {"file": printable(file), **facts, "mended": False, "refused": ""}


def _counted(findings: Iterable[dict[str, Any] | None], totals: Counter[str]) -> Iterator[dict[str, Any]]:
    for facts in findings:
        if facts is None:
            totals["file"] += 1
            continue
        totals["mended" if facts["mended"] else facts["level"]] += 1
        totals["fixable"] += facts["fixable"] and not facts["mended"]
        totals["refused"] += bool(facts["refused"])
        yield facts


def _tell(findings: Iterator[dict[str, Any]], as_json: bool, *, to_stderr: bool) -> None:
    if as_json:
        print_json_list(findings)
        return
    for facts in findings:
        mended = " (mended)" if facts["mended"] else ""
        place = where(facts["file"], facts["line"])
        click.echo(f"{place}: {facts['level']}: {printable(facts['what'])} [{facts['code']}]{mended}", err=to_stderr)
        if not facts["mended"]:
            click.echo(f"    why: {printable(facts['why'])}", err=to_stderr)
            fix = printable(facts["fix"]) + (" (--fix does)" if facts["fixable"] else "")
            if facts["refused"]:
                click.echo(f"    not mended: {facts['refused']}", err=to_stderr)
            elif facts["fix"]:
                click.echo(f"    fix: {fix}", err=to_stderr)


def print_json_list(values: Iterable[object]) -> None:
    """A JSON list on stdout, value by value: there may be a million."""
    separator = "["
    for value in values:
        click.echo(f"{separator}\n  {json.dumps(value)}", nl=False)
        separator = ","
    click.echo("[]" if separator == "[" else "\n]")


def _sum_up(totals: Counter[str], fix: bool) -> None:
    parts = [count(totals["error"], "error"), count(totals["warning"], "warning")]
    mended = f", {totals['mended']} mended" if fix else ""
    could = f" (--fix mends {totals['fixable']})" if totals["fixable"] and not fix else ""
    click.echo(f"{count(totals['file'], 'file')}: {', '.join(parts)}{mended}{could}", err=True)
