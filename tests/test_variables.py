"""Variables: against what curl 8.23 sent for the same lines, and what is refused where it only warns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateful_crawler.curl.config import parse_config
from stateful_crawler.curl.values import LineError
from stateful_crawler.curl.variables import MAX_BYTES, Variables
from stateful_crawler.errors import TaskFileError

# `sent`: the body that curl sent, missing where it refused the file; `warns`: it warned, and we refuse.
CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "curl_variables.json").read_text())
FILES = {"text": b"hello\n", "empty": b"", "bytes": bytes(range(1, 256)), "nul": b"a\0b\n"}


def read_file(path: str) -> bytes:
    if path not in FILES:
        raise FileNotFoundError(2, "No such file or directory", path)
    return FILES[path]


def data_of(*lines: str) -> str:
    """What the data-raw line holds when all is worked out."""
    text = "\n".join(['url = "http://h.test/"', *lines])
    return str(dict(parse_config(text, "t.conf", read_file=read_file))["data-raw"])


def fault_of(*lines: str) -> str:
    with pytest.raises(TaskFileError) as caught:
        data_of(*lines)
    assert caught.value.line is not None
    return str(caught.value)


@pytest.mark.parametrize("case", CASES, ids=lambda case: "|".join(case["lines"]))
def test_a_variable_is_worked_out_as_curl_does_it(case: dict[str, Any]) -> None:
    lines, sent = case["lines"], case.get("sent")
    if sent is None or "warns" in case or "[64dec-fail]" in sent:
        assert fault_of(*lines)
    else:
        assert data_of(*lines) == sent


def test_the_cases_hold_enough_of_each_kind() -> None:
    assert len(CASES) == len({"|".join(case["lines"]) for case in CASES}) == 100
    assert sum("sent" in case and "warns" not in case for case in CASES) > 55
    assert sum("warns" in case for case in CASES) > 15


def test_what_comes_from_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_NAME", "s3cret")
    for value in ("%SOME_NAME", "%SOME_NAME=default", "%SOME_NAME[0-1]", "%SOME_NAME@text"):
        fault = fault_of(f'variable = "{value}"')
        assert "from the environment" in fault and 'variable = "SOME_NAME=..."' in fault
        assert "s3cret" not in fault


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('variable = "a@nope"', "can't read nope: No such file"),
        ('variable = "a@-"', "standard input"),
        ('variable = "a@"', "standard input"),
        ('variable = "a"', "not a variable"),
        ('expand-data-raw = "{{a:zip}}"', 'no function "zip"'),
        ('expand-data-raw = "{{ a }}"', "names no variable"),
        ('expand-data-raw = "{{a"', "{{ without }}"),
    ],
)
def test_a_fault_says_what_is_wrong(line: str, says: str) -> None:
    assert says in fault_of(line)


def test_without_a_reader_no_file_is_read() -> None:
    with pytest.raises(LineError, match="can't be read from a file here"):
        Variables().set("a@text")


def test_a_value_can_t_grow_without_limit() -> None:
    variables = Variables()
    variables.set("a=" + "x" * 1024)
    with pytest.raises(LineError, match="over 10 MB"):
        for _ in range(30):
            variables.set(variables.expand("a={{a}}{{a}}"))
    with pytest.raises(LineError, match="over 10 MB"):
        Variables(lambda _path: b"x" * (MAX_BYTES + 1)).set("a@large")
    variables.set("b=" + "%" * (MAX_BYTES // 3))
    with pytest.raises(LineError, match="over 10 MB"):
        variables.expand("{{b:url:url}}")


def test_a_fault_tells_no_value() -> None:
    secret = "variable = a=s3cret"
    for line in ('expand-header = "{{a}}"', 'expand-max-time = "{{a:b64:zip}}"', 'expand-data-raw = "{{a:64dec}}"'):
        assert "s3cret" not in fault_of(secret, line)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(text=st.text(st.sampled_from("{}\\:ab zurlti64dec\udcff\0é"), max_size=20), value=st.text(max_size=6))
def test_any_text_is_expanded_or_refused(text: str, value: str) -> None:
    variables = Variables()
    try:
        variables.set(f"a={value}")
        expanded = variables.expand(text)
    except (LineError, UnicodeEncodeError):
        return
    if "{{" not in text:
        assert expanded == text
