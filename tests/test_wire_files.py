"""What a task leaves behind is what curl leaves: pages, headers, ETags, times; the text of write-out; tries again."""

from __future__ import annotations

import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from conftest import Serve
from helpers import TIMEOUT_S, Project, clean_env, run_sc
from servers import CLOSE, Answer, FaultServer, Request, cut, gzip_body, head, ok, status
from wire_helpers import NEEDS_CURL, Table, put_table, read_in

pytestmark = NEEDS_CURL

MODIFIED = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT"

# All of them say where the page goes: a task that does not has its own name under html/, and curl its screen.
LEFT: Table = {
    "output": ('output = "html/TASK.page"',),
    "output-folders": ('output = "html/TASK/a/b.html"', "create-dirs"),
    "output-dir": ('output = "TASK.page"', 'output-dir = "html/sub"', "create-dirs"),
    "output-dir-slash": ('output = "a/TASK.page"', 'output-dir = "html/"', "create-dirs"),
    "remote-name": ('url = "SERVER/TASK/name.html?q=1"', "remote-name", 'output-dir = "html/TASK"', "create-dirs"),
    "remote-name-encoded": ('url = "SERVER/TASK/a%20b;c=d"', "remote-name", 'output-dir = "html/TASK"', "create-dirs"),
    "remote-name-all": (
        "remote-name-all",  # to curl it counts for urls that come after it
        'url = "SERVER/TASK/name.html#part"',
        'output-dir = "html/TASK"',
        "create-dirs",
    ),
    "remote-name-redirected": (
        'url = "SERVER/302/TASK/name.html"',
        "remote-name",
        "location",
        'output-dir = "html/TASK"',
        "create-dirs",
    ),
    "remote-header-name": (
        'url = "SERVER/named/TASK/x"',
        "remote-name",
        "remote-header-name",
        'output-dir = "html/TASK"',
        "create-dirs",
    ),
    "remote-header-name-missing": (
        'url = "SERVER/TASK/x.html"',
        "remote-name",
        "remote-header-name",
        'output-dir = "html/TASK"',
        "create-dirs",
    ),
    "include": ("include", 'output = "html/TASK.page"'),
    "302/include": ("include", "location", 'output = "html/TASK.page"'),
    "include-head": ("include", "head", 'output = "html/TASK.page"'),
    "head": ("head", 'output = "html/TASK.page"'),
    "302/head": ("head", "location", 'output = "html/TASK.page"'),
    "include-no": ("include", "no-include", 'output = "html/TASK.page"'),
    "empty": ('output = "html/TASK.page"',),
    "dump-header": ('dump-header = "html/TASK.headers"', 'output = "html/TASK.page"'),
    "302/dump-header": ('dump-header = "html/TASK.headers"', "location", 'output = "html/TASK.page"'),
    "dump-header-and-include": ('dump-header = "html/TASK.headers"', "include", 'output = "html/TASK.page"'),
    "dump-header-tunnel": (
        'dump-header = "html/TASK.headers"',
        'url = "http://TASK.test/"',
        'proxy = "SERVER"',
        "proxytunnel",
        'output = "html/TASK.page"',
    ),
    "dump-header-suppressed": (
        'dump-header = "html/TASK.headers"',
        'url = "http://TASK.test/"',
        'proxy = "SERVER"',
        "proxytunnel",
        "suppress-connect-headers",
        'output = "html/TASK.page"',
    ),
    "dump-header-output-dir": (
        'dump-header = "html/TASK.headers"',
        'output-dir = "html/d"',
        "create-dirs",
        'output = "TASK.page"',
    ),
    "etag-save": ('etag-save = "var/TASK.etag"', 'output = "html/TASK.page"'),
    "weak/etag-save": ('etag-save = "var/TASK.etag"', 'output = "html/TASK.page"'),
    "remote-time": ("remote-time", 'output = "html/TASK.page"'),
    "undated/remote-time": ("remote-time", 'output = "html/TASK.page"'),
    "gzip/compressed": ("compressed", 'output = "html/TASK.page"'),
    "gzip/plain": ('output = "html/TASK.page"',),
    "gzip/raw": ("raw", "compressed", 'output = "html/TASK.page"'),
    "chunked/raw": ("raw", 'output = "html/TASK.page"'),
    "chunked/plain": ('output = "html/TASK.page"',),
    "gzip/include": ("include", "compressed", 'output = "html/TASK.page"'),
    "old/http0.9": ("http0.9", 'output = "html/TASK.page"'),
    "long/ignore-content-length": ("ignore-content-length", 'output = "html/TASK.page"'),
    "max-filesize": ("max-filesize = 1k", 'output = "html/TASK.page"'),
    "limit-rate": ("limit-rate = 10M", "speed-limit = 1", "speed-time = 5", 'output = "html/TASK.page"'),
    "fail": ("fail", 'output = "html/TASK.page"'),
    "fail-with-body": ("fail-with-body", 'output = "html/TASK.page"'),
    "write-out": (
        'write-out = "%{http_code} %{content_type}|%{size_download} %{method}\\n%{url}\\t%{num_redirects} %%{x}"',
        'output = "html/TASK.page"',
    ),
    "302/write-out": (
        'write-out = "%{url_effective} %{num_redirects} %{redirect_url} %header{etag} %{http_version}"',
        "location",
        'output = "html/TASK.page"',
    ),
    "write-out-file": ('write-out = "@format.txt"', 'output = "html/TASK.page"'),
}
# Neither leaves a page; what both do with the answer is told by the code of curl's end.
FAILING: dict[str, tuple[str, ...]] = {
    "old/no-http0.9": ('output = "html/TASK.page"',),
    "404/fail": ("fail", 'output = "html/TASK.page"'),
    "cut/plain": ("remove-on-error", 'output = "html/TASK.page"'),
    "max-filesize-reached": ("max-filesize = 5", "remove-on-error", 'output = "html/TASK.page"'),
}


