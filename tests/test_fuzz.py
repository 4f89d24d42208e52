"""Whatever stands in a task file, a record, sc.toml, a pasted command or a server's answer: an error of ours or a
result, never another exception, never a hang.

FUZZ=20 in the environment makes twenty times as many examples, at random. What other files fuzz already: the grammar of
a task file and its two readers (test_curlconfig, test_task), pages and links (test_page), write-out formats
(test_writeout), variables (test_variables), lint of any text (test_lint), commands there and back (test_import_curl).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pycurl
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from servers import CLOSE, FaultServer
from workdir_helpers import put

from stateful_crawler import cli, crawl, runlock, worker
from stateful_crawler.curl import jar
from stateful_crawler.curl.bash import split_bash
from stateful_crawler.curl.cmd import split_cmd
from stateful_crawler.curl.config import parse_config
from stateful_crawler.curl.forms import FormError, read_form
from stateful_crawler.curl.options import OPTIONS
from stateful_crawler.curl.values import LineError
from stateful_crawler.curlimport import Wish, numbers, read_commands, tasks_of
from stateful_crawler.dryrun import planned, without_secrets
from stateful_crawler.errors import PluginError, ScError, SettingsError, TaskFileError, UsageError
from stateful_crawler.fetch import Fetcher, Limits
from stateful_crawler.fetch.rehearse import check as check_options
from stateful_crawler.fetch.times import moment_of
from stateful_crawler.fetch.verdict import retry_after
from stateful_crawler.fsck import check as fsck_check
from stateful_crawler.lint import lint
from stateful_crawler.pages import Pages
from stateful_crawler.plugins import as_task
from stateful_crawler.reasons import REASONS
from stateful_crawler.record import Outcome
from stateful_crawler.redact import redact_facts, redact_text, redact_url
from stateful_crawler.report import facts_of, status_of
from stateful_crawler.settings import KEYS, read_settings
from stateful_crawler.task import read_task
from stateful_crawler.urls import clean_url
from stateful_crawler.workdir import STATES, Claim, Workdir, read_last_record

TIMES = int(os.environ.get("FUZZ", "0"))
DEADLINE_MS = 5000  # a page or a file takes a thousandth of it; what hangs takes longer


def fuzz(examples: int) -> settings:
    """So many examples, always the same ones; with FUZZ so many times more, each time others."""
    return settings(
        max_examples=examples * (TIMES or 1),
        deadline=DEADLINE_MS,
        derandomize=not TIMES,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
    )


@contextmanager
def new_workdir() -> Iterator[Workdir]:
    folder = tempfile.mkdtemp(prefix="sc-fuzz-")
    try:
        yield Workdir(folder).open()
    finally:
        shutil.rmtree(folder)


# ── sc.toml ──────────────────────────────────────────────────────────────────────────────────────────────────────────

TOML_VALUES = st.one_of(
    st.sampled_from(
        ['""', '"x"', "-1", "0", "9" * 30, "9" * 5000, "1e999", "nan", "true", "[]", "{}", "1979-05-27", '"\\u0000"']
    ),
    st.text(max_size=8).map(json.dumps),
    st.integers(1, 3000).map(lambda depth: "[" * depth + "]" * depth),
)
TOML_LINES = st.tuples(st.sampled_from([*KEYS, "x", '"a b"', "[workdir]", "a.b"]), TOML_VALUES).map(" = ".join)


@fuzz(80)
@given(st.binary(max_size=60) | st.lists(TOML_LINES, max_size=3).map(lambda lines: "\n".join(lines).encode()))
@example(b"workdir = " + b"[" * 100_000)
@example(b"connections = " + b"9" * 5000)
@example(b"retries = -" + b"9" * 30)
@example(b'workdir = "a\\u0000b"')
def test_any_sc_toml(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "sc.toml").write_bytes(data)
    try:
        read_settings(str(tmp_path))
    except SettingsError as error:
        assert str(error).isprintable()
    run_sc_here(tmp_path, "status")
    run_sc_here(tmp_path, "crawl", "--help")


def run_sc_here(folder: Path, *words: str) -> None:
    """`sc WORDS` in this process: ends well or with an error of ours, or of click's."""
    result = CliRunner().invoke(cli.sc, ["-C", str(folder), *words], catch_exceptions=True)
    assert result.exception is None or isinstance(result.exception, ScError | SystemExit), result.exc_info


