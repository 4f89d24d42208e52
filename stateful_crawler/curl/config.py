"""curl config text <-> options; pure.

An accepted line means to us what it means to curl. More forms are read than every curl reads (a BOM, CRLF, indented
lines, `--option=value`); what curl misreads in silence is refused with file, line and the way out. What is written is
the plain form that every curl since 7.61 reads alike: `name`, `no-name` or `name = "value"`.

Text comes decoded as UTF-8 with surrogateescape, so that any bytes of a file survive reading and writing.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, NoReturn

from stateful_crawler.curl.options import OPTIONS, SHORT, CurlOption, nearest
from stateful_crawler.curl.values import LineError, Refused, check_value, shown
from stateful_crawler.curl.variables import ReadFile, Variables
from stateful_crawler.errors import TaskFileError


class Option(NamedTuple):
    """One option of a task: a switch holds True or False, any other its text, unescaped."""

    name: str
    value: str | bool


def parse_config(text: str, path: str, *, read_file: ReadFile | None = None) -> list[Option]:
    """The options of one transfer in the order of the file; comments are skipped, so our records are too.

    What repeats is kept (`dict(options)` gives the last of each). `variable` and `expand-` lines are worked out here;
    `read_file` gives the bytes of a file that a variable names. TaskFileError for whatever is not exactly one transfer
    that we can make as curl would; `path` is for its message only.
    """
    lines = _lines(text, path)
    variables = Variables(read_file) if "variable" in text or "expand-" in text else None
    options: list[Option] = []
    for number, line in enumerate(lines, 1):
        if not line or line[0] == "#":
            continue
        try:
            found = _read_short_line(line) if len(line) <= 100 else _read_line(line)
            options += found if variables is None else _expand(found, variables)
        except LineError as error:
            raise TaskFileError(path, number, error.problem, error.hint) from None
    _check_transfer(options, lines, path)
    return options


def read_line(line: str) -> tuple[Option, ...]:
    """The options of one line, by itself: none of a comment, several after short letters (-sSG); raises LineError.

    `variable` and `expand-` options come as they stand: what they mean, only the lines before can tell.
    """
    return _read_line(line)


def format_option(option: Option) -> str:
    """The line of one option, without its line end; ValueError for what no line can hold (NUL, ESC, a wrong type)."""
    name, value = option
    known = OPTIONS.get(name)
    if known is None or isinstance(value, bool) != (known.kind == "flag"):
        raise ValueError(f"not an option of curl, or a value of the wrong type: {name!r}")
    if isinstance(value, bool):
        if not value and not known.negatable:
            raise ValueError(f"option {name!r} has no no-{name}")
        return name if value else f"no-{name}"
    bad = _UNWRITABLE(value)
    if bad:
        raise ValueError(f"option {name!r} can't hold the character {bad.group()!r}")
    return f'{name} = "{value.translate(_ESCAPES) if _SPECIAL(value) else value}"'


def format_config(options: Iterable[Option]) -> str:
    """The lines of a config file, each with its line end. A url may need `globoff` beside it: see needs_globoff."""
    return "".join([format_option(option) + "\n" for option in options])


def needs_globoff(url: str) -> bool:
    """True if curl without `globoff` would take a part of `url` for a pattern, and fetch other urls or none.

    Literal to curl, wherever they stand, are only `[]` and an IPv6 address in brackets, with or without a zone.
    """
    if not _BRACKET(url):
        return False
    rest = _IPV6.sub(lambda found: "x" if _is_ipv6(found[1]) else found[0], url).replace("[]", "x")
    return bool(_BRACKET(rest) or _ESCAPED_BRACKET(url))


# ── the text ────────────────────────────────────────────────────────────────────────────────────────────────────────

_LONGEST_LINE = 10 * 1024 * 1024  # bytes; a longer one makes every curl give up the file

_PLAIN = re.compile(r'([a-z][a-z0-9.-]*+)(?: = "([^"\\\x00-\x1f\x7f]*+)")?').fullmatch
_NAME_GAP_REST = re.compile(r"([^ \t=:]*+)([ \t=:]*+)(.*)", re.DOTALL).fullmatch
_DASHED = re.compile(r"--([^ \t=]*+)(=|[ \t]*+)(.*)", re.DOTALL).fullmatch
_LETTERS = re.compile(r"-([^ \t]*+)[ \t]*+(.*)", re.DOTALL).fullmatch
_QUOTED = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL).match
_BACKSLASH = re.compile(r"\\(.)", re.DOTALL)
_BLANK = re.compile(r"[ \t\r\v\f]").search
_COMMAND = re.compile(r"(?!-)(?:[$>%][ \t]*)?(?:[^ \t=:\"']*[/\\])?curl(?:\.exe)?(?![^ \t])").match
_CONTINUED = (" \\", " ^", "\t\\", "\t^")  # what a line of a shell's or of cmd's command ends with

_USABLE = {name: option for name, option in OPTIONS.items() if option.usable}


def _lines(text: str, path: str) -> list[str]:
    if text.startswith(("\udcff\udcfe", "\udcfe\udcff")):
        raise TaskFileError(path, 1, "the file is UTF-16", "save it as UTF-8")
    lines = text.removeprefix("\ufeff").split("\n")
    if len(text) * 4 > _LONGEST_LINE:
        for number, line in enumerate(lines, 1):
            if len(line.encode("utf-8", "surrogateescape")) > _LONGEST_LINE:
                raise TaskFileError(path, number, "a line of more than 10 MB", "curl would not read the file")
    return _without_torn_record(lines, path) if "\0" in text else lines


def _without_torn_record(lines: list[str], path: str) -> list[str]:
    """The lines before the first NUL, where only comments and blanks follow it.

    A power cut can leave NULs where a record was being appended: without this it would cost the task. Anywhere else
    a NUL makes curl run two lines together.
    """
    first = next(index for index, line in enumerate(lines) if "\0" in line)
    if any(line.strip("\0 \t\r")[:1] not in ("", "#") for line in lines[first:]):
        raise TaskFileError(path, first + 1, "a NUL byte", "the file is damaged, or it is not text")
    return lines[:first]


def _read_line(line: str) -> tuple[Option, ...]:
    """The options of a line: none in a comment, more than one only after short letters (-sSG)."""
    plain = _PLAIN(line)
    if plain:  # the form that we write
        name, value = plain.groups()
        known = _USABLE.get(name)
        if known and (value is None) == (known.kind == "flag"):
            return (Option(name, True) if value is None else Option(known.name, check_value(known, value)),)
    return _read_any_line(line)


# Most lines of a task are those of its neighbours (location, user-agent, max-time): this halves the cost of reading.
_read_short_line = functools.lru_cache(maxsize=256)(_read_line)


def _read_any_line(line: str) -> tuple[Option, ...]:
    line = line.lstrip(" \t").rstrip(" \t\r")
    if not line or line[0] == "#":
        return ()
    if _COMMAND(line):
        raise LineError("this is a curl command line, not a curl config file", _ONE_OPTION_A_LINE)
    if line.endswith(_CONTINUED):
        raise LineError("a line can't be continued on the next one", _ONE_OPTION_A_LINE)
    if line[0] == "-" and line[1:2] != "-":
        return _read_letters(line)
    parts = _DASHED(line) if line[0] == "-" else _NAME_GAP_REST(line)
    assert parts is not None  # both match anything
    word, gap, raw = parts.groups()
    if word.startswith("expand-"):
        known = _find_expandable(word)
        return (Option(f"expand-{known.name}", _value(word, raw)),)
    known, on = _find(word)
    if known.kind == "flag":
        if raw or gap.strip(" \t"):
            _takes_no_value(known.name, raw)
        return (Option(known.name, on),)
    return (Option(known.name, check_value(known, _value(known.name, raw))),)


def _expand(found: tuple[Option, ...], variables: Variables) -> list[Option]:
    """The options of one line with their variables filled in; none from a line that sets a variable."""
    options: list[Option] = []
    for option in found:
        name, value = option
        if name.startswith("expand-"):
            name, value = name.removeprefix("expand-"), variables.expand(str(value))
            option = Option(name, check_value(OPTIONS[name], value))
        if name == "variable":
            variables.set(str(value))
        else:
            options.append(option)
    return options


def _read_letters(line: str) -> tuple[Option, ...]:
    """`-A value`, `-Avalue`, `-sSG`, `-sSAvalue`."""
    parts = _LETTERS(line)
    assert parts is not None  # it matches any line with a dash
    letters, rest = parts.groups()
    if not letters:
        raise LineError('no option name after "-"')
    if letters.partition("=")[0].removeprefix("no-") in OPTIONS:
        problem = f'"-{shown(letters)}" has one dash, so curl would read it letter by letter'
        raise LineError(problem, "a long name has two dashes, or none")
    options: list[Option] = []
    for index, letter in enumerate(letters, 1):
        known = _find_letter(letter)
        if known.kind != "flag":
            value = check_value(known, _letter_value(known.name, letters[index:], rest))
            return (*options, Option(known.name, value))
        options.append(Option(known.name, letter != "N"))  # the one letter that switches off: -N is no-buffer
    if rest:
        _takes_no_value(options[-1].name, rest)
    return tuple(options)


def _letter_value(name: str, glued: str, rest: str) -> str:
    """A glued value is literal, a leading `=` too, as on curl's command line."""
    if not glued:
        return _value(name, rest)
    if glued[0] in "\"'":
        raise LineError("curl would take a quote glued to a letter as part of the value", f'write {name} = "..."')
    if rest or _BLANK(glued):
        raise _unquoted_blank(name, glued)
    return glued


