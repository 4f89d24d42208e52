"""`sc import-curl` and `sc show --curl`: a pasted command and its task send the same, and nothing is lost silently."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import SCRIPT, sc, sc_json, texts
from curl_samples import REFUSED, SITE, Sample, samples
from helpers import TIMEOUT_S, Project, clean_env, run_curl
from hypothesis import HealthCheck, example, given, settings
from option_strategies import OPTION_LISTS, OUTPUTS, URLS
from servers import FaultServer, Request, ok

from stateful_crawler.curl.bash import quote_bash, split_bash
from stateful_crawler.curl.cmd import quote_cmd, shell_of, split_cmd
from stateful_crawler.curl.command import lines_of, transfers_of
from stateful_crawler.curl.config import Option, needs_globoff
from stateful_crawler.curl.values import LineError
from stateful_crawler.curlimport import Imported, Wish, numbers, read_commands, tasks_of
from stateful_crawler.errors import UsageError
from stateful_crawler.task import USER_AGENT, read_task

needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
needs_bash = pytest.mark.skipif(not shutil.which("curl") or not shutil.which("bash"), reason="needs bash and curl")

SAMPLES = samples()
BASH = [sample for sample in SAMPLES if sample.is_bash]


def imported(text: str) -> list[Imported]:
    found = []
    for command in read_commands(text):
        assert command.fault is None, command.fault
        found += list(tasks_of(command.words[1:], Wish()))
    return found


def only(text: str) -> dict[str, Any]:
    """The options of the one task of a command."""
    (one,) = imported(text)
    return {"url": one.task.url, **dict(one.task.options)}


def fault(text: str, variables: dict[str, str] | None = None) -> str:
    """Why the one command of a text is refused."""
    (command,) = read_commands(text, variables=variables)
    if command.fault:
        return f"{command.fault.problem} ({command.fault.hint})"
    with pytest.raises(LineError) as raised:
        list(tasks_of(command.words[1:], Wish()))
    return f"{raised.value.problem} ({raised.value.hint})"


@pytest.fixture(scope="module")
def echo() -> Iterator[FaultServer]:
    with FaultServer({"*": ok(b"page")}) as server:
        yield server


def sent_since(server: FaultServer, count: int) -> list[Request]:
    return server.requests[count:]


def send(server: FaultServer, project: Project, found: list[Imported]) -> list[Request]:
    """The requests that real curl makes of the tasks' files."""
    before = len(server.requests)
    for one in found:
        path = project.workdir / "origin" / f"{one.task.name}.conf"
        path.write_bytes(one.task.text())
        (project.workdir / one.task.page_output).parent.mkdir(parents=True, exist_ok=True)
        run = run_curl(project.workdir, "-K", str(path))
        assert run.returncode == 0, run.stderr
    return sent_since(server, before)


# ── what browsers write ──────────────────────────────────────────────────────────────────────────────────────────────


def test_there_are_enough_samples_of_each_form() -> None:
    assert len(SAMPLES) >= 60
    forms = ("chrome-bash", "chrome-cmd", "firefox-posix", "firefox-cmd", "safari")
    shapes = [sample.name for sample in SAMPLES if sample.name.startswith(forms)]
    assert len(shapes) >= 20
    assert all(any(name.startswith(form) for name in shapes) for form in forms)


@pytest.mark.case("C055")
@needs_curl
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_a_pasted_command_becomes_the_request_that_it_stands_for(
    sample: Sample, echo: FaultServer, project: Project
) -> None:
    requests = send(echo, project, imported(sample.text.replace(SITE, echo.url)))
    assert [request.method for request in requests] == [expected.method for expected in sample.requests]
    for request, expected in zip(requests, sample.requests, strict=True):
        assert not expected.differs_from(request)


