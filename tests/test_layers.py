"""The order of the layers: a module imports only what stands below it, imports inside functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "stateful_crawler"

# From the ground up. A row may import the rows before it, never itself or a later one; a package is one unit.
LAYERS = (
    {"_version", "errors", "reasons"},
    {"files", "curl", "settings", "urls", "charset", "record"},
    {"links", "sidefiles"},
    {"redact"},
    {"task", "lint"},
    {"runlock", "retries", "curlimport", "guard"},
    {"workdir"},
    {"pages", "frontier", "plugins", "page", "lintfiles"},
    {"fetch", "worker", "fsck", "report"},
    {"parse", "control", "dryrun"},
    {"run"},
    {"crawl"},
    {"cli"},
)
OUTSIDE = {"sites": {"errors"}, "__main__": {"cli"}, "__init__": {"_version", "task"}}

# The libraries that only one place may know, and that place.
ONLY_IMPORTERS = {
    "pycurl": "fetch",
    "certifi": "fetch",
    "pebble": "parse",
    "parsel": "page",
    "charset_normalizer": "charset",
    "filelock": "files",
    "click": "cli",
    "tqdm": "cli",
    "idna": "urls",
}


def modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).parts
        if parts[0] != "templates":
            found.append((parts[0].removesuffix(".py"), path))
    return found


def imported(path: Path) -> Iterator[str]:
    """Full dotted names that the file imports anywhere; `if TYPE_CHECKING` counts too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_units(path: Path) -> set[str]:
    units = {unit for unit, _ in modules()}
    parts = (name.split(".") for name in imported(path) if name.startswith("stateful_crawler."))
    return {part[1] for part in parts if part[1] in units}


def rank(unit: str) -> int:
    return next(index for index, layer in enumerate(LAYERS) if unit in layer)


@pytest.mark.parametrize(("unit", "path"), modules(), ids=[str(p.relative_to(PACKAGE)) for _, p in modules()])
def test_a_module_imports_only_what_lies_below_it(unit: str, path: Path) -> None:
    used = own_units(path) - {unit}
    if unit in OUTSIDE:
        assert used <= OUTSIDE[unit]
        return
    for other in used - {"sites"}:
        assert rank(other) < rank(unit), f"{unit} imports {other}, which does not lie below it"
    assert "sites" not in used or unit == "cli"


def test_every_module_has_its_layer() -> None:
    known = set().union(*LAYERS) | OUTSIDE.keys()
    assert {unit for unit, _ in modules()} == known


@pytest.mark.parametrize(("library", "unit"), ONLY_IMPORTERS.items())
def test_one_place_knows_the_library(library: str, unit: str) -> None:
    users = {u for u, path in modules() if any(name.split(".")[0] == library for name in imported(path))}
    assert users == {unit}