def _find(word: str) -> tuple[CurlOption, bool]:
    """The option behind a long name, and False for its `no-` form."""
    off = word.startswith("no-")
    known = OPTIONS.get(word[3:] if off else word)
    if known is None:
        raise _unknown(word)
    _refuse_unusable(known, f'"{word}"')
    if off and not known.negatable:
        raise LineError(f'option "{known.name}" can\'t be switched off with "no-"')
    return known, not off


def _find_expandable(word: str) -> CurlOption:
    """The option behind a name with `expand-` before it; only one that takes a value has something to expand."""
    known = OPTIONS.get(word.removeprefix("expand-"))
    if known is None:
        raise _unknown(word)
    _refuse_unusable(known, f'"{known.name}"')
    if known.kind == "flag":
        raise LineError(f'option "{known.name}" takes no value, so there is nothing to expand', f"write {known.name}")
    return known


def _find_letter(letter: str) -> CurlOption:
    known = SHORT.get(letter)
    if known is None:
        raise LineError(f'there is no curl option "-{shown(letter)}"')
    _refuse_unusable(known, f'"{known.name}" (-{letter})')
    return known


def _refuse_unusable(known: CurlOption, shown: str) -> None:
    if not known.usable:
        raise Refused(f"option {shown} is refused: {known.note}")