# ── task files ───────────────────────────────────────────────────────────────────────────────────────────────────────

VALUES = st.one_of(
    st.sampled_from(
        ["", "@", "@x", "-", ".", "..", "/", "a=b", "a:b", "*", "0", "-1", "1.5", "9" * 20, "1e400", "nan"]
    ),
    st.sampled_from(
        ["html/x", "html/.x", "html//x", "html/../x", "var/x", "var/../x", "x" * 70_000, "é", "\udce9", "%", "[", "{"]
    ),
    st.sampled_from(
        ["http://127.0.0.1:9/", "127.0.0.1:9", "::1", "[::1]:9", "h:80:127.0.0.1", "socks5://x", "localhost,x"]
    ),
    st.text(max_size=10),
    st.text(st.sampled_from('=:;,@<()"\\/ \tab1.-[]{}%é'), max_size=12),
)
SWITCHES = sorted(option.name for option in OPTIONS.values() if option.usable and option.kind == "flag")
VALUED = sorted(option.name for option in OPTIONS.values() if option.usable and option.kind != "flag")


def spelled(name: str, value: str) -> str:
    quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    return f'{name} = "{quoted}"'


OPTION_LINES = st.tuples(st.sampled_from(VALUED), VALUES).map(lambda pair: spelled(*pair)) | st.sampled_from(SWITCHES)
URLS = st.one_of(
    st.sampled_from(["http://127.0.0.1:9/", "https://[::1]/", "http://é.example/", "http://h/a?b#c", "h", "http://"]),
    st.text(max_size=12).map("http://".__add__),
)


@fuzz(500)
@given(url=URLS, lines=st.lists(OPTION_LINES, max_size=5))
def test_any_options_make_a_transfer_or_a_fault(url: str, lines: list[str]) -> None:
    """All the way to the handle that libcurl gets; nothing is sent."""
    text = "\n".join([spelled("url", url), *lines, ""])
    with new_workdir() as workdir:
        try:
            task = read_task("1", text.encode("utf-8", "surrogatepass"), "origin/1.conf", workdir._read_named)
            Pages(workdir).check_output(task)
            check_options(task, workdir.root, 1 << 20)
        except TaskFileError as error:
            assert str(error).isprintable()
        except pycurl.error as error:  # which the crawl takes for a fault of the task, see Fetcher.start
            assert error.args


@fuzz(40)
@given(url=URLS, lines=st.lists(OPTION_LINES, max_size=4))
def test_any_task_can_be_looked_at(url: str, lines: list[str]) -> None:
    with new_workdir() as workdir:
        Path(workdir.path("origin", "1")).write_bytes(
            "\n".join([spelled("url", url), *lines]).encode("utf-8", "surrogatepass")
        )
        assert_can_be_looked_at(workdir, "1")
        if not {"sigv4", "proxy", "preproxy", "socks"} & {line.partition(" ")[0] for line in lines}:
            list(planned(workdir, ["1"], 1 << 20))


def assert_can_be_looked_at(workdir: Workdir, name: str) -> None:
    """All that reads a task without running it."""
    assert facts_of(workdir, name) is not None
    redact_facts(facts_of(workdir, name) or {})
    status_of(workdir, 1)
    list(fsck_check(workdir))
    for words in (["show", name], ["show", name, "--redact", "--json"], ["show", name, "--curl"], ["status"]):
        run_sc_here(Path(workdir.root).parent, "-w", workdir.root, *words)


# ── records ──────────────────────────────────────────────────────────────────────────────────────────────────────────

JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=6,
)
KNOWN: dict[str, list[Any]] = {
    "stage": ["fetch", "parse"],
    "ok": [True, False],
    "reason": [*sorted(REASONS)],
    "by": ["create", "follow"],
    "saved": ["html/1.html", "html/2.html"],
    "status": [200, 204, 503],
    "headers": [[["Content-Type", "text/html; charset=gbk"]]],
    "url": ["http://127.0.0.1:9/"],
    "meta": [{"a": 1}],
    "depth": [1],
    "not_before": ["2999-01-01T00:00:00Z"],
    "plugin": ["x"],
    "page": [[1, 2]],
    "to": ["error"],
    "traceback": ["x"],
}
OTHER_KEYS = [
    "v",
    "at",
    "detail",
    "hops",
    "bytes",
    "seconds",
    "write_out",
    "curl",
    "attempt",
    "retry_in_s",
    "items",
    "created",
]
FACTS = st.fixed_dictionaries(
    {},
    optional={key: st.sampled_from(values) | JUNK for key, values in KNOWN.items()} | dict.fromkeys(OTHER_KEYS, JUNK),
)
RECORDS = st.lists(FACTS.map(json.dumps) | st.text(max_size=20), max_size=4)


@pytest.fixture
def in_a_worker(monkeypatch: pytest.MonkeyPatch) -> Callable[[Workdir], None]:
    """Makes this process a parser process of the workdir, but for its signals."""

    def become(workdir: Workdir) -> None:
        made = SimpleNamespace(
            workdir=workdir,
            pages=Pages(workdir),
            plugin=SimpleNamespace(path="parser.py"),
            digest="d",
            timeout_s=0.0,
            parse=lambda page: [{"text": page.text, "type": page.headers.get("content-type"), "url": page.url}],
        )
        monkeypatch.setattr(worker, "_worker", made, raising=False)

    return become


@fuzz(50)
@given(records=RECORDS, tail=st.binary(max_size=12))
@example(records=['{"stage": "fetch", "ok": true, "status": "x", "headers": 5, "url": 7}'], tail=b"")
@example(records=['{"stage": "fetch", "ok": true, "headers": [["a"], "xyz", [1, 2]], "status": [1]}'], tail=b"")
@example(records=['{"stage": "fetch", "ok": false, "reason": ["x"], "not_before": {}}'], tail=b"")
@example(records=["[" * 100_000], tail=b"")
@example(records=['{"by": "create", "meta": {"options": [1], "headers": {"a": [["b"]]}}, "depth": true}'], tail=b"")
def test_any_records_can_be_lived_with(in_a_worker: Callable[[Workdir], None], records: list[str], tail: bytes) -> None:
    """The next crawl, retry, parse, and all that only looks: a record may have been edited, or torn."""
    lines = [f"# sc: {record}".encode("utf-8", "surrogatepass").replace(b"\n", b" ") for record in records]
    with new_workdir() as workdir:
        for state in ("error", "working", "success"):
            name = state[0]
            put(workdir, name, state=state).write_bytes(
                b'url = "http://127.0.0.1:9/"\n' + b"\n".join(lines) + b"\n# " + tail
            )
            Path(workdir.root, "html", f"{name}.html").write_bytes(b"<p>page</p>")
            assert_can_be_looked_at(workdir, name)
            read_last_record(workdir.path(state, name))  # type: ignore[arg-type]
            crawl._is_stale(workdir, state, name, "d", False)  # type: ignore[arg-type]
        in_a_worker(workdir)
        outcome = worker._parse_one("w")
        assert outcome.ok or outcome.reason in REASONS
        with suppress(TaskFileError):
            task = workdir.read("success", "s")
            Pages(workdir).kept(task, Outcome("fetch", True, facts={"headers": [("ETag", "x")]})).record().line()
            _ = task.created, task.meta, task.page_output
        tally = crawl._take_back(workdir)
        crawl._requeue_failed(workdir, "e", None, False, tally)
        assert sorted(n for s in STATES for n in workdir.names(s)) == ["e", "s", "w"]


