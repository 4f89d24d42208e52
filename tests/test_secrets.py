"""What must stay secret stands where its owner has put it, in the task's own lines, and nowhere else.

Many tasks with secrets of every kind, well and failing in every way, are crawled, shown and retried; then everything
that `sc` has written or said is searched. Error pages and pages are the server's own words and are left out.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from conftest import Serve
from helpers import Project, run_sc
from network_servers import Nginx, Papers, SocksProxy, Tinyproxy, nginx, tinyproxy
from servers import CLOSE, RESET, Answer, FaultServer, Request, cut, ok, redirect, refused_port, status

from stateful_crawler.workdir import STATES

# Each is unlike any other text, so that finding it is finding it.
PASSWORD, TOKEN, COOKIE, JARRED = "Pw8xqz-secret", "Tk5vwy-secret", "Ck3jhg-secret", "Jr9mnb-secret"
PROXY, QUERY_USER, SERVERS = "Px2lkj-secret", "Us6fds-secret", "Sv4cxz-secret"
SECRETS = [
    PASSWORD,
    TOKEN,
    COOKIE,
    JARRED,
    PROXY,
    QUERY_USER,
    SERVERS,
    "Hd7qwe-secret",
    "Fi1rty-secret",
    "Ke0uio-secret",
]
HEADER, FILED, KEY = SECRETS[7:]


def disguised(secret: str) -> set[str]:
    """The ways in which a secret may be spelled in a request: as it is, encoded for a url, in base64 with a name."""
    pairs = [f"{name}:{secret}" for name in ("me", "", PASSWORD, QUERY_USER)]
    found = {secret, quote(secret, safe=""), base64.b64encode(secret.encode()).decode().rstrip("=")}
    return found | {base64.b64encode(pair.encode()).decode().rstrip("=") for pair in pairs}


def secret_lines(proxy_url: str, socks_port: int) -> dict[str, tuple[str, ...]]:
    """One way to be secret each; `PROXY_URL` has a user and a password in it."""
    return {
        "user": (f'user = "me:{PASSWORD}"',),
        "digest": ("digest", f'user = "me:{PASSWORD}"'),
        "bearer": (f'oauth2-bearer = "{TOKEN}"',),
        "authorization": (f'header = "Authorization: Bearer {TOKEN}"',),
        "cookie-header": (f'header = "Cookie: a={COOKIE}"',),
        "own-header": (f'header = "X-Api-Key: {HEADER}"',),
        "cookie": (f'cookie = "a={COOKIE}"',),
        "jar": ('cookie = "var/in.txt"', 'cookie-jar = "var/out.txt"'),
        "proxy-user": (f'proxy = "{proxy_url}"', f'proxy-user = "me:{PROXY}"'),
        "proxy-url": (f'proxy = "{proxy_url.replace("//", f"//me:{PROXY}@")}"',),
        "proxy-tunnel": (f'proxy = "{proxy_url.replace("//", f"//me:{PROXY}@")}"', "proxytunnel"),
        "proxy-header": (f'proxy = "{proxy_url}"', f'proxy-header = "Proxy-Authorization: Basic {PROXY}"'),
        "socks": (f'proxy = "socks5h://me:{PROXY}@127.0.0.1:{socks_port}"',),
        "data-file": (f'data = "user=me&password={PASSWORD}"', 'data-urlencode = "code@var/code.txt"'),
        "cert": (f'cert = "client.pem:{KEY}"', f'pass = "{KEY}"'),
        "netrc": ('netrc-file = "var/netrc"',),
        "header-file": ('header = "@var/headers.txt"',),
        "write-out": ('write-out = "%{url} %{url_effective} %{redirect_url} %{json}"',),
        "aws": ('aws-sigv4 = "aws:amz:here:s3"', f'user = "me:{PASSWORD}"'),
    }


def answer(request: Request) -> Answer:
    """The end of a path says what becomes of it; every answer sets a cookie that is secret too."""
    cookie = f"Set-Cookie: s={SERVERS}; Path=/"
    kind = request.path.rpartition("/")[2]
    if kind == "digest":
        return status(401, "no", cookie, 'WWW-Authenticate: Digest realm="r", nonce="n", qop="auth"')
    ways: dict[str, Answer] = {
        "refuses": status(403, "no", cookie),
        "fails": status(503, "busy", cookie, retry_after="0"),
        "moves": (status(302, b"", cookie, "Location: good")),
        "moves-away": redirect("http://other.invalid/"),
        "moves-with-user": redirect(f"http://me:{SERVERS}@127.0.0.1:1/x"),
        "resets": (RESET,),
        "breaks": cut(b"x", claims=9),
        "closes": (CLOSE,),
    }
    return ways.get(kind, ok(f"<p>{kind}</p>", cookie))


WAYS = ("good", "refuses", "fails", "moves", "moves-away", "moves-with-user", "resets", "breaks", "closes", "digest")


@pytest.fixture
def site(project: Project, tmp_path: Path) -> Iterator[Nginx]:
    with nginx(tmp_path / "nginx", tls=("ssl", Papers(project.workdir).server("good", "localhost"))) as started:
        yield started


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Tinyproxy]:
    with tinyproxy(tmp_path / "proxy", "me", PROXY) as started:
        yield started


@pytest.fixture
def socks() -> Iterator[SocksProxy]:
    with SocksProxy("me", PROXY) as started:
        yield started


def put_tasks(project: Project, server: FaultServer, tls: str, lines: dict[str, tuple[str, ...]], dead: int) -> None:
    """Every secret in every way to end."""
    base = server.url.replace("//", f"//{QUERY_USER}:{PASSWORD}@")
    for name, own in lines.items():
        for way in WAYS:
            project.put_url(f"{name}-{way}", f"{server.url}/{name}/{way}", *own, "location", "max-time = 10")
        project.put_url(f"{name}-in-url", f"{base}/{name}/refuses", *own, "location")
        project.put_url(f"{name}-tls", f"{tls}/{name}", *own)
        project.put_url(f"{name}-dns", f"http://{QUERY_USER}:{PASSWORD}@no.invalid/", *own)
        project.put_url(f"{name}-refused", f"http://{QUERY_USER}:{PASSWORD}@127.0.0.1:{dead}/", *own)
        project.put_url(f"{name}-no-proxy", f"{server.url}/", *own, f'proxy = "http://me:{PROXY}@127.0.0.1:{dead}"')
        project.put_url(f"{name}-no-name", f"{server.url}/", *own, f'proxy = "http://me:{PROXY}@no.invalid:1"')
        project.put_url(f"{name}-wrong-proxy", f"{server.url}/", *own, f'proxy = "gopher://me:{PROXY}@127.0.0.1:1"')
        for number, wrong in enumerate(WRONG):
            project.put_url(f"{name}-bad{number}", f"{server.url}/", *own, wrong)


# Lines that are no good; what is said about them must not repeat the value.
WRONG = (
    "no-such-option",
    f'user = "me:{PASSWORD}',
    f'user = "me:{PASSWORD}" more',
    f"user = me {PASSWORD}",
    f'header = "Authorization Bearer {TOKEN}"',
    f"header = Authorization: Bearer {TOKEN}",
    f'header = "X: {HEADER}\\nY: 1"',
    f'cookie = "a={COOKIE}\\n"',
    f"cookie = a={COOKIE}; b=1",
    f'proxy-user = "me:{PROXY}\\t"',
    f'proxy = "http://me:{PROXY}@["',
    f'proxy = "http://me:{PROXY}@host:port"',
    f'oauth2-bearer = "{TOKEN}\\n"',
    f'pass = "{KEY}" x',
    f'cert = "none.pem:{KEY}"',
    f'url = "http://me:{PASSWORD}@second.test/"',
    f'data-urlencode = "password@var/{FILED}/none.txt"',
    f"location = {PASSWORD}",
    f"-u me:{PASSWORD} x",
)
# A path is no secret, and a message about a file must name it.
SAID_ON_PURPOSE = {FILED}


def written(project: Project) -> dict[str, str]:
    """Everything that `sc` wrote into the project, by path: of a task file, only the lines it appended."""
    found = {}
    for path in project.workdir.rglob("*"):
        where = path.relative_to(project.workdir)
        if not path.is_file() or where.parts[0] in ("html", "parsed", "var") or path.suffix in (".pem", ".key"):
            continue
        text = path.read_bytes().decode("utf-8", "replace")
        if where.parts[0] in STATES:
            own = set(project.written[path.stem].decode().splitlines()) if path.stem in project.written else set()
            text = "\n".join(line for line in text.splitlines() if line not in own)
        found[str(where)] = text
    return found


def test_no_secret_is_written_or_said(
    project: Project, serve: Serve, site: Nginx, proxy: Tinyproxy, socks: SocksProxy
) -> None:
    server = serve({"*": answer})
    (project.workdir / "var").mkdir()
    (project.workdir / "var" / "code.txt").write_text(FILED)
    (project.workdir / "var" / "in.txt").write_text(f"127.0.0.1\tFALSE\t/\tFALSE\t0\tj\t{JARRED}\n")
    (project.workdir / "var" / "netrc").write_text(f"machine 127.0.0.1 login me password {PASSWORD}\n")
    (project.workdir / "var" / "headers.txt").write_text(f"X-Api-Key: {HEADER}\n")
    lines = secret_lines(proxy.url, socks.port)
    with refused_port() as dead:
        put_tasks(project, server, site.url("tls"), lines, dead)
        said = {"-v": run_sc(project, "-v", "crawl", "--no-parse", "-c", "10", "--retries", "1")}
        said["--debug"] = run_sc(project, "--debug", "retry", "--no-parse", "-c", "10", "--retries", "0")
    said["status"] = run_sc(project, "status")
    said["status --json"] = run_sc(project, "status", "--json")
    said["fsck"] = run_sc(project, "fsck")
    texts = {f"sc {name}: {way}": getattr(run, way) for name, run in said.items() for way in ("stdout", "stderr")}
    texts |= written(project)
    assert_was_a_fair_trial(project, server, lines)
    leaks = told(texts, {spelling for secret in set(SECRETS) - SAID_ON_PURPOSE for spelling in disguised(secret)})
    assert not leaks, "\n".join(leaks)


def told(texts: dict[str, str], spellings: set[str]) -> list[str]:
    """Where each secret was found, and the words round it; the same words only once."""
    found: dict[str, str] = {}
    search = re.compile("|".join(map(re.escape, sorted(spellings)))).search
    for where, text in texts.items():
        for line in text.splitlines():
            if match := search(line):
                around = line[max(0, match.start() - 45) : match.end() + 40]
                found.setdefault(re.sub(r"[0-9]+|[a-z-]+-(?=bad)", "", around), where)
    return [f"{where}: {around}" for around, where in found.items()]


def assert_was_a_fair_trial(project: Project, server: FaultServer, lines: dict[str, tuple[str, ...]]) -> None:
    """The secrets were sent, and the tasks ended in many ways: else their absence would prove nothing."""
    wire = b"".join(request.head + request.body for request in server.requests).decode()
    for secret in (TOKEN, COOKIE, JARRED, HEADER, FILED, SERVERS):
        assert any(spelling in wire for spelling in disguised(secret)), secret
    reasons = {project.reason(name) for name in project.in_state("error")}
    assert reasons >= {"http", "tls", "dns", "connect", "config", "reset", "truncated"}, reasons
    assert len(project.in_state("success")) >= len(lines)


@pytest.mark.parametrize("variable", ["http_proxy", "all_proxy", "https_proxy"])
def test_a_proxy_of_the_environment_is_not_told(project: Project, serve: Serve, variable: str) -> None:
    server = serve({"*": ok("x")})
    with refused_port() as dead:
        for number, address in enumerate((f"127.0.0.1:{dead}", "no.invalid:1", "[", "127.0.0.1:port")):
            scheme = "https" if variable == "https_proxy" else "http"
            project.put_url(f"a{number}", server.url.replace("http:", f"{scheme}:"))
            env = {variable: f"http://me:{PROXY}@{address}"}
            run = run_sc(project, "-v", "crawl", "--no-parse", "--retries", "0", env=env)
            told = run.stdout + run.stderr + "".join(written(project).values())
            assert PROXY not in told, told