def _value(name: str, raw: str) -> str:
    """The value of an option from what follows its name and the separators."""
    if not raw or raw[0] in " \t":
        raise LineError(f'option "{name}" needs a value', f'write {name} = "..."')
    if raw[0] == '"':
        return _unquoted(raw)
    if raw.startswith(("'", "$'")):
        raise LineError("single quotes mean nothing in a config file", f'write {name} = "..."')
    if _BLANK(raw):
        raise _unquoted_blank(name, raw)
    return raw


def _unquoted(raw: str) -> str:
    quoted = _QUOTED(raw)
    if quoted is None:
        raise LineError("no closing quote on this line", 'a line end inside a value is \\n, a quote is \\"')
    if quoted.end() < len(raw):
        raise LineError("text after the closing quote", 'a quote inside a value is \\", a comment has its own line')
    inner = quoted[1]
    return _BACKSLASH.sub(_unescape, inner) if "\\" in inner else inner


def _unescape(found: re.Match[str]) -> str:
    return _UNESCAPED.get(found[1], found[1])


# ── faults of a line, in words ──────────────────────────────────────────────────────────────────────────────────────

_ONE_OPTION_A_LINE = 'write one option a line, as in url = "http://..."'
_LINE_ENDS = "end lines with LF or CRLF"


