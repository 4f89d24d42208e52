"""`sc lint` tells every trap of a config, and --fix mends it without touching what was right."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import SCRIPT, Found, sc, sc_json
from conftest import Serve
from helpers import Project, clean_env, run_curl
from hypothesis import given, settings
from hypothesis import strategies as st
from servers import ok

from stateful_crawler import files, lintfiles
from stateful_crawler.curl.config import Option, parse_config
from stateful_crawler.curl.options import OPTIONS
from stateful_crawler.errors import NameTaken, TaskFileError
from stateful_crawler.lint import KINDS, Report, lint
from stateful_crawler.lint.ages import ADDED
from stateful_crawler.task import new_task
from stateful_crawler.workdir import Workdir

HERE = Path(__file__).parent
DOCS = (HERE.parent / "docs" / "lint.md").read_text(encoding="utf-8")
GRAMMAR: list[dict[str, Any]] = json.loads((HERE / "data" / "curl_grammar.json").read_text(encoding="utf-8"))
URL = 'url = "http://h.test/"\noutput = "html/n.html"\n'


def reads(text: str) -> bool:
    try:
        parse_config(text, "")
    except TaskFileError:
        return False
    return True


def codes(report: Report) -> list[tuple[int | None, str, bool]]:
    return [(found.line, found.code, found.mends) for found in report.findings]


def mended(text: str, name: str = "n") -> str:
    (one,) = lint(text, name).texts
    return one


def part_names(report: Report, name: str) -> list[str]:
    return [name] if len(report.texts) == 1 else [f"{name}-{number}" for number in range(1, len(report.texts) + 1)]


def assert_settled(text: str, name: str) -> Report:
    """What --fix makes has nothing more to mend, and is read if nothing but what was mended was wrong."""
    report = lint(text, name)
    for part, part_name in zip(report.texts, part_names(report, name), strict=True):
        again = lint(part, part_name)
        assert not [found for found in again.findings if found.mends], (text, part)
        assert again.texts == (part,)
        if all(found.mends for found in report.findings if found.level == "error"):
            assert reads(part), (text, part)
    return report


# ── the traps ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("case", GRAMMAR, ids=lambda case: case["id"])
def test_it_finds_what_is_refused_and_no_error_in_what_is_read(case: dict[str, Any]) -> None:
    text = case["config"].replace("FILL", "x" * case.get("fill", 0))
    report = lint(text, "n") if len(text) > 1 << 20 else assert_settled(text, "n")
    errors = [found for found in report.findings if found.level == "error"]
    if not reads(text):
        assert errors
    else:  # read as curl reads it, though hardly as it was meant; or refused only by where the page would go
        assert {found.code for found in errors} <= {"leading-equals", "outside"}
    if "error" in case and not reads(text):
        assert case["error"][0] is None or errors[0].line is None or errors[0].line <= case["error"][0]


def documented() -> Iterator[tuple[str, str, list[str]]]:
    """Each kind of finding in the docs: its heading's level, its name, its blocks."""
    for level, chapter in re.findall(r"^## (Errors|Warnings)$(.*?)(?=^## )", DOCS, re.MULTILINE | re.DOTALL):
        for code, text in re.findall(r"^### (\S+)$(.*?)(?=^### |\Z)", chapter, re.MULTILINE | re.DOTALL):
            yield level, code, re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_every_kind_of_finding_is_documented() -> None:
    told = {code: level for level, code, _ in documented()}
    assert told == {code: f"{kind.level}s".capitalize() for code, kind in KINDS.items()}
    for kind in KINDS.values():
        assert re.sub(r"\W", "", kind.why).lower() in re.sub(r"\W", "", DOCS).lower()


NO_EXAMPLE = {"encoding", "bom", "crlf", "long-line"}  # what Markdown can't show


