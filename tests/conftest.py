"""Fixtures that many test files share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
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
