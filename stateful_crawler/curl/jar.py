"""A cookie jar that many tasks share: its text, in the Netscape form that curl reads and writes; pure.

Each task starts with the cookies that its own `cookie` lines name, and what its answer changed is merged into the jar
afterwards: so tasks that run at the same time don't undo each other's cookies, and none gets another's by accident.
"""

from __future__ import annotations

from stateful_crawler.errors import TaskFileError

HEADER = b"# Netscape HTTP Cookie File\n# Written by sc; curl reads it too (cookie = FILE).\n\n"
_HTTP_ONLY = b"#HttpOnly_"
_FIELDS = 7

_Key = tuple[bytes, bytes, bytes, bytes]  # domain, whether its subdomains get it too, path, name


def merge(jar: bytes, before: bytes, after: bytes, path: str) -> bytes:
    """The jar's new text: `jar` as it is now, with what changed from `before` to `after`, each as cookie lines.

    Raises TaskFileError where `jar` holds something that is no cookie, so that no other file is ever overwritten.
    """
    cookies = read(jar, path)
    old, new = read(before, path), read(after, path)
    for key in old.keys() - new.keys():
        cookies.pop(key, None)
    cookies |= {key: line for key, line in new.items() if key not in old or _said(old[key]) != _said(line)}
    return HEADER + b"".join(line + b"\n" for line in cookies.values())


def read(text: bytes, path: str) -> dict[_Key, bytes]:
    """The cookie lines by domain, path and name."""
    cookies: dict[_Key, bytes] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or (line.startswith(b"#") and not line.startswith(_HTTP_ONLY)):
            continue
        fields = line.split(b"\t")
        if len(fields) not in (_FIELDS, _FIELDS - 1):  # a cookie without a value may end after its name
            raise TaskFileError(path, number, "not a cookie jar", "a jar is written over: name a file of its own")
        domain = fields[0].removeprefix(_HTTP_ONLY).lstrip(b".").lower()
        # Curls before 8 write the default path with a slash at its end, later ones without.
        cookies[domain, fields[1], fields[2].rstrip(b"/") or b"/", fields[5]] = line
    return cookies


def _said(line: bytes) -> tuple[bool, list[bytes]]:
    """What a line says of its cookie, beside the key: kept from scripts, secure, expires, value."""
    fields = line.split(b"\t")
    return line.startswith(_HTTP_ONLY), [*fields[3:5], *fields[6:]]
