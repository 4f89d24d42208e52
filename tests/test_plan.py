"""`sc plan` tells what a crawl would send, byte for byte, and sends nothing."""

from __future__ import annotations

import json
import re
import shutil
import ssl
import subprocess
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from cli_helpers import SCRIPT, sc, sc_json
from conftest import Serve
from helpers import Project, clean_env, crawl, run_sc
from servers import ok
from test_fetch_requests import SAME

from stateful_crawler.curl.options import OPTIONS
from stateful_crawler.dryrun import planned, without_secrets
from stateful_crawler.errors import TaskFileError
from stateful_crawler.fetch.rehearse import rehearse
from stateful_crawler.task import new_task, read_task
from stateful_crawler.workdir import Workdir

MOST = 64 << 20


@pytest.fixture
def wired(project: Project) -> Project:
    """A project with the files that the tasks of SAME name."""
    for folder in ("html", "var"):
        (project.workdir / folder).mkdir()
    (project.workdir / "body.txt").write_bytes(b"a\r\nb c\nd&\xe9")
    (project.workdir / "query.txt").write_bytes(b"a=\r\n1&b=\xe9")
    (project.workdir / "large.bin").write_bytes(bytes(range(256)) * 5000)
    (project.workdir / "cookies.txt").write_text("127.0.0.1\tFALSE\t/\tFALSE\t0\tfrom\tfile\n")
    return project


def steady(request: bytes) -> bytes:
    """The request with the boundary of its form, which is new each time, under one name."""
    found = re.search(rb"boundary=(-*\w+)", request)
    return request.replace(found[1], b"BOUNDARY") if found else request


# What is put on the way only: the request line to a proxy, and a form whose boundary is made anew each time.
OTHER_WAY = re.compile("proxy|socks|unix|connect-to|resolve|interface|haproxy|PROXY")


def comparable_sets() -> dict[str, tuple[str, ...]]:
    return {name: lines for name, lines in SAME.items() if not OTHER_WAY.search(name + " ".join(lines))}


def test_the_bytes_are_those_that_a_crawl_sends(wired: Project, serve: Serve) -> None:
    server = serve({"*": ok("<p>page</p>")})
    sets = comparable_sets()
    assert len(sets) > 60
    for number, (name, lines) in enumerate(sets.items()):
        wired.put_url(f"t{number}", f"{server.url}/t{number}/{name}", *lines)
    told: dict[str, bytes] = {}
    wrong: dict[str, str] = {}
    for one in planned(Workdir(str(wired.workdir)), [f"t{number}" for number in range(len(sets))], MOST, full=True):
        told[one.name] = one.request
        if one.problem:
            wrong[one.name] = one.problem
    assert server.connections == 0
    crawl_ignoring_exit(wired)
    sent: dict[str, bytes] = {}
    for request in server.requests:
        sent.setdefault(
            request.target.removeprefix("/").partition("/")[0].partition("?")[0], request.head + request.body
        )
    names = dict(zip((f"t{number}" for number in range(len(sets))), sets, strict=True))
    differ = {
        names[task]: (steady(told[task]), steady(data))
        for task, data in sent.items()
        if steady(told[task]) != steady(data)
    }
    assert not differ
    assert set(sent) == set(names) - set(wrong)


def crawl_ignoring_exit(project: Project) -> None:
    run_sc(project, "crawl", "--no-parse", "--retries", "0")


SENDS_NOTHING = """
url = "URL/secret?token=t0psecret"
user = "me:pa55word"
header = "X-Api-Key: k3y"
cookie = "session=c00kie"
data = "password=p4ss&a=1"
location
"""


def test_nothing_is_sent_and_no_file_is_written(wired: Project, serve: Serve) -> None:
    server = serve({"*": ok("x")})
    wired.put("a", SENDS_NOTHING.replace("URL", server.url))
    wired.put("b", f'url = "{server.url}/b"\ncookie = "var/jar"\ncookie-jar = "var/jar"\nhsts = "var/hsts"\n')
    wired.put("c", f'url = "{server.url}/c"\nproxy = "{server.url}"\n')
    before = snapshot(wired.workdir)
    for words in ((), ("--full",), ("--json", "--full"), ("--full", "--secrets")):
        sc(wired, "plan", *words)
    assert snapshot(wired.workdir) == before
    assert server.connections == 0


