"""What the value of a curl option may be; pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from stateful_crawler.curloptions import CurlOption
from stateful_crawler.errors import printable


class LineError(Exception):
    """What is wrong with the line at hand; parse_config adds where."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem, hint)
        self.problem, self.hint = problem, hint


_CONTROL = re.compile(r"[\x00-\x08\n\x0c-\x1f\x7f]").search

_BLANK_OR_CONTROL = re.compile(r"[\x00-\x20\x7f]").search
_HEADER = re.compile(r"@.|[!#$%&'*+.^_`|~0-9A-Za-z-]+(?::|;[ \t]*\Z)").match
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_RANGES = re.compile(r"(?:[0-9]+-[0-9]*|-[0-9]+)(?:,(?:[0-9]+-[0-9]*|-[0-9]+))*").fullmatch
_INTEGER = re.compile(r"-?[0-9]{1,10}").fullmatch
_DECIMAL = re.compile(r"[0-9]{1,10}(?:\.[0-9]+)?").fullmatch
_LARGEST = 2**31 - 1  # of a whole number; of milliseconds too, which libcurl counts in


def check_value(known: CurlOption, value: str) -> str:
    """The value, if it is one that curl takes as it stands and that can't leave its line of the request."""
    if known.kind != "body":
        if not value and known.kind != "text":
            raise LineError(f'option "{known.name}" needs a value that is not empty')
        # Without this a line end in a value would write headers, or a whole request, of its own.
        if _CONTROL(value):
            raise LineError(f'option "{known.name}" holds a line end or another control character')
    check = _CHECKS.get(known.name) or _CHECKS.get(known.kind)
    if check:
        check(known.name, value)
    return value


def _check_url(_name: str, value: str) -> None:
    if value[0] == "@":
        raise LineError("a url that begins with @ is a list of urls to curl", "one task is one transfer")
    if _BLANK_OR_CONTROL(value):
        raise LineError("a blank or a control character in the url", "write a blank as %20")


def _check_output(_name: str, value: str) -> None:
    if value == "-":
        raise LineError("a page can't go to the standard output", "name a file, or leave the option out")


def _check_content(name: str, value: str) -> None:
    named = name == "data-urlencode" and "=" not in value  # NAME@FILE
    if value == "@-" or (named and value.partition("@")[1:] == ("@", "-")):
        raise _stdin(name)


def _check_header(name: str, value: str) -> None:
    if value == "@-":
        raise _stdin(name)
    if not _HEADER(value):
        raise LineError("not a header", '"Name: value" sends it, "Name:" removes it, "Name;" sends it empty')


def _check_cookie(name: str, value: str) -> None:
    if value in ("-", "@-"):
        raise _stdin(name)


def _check_request(_name: str, value: str) -> None:
    if not _TOKEN(value):
        raise LineError(f'"{shown(value)}" can\'t be a request method', "as in GET, POST, PUT")


def _check_range(_name: str, value: str) -> None:
    if not _RANGES(value):
        raise LineError(f'"{shown(value)}" is not a range of bytes', "as in 0-499, 500-, -500 or 0-9,20-29")


def _check_number(name: str, value: str) -> None:
    lowest = -1 if name == "max-redirs" else 0
    if not _INTEGER(value) or not lowest <= int(value) <= _LARGEST:
        raise LineError(f'option "{name}" needs a whole number from {lowest}, not "{shown(value)}"')


def _check_seconds(name: str, value: str) -> None:
    if not _DECIMAL(value) or float(value) * 1000 > _LARGEST:
        hint = f"digits, a point if need be, at most {_LARGEST // 1000}"
        raise LineError(f'option "{name}" needs a number of seconds, not "{shown(value)}"', hint)


_CHECKS: dict[str, Callable[[str, str], None]] = {  # by the name of the option, else by its kind
    "url": _check_url,
    "output": _check_output,
    "data": _check_content,
    "data-ascii": _check_content,
    "data-binary": _check_content,
    "data-urlencode": _check_content,
    "json": _check_content,
    "header": _check_header,
    "cookie": _check_cookie,
    "request": _check_request,
    "range": _check_range,
    "number": _check_number,
    "seconds": _check_seconds,
}


def _stdin(name: str) -> LineError:
    return LineError(f'option "{name}" can\'t read the standard input', "a crawl has none for its tasks: name a file")


def shown(text: str) -> str:
    return printable(text if len(text) <= 60 else text[:60] + "...")