@pytest.mark.parametrize(("code", "blocks"), [(code, blocks) for _, code, blocks in documented()])
def test_the_example_in_the_docs_is_what_happens(code: str, blocks: list[str]) -> None:
    if code in NO_EXAMPLE:
        assert not blocks
        return
    report = assert_settled(blocks[0], "7")
    assert {found.code for found in report.findings} == {code}
    assert list(report.texts) == (blocks[1:] or blocks[:1])
    assert report.findings[0].mends == (len(blocks) > 1)


def test_every_line_of_the_docs_on_task_files_that_is_refused_is_found() -> None:
    text = (HERE.parent / "docs" / "task-file.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.*?)` \| .* \|$", text.partition("## Where we are stricter than curl")[2], re.MULTILINE)
    refused = [row for row in rows if not reads(f"{URL}{row}\n") and ("=" in row or row[0] == "-")]
    assert len(refused) > 15
    for row in refused:
        assert any(found.level == "error" for found in lint(f"{URL}{row}\n", "n").findings), row


WHAT_MARKDOWN_CAN_NOT_SHOW = {
    "bom": ("\ufeff" + URL, URL, 1),
    "crlf": (f"# a\n{URL}location\r\n", f"# a\n{URL}location\n", 4),
    "cr": (URL.replace("\n", "\r"), URL, 1),
    "utf-16": (("\ufeff" + URL).encode("utf-16-le").decode("utf-8", "surrogateescape"), URL, 1),
}


@pytest.mark.parametrize("name", WHAT_MARKDOWN_CAN_NOT_SHOW)
def test_what_is_wrong_with_the_bytes(name: str) -> None:
    text, after, line = WHAT_MARKDOWN_CAN_NOT_SHOW[name]
    report = assert_settled(text, "n")
    assert report.texts == (after,)
    assert report.findings[0].line == line


def test_a_line_that_old_curls_can_not_read() -> None:
    report = lint(f'{URL}data-raw = "{"x" * 110_000}"\n', "n")
    assert codes(report) == [(3, "long-line", False)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("LOCATION\n", "location\n"),
        ("no-location = true\n", "no-location\n"),
        ("compressed = off # not now\n", None),
        ("user-agent = my crawler # mine\n", '# mine\nuser-agent = "my crawler"\n'),
        ("header = 'X-A: \"b\"' # c\n", '# c\nheader = "X-A: \\"b\\""\n'),
        ('data = "{"a": "b c"}"\n', 'data = "{\\"a\\": \\"b c\\"}"\n'),
        ('data = "{\n  \\"a\\": 1,\n  \\"b\\": 2\n}"\n', 'data = "{\\n  \\"a\\": 1,\\n  \\"b\\": 2\\n}"\n'),
        ('user-agent = "me\nlocation\n', 'user-agent = "me"\nlocation\n'),
        ('  -sSL -A "me"\n', 'silent\nshow-error\nlocation\nuser-agent = "me"\n'),
        ("--header=X-A:1\n", 'header = "X-A:1"\n'),
        ("-N true\n", "no-buffer\n"),
        ("User-Agent: me and you\n", 'user-agent = "me and you"\n'),
        ("max-redirs = +5\n", 'max-redirs = "5"\n'),
        ("dump-header = headers.txt\n", 'dump-header = "html/headers.txt"\n'),
        ("dump-header = /srv/headers.txt\n", None),
        ("etag-save = ../tag\n", None),
        ("maxtime = 5\n", 'max-time = "5"\n'),
        ("// note\n", "# // note\n"),
    ],
)
def test_how_a_line_is_mended(before: str, after: str | None) -> None:
    report = assert_settled(URL + before, "n")
    assert report.texts == (URL + (before if after is None else after),)
    assert any(found.level == "error" for found in report.findings) or after is not None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('variable = "x=1"\nexpand-url = "http://h.test/{{x}}"\n', [(1, "newer-option"), (2, "no-output")]),
        ('variable = "p=/etc"\nURLexpand-output = "{{p}}/x"\n', [(1, "newer-option"), (3, "outside")]),
        ('URLoutput = "html/x"\nexpand-max-time = "{{none}}"\n', [(3, "bad-value")]),
        ('variable = %HOME\nURLoutput = "html/x"\n', [(1, "bad-value")]),
        ('URLoutput-dir = "html/a"\noutput = "../x"\n', [(2, "newer-option"), (3, "outside")]),
        ('URLoutput-dir = "html/a"\noutput = "x"\n', [(2, "newer-option")]),
        ('URLform = "a=(;type=multipart/mixed"\nform = "=)"\noutput = "html/x"\n', []),
        ('user-agent = "me"\nvariable = "a=1"\n', [(2, "newer-option"), (None, "no-url")]),
    ],
)
def test_what_only_the_whole_file_tells(text: str, found: list[tuple[int | None, str]]) -> None:
    report = assert_settled(text.replace("URL", 'url = "http://h.test/"\n'), "n")
    assert [(one.line, one.code) for one in report.findings] == found