def _unknown(word: str) -> LineError:
    if not word:
        return LineError("no option name on this line")
    problem = f'there is no curl option "{shown(word)}"'
    if word.lower() in ("http", "https"):
        return LineError(problem, 'an address is written url = "http://..."')
    if "\r" in word:
        return LineError("a carriage return inside the line", _LINE_ENDS)
    if word[0] in ";/*[":
        return LineError(problem, "a comment begins with #")
    near = nearest(word)
    if word[0].isupper() and word.lower() != near:
        return LineError(problem, f'a request header is written header = "{shown(word)}: ..."')
    return LineError(problem, f'did you mean "{near}"?' if near else "")


def _takes_no_value(name: str, raw: str) -> NoReturn:
    off = raw.strip("\"' =:").lower() in ("false", "off", "no", "0") and OPTIONS[name].negatable
    hint = f"write no-{name} to switch it off" if off else f"write {name} alone; a comment has its own line"
    raise LineError(f'option "{name}" takes no value', hint)


def _unquoted_blank(name: str, raw: str) -> LineError:
    if "\r" in raw:
        return LineError("a carriage return inside the line", _LINE_ENDS)
    if raw.startswith(("= ", ": ")):
        return LineError(f'after a dashed name curl takes the "{raw[0]}" for the value', f'write {name} = "..."')
    return LineError(f'a blank in the unquoted value of "{name}", where curl cuts it', f'write {name} = "..."')


# ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────

_UNESCAPED = {"t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r", "\v": "\\v"})
_SPECIAL = re.compile(r'[\\"\t\n\r\v]').search
_UNWRITABLE = re.compile("[\x00-\x08\x0c\x0e-\x1f\x7f\ud800-\udc7f\udd00-\udfff]").search

_BRACKET = re.compile(r"[][{}]").search
_ESCAPED_BRACKET = re.compile(r"\\[][{}]").search
_IPV6 = re.compile(r"\[([0-9A-Fa-f:.]{2,})(?:%(?:25)?[^\]]{1,15})?\]")
_BODY = frozenset(option.name for option in OPTIONS.values() if option.kind == "body")
_FORM = frozenset({"form", "form-string"})


def _is_ipv6(text: str) -> bool:
    from socket import AF_INET6, inet_pton  # here, not above: it takes 9 ms, and few urls hold brackets

    try:
        inet_pton(AF_INET6, text)
    except OSError:
        return False
    return True


# ── one transfer ────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_transfer(options: Sequence[Option], lines: Sequence[str], path: str) -> None:
    """TaskFileError unless the options together are one transfer, with the line that makes it another."""
    names = [name for name, _ in options]
    if "url" not in names:
        raise TaskFileError(path, None, "no url", 'write url = "http://..."')
    for name in _ONCE:
        if names.count(name) > 1:
            second = names.index(name, names.index(name) + 1)
            raise TaskFileError(path, _line_of(lines, second), f"a second {name}", "a task is one url and one output")
    at = names.index("url")
    if needs_globoff(str(options[at].value)) and not dict(options).get("globoff"):
        problem = "curl would take the {} or [] in the url for a pattern of several urls"
        raise TaskFileError(path, _line_of(lines, at), problem, "add globoff, or write a task file for each page")
    if Option("head", True) in options and not (_FORM if dict(options).get("get") else _BODY).isdisjoint(names):
        at = options.index(Option("head", True))
        raise TaskFileError(path, _line_of(lines, at), "head can't send a body", "add get to put the data in the url")
    if "form" in names:
        _check_groups(options, lines, path)


def _check_groups(options: Sequence[Option], lines: Sequence[str], path: str) -> None:
    """TaskFileError where a form ends a group that it did not begin."""
    from stateful_crawler.curl.forms import END, read_field  # on use: few tasks send a form

    depth = 0
    for at, (name, value) in enumerate(options):
        if name == "form":
            part = read_field(str(value))
            depth += -1 if part is END else part.kind == "group" and not part.parts
            if depth < 0:
                problem = '"=)" ends a form group that nothing began'
                raise TaskFileError(path, _line_of(lines, at), problem, 'a group begins with form = "name=("')


_ONCE = ("url", "output")


def _line_of(lines: Sequence[str], position: int) -> int:
    """The line that the option at `position` came from, read again: only a fault needs it."""
    read = 0
    for number, line in enumerate(lines, 1):
        read += sum(not name.endswith("variable") for name, _ in _read_line(line))
        if read > position:
            return number
    raise AssertionError(position)
