"""The config grammar: against a table of cases, against itself (round trip), and against the curl on this machine."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from option_strategies import OPTION_LISTS, OUTPUTS, URLS

from stateful_crawler.curl import options as curloptions
from stateful_crawler.curl.config import (
    Option,
    format_config,
    format_option,
    needs_globoff,
    parse_config,
    read_line,
)
from stateful_crawler.curl.options import OPTIONS, SHORT, nearest
from stateful_crawler.errors import TaskFileError

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "curl_grammar.json").read_text())
CURL = shutil.which("curl")
needs_curl = pytest.mark.skipif(CURL is None, reason="no curl on this machine to compare with")

URL = Option("url", "http://h.test/a")


def parse_lines(*lines: str) -> list[Option]:
    """What the lines after a url line give."""
    return parse_config("\n".join(['url = "http://h.test/a"', *lines]), "t.conf")[1:]


def fault(text: str) -> TaskFileError:
    with pytest.raises(TaskFileError) as caught:
        parse_config(text, "t.conf")
    return caught.value


# ── the table of options ────────────────────────────────────────────────────────────────────────────────────────────


def test_the_table_holds_every_option_of_curl_once() -> None:
    assert len(OPTIONS) == 287
    assert sum(len(words.split()) for words in curloptions._SHAPES.values()) == 287
    assert len(SHORT) == sum(bool(option.short) for option in OPTIONS.values()) == 59
    kinds = [option.kind for option in OPTIONS.values()]
    counts = {"flag": 136, "text": 65, "word": 36, "body": 8, "file": 26, "number": 11, "seconds": 5}
    assert {kind: kinds.count(kind) for kind in get_args(curloptions.Kind)} == counts


def test_every_option_has_a_verdict_and_says_why_it_does_nothing() -> None:
    counts = dict.fromkeys(get_args(curloptions.Verdict), 0)
    for option in OPTIONS.values():
        counts[option.verdict] += 1
        assert option.usable == (option.verdict != "refused")
        assert option.note or option.verdict in ("transfer", "ours")
    assert counts == {"transfer": 142, "ours": 39, "no-effect": 31, "refused": 75}


def test_no_verdict_or_note_is_given_to_a_name_that_is_no_option() -> None:
    named = [name for name, _, _ in curloptions._verdicts()]
    assert len(named) == len(set(named)) and set(named) == set(OPTIONS)
    assert set(curloptions._NOTES) <= set(OPTIONS)


@pytest.mark.parametrize("option", [option for option in OPTIONS.values() if not option.usable], ids=lambda o: o.name)
def test_an_option_that_we_dont_do_is_refused_by_name(option: curloptions.CurlOption) -> None:
    line = option.name if option.kind == "flag" else f'{option.name} = "1"'
    error = fault(f"url = http://h.test/\n{line}\n")
    assert error.line == 2
    assert error.problem == f'option "{option.name}" is refused: {option.note}'


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("hedaer", "header"),
        ("user_agent", "user-agent"),
        ("USER-AGENT", "user-agent"),
        ("no-locatoin", "location"),
        ("compres", "compressed"),
        ("cookies", "cookie"),
        ("method", "request"),
        ("zzzz", None),
        ("", None),
    ],
)
def test_nearest_suggests_what_was_meant(wrong: str, meant: str | None) -> None:
    assert nearest(wrong) == meant


@needs_curl
def test_the_table_agrees_with_the_help_of_the_real_curl() -> None:
    text = subprocess.run([str(CURL), "--help", "all"], capture_output=True, text=True, check=True).stdout
    listed = re.findall(r"^ *(?:-(.), )?--(no-)?(\S+)(?: ([<[]))?", text, re.MULTILINE)
    common = [entry for entry in listed if entry[2] in OPTIONS]
    assert len(common) > 200
    for short, off, name, argument in common:
        option = OPTIONS[name]
        if name not in ("help", "include"):  # help: its value may be left out; include: curl 8.10 gave -i a new name
            assert (name, option.kind != "flag") == (name, bool(argument))
            assert (name, option.short) == (name, short)
        assert not off or option.negatable


@needs_curl
def test_the_kinds_are_those_of_the_real_curl() -> None:
    """Which options want a value, and which can be switched off; asked of curl itself, option by option."""
    told = {name: (_says(f"--{name}"), _says(f"--no-{name}", "--version")) for name in OPTIONS}
    known = {name: said for name, said in told.items() if "is unknown" not in said[0]}
    assert len(known) > 200
    for name, (with_nothing, switched_off) in known.items():
        option = OPTIONS[name]
        if name != "help":  # its value may be left out
            assert (name, option.kind != "flag") == (name, "requires parameter" in with_nothing)
        if option.negatable:
            assert (name, re.findall("isn't a boolean|can't be reversed|cannot be reversed", switched_off)) == (
                name,
                [],
            )


def _says(*words: str) -> str:
    command = [str(CURL), "-q", *words]
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    return run.stdout + run.stderr


# ── the grammar ─────────────────────────────────────────────────────────────────────────────────────────────────────


def config_of(case: dict[str, Any]) -> str:
    return str(case["config"]).replace("FILL", "x" * case.get("fill", 0))


@pytest.mark.case("C049", "C051")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_grammar(case: dict[str, Any]) -> None:
    text = config_of(case)
    if "options" in case:
        expected = [
            Option(name, "x" * case.get("fill", 0) if value == "FILL" else value) for name, value in case["options"]
        ]
        assert parse_config(text, "t.conf") == expected
        assert "stricter" not in case
    else:
        line, says = case["error"]
        error = fault(text)
        assert (error.path, error.line) == ("t.conf", line)
        assert says in str(error)
        assert "wider" not in case


def test_the_cases_are_told_apart() -> None:
    assert len({case["id"] for case in CASES}) == len({config_of(case) for case in CASES}) == len(CASES) == 287


def kind_of(config: str) -> str:
    """What is wrong with a config, without the names and values at hand."""
    problem = re.sub(r'"[^"]*"', "X", fault(config).problem)
    problem = re.sub(r"^\S+ X lies outside .*", "X lies outside", problem)
    problem = re.sub(r" \(-.\) is refused", " is refused", problem)
    return re.sub(r"(is refused|needs a whole number|read the standard).*", r"\1", problem)


# The choices of the list below its table, by what it says of them.
SAID_IN_WORDS = {
    "a second url": "A second `url` or `output`",
    "a second output": "A second `url` or `output`",
    "curl would take the {} or [] in the url for a pattern of several urls": "see a pattern",
    "a carriage return inside the line": "A lone carriage return",
    "a NUL byte": "A NUL byte",
    "the function 64dec met what is not base64": "the function `64dec`",
}


def test_the_documented_choices_are_those_of_the_cases() -> None:
    """Each way in which we are stricter than curl is in the list of the documentation, and nothing else is."""
    page = (Path(__file__).parent.parent / "docs" / "task-file.md").read_text(encoding="utf-8")
    part = page.partition("\n## Where we are stricter than curl\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(.*?)` \| (.+) \|$", part, re.MULTILINE)
    assert len(rows) > 40 and all(reason for _, reason in rows)
    url = 'url = "http://h.test/"\n'
    documented = {kind_of(line if re.match("-?url", line) else url + line) for line, _ in rows}
    for kind, words in SAID_IN_WORDS.items():
        assert words in part
        documented.add(kind)
    stricter = {kind_of(config_of(case)) for case in CASES if "stricter" in case}
    assert stricter - documented == set()
    assert documented - stricter <= {"there is no curl option X", "X is refused", "option X is refused"}


def test_a_fault_names_file_and_line_and_survives_pickling() -> None:
    error = fault('# a\n\nurl = "http://h.test/"\nhedaer = "A: b"\n')
    assert str(error) == 't.conf:4: there is no curl option "hedaer" (did you mean "header"?)'
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_fault_is_fit_for_a_terminal() -> None:
    problem = fault("\x1b[31m\udcff" + "x" * 9999 + " = 1\n").problem
    assert problem.isprintable() and len(problem) < 200


def test_a_fault_tells_no_secret() -> None:
    for line in (
        "user = a:s3cret x",
        'user = "a:s3cret" x',
        'user = "a:s3cret\\n"',
        "-ua:s3cret x",
        "user = 'a:s3cret'",
    ):
        assert "s3cret" not in str(fault(f"url = http://h.test/\n{line}\n"))


@pytest.mark.parametrize(
    "name", ["user-agent", "referer", "cookie", "user", "proxy", "cacert", "output", "header", "url"]
)
@pytest.mark.parametrize("escape", ["\\r", "\\n", "\\r\\n"])
def test_no_line_end_gets_into_a_value_of_the_request_head(name: str, escape: str) -> None:
    url = "" if name == "url" else "url = http://h.test/\n"
    assert "a line end" in str(fault(f'{url}{name} = "X: a{escape}Y: b"\n'))


@pytest.mark.case("C047")
def test_a_last_line_of_any_length_needs_no_line_end() -> None:
    for length in (127, 128, 254, 255, 381, 508, 4096, 102400):
        line = f'data = "{"x" * (length - 9)}"'
        assert len(line) == length
        assert parse_lines(line) == [Option("data", "x" * (length - 9))]


def test_reading_twice_gives_equal_lists_that_are_not_shared() -> None:
    first, second = parse_config("url = h.test\nlocation\n", "a"), parse_config("url = h.test\nlocation\n", "b")
    first.append(Option("fail", True))
    assert second == [Option("url", "h.test"), Option("location", True)]


@pytest.mark.parametrize(
    "url",
    [
        "http://h/",
        "http://[::1]:80/",
        "http://h/[fe80::1%25eth0]/",
        "http://h/?a[]=1&b[]=2",
        "http://h/[::ffff:1.2.3.4]",
    ],
)
def test_urls_that_curl_takes_literally(url: str) -> None:
    assert not needs_globoff(url)


GLOBBED = r"[ ] { } [1-3] [a-z] {a} {} [[]] []] [[::1]] [1:2:3] [:] [::g] [12345::] [v1.x] [::1 [a] \[] \{a\}"


@pytest.mark.parametrize("tail", GLOBBED.split())
def test_urls_that_curl_would_glob_or_refuse(tail: str) -> None:
    assert needs_globoff(f"http://h/{tail}")


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_written_form() -> None:
    options = [URL, Option("location", True), Option("compressed", False), Option("data", '\\ " \t\n\r\v = é')]
    written = 'url = "http://h.test/a"\nlocation\nno-compressed\ndata = "\\\\ \\" \\t\\n\\r\\v = é"\n'
    assert format_config(options) == written
    assert format_config([]) == ""


@pytest.mark.parametrize(
    "option",
    [
        Option("data", "a\0b"),
        Option("data", "\x1b[31m"),
        Option("data", "\x7f"),
        Option("data", "\ud800"),
        Option("bogus", "x"),
        Option("url\nlocation", "x"),
        Option("location", "x"),
        Option("url", True),
        Option("http1.1", False),
    ],
    ids=repr,
)
def test_what_no_line_can_hold_is_not_written(option: Option) -> None:
    with pytest.raises(ValueError):
        format_option(option)


# ── round trip ──────────────────────────────────────────────────────────────────────────────────────────────────────

SPECIAL = "\\\"\t\n\r\v =:#'@-{}[]$"
TEXT = st.text(st.sampled_from(SPECIAL) | st.characters(exclude_categories=("Cc", "Cs")), max_size=12)
CONTROLS = bytes(range(32)) + b"\x7f"
BYTES = st.binary(max_size=12).map(lambda raw: raw.translate(None, CONTROLS).decode("utf-8", "surrogateescape"))
BODY = TEXT | BYTES
LINE = TEXT.map(lambda text: re.sub(r"[\r\n]", "", text)) | BYTES
SWITCHES = [option for option in OPTIONS.values() if option.usable and option.kind == "flag"]


def options_of(name: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[Option]:
    return values.map(lambda value: Option(name, value))


ANY_OPTION = st.one_of(
    st.sampled_from([Option(option.name, True) for option in SWITCHES]),
    st.sampled_from([Option(option.name, False) for option in SWITCHES if option.negatable]),
    *[options_of(name, LINE) for name in ("user-agent", "referer", "user", "proxy")],
    *[options_of(name, LINE.filter(bool)) for name in ("cacert", "pass")],
    options_of("cookie", LINE.filter(lambda text: text != "-" and not text.startswith("@"))),
    options_of("header", LINE.map("X-Any:{}".format)),
    *[options_of(name, BODY.map("x{}".format)) for name in ("data", "data-ascii", "data-binary", "json")],
    options_of("data-urlencode", BODY.map("={}".format)),
    options_of("data-raw", BODY),
    options_of("request", st.from_regex(r"[A-Za-z!-]{1,9}", fullmatch=True)),
    options_of("range", st.from_regex(r"[0-9]{1,9}-[0-9]{0,9}(,-[0-9]{1,9})?", fullmatch=True)),
    options_of("max-redirs", st.integers(-1, 2**31 - 1).map(str)),
    options_of("max-time", st.floats(0, 2147483).map("{:.3f}".format)),
)
OTHERS = st.lists(ANY_OPTION.filter(lambda option: option != Option("head", True)), max_size=10)


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(before=OTHERS, url=LINE.map(lambda text: "h" + re.sub(r"\s", "", text)), after=OTHERS)
def test_what_is_written_is_read_back(before: list[Option], url: str, after: list[Option]) -> None:
    options = [*before, Option("url", url), *after, Option("globoff", True)]
    raw = format_config(options).encode("utf-8", "surrogateescape")
    assert parse_config(raw.decode("utf-8", "surrogateescape"), "t.conf") == options


@settings(max_examples=2000, deadline=None, derandomize=True, database=None)
@given(URLS, OUTPUTS, OPTION_LISTS)
def test_any_task_comes_back_from_its_file(url: str, output: str | None, options: list[Option]) -> None:
    """Over all options. Where they are not one transfer together, each is still read back from its own line."""
    saved = [Option("output", output)] if output else []
    options = [Option("url", url), *saved, *options, Option("globoff", True)]
    text = format_config(options)
    try:
        assert parse_config(text, "t.conf") == options
    except TaskFileError:
        assert [option for line in text.split("\n")[:-1] for option in read_line(line)] == options


NAMES = "user-agent data header --referer --cookie= -A -sSd -d -N -: get -- no-location max-time data-r next {a} curl #"
SEPARATORS = ["", " ", " ", " = ", " = ", "=", ":", "\t"]
PIECES = r"""X: a a é 1 .5 @- [1] " " " = : # ' \ \" \n ^"""
ANY_LINE = st.tuples(
    st.sampled_from(NAMES.split()),
    st.sampled_from(SEPARATORS),
    st.lists(st.sampled_from([*PIECES.split(), *" \t\r\v\0\ufeff\udce9"]), max_size=5).map("".join),
    st.sampled_from(["", "", '"', " ", "\r"]),
).map("".join)


