"""What the values of `form` and `form-string` spell: the parts of a multipart body, by curl's syntax; pure.

    name=text                     name=<path (its content as a text)       name=@path[,path...] (sent as files)
    name=( ... =)                 the fields between are the parts of one part
    ;type=MIME ;filename=NAME ;encoder=NAME ;headers="Name: value" ;headers=@path

A word may stand in double quotes, where `\\\\` and `\\"` are escapes. What curl drops with no more than a warning is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, NamedTuple


class FormError(ValueError):
    """What is wrong with a field, and where we know one the way out."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem, hint)
        self.problem, self.hint = problem, hint


class HeaderLine(NamedTuple):
    """A header of one part; with `from_file`, `text` is the path of a file that holds some."""

    text: str
    from_file: bool = False


class Part(NamedTuple):
    """One part of a body. `value` is a text, or of `content` and `file` a path; an empty `name` means none.

    text: sent as it stands. content: what the file holds, sent as a text. file: sent as a file, with its name.
    group: `parts` are its content.
    """

    kind: Literal["text", "content", "file", "group"]
    value: str = ""
    name: str = ""
    filename: str | None = None
    type: str | None = None
    encoder: str | None = None
    headers: tuple[HeaderLine, ...] = ()
    parts: tuple[Part, ...] = ()


END = Part("group", name=")")
"""What read_field gives for `=)`."""


def read_field(value: str, *, literal: bool = False) -> Part:
    """The part that one value of `form` spells, or of `form-string` (`literal`); FormError for what is none.

    `name=(` gives a group without parts, `=)` gives END.
    """
    name, equals, content = value.partition("=")
    if not equals:
        raise FormError("a form field has no =", 'as in "name=text" or "name=@file"')
    if literal:
        return Part("text", content, name)
    if not name and content == ")":
        return END
    if content.startswith("("):
        return _read_only(content, "group", "filename encoder")._replace(value="", name=name)
    if content.startswith("<"):
        return _read_only(content[1:], "content", "filename")._replace(name=name)
    if content.startswith("@"):
        return _read_files(content[1:], name)
    return _read_only(content, "text", "")._replace(name=name)


def read_form(fields: Iterable[tuple[str, str]]) -> tuple[Part, ...]:
    """The parts of a body from (option name, value) of its `form` and `form-string` lines, nested as they say.

    A group that nothing ends goes to the end of the form, as with curl.
    """
    groups: list[tuple[Part, list[Part]]] = [(Part("group"), [])]
    for option, value in fields:
        part = read_field(value, literal=option == "form-string")
        if part is END:
            if len(groups) == 1:
                raise FormError('"=)" ends a form group that nothing began', 'a group begins with "name=("')
            _close(groups)
        elif part.kind == "group" and not part.parts:
            groups.append((part, []))
        else:
            groups[-1][1].append(part)
    while len(groups) > 1:
        _close(groups)
    return tuple(groups[0][1])


def guess_type(path: str) -> str | None:
    """The media type that libcurl gives a file by its name."""
    ending = _ENDING(path)
    return _TYPES[ending[0].lower()] if ending else None


def check_header(line: str) -> None:
    """FormError for what would be no header of a part, or more than one."""
    if not _HEADER(line):
        raise FormError("a form field's headers= is not a header", 'as in ;headers="X-Name: value"')


# ── one field ───────────────────────────────────────────────────────────────────────────────────────────────────────

_BLANKS = " \t\n\v\f\r"
_QUOTED = re.compile(r'"((?:\\[\\"]|[^"])*+)"').match
_ESCAPE = re.compile(r'\\([\\"])')
_TO_BLOCK_END = {"": re.compile(r"[^;]*+").match, ",": re.compile(r"[^;,]*+").match}
_KEY = re.compile(r"(type|filename|headers|encoder)=", re.IGNORECASE).match
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,127}"
# What more old and new curls read in different ways.
_MEDIA_TYPE = re.compile(
    rf'{_TOKEN}/{_TOKEN}(?:[ \t]*;[ \t]*(?!(?:filename|headers|encoder|type)=){_TOKEN}=(?:{_TOKEN}|"[^";,\r\n]*"))*',
    re.IGNORECASE,
).match
_HEADER = re.compile(rf"{_TOKEN}:[^\r\n]*+").fullmatch
_ENCODERS = ("binary", "8bit", "7bit", "base64", "quoted-printable")
_TYPES = {
    ".gif": "image/gif",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".htm": "text/html",
    ".html": "text/html",
    ".pdf": "application/pdf",
    ".xml": "application/xml",
}
_ENDING = re.compile(rf"(?:{'|'.join(_TYPES).replace('.', r'[.]')})\Z", re.IGNORECASE).search


