"""What the value of a curl option may be; pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from stateful_crawler.curl.options import CurlOption
from stateful_crawler.errors import printable


class LineError(Exception):
    """What is wrong with the line at hand; parse_config adds where."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem, hint)
        self.problem, self.hint = problem, hint


class Refused(LineError):
    """An option that no task may hold."""


class Outside(LineError):
    """A path that leads out of the folder where such files belong."""


_CONTROL = re.compile(r"[\x00-\x08\n\x0c-\x1f\x7f]").search

_BLANK_OR_CONTROL = re.compile(r"[\x00-\x20\x7f]").search
_HEADER = re.compile(r"@.|[!#$%&'*+.^_`|~0-9A-Za-z-]+(?::|;[ \t]*\Z)").match
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_RANGES = re.compile(r"(?:[0-9]+-[0-9]*|-[0-9]+)(?:,(?:[0-9]+-[0-9]*|-[0-9]+))*").fullmatch
_INTEGER = re.compile(r"-?[0-9]{1,10}").fullmatch
_BYTES = re.compile(r"([0-9]{1,15})([bkmgtp]?)", re.I).fullmatch
_PORTS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?").fullmatch
_RESOLVE = re.compile(r"-[^:]+:[0-9]+|\+?(?:[^:\[]+|\[[0-9a-fA-F:.%]+\]):[0-9]{1,5}:[^ ]+").fullmatch
_CONNECT_TO = re.compile(r"(?:[^:\[]*|\[[^\]]+\]):[0-9]*:(?:[^:\[]*|\[[^\]]+\]):[0-9]*").fullmatch
# Those that old and new curls know. All but two stay off.
_PROTOCOL = re.compile(
    "[=+-]*(?:all|dict|file|ftps?|gophers?|https?|imaps?|ldaps?|mqtt|pop3s?|rtsp|scp|sftp|smtps?|telnet|tftp)"
).fullmatch
_TYPE_OF_SERVICE = re.compile(
    "0*(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])|CS[0-7]|AF[1-4][1-3]|EF|VOICE-ADMIT|ECT[01]|CE|LE|LOWCOST|MINCOST"
    "|LOWDELAY|THROUGHPUT|RELIABILITY"
).fullmatch
_DECIMAL = re.compile(r"[0-9]{1,10}(?:\.[0-9]+)?").fullmatch
_LARGEST = 2**31 - 1  # of a whole number; of milliseconds too, which libcurl counts in


def check_value(known: CurlOption, value: str) -> str:
    """The value, if it is one that curl takes as it stands and that can't leave its line of the request."""
    if known.kind != "body" and known.name not in _NOT_OF_THE_REQUEST:
        if not value and known.kind != "text":
            raise LineError(f'option "{known.name}" needs a value that is not empty')
        # Without this a line end in a value would write headers, or a whole request, of its own.
        if _CONTROL(value):
            raise LineError(f'option "{known.name}" holds a line end or another control character')
    check = _CHECKS.get(known.name) or _CHECKS.get(known.kind)
    if check:
        check(known.name, value)
    return value


def byte_count(text: str) -> int:
    """The bytes that `500`, `10k` or `2M` stand for; the letters stand for powers of 1024."""
    found = _BYTES(text)
    if found is None:
        raise ValueError(text)
    return int(found[1]) * int(1024 ** ("bkmgtp".index(found[2].lower()) if found[2] else 0))


def _check_url(_name: str, value: str) -> None:
    if value[0] == "@":
        raise LineError("a url that begins with @ is a list of urls to curl", "one task is one transfer")
    if _BLANK_OR_CONTROL(value):
        raise LineError("a blank or a control character in the url", "write a blank as %20")


def _check_output(_name: str, value: str) -> None:
    if value == "-":
        raise LineError("a page can't go to the standard output", "name a file, or leave the option out")


def _check_content(name: str, value: str) -> None:
    named = name in ("data-urlencode", "url-query") and "=" not in value  # NAME@FILE
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
    if value.startswith("@"):
        raise LineError("a cookie that begins with @", "old curls take it for a file, new ones don't: leave the @ out")


def _check_protocols(name: str, value: str) -> None:
    for word in value.lower().split(","):
        if not _PROTOCOL(word):
            raise LineError(f'"{shown(word)}" in "{name}" is no protocol', "as in =http,https")


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


