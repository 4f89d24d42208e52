"""One table of tasks, run by `sc crawl` and by the real curl against a server that keeps the bytes of each request.

In a table a name stands for the lines beside `url`. The url is SERVER/TASK/NAME, so that a name may hold a path or a
query, unless a line `url = ...` gives another one. In lines, SERVER, HOST, PORT and TASK are replaced.

What is documented to differ is left out of the comparison: the user-agent of a task that names none, the codings that
`compressed` asks for, and what is random (the boundary of a form, the nonce of a digest, a signature of this second).
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest
from helpers import TIMEOUT_S, Project, clean_env, crawl
from servers import CLOSE, Answer, FaultServer, Request, ok, status

from stateful_crawler.curl.config import parse_config

NEEDS_CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="compares with curl, which is not installed")
Table = Mapping[str, tuple[str, ...]]

_CHALLENGES = {
    "basic": ['Basic realm="r"'],
    "digest": ['Digest realm="r", nonce="n", qop="auth", algorithm=MD5'],
    "both": ['Basic realm="r"', 'Digest realm="r", nonce="n", qop="auth", algorithm=SHA-256'],
    "negotiate": ["Negotiate"],
}


class Ran(NamedTuple):
    """A task by one of the two: its requests, whether it went well, the page (empty where there is none)."""

    requests: list[bytes]
    went_well: bool
    page: bytes


def answer(request: Request) -> Answer:
    """What the target asks for: /302/ a redirect and a cookie, /ask-digest/ a challenge, ... else a page.

    A proxy is asked in the same way, by the host: http://ask-basic.TASK.test/
    """
    if request.method == "CONNECT" and not request.target.startswith("ask-"):
        return (b"HTTP/1.1 200 Connected\r\nX-Proxy: 1\r\n\r\n",)
    if found := re.search("/(301|302|303|307|308)/", request.target):
        onward = request.target.replace(found[0], "/")
        return status(int(found[1]), b"", "Set-Cookie: c=1", f"Location: {onward}")
    if found := re.search(r"/away/(\d+)(/.*)", request.target):  # the same server is another host by another name
        return status(302, b"", "Set-Cookie: c=1", f"Location: http://localhost:{found[1]}{found[2]}")
    if found := re.search("/(404|503)/", request.target):
        return status(int(found[1]), b"<p>none</p>")
    if found := re.search(r"^/ask-(\w+)", request.target):
        return _challenge(request, 401, found[1])
    if found := re.search(r"ask-(\w+)\.t\d+\.test", request.target):
        return _challenge(request, 407, found[1])
    return (*ok("<p>page</p>"), CLOSE) if "/close/" in request.target else ok("<p>page</p>")


def _challenge(request: Request, code: int, kind: str) -> Answer:
    name, sent = {401: ("WWW", "Authorization"), 407: ("Proxy", "Proxy-Authorization")}[code]
    if request.all(sent) and request.all("Content-Length") != [b"0"]:
        return ok("<p>page</p>")
    return status(code, b"who?", *(f"{name}-Authenticate: {challenge}" for challenge in _CHALLENGES[kind]))


def write_files(project: Project) -> None:
    """The files that the tables name."""
    files = {
        "body.txt": b"a\r\nb c\nd&\xe9",
        "query.txt": b"a=\r\n1&b=\xe9",
        "large.bin": bytes(range(256)) * 5000,
        "lines.txt": b"one\ntwo\r\nthree\n",
        "empty.txt": b"",
        "na me+é&;#?.txt": b"odd",
        "cookies.txt": b"127.0.0.1\tFALSE\t/\tFALSE\t0\tfrom\tfile\n",
        "lasting.txt": b"127.0.0.1\tFALSE\t/\tFALSE\t4102444800\tlasts\tlong\n"
        b"127.0.0.1\tFALSE\t/\tFALSE\t0\tfor\tnow\n",
        "headers.txt": b"X-One: 1\r\nX-Two: \xc3\xa9\n\nX-Three;\nAccept:\n",
        "part.txt": b"X-One: 1\n# none\nX-Two: \xc3\xa9\n",
        "netrc.txt": b"machine 127.0.0.1 login filed password secret\n",
        "home/.netrc": b"machine 127.0.0.1 login homely password secret\n",
        "bare/.netrc": b"machine elsewhere.test login other password secret\n",
        "dated.txt": b"dated",
        "empty.pem": b"",
        "var/etag.txt": b'"abc-1"\n',
        "var/weak.txt": b'W/"abc"',
        "var/empty.txt": b"",
    }
    for name, content in files.items():
        path = project.workdir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def run_table(project: Project, server: FaultServer, table: Table, *words: str) -> dict[str, tuple[Ran, Ran]]:
    """Every task of the table by us (`sc crawl WORDS`), then by curl: name -> (ours, theirs)."""
    tasks = put_table(project, server, table)
    ours = run_sc_on(project, server, tasks, *words)
    theirs = run_curl_on(project, server, tasks)
    return {name: (ours[name], theirs[name]) for name in table}


def run_sc_on(project: Project, server: FaultServer, tasks: Mapping[str, str], *words: str) -> dict[str, Ran]:
    """Tasks (task -> name) in one crawl: name -> what came of it."""
    count = server.count()
    crawl(project, "--retries", "0", *words, env=_home(project))
    sent = by_task(server.requests[count:], server)
    return {
        name: Ran(sent.get(task, []), project.state_of(task) == "success", page_of(project, task))
        for task, name in tasks.items()
    }


def run_curl_on(
    project: Project, server: FaultServer, tasks: Mapping[str, str], program: str = "curl"
) -> dict[str, Ran]:
    """The same by curl, task by task, wherever they lie."""
    count = server.count()
    ran = {task: by_curl(project, task, program) for task in tasks}
    sent = by_task(server.requests[count:], server)
    return {name: Ran(sent.get(task, []), *ran[task]) for task, name in tasks.items()}


def put_table(project: Project, server: FaultServer, table: Table) -> dict[str, str]:
    """The tasks of the table in origin/: task -> name."""
    write_files(project)
    tasks = {f"t{number}": name for number, name in enumerate(table)}
    for task, name in tasks.items():
        (project.workdir / f"{task}.txt").write_text("named after its task")
        lines = [filled(line, server, task) for line in table[name]]
        if any(line.startswith("url = ") for line in lines):
            project.put(task, "".join(f"{line}\n" for line in lines))
        else:
            project.put_url(task, f"{server.url}/{task}/{name}", *lines)
    return tasks


def filled(line: str, server: FaultServer, task: str) -> str:
    for word, value in {"SERVER": server.url, "HOST": server.url.partition("//")[2], "PORT": str(server.port)}.items():
        line = line.replace(word, value)
    return line.replace("TASK", task)


def page_of(project: Project, task: str) -> bytes:
    return project.page(task) if project.state_of(task) == "success" else b""


def by_curl(project: Project, task: str, program: str = "curl") -> tuple[bool, bytes]:
    """`curl -q -o FILE -K STATE/TASK.conf` in the workdir: whether it went well as we mean it (2xx), and the page."""
    out = project.folder / f"{task}.curl"
    config = project.path_of(task).relative_to(project.workdir)
    command = [program, "-q", "-sS", "-m", "20", "-o", str(out), "-K", str(config), "-w", "%{stderr}code=%{http_code}"]
    environment = clean_env(**_home(project))
    run = subprocess.run(command, cwd=project.workdir, env=environment, capture_output=True, timeout=TIMEOUT_S)
    went_well = run.returncode == 0 and bool(re.search(rb"code=2\d\d", run.stderr))
    return went_well, out.read_bytes() if went_well and out.exists() else b""


def _home(project: Project) -> dict[str, str]:
    return {"HOME": str(project.workdir / "home")}


def assert_same(ran: Mapping[str, tuple[Ran, Ran]], failing: Iterable[str] = ()) -> None:
    """Same requests, same end and same page of each; `failing` are those that both must fail."""
    differ = {name: pair for name, pair in ran.items() if pair[0] != pair[1]}
    assert not differ, "\n".join(f"{name}\n   sc: {ours}\n curl: {theirs}" for name, (ours, theirs) in differ.items())
    failed = {name for name, (ours, _) in ran.items() if not ours.went_well}
    assert failed == set(failing), f"failed, or not, against expectation: {failed ^ set(failing)}"


# ── requests made comparable ─────────────────────────────────────────────────────────────────────────────────────────

_SHOWN = 4096
_RANDOM = (
    (rb"\r\nAccept-Encoding: [^\r]*", b"\r\nAccept-Encoding: *"),
    (rb"\r\nUser-Agent: (?:curl|stateful-crawler)/[^\r]*", b"\r\nUser-Agent: *"),
    (rb'(cnonce|response)="[^"]*"', rb'\1="*"'),
    (rb"Signature=[0-9a-f]{64}", b"Signature=*"),
    (rb"\d{8}T\d{6}Z", b"TIME"),
    (rb"Credential=(\w+)/\d{8}/", rb"Credential=\1/DAY/"),
    (rb"^(PROXY TCP\d \S+ \S+) \d+ \d+\r", rb"\1 * *\r"),
)


def comparable(request: Request) -> bytes:
    """The request's bytes without what is documented to differ.

    Not ours but curl's: 7.88 writes the digits of %c3 in lower case, later ones in upper case.
    """
    line, _, rest = request.head.partition(b"\r\n")
    head = re.sub(rb"%..", lambda found: found[0].upper(), line) + b"\r\n" + rest
    for pattern, common in _RANDOM:
        head = re.sub(pattern, common, head)
    head, body = _without_boundary(head, request.body)
    return head + _shortened(body)


def _shortened(body: bytes) -> bytes:
    """A large body by its hash: what tests show and what is stored stays small."""
    return body if len(body) <= _SHOWN else b"%d bytes, SHA-256 " % len(body) + sha256(body).hexdigest().encode()


def _without_boundary(head: bytes, body: bytes) -> tuple[bytes, bytes]:
    """curl draws the letters of a boundary, and since 8.3 two digits fewer dashes: the lengths tell of both."""
    for number, boundary in enumerate(dict.fromkeys(re.findall(rb"boundary=(-+\w+)", head + body))):
        body = body.replace(boundary, b"boundary-%d" % number)
        head = head.replace(boundary, b"boundary-%d" % number)
    if b"boundary-" in head:
        head = re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(body), head)
    return head, body


def by_task(requests: Iterable[Request], server: FaultServer) -> dict[str, list[bytes]]:
    """What came for each task, in order: TASK stands in the target, the Host, or somewhere else in the head."""
    found: dict[str, list[bytes]] = {}
    for request in requests:
        text = request.head.decode("latin-1")
        task = re.search(r"\bt\d+\b", request.target) or re.search(r"\bt\d+\b", text)
        key = task[0] if task else ""
        sent = re.sub(rb"\b%d\b" % server.port, b"PORT", comparable(request))
        found.setdefault(key, []).append(sent.replace(key.encode(), b"TASK") if key else sent)
    return found


def options_of(*tables: Table) -> set[str]:
    """The names of the options that the tables' lines hold."""
    names: set[str] = set()
    for table in tables:
        for lines in table.values():
            names |= {option.name for option in parse_config(as_text(lines), "x")}
    return names


def as_text(lines: Iterable[str]) -> str:
    """The lines of a table as a config that can be read."""
    text = "".join(f"{line}\n" for line in lines if not line.startswith("url = "))
    return f'url = "http://h/"\n{text}'.replace("PORT", "80")


def read_in(folder: Path) -> dict[str, bytes]:
    """The files of a folder by their path in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