def _close(groups: list[tuple[Part, list[Part]]]) -> None:
    group, parts = groups.pop()
    groups[-1][1].append(group._replace(parts=tuple(parts)))


def _read_only(text: str, kind: Literal["text", "content", "group"], barred: str) -> Part:
    """The one word of `text` with its parameters."""
    part, _ = _Reader(text, "").part(kind)
    for word in barred.split():
        if getattr(part, word) is not None:
            raise FormError(f'"{word}=" means nothing to this kind of form field', 'a file is sent with "name=@file"')
    if kind == "group" and part.value != "(":
        raise FormError('text after the "(" that begins a form group', 'a text is written name="(..."')
    if kind == "content":
        _check_path(part.value)
    return part


def _read_files(text: str, name: str) -> Part:
    """One file is a part of its own; several make a group."""
    reader = _Reader(text, ",")
    files: list[Part] = []
    more = True
    while more:
        part, more = reader.part("file")
        _check_path(part.value)
        files.append(part)
    return files[0]._replace(name=name) if len(files) == 1 else Part("group", name=name, parts=tuple(files))


def _check_path(path: str) -> None:
    if not path:
        raise FormError("a form field names no file", 'as in "name=@file"; a text that begins with @ is a form-string')
    if path.endswith("/"):
        raise FormError("a form field names a directory", "name a file")
    if path == "-":
        raise FormError("a form can't read the standard input", "a crawl has none for its tasks: name a file")


class _Reader:
    """Reads words and parameters from left to right; `comma` is "," where a comma ends a word, else ""."""

    def __init__(self, text: str, comma: str) -> None:
        self._text, self._at = text, 0
        self._to_block_end = _TO_BLOCK_END[comma]

    def part(self, kind: Literal["text", "content", "file", "group"]) -> tuple[Part, bool]:
        """The next part, and whether a comma and another one follow."""
        value = self._word()
        found: dict[str, str] = {}
        headers: list[HeaderLine] = []
        while self._text[self._at : self._at + 1] == ";":
            self._at += 1
            self._skip_blanks()
            key = _KEY(self._text, self._at)
            if key is None:
                self._refuse_unknown()
                continue
            self._at = key.end()
            word = key[1].lower()
            if word == "headers":
                headers.append(self._header())
            elif word == "type" and "type" in found:
                raise FormError("a form field has two type=", "write one")
            else:
                found[word] = self._type() if word == "type" else self._word()
        more = self._at < len(self._text)
        self._at += 1
        part = Part(kind, value, "", found.get("filename"), found.get("type"), found.get("encoder"), tuple(headers))
        _check_part(part)
        return part, more

    def _word(self) -> str:
        self._skip_blanks()
        quoted = _QUOTED(self._text, self._at)
        if quoted is None:
            return self._block().rstrip(_BLANKS)
        self._at = quoted.end()
        if self._block().strip(_BLANKS):
            raise FormError("text after the closing quote in a form field", 'a quote inside quotes is \\"')
        return _ESCAPE.sub(r"\1", quoted[1])

    def _type(self) -> str:
        """A media type with its own parameters, up to the next parameter of the form field."""
        self._skip_blanks()
        type_ = _MEDIA_TYPE(self._text, self._at)
        if type_:
            self._at = type_.end()
        if type_ is None or self._block().strip(_BLANKS):
            raise FormError("a form field's type= is not a media type", 'as in ";type=text/plain"')
        return type_[0]

    def _header(self) -> HeaderLine:
        from_file = self._text.startswith(("@", "<"), self._at)
        self._at += from_file
        header = HeaderLine(self._word(), from_file)
        if from_file:
            _check_path(header.text)
        else:
            check_header(header.text)
        return header

    def _block(self) -> str:
        block = self._to_block_end(self._text, self._at)
        assert block  # it may be empty
        self._at = block.end()
        return block[0]

    def _refuse_unknown(self) -> None:
        """curl drops it with a warning; an empty one, as after a last semicolon, in silence."""
        if self._word():
            hint = 'quote a text that holds a semicolon (name="a;b"), or use form-string'
            raise FormError("a form field goes on with what is no type=, filename=, encoder= or headers=", hint)

    def _skip_blanks(self) -> None:
        while self._text[self._at : self._at + 1] in _BLANKS and self._at < len(self._text):
            self._at += 1


def _check_part(part: Part) -> None:
    if part.encoder is not None and part.encoder.lower() not in _ENCODERS:
        raise FormError("a form field's encoder= is none that curl knows", f"one of {', '.join(_ENCODERS)}")
