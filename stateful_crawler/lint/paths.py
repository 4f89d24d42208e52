"""Where a task may write: pages and headers under html/, what tasks share under var/; pure."""

from __future__ import annotations

_UNDER = {"output": "html", "dump-header": "html", "output-dir": "html"} | dict.fromkeys(
    ("cookie-jar", "etag-save", "etag-compare", "hsts"), "var"
)


def folder_for(name: str, path: str) -> str | None:
    """The folder that the path of option `name` must lie under, if it does not; None if all is well."""
    folder = _UNDER.get(name)
    if folder is None or not path or path == "-":
        return None
    parts = path.split("/")
    plain = not path.startswith("/") and ".." not in parts
    inside = parts[0] == folder and (len(parts) > 1 or name == "output-dir")
    return None if plain and inside else folder


def moved(path: str, folder: str) -> str | None:
    """The same path under the folder; None where that takes a guess."""
    path = path.removeprefix("./")
    bad = path.startswith(("/", "~", ".", "$")) or "/." in path or path.endswith("/") or "//" in path
    return None if bad or not path else f"{folder}/{path}"