def snapshot(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def test_no_system_call_reaches_for_the_network(wired: Project) -> None:
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    wired.put_url("a", "https://no-such-host.invalid/a", 'data = "a=1"', "http2", 'proxy = "http://proxy.invalid:1"')
    log = wired.folder / "calls.txt"
    command = [
        "strace",
        "-f",
        "-qq",
        "-e",
        "trace=connect,sendto,sendmsg,bind",
        "-o",
        str(log),
        SCRIPT,
        "plan",
        "--full",
    ]
    run = subprocess.run(command, cwd=wired.folder, env=clean_env(), capture_output=True, text=True, timeout=60)
    if "ptrace" in run.stderr.lower():
        pytest.skip("strace is not allowed here")
    assert run.returncode == 0, run.stderr
    assert "> POST /a HTTP/1.1\n> Host: no-such-host.invalid\n" in run.stdout
    assert not re.findall(r".*AF_INET.*", log.read_text())


def test_one_line_for_each_task_in_the_order_of_the_crawl(wired: Project) -> None:
    wired.put_url("10", "http://h.test/10", "location")
    wired.put_url("2", "http://h.test/2", 'data = "a=1"', 'output = "html/two/2.html"')
    wired.put("3", 'url = "http://h.test/3"\n\nlocation = false\n')
    wired.put_url("4", "http://h.test/4", 'data = "@none.txt"')
    run = sc(wired, "plan")
    assert run.stdout.splitlines() == [
        "POST http://h.test/2 -> html/two/2.html (3 bytes of body)",
        'origin/3.conf:3: option "location" takes no value (write no-location to switch it off); it would fail',
        *[line for line in run.stdout.splitlines() if line.startswith("origin/4.conf: ") and "none.txt" in line],
        "GET http://h.test/10 -> html/10.html",
    ]
    assert run.stderr == "4 tasks, 2 of them would fail; nothing was sent\n"


def test_what_is_saved_already_and_what_lies_elsewhere_is_told(project: Project, serve: Serve) -> None:
    server = serve({"*": ok("<p>x</p>")})
    project.put_url("a", f"{server.url}/a")
    crawl(project)
    assert "(in success/: a crawl leaves it alone" not in sc(project, "plan").stdout
    assert (
        "saved already: would only be parsed; in success/: a crawl leaves it alone" in sc(project, "plan", "a").stdout
    )
    sc(project, "requeue", "a")
    assert sc(project, "plan").stdout.endswith("-> html/a.html (saved already: would only be parsed)\n")
    assert sc(project, "plan", "nope", check=2).stderr.startswith("sc: there is no task 'nope'")


def test_secrets_are_hidden_unless_they_are_asked_for(wired: Project) -> None:
    wired.put("a", SENDS_NOTHING.replace("URL", "http://who:urlpw@h.test"))
    secrets = ("t0psecret", "pa55word", "k3y", "c00kie", "p4ss", "urlpw", "bWU6cGE1NXdvcmQ=")
    for words in ((), ("--full",), ("--full", "--json"), ("--json",)):
        text = sc(wired, "plan", *words).stdout
        assert not [secret for secret in secrets if secret in text], words
    shown = sc(wired, "plan", "--full", "--secrets").stdout
    assert all(secret in shown for secret in ("t0psecret", "bWU6cGE1NXdvcmQ=", "k3y", "c00kie", "p4ss", "urlpw"))


def test_a_request_without_its_secrets() -> None:
    request = b'POST /?key=1 HTTP/1.1\r\nHost: h\r\nCookie: a=1\r\n\r\n{"user": "me", "password": "a\\"b"}'
    assert without_secrets(request) == (
        b'POST /?key=*** HTTP/1.1\r\nHost: h\r\nCookie: a=***\r\n\r\n{"user": "me", "password": "***"}'
    )


def test_a_body_that_begins_with_an_at_sign_is_a_body() -> None:
    assert without_secrets(b"POST / HTTP/1.1\r\n\r\n@&token=1") == b"POST / HTTP/1.1\r\n\r\n@&token=***"


def test_the_request_as_json_is_the_very_bytes(wired: Project) -> None:
    wired.put_url("a", "http://h.test/a", 'data-binary = "@body.txt"')
    (one,) = sc_json(wired, "plan", "--full")
    task = Workdir(str(wired.workdir)).read("origin", "a")
    assert one["request"].encode("latin-1") == rehearse(task, str(wired.workdir), MOST)
    assert one["request"].endswith("\r\n\r\na\r\nb c\nd&\xe9")
    assert one["body_bytes"] == 10 and one["method"] == "POST" and one["problem"] is None


# ── https ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("authority", "host"),
    [
        ("h.test", "h.test"),
        ("h.test:443", "h.test"),
        ("h.test:80", "h.test:80"),
        ("h.test:8443", "h.test:8443"),
        ("[::1]:443", "[::1]"),
        ("[::1]:80", "[::1]:80"),
    ],
)
def test_https_names_the_host_as_tls_would_wrap_it(wired: Project, authority: str, host: str) -> None:
    task = read_task("a", f'url = "https://{authority}/x"\n'.encode(), "a.conf")
    assert rehearse(task, str(wired.workdir), MOST).startswith(f"GET /x HTTP/1.1\r\nHost: {host}\r\n".encode())