def _check_bytes(name: str, value: str) -> None:
    if not _BYTES(value):
        raise LineError(f'option "{name}" needs a number of bytes, not "{shown(value)}"', "as in 500, 100k or 2M")


def _check_ports(name: str, value: str) -> None:
    found = _PORTS(value)
    if found is None or not int(found[1]) <= int(found[2] or found[1]) <= 65535:
        raise LineError(f'"{shown(value)}" is no value for "{name}"', "as in 4000 or 4000-4100")


def _check_shape(matches: Callable[[str], object], example: str) -> Callable[[str, str], None]:
    def check(name: str, value: str) -> None:
        if not matches(value):
            raise LineError(f'"{shown(value)}" is no value for "{name}"', f"as in {example}")

    return check


def _check_below(top: str, what: str) -> Callable[[str, str], None]:
    """Without this a task from elsewhere could write, or read, any file of this machine."""

    def check(name: str, value: str) -> None:
        parts = value.split("/")
        if value == "-":
            raise LineError(f'option "{name}" can\'t use the standard output', f"name a file under {top}/")
        if parts[0] != top or len(parts) < 2 or any(not part or part.startswith(".") for part in parts):
            raise Outside(f'{name} "{shown(value)}" lies outside {top}/', f"{what} {top}/: write {top}/NAME")

    return check


def _check_output_dir(_name: str, value: str) -> None:
    if value.rstrip("/") != "html":
        _check_below("html", "pages lie under")("output-dir", value.rstrip("/"))


def _check_file_sent(name: str, value: str) -> None:
    if value in ("-", ".", "@-"):
        raise _stdin(name)


def _check_proxy_header(name: str, value: str) -> None:
    if value.startswith("@"):
        raise LineError(f"{name} = @file is not read", "write a line for each header")
    _check_header(name, value)


def _check_write_out(name: str, value: str) -> None:
    if value == "@-":
        raise _stdin(name)
    if "%output{" in value:
        raise LineError("write-out can't write to a file of its own", "its text goes into the record of the fetch")


def _check_form(name: str, value: str) -> None:
    from stateful_crawler.curl.forms import FormError, read_field  # on use: few tasks send a form

    try:
        read_field(value, literal=name == "form-string")
    except FormError as error:
        raise LineError(error.problem, error.hint) from None


_NOT_OF_THE_REQUEST = frozenset({"variable", "write-out"})

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
    "proto": _check_protocols,
    "proto-redir": _check_protocols,
    "request": _check_request,
    "range": _check_range,
    "url-query": _check_content,
    "upload-file": _check_file_sent,
    "write-out": _check_write_out,
    "form": _check_form,
    "form-string": _check_form,
    "proxy-header": _check_proxy_header,
    "max-filesize": _check_bytes,
    "limit-rate": _check_bytes,
    "continue-at": _check_shape(re.compile("-|[0-9]{1,18}").fullmatch, "1000, or -"),
    "local-port": _check_ports,
    "tls-max": _check_shape(re.compile(r"default|1\.[0-3]").fullmatch, "1.2"),
    "delegation": _check_shape(re.compile("none|policy|always", re.I).fullmatch, "none, policy or always"),
    "resolve": _check_shape(_RESOLVE, "example.com:443:127.0.0.1"),
    "connect-to": _check_shape(_CONNECT_TO, "example.com:443:127.0.0.1:8443"),
    "ip-tos": _check_shape(_TYPE_OF_SERVICE, "CS1, AF21 or 32"),
    "vlan-priority": _check_shape(re.compile("0*[0-7]").fullmatch, "0 to 7"),
    "output-dir": _check_output_dir,
    "dump-header": _check_below("html", "headers are saved under"),
    "cookie-jar": _check_below("var", "what tasks share lies under"),
    "etag-save": _check_below("var", "what tasks share lies under"),
    "etag-compare": _check_below("var", "what tasks share lies under"),
    "hsts": _check_below("var", "what tasks share lies under"),
    "number": _check_number,
    "seconds": _check_seconds,
}


def _stdin(name: str) -> LineError:
    return LineError(f'option "{name}" can\'t read the standard input', "a crawl has none for its tasks: name a file")


def shown(text: str) -> str:
    return printable(text if len(text) <= 60 else text[:60] + "...")
