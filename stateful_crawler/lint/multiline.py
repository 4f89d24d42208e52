"""A value whose quote is not closed on its line: does it go on below, or is only the quote missing; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from stateful_crawler.curl.config import Option, format_option
from stateful_crawler.curl.options import OPTIONS
from stateful_crawler.lint.findings import Fault
from stateful_crawler.lint.line import Look, is_next, look, word_of
from stateful_crawler.lint.value import lost, unescaped


class Value(NamedTuple):
    """A value that may go on below: the index of its last line, and all as one line; empty where no one knows."""

    end: int
    joined: str = ""


_OPEN = re.compile(r'[ \t]*(?:--)?([a-z][a-z0-9.-]*)[ \t=:]+"([^"\\]*(?:\\.[^"\\]*)*)').fullmatch
_QUOTE = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"([ \t]*$)?').match
_MAY_HOLD_LINES = ("form-string", "write-out")  # beside bodies


def value(lines: Sequence[str], at: int, seen: Look) -> Value | None:
    """The value that line `at` opens and does not close; None where the line is to be read alone, as it was seen."""
    codes = {fault.code for fault in seen.faults}
    if "single-quotes" in codes and not seen.readable:
        end = _apostrophe(lines, at)
        return None if end is None else Value(end)
    if "open-quote" not in codes:
        return None
    end = _close(lines, at)
    if end is not None:
        return Value(end, _joined(lines, at, end))
    if "continued-line" in codes or not _ends_well(lines[at + 1 :]):
        return Value(at)
    return None


def left(lines: Sequence[str], at: int, end: int, seen: Look) -> Look:
    """What is told of lines that stay as they are: `seen` is the look of the first."""
    faults = [fault._replace(mends=False) for fault in seen.faults if fault.code != "open-quote"]
    if len(faults) < len(seen.faults):
        below = f", and the next one in line {end + 1}" if end > at else ""
        fix = 'close it; in a body a line end is \\n, a quote is \\"'
        faults.append(Fault("open-quote", f"no closing quote on this line{below}", fix))
    return Look(tuple(faults), tuple(lines[at : end + 1]), readable=False)


def _close(lines: Sequence[str], at: int) -> int | None:
    """The line below whose end is the next quote; None where that stands inside a line, or nowhere."""
    for end in range(at + 1, len(lines)):
        if found := _QUOTE(lines[end]):
            return None if found[1] is None else end
    return None


def _apostrophe(lines: Sequence[str], at: int) -> int | None:
    """The same for single quotes."""
    if lines[at].count("'") != 1:
        return None
    end = next((end for end in range(at + 1, len(lines)) if "'" in lines[end]), None)
    return None if end is None or lines[end].rstrip(" \t").find("'") != len(lines[end].rstrip(" \t")) - 1 else end


def _joined(lines: Sequence[str], at: int, end: int) -> str:
    """The value as one line; empty where one of its lines may be meant for another thing."""
    opened = _OPEN(lines[at])
    known = OPTIONS.get(opened[1]) if opened else None
    if not opened or not known or any(map(_means_something, lines[at + 1 : end + 1])):
        return ""
    inner = "\n".join([opened[2], *lines[at + 1 : end], lines[end].rstrip(" \t")[:-1]])
    if lost(inner) or (known.kind != "body" and known.name not in _MAY_HOLD_LINES):
        return ""
    try:
        return format_option(Option(known.name, unescaped(inner)))
    except ValueError:  # what no line can hold
        return ""


def _means_something(line: str) -> bool:
    """Whether a line may stand for itself: a blank one, a comment, an option."""
    text = line.strip(" \t")
    name = word_of(line).removeprefix("expand-").removeprefix("no-").lower()
    return not text or text[0] == "#" or is_next(line) or name in OPTIONS or bool(look(line).options)


def _ends_well(below: Sequence[str]) -> bool:
    """Whether the first line below that is no comment is an option, or one when it is mended; or there is none."""
    for line in below:
        seen = look(line)
        if not seen.readable or seen.options:
            return seen.readable
    return True