@fuzz(80)
@given(
    st.binary(max_size=60)
    | st.dictionaries(st.sampled_from(["pid", "host", "started", "born", "argv"]), JUNK).map(
        lambda run: json.dumps(run).encode()
    )
)
@example(b'{"pid": Infinity, "host": "h", "started": "s"}')
@example(b'{"pid": 1e999, "host": "h", "started": "s"}')
@example(b"[" * 100_000)
def test_any_run_json(data: bytes) -> None:
    with new_workdir() as workdir:
        Path(workdir.root, runlock.FOLDER, "run.json").write_bytes(data)
        workdir.running()
        with workdir.lock(["sc"]):
            assert workdir.running() is not None


# ── what a plugin gives ──────────────────────────────────────────────────────────────────────────────────────────────

THINGS = st.recursive(
    JUNK
    | st.binary(max_size=3)
    | st.sampled_from([object(), {1}, 1j, "\ud800", float("nan"), Exception, range(3)])
    | st.integers(4000, 6000).map(lambda digits: 10**digits),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=2),
    max_leaves=6,
)


@fuzz(100)
@given(st.lists(THINGS | st.dictionaries(st.text(max_size=3), THINGS, max_size=3), max_size=3))
def test_any_items_are_strict_json_or_an_error(in_a_worker: Callable[[Workdir], None], things: list[Any]) -> None:
    with new_workdir() as workdir:
        in_a_worker(workdir)
        try:
            lines, _ = worker._collect(things)
        except PluginError as error:
            assert str(error).isprintable()
            return
        for line in lines:
            json.loads(line.decode(), parse_constant=lambda word: pytest.fail(word))


@fuzz(150)
@given(
    THINGS | st.dictionaries(st.sampled_from(["url", "name", "meta", "output", "depth", *VALUED[:40]]), VALUES | THINGS)
)
def test_anything_that_create_yields_is_a_task_or_an_error(thing: Any) -> None:
    try:
        task = as_task(thing, by="create")
    except (ValueError, TypeError, ScError):  # what `users_code` makes a PluginError of, with the plugin's line
        return
    read_task(task.name, task.text(), "")


# ── what a server says ───────────────────────────────────────────────────────────────────────────────────────────────

RETRY_VALUES = st.one_of(
    st.text(max_size=40),
    st.text(st.sampled_from("0123456789.-+eE ,;:GMT"), max_size=20),
    st.tuples(
        *[
            st.sampled_from(words)
            for words in (
                ["Mon,", "Sunday,", "Xxx", ""],
                ["1", "31", "99", "06-Nov-94"],
                ["Jan", "Foo", ""],
                ["2026", "0", "99999", "-1"],
                ["10:00:00", "99:99:99", "1:1"],
                ["GMT", "+9999", "-0000", "EST", "+999999999999"],
            )
        ]
    ).map(" ".join),
)


@fuzz(500)
@given(RETRY_VALUES, st.sampled_from([429, 503, 301, 200]))
@example("Mon, 01 Jan 2026 00:00:00 +99999999999999999999", 503)
def test_any_retry_after(value: str, status: int) -> None:
    seconds = retry_after([("Retry-After", value)], status)
    assert seconds is None or 0 <= seconds < 1e13


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with FaultServer() as server:
        yield server


