"""What is wrong with a config as a whole: options that are missing, that repeat, that say one thing here and another to
curl; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from stateful_crawler.curl.config import Option, needs_globoff
from stateful_crawler.curl.options import OPTIONS
from stateful_crawler.curl.values import shown
from stateful_crawler.errors import where
from stateful_crawler.lint.ages import ADDED
from stateful_crawler.lint.findings import Fault
from stateful_crawler.lint.paths import folder_for, moved
from stateful_crawler.lint.transfers import Row

Placed = tuple[int | None, Fault]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://").match


def warnings(rows: Sequence[Row]) -> Iterator[Placed]:
    """What to know of the options of one transfer, with the line of each."""
    options = [(row.number, option) for row in rows for option in row.options]
    last = {option.name: option.value for _, option in options}
    for number, option in options:
        yield from ((number, fault) for fault in _of_option(option, last))
    yield from _repeated(options)
    yield from ((row.number, _long(line)) for row in rows for line in row.lines if len(line) > 100_000 and row.options)


def page_outside(option: Option, last: Mapping[str, str | bool]) -> str | None:
    """`html`, if the task's page would not be saved below it: an output may be any name with an output-dir in front."""
    if option.name != "output" or not option.value:
        return None
    folder = str(last.get("output-dir") or "")
    return folder_for("output", f"{folder}/{option.value}" if folder else str(option.value))


def _of_option(option: Option, last: Mapping[str, str | bool]) -> Iterator[Fault]:
    known, value = OPTIONS[option.name], str(option.value)
    if known.verdict == "no-effect":
        yield Fault("no-effect", f'option "{option.name}": {known.note}')
    elif version := ADDED.get(option.name):
        yield Fault("newer-option", f'option "{option.name}" is new in curl {version}')
    if folder := page_outside(option, last):
        better = None if "output-dir" in last else moved(value, folder)
        fix = f'write {option.name} = "{better}"' if better else f"name a file under {folder}/"
        yield Fault("outside", f'"{shown(value)}" is not under {folder}/', fix, better is not None)
    if check := _CHECKS.get(option.name):
        yield from check(value, last)
    if known.kind == "file" and value.startswith("~/"):
        yield Fault("tilde", f'"{shown(value)}" begins with ~')


def _url(value: str, last: Mapping[str, str | bool]) -> Iterator[Fault]:
    scheme = _SCHEME(value)
    if scheme and scheme[1].lower() not in ("http", "https"):
        yield Fault("scheme", f'"{shown(value)}" is neither http nor https')
    if value and not scheme and "proto-default" not in last:
        yield Fault("no-scheme", f'no http:// or https:// in "{shown(value)}"')


def _header(value: str, last: Mapping[str, str | bool]) -> Iterator[Fault]:
    name, _, content = value.partition(":")
    if name.lower() == "accept-encoding" and content.strip() not in ("", "identity") and not last.get("compressed"):
        yield Fault("packed-body", f'"{shown(value)}" without compressed', mends=True)


def _request(value: str, last: Mapping[str, str | bool]) -> Iterator[Fault]:
    if value == "HEAD" and not last.get("head"):
        yield Fault("request-head", "request HEAD without the option head", mends=True)
    if value.islower() and value.upper() in ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"):
        yield Fault("lower-case-method", f'the method is "{value}"', f'write request = "{value.upper()}"')


def _cookie_jar(value: str, last: Mapping[str, str | bool]) -> Iterator[Fault]:
    if value and "cookie" not in last:
        yield Fault(
            "unread-jar", f'the jar "{shown(value)}" is never read', f'add cookie = "{shown(value)}"', mends=True
        )


def _remote_name(value: str, last: Mapping[str, str | bool]) -> Iterator[Fault]:
    if value == "True" and "output-dir" not in last:
        yield Fault("remote-name", "the page is named after its url, and no folder is named")


def _insecure(value: str, _last: Mapping[str, str | bool]) -> Iterator[Fault]:
    if value == "True":
        yield Fault("insecure", "the server's certificate is not checked")


_CHECKS = {
    "url": _url,
    "header": _header,
    "request": _request,
    "cookie-jar": _cookie_jar,
    "remote-name": _remote_name,
    "remote-name-all": _remote_name,
    "insecure": _insecure,
    "proxy-insecure": _insecure,
}


def _repeated(options: Sequence[tuple[int, Option]]) -> Iterator[Placed]:
    first: dict[str, tuple[int, Option]] = {}
    for number, option in options:
        if OPTIONS[option.name].repeats or option.name in ("output", "url", "next"):
            continue
        if option.name in first:
            yield (
                number,
                Fault(
                    "repeated-option", f'option "{option.name}" stands in {where("line", first[option.name][0])} too'
                ),
            )
        first[option.name] = (number, option)


def _long(line: str) -> Fault:
    return Fault("long-line", f"a line of {len(line.encode('utf-8', 'surrogateescape'))} bytes")


def has_page(last: Mapping[str, str | bool]) -> bool:
    """Whether the options say where the page goes, so that curl does not print it."""
    return bool({"output", "out-null"} & last.keys() or last.get("remote-name") or last.get("remote-name-all"))


def literal(url: str, last: Mapping[str, str | bool]) -> bool:
    """Whether curl takes the url as it stands."""
    return bool(last.get("globoff")) or not needs_globoff(url)