@needs_bash
@pytest.mark.parametrize("sample", BASH, ids=lambda sample: sample.name)
def test_a_task_sends_byte_for_byte_what_bash_and_curl_send(
    sample: Sample, echo: FaultServer, project: Project, tmp_path: Path
) -> None:
    text = sample.text.replace(SITE, echo.url)
    script = re.sub(r"^(\$|>) ", "", text, flags=re.MULTILINE) if "prompt" in sample.name else text
    before = len(echo.requests)
    (tmp_path / "html").mkdir()
    script = script.replace("\r\n", "\n").replace(" -q ", " ")
    env = clean_env(HOME=str(tmp_path), LC_ALL="C.UTF-8")
    run = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=env, capture_output=True, timeout=TIMEOUT_S)
    assert run.returncode == 0, run.stderr
    by_bash = [shape(request) for request in sent_since(echo, before)]
    by_task = [shape(request) for request in send(echo, project, imported(text))]
    if sample.name == "firefox-posix-post":
        # Firefox writes the two halves of a pair; bash sends each by itself, which is no UTF-8. We send the character.
        by_bash = [(head, body.replace(b"\xed\xa0\xbd\xed\xb8\x80", "😀".encode())) for head, body in by_bash]
        by_bash = [(re.sub(rb"Content-Length: \d+", b"", head), body) for head, body in by_bash]
        by_task = [(re.sub(rb"Content-Length: \d+", b"", head), body) for head, body in by_task]
    assert by_task == by_bash


def shape(request: Request) -> tuple[bytes, bytes]:
    """The bytes of a request, but for what an import changes by design (our own name, what we can decode) and for
    chance (the boundary of a form)."""
    head = re.sub(rb"User-Agent: (curl/[0-9.]+|%b)\r\n" % USER_AGENT.encode(), b"", request.head)
    head = re.sub(rb"(?i)Accept-Encoding: [^\r]*\r\n", b"", head)
    if boundary := re.search(rb"boundary=(-{20,}\w+)\r\n", head):
        return head.replace(boundary[1], b"B"), request.body.replace(boundary[1], b"B")
    return head, request.body


@needs_bash
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_what_show_prints_runs_in_bash_and_imports_as_the_same_task(
    sample: Sample, echo: FaultServer, project: Project
) -> None:
    found = imported(sample.text.replace(SITE, echo.url))
    by_task = [shape(request) for request in send(echo, project, found)]
    before = len(echo.requests)
    env = clean_env(HOME=str(project.folder), LC_ALL="C")
    for one in found:
        command = command_of(one)
        # A user's own ~/.curlrc must not be read.
        (project.folder / ".curlrc").write_text('header = "X-From-Curlrc: 1"\n')
        subprocess.run(["bash", "-c", command], cwd=project.workdir, env=env, check=True, capture_output=True)
        (again,) = imported(command)
        assert (again.task.url, again.task.output, again.task.options) == read_back(one)
    assert [shape(request) for request in sent_since(echo, before)] == by_task


def test_the_crawler_sends_what_the_commands_stand_for(project: Project) -> None:
    wanted = []
    with FaultServer({"*": ok(b"page")}) as server:
        for sample in SAMPLES:
            found = imported(sample.text.replace(SITE, server.url))
            for number, (one, expected) in enumerate(zip(found, sample.requests, strict=True)):
                name = f"{sample.name}-{number}"
                # By a name of its own: some samples stand for the same request.
                project.put(name, one.task.text().replace(one.task.name.encode(), name.encode()))
                wanted.append(expected)
        sc(project, "crawl", "--no-parse")
        assert len(server.requests) == len(wanted)
        for expected in wanted:
            assert not all(expected.differs_from(request) for request in server.requests), expected


def command_of(one: Imported) -> str:
    task = one.task
    options = [Option("url", task.url), Option("output", task.page_output), *task.options]
    return " \\\n  ".join(" ".join(map(quote_bash, line)) for line in lines_of(options))


def read_back(one: Imported) -> tuple[str, str | None, tuple[Option, ...]]:
    task = read_task(one.task.name, one.task.text(), "x")
    return task.url, task.output, task.options


# ── any task there and back ──────────────────────────────────────────────────────────────────────────────────────────


def with_globoff(url: str, options: list[Option]) -> list[Option]:
    """As a task file has it: what curl would take for a pattern stands beside globoff."""
    texts_ = [url, *(str(option.value) for option in options if option.name == "upload-file")]
    wanted = any(map(needs_globoff, texts_)) and not dict(options).get("globoff")
    return [*options, Option("globoff", True)] if wanted else options