@settings(max_examples=600, deadline=None, derandomize=True, database=None)
@given(lines=st.lists(ANY_LINE, min_size=1, max_size=3))
def test_any_text_is_read_or_refused_with_its_line(lines: list[str]) -> None:
    try:
        options = parse_config("\n".join(["url=h.test", *lines]), "t.conf")
    except TaskFileError as error:
        assert error.line is None or 1 <= error.line <= len(lines) + 1
        assert str(error).isprintable()
        return
    assert parse_config(format_config(options), "t.conf") == options


# ── the real curl ───────────────────────────────────────────────────────────────────────────────────────────────────


class _Recorder(socketserver.StreamRequestHandler):
    """Keeps the head and the body of each request as they came, and answers 200."""

    def handle(self) -> None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self.rfile.readline()
            if not line:
                return
            head += line
        length = re.search(rb"\r\nContent-Length: (\d+)\r\n", head)
        body = self.rfile.read(int(length[1])) if length else b""
        self.server.requests.append((head, body))  # type: ignore[attr-defined]
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


class Echo(socketserver.ThreadingTCPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Recorder)
        self.requests: list[tuple[bytes, bytes]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    with Echo() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def sent_by_curl(echo: Echo, folder: Path, text: str) -> list[tuple[bytes, bytes]]:
    """The requests that the real curl makes for the config `text`."""
    (folder / "t.conf").write_bytes(text.encode("utf-8", "surrogateescape"))
    echo.requests.clear()
    command = [str(CURL), "-q", "-sS", "-K", "t.conf"]
    environment = {"PATH": os.environ["PATH"], "NO_PROXY": "*"}
    subprocess.run(command, cwd=folder, env=environment, check=True, timeout=60, stdin=subprocess.DEVNULL)
    return list(echo.requests)


TRICKY = [
    'say "hi"',
    "C:\\tmp\\new \\",
    '\\"',
    "a\tb",
    "=leads",
    ":leads",
    "# leads",
    "'single'",
    "trails  ",
    "café 你好 \U0001f600",
    "latin \udce9\udcff",
    "{a,b} [1-3] $HOME `x` %20 +",
    "no-location",
    "a\vb",
]


@needs_curl
@pytest.mark.parametrize("value", TRICKY)
def test_real_curl_sends_the_values_that_we_wrote(echo: Echo, tmp_path: Path, value: str) -> None:
    options = [
        Option("url", f"{echo.url}/x"),
        Option("user-agent", value),
        Option("referer", value),
        Option("cookie", f"c={value}"),
        Option("header", f"X-Tricky: {value}"),
        Option("data-raw", value),
    ]
    text = format_config(options)
    [(head, body)] = sent_by_curl(echo, tmp_path, text)
    raw = value.encode("utf-8", "surrogateescape")
    assert parse_config(text, "t.conf") == options
    assert head.startswith(b"POST /x HTTP/1.1\r\n")
    for line in (b"User-Agent: ", b"Referer: ", b"Cookie: c=", b"X-Tricky: "):
        assert b"\r\n" + line + raw + b"\r\n" in head
    assert body == raw


REQUESTS: list[tuple[list[tuple[str, str | bool]], str, list[str], str]] = [
    ([("get", True), ("data", "a=1"), ("data-urlencode", "q=x y&z")], "GET /p?a=1&q=x+y%26z", [], ""),
    ([("head", True)], "HEAD /p", [], ""),
    ([("head", True), ("get", True), ("data", "a=1")], "HEAD /p?a=1", [], ""),
    ([("request", "PUT"), ("data", "a=1"), ("data", "b=2")], "PUT /p", [], "a=1&b=2"),
    ([("data-binary", "line\r\nline\n\v\ttab")], "POST /p", [], "line\r\nline\n\v\ttab"),
    ([("range", "2-4"), ("user", "a:b")], "GET /p", ["Range: bytes=2-4", "Authorization: Basic YTpi"], ""),
    ([("header", "User-Agent:"), ("header", "X-Empty;"), ("header", "X: 1")], "GET /p", ["X-Empty:", "X: 1"], ""),
    ([("user-agent", ""), ("http1.1", True), ("compressed", False)], "GET /p", ["Accept: */*"], ""),
]


@needs_curl
@pytest.mark.parametrize(("pairs", "first", "lines", "body"), REQUESTS, ids=[first for _, first, _, _ in REQUESTS])
def test_real_curl_makes_the_request_that_we_wrote(
    echo: Echo, tmp_path: Path, pairs: list[tuple[str, str | bool]], first: str, lines: list[str], body: str
) -> None:
    options = [Option("url", f"{echo.url}/p"), *[Option(name, value) for name, value in pairs]]
    text = format_config(options)
    [(head, sent)] = sent_by_curl(echo, tmp_path, text)
    assert parse_config(text, "t.conf") == options
    assert head.decode().split("\r\n")[0] == f"{first} HTTP/1.1"
    assert set(lines) <= set(head.decode().split("\r\n"))
    assert sent.decode() == body


@needs_curl
@pytest.mark.parametrize("tail", ["?a[]=1", "[::1]", "[1-2]", "{a,b}", "?q={%22a%22:1}", "[[]]", "\\[a\\]", "]"])
def test_real_curl_needs_globoff_exactly_where_we_say(echo: Echo, tmp_path: Path, tail: str) -> None:
    url = Option("url", f"{echo.url}/{tail}")
    literal = sent_by_curl(echo, tmp_path, format_config([url, Option("globoff", True)]))
    assert len(literal) == 1
    try:
        globbed = sent_by_curl(echo, tmp_path, format_config([url]))
    except subprocess.CalledProcessError:
        globbed = []
    assert needs_globoff(str(url.value)) == (globbed != literal)


@needs_curl
def test_real_curl_reads_the_readable_cases_as_we_do(echo: Echo, tmp_path: Path) -> None:
    """A value that we accept is the value that curl sends, in every form of the line that this curl reads."""
    text = f"""
# sc: {{"v": 1}}
-sS
url:{echo.url}/x
user-agent =\t=moz#il"la
--referer "a\\tb\\\\c\\"d\\z"
-HX-A:\\n
-H "X-B:  'b' "  \t
data-raw === :x"""
    [(head, body)] = sent_by_curl(echo, tmp_path, text)
    options = dict(parse_config(text, "t.conf"))
    sent = head.decode().split("\r\n")
    assert f"User-Agent: {options['user-agent']}" in sent and options["user-agent"] == 'moz#il"la'
    assert f"Referer: {options['referer']}" in sent and options["referer"] == 'a\tb\\c"dz'
    assert "X-A:\\n" in sent and options["header"] in sent
    assert body.decode() == options["data-raw"] == "x"


@pytest.mark.parametrize("position", range(3))
def test_a_fault_of_the_whole_is_told_with_its_line_where_variables_stand_between(position: int) -> None:
    lines = ["url = http://h.test/", "expand-url = http://h.test/{{a}}"]
    lines.insert(position, "variable = a=1")
    text = "# a comment\n" + "\n".join(lines)
    assert fault(text).line == 1 + lines.index("expand-url = http://h.test/{{a}}") + 1


def test_a_variable_is_read_from_a_file_by_who_is_asked_to() -> None:
    asked = []

    def read_file(path: str) -> bytes:
        asked.append(path)
        return b"from the file"

    text = 'variable = "a[5-]@some/file"\nurl = h.test\nexpand-data = "{{a}}"\n'
    assert parse_config(text, "t", read_file=read_file)[1:] == [Option("data", "the file")]
    assert asked == ["some/file"]
    assert "can't be read from a file here" in fault(text).problem


def test_importing_the_grammar_brings_in_nothing_heavy() -> None:
    check = "import sys, stateful_crawler.curl.config; print(*{'difflib', 'pycurl', 'click'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