def test_only_the_first_lines_are_asked_whether_they_are_a_command() -> None:
    report = lint("# pasted\ncurl 'http://h.test/' \\\n  -H 'X: 1' \\\n  --compressed\n", "n")
    assert codes(report) == [(1, "command-line", False)]
    assert "import-curl" in report.findings[0].fix


def test_each_finding_says_why_and_what_to_do() -> None:
    for case in GRAMMAR:
        for found in lint(case["config"], "n").findings:
            assert found.what and found.why, found
            assert found.fix or found.code in ("newer-option", "no-effect", "conflict", "bad-value"), found


def test_the_versions_are_of_options_that_there_are() -> None:
    assert set(ADDED) <= set(OPTIONS)
    assert ADDED["variable"] == "8.3.0" and ADDED["json"] == "7.82.0" and "location" not in ADDED


# ── no noise ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_sc_writes_is_clean(tmp_path: Path) -> None:
    project = Found(tmp_path)
    sc(project, "init")
    sc(project, "create", "1", "5")
    run = sc(project, "lint")
    assert (run.stdout, run.stderr) == ("", "5 files: 0 errors, 0 warnings\n")


@pytest.mark.parametrize("url", ["http://h.test/?a[]=1&b={x}", "http://[::1]:80/", "http://h.test/é?ü=1"])
def test_a_new_task_is_clean(url: str) -> None:
    text = new_task(url, by="hand", meta={"why": "url = \n"}).text().decode()
    assert not lint(text, "n").findings


def test_records_are_no_lines_of_the_config() -> None:
    text = f'# sc: {{"v": 1, "by": "create"}}\n{URL}# sc: {{"at": \0\0\0'
    assert not lint(text, "n").findings


# ── what was right stays ─────────────────────────────────────────────────────────────────────────────────────────────

RIGHT = (
    r"""
location|compressed|user-agent = "a b"|-H "X-A: 1"|header = X-B:2|max-time = 5|# note||# sc: {"v": 1, "by": "hand"}|-G
data = "a=\"1\""|cookie "a=1"|no-location|  # indented note
""".strip()
    .replace("\n", "|")
    .split("|")
)
WRONG = (
    r"""
location = false|header = X-C: 3|user-agent = 'me'|useragent = me|-A"me"|--compressed \|max-time = "5" # s|data = "open
  location|-G -d a=1|max-time = .5|; note|Accept: text/html|--referer = http://h.test/|proto = =https|nonsense = 1
location = ""|config = x|x = "y" z|é|data = "{"a": 1}"|request = HEAD|header = "Accept-Encoding: gzip"|cookie-jar = jar
next|-:
""".strip()
    .replace("\n", "|")
    .split("|")
)
ADDRESS = st.sampled_from(
    ['url = "http://h.test/"', "url = http://h.test/[1-3]", "http://h.test/", "url = http://h.test/{", "url = 'h.test'"]
)
OUTPUT = st.sampled_from(['output = "html/n.html"', "output = n.html", "-o out_#1", "output = /x"])


