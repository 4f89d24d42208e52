"""Cookies: none goes from task to task by accident, and a jar that tasks name is shared, whole, and curl's own form."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import Serve
from helpers import Project, crawl, run_curl
from network_helpers import NEEDS_CURL
from servers import Answer, FaultServer, Request, hold, ok, status
from workdir_helpers import started_sc

JAR = "var/jar.txt"
WRITES, READS = f'cookie-jar = "{JAR}"', f'cookie = "{JAR}"'


class Cookie(NamedTuple):
    """One line of a jar; `lasts` says whether it has an end (a session's cookie has none)."""

    value: str
    subdomains: str
    secure: str
    http_only: bool
    lasts: bool


def read_jar(path: Path) -> dict[tuple[str, str, str, str], Cookie]:
    """(domain, path, name, subdomains) -> cookie. Every line must be one that curl would read."""
    found: dict[tuple[str, str, str, str], Cookie] = {}
    if not path.exists():
        return found  # of a run that got no cookie
    for line in path.read_text().splitlines():
        http_only = line.startswith("#HttpOnly_")
        line = line.removeprefix("#HttpOnly_")
        if line and not line.startswith("#"):
            domain, subdomains, where, secure, end, name, value = line.split("\t")
            # curl 7.88 writes the path that is not given as /x/, later ones as /x.
            key = (domain.removeprefix("."), where.rstrip("/") or "/", name, subdomains)
            assert key not in found, f"twice in the jar: {line}"
            found[key] = Cookie(value, subdomains, secure, http_only, end != "0")
    return found


def names(path: Path) -> dict[str, str]:
    """name -> value of a jar of one site."""
    return {name: cookie.value for (_, _, name, _), cookie in read_jar(path).items()}


def sent(request: Request) -> dict[str, str]:
    """The cookies of a request; AssertionError for one that is sent twice."""
    pairs = [pair.partition("=") for value in request.all("Cookie") for pair in value.decode().split("; ")]
    assert len({name for name, _, _ in pairs}) == len(pairs), pairs
    return {name: value for name, _, value in pairs}


def jar_line(name: str, value: str, start: str = "", end: str = "0") -> str:
    return f"{start}127.0.0.1\tFALSE\t/\tFALSE\t{end}\t{name}\t{value}\n"


def set_own(request: Request) -> Answer:
    """A page that sets the cookie c7=7 at /7."""
    number = request.path[1:]
    return ok("x", f"Set-Cookie: c{number}={number}")


def put_jar(project: Project, text: str) -> Path:
    path = project.workdir / JAR
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


# ── what is not shared ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.case("C061")
@pytest.mark.parametrize("connections", ["1", "20"])
@pytest.mark.parametrize("engine", [(), ('cookie = ""',), ('cookie = "none.txt"',)], ids=["none", "engine", "file"])
def test_a_cookie_does_not_go_to_another_task(
    project: Project, serve: Serve, engine: tuple[str, ...], connections: str
) -> None:
    """Each page sets a cookie and redirects; what follows may send that one, and its task's own, and no other."""

    def answer(request: Request) -> Answer:
        if request.path.startswith("/a/"):
            number = request.path[3:]
            return status(302, b"", f"Set-Cookie: c={number}; Path=/", f"Location: /b/{number}")
        return ok("x")

    server = serve({"*": answer})
    for number in range(60):
        own = (f'cookie = "own={number}"',) if number % 2 else ()
        project.put_url(str(number), f"{server.url}/a/{number}", "location", *engine, *own)
    crawl(project, "-c", connections)
    for request in server.requests:
        number = int(request.path[3:])
        wanted = {"own": str(number)} if number % 2 else {}
        if engine and request.path.startswith("/b/"):
            wanted["c"] = str(number)
        assert sent(request) == wanted, request.path


def test_a_jar_is_read_only_by_tasks_that_ask(project: Project, serve: Serve) -> None:
    server = serve({"*": ok("x", "Set-Cookie: later=1")})
    put_jar(project, jar_line("early", "1"))
    project.put_url("a-writes", f"{server.url}/a", WRITES)
    project.put_url("b-plain", f"{server.url}/b")
    project.put_url("c-reads", f"{server.url}/c", READS)
    crawl(project, "-c", "1")
    assert [sent(request) for request in server.requests] == [{}, {}, {"early": "1", "later": "1"}]


# ── the shared jar ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_twenty_connections_share_a_jar(project: Project, serve: Serve) -> None:
    """A hundred tasks set a cookie each, a hundred more delete one each; all is in the jar afterwards."""

    def answer(request: Request) -> Answer:
        if request.path.startswith("/del"):
            return ok("x", f"Set-Cookie: old{request.path[4:]}=; Max-Age=0; Path=/")
        return set_own(request)

    server = serve({"*": answer})
    jar = put_jar(project, "".join(jar_line(f"old{number}", "1") for number in range(110)))
    for number in range(100):
        project.put_url(f"set{number}", f"{server.url}/{number}", READS, WRITES)
        project.put_url(f"del{number}", f"{server.url}/del{number}", READS, WRITES)
    crawl(project, "-c", "20")
    kept = {f"old{number}": "1" for number in range(100, 110)}
    assert names(jar) == kept | {f"c{number}": str(number) for number in range(100)}
    assert [path.name for path in jar.parent.iterdir()] == ["jar.txt"]


def test_a_task_that_began_earlier_does_not_undo_what_came_meanwhile(project: Project, serve: Serve) -> None:
    """The slow one read the jar before the fast ones renewed and deleted; it changes nothing itself."""
    go = threading.Event()
    server = serve(
        {
            "/slow": lambda request: (hold(go), *ok("x", "Set-Cookie: slow=1")),
            "/renew": ok("x", "Set-Cookie: session=new; Path=/"),
            "/delete": ok("x", "Set-Cookie: gone=; Max-Age=0; Path=/"),
            "/last": ok("x"),
        }
    )
    jar = put_jar(project, jar_line("session", "old") + jar_line("gone", "1"))
    for name in ("a-slow", "b-renew", "c-delete", "d-last"):
        project.put_url(name, f"{server.url}/{name[2:]}", READS, WRITES)
    with started_sc(project, "crawl", "--no-parse", "-c", "2") as run:
        server.wait_for("/last")
        go.set()
        assert run.ended() == 0
    assert names(jar) == {"session": "new", "slow": "1"}
    last = next(request for request in server.requests if request.path == "/last")
    assert sent(last) == {"session": "new"}


def test_a_jar_lasts_from_run_to_run(project: Project, serve: Serve) -> None:
    server = serve({"/in": ok("x", "Set-Cookie: session=1", "Set-Cookie: kept=1; Max-Age=3600"), "*": ok("x")})
    project.put_url("in", f"{server.url}/in", WRITES)
    crawl(project)
    project.put_url("page", f"{server.url}/page", READS)
    crawl(project)
    assert sent(server.requests[-1]) == {"session": "1", "kept": "1"}


def test_each_task_may_have_a_jar_of_its_own(project: Project, serve: Serve) -> None:
    server = serve({"*": set_own})
    for number in range(30):
        project.put_url(str(number), f"{server.url}/{number}", f'cookie-jar = "var/jars/{number % 3}.txt"')
    crawl(project, "-c", "10")
    for jar in range(3):
        found = names(project.workdir / "var" / "jars" / f"{jar}.txt")
        assert found == {f"c{number}": str(number) for number in range(jar, 30, 3)}


def test_what_was_done_is_in_the_jar_though_the_run_was_killed(project: Project, serve: Serve) -> None:
    """kill -9 with pages under way. The jar is whole; each task that is done has its cookie there, and the next run
    brings the others."""
    passed, go = 0, threading.Event()

    def answer(request: Request) -> Answer:
        nonlocal passed
        passed += 1
        own = set_own(request)
        assert isinstance(own, tuple)
        return own if passed <= 40 else (hold(go), *own)

    server = serve({"*": answer})
    for number in range(80):
        project.put_url(f"{number:02}", f"{server.url}/{number}", READS, WRITES)
    with started_sc(project, "crawl", "--no-parse", "-c", "10") as run:
        server.wait_for(None, visits=50)
        run.process.kill()
        run.ended()
    go.set()
    jar = project.workdir / JAR
    done = {name for name in project.states() if any(record.get("ok") for record in project.records(name, "fetch"))}
    assert len(done) >= 30
    assert {f"c{int(name)}" for name in done} <= names(jar).keys()
    crawl(project, "-c", "10")
    assert names(jar) == {f"c{number}": str(number) for number in range(80)}
    assert [path.name for path in jar.parent.iterdir()] == ["jar.txt"]


# ── as curl has it ───────────────────────────────────────────────────────────────────────────────────────────────────

SET = {
    "plain": ("a=1",),
    "several": ("a=1", "b=2", "a=3"),
    "path": ("a=1; Path=/x", "b=2; Path=/"),
    "host-and-domain": ("a=1", "a=2; Domain=site.test"),
    "domain": ("a=1; Domain=.site.test", "b=1; Domain=other.test", "c=1; Domain=test"),
    "http-only": ("a=1; HttpOnly", "b=2; httponly; Path=/y"),
    "secure": ("a=1; Secure", "__Secure-b=1", "__Host-c=1; Secure; Path=/"),
    "lasts": ("a=1; Max-Age=3600", "b=2; Max-Age=0", "c=3; Max-Age=-5", "d=4; Expires=Wed, 01 Jan 2020 00:00:00 GMT"),
    "values": ("a=", "b", "=c", 'd="quoted; not"', "e=with blank", "f=é", "g=a=b"),
    "control": ("a=1\t2", "b=2"),
    "large": (f"a={'x' * 3000}", f"b={'y' * 9000}"),
}


def by_curl_and_us(
    project: Project, tasks: Mapping[str, tuple[str, ...]], before: str = ""
) -> dict[str, tuple[Path, Path]]:
    """Each task by curl and by us, with a jar of its own each; the two jars, by task. `JAR` in a line is its jar."""
    jars = {}
    for name, (url, *lines) in tasks.items():
        for who in ("curl", "sc"):
            path = project.workdir / "var" / who / f"{name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            if before:
                path.write_text(before)
        jars[name] = (project.workdir / f"var/curl/{name}.txt", project.workdir / f"var/sc/{name}.txt")
        project.put_url(name, url, *(line.replace("JAR", f"var/sc/{name}.txt") for line in lines))
        config = project.folder / "curl.conf"
        text = project.path_of(name).read_text().replace("var/sc/", "var/curl/")
        config.write_text(text)
        run_curl(project.workdir, "-o", "curl.out", "-K", str(config))
    (project.workdir / "curl.out").unlink(missing_ok=True)
    crawl(project, "--retries", "0")
    return jars


def lines_for(server: FaultServer) -> tuple[str, ...]:
    return (f'connect-to = "::127.0.0.1:{server.port}"', 'cookie-jar = "JAR"', 'cookie = "JAR"', "location")


@NEEDS_CURL
def test_the_jar_is_the_one_that_curl_writes(project: Project, serve: Serve) -> None:
    server = serve({f"/x/{name}": ok("x", *(f"Set-Cookie: {value}" for value in set_)) for name, set_ in SET.items()})
    tasks = {name: (f"http://site.test/x/{name}", *lines_for(server)) for name in SET}
    jars = by_curl_and_us(project, tasks)
    differ = {}
    for name, (theirs, ours) in jars.items():
        if read_jar(theirs) != read_jar(ours):
            differ[name] = (read_jar(ours), read_jar(theirs))
    assert not differ, f"(ours, curl's): {differ}"


@NEEDS_CURL
def test_curl_reads_ours_and_we_read_curls(project: Project, serve: Serve) -> None:
    """What is sent from a jar, whoever wrote it: HttpOnly and all."""
    server = serve({"/in": ok("x", "Set-Cookie: a=1; HttpOnly; Path=/", "Set-Cookie: b=2; Path=/"), "*": ok("x")})
    project.put_url("in", f"{server.url}/in", WRITES)
    crawl(project)
    run_curl(project.workdir, "-o", "curl.out", "-c", "theirs.txt", f"{server.url}/in")
    (project.workdir / "curl.out").unlink()
    assert "#HttpOnly_" in (project.workdir / JAR).read_text()
    project.put_url("theirs", f"{server.url}/theirs", 'cookie = "theirs.txt"')
    project.put_url("ours", f"{server.url}/ours", READS)
    crawl(project, "-c", "1")
    run_curl(project.workdir, "-o", str(project.folder / "out"), "-b", JAR, f"{server.url}/curl")
    cookies = [request.all("Cookie") for request in server.requests[-3:]]
    assert sorted(cookies[0][0].split(b"; ")) == [b"a=1", b"b=2"]
    assert {tuple(sorted(each[0].split(b"; "))) for each in cookies} == {(b"a=1", b"b=2")}


@NEEDS_CURL
def test_what_curl_does_with_a_jar_we_do(project: Project, serve: Serve) -> None:
    """The jar after failures, redirects and odd files; the cookies that were sent are compared too."""
    old = jar_line("old", "1", end="1577836800")
    before = (
        jar_line("session", "1") + jar_line("hidden", "1", "#HttpOnly_") + jar_line("late", "1", end="4102444800") + old
    )
    server = serve(
        {
            "/fails": status(403, "no", "Set-Cookie: set=1"),
            "/moved": status(302, b"", "Set-Cookie: set=1", "Location: /there"),
            "/there": ok("x", "Set-Cookie: then=1"),
            "/nothing": ok("x"),
            "/changes": ok("x", "Set-Cookie: session=2; Path=/", "Set-Cookie: hidden=2; Path=/"),
            "*": ok("x", "Set-Cookie: set=1; Path=/"),
        }
    )
    both = ('cookie = "JAR"', 'cookie-jar = "JAR"')
    tasks = {
        "fails": (f"{server.url}/fails", "fail", *both),
        "moved": (f"{server.url}/moved", "location", *both),
        "nothing": (f"{server.url}/nothing", *both),
        "changes": (f"{server.url}/changes", *both),
        "junk": (f"{server.url}/junk", "junk-session-cookies", *both),
        "own-too": (f"{server.url}/own-too", 'cookie = "own=1"', *both),
        "last-jar-wins": (f"{server.url}/last", 'cookie-jar = "var/first.txt"', *both),
    }
    jars = by_curl_and_us(project, tasks, before)
    differ = {n: (names(ours), names(theirs)) for n, (theirs, ours) in jars.items() if names(ours) != names(theirs)}
    assert not differ, f"(ours, curl's): {differ}"
    pairs: dict[str, list[list[bytes]]] = {}
    for request in server.requests:
        pairs.setdefault(request.path, []).append(sorted(b"; ".join(request.all("Cookie")).split(b"; ")))
    assert all(theirs == ours for theirs, ours in pairs.values()), pairs
    assert not (project.workdir / "var" / "first.txt").exists()


# ── where a jar may lie ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "path",
    ["jar.txt", "html/jar.txt", "../jar.txt", "var/../jar.txt", "/nowhere/jar.txt", "-", "var/link/jar.txt", "var"],
)
def test_a_jar_lies_under_var_or_not_at_all(project: Project, serve: Serve, path: str) -> None:
    server = serve({"*": set_own})
    (project.workdir / "var").mkdir()
    (project.folder / "outside").mkdir()
    (project.workdir / "var" / "link").symlink_to(project.folder / "outside")
    project.put_url("a", f"{server.url}/1", f'cookie-jar = "{path}"')
    crawl(project)
    assert project.reason("a") in ("config", "io"), project.last("a")
    assert not server.requests
    assert not list(project.folder.rglob("jar.txt"))


def test_another_file_is_not_written_over(project: Project, serve: Serve) -> None:
    server = serve({"*": set_own})
    path = put_jar(project, "my notes\nsecond line\n")
    project.put_url("a", f"{server.url}/1", WRITES)
    crawl(project)
    assert project.reason("a") in ("config", "io") and JAR in project.last("a")["detail"]
    assert path.read_text() == "my notes\nsecond line\n"