def assert_same(words: list[str], url: str, output: str | None, options: list[Option]) -> None:
    (transfer,) = transfers_of(words[1:])
    assert (transfer.url, transfer.output, list(transfer.options)) == (url, output, with_globoff(url, options))


def lines_for(url: str, output: str | None, options: list[Option]) -> list[list[str]]:
    return lines_of([Option("url", url), *([Option("output", output)] if output else []), *options])


@settings(max_examples=2000, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(URLS, OUTPUTS, OPTION_LISTS)
@example("http://h/", None, [Option("user-agent", ""), Option("data-raw", "-x"), Option("progress-meter", False)])
def test_any_task_comes_back_from_its_bash_command(url: str, output: str | None, options: list[Option]) -> None:
    lines = lines_for(url, output, options)
    text = " \\\n  ".join(" ".join(map(quote_bash, line)) for line in lines)
    (command,) = split_bash(text)
    assert command.fault is None
    assert command.words == [word for line in lines for word in line]
    assert_same(command.words, url, output, options)


@settings(max_examples=2000, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(URLS, OUTPUTS, OPTION_LISTS)
def test_any_task_that_cmd_can_hold_comes_back_from_its_cmd_command(
    url: str, output: str | None, options: list[Option]
) -> None:
    lines = lines_for(url, output, options)
    if any(re.search("[\r\udc80-\udcff]", word) for line in lines for word in line):
        with pytest.raises(ValueError, match="can't hold"):
            [quote_cmd(word) for line in lines for word in line]
        return
    (command,) = split_cmd(" ^\n  ".join(" ".join(map(quote_cmd, line)) for line in lines))
    assert command.fault is None
    assert command.words == [word for line in lines for word in line]
    assert_same(command.words, url, output, options)


@needs_bash
def test_what_is_quoted_is_what_real_bash_reads() -> None:
    words = [
        "",
        "a b",
        "it's",
        "!x",
        "a!b'c",
        "é你😀",
        "\udc80\udcffa0",
        "\x1b[0m",
        "\\'\"$`\n\r\t\v",
        "~",
        "#",
        "{a,b}",
        "*",
    ]
    words += [chr(code) + "0" for code in range(1, 300)] + ["\u202e1", "\u00851", "\U000e0001"]
    script = "printf '%s\\0' " + " ".join(map(quote_bash, words))
    run = subprocess.run(["bash", "-c", script], env={"LC_ALL": "C"}, capture_output=True, check=True)
    assert run.stdout.split(b"\0")[:-1] == [word.encode("utf-8", "surrogateescape") for word in words]


# ── the command as a user runs it ────────────────────────────────────────────────────────────────────────────────────


def test_a_command_may_stand_as_it_is_at_the_end(project: Project) -> None:
    sc(project, "import-curl", "curl", "http://127.0.0.1:9/x", "-H", "X-A: 1", "-q")
    ((name, text),) = texts(project).items()
    assert name.startswith("127-0-0-1-x-")
    assert 'header = "X-A: 1"\n' in text and '"by": "import"' in text


def test_commands_come_from_an_argument_a_file_and_stdin(project: Project) -> None:
    (project.folder / "list.txt").write_text("curl http://h/1\ncurl http://h/2 -d x\n")
    sc(project, "import-curl", "curl http://h/0", "list.txt")
    run = subprocess.run(
        [SCRIPT, "import-curl", "-"], input=b"curl http://h/3 -H 'X-A: \xff'", cwd=project.folder, env=clean_env()
    )
    assert run.returncode == 0
    assert [re.findall('url = "http://h/(.)"', text) for text in sorted(texts_of(project))] == [
        ["0"],
        ["1"],
        ["2"],
        ["3"],
    ]


def test_a_file_of_utf_16_is_read(project: Project) -> None:
    (project.folder / "list.txt").write_bytes("curl 'http://h/é'\r\n".encode("utf-16"))
    sc(project, "import-curl", "list.txt")
    (text,) = texts(project).values()
    assert 'url = "http://h/é"' in text


def texts_of(project: Project) -> list[str]:
    paths = (project.workdir / "origin").glob("*.conf")
    return sorted(
        (p.read_bytes().decode("utf-8", "backslashreplace") for p in paths), key=lambda t: t.partition("url")[2]
    )


def test_what_can_not_be_held_is_refused_by_line_and_the_rest_is_imported(project: Project) -> None:
    text = "curl http://h/1\ncurl http://h/2 \\\n  -K list\ncurl http://h/3 | jq .\n\ncurl http://h/4\n"
    (project.folder / "list.txt").write_text(text)
    run = sc(project, "import-curl", "list.txt", check=2)
    assert "sc: list.txt:2: a task can't hold -K (--config)" in run.stderr
    assert "sc: list.txt:4: a pipe (leave it out" in run.stderr
    assert "2 tasks imported into workdir/origin, 2 commands refused" in run.stderr
    assert len(texts(project)) == 2


def test_json_tells_all(project: Project) -> None:
    found = sc_json(project, "import-curl", "curl http://h/1 -s\ncurl http://h/2 > x\ncurl http://h/1", check=2)
    assert (found["created"], found["existing"], found["dry_run"]) == (1, 1, False)
    assert [(task["url"], task["source"], task["line"], task["new"]) for task in found["tasks"]] == [
        ("http://h/1", "argument", 1, True),
        ("http://h/1", "argument", 3, False),
    ]
    assert [(one["line"], one["problem"]) for one in found["refused"]] == [(2, "a redirection")]
    assert any("silent" in note for note in found["notes"])
    assert any("the same url, method and body as in argument:1" in note for note in found["notes"])


def test_a_dry_run_prints_the_files_and_adds_none(project: Project) -> None:
    run = sc(project, "import-curl", "--dry-run", "curl http://h/1")
    assert 'url = "http://h/1"\n' in run.stdout and "would be imported" in run.stderr
    assert not texts(project)


def test_an_imported_task_is_crawled(project: Project, echo: FaultServer) -> None:
    before = len(echo.requests)
    sc(project, "import-curl", "--name", "first", f"curl '{echo.url}/x' -d 'a=1' -H 'Accept-Encoding: gzip, br, zstd'")
    sc(project, "crawl", "--no-parse")
    assert project.page("first") == b"page"
    (request,) = sent_since(echo, before)
    assert (request.method, request.body) == ("POST", b"a=1")


def test_the_template_counts(project: Project) -> None:
    command = "curl 'http://h/list?page=7&homepage=7' -d '{\"page=7\": 7}' -H 'X-P: page=7'"
    words = ("--template", "page={page}", "--range", "08..10", "--name", "list-{page}")
    sc(project, "import-curl", *words, command)
    found = texts(project)
    assert sorted(found) == ["list-08", "list-09", "list-10"]
    assert 'url = "http://h/list?page=08&homepage=7"' in found["list-08"]
    assert 'data = "{\\"page=08\\": 7}"' in found["list-08"] and 'header = "X-P: page=08"' in found["list-08"]
    assert '"meta": {"page": "08"}' in found["list-08"] and '"meta": {"page": 10}' in found["list-10"]
    run = sc(project, "import-curl", *words, command)
    assert "0 tasks imported" in run.stderr and "3 exist already" in run.stderr


@pytest.mark.parametrize(
    ("words", "command", "said"),
    [
        (("--template", "p={p}", "--range", "1..3"), "curl http://h/?page=7", "matches nothing"),
        (("--template", "page={p}", "--range", "1..3"), "curl http://h/ -H 'X: page=7'", "share a name"),
        (("--template", "page={p}", "--range", "1..3", "--name", "a"), "curl http://h/?page=7", "share a name"),
        (("--template", "page=1", "--range", "1..3"), "curl http://h/?page=7", "needs one placeholder"),
        (("--template", "page={p}"), "curl http://h/?page=7", "go together"),
        (("--template", "page={p}", "--range", "1-3"), "curl http://h/?page=7", "FIRST..LAST"),
        (("--name", "a"), "curl http://h/1\ncurl http://h/2", "names one task"),
        (("--name", "a"), "curl 'http://h/[1-2]'", "can't share a name"),
        ((), "  # nothing", "no curl command"),
        ((), "missing.txt", "no such file"),
    ],
)
def test_a_wish_that_can_not_be_granted(words: tuple[str, ...], command: str, said: str, project: Project) -> None:
    run = sc(project, "import-curl", *words, command, check=2)
    assert said in run.stderr and len(run.stderr.splitlines()) == 1
    assert not texts(project)


def test_ranges() -> None:
    assert numbers("1..3") == ["1", "2", "3"]
    assert numbers("0..100..50") == ["0", "50", "100"]
    assert numbers("001..010..9") == ["001", "010"]
    assert numbers("3..1") == ["3", "2", "1"]
    for wrong in ("1", "a..b", "1..9..0", "1..", "-1..3", "1..99999999"):
        with pytest.raises(UsageError):
            numbers(wrong)


def test_variables_come_from_the_environment_only_if_asked(project: Project) -> None:
    command = 'curl "http://h/$PAGE" -H "X-A: ${TOKEN}"'
    run = sc(project, "import-curl", command, check=2)
    assert "argument:1: the variable $PAGE (--env fills it from the environment (PAGE))" in run.stderr
    sc(project, "import-curl", "--env", command, env={"PAGE": "7", "TOKEN": "a'b"})
    (text,) = texts(project).values()
    assert 'url = "http://h/7"' in text and 'header = "X-A: a\'b"' in text
    assert "$TOKEN} is not set" in fault(command, {"PAGE": "7"}).replace("${", "$")
    assert "the variable %TOKEN%" in fault('curl "http://h/" ^\n -H "X: %TOKEN%"')


# ── what is refused, and what is changed ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_refused_by_name(text: str, said: str) -> None:
    assert said in fault(text)


def test_a_blank_after_the_last_backslash_is_seen() -> None:
    first, second = read_commands("curl http://h/ \\ \n  -H 'a: b'\n")
    assert first.fault and "blank after the backslash" in first.fault.problem
    assert second.fault and "backslash" in second.fault.hint and second.fault.line == 2


def test_the_meaning_of_a_command_is_kept() -> None:
    options = only("curl http://h/")
    assert options == {
        "url": "http://h/",
        "user-agent": USER_AGENT,
        "fail": True,
        "max-time": "60",
        "connect-timeout": "15",
    }
    options = only("curl http://h/ -m 3 --connect-timeout 1 --no-fail -A me -L --compressed")
    assert options == {
        "url": "http://h/",
        "max-time": "3",
        "connect-timeout": "1",
        "fail": False,
        "user-agent": "me",
        "location": True,
        "compressed": True,
    }
    assert "user-agent" not in only("curl http://h/ -H 'user-agent: me'")
    assert "fail" not in only("curl http://h/ --fail-with-body")
    assert only("curl --proto-default https h/")["url"] == "https://h/"


def test_accept_encoding_becomes_compressed() -> None:
    (one,) = imported("curl http://h/ -H 'Accept-Encoding: gzip, deflate, br, zstd'")
    assert Option("compressed", True) in one.task.options
    assert not [option for option in one.task.options if option.name == "header"]
    assert one.notes == (
        "'Accept-Encoding: gzip, deflate, br, zstd' became compressed, which asks for what can be decoded here",
    )
    assert only("curl http://h/ -H 'Accept-Encoding: identity'")["header"] == "Accept-Encoding: identity"


@pytest.mark.parametrize("output", ["/dev/null", "-", "page.html", "../x", "html/../x", "html/.x", "/html/x"])
def test_a_page_elsewhere_goes_to_html_and_is_said(output: str) -> None:
    (one,) = imported(f"curl http://h/x -o {output}")
    assert one.task.output == f"html/{one.task.name}.html"
    assert one.notes == (f"the page goes to html/, not to {output}",)


def test_an_output_below_html_is_kept() -> None:
    (one,) = imported("curl http://h/x -o html/a/b.html")
    assert (one.task.output, one.notes) == ("html/a/b.html", ())
    (one,) = imported("curl http://h/a/x.html -O")
    assert one.task.output == "html/x.html"
    (one,) = imported("curl http://h/x --output-dir html/a -o b.html")
    assert (one.task.output, one.notes) == ("html/a/b.html", ())
    (one,) = imported("curl http://h/a/x.html --output-dir /srv -O")
    assert one.task.output == "html/x.html" and one.notes


def test_what_means_nothing_in_a_crawl_is_left_out_and_said() -> None:
    (one,) = imported("curl -sSv http://h/")
    assert one.notes == ("left out, without a meaning in a crawl: show-error, silent, verbose",)
    assert not {"silent", "verbose"} & {option.name for option in one.task.options}


def test_variables_of_curl_are_worked_out() -> None:
    text = "curl --variable id=7 --expand-url 'http://h/{{id}}' --next --expand-data 'a={{id:url}}' http://h/x"
    first, second = imported(text)
    assert first.task.url == "http://h/7"
    assert Option("data", "a=7") in second.task.options
    assert "environment" in fault("curl --variable %HOME --expand-url 'http://h/{{HOME}}'")


def test_the_first_q_is_no_option() -> None:
    assert transfers_of(["-q", "http://h/"])[0].options == ()
    assert transfers_of(["http://h/", "-q"])[0].options == (Option("disable", True),)


@pytest.mark.parametrize(
    ("text", "shell"),
    [
        ("curl 'http://h/' -d '{\"re\": \"^\"}'", "bash"),
        ('curl \'http://h/\' -d \'{"a":"","b":"%HOME%"}\'', "bash"),
        ("curl 'http://h/' -d 'x ^\ny'", "bash"),
        ('curl "http://h/?q=%E4%BD%A0"', "bash"),
        ('curl "http://h/" -H "X: %TOKEN%"', "cmd"),
        ('curl "http://h/" ^\r\n -s', "cmd"),
        ('curl ^"http://h/it\'s^"', "cmd"),
        ('curl "http://h/" --data "{""a"":1}"', "cmd"),
    ],
)
def test_whose_text_it_is(text: str, shell: str) -> None:
    assert shell_of(text) == shell


# ── sc show --curl ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_show_prints_a_command_that_imports_as_the_same_task(project: Project) -> None:
    project.put("one", 'url = "http://h/[1]"\ngloboff\nheader = "X-A: it\'s!"\ndata = "a\\nb"\nno-location\n')
    before = project.path_of("one").read_text().splitlines()
    bash = sc(project, "show", "one", "--curl").stdout
    assert bash.startswith("curl -q 'http://h/[1]' \\\n  --globoff \\\n")
    (one,) = imported(bash)
    kept = one.task.text().decode().splitlines()
    assert set(before) <= set(kept)
    cmd = sc(project, "show", "one", "--curl", "--shell", "cmd").stdout
    (again,) = imported(cmd)
    assert again.task.options == one.task.options


def test_show_says_what_cmd_can_not_hold(project: Project) -> None:
    project.put("one", b'url = "http://h/"\ndata = "a\\r"\n')
    run = sc(project, "show", "one", "--curl", "--shell", "cmd", check=2)
    assert "can't hold '\\r'" in run.stderr and "--shell bash" in run.stderr
    project.put("two", b'url = "http://h/"\nmax-time = x\n')
    assert "max-time" in sc(project, "show", "two", "--curl", check=2).stderr


def test_show_redacts(project: Project) -> None:
    project.put(
        "one",
        'url = "http://me:pw1@h/?token=tk2&page=1"\nuser = "me:pw3"\nheader = "Authorization: Bearer tk4"\n'
        'cookie = "sid=ck5"\ndata = "password=pw6&page=2"\n',
    )
    for words in (("--curl",), ("--json",), (), ("--curl", "--shell", "cmd")):
        run = sc(project, "show", "one", "--redact", *words)
        assert not re.search("pw1|tk2|pw3|tk4|ck5|pw6", run.stdout), run.stdout
        assert "page=1" in run.stdout and "page=2" in run.stdout.replace("^&", "&")
    assert "pw3" in json.dumps(sc_json(project, "show", "one"))
    assert os.path.exists(project.path_of("one"))
