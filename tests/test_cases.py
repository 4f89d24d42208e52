"""Every numbered case has a test that names it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from cases import CASES, NOT_YET


def marked() -> Iterator[str]:
    """The ids in `@pytest.mark.case(...)` of all test files."""
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "case":
                yield from (one.value for one in node.args if isinstance(one, ast.Constant))


def test_every_case_that_is_due_has_a_test() -> None:
    found = set(marked())
    assert found <= set(CASES), "no such case"
    assert set(CASES) - set(NOT_YET) <= found, "without a test"
    assert not found & set(NOT_YET), "has a test, so it is due: take it out of NOT_YET"