@settings(max_examples=400, deadline=None, derandomize=True)
@given(
    st.lists(st.sampled_from([*RIGHT, *WRONG]), max_size=10),
    st.lists(ADDRESS, min_size=1, max_size=3),
    st.lists(OUTPUT, max_size=2),
    st.randoms(use_true_random=False),
    st.sampled_from(["\n", "\r\n"]),
)
def test_right_lines_stay_as_they_are(
    lines: list[str], urls: list[str], outputs: list[str], random: Any, end: str
) -> None:
    every = [*lines, *urls, *outputs]
    random.shuffle(every)
    report = assert_settled(end.join(every) + end, "n")
    right = [line for line in every if line in RIGHT]
    if len(report.texts) == 1:
        left = iter(report.texts[0].split("\n"))
        assert all(any(line == other for other in left) for line in right), (every, report.texts)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text(alphabet=st.sampled_from("aulr -=:#\"'\\\n\r\t{}[]/h@\0\ufeff-AHGd:\u00e9\udce9"), max_size=60))
def test_any_text_at_all(text: str) -> None:
    assert_settled(text, "n")
    assert_settled(f"{URL}{text}", "n")


# Each is told, with these codes at these lines, and stays as it is: to mend it would take a guess.
STAYS: dict[str, list[tuple[int, str]]] = {
    # a hash is not always a comment
    "header = X-Color: #ff0000": [(3, "unquoted-blank")],
    "header = X-Color: # ff0000": [(3, "unquoted-blank")],
    'header = "X-Color:" # ff0000': [(3, "text-after-quote")],
    "header = 'X-Color:' # ff0000": [(3, "single-quotes")],
    "header = X-Color: \\": [(3, "continued-line")],
    'header = "X-Color:': [(3, "open-quote")],
    "X-Color: blue #ff0000": [(3, "header-line"), (3, "unquoted-blank")],
    "data = color: #fff; size: 1": [(3, "unquoted-blank")],
    "referer = http://h.test/ #frag": [(3, "unquoted-blank")],
    'user-agent = "me" #mine': [(3, "text-after-quote")],
    # options behind a value
    "user-agent = me -L": [(3, "several-options")],
    "--user-agent me --location": [(3, "several-options")],
    "-A me -sSL": [(3, "several-options")],
    "-Ame --no-location": [(3, "several-options")],
    "-G -d a=1 -L": [(3, "several-options"), (3, "several-options")],
    "Accept: text/html -H X:1": [(3, "header-line"), (3, "several-options")],
    'data = "{"a": 1}" -H "X: {}"': [(3, "text-after-quote")],
    # a body over several lines
    'data = "{ a\n# note }"': [(3, "open-quote")],
    'data = "one\nuser-agent = two"': [(3, "open-quote")],
    'data = "one\n-L\ntwo"': [(3, "open-quote")],
    'data = "title: x\n\nfoo"': [(3, "open-quote")],
    'data = "title: x\n\nfoo': [(3, "open-quote"), (5, "unknown-option")],
    'data = "a\n\\u00e9"': [(3, "open-quote")],
    '-d "{ a\n# note }"': [(3, "open-quote")],
    '-d "one\ntwo"': [(3, "open-quote")],
    'user-agent = "me \\\ncompressed': [(3, "continued-line"), (3, "open-quote")],
    "data = '{\nuser-agent = my me\n}'": [(3, "single-quotes")],
    'header = "X: 1\nY: 2"': [(3, "open-quote")],
    'header = "X: 1\n two"': [(3, "open-quote")],
    'user-agent = "me\nyou"': [(3, "open-quote")],
    # a quote that nothing opened
    'user-agent = two"': [(3, "stray-quote")],
    '  user-agent = two"': [(3, "indent"), (3, "stray-quote")],
    'header = X: two"': [(3, "unquoted-blank")],
    'max-time = 5"': [(3, "stray-quote"), (3, "bad-value")],
    # a backslash that curl drops
    'data = "caf\\u00e9"': [(3, "lost-backslash")],
    'data = "a\\/b"': [(3, "lost-backslash")],
    'data = "\\\\\\q"': [(3, "lost-backslash")],
    '--data="\\q"': [(3, "glued-equals"), (3, "lost-backslash")],
    'If-None-Match: "abc"': [(3, "header-line")],
}


