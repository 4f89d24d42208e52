"""Everyday tasks, run by `sc` and by the real curl, send the same bytes; and any task can be replayed with curl.

The test_wire_*.py modules go on with this for every option and form.
"""

from __future__ import annotations

import ssl
from urllib.parse import quote, urlsplit

import trustme
from conftest import Serve
from helpers import Project, crawl, run_curl, run_sc
from servers import ok, redirect
from wire_helpers import NEEDS_CURL, answer, assert_same, comparable, run_table

from stateful_crawler.record import MAX_RECORD_BYTES, Outcome
from stateful_crawler.workdir import Workdir

pytestmark = NEEDS_CURL

# name -> the lines beside `url`, which ends with the name; wire_helpers says more.
SAME: dict[str, tuple[str, ...]] = {
    "plain": (),
    "user-agent": ('user-agent = "mine \\"q\\" é"',),
    "user-agent-empty": ('user-agent = ""',),
    "referer": ('referer = "http://r.test/?a=b"',),
    "302/referer-auto": ('referer = "http://r.test/;auto"', "location"),
    "302/referer-only-auto": ('referer = ";auto"', "location"),
    "header": ('header = "X-A: 1"', 'header = "x-b:2"', 'header = "X-A: again"'),
    "header-replaces": ('header = "Accept: text/html"', 'header = "User-Agent: other"', 'header = "Host: h.test"'),
    "header-removed": ('header = "Accept:"', 'header = "User-Agent:"'),
    "header-empty": ('header = "X-Empty;"',),
    "header-utf-8": ('header = "X-A: é你"',),
    "cookie": ('cookie = "a=1; b=2"',),
    "cookie-twice": ('cookie = "a=1"', 'cookie = "b=2"'),
    "cookie-file": ('cookie = "cookies.txt"',),
    "cookie-file-missing": ('cookie = "none.txt"',),
    "302/cookie-engine": ('cookie = ""', "location"),
    "302/cookie-engine-and-own": ('cookie = ""', 'cookie = "a=1"', "location"),
    "user": ('user = "name:p\\"w é"',),
    "302/user": ('user = "a:b"', "location"),
    "request": ('request = "PURGE"',),
    "307/request": ('request = "PUT"', 'data = "a=1"', "location"),
    "request-head": ('request = "HEAD"', "head"),
    "request-with-body": ('request = "PUT"', 'data = "a=1"'),
    "request-get-with-body": ('request = "GET"', 'data = "a=1"'),
    "302/request": ('request = "PUT"', 'data = "a=1"', "location"),
    "get": ("get", 'data = "a=1"', 'data = "b=2"'),
    "get?q=1": ("get", 'data = "a=1"'),
    "get-open?": ("get", 'data = "a=1"'),
    "get-amp?q=1&": ("get", 'data = "a=1"'),
    "get-fragment#part": ("get", 'data = "a=1"'),
    "get?q=1#part": ("get", 'data = "a=1"'),
    "get-urlencode": ("get", 'data-urlencode = "q=x y&z/é?+~\'*"', 'data-urlencode = "=a b"', 'data-urlencode = "a b"'),
    "get-alone": ("get",),
    "get-and-head": ("get", "head", 'data = "a=1"'),
    "get-empty": ("get", 'data = ""'),
    "get-file": ("get", 'data = "@query.txt"'),
    "head": ("head",),
    "302/head": ("head", "location"),
    "data": ('data = "a=1&b=é"',),
    "data-empty": ('data = ""',),
    "data-twice": ('data = "a=1"', 'data = "b=2"'),
    "data-ascii": ('data-ascii = "a=1"',),
    "data-file": ('data = "@body.txt"',),
    "data-file-and-more": ('data = "@body.txt"', 'data = "b=2"'),
    "302/data": ('data = "a=1"', "location"),
    "307/data": ('data = "a=1"', "location"),
    "data-line-ends": ('data = "a\\nb\\r\\nc\\td"',),
    "data-with-type": ('data = "a=1"', 'header = "Content-Type: text/plain"'),
    "data-no-type": ('data = "a=1"', 'header = "Content-Type:"'),
    "data-large": (f'data = "{"x" * 90_000}"',),
    "data-expect": ('data-binary = "@large.bin"',),
    "data-no-expect": ('data-binary = "@large.bin"', 'header = "Expect:"'),
    "data-raw": ('data-raw = "@body.txt"', 'data-raw = "b=2"'),
    "data-binary": ('data-binary = "@body.txt"', 'data-binary = "b=2"'),
    "data-urlencode": (
        'data-urlencode = "a b"',
        'data-urlencode = "=c d"',
        'data-urlencode = "n m=e&f é~-._!*()"',
        'data-urlencode = "@body.txt"',
        'data-urlencode = "n@body.txt"',
    ),
    "data-mixed": ('data = "a=1"', 'data-urlencode = "b=2 3"', 'data-raw = "@c"', 'data-binary = "@body.txt"'),
    "json": ('json = "{\\"a\\": 1}"',),
    "json-twice": ('json = "{\\"a\\":"', 'json = "1}"'),
    "json-file": ('json = "@body.txt"',),
    "json-own-type": ('json = "{}"', 'header = "content-type: x/y"', 'header = "X-A: 1"'),
    "json-own-accept": ('json = "{}"', 'header = "Accept: x/y"'),
    "json-and-data": ('data = "a=1"', 'json = "{}"'),
    "302/json": ('json = "{}"', "location"),
    "302/location": ("location",),
    "302/location-trusted": ("location-trusted", 'user = "a:b"'),
    "302/max-redirs": ("location", "max-redirs = 5"),
    "times": ("max-time = 9.5", "connect-timeout = 5"),
    "compressed": ("compressed",),
    "no-compressed": ("compressed", "no-compressed"),
    "302/no-location": ("location", "no-location"),
    "302/no-location-trusted": ("location", "no-location-trusted"),
    "no-head": ("head", "no-head"),
    "no-get": ("get", "no-get", 'data = "a=1"'),
    "a/../no-path-as-is": ("path-as-is", "no-path-as-is"),
    "302/last-wins": ("location", "max-redirs = 0", "max-redirs = 9", 'referer = "first"', 'referer = ""'),
    "fail": ("fail",),
    "range": ('range = "0-9"',),
    "range-several": ('range = "0-9,20-29"',),
    "range-last": ('range = "-5"',),
    "302/proto": ('proto = "=http,https"', 'proto-redir = "=http"', "location"),
    "302/proxy": ('proxy = "PROXY"', 'user = "a:b"', "location"),
    "path-as-is/a/../b/./c": ("path-as-is",),
    "dots/a/../b/./c": (),
    "case/%7e%C3%a9%2F": (),
    "characters/'()*!$&+,;=:@|^`": (),
    "utf-8/é?q=ö": (),
    "globoff?a[]={b}": ("globoff",),
    "brackets?a[]=1": (),
    "silent": ("silent", "show-error"),
    "http1.1": ("http1.1",),
    "short": ("-sSL", "-A probe/2", '-H "X: 1"', "-d a=1"),
}


