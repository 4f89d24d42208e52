"""One line of a config: what is wrong with it, and what it was meant to say; pure.

A line goes through a row of small repairs, each of which knows one trap. Whatever comes out is read by the grammar of
the task file itself, so a mended line is never one that the crawl would refuse.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stateful_crawler.curl.config import Option, format_option, read_line
from stateful_crawler.curl.options import OPTIONS, SHORT, CurlOption, nearest
from stateful_crawler.curl.values import LineError, Outside, Refused, shown
from stateful_crawler.curl.variables import Variables
from stateful_crawler.lint.findings import KINDS, Fault, Unclear
from stateful_crawler.lint.value import Said, switch, uncommented, value


class Look(NamedTuple):
    """What one line says. `lines` is the line as it should be, several where it held several; `options` what these say,
    empty where the crawl can't read them."""

    faults: tuple[Fault, ...]
    lines: tuple[str, ...]
    options: tuple[Option, ...] = ()
    readable: bool = True


def look(line: str) -> Look:
    """What is wrong with a line that has no line end and no carriage return any more."""
    return _look_short(line) if len(line) <= 200 else _look(line)


def read(line: str) -> tuple[Option, ...]:
    """The options of a line by the grammar of the task file; raises LineError."""
    options = read_line(line)
    for option in options:
        if option.name == "variable":
            Variables(lambda _path: b"").set(str(option.value))
    return options


def _unknown_yet(option: Option) -> Option:
    """`expand-NAME` as NAME without a value: what it comes to is known only together with the variables of the file."""
    return Option(option.name.removeprefix("expand-"), "") if option.name.startswith("expand-") else option


def word_of(line: str) -> str:
    """The long name that a line begins with, dashes gone."""
    found = re.match(r"[ \t]*(?:--)?([^ \t=:]*)", line)
    return found[1] if found else ""


def is_next(line: str) -> bool:
    """Whether the line ends one transfer and begins another."""
    return line.strip() in ("next", "--next", "-:")


def _look(line: str) -> Look:
    text = line.lstrip(" \t").rstrip(" \t\r")
    if text.strip("\0")[:1] in ("", "#"):  # NULs are what a power cut leaves of a record
        return Look((), (line,))
    if is_next(text):
        return Look((), (line,), (Option("next", True),))
    if _COMMAND(text):
        what = "this is a curl command line, not a curl config file"
        return Look((Fault("command-line", what),), (line,), readable=False)
    faults: list[Fault] = []
    if line[0] in " \t":
        faults.append(Fault("indent", "an indented option", mends=True))
    if text.endswith(_CONTINUED):
        faults.append(Fault("continued-line", f'"{text[-1]}" at the end of the line', mends=True))
        text = text[:-1].rstrip(" \t")
    try:
        lines = _repair(text, faults)
    except Unclear as unclear:
        broken = [fault._replace(mends=False) for fault in faults]
        return Look((*broken, *_refused(line, unclear.fault)), (line,), readable=False)
    if any(not fault.mends for fault in faults):  # to write the line anew would settle what is only told
        return _checked(line, [line], [fault._replace(mends=False) for fault in faults])
    return _checked(line, lines if faults else [line], faults)


_look_short = functools.lru_cache(maxsize=4096)(_look)
_COMMAND = re.compile(r"(?!-)(?:[$>%][ \t]*)?(?:[^ \t=:\"']*[/\\])?curl(?:\.exe)?(?![^ \t])").match
_CONTINUED = (" \\", " ^", "\t\\", "\t^")
_ADDRESS = re.compile(r"([\"']?)(https?://[^\"']+)\1", re.IGNORECASE).fullmatch
_HEADER = re.compile(r"([A-Z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*):[ \t]*(.+)").fullmatch
_LETTERS = re.compile(r"-([^ \t]*+)([ \t]*+)(.*)", re.DOTALL).fullmatch
_NAMED = re.compile(r"(--)?([^ \t=:]*+)([ \t=:]*+)(.*)", re.DOTALL).fullmatch
_DASHED = re.compile(r"(--)([^ \t=]*+)(=|[ \t]*+)(.*)", re.DOTALL).fullmatch


def _checked(line: str, lines: list[str], faults: list[Fault]) -> Look:
    """The look of the repaired lines, by what the grammar says of them."""
    options: list[Option] = []
    for mended in lines:
        if mended.startswith("#"):
            continue
        try:
            options += map(_unknown_yet, read(mended))
        except LineError as error:
            refusal = _refusal(error)
            known = any(fault.code == refusal.code or _stays(fault) for fault in faults)
            more = [] if known else [refusal]
            return Look((*(f._replace(mends=False) for f in faults), *more), (line,), readable=False)
    return Look(tuple(faults), tuple(lines), tuple(options))


def _refusal(error: LineError) -> Fault:
    code = {Refused: "refused-option", Outside: "outside"}.get(type(error), "bad-value")
    return Fault(code, error.problem, error.hint)


def _stays(fault: Fault) -> bool:
    return not fault.mends and KINDS[fault.code].level == "error"


def _refused(line: str, fault: Fault) -> Iterator[Fault]:
    """The fault of a line that stays, and what the grammar says of it where the fault is no more than a warning."""
    yield fault
    if not _stays(fault):
        try:
            read(line)
        except LineError as error:
            yield _refusal(error)


