"""Tasks, their records and their names as values: what is written is read back, whatever it holds."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stateful_crawler import task as task_module
from stateful_crawler.curl.config import Option, needs_globoff
from stateful_crawler.errors import TaskFileError
from stateful_crawler.record import Outcome, Record
from stateful_crawler.task import DEFAULTS, Task, check_name, name_for, new_task, read_task

same_every_time = settings(derandomize=True, deadline=None)
LINE_LIMIT = 64 * 1024

# The example of the task file's documentation, shortened where nothing is to be learned from it.
EXAMPLE = b"""\
# sc: {"v": 1, "created": "2026-11-30T17:00:00Z", "by": "create", "meta": {"page": 7}}
url = "https://books.example/catalogue?page=7"
output = "html/7.html"
user-agent = "sc/1.0"
location
max-time = "60"
# sc: {"at": "2026-11-30T17:00:03Z", "stage": "fetch", "ok": false, "reason": "http", "status": 503, "attempt": 1}
# sc: {"at": "2026-11-30T17:00:09Z", "stage": "fetch", "ok": true, "status": 200, "bytes": 15598, "attempt": 2}
# sc: {"at": "2026-11-30T17:00:09Z", "stage": "parse", "ok": true, "items": 20, "new_tasks": 1}
"""

# ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_task_file_as_it_is_documented() -> None:
    task = read_task("7", EXAMPLE, "origin/7.conf")
    assert (task.name, task.url, task.output) == ("7", "https://books.example/catalogue?page=7", "html/7.html")
    assert task.options == (Option("user-agent", "sc/1.0"), Option("location", True), Option("max-time", "60"))
    assert task.created.facts["by"] == "create" and task.meta == {"page": 7}
    fetch, parse = task.last("fetch"), task.last("parse")
    assert fetch is not None and fetch.ok and fetch.facts["status"] == 200
    assert parse is not None and parse.facts["items"] == 20
    assert [record.ok for record in task.records[1:]] == [False, True, True]


def test_a_task_by_hand_needs_only_a_url() -> None:
    task = read_task("7", b'url = "http://h/"\n', "origin/7.conf")
    assert task == Task("7", "http://h/")
    assert task.page_output == "html/7.html"
    assert (task.records, task.meta, task.created.facts, task.last("fetch")) == ([], {}, {}, None)


def test_records_are_found_wherever_they_stand() -> None:
    text = b'location\n# sc: {"by": "hand"}\n# a remark\nurl = "http://h/"\n# sc: {"stage": "fetch", "ok": true}\n'
    assert [record.facts for record in read_task("1", text, "").records] == [
        {"by": "hand"},
        {"stage": "fetch", "ok": True},
    ]


@pytest.mark.parametrize(
    "torn",
    [
        b'# sc: {"at": "2026-11-30T17:00:0',  # a power cut in the middle of the last record
        b"# sc: ",
        b"# sc: [1, 2]",
        b"# sc: null",
        b"# sc: " + b"[" * 100_000,
        b"# sc: \xff\xfe\x00",
    ],
)
def test_a_record_that_cannot_be_read_is_passed_over(torn: bytes) -> None:
    good = b'# sc: {"stage": "fetch", "ok": true}\n'
    task = read_task("1", b'url = "http://h/"\n' + good + torn + b"\n", "")
    assert [record.facts for record in task.records] == [{"stage": "fetch", "ok": True}]
    last = task.last("fetch")
    assert last is not None and last.ok


def test_a_record_with_an_odd_stage_is_no_stage() -> None:
    task = read_task("1", b'url = "http://h/"\n# sc: {"stage": ["fetch"], "ok": true}\n', "")
    assert task.last("fetch") is None and task.records[0].stage == ""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b'url = "http://h/"\nnonsense = 3\n', 2),
        (b'# sc: {"by": "create"}\nurl = "http://h/"\noutput = "html/1.html"\nlocation\nurl = "http://h/2"\n', 5),
        (b'# sc: {"by": "create"}\nurl = "http://h/"\noutput = "html/1.html"\noutput = "html/2.html"\n', 4),
        (b'# sc: {"by": "create"}\nurl = "http://h/"\noutput = "html/1.html"\nlocation\nnext\n', 5),
        (b'# sc: {"by": "create"}\nurl = "http://h/[1-3]"\noutput = "html/1.html"\n', 2),
        (b'# sc: {"by": "create"}\nurl = "@list"\noutput = "html/1.html"\n', 2),
        (b'# sc: {"by": "create"}\nurl = "http://h/"\noutput = "-"\n', 3),
        (b'# sc: {"by": "create"}\nurl = "http://h/"\noutput = "html/1.html"\nmax-time = "soon"\n', 4),
    ],
)
def test_a_fault_is_named_with_its_line(text: bytes, line: int) -> None:
    with pytest.raises(TaskFileError) as caught:
        read_task("1", text, "origin/1.conf")
    assert (caught.value.path, caught.value.line) == ("origin/1.conf", line)


# ── both readers agree ───────────────────────────────────────────────────────────────────────────────────────────────

ANY_TEXT = st.text(max_size=30)
RAW_BYTES = st.binary(max_size=20).map(lambda data: data.decode("utf-8", "surrogateescape"))
NO_CONTROL = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=30)
URLS = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp"), exclude_characters='"'), max_size=30
).map(lambda rest: f"http://h/{rest}")
OUTPUTS = st.one_of(st.none(), NO_CONTROL.filter(lambda text: text != "-"))
OPTIONS = st.lists(
    st.one_of(
        st.sampled_from(DEFAULTS),
        st.builds(Option, st.sampled_from(["data-raw", "user-agent", "referer"]), NO_CONTROL),
        st.builds(Option, st.just("header"), NO_CONTROL.map(lambda text: f"X-A: {text}")),
    ),
    max_size=5,
).map(tuple)
FACTS = st.dictionaries(
    ANY_TEXT, st.one_of(st.none(), st.booleans(), st.integers(), ANY_TEXT, RAW_BYTES, st.lists(ANY_TEXT, max_size=2))
)
RECORDS = st.lists(FACTS.map(lambda facts: json.dumps(facts)), max_size=3).map(tuple)
TASKS = st.builds(Task, st.just("1"), URLS, OUTPUTS, OPTIONS, RECORDS)


def by_both(data: bytes) -> tuple[Task | TaskFileError, Task | TaskFileError]:
    """The file read as it is read always, and by the full grammar alone."""

    def outcome(read: Any, *arguments: Any) -> Task | TaskFileError:
        try:
            return read(*arguments)  # type: ignore[no-any-return]
        except TaskFileError as error:
            return error

    text = data.decode("utf-8", "surrogateescape")
    return outcome(read_task, "1", data, "1.conf"), outcome(task_module._read_any, "1", text, "1.conf")


def assert_agree(data: bytes) -> Task | TaskFileError:
    usual, full = by_both(data)
    if isinstance(full, TaskFileError):
        assert isinstance(usual, TaskFileError) and str(usual) == str(full)
    else:
        assert usual == full
    return usual


@same_every_time
@given(TASKS)
def test_what_is_written_is_read_back_by_both_readers(task: Task) -> None:
    globoff = Option("globoff", True)
    added = (globoff,) if needs_globoff(task.url) else ()
    read = assert_agree(task.text())
    assert read == Task(task.name, task.url, task.output, (*task.options, *added), task.record_lines)


LINES = st.one_of(
    st.sampled_from(
        [
            '# sc: {"by": "create"}',
            '# sc: {"stage": "fetch", "ok": true}',
            "# sc: {torn",
            "# sc:",
            "# a remark",
            "",
            "location",
            "no-location",
            " location",
            "max-time = 60",
            'max-time = "60',
            "next",
            "nonsense",
            "-L",
            'data-raw = "# sc: {}"',
            "data-raw = '",
            'url = "http://h/2"',
            'output = "html/2.html"',
            'output = ""',
        ]
    ),
    NO_CONTROL.map(lambda text: f'header = "X-A: {text}"'),
)


@given(
    st.sampled_from(['# sc: {"by": "create"}', "# sc: {}", "# sc: [", "# none", ""]),
    st.sampled_from(
        ["http://h/", "https://h/?a=b#c", "@x", "-", "file:///etc/passwd", "http://h/{a}", "h", "http://h/é"]
    ),
    st.sampled_from(["html/1.html", "-", "", "html/a b.html", "../x", 'html/\\".html', "html/é.html", "html/[1]"]),
    st.lists(LINES, max_size=4),
    st.sampled_from(["\n", "", "\r\n"]),
)
@settings(same_every_time, max_examples=500)
def test_both_readers_agree_on_any_file_that_looks_like_ours(
    record: str, url: str, output: str, lines: list[str], end: str
) -> None:
    """The reader that knows our own form by heart must not take what the grammar would refuse, nor the other way."""
    assert_agree("\n".join([record, f'url = "{url}"', f'output = "{output}"', *lines]).encode() + end.encode())


@same_every_time
@given(st.binary(max_size=200))
def test_any_bytes_are_a_task_or_a_fault_with_a_path(data: bytes) -> None:
    fault = assert_agree(data)
    assert isinstance(fault, Task) or fault.path == "1.conf"


# ── records ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@same_every_time
@given(FACTS)
def test_a_record_is_one_line_that_says_what_it_was_given(facts: dict[str, Any]) -> None:
    line = Record(facts).line()
    assert line.startswith(b"# sc: ") and line.endswith(b"\n") and line.count(b"\n") == 1
    task = read_task("1", b'url = "http://h/"\n' + line, "")
    assert [record.facts for record in task.records] == [facts]


LONG = {
    "headers": {"headers": [["X-Long", "v" * 200_000]]},
    "many-headers": {"headers": [[f"X-{i}", "v" * 20] for i in range(10_000)]},
    "traceback": {"traceback": "File x\n" * 30_000},
    "not-ascii": {"detail": "é" * 100_000},
    "nested": {"deep": [["x" * 5000] * 50] * 50},
    "many-keys": {f"key {i}": "v" * 100 for i in range(3000)},
    "huge-dict": {"meta": {str(i): "v" * 100 for i in range(3000)}},
}


@pytest.mark.parametrize("more", [pytest.param(facts, id=name) for name, facts in LONG.items()])
def test_a_long_record_is_cut_and_says_so(more: dict[str, Any]) -> None:
    facts = {"at": "2026-11-30T17:00:09Z", "stage": "fetch", "ok": False, "reason": "http", "status": 503, "attempt": 2}
    line = Record({**facts, **more}).line()
    assert len(line) <= LINE_LIMIT
    read = json.loads(line[6:])
    assert read["cut"] is True
    assert {key: read[key] for key in facts} == facts


def test_the_limit_is_of_the_line_and_not_of_its_json() -> None:
    def line(size: int) -> bytes:
        return Record({"stage": "fetch", "detail": "x" * size}).line()

    just = LINE_LIMIT - len(line(0))
    assert len(line(just)) == LINE_LIMIT and b'"cut"' not in line(just)
    assert len(line(just + 1)) <= LINE_LIMIT and b'"cut"' in line(just + 1)


def test_an_outcome_tells_its_reason_only_where_it_failed() -> None:
    good = Outcome("fetch", True, facts={"status": 200}).record(attempt=1).facts
    assert {k: v for k, v in good.items() if k != "at"} == {"stage": "fetch", "ok": True, "status": 200, "attempt": 1}
    bad = Outcome("parse", False, "parse", "line 3: no", facts={"items": 2}).record(to="error").facts
    assert (bad["reason"], bad["detail"], bad["to"], bad["items"]) == ("parse", "line 3: no", "error", 2)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", bad["at"])


# ── methods ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "method", "changes"),
    [
        ((), "GET", False),
        ((Option("head", True),), "HEAD", False),
        ((Option("data", "a=1"),), "POST", True),
        ((Option("json", "{}"),), "POST", True),
        ((Option("data-urlencode", "a=1"), Option("get", True)), "GET", False),
        ((Option("data", "a=1"), Option("request", "PUT")), "PUT", True),
        ((Option("request", "DELETE"),), "DELETE", True),
        ((Option("request", "delete"),), "delete", True),
        ((Option("request", "OPTIONS"),), "OPTIONS", False),
        ((Option("request", "PROPFIND"),), "PROPFIND", True),  # unknown to us: rather not sent twice
        ((Option("data", "a=1"), Option("request", "GET")), "GET", False),
    ],
)
def test_the_method_is_the_one_that_curl_would_use(options: tuple[Option, ...], method: str, changes: bool) -> None:
    task = Task("1", "http://h/", None, options)
    assert (task.method, task.changes_things) == (method, changes)


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────────

LEGAL = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")


@pytest.mark.parametrize("name", ["1", "a.b-c_D", "7.html", "x" * 200, "-", "_", "a..b"])
def test_a_safe_name_is_taken_as_it_is(name: str) -> None:
    assert check_name(name) == name
    assert new_task("http://h/", by="create", name=name).name == name


@pytest.mark.parametrize(
    "name", [".", "..", ".x", "a/b", "../x", "a b", "é", "a\n", "a\0", "x" * 201, "a\\b", "a:b", "\udce9", "٣"]
)
def test_a_name_that_is_not_safe_everywhere_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="task name"):
        new_task("http://h/", by="create", name=name)


def test_a_name_from_a_url_can_be_recognised() -> None:
    name = name_for("https://books.example/catalogue/page-7.html?sort=price")
    assert re.fullmatch(r"books-example-catalogue-page-7-html-sort-price-[0-9a-f]{10}", name)


def test_a_name_from_a_url_is_for_ever_the_same() -> None:
    """It is the identity of pages that users have saved: a change of the rule would fetch them all again."""
    assert name_for("http://h/a?b=1") == "h-a-b-1-cf136dea29"
    assert name_for("http://h/api", [Option("data", "page=1")]) == "h-api-512214bd69"


def test_the_fragment_and_options_that_send_no_body_make_no_other_name() -> None:
    name = name_for("http://h/a")
    assert name_for("http://h/a#part") == name_for("http://h/a", DEFAULTS) == name
    assert name_for("http://h/a", [Option("header", "Accept-Language: de")]) == name


def test_method_url_and_body_make_the_name() -> None:
    urls = [name_for(url) for url in ("http://h/a", "http://h/a/", "https://h/a", "http://h/a?", "http://h/A")]
    methods = [name_for("http://h/a", [Option("request", method)]) for method in ("PUT", "DELETE")]
    bodies = [name_for("http://h/a", [Option(kind, "x")]) for kind in ("data", "json", "data-raw")]
    assert len({*urls, *methods, *bodies, name_for("http://h/a", [Option("head", True)])}) == 11


@pytest.mark.case("C109")
def test_ten_bodies_to_one_url_are_ten_tasks() -> None:
    tasks = [new_task("http://h/api", by="create", options=[Option("data", f"page={i}")]) for i in range(10)]
    assert len({task.name for task in tasks}) == 10
    assert tasks[3].name == new_task("http://h/api", by="create", options=[Option("data", "page=3")]).name


@pytest.mark.case("C065")
def test_long_urls_that_differ_at_their_end_have_short_names_that_differ() -> None:
    names = [name_for("http://h/" + "a" * 3000 + end) for end in ("x", "y")]
    assert names[0] != names[1]
    assert all(len(name) <= 80 + 1 + 10 for name in names)


@same_every_time
@given(st.one_of(st.text(max_size=200), RAW_BYTES, URLS))
def test_a_name_from_any_url_is_legal_and_stable(url: str) -> None:
    name = name_for(url)
    assert LEGAL.fullmatch(name) and len(name) <= 91
    assert name_for(url) == name == check_name(name)


@pytest.mark.parametrize("url", ["http://a]b/", "http://[::1]/x", "http://\u2100.example/", "http://h:port/", "", "//"])
def test_a_url_that_no_one_can_split_has_a_name_all_the_same(url: str) -> None:
    assert LEGAL.fullmatch(name_for(url))


@pytest.mark.parametrize("url", ["http://anna:s3cret@h/a", "http://anna:s3cret@[::1]:80/a", "http://s3cret@h?a"])
def test_a_name_tells_no_password(url: str) -> None:
    assert "s3cret" not in name_for(url)


# ── new tasks ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_task_holds_what_plain_curl_needs_and_where_it_came_from() -> None:
    task = new_task("http://h/7", by="follow", parent="6", depth=2, meta={"page": 7, "söt": [1, None]})
    read = read_task(task.name, task.text(), "")
    assert read == task
    assert read.output == f"html/{task.name}.html" and read.options == DEFAULTS
    assert {option.name for option in DEFAULTS} >= {"user-agent", "location", "compressed", "fail", "max-time"}
    created = read.created.facts
    assert (created["v"], created["by"], created["parent"], created["depth"]) == (1, "follow", "6", 2)
    assert read.meta == {"page": 7, "söt": [1, None]}


@pytest.mark.parametrize("meta", [{"x": float("nan")}, {"x": {1, 2}}, {"x": object()}, {"x": b"bytes"}])
def test_meta_that_json_cannot_hold_is_refused(meta: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        new_task("http://h/", by="create", meta=meta)


def test_meta_that_would_make_a_line_too_long_is_refused_and_never_cut() -> None:
    with pytest.raises(ValueError, match="meta"):
        new_task("http://h/", by="create", name="1", meta={"x": "é" * 40_000})
    fits = new_task("http://h/", by="create", name="1", meta={"x": "é" * 32_000})
    assert len(fits.text().split(b"\n")[0]) < LINE_LIMIT
    assert read_task("1", fits.text(), "").meta == {"x": "é" * 32_000}


@pytest.mark.parametrize("text", ["line\nend", "\u2028", "\x00\x1b[31m", "\ud800", "\udce9", '"\\'])
def test_meta_of_any_text_cannot_leave_its_line(text: str) -> None:
    task = new_task("http://h/", by="create", name="1", meta={"x": text})
    data = task.text()
    assert data.count(b"\n") == 1 + 2 + len(DEFAULTS)
    read = read_task("1", data, "")
    assert read.url == "http://h/" and read.options == DEFAULTS
    assert read.meta == {"x": text}
