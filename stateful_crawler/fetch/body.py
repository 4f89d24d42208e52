"""The body of a request, put together from a task's data options as curl does it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from urllib.parse import quote_plus

from stateful_crawler.curlconfig import Option
from stateful_crawler.errors import LocalFileError, TaskFileError, printable
from stateful_crawler.files import read_regular

MAX_DATA_FILE_BYTES = 64 * 1024 * 1024


def compose(data: Iterable[Option], root: str, name: str) -> bytes:
    """The body that the task's data options make together; TaskFileError for a file that can't be read."""
    body = b""
    for option in data:
        piece = _piece(option, root, name)
        body = body + b"&" + piece if body and option.name != "json" else body + piece
    return body


def with_query(url: str, query: str) -> str:
    """`query` after what the url has of its own, before its fragment."""
    if not query:
        return url
    rest, mark, fragment = url.partition("#")
    path, _, own = rest.partition("?")
    joint = "&" if own and not own.endswith("&") else ""
    return f"{path}?{own}{joint}{query}{mark}{fragment}"


def _piece(option: Option, root: str, name: str) -> bytes:
    value = str(option.value)
    if option.name == "data-raw":
        return value.encode("utf-8", "surrogateescape")
    if option.name == "data-urlencode":
        return _urlencoded(value, root, name)
    if not value.startswith("@"):
        return value.encode("utf-8", "surrogateescape")
    content = _read_data_file(value[1:], root, name)
    return re.sub(rb"[\r\n\0]", b"", content) if option.name in ("data", "data-ascii") else content


def _urlencoded(value: str, root: str, name: str) -> bytes:
    """`content`, `=content`, `name=content`, `@file` or `name@file`: the content is encoded, the name is not."""
    mark = re.search(r"[=@]", value)
    if mark is None:
        return _encode(value.encode("utf-8", "surrogateescape"))
    key, content = value[: mark.start()], value[mark.end() :]
    raw = content.encode("utf-8", "surrogateescape") if mark[0] == "=" else _read_data_file(content, root, name)
    prefix = key.encode("utf-8", "surrogateescape") + b"=" if key else b""
    return prefix + _encode(raw)


def _encode(raw: bytes) -> bytes:
    return quote_plus(raw, safe="").encode().replace(b"%7E", b"~")


def _read_data_file(path: str, root: str, name: str) -> bytes:
    where = f"working/{name}.conf"
    if not path or path == "-":
        raise TaskFileError(where, None, "a task can't read standard input")
    try:
        return read_regular(inside(path, root, name), MAX_DATA_FILE_BYTES)
    except OSError as error:
        raise LocalFileError(
            where, None, f"can't read {printable(path)}: {error.strerror}", "paths start from the workdir"
        ) from error


def inside(path: str, root: str, name: str) -> str:
    """The absolute path of a file whose content goes out with the request; it must lie in the workdir.

    Without this a task from elsewhere could send any file of this machine to any server.
    """
    full = os.path.realpath(os.path.join(root, path))
    if not full.startswith(os.path.realpath(root) + os.sep):
        raise TaskFileError(
            f"working/{name}.conf", None, f"{printable(path)} lies outside the workdir", "copy it into the workdir"
        )
    return full