@pytest.mark.parametrize("text", STAYS)
@pytest.mark.parametrize("end", ["", "\nlocation\n"])
def test_what_takes_a_guess_is_told_and_stays(text: str, end: str) -> None:
    report = assert_settled(URL + text + end, "n")
    assert report.texts == (URL + text + end,)
    assert codes(report) == [(line, code, False) for line, code in STAYS[text]]


def test_what_takes_a_guess_stays_beside_what_is_mended() -> None:
    for text, found in STAYS.items():
        report = assert_settled(f"{URL}useragent = me\n{text}\nlocation = true\n", "n")
        assert report.texts == (f'{URL}user-agent = "me"\n{text}\nlocation\n',)
        assert {(line + 1, code, False) for line, code in found} <= set(codes(report))


@pytest.mark.parametrize("line", ["url = http://h.test/3 -d a=1", "--url http://h.test/1 -o html/x -L --data @f"])
def test_a_url_with_options_behind_it_stays(line: str) -> None:
    report = assert_settled(line + "\n", "n")
    assert codes(report) == [(1, "several-options", False)] and report.texts == (line + "\n",)


def test_a_bare_url_with_options_behind_it_stays() -> None:
    report = assert_settled("http://h.test/1 -o html/x\n", "n")
    assert codes(report)[1:] == [(1, "several-options", False)] and report.texts == ("http://h.test/1 -o html/x\n",)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('data = "[\n[1],\n[2]\n]"\n', 'data = "[\\n[1],\\n[2]\\n]"\n'),
        ('user-agent = "me\n\n# note\nheader = X: 1', 'user-agent = "me"\n\n# note\nheader = "X: 1"'),
        ('user-agent = "me\nlocation\ndata = "one\ntwo"\n', 'user-agent = "me"\nlocation\ndata = "one\\ntwo"\n'),
        ("header = X: a - b -- c # d -L\n", '# d -L\nheader = "X: a - b -- c"\n'),
        ('header = X: say "hi"\n', 'header = "X: say \\"hi\\""\n'),
        ("header = X: a#b\n", 'header = "X: a#b"\n'),
        ('data = "{"a": "\\u00e9"}"\n', 'data = "{\\"a\\": \\"\\\\u00e9\\"}"\n'),
    ],
)
def test_what_takes_no_guess_is_mended(before: str, after: str) -> None:
    assert assert_settled(URL + before, "n").texts == (URL + after,)


def test_values_are_the_same_after_the_mend() -> None:
    text = 'url = "http://h.test/"\nuser-agent = "a\\tb"\nheader = X-A: 1\ndata = @body\n'
    assert parse_config(mended(text), "")[2:] == [
        Option("user-agent", "a\tb"),
        Option("header", "X-A: 1"),
        Option("data", "@body"),
    ]


# ── several transfers ────────────────────────────────────────────────────────────────────────────────────────────────

SEVERAL = {
    "urls": "location\nurl = URL/a\nurl = URL/b\nheader = X-A:1\n",
    "outputs": "url = URL/a\noutput = one\nurl = URL/b\noutput = two\n",
    "outputs first": "output = one\noutput = two\nurl = URL/a\nurl = URL/b\n",
    "next": "user-agent = one\nurl = URL/a\nnext\nurl = URL/b\n-d a=1\n-:\n# third\nurl = URL/c\nhead\n",
    "next without a url between": "url = URL/a\nnext\nuser-agent = x\nnext\nurl = URL/b\n",
    "set": 'url = "URL/{a,b}/x"\noutput = "page_#1"\n',
    "range": 'url = "URL/[08-12:2]"\n',
    "letters and a set": 'url = "URL/[a-c:2]/{,x}"\ndata = "k=v"\n',
    "literal and pattern": 'url = "URL/?a[]=1"\nurl = "URL/[1-2]"\n',
    "escaped": 'url = "URL/\\\\{[1-2]\\\\}"\n',
    "globoff in the second": 'url = "URL/[1-2]"\nnext\nurl = "URL/[1-2]"\ngloboff\n',
    "letters": "-sGL\n-d q=1\nurl = URL/a\nurl = URL/b\n",
    "remote names": "url = URL/a.txt\nremote-name\nurl = URL/b.txt\nremote-name\n",
    "mistakes": "header = 'X-A: 1'\nurl = URL/a\nurl = URL/b\nuser-agent = 'me'\n",
}


