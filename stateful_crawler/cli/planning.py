"""The command that only looks ahead: plan. It needs no lock and works while a crawl runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from stateful_crawler.cli import Project
from stateful_crawler.cli.checking import print_json_list
from stateful_crawler.cli.options import Size, as_json, count, names_argument, setting, task_name
from stateful_crawler.errors import UsageError, printable
from stateful_crawler.workdir import Workdir

if TYPE_CHECKING:
    from stateful_crawler.dryrun import Planned

SHOWN_BYTES = 64 * 1024  # of a body


@click.command()
@names_argument
@setting("--full", is_flag=True, help="Show each request byte for byte, as libcurl makes it.")
@setting("--secrets", is_flag=True, help="Show passwords, tokens and cookies too.")
@setting("--max-size", type=Size(), default="64M", show_default=True, help="The largest body that is kept.")
@as_json
@click.pass_obj
def plan(project: Project, names: tuple[str, ...], full: bool, secrets: bool, max_size: int, as_json: bool) -> None:
    """Show what would be sent for the tasks NAMES, or for all that a crawl would take, and where the page would go.

    Nothing is sent, and no name is looked up.
    """
    from stateful_crawler.dryrun import planned

    workdir = Workdir(project.workdir)
    if not os.path.isdir(workdir.root):
        raise UsageError(
            f"there is no workdir {printable(project.workdir)}; `sc init` makes one, `-w DIR` names another"
        )
    found = planned(workdir, [task_name(name) for name in names], max_size, full=full)
    if as_json:
        print_json_list(_as_dict(one, full, secrets) for one in found)
        return
    total = problems = 0
    for one in found:
        total += 1
        problems += bool(one.problem)
        _show(one, full, secrets)
    if not project.quiet:
        failing = f", {problems} of them would fail" if problems else ""
        click.echo(f"{count(total, 'task')}{failing}; nothing was sent", err=True)


def _show(one: Planned, full: bool, secrets: bool) -> None:
    click.echo(_line(one, full, secrets))
    if full and one.request:
        for note in one.notes:
            click.echo(f"# {printable(note)}")
        click.echo(_shown(one, secrets))


def _line(one: Planned, full: bool, secrets: bool) -> str:
    """`GET http://h/ -> html/7.html (what matters)`, or what is wrong."""
    if one.problem:
        return f"{_problem(one, secrets)}; it would fail"
    facts = [f"{count(one.body_bytes, 'byte')} of body"] if one.body_bytes is not None else []
    if one.saved:
        facts.append("saved already: would only be parsed")
    if one.state in ("success", "error"):
        facts.append(f"in {one.state}/: a crawl leaves it alone")
    if not full:
        facts += [note for note in one.notes if note != "follows redirects"]
    more = f" ({'; '.join(printable(fact) for fact in facts)})" if facts else ""
    return f"{printable(one.method)} {printable(_url(one, secrets))} -> {printable(one.output)}{more}"


def _problem(one: Planned, secrets: bool) -> str:
    from stateful_crawler.redact import redact_text

    return one.problem if secrets else redact_text(one.problem)


def _url(one: Planned, secrets: bool) -> str:
    from stateful_crawler.redact import redact_url

    return one.url if secrets else redact_url(one.url)


def _request(one: Planned, secrets: bool) -> bytes:
    from stateful_crawler.dryrun import without_secrets

    return one.request if secrets else without_secrets(one.request)


def _shown(one: Planned, secrets: bool) -> str:
    """The request for a terminal: its lines with `> ` before the head's, a body that is no text told in words."""
    head, _, body = _request(one, secrets).partition(b"\r\n\r\n")
    lines = [f"> {printable(line)}" for line in _text(head).split("\r\n")] + [">"]
    if not body:
        return "\n".join(lines)
    text = _text(body[:SHOWN_BYTES])
    plain = all(char.isprintable() or char in "\r\n\t" for char in text)
    if not plain:
        return "\n".join([*lines, f"  ({count(len(body), 'byte')} that are no text)"])
    lines += [f"  {printable(line)}" for line in text.replace("\r\n", "\n").split("\n")]
    return "\n".join(lines + ([f"  (and {len(body) - SHOWN_BYTES} bytes more)"] if len(body) > SHOWN_BYTES else []))


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _as_dict(one: Planned, full: bool, secrets: bool) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": printable(one.name),
        "state": one.state,
        "method": one.method,
        "url": printable(_url(one, secrets)),
        "output": printable(one.output),
        "body_bytes": one.body_bytes,
        "saved": one.saved,
        "problem": _problem(one, secrets) or None,
        "notes": list(one.notes),
    }
    # latin-1: each byte as the character of the same number, so that a program gets the very bytes back.
    return facts | ({"request": _request(one, secrets).decode("latin-1")} if full else {})
