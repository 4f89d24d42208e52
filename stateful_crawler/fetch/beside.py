"""What an answer leaves beside its page: saved headers, its ETag, changed cookies, the name that the server gave."""

from __future__ import annotations

import contextlib
import os
import re
from urllib.parse import unquote

import pycurl

from stateful_crawler.fetch import body
from stateful_crawler.fetch.setup import Wanted
from stateful_crawler.files import read_regular
from stateful_crawler.record import Beside

MAX_JAR_BYTES = 16 * 1024 * 1024
_MAX_NAME_BYTES = 200
_PARAMETER = re.compile(r"""(?i);\s*filename(\*?)\s*=\s*("(?:[^"\\]|\\.)*"|[^;]*)""").finditer


def cookies_before(wanted: Wanted, root: str, name: str) -> bytes:
    """The lines that a task begins with of the jar that it writes; empty unless it reads it, too."""
    if not wanted.reads_jar:
        return b""
    with contextlib.suppress(OSError):
        return read_regular(body.inside(wanted.cookie_jar, root, name), MAX_JAR_BYTES)
    return b""


def left(
    wanted: Wanted,
    handle: pycurl.Curl,
    header_lines: list[bytes],
    status: int,
    headers: list[tuple[str, str]],
    cookies: bytes,
) -> Beside:
    """All of it; `cookies` are those that the task began with."""
    tag = _header(headers, "etag").encode("utf-8", "replace") if 200 <= status < 300 else b""
    return Beside(
        headers=(wanted.dump_header, b"".join(header_lines)) if wanted.dump_header else None,
        etag=(wanted.etag_save, tag + b"\n") if wanted.etag_save and tag else None,
        jar=wanted.cookie_jar,
        cookies=(cookies, b"\n".join(handle.getinfo_raw(pycurl.INFO_COOKIELIST))) if wanted.cookie_jar else (b"", b""),
        modified=max(0, handle.getinfo(pycurl.INFO_FILETIME)) if wanted.remote_time else 0,
        name=_file_name(_header(headers, "content-disposition")) if wanted.remote_header_name else "",
    )


def _header(headers: list[tuple[str, str]], wanted: str) -> str:
    return next((value for name, value in headers if name.lower() == wanted), "")


def _file_name(disposition: str) -> str:
    """The name in a Content-Disposition (RFC 6266), without folders; empty for none, or for one that hides."""
    found = {match[1]: match[2] for match in _PARAMETER(f";{disposition.partition(';')[2]}")}
    if "*" in found:
        name = unquote(found["*"].rpartition("'")[2].strip(' "'), errors="replace")
    else:
        raw = found.get("", "").strip()
        name = re.sub(r"\\(.)", r"\1", raw[1:-1]) if raw.startswith('"') else raw
    name = re.sub(r"[\x00-\x1f\x7f]", "", re.split(r"[/\\]", name)[-1]).strip()
    while len(os.fsencode(name)) > _MAX_NAME_BYTES:
        name = name[:-1]
    return "" if name.startswith(".") else name