@pytest.mark.skipif(shutil.which("curl") is None, reason="compares with curl, which is not installed")
@pytest.mark.parametrize("name", [name for name in SEVERAL if name != "mistakes"])
def test_the_parts_send_what_curl_sends_for_the_whole(tmp_path: Path, serve: Serve, name: str) -> None:
    server = serve({"*": ok("<p>x</p>")})
    text = SEVERAL[name].replace("URL", server.url)
    (tmp_path / "whole.conf").write_text(text)
    run_curl(tmp_path, "-K", "whole.conf")
    count = server.count()
    report = assert_settled(text, "n")
    assert len(report.texts) == count > 1
    (tmp_path / "html").mkdir()
    for number, part in enumerate(report.texts):
        (tmp_path / f"{number}.conf").write_text(part)
        run_curl(tmp_path, "-K", f"{number}.conf")
    bytes_of = [request.head + request.body for request in server.requests]
    assert bytes_of[count:] == bytes_of[:count]


def test_every_part_has_a_page_of_its_own() -> None:
    for text in SEVERAL.values():
        report = lint(text.replace("URL", "http://h.test"), "n")
        places = [dict(parse_config(part, "")).get("output") for part in report.texts]
        assert len(set(places)) == len(places) or places == [None, None], (text, places)


def test_records_and_variables_go_into_each_part() -> None:
    text = '# sc: {"v": 1, "by": "create", "meta": {"a": 1}}\nvariable = "a=1"\nurl = http://h.test/a\nnext\n# b\nurl = http://h.test/b\n'
    first, second = lint(text, "n").texts
    head = '# sc: {"v": 1, "by": "create", "meta": {"a": 1}}\nvariable = "a=1"\n'
    assert first == head + 'url = http://h.test/a\noutput = "html/n-1.html"\n'
    assert second == head + '# b\nurl = http://h.test/b\noutput = "html/n-2.html"\n'


def test_a_file_with_a_fault_that_stays_is_not_split() -> None:
    report = lint("url = http://h.test/a\nurl = http://h.test/b\nnonsense = 1\n", "n")
    assert codes(report) == [(2, "several-transfers", False), (3, "unknown-option", False)]
    assert report.texts == ("url = http://h.test/a\nurl = http://h.test/b\nnonsense = 1\n",)


def test_too_many_urls_are_left_to_create() -> None:
    report = assert_settled('url = "http://h.test/[1-99999]"\noutput = "html/n.html"\n', "n")
    assert codes(report) == [(1, "url-pattern", False)]
    assert "create.py" in report.findings[0].fix


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────────

BAD = "url = http://h.test/\nheader = X-A: 1\n"
GOOD = 'url = http://h.test/\noutput = "html/NAME.html"\nheader = "X-A: 1"\n'


def put(project: Project, state: str, name: str, text: str) -> Path:
    path = project.workdir / state / f"{name}.conf"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_files_it_looks_at_every_state(project: Project) -> None:
    for state in ("origin", "working", "success", "error"):
        put(project, state, f"in-{state}", BAD)
    put(project, "origin", ".hidden", BAD)
    found = sc_json(project, "lint", check=3)
    places = Counter(one["file"] for one in found)
    assert places == {f"workdir/{state}/in-{state}.conf": 2 for state in ("origin", "working", "success", "error")}