def test_https_sends_the_cookies_that_only_https_may_send(wired: Project) -> None:
    (wired.workdir / "safe.txt").write_text("h.test\tFALSE\t/\tTRUE\t0\tonly\tsafe\n")
    lines = 'cookie = "safe.txt"\ncookie = "own=1"\n'
    safe = read_task("a", f'url = "https://h.test/"\n{lines}'.encode(), "a.conf")
    open_ = read_task("a", f'url = "http://h.test/"\n{lines}'.encode(), "a.conf")
    assert b"\r\nCookie: only=safe; own=1\r\n" in rehearse(safe, str(wired.workdir), MOST)
    assert b"\r\nCookie: own=1\r\n" in rehearse(open_, str(wired.workdir), MOST)


def test_over_tls_the_bytes_are_those_that_a_crawl_sends(wired: Project, serve: Serve) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(wired.workdir / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    server = serve({"*": ok("<p>page</p>")}, tls=context)
    (wired.workdir / "safe.txt").write_text("localhost\tFALSE\t/\tTRUE\t0\tonly\tsafe\n")
    lines = {
        "plain": (),
        "cookies": ('cookie = "safe.txt"', 'cookie = "own=1"'),
        "body": ('data-binary = "@large.bin"', 'user = "a:b"'),
        "http2": ("http2", 'json = "{}"'),
        "http1.0": ("http1.0", "compressed"),
    }
    for name, more in lines.items():
        wired.put_url(name, f"https://localhost:{server.port}/{name}", 'cacert = "ca.pem"', *more)
    workdir = Workdir(str(wired.workdir))
    told = {name: rehearse(workdir.read("origin", name), str(wired.workdir), MOST) for name in lines}
    assert server.connections == 0
    crawl(wired, "--retries", "0")
    assert {request.path[1:]: request.head + request.body for request in server.requests} == told


ELSEWHERE = {
    "unix-socket": 'unix-socket = "/no/such.sock"',
    "interface": 'interface = "lo"',
    "local-port": 'local-port = "1-2"',
    "proxy": 'proxy = "http://proxy.invalid:1"',
    "socks5": 'socks5 = "proxy.invalid:1"',
    "connect-to": 'connect-to = "::elsewhere.invalid:1"',
    "resolve": 'resolve = "h.test:80:127.0.0.9"',
    "doh-url": 'doh-url = "https://dns.invalid/"',
    "http2-prior-knowledge": "http2-prior-knowledge",
    "proxytunnel": "proxytunnel",
    "tcp-fastopen": "tcp-fastopen",
    "ipv6": "ipv6",
    "hsts": 'hsts = "var/hsts"',
}


@pytest.mark.parametrize("name", [name for name in ELSEWHERE if OPTIONS[name].usable])
def test_the_way_to_the_server_does_not_change_what_is_said(wired: Project, name: str) -> None:
    task = read_task("a", f'url = "http://h.test/a"\n{ELSEWHERE[name]}\n'.encode(), "a.conf")
    plain = read_task("a", b'url = "http://h.test/a"\n', "a.conf")
    assert rehearse(task, str(wired.workdir), MOST) == rehearse(plain, str(wired.workdir), MOST)


def test_a_task_that_can_not_be_carried_out_is_refused(wired: Project) -> None:
    task = read_task("a", b'url = "http://h.test/"\ncacert = "none.pem"\n', "a.conf")
    with pytest.raises(TaskFileError, match=r"none\.pem"):
        rehearse(task, str(wired.workdir), MOST)


# ── many ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_it_works_while_a_crawl_holds_the_workdir(project: Project) -> None:
    project.put_url("a", "http://h.test/a")
    with Workdir(str(project.workdir)).open().lock(["test"]):
        assert sc(project, "plan").stdout == "GET http://h.test/a -> html/a.html\n"


def test_a_task_that_was_left_in_working_is_in_the_plan_unless_a_run_has_it(project: Project) -> None:
    workdir = Workdir(str(project.workdir)).open()
    project.put_url("1", "http://h.test/1")
    (project.workdir / "working" / "2.conf").write_text('url = "http://h.test/2"\n')
    project.put_url("3", "http://h.test/3")
    assert [one.name for one in planned(workdir, [], MOST)] == ["1", "2", "3"]
    with workdir.lock(["test"]):
        assert [one.name for one in planned(workdir, [], MOST)] == ["1", "3"]


def test_memory_stays_flat(project: Project) -> None:
    workdir = Workdir(str(project.workdir)).open()
    for number in range(1500):
        workdir.add(new_task(f"http://h.test/{number}", by="hand", name=str(number)))

    def drain(tasks: Iterator[object]) -> int:
        return sum(1 for _ in tasks)

    drain(planned(workdir, ["1", "2"], MOST))
    tracemalloc.start()
    assert drain(planned(workdir, [], MOST)) == 1500
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 << 20, peak


def test_an_empty_plan(project: Project) -> None:
    assert json.loads(sc(project, "plan", "--json").stdout) == []
    assert sc(project, "plan").stderr == "0 tasks; nothing was sent\n"