WORDS = st.one_of(
    st.binary(max_size=20),
    st.sampled_from(
        [
            b"",
            b"a=b",
            b"a=b; Path=/; Domain=.localhost",
            b"; ;",
            b"=",
            b"a=\t",
            b"__Host-a=b; Secure",
            b"a=b; Max-Age=9e9",
        ]
    ),
    st.sampled_from(
        [b"text/html; charset=", b"text/html; charset=\xff", b"gzip", b"br, gzip", b"chunked", b"5", b"-1", b"9" * 30]
    ),
    st.sampled_from(
        [
            b"/next",
            b"http://127.0.0.1/x y",
            b"http://\xc3\xa9.example/",
            b"//",
            b"http://[",
            b"file:///x",
            b"?",
            b"\xff",
        ]
    ),
    st.sampled_from(
        [b'attachment; filename="../x"', b"attachment; filename*=UTF-8''%ff%00", b'x; filename="', b"120", b'"v1"']
    ),
)
FIELD_NAMES = [
    *b"""Set-Cookie Content-Type Content-Encoding Content-Length Transfer-Encoding Location Retry-After
    Content-Disposition ETag Last-Modified Link WWW-Authenticate Alt-Svc
    Strict-Transport-Security X-\xff HTTP/1.1""".split(),
    b"",
    b" ",
]
ANSWERS = st.tuples(
    st.sampled_from(
        [
            b"HTTP/1.1 200 OK",
            b"HTTP/1.0 200",
            b"HTTP/1.1 302 Found",
            b"HTTP/1.1 503 no",
            b"HTTP/1.1 204 -",
            b"HTTP/9 200",
        ]
    )
    | st.binary(max_size=12),
    st.lists(st.tuples(st.sampled_from(FIELD_NAMES), WORDS).map(b": ".join), max_size=5),
    st.sampled_from([b"\r\n\r\n", b"\n\n", b"\r\n", b""]),
    st.binary(max_size=30) | st.just(b"<p>page</p>"),
).map(lambda parts: b"\r\n".join([parts[0], *parts[1]]) + parts[2] + parts[3])

names = count()


@fuzz(150)
@given(
    answers=st.lists(ANSWERS, min_size=1, max_size=2),
    cookies=st.binary(max_size=30) | st.just(b"127.0.0.1\tFALSE\t/\tFALSE\t0\tn\tv\n"),
    post=st.booleans(),
)
def test_any_answer_becomes_an_outcome(server: FaultServer, answers: list[bytes], cookies: bytes, post: bool) -> None:
    """With redirects, which all lead to this server; with a jar, headers, write-out and the server's own file name."""
    target = f"/{next(names)}"
    server.on("*", *[(answer, CLOSE) for answer in answers])
    lines = [
        f'url = "http://127.0.0.1:{server.port}{target}"', "location", "compressed", "max-redirs = 3", "max-time = 5",
        f'connect-to = "::127.0.0.1:{server.port}"', 'cookie = "var/jar"', 'cookie-jar = "var/jar"', "remote-name",
        'dump-header = "html/h.txt"', 'etag-save = "var/e"', "remote-time", "remote-header-name", 'output-dir = "html"',
        'write-out = "%{json} %{header_json} %header{set-cookie}"', *(['data = "x"'] if post else []),
    ]  # fmt: skip
    with new_workdir() as workdir, no_error_in_callbacks():
        Path(workdir.root, "var").mkdir()
        Path(workdir.root, "var", "jar").write_bytes(cookies)
        task = read_task("1", "\n".join(lines).encode(), "")
        outcome = fetched(workdir, Claim("1", workdir.path("working", "1"), -1, task=task))
        assert outcome.ok or outcome.reason in REASONS, outcome
        record = outcome.record().line()
        assert json.loads(record[6:])["stage"] == "fetch"
        assert outcome.detail.isprintable()
        if outcome.beside is not None and outcome.beside.jar:
            with suppress(TaskFileError):
                jar.merge(cookies, *outcome.beside.cookies, "var/jar")


def fetched(workdir: Workdir, claim: Claim) -> Outcome:
    assert claim.task is not None
    fetcher = Fetcher(workdir.root, Limits(), Pages(workdir).aside_of)
    try:
        fetcher.start(claim, claim.task)
        until = time.monotonic() + 30
        while not (ended := fetcher.wait(1.0)):
            assert time.monotonic() < until, "a transfer that does not end"
        return ended[0][1]
    finally:
        fetcher.close()


@contextmanager
def no_error_in_callbacks() -> Iterator[None]:
    """pycurl prints what its callbacks raise, and goes on without them."""
    raised: list[Any] = []
    before, sys.excepthook = sys.excepthook, lambda *error: raised.append(error)
    try:
        yield
    finally:
        sys.excepthook = before
    assert not raised, raised