def test_sc_and_curl_send_the_same_bytes(project: Project, serve: Serve) -> None:
    server = serve({"*": answer})
    table = {name: tuple(line.replace("PROXY", "SERVER") for line in lines) for name, lines in SAME.items()}
    assert_same(run_table(project, server, table), {"302/no-location", "302/no-location-trusted"})


def replay(project: Project, task: str, *, page: bytes | None) -> None:
    """`curl -q -o FILE -K STATE/TASK.conf` in the workdir: it must go well, and save that page."""
    config = project.path_of(task).relative_to(project.workdir)
    run = run_curl(project.workdir, "-o", "curl.out", "-K", str(config))
    assert run.returncode == 0, (config.read_text(errors="replace") if config.exists() else task, run.stderr)
    if page is not None:
        assert (project.workdir / "curl.out").read_bytes() == page


def test_sc_and_curl_send_the_same_bytes_over_tls(project: Project, serve: Serve) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(project.workdir / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    server = serve({"*": ok("<p>page</p>")}, tls=context)
    lines = {"cacert": 'cacert = "ca.pem"', "insecure": "insecure"}
    for task, line in lines.items():
        project.put_url(task, f"https://localhost:{server.port}/{task}", line, 'user = "a:b"', "http2")
    crawl(project, "--retries", "0")
    ours, count = sorted(map(comparable, server.requests)), server.count()
    for task in lines:
        replay(project, task, page=b"<p>page</p>")
    assert sorted(map(comparable, server.requests[count:])) == ours


# ── replay ───────────────────────────────────────────────────────────────────────────────────────────────────────────

CREATE = r"""
def create(base: str):
    yield base + "/plain"
    yield {"url": base + "/q?a[]=1&b={x}|y", "name": "brackets"}
    yield {"url": base + "/caf\u00e9 au lait?q=\u00f6#part", "name": "text"}
    yield {"url": base + "/post", "name": "post", "data": 'a=1&b=%26 "q" \\ \t\u00e9'}
    yield {"url": base + "/lines", "name": "lines", "data-raw": "a\nb\r\nc"}
    yield {"url": base + "/json", "name": "json", "json": '{"k": ["\u4f60", "\\n"]}'}
    yield {"url": base + "/get?x=1", "name": "get", "get": True, "data": ["a=1", "b=2"], "data-urlencode": "q=x y&z"}
    yield {"url": base + "/head", "name": "head", "head": True}
    yield {"url": base + "/moved", "name": "moved", "header": ["X-A: 1", "X-B: \u00e9"], "cookie": "s=1"}
"""


def test_what_create_makes_can_be_replayed_with_curl(project: Project, serve: Serve) -> None:
    server = serve({"*": ok("<p>page</p>"), "/moved": redirect("/there")})
    (project.folder / "create.py").write_text(CREATE)
    run_sc(project, "create", server.url, check=0)
    crawl(project, "--retries", "0")
    states = project.states()
    assert set(states.values()) == {"success"} and len(states) == 9
    for task in states:
        count = server.count()
        sent = [comparable(r) for r in server.requests if r.target.partition("?")[0] in _paths_of(project, task)]
        replay(project, task, page=project.page(task))
        assert [comparable(request) for request in server.requests[count:]] == sent, task


def _paths_of(project: Project, task: str) -> set[str]:
    """The paths that the task's records tell of."""
    record = project.last(task)
    urls = [url for url, _ in record.get("hops", [])] or [record["url"]]
    return {quote(urlsplit(url).path, safe="/%") for url in urls}


def test_huge_records_do_not_keep_curl_from_reading_the_task(project: Project, serve: Serve) -> None:
    """200 kB of headers in the answer, and a record with a traceback of 200 kB: curl's limit is 100 kB a line."""
    headers = [f"X-{number}: {'v' * 980}" for number in range(200)]
    server = serve({"/headers": ok("<p>big</p>", *headers), "/one": ok("<p>one</p>", "X-A: " + "v" * 90_000)})
    for task in ("headers", "one"):
        project.put_url(task, f"{server.url}/{task}")
    crawl(project)
    sent = sorted(map(comparable, server.requests))
    _append_traceback(project, "headers")
    for task in ("headers", "one"):
        data = project.path_of(task).read_bytes()
        assert max(map(len, data.split(b"\n"))) <= MAX_RECORD_BYTES + len("# sc: ")
        record = project.records(task, "fetch")[-1]
        assert record["cut"] is True and ["Content-Type", "text/html"] in record["headers"]
        replay(project, task, page=project.page(task))
    assert sorted(map(comparable, server.requests[2:])) == sent
    run = run_sc(project, "show", "headers", check=0)
    assert "Boom" in run.stdout and len(run.stdout) > 1000


def _append_traceback(project: Project, task: str) -> None:
    """What a parser that raises leaves, by the same road: the workdir's own append."""
    workdir = Workdir(str(project.workdir))
    trace = 'Traceback (most recent call last):\n  File "parser.py", line 1, in parse\nBoom: "é\\\x1b' + "x" * 200_000
    outcome = Outcome("parse", False, "parse", trace[-300:], {"traceback": trace})
    claim = workdir.claim(task, "success")
    assert claim is not None
    workdir.record(claim, outcome.record())
    workdir.settle(claim, "success")
