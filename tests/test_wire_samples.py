"""One task for every option that a task may hold, for every `no-` form and every letter, made from curl's table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from conftest import Serve
from helpers import Project
from wire_helpers import NEEDS_CURL, answer, as_text, assert_same, options_of, run_table
from wire_samples import ELSEWHERE, FAILING, NEWER, SHOWN_BY, every_form

from stateful_crawler.curl.config import parse_config
from stateful_crawler.curl.options import OPTIONS

HERE = Path(__file__).parent

# The options that configs and pasted commands use most, the commonest first.
MOST_USED = """
    url header data data-raw request compressed user-agent location cookie output silent show-error insecure referer
    user proxy max-time connect-timeout fail get data-binary data-urlencode json form form-string head include
    remote-name remote-name-all remote-header-name output-dir create-dirs write-out dump-header cookie-jar max-redirs
    retry retry-delay retry-max-time retry-connrefused retry-all-errors fail-with-body http1.1 http2 globoff next config
    parallel parallel-max limit-rate junk-session-cookies max-filesize range continue-at resolve connect-to upload-file
    interface fail-early url-query"""


@NEEDS_CURL
def test_every_option_and_form_sends_what_curl_sends(project: Project, serve: Serve) -> None:
    server = serve({"*": answer})
    ran = run_table(project, server, every_form(newer=False))
    assert_same(ran, FAILING)


def test_every_option_that_a_task_may_hold_is_compared() -> None:
    """In both tables together; the others say who shows them."""
    newer = every_form(newer=True)
    compared = options_of(every_form(newer=False), newer) - {"url"}
    compared |= {"variable"} & newer.keys()  # its reading leaves nothing of it
    usable = {name for name, option in OPTIONS.items() if option.usable}
    assert not compared & ELSEWHERE.keys()
    assert compared | ELSEWHERE.keys() == usable
    assert compared >= NEWER


@pytest.mark.parametrize("name", sorted(SHOWN_BY))
def test_what_is_shown_elsewhere_is_there(name: str) -> None:
    """`name =`, `"name"` or `name` alone in a table of lines."""
    text = (HERE / f"{SHOWN_BY[name]}.py").read_text()
    assert re.search(rf"""["'(]{re.escape(name)}(?: = |["'])""", text)


@pytest.mark.parametrize("name", MOST_USED.split())
def test_the_most_used_options_are_done_or_refused_with_a_reason(name: str) -> None:
    option = OPTIONS[name]
    if name in ("next", "config"):
        assert option.verdict == "refused" and option.note
        return
    forms = every_form(newer=False) | every_form(newer=True)
    assert option.usable and (name in forms or name in ELSEWHERE)


@pytest.mark.parametrize("newer", [False, True])
def test_letters_and_negations_mean_their_option(newer: bool) -> None:
    """`-x` is the option; what is switched off last is off."""
    table = every_form(newer=newer)
    for form, lines in table.items():
        options = parse_config(as_text(lines), "t.conf")
        name, _, off = form.removesuffix(" by letter").partition(", ")
        last = off or name
        if last.startswith("no-") and last.removeprefix("no-") in OPTIONS:
            assert dict(options)[last.removeprefix("no-")] is False, form


def test_the_most_used_are_sixty() -> None:
    assert len(set(MOST_USED.split())) == 60