def _answer(request: Request) -> Answer:
    if request.method == "CONNECT":
        return (b"HTTP/1.1 200 Connected\r\nX-Proxy: 1\r\n\r\n",)
    if request.target.startswith("/302/") or "/302/" in request.target:
        return status(302, b"moved", 'ETag: "first"', f"Location: {request.target.replace('/302/', '/')}")
    by_word = {
        "/404/": status(404, b"<p>none</p>"),
        "/weak/": ok("<p>page</p>", 'ETag: W/"weak"'),
        "/named/": ok("<p>page</p>", 'Content-Disposition: attachment; filename="given name.html"'),
        "/undated/": ok("<p>page</p>"),
        "/empty": ok(""),
        "/gzip/": gzip_body("<p>packed</p>"),
        "/chunked/": (head(200, "Transfer-Encoding: chunked") + b"5\r\n<p>ch\r\n8\r\nunked</p\r\n0\r\n\r\n",),
        "/old/": (b"<p>as in 1991</p>", CLOSE),
        "/long/": (head(200, "Content-Length: 4") + b"more than four", CLOSE),
        "/cut/": cut(b"<p>half", claims=100),
    }
    found = (made for word, made in by_word.items() if word in request.target)
    return next(found, ok("<p>page</p>", 'ETag: "tag"', MODIFIED))


def test_what_is_left_is_what_curl_leaves(project: Project, serve: Serve, tmp_path: Path) -> None:
    server = serve({"*": _answer})
    theirs = Project(tmp_path / "theirs")
    tasks = {folder: put_table(folder, server, LEFT | FAILING) for folder in (project, theirs)}[project]
    for folder in (project, theirs):
        (folder.workdir / "format.txt").write_text("code=%{http_code}\\n\n%{content_type}\r\n")
    (theirs.workdir / "html").mkdir()
    said = {name: _curl(theirs, task).stdout.decode() for task, name in tasks.items()}
    run_sc(project, "crawl", "--no-parse", "--retries", "0")
    shown = {path: content for path, content in read_in(project.workdir / "html").items() if not path.startswith(".")}
    assert shown == read_in(theirs.workdir / "html")
    assert _etags(project) == _etags(theirs) != {}
    dated = next(task for task, name in tasks.items() if name == "remote-time")
    assert _age(project, dated) == _age(theirs, dated) == 784111777
    failed = {tasks[task] for task in project.in_state("error")}
    assert failed == set(FAILING)
    written = {name: project.last(task).get("write_out", "") for task, name in tasks.items()}
    assert written == said


def _curl(project: Project, task: str) -> subprocess.CompletedProcess[bytes]:
    config = project.path_of(task).relative_to(project.workdir)
    command = ["curl", "-q", "-sS", "-m", "20", "-K", str(config)]
    return subprocess.run(command, cwd=project.workdir, env=clean_env(), capture_output=True, timeout=TIMEOUT_S)


def _etags(project: Project) -> dict[str, bytes]:
    return {path: content for path, content in read_in(project.workdir / "var").items() if re.match(r"t\d", path)}


def _age(project: Project, task: str) -> int:
    return int((project.workdir / "html" / f"{task}.page").stat().st_mtime)


# ── again and again ──────────────────────────────────────────────────────────────────────────────────────────────────

# name -> (what the server does, visit by visit; the lines)
AGAIN: dict[str, tuple[list[Answer], tuple[str, ...]]] = {
    "retry": ([status(503), ok("x")], ("retry = 3",)),
    "retry-none": ([status(503)], ("retry = 0",)),
    "retry-enough": ([status(503), status(503), ok("x")], ("retry = 1",)),
    "retry-404": ([status(404), ok("x")], ("retry = 3",)),
    "retry-all-errors": ([status(404), ok("x")], ("retry = 3", "retry-all-errors", "fail")),
    "retry-reset": ([(CLOSE,), ok("x")], ("retry = 3", "retry-all-errors")),
    "retry-post": ([status(503), ok("x")], ("retry = 3", 'data = "a=1"')),
    "retry-408": ([status(408), ok("x")], ("retry = 3",)),
    "retry-429": ([status(429), ok("x")], ("retry = 3",)),
    "retry-500": ([status(500), ok("x")], ("retry = 3",)),
    "retry-501": ([status(501), ok("x")], ("retry = 3",)),
    "retry-after": ([status(503, retry_after="1"), ok("x")], ("retry = 3",)),
}


def test_a_task_is_tried_as_often_as_curl_would(project: Project, serve: Serve) -> None:
    server = serve({f"/{name}": answers for name, (answers, _) in AGAIN.items()})
    for name, (_, lines) in AGAIN.items():
        project.put_url(name, f"{server.url}/{name}", *lines, "retry-delay = 1")
    with ThreadPoolExecutor(len(AGAIN)) as pool:
        list(pool.map(lambda name: _curl(project, name), AGAIN))
    theirs = _visits(server, 0)
    for name, (answers, _) in AGAIN.items():
        server.on(f"/{name}", *_again(server, name, answers))
    count = server.count()
    run_sc(project, "crawl", "--no-parse", "--retries", "7")
    assert _visits(server, count) == theirs


def _again(server: FaultServer, name: str, answers: list[Answer]) -> list[Answer]:
    """The answers for a server that has been visited: those of the earlier visits stand before them."""
    return [ok("x")] * server.count(f"/{name}") + answers


def _visits(server: FaultServer, since: int) -> dict[str, int]:
    targets = [request.target[1:] for request in server.requests[since:]]
    return {name: targets.count(name) for name in AGAIN}
