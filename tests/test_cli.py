"""The command line: what each command prints and where, its exit codes, how a run is watched."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import SCRIPT, TWO, parsed, plugin, put_pages, sc, sc_json
from click.testing import CliRunner
from conftest import Serve
from helpers import Project, assert_in_one_state, clean_env
from servers import FaultServer, Request, cut, hold, ok, status

from stateful_crawler import cli
from stateful_crawler.cli import COMMANDS, progress
from stateful_crawler.control import Tally

PARSER = "def parse(page):\n    yield {'n': len(page.css('p'))}\n"
STATUS_KEYS = {"origin", "working", "success", "error", "html", "parsed", "errors", "ignored", "running", "failing"}


def started(project: Project, *words: str, **streams: Any) -> subprocess.Popen[str]:
    """A `sc` that runs while the test goes on."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return subprocess.Popen([SCRIPT, *words], cwd=project.folder, env=clean_env(), text=True, **streams)


# ── help, names, versions ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_help(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = CliRunner().invoke(cli.sc, [command, "--help"], prog_name="sc", catch_exceptions=False)
    assert shown.exit_code == 0
    assert shown.output.startswith(f"Usage: sc {command} ")
    assert len(shown.output.splitlines()) > 4
    assert not list(tmp_path.iterdir())


def test_the_command_has_three_names(tmp_path: Path) -> None:
    shown = sc(tmp_path, "--help").stdout
    assert all(re.search(rf"^  {name} +\S", shown, re.MULTILINE) for name in COMMANDS)
    assert sc(tmp_path, check=2).stderr == shown
    version = sc(tmp_path, "--version").stdout
    assert re.fullmatch(r"sc \d+\.\d+\.\d+\S*\n", version)
    script = str(Path(SCRIPT).with_name("stateful-crawler"))
    for command in ([sys.executable, "-m", "stateful_crawler"], [script]):
        run = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60, cwd=tmp_path)
        assert (run.returncode, run.stdout, run.stderr) == (0, version, "")


