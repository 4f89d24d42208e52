"""The multipart body of a request, from a task's form options as curl makes it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

import pycurl

from stateful_crawler.curl.config import Option
from stateful_crawler.curl.forms import FormError, HeaderLine, Part, check_header, guess_type, read_form
from stateful_crawler.errors import LocalFileError, TaskFileError, printable
from stateful_crawler.fetch import body
from stateful_crawler.files import read_regular

MAX_HEADER_FILE_BYTES = 64 * 1024


def build(handle: pycurl.Curl, options: Iterable[Option], root: str, name: str) -> None:
    """Make the `form` and `form-string` options of a task the body of its request.

    Files are read while the body is sent. TaskFileError for a form or a file that can't be sent; `root` is the workdir.
    """
    try:
        parts = read_form((option.name, str(option.value)) for option in options)
        mime = _mime(handle, parts, root, name)
    except FormError as error:
        raise TaskFileError(f"working/{name}.conf", None, error.problem, error.hint) from None
    handle.setopt(pycurl.MIMEPOST, mime)


def _mime(handle: pycurl.Curl, parts: Iterable[Part], root: str, name: str) -> pycurl.CurlMime:
    mime = pycurl.CurlMime(handle)
    for part in parts:
        added = mime.addpart()
        _set_content(handle, added, part, root, name)
        if part.name:
            added.name(_raw(part.name))
        if part.filename is not None:
            added.filename(_raw(part.filename))
        if part.type is not None:
            added.type(_raw(part.type))
        if part.encoder is not None:
            added.encoder(_raw(part.encoder))
        headers = [line for header in part.headers for line in _header_lines(header, root, name)]
        if headers:
            added.headers([_raw(line) for line in headers])
    return mime


def _set_content(handle: pycurl.Curl, added: pycurl.CurlMimePart, part: Part, root: str, name: str) -> None:
    if part.kind == "text":
        added.data(_raw(part.value))
    elif part.kind == "content":
        added.data(_read(part.value, root, name, body.MAX_DATA_FILE_BYTES))
        # libcurl would guess the type from the path, which it doesn't see; a plain text has none in a form.
        guessed = guess_type(part.value)
        if guessed and guessed != "text/plain" and not _has_content_type(part):
            added.type(guessed.encode())
    elif part.kind == "file":
        added.filedata(os.fsencode(_regular(part.value, root, name)))
        added.filename(_raw(os.path.basename(part.value)))  # not that of the file which a link leads to
    else:
        added.subparts(_mime(handle, part.parts, root, name))


def _has_content_type(part: Part) -> bool:
    return any(header.text.lower().startswith("content-type:") for header in part.headers)


def _header_lines(header: HeaderLine, root: str, name: str) -> list[str]:
    """The headers that one `headers=` gives. In a file `#` begins a comment; a leading blank goes on with a line."""
    if not header.from_file:
        return [header.text]
    content = _read(header.text, root, name, MAX_HEADER_FILE_BYTES).decode("utf-8", "surrogateescape")
    lines: list[str] = []
    for line in content.split("\n"):
        line = line.rstrip()
        if not line or line.lstrip().startswith("#"):
            continue
        if lines and line[0] in " \t":
            lines[-1] += line
        else:
            lines.append(line)
    for line in lines:
        check_header(line)
    return lines


def _regular(path: str, root: str, name: str) -> str:
    """The real path of a regular file inside the workdir: on a FIFO libcurl would wait, and the whole crawl with it."""
    full = body.inside(path, root, name)
    try:
        regular = stat.S_ISREG(os.stat(full).st_mode) and os.access(full, os.R_OK)
        problem = "not a file that can be read"
    except OSError as error:
        regular, problem = False, str(error.strerror)
    if not regular:
        raise _unreadable(path, name, problem)
    return full


def _read(path: str, root: str, name: str, limit_bytes: int) -> bytes:
    try:
        return read_regular(body.inside(path, root, name), limit_bytes)
    except OSError as error:
        raise _unreadable(path, name, str(error.strerror)) from error


def _unreadable(path: str, name: str, why: str) -> LocalFileError:
    problem = f"can't read {printable(path)}: {why}"
    return LocalFileError(f"working/{name}.conf", None, problem, "paths start from the workdir")


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
