"""Fixtures that many test files share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from cases import CASES, NOT_YET
from helpers import Project
from servers import FaultServer, Route


class Serve(Protocol):
    def __call__(self, routes: Mapping[str, Route] | None = None, **options: Any) -> FaultServer: ...


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """An empty project: no plugins, no tasks."""
    return Project(tmp_path / "project")


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts fault servers, as FaultServer(...) does; all are closed at the end, and their own faults raised."""
    with ExitStack() as stack:
        yield lambda routes=None, **options: stack.enter_context(FaultServer(routes, **options))


# ── the numbered cases, see cases.py ─────────────────────────────────────────────────────────────────────────────────


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--report-cases", action="store_true", help="print what came of each numbered case")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "case(id, ...): the numbered cases (tests/cases.py) that the test covers")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("case"):
            item.user_properties += [("case", one) for one in mark.args]  # comes along with the report, from xdist too


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not config.getoption("--report-cases"):
        return
    came: dict[str, Counter[str]] = {}
    for outcome in ("passed", "failed", "error", "skipped", "xfailed"):
        for report in terminalreporter.stats.get(outcome, []):
            for key, case in getattr(report, "user_properties", ()):
                if key == "case":
                    came.setdefault(case, Counter())[outcome] += 1
    terminalreporter.section("numbered cases")
    for case, title in CASES.items():
        terminalreporter.line(f"{case}  {_verdict(case, came.get(case, Counter())):30}  {title}")


def _verdict(case: str, came: Counter[str]) -> str:
    if case in NOT_YET:
        return f"not yet: {NOT_YET[case]}"
    if came["failed"] or came["error"]:
        return f"FAIL ({came['failed'] + came['error']} of {came.total()} tests)"
    skipped = f", {came['skipped']} skipped" if came["skipped"] else ""
    return f"pass ({came['passed']} tests{skipped})" if came["passed"] else "NOT RUN"
