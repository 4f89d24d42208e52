"""Several transfers in one config: which they are, and a config of each; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stateful_crawler.curl.config import Option, format_option, needs_globoff
from stateful_crawler.lint import pattern
from stateful_crawler.lint.line import word_of
from stateful_crawler.record import RECORD


class Row(NamedTuple):
    """A line of the file: its number, what it should be, what it says; both empty where it goes."""

    number: int
    lines: tuple[str, ...]
    options: tuple[Option, ...] = ()

    def has(self, *names: str) -> bool:
        """Whether it holds one of these options."""
        return any(option.name in names for option in self.options)


_SLOTS = ("output", "remote-name", "out-null")  # the n-th of them belongs to the n-th url
_OWN = ("url", "upload-file", *_SLOTS)


def operations(rows: Sequence[Row]) -> list[list[Row]]:
    """The rows between `next` and `next`; one without a url belongs to the one after it, as curl has it."""
    found: list[list[Row]] = [[]]
    for row in rows:
        if row.has("next"):
            if any(one.has("url") for one in found[-1]):
                found.append([])
        else:
            found[-1].append(row)
    if len(found) > 1 and not any(row.has("url") for row in found[-1]):
        tail = found.pop()
        found[-1] += [row for row in tail if not row.options]
    return found


def split(rows: Sequence[Row], name: str) -> list[str]:
    """A config for each transfer, for files NAME-1, NAME-2, ...; its lines stand as they stood."""
    parts: list[list[str]] = []
    known: list[str] = []  # what `next` does not forget: variables, and who made the task
    for operation in operations(rows):
        lasting = [line for row in operation for line in row.lines if _lasts(line)]
        for lines in _transfers(operation):
            parts.append([*(line for line in known if line not in lines), *lines])
        known += [line for line in lasting if line not in known]
    return ["".join(f"{line}\n" for line in _with_output(part, f"{name}-{at}")) for at, part in enumerate(parts, 1)]


def _lasts(line: str) -> bool:
    return word_of(line) == "variable" or (line.startswith(RECORD) and '"by"' in line)


def _transfers(operation: Sequence[Row]) -> Iterator[list[str]]:
    rows = [single for row in operation for single in _singles(row)]
    urls = [row for row in rows if row.has("url")]
    slots = [row for row in rows if row.has(*_SLOTS)]
    uploads = [row for row in rows if row.has("upload-file")]
    globbed = not {option.name: option.value for row in rows for option in row.options}.get("globoff")
    for at, url in enumerate(urls):
        own = [url, *slots[at : at + 1], *uploads[at : at + 1]]
        lines = [row for row in rows if not row.has(*_OWN) or any(row is one for one in own)]
        address, output = _text(url), _text(slots[at]) if at < len(slots) and slots[at].has("output") else None
        if not globbed or not needs_globoff(address) or not pattern.expand(address):
            yield [line for row in lines for line in row.lines]
            continue
        for one, place in pattern.with_outputs(address, output):
            yield list(_in_place(lines, url, one, place, needs_globoff(one)))


def _singles(row: Row) -> list[Row]:
    """The row as one row for each option, if it holds several and one of them belongs to one url alone."""
    if len(row.options) < 2 or not row.has(*_OWN):
        return [row]
    return [Row(row.number, (format_option(option),), (option,)) for option in row.options]


def _text(row: Row) -> str:
    return next((str(option.value) for option in row.options if option.name in _OWN), "")


def _in_place(rows: Sequence[Row], url: Row, address: str, output: str | None, literal: bool) -> Iterator[str]:
    for row in rows:
        if row is url:
            yield format_option(Option("url", address))
            if literal:
                yield "globoff"
        elif row.has("output"):
            if output is not None:
                yield format_option(Option("output", output))
        else:
            yield from row.lines


def _with_output(lines: Sequence[str], name: str) -> Iterator[str]:
    """The lines, with an output of its own behind the url where there is none."""
    needed = not any(word_of(line) in ("output", "remote-name", "remote-name-all", "expand-output") for line in lines)
    needed = needed and not any(line.startswith(("-o", "-O")) for line in lines)
    for line in lines:
        yield line
        if needed and word_of(line) in ("url", "expand-url"):
            yield format_option(Option("output", f"html/{name}.html"))
            needed = False
