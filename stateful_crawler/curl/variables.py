"""curl's variables, worked out while a config is read: `variable` lines and what `expand-` lines make of them; pure.

A variable lies in nothing but the file that sets it, so that a task means the same on every machine.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from json.encoder import encode_basestring
from urllib.parse import quote

from stateful_crawler.curl.values import LineError, shown

MAX_BYTES = 10 * 1024 * 1024
"""Of a value; without a limit a file of thirty lines could ask for all memory, each line twice the one before."""

ReadFile = Callable[[str], bytes]


class Variables:
    """The variables of one config, set in the order of the file. `read_file` gives a file's bytes (None: refused)."""

    def __init__(self, read_file: ReadFile | None = None) -> None:
        self._read_file = read_file
        self._values: dict[str, bytes] = {}

    def set(self, text: str) -> None:
        """Carry out one `variable`: `name=content` or `name@file`, after the name `[first-last]` or `[first-]`."""
        found = _SETTING(text)
        if found is None or not (found["mark"] or found["environment"]):
            raise LineError("not a variable", 'as in variable = "name=content"; a name has letters, digits and _')
        name = found["name"]
        if found["environment"]:
            problem = f'variable "{name}" would come from the environment, which differs from machine to machine'
            raise LineError(problem, f'write variable = "{name}=..."')
        value = _raw(found["content"]) if found["mark"] == "=" else self._content_of(found["content"])
        if found["first"]:
            value = _cut(value, int(found["first"]), int(found["last"]) if found["last"] else None)
        self._values[name] = _bounded(value)

    def expand(self, text: str) -> str:
        r"""`text` with each `{{name}}` and `{{name:function:function}}` filled in; one that was never set is empty.

        `\{{` stands for `{{`, but as with curl only where `text` holds a variable too.
        """
        pieces: list[bytes] = []
        at = size = variables = 0
        for found in _BRACES(text):
            pieces.append(_raw(text[at : found.start()]))
            at = found.end()
            if found[0].startswith("\\"):
                pieces.append(b"{{")
            else:
                pieces.append(self._worked_out(found[1]))
                variables += 1
            size += len(pieces[-1])
            _check_size(size)
        if not variables:
            return text
        pieces.append(_raw(text[at:]))
        return _bounded(b"".join(pieces)).decode("utf-8", "surrogateescape")

    def _worked_out(self, inner: str | None) -> bytes:
        """The value of what stands between the braces (None: they don't close)."""
        if inner is None:
            raise LineError("{{ without }}", _LITERAL_BRACES)
        name, *functions = inner.split(":")
        if not _NAME(name):
            raise LineError(f'"{{{{{shown(inner)}}}}}" names no variable', _LITERAL_BRACES)
        value = self._values.get(name, b"")
        for function in functions:
            if function not in _FUNCTIONS:
                raise LineError(f'no function "{shown(function)}" for a variable', f"one of {', '.join(_FUNCTIONS)}")
            value = _bounded(_FUNCTIONS[function](value))
        if b"\0" in value:
            raise LineError(f'variable "{name}" holds a NUL byte', 'as in "{{name:b64}}"')
        return value

    def _content_of(self, path: str) -> bytes:
        if path in ("", "-"):
            raise LineError("a variable can't read the standard input", "a crawl has none for its tasks: name a file")
        if self._read_file is None:
            raise LineError("a variable can't be read from a file here", 'write its content: variable = "name=content"')
        try:
            return self._read_file(path)
        except OSError as error:
            raise LineError(f"can't read {shown(path)}: {error.strerror}", "paths start from the workdir") from error


_LITERAL_BRACES = "as in {{name}}; where braces are meant, use the option without expand-"
_NAME = re.compile(r"[A-Za-z0-9_]{1,127}").fullmatch
_SETTING = re.compile(
    r"(?P<environment>%?)(?P<name>[A-Za-z0-9_]{1,127})(?:\[(?P<first>[0-9]{1,18})-(?P<last>[0-9]{1,18})?\])?"
    r"(?:(?P<mark>[=@])(?P<content>.*))?",
    re.DOTALL,
).fullmatch
_BRACES = re.compile(r"\\\{\{|\{\{(?:(.*?)\}\})?", re.DOTALL).finditer


def _cut(value: bytes, first: int, last: int | None) -> bytes:
    if last is not None and last < first:
        raise LineError("the last byte of a variable lies before its first", "as in name[5-10] or name[5-]")
    return value[first : None if last is None else last + 1]


def _bounded(value: bytes) -> bytes:
    _check_size(len(value))
    return value


def _check_size(size_bytes: int) -> None:
    if size_bytes > MAX_BYTES:
        raise LineError("a variable's value is over 10 MB")


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _json(value: bytes) -> bytes:
    return encode_basestring(value.decode("latin-1"))[1:-1].encode("latin-1")


def _from_base64(value: bytes) -> bytes:
    """curl would go on with the text "[64dec-fail]"."""
    try:
        if len(value) % 4:  # the strict mode lets a padding too many pass
            raise binascii.Error
        return binascii.a2b_base64(value, strict_mode=True)
    except binascii.Error:
        raise LineError("the function 64dec met what is not base64") from None


_FUNCTIONS: dict[str, Callable[[bytes], bytes]] = {
    "trim": lambda value: value.strip(b" \t\n\v\f\r"),
    "json": _json,
    "url": lambda value: quote(value, safe="").encode(),
    "b64": lambda value: binascii.b2a_base64(value, newline=False),
    "64dec": _from_base64,
}