def test_a_finding_as_text_and_as_json(project: Project) -> None:
    path = put(project, "origin", "a", BAD)
    run = sc(project, "lint", "a", check=3)
    assert run.stdout.splitlines()[3:] == [
        'workdir/origin/a.conf:2: error: a blank in the unquoted value of "header" [unquoted-blank]',
        "    why: curl cuts an unquoted value at its first blank",
        "    fix: put the value in double quotes (--fix does)",
    ]
    assert run.stderr == "1 file: 1 error, 1 warning (--fix mends 2)\n"
    assert sc_json(project, "lint", str(path), check=3)[1] == {
        "file": str(path),
        "line": 2,
        "code": "unquoted-blank",
        "level": "error",
        "what": 'a blank in the unquoted value of "header"',
        "why": "curl cuts an unquoted value at its first blank",
        "fix": "put the value in double quotes",
        "fixable": True,
        "mended": False,
        "refused": "",
    }


def test_warnings_alone_are_no_failure(project: Project) -> None:
    put(project, "origin", "a", "url = http://h.test/\n")
    assert "[no-output]" in sc(project, "lint", check=0).stdout
    assert sc(project, "-q", "lint", check=0).stderr == ""


def test_fix_mends_and_keeps_the_mode(project: Project) -> None:
    path = put(project, "origin", "a", BAD)
    path.chmod(0o600)
    run = sc(project, "lint", "--fix", check=0)
    assert path.read_text() == GOOD.replace("NAME", "a")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "(mended)" in run.stdout and run.stderr == "1 file: 0 errors, 0 warnings, 2 mended\n"
    before = path.stat().st_mtime_ns
    assert sc(project, "lint", "--fix", check=0).stdout == ""
    assert path.stat().st_mtime_ns == before


def test_fix_leaves_what_takes_a_guess_and_says_where_it_is_now(project: Project) -> None:
    path = put(project, "origin", "a", "url = http://h.test/\nnonsense = 1\n")
    found = sc_json(project, "lint", "--fix", check=3)
    assert path.read_text() == 'url = http://h.test/\noutput = "html/a.html"\nnonsense = 1\n'
    assert [(one["line"], one["code"], one["mended"]) for one in found] == [
        (1, "no-output", True),
        (3, "unknown-option", False),
    ]


def test_fix_waits_for_no_run(project: Project) -> None:
    path = put(project, "origin", "a", BAD)
    elsewhere = project.folder / "b.conf"
    elsewhere.write_text(BAD)
    with Workdir(str(project.workdir)).open().lock(["test"]):
        assert "is in use by pid" in sc(project, "lint", "--fix", check=6).stderr
        assert "is in use by pid" in sc(project, "-w", "other", "lint", "--fix", str(path), check=6).stderr
        sc(project, "lint", check=3)
        sc(project, "lint", "--fix", "b.conf", check=0)
    assert path.read_text() == BAD
    assert elsewhere.read_text() == GOOD.replace("NAME", "b")


TWO = "url = http://h.test/a\nurl = http://h.test/b\n"


def test_fix_makes_a_file_of_each_transfer(project: Project) -> None:
    path = put(project, "origin", "a", TWO)
    path.chmod(0o640)
    sc(project, "lint", "--fix", check=0)
    parts = {part.name: part.read_text() for part in path.parent.iterdir()}
    assert parts == {
        "a-1.conf": 'url = http://h.test/a\noutput = "html/a-1.html"\n',
        "a-2.conf": 'url = http://h.test/b\noutput = "html/a-2.html"\n',
    }
    assert {stat.S_IMODE(part.stat().st_mode) for part in path.parent.iterdir()} == {0o640}


@pytest.mark.parametrize("state", ["origin", "success"])
def test_a_part_never_takes_the_name_of_another_task(project: Project, state: str) -> None:
    path = put(project, "origin", "a", TWO)
    other = put(project, state, "a-2", GOOD.replace("NAME", "a-2"))
    run = sc(project, "lint", "--fix", "a", check=3)
    assert f"not mended: {other} exists already" in run.stdout
    assert path.read_text() == TWO and other.read_text() == GOOD.replace("NAME", "a-2")
    assert not (path.parent / "a-1.conf").exists()