@fuzz(300)
@given(
    *[st.binary(max_size=40) | st.text(st.sampled_from("a.\t#\n1/FALSE HttpOnly_"), max_size=60).map(str.encode)] * 3
)
def test_any_cookie_jar(here: bytes, before: bytes, after: bytes) -> None:
    try:
        merged = jar.merge(here, before, after, "var/jar")
    except TaskFileError:
        return
    assert jar.read(merged, "var/jar").keys() >= jar.read(after, "var/jar").keys()
    assert jar.merge(merged, after, after, "var/jar") == merged


# ── what people type ─────────────────────────────────────────────────────────────────────────────────────────────────

FORM_TEXT = st.text(st.sampled_from('=;,@<>()"\\: /abtype=filenamheadrscoi64'), max_size=30) | st.text(max_size=12)


@fuzz(600)
@given(st.lists(st.tuples(st.sampled_from(["form", "form-string"]), FORM_TEXT), max_size=3))
def test_any_form(fields: list[tuple[str, str]]) -> None:
    with suppress(FormError):
        read_form(fields)


COMMANDS = st.one_of(
    st.text(max_size=40),
    st.lists(
        st.sampled_from(
            [
                "curl ",
                "curl.exe ",
                "'",
                '"',
                "$'",
                "\\",
                "^",
                "\n",
                " ",
                "-H ",
                "--data ",
                "-d@",
                "-F ",
                "-o",
                "%A%",
                "$A",
                "${A",
                "`",
                "$(",
                "|",
                "&",
                ";",
                "<<E",
                ">x",
                "http://h/",
                "--next ",
                "-X",
                "--",
                "-K x",
                "{}",
                "é",
                "\udce9",
                "\0",
                "--expand-url ",
            ]
        ),
        max_size=12,
    ).map("".join),
)


@fuzz(300)
@given(COMMANDS, st.sampled_from(["auto", "bash", "cmd"]), st.sampled_from([None, {"A": "x y"}]))
def test_any_command(text: str, shell: Any, variables: dict[str, str] | None) -> None:
    split_bash(text, variables)
    split_cmd(text, variables)
    for command in read_commands(text, shell, variables):
        if command.fault is None:
            with suppress(LineError, UsageError, ValueError):
                for made in tasks_of(command.words[1:], Wish(name="n{x}", template="h{x}", values=["1", "2"])):
                    read_task(made.task.name, made.task.text(), "")
            with suppress(LineError, UsageError):
                for made in tasks_of(command.words[1:], Wish()):
                    read_task(made.task.name, made.task.text(), "")


@fuzz(300)
@given(st.text(st.sampled_from("0123456789.-"), max_size=14) | st.text(max_size=8))
def test_any_range_of_numbers(text: str) -> None:
    with suppress(UsageError):
        assert numbers(text)


@fuzz(120)
@given(st.lists(OPTION_LINES | st.text(max_size=20), max_size=5))
def test_lint_of_any_options(lines: list[str]) -> None:
    text = "\n".join(['url = "http://h/"', *lines])
    report = lint(text, "n")
    errors = [finding for finding in report.findings if finding.level == "error"]
    if not errors:
        parse_config(text, "n")


DATE_WORDS = [
    "1",
    "31",
    "99",
    "2026",
    "0",
    "20261231",
    "Jan",
    "Sunday",
    "10:00",
    "25:61",
    "+0100",
    "GMT",
    "99999999999999999999",
    "\0",
    "x/y",
    "é",
]


@fuzz(400)
@given(st.lists(st.sampled_from(DATE_WORDS), max_size=6).map(" ".join) | st.text(max_size=20))
def test_any_date(tmp_path: Path, text: str) -> None:
    with suppress(TaskFileError):
        assert isinstance(moment_of(text, str(tmp_path)), int)


@fuzz(500)
@given(st.text(max_size=30) | st.text(st.sampled_from("http://a:b@[]?=&#%.é1 "), max_size=30))
def test_any_url(text: str) -> None:
    with suppress(ValueError):
        clean_url(text).encode("ascii")
    redact_url(text)
    redact_text(text)
    without_secrets(text.encode("utf-8", "surrogatepass"))