def test_help_waits_for_no_heavy_package() -> None:
    code = """
import sys
from stateful_crawler.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code
sys.stderr.write(" ".join(name for name in sys.modules if "." not in name))
"""
    command = [sys.executable, "-c", code, "--help"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout.startswith("Usage: sc ")
    heavy = {"pycurl", "parsel", "lxml", "pebble", "multiprocessing", "tqdm", "w3lib", "filelock", "certifi", "idna"}
    assert not heavy & set(run.stderr.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["crwal"], "No such command 'crwal'. Did you mean 'crawl'?"),
        (["retyr"], "Did you mean 'retry'?"),
        (["zzz"], "No such command 'zzz'."),
        (["crawl", "--conections", "3"], "No such option '--conections'. Did you mean '--connections'?"),
        (["crawl", "extra"], "unexpected extra argument (extra)"),
        (["crawl", "-c", "0"], "0 is not in the range"),
        (["crawl", "-c", "x"], "'x' is not a valid integer"),
        (["crawl", "-j", "0"], "0 is not in the range"),
        (["crawl", "--retries", "-1"], "-1 is not in the range"),
        (["crawl", "--max-size", "huge"], "'huge' is not a size; write 500k, 64M or 1G"),
        (["crawl", "--max-size", "0"], "'0' is not a size"),
        (["crawl", "--parse-timeout", "0"], "0.0 is not in the range"),
        (["retry", "--only", "pars"], "'pars' is not one of 'fetch', 'parse'"),
        (["retry", "nobody"], "no task 'nobody' in workdir"),
        (["parse", "nobody"], "no task 'nobody' in workdir"),
        (["show"], "Missing argument 'NAME'"),
        (["show", "nobody"], "no task 'nobody' in workdir"),
        (["requeue"], "name the tasks, or give --state success or --state error"),
        (["requeue", "--state", "origin"], "'origin' is not one of 'success', 'error'"),
        (["requeue", "nobody"], "no task was put back"),
        (["site", "--port", "65536"], "65536 is not in the range"),
        (["site", "bookshpo"], "no example site named 'bookshpo'"),
        (["-C", "nowhere", "status"], "-C nowhere: No such file or directory"),
        (["-w", "nowhere", "status"], "there is no workdir"),
        (["-w", "nowhere", "crawl"], "there is no workdir"),
        (["-w", "nowhere", "fsck"], "there is no workdir"),
    ],
)
def test_wrong_use_is_told_and_ends_with_2(
    project: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    """In this process: main() itself, with what it prints and its code."""
    plugin(project, PARSER)
    project.put_url("1", "http://127.0.0.1:1/")
    monkeypatch.chdir(project.folder)
    monkeypatch.setattr(sys, "argv", ["sc", *words])
    with pytest.raises(SystemExit) as end:
        cli.main()
    out, err = capfd.readouterr()
    assert (end.value.code, out) == (2, "")
    assert said in err
    assert project.states() == {"1": "origin"}


# ── exit codes of runs, stdout and stderr ────────────────────────────────────────────────────────────────────────────


def test_a_run_tells_how_it_went_by_its_code_and_on_stderr_only(project: Project, serve: Serve) -> None:
    server = serve({"/bad": status(404), "*": ok(TWO)})
    plugin(project, PARSER)
    put_pages(project, server.url, ["1", "2"])
    run = sc(project, "crawl")
    assert (run.stdout, run.stderr) == ("", "2 done, 0 failed, 2 fetched, 2 items\n")
    asked = server.count()
    run = sc(project, "crawl")
    assert (run.stdout, run.stderr) == ("", "nothing to do\n")
    assert server.count() == asked
    put_pages(project, server.url, ["3", "bad"])
    run = sc(project, "crawl", check=3)
    assert run.stdout == ""
    assert run.stderr.splitlines()[0] == "1 done, 1 failed, 1 fetched, 1 item"
    assert "errors: http 1;" in run.stderr and "sc retry" in run.stderr
    assert len(run.stderr.splitlines()) <= 6 and "\r" not in run.stderr
    assert sc(project, "crawl").stderr == "nothing to do\n"  # what failed before is no failure of this run
    assert sc(project, "-q", "retry", check=3).stderr == ""


def test_what_fails_is_named_with_v(project: Project, serve: Serve) -> None:
    server = serve({"/bad": status(404), "*": ok(TWO)})
    plugin(project, "def parse(page):\n    raise ValueError('no \\x1b[2J')\n")
    put_pages(project, server.url, ["1", "bad"])
    project.put("junk", "nonsense\n")
    assert "failed:" not in sc(project, "crawl", check=3).stderr
    for words in (["-v"], ["-q", "-v"]):
        run = sc(project, *words, "retry", "-j", "1", check=3)
        lines = sorted(line for line in run.stderr.splitlines() if line.startswith("failed: "))
        assert lines == [
            "failed: 1: parse: line 2: ValueError: no \\x1b[2J",
            "failed: bad: http: the server answered 404",
            f"failed: junk: config: {project.last('junk')['detail']}",
        ]
        assert run.stdout == ""
    run = sc(project, "retry", "bad", check=3)
    assert "failed:" not in run.stderr
    assert "failed: bad: http" in sc(project, "retry", "bad", env={"SC_VERBOSE": "1"}, check=3).stderr


def test_what_fails_before_the_run_begins_is_named_with_v(project: Project) -> None:
    project.put_url("post", "http://127.0.0.1:1/", 'data = "x"')
    (project.workdir / "working").mkdir()
    (project.workdir / "origin" / "post.conf").rename(project.workdir / "working" / "post.conf")
    assert "failed: post: unknown-outcome: " in sc(project, "-v", "crawl", check=3).stderr


def test_what_fails_when_the_run_is_over_is_named_with_v(
    project: Project, serve: Serve, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """In this process, where the 8 s that a stopped run gives its transfers can be fewer."""
    go = threading.Event()
    server = serve({"/held": (hold(go),)})
    project.put_url("held", f"{server.url}/held", 'data = "x"')
    monkeypatch.setattr("stateful_crawler.run.WIND_DOWN_S", 0.1)
    monkeypatch.setattr(sys, "argv", ["sc", "-v", "-C", str(project.folder), "crawl"])
    monkeypatch.chdir(project.folder)

    def stop() -> None:
        server.wait_for("/held")
        os.kill(os.getpid(), signal.SIGTERM)

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(SystemExit) as end:
        cli.main()
    stopper.join()
    assert end.value.code == 143
    assert "failed: held: unknown-outcome: " in capfd.readouterr().err


def test_a_traceback_is_shown_with_debug_only(project: Project) -> None:
    for words, env in ((["--debug", "show", "nobody"], {}), (["--debug", "show", "nobody"], {"SC_DEBUG": "1"})):
        assert "Traceback (most recent call last)" in sc(project, *words, env=env, check=2).stderr
    run = sc(project, "show", "nobody", check=2)
    assert run.stderr.count("\n") == 1 and run.stderr.startswith("sc: ")


def test_a_folder_in_use_is_6_and_names_its_user(project: Project, serve: Serve) -> None:
    go = threading.Event()
    server = serve({"*": (hold(go), *ok(TWO))})
    put_pages(project, server.url, ["1", "2"])
    with started(project, "crawl", "-c", "1") as run:
        server.wait_for("/1")
        for words in (["crawl"], ["retry"], ["requeue", "2"], ["fsck"]):
            said = sc(project, *words, check=6).stderr
            assert f"in use by pid {run.pid} on " in said and f"kill {run.pid}" in said
        facts = sc_json(project, "status")  # looking and adding need no lock
        assert facts["running"]["pid"] == run.pid and {"host", "started"} <= facts["running"].keys()
        assert (facts["origin"], facts["working"]) == (1, 1)
        assert f"running: pid {run.pid} on " in sc(project, "status").stdout
        assert "1 is in working/" in sc(project, "show", "1").stdout
        put_pages(project, server.url, ["3"])
        go.set()
        assert run.wait(60) == 0
    assert project.in_state("success") == {"1", "2", "3"}
    assert sc_json(project, "status")["running"] is None


def test_a_folder_that_cannot_be_written_is_7(tmp_path: Path) -> None:
    (tmp_path / "workdir").write_text("a file stands here")
    plugin(Project(tmp_path / "p"), "def create(): yield 'http://127.0.0.1:1/'", "create.py")
    said = sc(tmp_path / "p", "-w", str(tmp_path / "workdir"), "create", check=7).stderr
    assert said.startswith("sc: can't make ") and said.count("\n") == 1
    assert sc(tmp_path, "init", "workdir", check=7).stderr.startswith("sc: can't make ")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_stopped_says_how_to_go_on(
    project: Project, serve: Serve, number: signal.Signals, code: int
) -> None:
    go = threading.Event()
    server = serve({"/2": (hold(go), *ok(TWO)), "*": ok(TWO)})
    put_pages(project, server.url, ["1", "2", "3", "4"])
    with started(project, "crawl", "-c", "1", "--json") as run:
        server.wait_for("/2")
        run.send_signal(number)
        assert run.stderr and run.stdout
        line = ""
        while "stopping" not in line:
            line = run.stderr.readline()
        go.set()
        said, out = run.stderr.read(), run.stdout.read()
    assert run.returncode == code
    assert "stopped: 2 of 4 done, 0 errors; resume with: sc crawl\n" in said
    assert json.loads(out)["stopped"] is True
    assert project.in_state("success") == {"1", "2"} and project.in_state("origin") == {"3", "4"}
    sc(project, "crawl")
    assert server.count() == 4


# ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_report_is_one_json_document(project: Project, serve: Serve) -> None:
    server = serve({"/bad": status(503), "*": ok(TWO)})
    plugin(project, "print('NOISE')\n" + PARSER)
    plugin(project, f"print('NOISE')\ndef create(): yield {{'url': '{server.url}/1', 'name': '1'}}\n", "create.py")
    assert sc_json(project, "create") == {"created": 1, "existing": 0}
    put_pages(project, server.url, ["bad"])
    (project.workdir / "origin" / "note.txt").write_text("mine")
    run_keys = {"succeeded", "failed", "fetched", "items", "errors", "stopped"}
    crawled = sc_json(project, "crawl", "--retries", "0", check=3)
    assert run_keys <= crawled.keys()
    assert (crawled["succeeded"], crawled["failed"], crawled["errors"]) == (1, 1, {"http": 1})
    facts = sc_json(project, "status")
    assert facts.keys() >= STATUS_KEYS
    counts = {key: facts[key] for key in ("origin", "working", "success", "error", "html", "parsed", "ignored")}
    assert counts == {"origin": 0, "working": 0, "success": 1, "error": 1, "html": 1, "parsed": 1, "ignored": 1}
    assert (facts["errors"], facts["running"], facts["failing"]) == ({"http": 1}, None, [])
    assert run_keys <= sc_json(project, "retry", "--retries", "0", check=3).keys()
    assert sc_json(project, "parse", "--all")["items"] == 1
    assert sc_json(project, "requeue", "1", "bad") == {"requeued": ["1", "bad"], "refused": {}}
    assert isinstance(sc_json(project, "fsck"), list)
    shown = sc_json(project, "show", "1")
    assert (shown["name"], shown["state"], shown["url"]) == ("1", "origin", f"{server.url}/1")
    assert (shown["page"], shown["items"]) == ("html/1.html", "parsed/1.jsonl")
    assert ["max-time", "60"] in shown["options"] and ["location", True] in shown["options"]
    assert [record.get("stage") for record in shown["records"]] == [None, "fetch", "parse", "parse"]


def test_status_and_show_for_people(project: Project, serve: Serve) -> None:
    server = serve({"/bad": status(404, "<p>Sorry</p>"), "/cut": cut(b"x", claims=9), "*": ok(TWO)})
    plugin(project, "def parse(page):\n    if page.name == 'odd': raise ValueError('odd one')\n    yield {'n': 1}\n")
    put_pages(project, server.url, ["1", "bad", "cut", "odd"])
    (project.workdir / "origin" / "folder").mkdir()
    sc(project, "crawl", "--retries", "0", check=3)
    for _ in range(2):
        sc(project, "retry", "bad", "odd", "--retries", "0", check=3)
    shown = sc(project, "status").stdout.splitlines()
    assert shown[:2] == ["origin 0  working 0  success 1  error 3", "html 2  parsed 1  ignored 1"]
    assert {"http 1", "parse 1", "truncated 1"} == set(shown[2].removeprefix("errors: ").split(", "))
    assert shown[3:] == [
        "failed in 3 runs or more:",
        "  bad: 3 times, http; no page, so look at the address",
        "  odd: 3 times, parse; its page is saved, so look at the parser",
    ]
    failing = sc_json(project, "status")["failing"]
    assert failing == [
        {"name": "bad", "times": 3, "reason": "http", "page": False},
        {"name": "odd", "times": 3, "reason": "parse", "page": True},
    ]
    for word in ("odd", "odd.conf", "error/odd.conf", "workdir/error/odd.conf", "./workdir/error/odd.conf"):
        shown = sc(project, "show", word).stdout.splitlines()
        assert shown[0] == "odd is in error/"
        assert f"  url = {server.url}/odd" in shown and "page: html/odd.html" in shown
        assert "ValueError: odd one" in shown[-1]
    assert "answer: html/.bad.error" in sc(project, "show", "bad").stdout
    assert "items: parsed/1.jsonl" in sc(project, "show", "1").stdout


def test_failed_tries_of_one_run_are_one_failure(project: Project, serve: Serve) -> None:
    server = serve({"/busy": status(503)})
    put_pages(project, server.url, ["busy"])
    sc(project, "crawl", "--retries", "2", check=3)
    assert server.count() == 3
    assert sc_json(project, "status")["failing"] == []


def test_names_of_any_bytes(project: Project, serve: Serve) -> None:
    server = serve({"/bad": status(404), "*": ok(TWO)})
    names = [os.fsdecode(raw) for raw in (b"caf\xe9", "naïve 中文".encode(), b"\x1b[2J\n", b" blanks ", b"-c")]
    for name in names:
        project.put_url(name, f"{server.url}/bad")
    sc(project, "crawl", check=3)
    for name in names:
        shown = sc(project, "show", "--", name).stdout
        assert shown.replace("\n", "").isprintable()
        assert sc_json(project, "show", f"error/{name}.conf")["name"] == name
    server.on("/bad", ok(TWO))
    said = sc(project, "-v", "retry", "--", *names[:2]).stderr
    assert said.startswith("2 done")
    assert sc_json(project, "requeue", f"error/{names[2]}.conf")["requeued"] == [names[2]]
    plugin(project, PARSER)
    summary = sc_json(project, "retry")
    assert (summary["succeeded"], project.in_state("success")) == (3, set(names))
    assert sc(project, "status").stdout.startswith("origin 0  working 0  success 5")


# ── choosing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_requeue_puts_back_with_the_page_kept(project: Project, serve: Serve) -> None:
    server = serve({"/bad": status(404), "*": ok(TWO)})
    plugin(project, PARSER)
    put_pages(project, server.url, ["1", "2", "3", "bad"])
    sc(project, "crawl", check=3)
    run = sc(project, "requeue", "success/1.conf", "bad")
    assert (run.stdout, run.stderr) == ("", "2 tasks put back into origin/\n")
    assert project.in_state("origin") == {"1", "bad"}
    assert project.page("1") == TWO.encode()
    run = sc(project, "requeue", "1", "2", "nobody")
    assert "1 task put back" in run.stderr
    assert "1 is in origin/ already" in run.stderr and "nobody no such task" in run.stderr
    assert sc_json(project, "requeue", "--state", "success")["requeued"] == ["3"]
    assert sc_json(project, "requeue", "--state", "error") == {"requeued": [], "refused": {}}
    asked = server.count()
    summary = sc_json(project, "crawl", check=3)
    assert (summary["succeeded"], summary["fetched"], summary["failed"]) == (3, 0, 1)
    assert server.count() - asked == 1  # only the one without a page


def test_retry_takes_what_it_is_told_to(project: Project, serve: Serve) -> None:
    server = serve({"/bad": status(404), "/wait": status(503, retry_after="9999"), "*": ok(TWO)})
    plugin(project, "def parse(page):\n    if page.name == 'odd': raise ValueError\n    yield {'n': 1}\n")
    put_pages(project, server.url, ["1", "bad", "odd", "wait"])
    sc(project, "crawl", check=3)
    put_pages(project, server.url, ["new"])

    def asked(*words: str, check: int = 0) -> list[str]:
        before = server.count()
        sc(project, "retry", *words, check=check)
        return sorted(request.path for request in server.requests[before:])

    sc(project, "retry", "1", "nobody", check=2)
    assert project.in_state("error") == {"bad", "odd", "wait"}
    assert asked("bad", check=3) == ["/bad"]
    assert asked("--only", "parse", check=3) == []  # odd fails anew; the others stay where they are
    assert project.states() == {"1": "success", "bad": "error", "odd": "error", "wait": "error", "new": "origin"}
    assert (len(project.records("odd", "parse")), len(project.records("bad", "fetch"))) == (2, 2)
    assert asked("--only", "fetch", check=3) == ["/bad", "/new"]  # wait is to wait; odd has its page
    assert len(project.records("odd", "parse")) == 2
    assert "left alone: wait: not before " in sc(project, "retry", "wait").stderr
    assert asked("wait", "--now", check=3) == ["/wait"]
    assert asked("odd", "--refetch", check=3) == ["/odd"]
    server.on("/bad", ok(TWO))
    assert asked(check=3) == ["/bad"]  # odd is parsed again, from its page
    assert project.in_state("success") == {"1", "bad", "new"}


def test_folders_can_be_named(project: Project, serve: Serve, tmp_path: Path) -> None:
    server = serve({"*": ok(TWO)})
    put_pages(project, server.url, ["1"])
    plugin(project, PARSER)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert sc_json(elsewhere, "-C", "../project", "crawl")["items"] == 1
    assert sc_json(elsewhere, "-w", "../project/workdir", "status")["success"] == 1
    assert sc_json(elsewhere, "--workdir", str(project.workdir), "status")["success"] == 1
    plugin(project, f"def create(): yield '{server.url}/2'", "create.py")
    assert sc_json(elsewhere, "-C", str(project.folder), "-w", "second", "create")["created"] == 1
    assert (project.folder / "second" / "origin").is_dir()
    assert not list(elsewhere.iterdir())


# ── connections and order ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("words", "most"), [([], 3), (["-c", "7"], 7), (["-c", "1"], 1)])
def test_never_more_connections_than_told(project: Project, serve: Serve, words: list[str], most: int) -> None:
    go = threading.Event()
    server = serve({"*": (hold(go), *ok(TWO))})
    names = [str(n) for n in range(1, 31)]
    put_pages(project, server.url, names)
    with started(project, "crawl", *words) as run:
        server.wait_for(visits=most)
        go.set()
        run.communicate(timeout=60)
    assert run.returncode == 0
    assert (server.most_in_flight, server.most_connections) == (most, most)
    assert server.connections == most  # kept alive
    assert server.count() == len(names)


def test_requests_start_in_natural_order(project: Project, serve: Serve) -> None:
    server = serve({"*": ok(TWO)})
    names = [*map(str, range(1, 13)), "a1", "a2", "a10", "b"]
    put_pages(project, server.url, sorted(names))
    sc(project, "crawl", "-c", "1")
    assert [request.path for request in server.requests] == [f"/{name}" for name in names]


# ── terminals and pipes ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("words", [["show", "1"], ["status"], ["show", "1", "--json"], ["--help"]])
def test_a_reader_that_went_away_is_no_fault_of_ours(project: Project, words: list[str]) -> None:
    project.put("1", 'url = "http://127.0.0.1:1/"\n' + f'header = "X: {"x" * 1000}"\n' * 1000)
    reading, writing = os.pipe()
    os.close(reading)  # as after `| head -0`
    try:
        with started(project, *words, stdout=writing) as run:
            assert run.stderr and run.stderr.read() == ""
    finally:
        os.close(writing)
    assert run.returncode == 141


def on_terminal(project: Project, *words: str, columns: int = 100) -> tuple[int, str, str]:
    """Exit code, stdout, and what stood on the terminal that was stderr."""
    ours, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with started(project, *words, stdin=terminal, stderr=terminal) as run:
        os.close(terminal)
        shown = b"".join(_chunks(ours))
        assert run.stdout
        out = run.stdout.read()
    os.close(ours)
    return run.returncode, out, shown.decode()


def _chunks(terminal: int) -> Any:
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError as error:
            assert error.errno == errno.EIO  # Linux: the other end is closed
            return
        if not chunk:
            return
        yield chunk


@pytest.mark.parametrize("columns", [100, 0])
def test_on_a_terminal_a_bar_shows_the_way(project: Project, serve: Serve, columns: int) -> None:
    server = serve({"/2": status(404), "*": ok("<a href='/new'>x</a>")})
    plugin(project, "def parse(page):\n    for a in page.css('a'): yield page.follow(a, name='new')\n")
    put_pages(project, server.url, ["1", "2", "3", "4", "5"])
    code, out, shown = on_terminal(project, "-v", "crawl", columns=columns)
    assert (code, out) == (3, "")
    lines = [line for line in re.split(r"[\r\n]+", shown.replace("\x1b[A", "")) if line.strip()]
    bars = [line for line in lines if re.match(r"\d+/\d+ \|", line)]
    assert bars[0].startswith("0/5 |") or bars[0].startswith("0/0 |")
    assert bars[-1].startswith("6/6 |")  # the page that was found counts
    assert "1 errors" in bars[-1] and "connections" in bars[-1] and "pages/s" in bars[-1]
    assert lines[-2:] == [
        "5 done, 1 failed, 5 fetched, 0 items, 1 new task found",
        "errors: http 1; `sc status` and `sc show NAME` tell more, `sc retry` tries again",
    ]
    assert "failed: 2: http: the server answered 404" in lines
    assert on_terminal(project, "-q", "retry") == (3, "", "")


def test_off_a_terminal_there_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    with progress.progress(quiet=False, verbose=False) as watch:
        for second, done in ((1, 10), (9, 90), (10, 100), (19, 190), (25, 250)):
            now[0] = 100.0 + second
            watch(Tally(total=300, succeeded=done, connections=3))
    assert capsys.readouterr().err.splitlines() == [
        "100/300 done, 10.0 pages/s, 0 errors, 3 connections",
        "250/300 done, 10.0 pages/s, 0 errors, 3 connections",
    ]


def test_the_summary_is_short_and_true_whatever_happens(project: Project, serve: Serve) -> None:
    """Every kind of line at once, and no more than six."""

    def answer(request: Request) -> Any:
        return {"/404": status(404), "/cut": cut(b"x", claims=9), "/empty": ok("")}.get(request.path, ok(TWO))

    server: FaultServer = serve({"*": answer})
    plugin(project, "def parse(page):\n    if page.name == 'odd': raise ValueError\n    yield {'n': 1}\n")
    put_pages(project, server.url, ["404", "cut", "empty", "odd", "1", "back"])
    (project.workdir / "working").mkdir()
    (project.workdir / "origin" / "back.conf").rename(project.workdir / "working" / "back.conf")
    (project.workdir / "origin" / "folder.conf").mkdir()
    (project.workdir / "origin" / "note.txt").write_text("mine")
    put_pages(project, server.url, ["twin"])
    (project.workdir / "success").mkdir()
    (project.workdir / "success" / "twin.conf").write_text('url = "http://127.0.0.1:1/"\n')
    run = sc(project, "crawl", "--retries", "0", check=3)
    lines = run.stderr.splitlines()
    assert len(lines) <= 6
    assert lines[0] == "3 done, 3 failed, 5 fetched, 4 items"  # the twin has items, but no place to settle
    assert lines[1] == "1 taken back from a run that did not end"
    assert {"http 1", "truncated 1", "parse 1"} <= set(re.split("[:,;] ", lines[2]))
    assert lines[3].startswith("left alone: twin: ")
    assert "1 page came empty" in lines[4]
    assert lines[5].startswith("2 things in the state directories are not tasks")
    (project.workdir / "success" / "twin.conf").unlink()
    assert_in_one_state(project)
    assert parsed(project) >= {"1", "back", "empty"}


@pytest.mark.parametrize("option", ["-q", "--verbose", "-w"])
def test_an_option_of_sc_itself_is_told_to_go_before_the_command(project: Project, option: str) -> None:
    said = sc(project, "status", option, check=2).stderr
    assert f"sc {option} status" in said
