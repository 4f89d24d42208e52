"""The body of a request, put together from a task's data options as curl does it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from stateful_crawler.curl.config import Option
from stateful_crawler.curl.options import OPTIONS
from stateful_crawler.curl.values import LineError, check_value
from stateful_crawler.errors import LocalFileError, TaskFileError, printable
from stateful_crawler.files import read_regular, within

MAX_DATA_FILE_BYTES = 64 * 1024 * 1024
_MAX_ETAG_BYTES = 8192


def compose(data: Iterable[Option], root: str, name: str) -> bytes:
    """The body that the task's data options make together; TaskFileError for a file that can't be read."""
    body = b""
    for option in data:
        piece = _piece(option, root, name)
        body = body + b"&" + piece if body and option.name != "json" else body + piece
    return body


def compose_query(values: Iterable[str], root: str, name: str) -> str:
    """What `url-query` adds: each value as data-urlencode has it, or after a `+` as it stands."""
    return "&".join(
        value[1:] if value.startswith("+") else _urlencoded(value, root, name).decode("utf-8", "surrogateescape")
        for value in values
    )


def with_query(url: str, query: str) -> str:
    """`query` after what the url has of its own, before its fragment."""
    if not query:
        return url
    rest, mark, fragment = url.partition("#")
    path, _, own = rest.partition("?")
    joint = "&" if own and not own.endswith("&") else ""
    return f"{path}?{own}{joint}{query}{mark}{fragment}"


def with_file_name(url: str, path: str) -> str:
    """The url that a file is uploaded to: one that ends in a slash, or has no path, gets the file's name.

    As with curl, one that has a query is left as it is.
    """
    rest, mark, fragment = url.partition("#")
    scheme, separator, where = rest.rpartition("://")
    if "?" in where or ("/" in where and not where.endswith("/")):
        return url
    joint = "" if where.endswith("/") else "/"
    name = quote(os.fsencode(os.path.basename(path)), safe="")
    return f"{scheme}{separator}{where}{joint}{name}{mark}{fragment}"


def header_file(path: str, root: str, name: str) -> list[str]:
    """The lines of a file of headers; TaskFileError for one that can't be read or holds what is no header."""
    lines = read_sent_file(path, root, name).decode("utf-8", "surrogateescape").splitlines()
    try:
        return [check_value(OPTIONS["header"], line) for line in lines if line.strip()]
    except LineError as error:
        raise TaskFileError(f"working/{name}.conf", None, f"{printable(path)}: {error.problem}", error.hint) from None


def stored_etag(path: str, root: str, name: str) -> bytes:
    """The ETag that an earlier answer left in the file; as curl has it, `""` where there is none."""
    with contextlib.suppress(OSError):
        first = read_regular(inside(path, root, name), _MAX_ETAG_BYTES).splitlines()
        if first and first[0].strip():
            return first[0].strip()
    return b'""'


def _piece(option: Option, root: str, name: str) -> bytes:
    value = str(option.value)
    if option.name == "data-raw":
        return value.encode("utf-8", "surrogateescape")
    if option.name == "data-urlencode":
        return _urlencoded(value, root, name)
    if not value.startswith("@"):
        return value.encode("utf-8", "surrogateescape")
    content = read_sent_file(value[1:], root, name)
    return re.sub(rb"[\r\n\0]", b"", content) if option.name in ("data", "data-ascii") else content


def _urlencoded(value: str, root: str, name: str) -> bytes:
    """`content`, `=content`, `name=content`, `@file` or `name@file`: the content is encoded, the name is not."""
    mark = re.search(r"[=@]", value)
    if mark is None:
        return _encode(value.encode("utf-8", "surrogateescape"))
    key, content = value[: mark.start()], value[mark.end() :]
    raw = content.encode("utf-8", "surrogateescape") if mark[0] == "=" else read_sent_file(content, root, name)
    prefix = key.encode("utf-8", "surrogateescape") + b"=" if key else b""
    return prefix + _encode(raw)


def _encode(raw: bytes) -> bytes:
    return quote_plus(raw, safe="").encode().replace(b"%7E", b"~")


def read_sent_file(path: str, root: str, name: str) -> bytes:
    """The content of a file that goes out with the request; TaskFileError for one that can't be read."""
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
    full = within(root, path)
    if full is None:
        raise TaskFileError(
            f"working/{name}.conf", None, f"{printable(path)} lies outside the workdir", "copy it into the workdir"
        )
    return full