def _repair(text: str, faults: list[Fault]) -> list[str]:
    """The lines that `text` was meant to be; adds what had to be mended. Raises Unclear where that takes a guess."""
    if text[0] in ";[" or text.startswith(("//", "/*", "*", "/")):
        faults.append(Fault("foreign-comment", f'"{shown(text)}" is not an option', mends=True))
        return [f"# {text}"]
    if address := _ADDRESS(text):
        faults.append(Fault("bare-url", "an address without the name url before it", mends=True))
        where, comment = (address[2], "") if address[1] else uncommented("url", address[2])
        return [*_if(comment), _written(Option("url", where.strip().replace(" ", "%20")))]
    if text[0] == "-" and text[1:2] != "-":
        return _repair_letters(text, faults)
    parts = _DASHED(text) if text.startswith("--") else _NAMED(text)
    assert parts  # both match anything
    dashes, word, gap, raw = parts.groups()
    header = _HEADER(text)
    if header and word.lower() not in OPTIONS:
        what = f'"{shown(word)}" is a header of the request'
        if header[2][0] in "\"'" or header[2][-1] in "\"'":  # an ETag's are part of it
            raise Unclear("header-line", f"{what}, with quotes", 'write header = "Name: value", a quote inside is \\"')
        faults.append(Fault("header-line", what, mends=True))
        content, comment = uncommented("header", f"{word}: {header[2]}")
        return [*_if(comment), _written(Option("header", content))]
    expand = "expand-" if word.startswith("expand-") else ""
    name, on = _name(word.removeprefix(expand), faults)
    return _option(OPTIONS[name], on, Said(bool(dashes), gap, raw), faults, expand)


def _repair_letters(text: str, faults: list[Fault]) -> list[str]:
    """`-A value`, `-Avalue`, `-sSG`, `-sSAvalue`, and a long name after one dash."""
    parts = _LETTERS(text)
    assert parts  # it matches any text that begins with a dash
    letters, gap, rest = parts.groups()
    if letters.partition("=")[0].removeprefix("no-") in OPTIONS:
        faults.append(Fault("one-dash", f'"-{shown(letters)}" has one dash', mends=True))
        return _repair(f"-{text}", faults)
    lines: list[str] = []
    for index, letter in enumerate(letters, 1):
        known = SHORT.get(letter)
        if known is None:
            raise Unclear("unknown-option", f'there is no curl option "-{shown(letter)}"')
        if known.kind == "flag":
            lines.append(_written(Option(known.name, letter != "N")))
            continue
        glued = letters[index:]
        if glued[:1] in ('"', "'"):
            faults.append(Fault("glued-quotes", f"a quote glued to -{letter}", f'write {known.name} = "..."', True))
            return _option(known, True, Said(True, " ", glued + gap + rest), faults, before=lines)
        raw = glued + gap + rest if glued else rest
        return _option(known, True, Said(True, gap or " ", raw), faults, before=lines)
    if not letters:
        raise Unclear("unknown-option", 'no option name after "-"', 'write one option a line, as in url = "http://..."')
    if not rest:
        return lines
    return [*_option(SHORT[letters[-1]], letters[-1] != "N", Said(True, gap, rest), faults, before=lines[:-1])]


def _option(
    known: CurlOption, on: bool, said: Said, faults: list[Fault], expand: str = "", before: Sequence[str] = ()
) -> list[str]:
    """The lines of one option and of what stood behind it; `before` are those of letters in front."""
    if known.kind != "flag":
        if not on:
            raise Unclear("bad-value", f'option "{known.name}" can\'t be switched off with "no-"')
        text, comment = value(known, said, faults)
        return [*_if(comment), *before, expand + _written(Option(known.name, text))]
    if not said.raw and not said.gap.strip(" \t"):
        return [*before, _written(Option(known.name, on))]
    meant = switch(known, said, faults)
    line = _written(Option(known.name, on if meant.on is None else meant.on == on))
    return [*_if(meant.comment), *before, line, *(_repair(meant.more, faults) if meant.more else ())]


def _if(text: str) -> list[str]:
    return [text] if text else []


def _written(option: Option) -> str:
    try:
        return format_option(option)
    except ValueError as error:
        raise Unclear("bad-value", str(error)) from None


def _name(word: str, faults: list[Fault]) -> tuple[str, bool]:
    """The option that the word names or clearly means, and False for its `no-` form."""
    off = word.startswith("no-")
    name = word[3:] if off else word
    if name in OPTIONS:
        return name, not off
    if not word:
        raise Unclear("unknown-option", "no option name on this line", 'write one a line, as in url = "http://..."')
    spelled = name.strip("-").lower().replace("_", "-")
    squeezed = {option.replace("-", ""): option for option in OPTIONS}
    starting = [option for option in OPTIONS if option.startswith(spelled)]
    if found := spelled if spelled in OPTIONS else squeezed.get(spelled.replace("-", "")):
        faults.append(Fault("unknown-option", f'there is no curl option "{shown(word)}"', f"write {found}", True))
        return found, not off
    if len(starting) == 1 and len(spelled) > 2:
        faults.append(Fault("abbreviation", f'"{shown(word)}" is short for {starting[0]}', mends=True))
        return starting[0], not off
    near = nearest(name)
    code = "abbreviation" if starting else "unknown-option"
    raise Unclear(code, f'there is no curl option "{shown(word)}"', f'did you mean "{near}"?' if near else "")
