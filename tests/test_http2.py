"""HTTP/2 with a real nginx: many pages on one connection, none lost when the server closes it, and how to say no."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Serve
from helpers import Project, crawl
from network_helpers import NEEDS_CURL, Case, run_both
from network_servers import Nginx, Papers, facts, nginx
from servers import Request, hold, ok
from workdir_helpers import started_sc

CA = 'cacert = "ca.pem"'


@pytest.fixture
def server(project: Project, tmp_path: Path) -> Iterator[Nginx]:
    good = Papers(project.workdir).server("good", "localhost")
    with nginx(
        tmp_path / "nginx",
        h2=("ssl http2", good),
        h1=("ssl", good),
        short=("ssl http2", f"{good} keepalive_requests 10;"),
        narrow=("ssl http2", f"{good} http2_max_concurrent_streams 3;"),
        plain=("http2", ""),
        plain_short=("http2", "keepalive_requests 10;"),
    ) as started:
        yield started


def put_fifty(project: Project, url: str, *lines: str) -> None:
    for number in range(50):
        project.put_url(str(number), f"{url}/{number}", *lines)


def assert_fifty_once(project: Project, server: Nginx) -> list[tuple[int, int, str]]:
    """Every page is there and was asked for once; (connection, nth, protocol) of each request."""
    assert project.in_state("success") == {str(number) for number in range(50)}
    log = server.stopped_log()
    assert sorted(entry.target for entry in log) == sorted(f"/{number}" for number in range(50))
    return [(entry.connection, entry.nth, entry.protocol) for entry in log]


@pytest.mark.parametrize("lines", [(), ("http2",), ("no-alpn", "alpn")], ids=["unsaid", "http2", "alpn"])
def test_fifty_pages_go_over_one_connection(project: Project, server: Nginx, lines: tuple[str, ...]) -> None:
    put_fifty(project, server.url("h2"), CA, *lines)
    crawl(project, "-c", "20", "--retries", "0")
    log = assert_fifty_once(project, server)
    assert {connection for connection, _, _ in log} == {log[0][0]}
    assert {protocol for _, _, protocol in log} == {"HTTP/2.0"}
    assert sorted(nth for _, nth, _ in log) == list(range(1, 51))


def test_prior_knowledge_needs_no_tls(project: Project, server: Nginx) -> None:
    put_fifty(project, server.url("plain", scheme="http"), "http2-prior-knowledge")
    crawl(project, "-c", "20", "--retries", "0")
    log = assert_fifty_once(project, server)
    assert {protocol for _, _, protocol in log} == {"HTTP/2.0"}
    assert len({connection for connection, _, _ in log}) == 1


@pytest.mark.parametrize("name", ["short", "plain_short"])
def test_a_server_that_ends_connections_loses_no_page(project: Project, server: Nginx, name: str) -> None:
    """nginx says GOAWAY after ten requests; libcurl goes on, on a new connection."""
    tls = name == "short"
    lines = (CA,) if tls else ("http2-prior-knowledge",)
    put_fifty(project, server.url(name, scheme="https" if tls else "http"), *lines)
    crawl(project, "-c", "20", "--retries", "0")
    log = assert_fifty_once(project, server)
    assert len({connection for connection, _, _ in log}) >= 5


def test_a_server_that_allows_few_streams(project: Project, server: Nginx) -> None:
    put_fifty(project, server.url("narrow"), CA)
    crawl(project, "-c", "20", "--retries", "0")
    assert_fifty_once(project, server)


def test_a_post_is_sent_once(project: Project, server: Nginx) -> None:
    put_fifty(project, server.url("short"), CA, 'data = "a=1"')
    crawl(project, "-c", "20", "--retries", "0")
    assert_fifty_once(project, server)


@NEEDS_CURL
def test_the_version_is_the_one_that_curl_takes(project: Project, server: Nginx) -> None:
    h2, h1, plain = server.url("h2"), server.url("h1"), server.url("plain", scheme="http")
    # Each in a crawl of its own: a connection of HTTP/1.1 that is open serves tasks that say nothing, too.
    cases = {
        "unsaid": Case(h2, (CA,)),
        "http2": Case(h2, (CA, "http2")),
        "http2-not-there": Case(h1, (CA, "http2")),
        "http1.1": Case(h2, (CA, "http1.1")),
        "http1.0": Case(h2, (CA, "http1.0")),
        "no-alpn": Case(h2, (CA, "no-alpn")),
        "last-wins": Case(h2, (CA, "http1.1", "http2")),
        "prior": Case(plain, ("http2-prior-knowledge",)),
        "prior-over-tls": Case(h2, (CA, "http2-prior-knowledge")),
    }
    pages = {name: run_both(project, {name: case})[name] for name, case in cases.items()}
    protocols = {name: (facts(page.theirs)["protocol"], facts(page.ours)["protocol"]) for name, page in pages.items()}
    assert {name: ours for name, (_, ours) in protocols.items()} == {
        name: theirs for name, (theirs, _) in protocols.items()
    }
    assert protocols["unsaid"][1] == protocols["prior"][1] == "HTTP/2.0"
    assert protocols["http1.1"][1] == "HTTP/1.1"


def test_a_task_that_says_1_1_never_goes_over_2(project: Project, server: Nginx) -> None:
    for number in range(40):
        project.put_url(str(number), server.url("h2"), CA, *(["http1.1"] if number % 2 else ["http2"]))
    crawl(project, "-c", "8", "--retries", "0")
    protocols = {int(name): facts(project.page(name))["protocol"] for name in project.states()}
    assert {protocols[number] for number in range(1, 40, 2)} == {"HTTP/1.1"}
    assert protocols[0] == "HTTP/2.0"


@pytest.mark.parametrize("lines", [(), ("http2",)], ids=["unsaid", "http2"])
def test_a_server_of_http_1_is_still_asked_in_parallel(project: Project, serve: Serve, lines: tuple[str, ...]) -> None:
    """To wait and see whether it speaks HTTP/2 must not put all on one connection."""
    go = threading.Event()

    def answer(_: Request) -> tuple[object, ...]:
        return (hold(go), *ok("x"))

    server = serve({"*": answer})
    for number in range(5):
        project.put_url(str(number), f"{server.url}/{number}", *lines)
    with started_sc(project, "crawl", "--no-parse", "-c", "5") as run:
        server.wait_for(None, visits=5)
        go.set()
        assert run.ended() == 0
    assert server.most_in_flight == 5


def test_a_connection_is_kept_between_pages_that_come_one_after_the_other(project: Project, server: Nginx) -> None:
    put_fifty(project, server.url("h1"), CA)
    crawl(project, "-c", "1", "--retries", "0")
    log = assert_fifty_once(project, server)
    assert [nth for _, nth, _ in log] == list(range(1, 51))
