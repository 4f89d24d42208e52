"""sc.toml: the project's own defaults for the command line's options. Flags and SC_* variables win over it."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from stateful_crawler.errors import SettingsError

FILE = "sc.toml"
# Key -> what its value must be. Each is also an option (`--parse-timeout`) and a variable (SC_PARSE_TIMEOUT).
KEYS: Mapping[str, tuple[type, ...]] = {
    "workdir": (str,),
    "create": (str,),
    "parser": (str,),
    "connections": (int,),
    "workers": (int,),
    "retries": (int,),
    "parse-timeout": (int, float),
    "max-size": (int, str),
}
PATHS = frozenset({"workdir", "create", "parser"})
_SPOKEN = {str: "text in quotes", int: "a whole number", float: "a number"}


def read_settings(folder: str) -> dict[str, Any]:
    """The keys that the project's sc.toml sets, paths made absolute; empty where there is no file."""
    path = os.path.join(folder, FILE)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(path, None, f"can't be read: {error.strerror}") from error
    try:
        text = data.decode("utf-8-sig")
        found = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also of a number of 5000 digits, of brackets a thousand deep
        line = re.search(r"at line (\d+)", str(error))
        raise SettingsError(path, int(line[1]) if line else None, f"is not TOML: {error}") from None
    return {key: _checked(key, value, folder, path, text) for key, value in found.items()}


def _checked(key: str, value: Any, folder: str, path: str, text: str) -> Any:
    if key not in KEYS:
        import difflib  # here, not above: only a mistake needs it

        near = difflib.get_close_matches(key, KEYS, 1)
        raise SettingsError(
            path, _line_of(key, text), f"unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else "")
        )
    if isinstance(value, bool) or not isinstance(value, KEYS[key]):
        wanted = " or ".join(_SPOKEN[kind] for kind in KEYS[key])
        raise SettingsError(path, _line_of(key, text), f"{key} must be {wanted}, not {value!r}")
    return os.path.join(os.path.abspath(folder), str(value)) if key in PATHS else value


def _line_of(key: str, text: str) -> int | None:
    pattern = re.compile(rf"\s*\[?[\"']?{re.escape(key)}[\"']?\s*[=.\]]")
    return next((number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line)), None)