def test_a_split_that_was_killed_is_ended_by_the_next(project: Project) -> None:
    path = put(project, "origin", "a", TWO)
    put(project, "origin", "a-1", lint(TWO, "a").texts[0])
    sc(project, "lint", "--fix", check=0)
    assert sorted(part.name for part in path.parent.iterdir()) == ["a-1.conf", "a-2.conf"]


def test_a_name_that_is_taken_at_the_last_moment_costs_nothing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put(project, "origin", "a", TWO)
    late = path.parent / "a-2.conf"
    publish_new = files.publish_new

    def publish_late(aside: str, final: str) -> None:
        if final == str(late):
            late.write_text("another's")
        publish_new(aside, final)

    monkeypatch.setattr(files, "publish_new", publish_late)
    workdir = Workdir(str(project.workdir))
    (config,) = lintfiles.configs(workdir, [str(path)])
    with pytest.raises(NameTaken):
        lintfiles.write(workdir, config, config.look().texts)
    assert {part.name: part.read_text() for part in path.parent.iterdir()} == {"a.conf": TWO, "a-2.conf": "another's"}


def through(project: Project, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, "lint", *words, "-"], input=text, cwd=project.folder, env=clean_env(), capture_output=True, text=True
    )


def test_the_standard_input(project: Project) -> None:
    run = through(project, BAD)
    assert run.returncode == 3 and run.stdout.startswith("-:1: warning: no output [no-output]")
    run = through(project, BAD, "--fix")
    assert run.returncode == 0 and run.stdout == GOOD.replace("NAME", "stdin")
    assert "(mended)" in run.stderr
    run = through(project, TWO, "--fix")
    assert run.returncode == 3 and run.stdout == TWO and "[several-transfers]" in run.stderr
    assert through(project, BAD, "--fix", "--json").returncode == 2


def test_files_folders_and_names(project: Project) -> None:
    folder = project.folder / "more"
    folder.mkdir()
    (folder / "x.conf").write_text(BAD)
    (folder / "y.txt").write_text(BAD)
    (folder / ".z.conf").write_text(BAD)
    put(project, "error", "t", BAD)
    found = [one["file"] for one in sc_json(project, "lint", "more", "t", "more/y.txt", check=3)]
    assert list(dict.fromkeys(found)) == ["more/x.conf", "workdir/error/t.conf", "more/y.txt"]
    assert "there is no file and no task 'nope'" in sc(project, "lint", "nope", check=2).stderr
    assert "there is no workdir" in sc(project, "-w", "none", "lint", check=2).stderr


def test_a_link_is_not_mended(project: Project) -> None:
    path = project.folder / "real.conf"
    path.write_text(BAD)
    os.symlink(path, project.folder / "link.conf")
    run = sc(project, "lint", "--fix", "link.conf", check=3)
    assert "not mended: link.conf is a symbolic link; name the file that it leads to" in run.stdout
    assert (project.folder / "link.conf").is_symlink() and path.read_text() == BAD


@pytest.mark.parametrize("text", [BAD, "url = http://h.test/a\nurl = http://h.test/b\n"])
def test_a_read_only_file_is_not_mended(project: Project, text: str) -> None:
    path = put(project, "origin", "a", text)
    path.chmod(0o444)
    found = sc_json(project, "lint", "--fix", "a", check=3)
    assert {one["refused"] for one in found} == {f"{path} is read-only; make it writable"}
    assert [file.name for file in path.parent.iterdir()] == ["a.conf"] and path.read_text() == text


def test_bytes_that_are_not_utf_8_survive(project: Project) -> None:
    path = project.workdir / "origin" / "a.conf"
    path.write_bytes(b'# \xff\nurl = http://h.test/\nuser-agent = "caf\xe9"\nheader = X-A: \xe9\n')
    sc(project, "lint", "--fix", check=0)
    assert path.read_bytes() == (
        b'# \xff\nurl = http://h.test/\noutput = "html/a.html"\nuser-agent = "caf\xe9"\nheader = "X-A: \xe9"\n'
    )
