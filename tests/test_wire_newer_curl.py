"""What Debian's curl 7.88 lacks or does in another way: compared with what a newer curl sent, as data/ keeps it."""

from __future__ import annotations

import json
from pathlib import Path

from conftest import Serve
from helpers import Project
from wire_helpers import Ran, answer, assert_same, put_table, run_sc_on
from wire_newer import newer_table

STORED = json.loads((Path(__file__).parent / "data" / "wire_newer_curl.json").read_text())["cases"]
FAILING = {name for name, case in STORED.items() if not case["went_well"]}


def test_the_stored_results_are_those_of_the_table() -> None:
    """If not: data/make_wire_newer_curl.py makes them anew."""
    assert {name: tuple(case["lines"]) for name, case in STORED.items()} == dict(newer_table())


def test_sc_sends_what_a_newer_curl_sent(project: Project, serve: Serve) -> None:
    server = serve({"*": answer})
    table = newer_table()
    ours = run_sc_on(project, server, put_table(project, server, table))
    assert_same({name: (ours[name], stored(name)) for name in table}, FAILING)


def stored(name: str) -> Ran:
    case = STORED[name]
    requests = [request.encode("latin-1") for request in case["requests"]]
    return Ran(requests, case["went_well"], case["page"].encode("latin-1"))
