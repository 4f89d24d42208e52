"""What servers do wrong, and what becomes of the task: a clear reason or the right page, and neighbours unharmed.

Most tests are tables: many faults, one `sc crawl`, and after it the checks that hold in every case (helpers.crawl).
What is expected is what the RFCs say, or curl's documentation; never what the code happens to do.
"""

from __future__ import annotations

import gzip
import re
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pycurl
import pytest
import trustme
from conftest import Serve
from helpers import (
    NEIGHBOURS,
    Project,
    assert_neighbours_well,
    assert_only_failures_repeat,
    clean_env,
    crawl,
    put_neighbours,
    run_sc,
)
from servers import (
    CLOSE,
    ENDLESS_HEADERS,
    H200,
    RESET,
    SILENCE,
    Answer,
    FaultServer,
    Request,
    Wire,
    chunked,
    cut,
    drip,
    endless,
    gzip_body,
    has_ipv6,
    hold,
    ok,
    pause,
    redirect,
    refused_port,
    status,
)

from stateful_crawler.fetch import setup, verdict
from stateful_crawler.reasons import REASONS

SOON = ("max-time = 10",)  # a client that waits for what never comes fails by this, and not by the test's own limit


class Fault(NamedTuple):
    """An answer, and what must come of it: the `page`, or a `reason` with a sentence that has `says` in it."""

    answer: Answer
    reason: str | None = None
    page: bytes = b"hello"
    says: str = ""
    lines: tuple[str, ...] = ()


def crawl_faults(
    project: Project, serve: Serve, faults: Mapping[str, Fault], *words: str, lines: tuple[str, ...] = ()
) -> FaultServer:
    """One crawl of a task for each fault, on one server, with honest neighbours; asserts that all came as expected."""
    server = serve({f"/{name}": fault.answer for name, fault in faults.items()})
    put_neighbours(project, serve())
    for name, fault in faults.items():
        project.put_url(name, f"{server.url}/{name}", *SOON, *lines, *fault.lines)
    crawl(project, "--retries", "0", *words)
    assert_neighbours_well(project)
    assert_came(project, faults)
    return server


def assert_came(project: Project, faults: Mapping[str, Fault]) -> None:
    """Reason or page of every task as its fault says."""
    came = {name: project.reason(name) or project.page(name) for name in faults}
    assert came == {name: fault.reason or fault.page for name, fault in faults.items()}
    unsaid = {name: project.last(name) for name, fault in faults.items() if fault.says not in said(project, name)}
    assert not unsaid


def said(project: Project, name: str) -> str:
    """The sentence that the task's last record has for people."""
    return str(project.last(name).get("detail", ""))


def answer(*parts: Any) -> Answer:
    return parts


def h200(rest: bytes) -> Answer:
    """200, more header lines and the body as they are, then the end of the connection."""
    return (H200 + rest, CLOSE)


# ── HTTP framing and bodies ──────────────────────────────────────────────────────────────────────────────────────────

TRUNCATED = {
    "length": Fault(cut(b"0123456789", claims=100), "truncated", says="90 bytes missing"),
    "length-and-nothing": Fault(cut(b"", claims=100), "truncated"),
    "large": Fault(cut(b"a" * 2_000_000, claims=3_000_000), "truncated"),
    "inside-a-chunk": Fault((*chunked(b"hello", end=b"5\r\nwo"), CLOSE), "truncated"),
    "no-last-chunk": Fault((*chunked(b"hello", end=b""), CLOSE), "truncated"),
    "no-end-of-trailers": Fault((*chunked(b"hello", end=b"0\r\n"), CLOSE), "truncated"),
    # RFC 9112 section 8: a message whose headers have no end is incomplete, whatever came before.
    "inside-the-headers": Fault((b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n", CLOSE), "truncated"),
    "inside-a-header": Fault((b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1", CLOSE), "truncated"),
    "inside-the-headers-of-head": Fault((H200, CLOSE), "truncated", lines=("head",)),
    "inside-the-status-line": Fault((b"HTTP/1.1 20", CLOSE), "reset"),
    "nothing-at-all": Fault((CLOSE,), "reset"),
    "reset-at-once": Fault((RESET,), "reset"),
    "reset-in-the-body": Fault((H200 + b"Content-Length: 9\r\n\r\nabc", pause(0.05), RESET), "reset"),
    "reset-without-length": Fault((H200 + b"\r\nabc", pause(0.05), RESET), "reset"),
}


@pytest.mark.case("C001")
def test_an_answer_that_ends_early_is_no_page(project: Project, serve: Serve) -> None:
    server = crawl_faults(project, serve, TRUNCATED)
    assert "18" in said(project, "length")
    assert_only_failures_repeat(project, server)


@pytest.mark.case("C001")
def test_a_page_cut_the_first_time_is_whole_after_a_retry(project: Project, serve: Serve) -> None:
    whole = b"x" * 100
    server = serve(
        {
            "/length": [cut(b"0123456789", claims=100), ok(whole)],
            "/chunk": [(*chunked(b"0123456789", end=b""), CLOSE), chunked(whole[:60], whole[60:])],
            "/large": [cut(b"y" * 1_500_000, claims=1_600_000), ok(b"z" * 1_600_000)],
        }
    )
    for name in ("length", "chunk", "large"):
        project.put_url(name, f"{server.url}/{name}")
    crawl(project, "--retries", "0")
    assert project.in_state("error") == {"length", "chunk", "large"}
    run_sc(project, "retry", "--no-parse", check=0)
    assert (project.page("length"), project.page("chunk")) == (whole, whole)
    assert project.page("large") == b"z" * 1_600_000


@pytest.mark.xfail(strict=True, reason="libcurl says OK when a compressed stream ends early, and we believe it")
def test_a_compressed_page_that_ends_early_is_no_page(project: Project, serve: Serve) -> None:
    page = b"".join(b"%d " % (i * i) for i in range(3000))
    packed = zlib.compress(page)
    faults = {
        "gzip": Fault(gzip_body(page, missing=2000), "truncated"),
        "gzip-trailer": Fault(gzip_body(page, missing=4), "truncated"),
        "deflate": Fault(ok(packed[:-1000], "Content-Encoding: deflate"), "truncated"),
    }
    crawl_faults(project, serve, faults, lines=("compressed",))


NOT_HTTP = {
    "html": Fault((b"<p>hello</p>", CLOSE), "protocol"),
    "blank-lines": Fault((b"\n\n<p>hello</p>", CLOSE), "protocol"),
    "another-protocol": Fault((b"SSH-2.0-OpenSSH_9.2\r\n", CLOSE), "protocol"),
    "future-version": Fault((b"HTTP/9.9 200 OK\r\nContent-Length: 5\r\n\r\nhello", CLOSE), "protocol"),
    "no-number": Fault((b"HTTP/1.1 abc\r\nContent-Length: 5\r\n\r\nhello", CLOSE), "protocol"),
    "two-digits": Fault((b"HTTP/1.1 99 x\r\nContent-Length: 5\r\n\r\nhello", CLOSE), "protocol"),
    "no-colon": Fault(h200(b"garbage\r\nContent-Length: 5\r\n\r\nhello"), "protocol"),
    "nul-in-a-header": Fault(h200(b"X-A: a\0b\r\nContent-Length: 5\r\n\r\nhello"), "protocol"),
    "chunk-not-hex": Fault((*chunked(b"hello", end=b"zz\r\nhello\r\n"), CLOSE), "protocol"),
    "chunk-negative": Fault((*chunked(b"hello", end=b"-1\r\nhello\r\n"), CLOSE), "protocol"),
    "chunk-huge": Fault((*chunked(b"hello", end=b"f" * 19 + b"\r\nhello\r\n"), CLOSE), "protocol"),
    "chunk-runs-on": Fault((*chunked(b"hello", end=b"5\r\nworldX0\r\n\r\n"), CLOSE), "protocol"),
    "unknown-transfer-coding": Fault(h200(b"Transfer-Encoding: foo\r\n\r\nhello"), "protocol"),
    "lengths-5-and-9": Fault(h200(b"Content-Length: 5\r\nContent-Length: 9\r\n\r\nhello"), "protocol"),
    "lengths-9-and-5": Fault(h200(b"Content-Length: 9\r\nContent-Length: 5\r\n\r\nhello"), "protocol"),
    "lengths-in-one-header": Fault(h200(b"Content-Length: 5, 9\r\n\r\nhello"), "protocol"),
    "length-negative": Fault(h200(b"Content-Length: -5\r\n\r\nhello"), "protocol"),
    "length-plus": Fault(h200(b"Content-Length: +5\r\n\r\nhello"), "protocol"),
    "length-with-letters": Fault(h200(b"Content-Length: 5xyz\r\n\r\nhello"), "protocol"),
}


@pytest.mark.case("C011")
def test_what_is_not_http_is_called_so(project: Project, serve: Serve) -> None:
    """And asked once: the same answer would come again."""
    server = crawl_faults(project, serve, NOT_HTTP)
    run_sc(project, "retry", "--no-parse", check=3)  # with the usual retries
    again = {name: server.count(f"/{name}") for name in NOT_HTTP if server.count(f"/{name}") > 2}
    assert not again


UNUSUAL = {
    "no-reason-phrase": Fault(answer(b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello")),
    "http-1.0": Fault(answer(b"HTTP/1.0 200 OK\r\n\r\nhello", CLOSE)),
    "no-length": Fault(h200(b"\r\nhello")),
    "line-feeds-only": Fault(answer(b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello")),
    "length-twice-the-same": Fault(h200(b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello")),
    "length-list-the-same": Fault(h200(b"Content-Length: 5, 5\r\n\r\nhello")),
    # RFC 9112 section 6.3: Transfer-Encoding overrides Content-Length.
    "chunked-and-length": Fault(
        answer(H200 + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    ),
    "chunk-extension": Fault(chunked(b"he", end=b'003;a="b"\r\nllo\r\n0\r\n\r\n')),
    "trailers": Fault(chunked(b"hello", end=b"0\r\nX-Sum: 1\r\n\r\n")),
    "early-hints": Fault(answer(b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n", *ok("hello"))),
    "continue": Fault(answer(b"HTTP/1.1 100 Continue\r\n\r\n" * 2, *ok("hello"))),
    "header-like-a-status": Fault(ok("hello", "HTTP/2-Settings: x")),
    "byte-by-byte": Fault(answer(drip(ok("hello")[0], every_s=0.001))),  # type: ignore[arg-type]
    "partial-content": Fault(status(206, "hello")),
    "empty": Fault(ok(b""), page=b""),
    "no-content": Fault(status(204), page=b""),
    "reset-content": Fault(status(205), page=b""),
}


@pytest.mark.case("C011")
def test_unusual_but_right_answers_are_pages(project: Project, serve: Serve) -> None:
    server = crawl_faults(project, serve, UNUSUAL)
    assert {project.last(name)["status"] for name in UNUSUAL} == {200, 204, 205, 206}
    assert_only_failures_repeat(project, server)


def test_folded_and_foreign_headers_are_kept_as_text(project: Project, serve: Serve) -> None:
    raw = b"X-A: one\r\n two\r\nX-B: caf\xe9\r\nX-C: caf\xc3\xa9\r\nX-D:\r\nx-a: 2\r\nContent-Length: 0\r\n\r\n"
    server = serve({"/a": answer(H200 + raw)})
    project.put_url("a", f"{server.url}/a")
    crawl(project)
    headers = project.last("a")["headers"][1:-1]
    assert headers == [["X-A", "one two"], ["X-B", "café"], ["X-C", "café"], ["X-D", ""], ["x-a", "2"]]


@pytest.mark.case("C007")
def test_bodies_where_none_may_be_do_not_reach_the_next_page(project: Project, serve: Serve) -> None:
    """RFC 9112 section 6.3: 204, 304 and answers to HEAD end at the blank line, whatever Content-Length they claim."""
    two = Fault(ok("<p>two</p>"), page=b"<p>two</p>")
    with_body = b"Content-Length: 5\r\n\r\nhello"
    head = H200 + b"Content-Length: 1234\r\n\r\n"
    faults = {
        "01-no-content": Fault(answer(b"HTTP/1.1 204 No Content\r\n" + with_body), page=b""),
        "02": two,
        "03-not-modified": Fault(answer(b"HTTP/1.1 304 Not Modified\r\n" + with_body), "http"),
        "04": two,
        "05-head": Fault(answer(head), page=head, lines=("head",)),
        "06": two,
        "07-too-long": Fault(answer(H200 + b"Content-Length: 5\r\n\r\nhelloJUNK")),
        "08": two,
        "09-after-the-last-chunk": Fault(chunked(b"hello", end=b"0\r\n\r\nHTTP/1.1 200 OK\r\n\r\nJUNK")),
        "10": two,
    }
    crawl_faults(project, serve, faults, "-c", "1")
    assert project.last("01-no-content")["status"] == 204


@pytest.mark.case("C009")
def test_an_empty_page_is_counted_and_can_be_asked_for_again(project: Project, serve: Serve) -> None:
    server = serve({"/a": [ok(b""), ok("<p>full</p>")], "/b": ok("<p>b</p>"), "/h": ok(b"")})
    for name in "ab":
        project.put_url(name, f"{server.url}/{name}")
    project.put_url("h", f"{server.url}/h", "head")  # its page is the headers, so it is not empty
    summary = crawl(project)
    assert (summary["empty"], project.last("a")["bytes"]) == (1, 0)
    run_sc(project, "requeue", "a", check=0)
    run_sc(project, "retry", "--no-parse", "--refetch", "a", check=0)
    assert project.page("a") == b"<p>full</p>"
    assert (server.count("/a"), server.count("/b")) == (2, 1)


HELLO = {  # "hello" in every coding that a curl may know; brotli and zstd by hand, as stored blocks
    "identity": b"hello",
    "gzip": gzip.compress(b"hello"),
    "x-gzip": gzip.compress(b"hello"),
    "deflate": zlib.compress(b"hello"),
    "br": b"\x0b\x02\x80hello\x03",
    "zstd": b"\x28\xb5\x2f\xfd\x20\x05\x29\x00\x00hello",
}


@pytest.mark.case("C005")
def test_content_codings_are_undone_if_asked_for_and_left_alone_if_not(project: Project, serve: Serve) -> None:
    def coded(request: Request) -> Answer:
        coding = request.path.rpartition("/")[2]
        return ok(HELLO.get(coding, b"hello"), f"Content-Encoding: {coding}")

    server = serve({"*": coded})
    put_neighbours(project, serve())
    codings = (*HELLO, "none", "utf-8", "GZIP")
    for coding in codings:
        project.put_url(f"asked-{coding}", f"{server.url}/asked/{coding}", "compressed")
        project.put_url(f"plain-{coding}", f"{server.url}/plain/{coding}")
    crawl(project)
    assert_neighbours_well(project)
    accepted = next(r for r in server.requests if r.all("Accept-Encoding")).all("Accept-Encoding")[0].decode()
    can = {"identity", "none", "x-gzip", *re.split(", *", accepted)}
    assert can <= {"none", *HELLO}
    for coding in codings:
        assert project.page(f"plain-{coding}") == HELLO.get(coding, b"hello")
        if coding in can:
            assert project.page(f"asked-{coding}") == b"hello", coding
        elif coding != "GZIP":  # its bytes are not gzip
            assert project.reason(f"asked-{coding}") == "content-encoding"
            assert f"Content-Encoding: {coding}" in said(project, f"asked-{coding}")


UNDECODABLE = {
    "not-gzip": Fault(ok("hello, this is plain", "Content-Encoding: gzip"), "content-encoding", says="gzip"),
    "junk": Fault(gzip_body("<p>hello</p>", junk=b"GARBAGE!\n"), "content-encoding", says="junk"),
    "zeros": Fault(gzip_body("<p>hello</p>", junk=b"\0" * 8), "content-encoding"),
    "wrong-checksum": Fault(
        ok(HELLO["gzip"][:-8] + b"1234" + HELLO["gzip"][-4:], "Content-Encoding: gzip"), "content-encoding"
    ),
    "twice": Fault(ok(gzip.compress(HELLO["gzip"]), "Content-Encoding: gzip, gzip")),
    "raw-deflate": Fault(ok(zlib.compress(b"hello")[2:-4], "Content-Encoding: deflate")),
}


@pytest.mark.case("C003")
def test_a_body_that_cannot_be_decoded_is_the_servers_fault(project: Project, serve: Serve) -> None:
    """Junk after the stream comes as a write error from libcurl: no word of a disk, and the run goes on."""
    crawl_faults(project, serve, UNDECODABLE, lines=("compressed",))
    for name in ("junk", "zeros"):
        assert not re.search("disk|writ|space|local", said(project, name), re.I)


def test_a_page_stands_under_its_name_only_when_it_is_whole(project: Project, serve: Serve) -> None:
    """Looked at from the server, in the middle of the answer, when the first half has reached the folder."""
    html = project.workdir / "html"
    shown: list[list[str]] = []

    def look(wire: Wire) -> None:
        while not list(html.glob(".large*")):  # over 1 MiB a body is written aside as it comes
            wire.check()
            time.sleep(0.005)
        shown.append([path.name for path in html.glob("[!.]*")])

    half = b"x" * 1_500_000
    server = serve({"/large": (H200 + b"Content-Length: 3000000\r\n\r\n" + half, look, half)})
    project.put_url("large", f"{server.url}/large")
    crawl(project)
    assert shown == [[]]
    assert project.page("large") == half * 2


# ── size and time ────────────────────────────────────────────────────────────────────────────────────────────────────

_MEASURED = """
import atexit, re, runpy, sys
def peak():
    with open("/proc/self/status") as status, open("peak", "w") as out:
        out.write(re.search(r"VmHWM:\\s+(\\d+) kB", status.read())[1])
atexit.register(peak)
sys.argv[0] = "sc"
runpy.run_module("stateful_crawler", run_name="__main__")
"""


def peak_kb(project: Project, *words: str) -> int:
    """The most memory that `sc crawl WORDS` ever had, in kB."""
    command = [sys.executable, "-P", "-c", _MEASURED, "crawl", "--no-parse", "--retries", "0", *words]
    run = subprocess.run(command, cwd=project.folder, env=clean_env(), capture_output=True, text=True, timeout=60)
    assert run.returncode in (0, 3) and "Traceback" not in run.stderr, run.stderr
    return int((project.folder / "peak").read_text())


HUGE_HEADERS = {
    "400-headers": Fault(
        h200(b"".join(b"X-%d: %b\r\n" % (i, b"a" * 1000) for i in range(400)) + b"Content-Length: 2\r\n\r\nok"),
        "too-large",
        says="header",
    ),
    "one-header": Fault(
        h200(b"X-A: " + b"a" * 120_000 + b"\r\nContent-Length: 2\r\n\r\nok"), "too-large", says="header"
    ),
    "6000-headers": Fault(
        h200(b"".join(b"X-%d: 1\r\n" % i for i in range(6000)) + b"\r\n"), "too-large", says="header"
    ),
    "endless-headers": Fault(ENDLESS_HEADERS, "too-large", says="header"),
    "endless-header": Fault(answer(H200 + b"X-A: ", endless(b"a" * 10_000)), "too-large", says="header"),
    "endless-hints": Fault(answer(endless(b"HTTP/1.1 103 Early Hints\r\n\r\n")), "too-large", says="header"),
}


@pytest.mark.case("C013")
def test_headers_without_measure_end_that_task_only(project: Project, serve: Serve) -> None:
    crawl_faults(project, serve, HUGE_HEADERS)
    for name in HUGE_HEADERS:
        assert "memory" not in said(project, name)


@pytest.mark.case("C015")
def test_a_body_may_be_as_large_as_max_size_and_no_larger(project: Project, serve: Serve) -> None:
    size = 2_000_000
    body = b"a" * size
    faults = {
        "fits": Fault(ok(body), page=body),
        "fits-chunked": Fault(chunked(body), page=body),
        "fits-packed": Fault(gzip_body(body), page=body),
        "over": Fault(ok(body + b"a"), "too-large"),
        "over-chunked": Fault(chunked(body, b"a"), "too-large"),
        "over-packed": Fault(gzip_body(body + b"a"), "too-large"),
        "announced": Fault(answer(H200 + b"Content-Length: 99999999999\r\n\r\n", SILENCE), "too-large"),
        "endless": Fault(answer(H200 + b"\r\n", endless(body)), "too-large"),
        "endless-chunks": Fault(
            answer(H200 + b"Transfer-Encoding: chunked\r\n\r\n", endless(b"400\r\n" + b"a" * 1024 + b"\r\n")),
            "too-large",
        ),
        "over-and-failed": Fault(status(500, body + b"a"), "too-large"),
    }
    crawl_faults(project, serve, faults, "--max-size", str(size), lines=("compressed",))
    assert "--max-size" in said(project, "over-chunked")


@pytest.mark.case("C013", "C015")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_memory_stays_flat_whatever_servers_send(tmp_path: Path, serve: Serve) -> None:
    """A gzip bomb and headers without end, against a crawl of ordinary pages: less than 20 MB more."""
    bomb = gzip_body(bytes(50_000_000))
    server = serve({"/plain": ok("x"), "/bomb": bomb, "/big-bomb": gzip_body(bytes(68_000_000)), "/h": ENDLESS_HEADERS})
    before, after = Project(tmp_path / "before"), Project(tmp_path / "after")
    for number in range(3):
        before.put_url(f"{number}", f"{server.url}/plain")
    after.put_url("plain", f"{server.url}/plain")
    for name in ("bomb", "big-bomb", "h"):
        after.put_url(name, f"{server.url}/{name}", "compressed")
    usual, most = peak_kb(before), peak_kb(after)
    assert most - usual < 20_000
    assert after.page("bomb") == bytes(50_000_000)
    assert after.reason("big-bomb") == "too-large"  # the default limit is 64 MiB
    assert after.reason("h") == "too-large"


@pytest.mark.case("C017")
def test_silent_servers_in_every_slot_do_not_stop_the_others(project: Project, serve: Serve) -> None:
    """And while all slots wait, nothing spins."""
    server = serve({"/silent": (SILENCE,), "*": ok("hello")})
    spent = {}
    for round_, limit in enumerate((0.6, 2.1)):
        for number in range(3):
            project.put_url(f"{round_}-a{number}", f"{server.url}/silent", "connect-timeout = 1", f"max-time = {limit}")
        for number in range(5):
            project.put_url(f"{round_}-b{number}", f"{server.url}/b{number}")
        before = _children_cpu_s()
        crawl(project, "-c", "3", "--retries", "0")
        spent[limit] = _children_cpu_s() - before
    assert {project.reason(f"{r}-a{n}") for r in range(2) for n in range(3)} == {"timeout"}
    assert "28" in said(project, "1-a0")
    assert {project.state_of(f"{r}-b{n}") for r in range(2) for n in range(5)} == {"success"}
    assert spent[2.1] - spent[0.6] < 0.75, "a wait of 1.5 s took that much processor time"


def _children_cpu_s() -> float:
    import resource

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_times_run_out_by_their_kind(project: Project, serve: Serve) -> None:
    """connect: no connection in time, so nothing was sent. timeout: asked, and the answer was not whole in time."""
    server = serve(
        {
            "/first-byte": (SILENCE,),
            "/headers": (H200, SILENCE),
            "/body": (H200 + b"Content-Length: 9\r\n\r\nabc", SILENCE),
            "/large-body": (H200 + b"\r\n" + b"x" * 1_200_000, SILENCE),
            "/drip": (H200 + b"Content-Length: 1000\r\n\r\n", drip(b"x" * 1000)),
            "/hop": redirect("/first-byte"),
        }
    )
    put_neighbours(project, serve())
    names = ("first-byte", "headers", "body", "large-body", "drip", "hop")
    for name in names:
        project.put_url(name, f"{server.url}/{name}", "max-time = 0.5", "connect-timeout = 0.4", "location")
    with full_backlog() as port:
        project.put_url("connect", f"http://127.0.0.1:{port}/", "connect-timeout = 0.2")
        project.put_url("connect-total", f"http://127.0.0.1:{port}/", "max-time = 0.2")
        project.put_url("handshake", f"https://127.0.0.1:{server.port}/", "connect-timeout = 0.2")
        crawl(project, "-c", "12", "--retries", "0")
    assert_neighbours_well(project)
    assert {name: project.reason(name) for name in names} == dict.fromkeys(names, "timeout")
    unmade = ("connect", "connect-total", "handshake")
    assert {name: project.reason(name) for name in unmade} == dict.fromkeys(unmade, "connect")


@contextmanager
def full_backlog() -> Iterator[int]:
    """A port where connections are neither refused nor made: its queue is full and nobody accepts."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for client in waiting:
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield int(listener.getsockname()[1])
        for client in waiting:
            client.close()


@pytest.mark.case("C017")
def test_a_task_that_names_no_limit_has_the_documented_ones() -> None:
    settings = setup._base_settings(1)
    assert settings[pycurl.TIMEOUT_MS] == 60_000
    assert settings[pycurl.CONNECTTIMEOUT_MS] == 15_000


# ── connections ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.case("C019")
def test_a_connection_that_the_server_closed_while_idle_is_no_failure(project: Project, serve: Serve) -> None:
    """Each page asked once: the one server hangs up after each page, the other answers when that has happened."""
    hung_up = threading.Event()

    def hang_up(wire: Wire) -> None:
        wire.request.shutdown(socket.SHUT_RDWR)
        hung_up.set()

    def wait(wire: Wire) -> None:
        hold(hung_up)(wire)
        hung_up.clear()

    brief, slow = serve({"*": (*ok("ok"), pause(0.02), hang_up, CLOSE)}), serve({"*": (wait, *ok("slow"))})
    for number in range(10):
        project.put_url(f"{number}-a", f"{brief.url}/{number}")
        project.put_url(f"{number}-b", f"{slow.url}/{number}")
    project.put_url("p-1", f"{brief.url}/p1", 'data = "a=1"')
    project.put_url("p-2", f"{slow.url}/p2")
    project.put_url("p-3", f"{brief.url}/p3", 'data = "a=1"')
    crawl(project, "-c", "1")
    assert set(project.states().values()) == {"success"}
    assert {name: project.last(name)["attempt"] for name in project.written} == dict.fromkeys(project.written, 1)
    assert (brief.count(), slow.count()) == (12, 11)


@pytest.mark.case("C019")
def test_a_connection_closed_on_the_second_request_is_made_anew(project: Project, serve: Serve) -> None:
    """libcurl asks once more where a reused connection gave no byte; a POST gets a new one, and so comes just once."""

    def once_a_connection(request: Request) -> Answer:
        return ok("ok") if request.nth == 1 else (CLOSE,)

    server = serve({"*": once_a_connection, "/post-never": lambda request: (CLOSE,)})
    for number in range(4):
        project.put_url(f"{number}", f"{server.url}/{number}")
    project.put_url("5-post", f"{server.url}/post", 'data = "a=1"')
    project.put_url("6-post-never", f"{server.url}/post-never", 'data = "a=1"')
    crawl(project, "-c", "1")
    assert project.in_state("error") == {"6-post-never"}
    assert project.reason("6-post-never") == "reset"
    assert server.count("/post") == 1
    assert server.count("/post-never") == 1


@pytest.mark.case("C021")
@pytest.mark.skipif(not has_ipv6(), reason="no ::1 on this machine")
def test_ipv6_literals_and_localhost_by_either_family(project: Project, serve: Serve) -> None:
    six, four = serve({"*": ok("six")}, host="::1"), serve({"*": ok("four")})
    project.put_url("literal", f"{six.url}/a")
    project.put_url("query", f"{six.url}/a?b[]=1", "globoff")
    project.put_url("only-four", f"http://localhost:{four.port}/b")
    project.put_url("only-six", f"http://localhost:{six.port}/c")
    crawl(project, "--retries", "0")
    assert {name: project.page(name) for name in project.written} == {
        "literal": b"six",
        "query": b"six",
        "only-four": b"four",
        "only-six": b"six",
    }
    literal = next(request for request in six.requests if request.target == "/a")
    assert literal.all("Host") == [f"[::1]:{six.port}".encode()]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def tls(authority: trustme.CA, *names: str, **more: Any) -> ssl.SSLContext:
    """A server's context with a certificate for `names`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names, **more).configure_cert(context)
    return context


@pytest.fixture
def secure(serve: Serve, authority: trustme.CA, project: Project) -> FaultServer:
    """An https server for localhost whose authority nobody knows but the file workdir/ca.pem."""
    authority.cert_pem.write_to_path(str(project.workdir / "ca.pem"))
    return serve({"*": ok("secret")}, tls=tls(authority, "localhost"))


@pytest.mark.case("C023")
def test_certificates_are_checked_task_by_task(
    project: Project, serve: Serve, secure: FaultServer, authority: trustme.CA
) -> None:
    """One connection at a time and `insecure` first, so that a lax check could be inherited if it ever were."""
    years = {"not_before": datetime(2020, 1, 1, tzinfo=UTC), "not_after": datetime(2020, 1, 2, tzinfo=UTC)}
    expired = serve({"*": ok("old")}, tls=tls(authority, "localhost", **years))
    put_neighbours(project, serve())
    url = f"https://localhost:{secure.port}/"
    project.put_url("b1-insecure", url, "insecure")
    project.put_url("b2-plain", url)
    project.put_url("b3-cacert", url, 'cacert = "ca.pem"')
    project.put_url("b4-plain", url)
    project.put_url("b5-name-mismatch", f"https://127.0.0.1:{secure.port}/", 'cacert = "ca.pem"')
    project.put_url("b6-expired", f"https://localhost:{expired.port}/", 'cacert = "ca.pem"')
    project.put_url("b7-no-such-file", url, 'cacert = "none.pem"')
    crawl(project, "-c", "1")
    assert_neighbours_well(project)
    assert project.in_state("success") == {"b1-insecure", "b3-cacert", *NEIGHBOURS}
    failed = ("b2-plain", "b4-plain", "b5-name-mismatch", "b6-expired")
    assert {name: project.reason(name) for name in failed} == dict.fromkeys(failed, "tls")
    assert "60" in said(project, "b2-plain") and "certificate" in said(project, "b2-plain")
    assert "expired" in said(project, "b6-expired")
    assert project.reason("b7-no-such-file") in ("config", "io") and "none.pem" in said(project, "b7-no-such-file")
    assert (secure.count(), expired.count()) == (2, 0)  # no request went over a connection that was not trusted


@pytest.mark.case("C023")
@pytest.mark.parametrize("variable", ["CURL_CA_BUNDLE", "SSL_CERT_FILE"])
def test_the_ca_file_of_the_environment_is_used_as_curl_does(
    project: Project, secure: FaultServer, variable: str
) -> None:
    project.put_url("a", f"https://localhost:{secure.port}/")
    crawl(project, env={variable: str(project.workdir / "ca.pem")})
    assert project.page("a") == b"secret"


def test_a_ca_file_that_is_not_there_is_told_before_any_request(project: Project, secure: FaultServer) -> None:
    project.put_url("a", f"https://localhost:{secure.port}/")
    run = run_sc(project, "crawl", "--no-parse", env={"CURL_CA_BUNDLE": "/none/ca.pem"}, check=7)
    assert "CURL_CA_BUNDLE" in run.stderr and "/none/ca.pem" in run.stderr
    assert project.states() == {"a": "origin"} and secure.connections == 0


def test_a_handshake_that_is_broken_off_is_a_broken_connection(project: Project, serve: Serve) -> None:
    """It passes, as other resets do: no certificate is to blame."""
    put_neighbours(project, serve())
    with raw_server(reset=True) as reset, raw_server(reset=False) as closed:
        project.put_url("reset", f"https://127.0.0.1:{reset}/", *SOON)
        project.put_url("closed", f"https://127.0.0.1:{closed}/", *SOON)
        crawl(project, "--retries", "0")
    assert_neighbours_well(project)
    assert (project.reason("reset"), project.reason("closed")) == ("reset", "reset")
    assert "cacert" not in said(project, "reset") + said(project, "closed")


@contextmanager
def raw_server(*, reset: bool) -> Iterator[int]:
    """Accepts, reads a little and hangs up; a handshake is nothing that FaultServer would read."""

    def serve_raw(listener: socket.socket) -> None:
        while True:
            try:
                connection = listener.accept()[0]
            except OSError:
                return
            with connection:
                connection.recv(10 if reset else 65536)
                if reset:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve_raw, args=(listener,))
        thread.start()
        try:
            yield int(listener.getsockname()[1])
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # wakes accept(), which close() alone would not
            thread.join()


@pytest.mark.case("C025")
def test_names_that_do_not_resolve_and_ports_where_nobody_is(project: Project, serve: Serve) -> None:
    """A label of over 63 bytes can't be asked for, so that no name server outside this machine is."""
    server = serve({"/late": ok("here")})
    put_neighbours(project, server)
    no_such = "a" * 64 + ".invalid"
    with refused_port() as port:
        project.put_url("dns", f"http://{no_such}/")
        project.put_url("dns-of-proxy", "http://127.0.0.1:1/", f'proxy = "http://{no_such}:1"')
        project.put_url("refused", f"http://127.0.0.1:{port}/")
        project.put_url("refused-by-proxy-port", "http://127.0.0.1:1/", f'proxy = "http://127.0.0.1:{port}"')
        crawl(project, "--retries", "0")
    assert_neighbours_well(project)
    names = ("dns", "dns-of-proxy", "refused", "refused-by-proxy-port")
    assert [project.reason(name) for name in names] == ["dns", "dns", "connect", "connect"]
    assert [re.findall(r"curl (\d+)", said(project, name)) for name in names] == [["6"], ["5"], ["7"], ["7"]]


def test_a_proxy_that_refuses_is_a_failure_to_connect(project: Project, serve: Serve) -> None:
    """Nothing reached the site; and what the proxy said is not the site's answer."""
    proxy = serve({"forbidden.test:443": status(403), "login.test:443": status(407), "bad.test:443": status(502)})
    socks = serve()
    names = ("forbidden", "login", "bad")
    for name in names:
        project.put_url(name, f"https://{name}.test/", f'proxy = "{proxy.url}"', *SOON)
    with raw_server(reset=False) as port:
        project.put_url("socks", "http://socks.test/", f'proxy = "socks5h://127.0.0.1:{port}"', *SOON)
        crawl(project, "--retries", "0")
    assert {name: project.reason(name) for name in (*names, "socks")} == dict.fromkeys((*names, "socks"), "connect")
    assert "407" in said(project, "login")
    assert not socks.requests


# ── redirects ────────────────────────────────────────────────────────────────────────────────────────────────────────


def echo(request: Request) -> Answer:
    return ok(request.head + request.body)


def request_line(page: bytes) -> bytes:
    return page.partition(b"\r\n")[0]


WAYS = {  # Location -> the target that must be asked for
    "space": (b"/a b?q=c d", b"/a%20b?q=c+d"),
    "utf-8": (b"/caf\xc3\xa9", b"/caf%C3%A9"),
    "latin-1": (b"/caf\xe9", b"/caf%E9"),
    "relative": (b"x/../y", b"/way/y"),
    "fragment": (b"/page#part", b"/page"),
    "query": (b"?a=1", b"/way/query?a=1"),
    "control": (b"/a\x01b", b"/a%01b"),
    "blanks-around": (b"   /z   ", b"/z"),
    "long": (b"/" + b"a" * 9000, b"/" + b"a" * 9000),
}


@pytest.mark.case("C027")
def test_locations_are_followed_as_browsers_and_curl_do(project: Project, serve: Serve) -> None:
    """Directly, and after another redirect, when the way must be worked out for the record."""
    server = serve({f"/way/{name}": redirect(location) for name, (location, _) in WAYS.items()})
    server.on("*", echo)
    for name, (_, target) in WAYS.items():
        server.on(target.decode(), echo)
        server.on(f"/far/{name}", redirect(f"/way/{name}"))
        project.put_url(f"near-{name}", f"{server.url}/way/{name}", "location")
        project.put_url(f"far-{name}", f"{server.url}/far/{name}", "location")
    crawl(project)
    for name, (_, target) in WAYS.items():
        for task in (f"near-{name}", f"far-{name}"):
            assert request_line(project.page(task)) == b"GET " + target + b" HTTP/1.1"
            record = project.last(task)
            assert record["url"].isascii() and " " not in record["url"]
            assert [code for _, code in record["hops"]] == [302] * (len(record["hops"]) - 1) + [200]
            assert record["hops"][-1][0][:200] == record["url"][:200]
    assert [url for url, _ in project.last("far-space")["hops"]] == [
        f"{server.url}/far/space",
        f"{server.url}/way/space",
        f"{server.url}/a%20b?q=c+d",
    ]


@pytest.mark.case("C029")
def test_redirects_lead_to_http_and_nowhere_else(project: Project, serve: Serve) -> None:
    elsewhere = serve()
    port = elsewhere.port
    locations = {
        "file": ("file:///etc/passwd", "forbidden"),
        "file-upper": ("FILE:///etc/passwd", "forbidden"),
        "file-host": ("file://localhost/etc/passwd", "forbidden"),
        "file-port": (f"file://127.0.0.1:{port}/etc/passwd", "redirect"),
        "ftp": (f"ftp://127.0.0.1:{port}/", "forbidden"),
        "gopher": (f"gopher://127.0.0.1:{port}/1", "forbidden"),
        "dict": (f"dict://127.0.0.1:{port}/d", "forbidden"),
        "data": ("data:text/html,hi", "forbidden"),
        "javascript": ("javascript:1", "forbidden"),
        "no-such-port": ("http://127.0.0.1:99999/", "redirect"),
        "half-an-address": ("http://[::1", "redirect"),
        "no-address": ("http://[bad/", "redirect"),
    }
    put_neighbours(project, server := serve())
    for name, (location, _) in locations.items():
        server.on(f"/{name}", redirect(location))
        server.on(f"/far/{name}", redirect(f"/{name}"))
        project.put_url(f"near-{name}", f"{server.url}/{name}", "location", *SOON)
        project.put_url(f"far-{name}", f"{server.url}/far/{name}", "location", 'proto-redir = "=http,https"', *SOON)
    crawl(project, "--retries", "0")
    assert_neighbours_well(project)
    came = {task: project.reason(task) for task in project.written if task not in NEIGHBOURS}
    assert came == {f"{way}-{name}": reason for way in ("near", "far") for name, (_, reason) in locations.items()}
    assert elsewhere.connections == 0
    secret = Path("/etc/passwd").read_bytes().splitlines()[0]
    assert not [path for path in project.folder.rglob("*") if path.is_file() and secret in path.read_bytes()]


@pytest.mark.case("C029")
@pytest.mark.parametrize("scheme", ["file:///etc/passwd", "ftp://127.0.0.1:{port}/", "gopher://127.0.0.1:{port}/"])
def test_a_task_may_name_http_and_https_only(project: Project, serve: Serve, scheme: str) -> None:
    server = serve()
    project.put_url("a", scheme.format(port=server.port))
    project.put_url("b", scheme.format(port=server.port), 'proto = "=all"')
    crawl(project)
    assert (project.reason("a"), project.reason("b")) == ("forbidden", "forbidden")
    assert server.connections == 0


@pytest.mark.case("C031")
def test_redirects_without_end_end(project: Project, serve: Serve) -> None:
    """Fifty are followed (curl's own default), and what goes beyond is not tried again."""
    server = serve({"/loop": redirect("/loop"), "/last": ok("there")})
    for chain, length in (("fifty", 50), ("more", 51)):
        for hop in range(length):
            server.on(f"/{chain}/{hop}", redirect(f"/{chain}/{hop + 1}" if hop + 1 < length else "/last"))
        project.put_url(chain, f"{server.url}/{chain}/0", "location")
    project.put_url("loop", f"{server.url}/loop", "location")
    for limit in (0, 5):
        server.on(f"/loop{limit}", redirect(f"/loop{limit}"))
        project.put_url(f"limit-{limit}", f"{server.url}/loop{limit}", "location", f"max-redirs = {limit}")
    crawl(project)  # with retries
    assert project.page("fifty") == b"there"
    lost = ("more", "loop", "limit-0", "limit-5")
    assert {name: project.reason(name) for name in lost} == dict.fromkeys(lost, "redirect")
    assert [server.count(f"/{path}") for path in ("loop", "loop0", "loop5")] == [51, 1, 6]
    record = project.last("loop")
    assert record["url"] == f"{server.url}/loop" and len(record["hops"]) <= 60
    assert "47" in record["detail"]


def test_a_redirect_that_is_not_followed_says_why(project: Project, serve: Serve) -> None:
    """A hint that can help: `location` where there is a Location that the task does not follow, and only there."""
    server = serve({"/a": redirect("/b"), "/none": status(302), "/304": status(304), "/empty": redirect("")})
    project.put_url("a", f"{server.url}/a")
    for name in ("none", "304", "empty"):
        project.put_url(name, f"{server.url}/{name}", "location")
    crawl(project)
    assert "`location`" in said(project, "a") and "302" in said(project, "a")
    assert "`location`" not in said(project, "none") + said(project, "304")
    assert {project.reason(name) for name in ("a", "none", "304", "empty")} <= {"http", "redirect"}


def test_the_way_of_a_lost_redirect_is_told_as_it_was(project: Project, serve: Serve) -> None:
    """Who never answered has no status in the record."""
    server = serve()
    with refused_port() as port:
        server.on("/a", redirect(f"http://127.0.0.1:{port}/gone"))
        project.put_url("a", f"{server.url}/a", "location")
        crawl(project, "--retries", "0")
    record = project.last("a")
    assert (record["reason"], record["url"]) == ("connect", f"http://127.0.0.1:{port}/gone")
    assert record["hops"] == [[f"{server.url}/a", 302]]


def test_a_strange_location_on_the_last_page_harms_nobody(project: Project, serve: Serve) -> None:
    server = serve({"/a": redirect("/b"), "/b": ok("hello", "Location: http://[bad/")})
    put_neighbours(project, server)
    project.put_url("a", f"{server.url}/a", "location")
    crawl(project)
    assert_neighbours_well(project)
    assert project.page("a") == b"hello"


SECRETS = {
    "user": ('user = "a:b"', "Authorization"),
    "bearer": ('header = "Authorization: Bearer t0ken"', "Authorization"),
    "cookie-header": ('header = "Cookie: s=t0ken"', "Cookie"),
    "cookie": ('cookie = "s=t0ken"', "Cookie"),
}


@pytest.mark.case("C033")
def test_secrets_do_not_follow_a_redirect_to_another_host(project: Project, serve: Serve) -> None:
    """Another port is another host; other headers go along, as with curl. `location-trusted` sends all."""
    there = serve({"*": echo})
    here = serve({"/same": redirect("/seen"), "/seen": echo})
    here.on("/port", redirect(f"{there.url}/"))
    here.on("/name", redirect(f"http://localhost:{there.port}/"))
    for name, (line, _) in SECRETS.items():
        for way in ("same", "port", "name"):
            lines = (line, 'header = "X-Api-Key: k3y"')
            project.put_url(f"{name}-{way}", f"{here.url}/{way}", "location", *lines)
            project.put_url(f"{name}-{way}-trusted", f"{here.url}/{way}", "location-trusted", *lines)
    run = run_sc(project, "-v", "crawl", "--no-parse", check=0)
    assert "t0ken" not in run.stdout + run.stderr
    for name, (_, header) in SECRETS.items():
        for way in ("same", "port", "name"):
            usual, trusted = project.page(f"{name}-{way}"), project.page(f"{name}-{way}-trusted")
            assert (f"{header}: ".encode() in usual) == (way == "same"), (name, way)
            assert f"{header}: ".encode() in trusted
            assert b"X-Api-Key: k3y" in usual and b"X-Api-Key: k3y" in trusted


# ── config (-K) syntax ───────────────────────────────────────────────────────────────────────────────────────────────


class Config(NamedTuple):
    """A task file (`U` is the server's url) and the request that it must make; `line` None for none at all.

    `headers` must be among the request's; `says` is in the record's sentence.
    """

    text: str
    line: str | None
    body: bytes = b""
    headers: tuple[bytes, ...] = ()
    says: str = ""


def posted(length: int) -> Config:
    """The last line, without a line end, is `length` bytes long: curl once dropped it at multiples of 127."""
    value = "x" * (length - len('data = ""'))
    return Config(f'url = "U/post"\ndata = "{value}"', "POST /post", value.encode())


CONFIGS = {
    **{f"no-final-newline-{length}": posted(length) for length in (126, 127, 128, 254, 255, 381, 508)},
    "empty": Config("", None, says="no url"),
    "comments-only": Config("# a\n\n# b\n", None, says="no url"),
    "open-quote": Config('url = "U/q', None, says="quote"),
    "open-quote-and-more": Config('url = "U/q\ndata = "a=1"\n', None, says="open-quote-and-more.conf:1"),
    "escapes": Config(
        'url = "U/e"\nuser-agent = "a\\tb\\\\c\\"d\\z"\nheader = "X-P: C:\\\\tmp\\\\n"\n',
        "GET /e",
        headers=(b'User-Agent: a\tb\\c"dz', b"X-P: C:\\tmp\\n"),
    ),
    "escapes-in-data": Config('url = "U/e"\ndata = "{\\"a\\": \\"b\\\\n\\"}"\n', "POST /e", b'{"a": "b\\n"}'),
    "unquoted-backslash": Config('url = "U/e"\nuser-agent = a\\tb\n', "GET /e", headers=(b"User-Agent: a\\tb",)),
    "only-https": Config('url = "U/p"\nproto = "=https"\n', None, says="disabled"),
    "only-https-dashed": Config('url = "U/p"\n--proto =https\n', None, says="disabled"),
    "equals-eaten": Config('url = "U/p"\nproto = =https\n', "GET /p"),
    "colon": Config('url: "U/c"\n', "GET /c"),
    "equals-equals": Config('url === "U/c"\n', "GET /c"),
    "dashes": Config('--url "U/c"\n', "GET /c"),
    "dashes-equals": Config('--url="U/c"\n', "GET /c"),
    "short": Config('--url "U/c"\n-H "X: 1"\n', "GET /c", headers=(b"X: 1",)),
    "short-glued": Config('--url "U/c"\n-HX:1\n', "GET /c", headers=(b"X:1",)),
    "indented": Config('  url = "U/c"\n\tuser-agent = "x y"\n', "GET /c", headers=(b"User-Agent: x y",)),
    "crlf-and-bom": Config('\ufeffurl = "U/c"\r\nlocation\r\nreferer = "r"\r\n', "GET /c", headers=(b"Referer: r",)),
    "next": Config('url = "U/n1"\ndata = "a=1"\nnext\nurl = "U/n2"\n', None, says="next.conf:3"),
    "next-first": Config('next\nurl = "U/n"\n', None, says="next-first.conf:1"),
    "two-urls": Config('url = "U/n1"\nurl = "U/n2"\n', None, says="two-urls.conf:2"),
    "globbing": Config('url = "U/n[1-3]"\n', None, says="globoff"),
    "windows-command": Config(
        'curl "U/p?a=1^&b=2" ^\n  -H "X-J: ^\\^"v^\\^"" ^\n  --data-raw "^{^\\^"k^\\^":1^}" --compressed\n',
        None,
        says="command line",
    ),
    "shell-command": Config("curl 'U/p' \\\n  -H 'X: 1'\n", None, says="command line"),
    "blank-in-url": Config('url = "U/sp ace"\n', None, says="%20"),
    "utf-8-in-url": Config('url = "U/café?q=1"\n', "GET /caf%C3%A9?q=1"),
    "backslash-in-url": Config('url = "U/b\\\\s"\n', "GET /b\\s"),
    "no-scheme": Config('url = "H/noscheme"\n', "GET /noscheme"),
    "backslashes-for-slashes": Config('url = "http:\\\\\\\\H\\\\x"\n', None),
    "fragment": Config('url = "U/fr#a"\n', "GET /fr"),
    "dot-segments": Config('url = "U/a/../b/./c"\n', "GET /b/c"),
    "dot-segments-as-is": Config('url = "U/a/../b/./c"\npath-as-is\n', "GET /a/../b/./c"),
    "data-file": Config('url = "U/d"\ndata = "@body.txt"\n', "POST /d", b"abc"),
    "data-binary-file": Config('url = "U/d"\ndata-binary = "@body.txt"\n', "POST /d", b"a\r\nb\nc"),
    "data-raw-at": Config('url = "U/d"\ndata-raw = "@body.txt"\n', "POST /d", b"@body.txt"),
    "data-missing-file": Config('url = "U/d"\ndata = "@missing.txt"\n', None, says="missing.txt"),
    "data-directory": Config('url = "U/d"\ndata = "@html"\n', None, says="html"),
    "data-of-the-machine": Config('url = "U/d"\ndata = "@/etc/passwd"\n', None, says="outside the workdir"),
    "data-up": Config('url = "U/d"\ndata = "@../secret.txt"\n', None, says="outside the workdir"),
    "get-with-data": Config('url = "U/g"\nget\ndata = "a=1"\ndata-urlencode = "q=x y&z"\n', "GET /g?a=1&q=x+y%26z"),
    "two-data-lines": Config('url = "U/d"\ndata = "a=1"\ndata = "b=2"\n', "POST /d", b"a=1&b=2"),
    "option-of-ftp": Config('url = "U/o"\nftp-pasv\n', None, says="option-of-ftp.conf:2"),
    "unknown-option": Config('url = "U/o"\nuser-agnet = "x"\n', None, says='"user-agent"'),
    "bytes-in-cookie-file": Config('url = "U/o"\ncookie = "caf\udce9"\n', "GET /o"),
    "bytes-in-data-file": Config('url = "U/o"\ndata = "@caf\udce9"\n', None, says="caf\\xe9"),
    "bytes-in-a-header": Config('url = "U/o"\nheader = "X: \udce9"\n', "GET /o", headers=(b"X: \xe9",)),
    "bytes-in-other-texts": Config(
        'url = "U/caf\udce9"\nuser-agent = "\udce9"\nreferer = "\udce9"\nuser = "\udce9:\udce9"\n',
        "GET /caf%E9",
        headers=(b"User-Agent: \xe9", b"Referer: \xe9", b"Authorization: Basic 6Trp"),
    ),
    "bytes-in-cacert": Config('url = "U/o"\ncacert = "\udce9"\n', None, says="\\xe9"),
    "bytes-in-the-host": Config('url = "http://caf\udce9.invalid/"\n', None, says="host name"),
    "line-end-in-a-header": Config('url = "U/o"\nheader = "X: 1\\r\\nY: 2"\n', None, says="line end"),
}


@pytest.mark.case("C047", "C049", "C051", "C053", "C055", "C057", "C059")
def test_task_files_mean_what_they_mean_to_curl_or_are_refused(project: Project, serve: Serve) -> None:
    """The request on the wire for what curl and we accept; no request, and file and line, for what we refuse."""
    server = serve({"*": ok("x")})
    put_neighbours(project, serve())
    (project.workdir / "body.txt").write_bytes(b"a\r\nb\nc")
    (project.folder / "secret.txt").write_bytes(b"secret")
    for name, config in CONFIGS.items():
        host = f"127.0.0.1:{server.port}"
        text = config.text.replace("U/", f"http://{host}/{name}/").replace("H/", f"{host}/{name}/")
        project.put(name, text.replace("H\\", f"{host}\\").encode("utf-8", "surrogateescape"))
    crawl(project, "--retries", "0")
    assert_neighbours_well(project)
    requests: dict[str, list[Request]] = {name: [] for name in CONFIGS}
    for request in server.requests:
        requests[request.target.split("/")[1]].append(request)
    came = {
        name: [(f"{r.method} {r.target[len(name) + 1 :]}", r.body) for r in sent] for name, sent in requests.items()
    }
    assert came == {name: [(c.line, c.body)] if c.line else [] for name, c in CONFIGS.items()}
    for name, config in CONFIGS.items():
        assert (project.state_of(name) == "success") == (config.line is not None)
        assert config.says in said(project, name)
        for header in config.headers:
            assert header + b"\r\n" in requests[name][0].head


# ── state shared between tasks ───────────────────────────────────────────────────────────────────────────────────────

LOADED = (  # one task has it all, the next must have none of it
    'cookie = ""',
    'user = "a:b"',
    'header = "X-Mine: 1"',
    'header = "Accept:"',
    'referer = "http://r.test/"',
    'user-agent = "mine"',
    'range = "0-9"',
    "compressed",
    "location-trusted",
    'request = "PURGE"',
)


@pytest.mark.case("C061")
@pytest.mark.parametrize("order", ["abcd", "dbac", "bdca", "adbc"])
def test_nothing_of_a_task_leaks_into_the_next(project: Project, serve: Serve, order: str) -> None:
    """One connection for all; each request is what the task alone would have sent."""
    lines: dict[str, tuple[str, ...]] = {
        "a": LOADED,
        "b": (),
        "c": ('cookie = ""',),
        "d": ('data = "x=1"', 'json = "{}"'),
    }
    server = serve({"*": ok("x", "Set-Cookie: sid=s3cret; Path=/")})
    for place, which in enumerate(order, 1):
        project.put_url(f"{place}-{which}", f"{server.url}/", *lines[which])
    crawl(project, "-c", "1")
    assert server.connections <= 3  # one for all, but a POST has its own
    host = f"Host: 127.0.0.1:{server.port}\r\n".encode()
    agent = b"User-Agent: stateful-crawler/"
    for request, which in zip(server.requests, order, strict=True):
        if which == "a":
            continue
        assert not request.all("Cookie")
        names = [name for name, _ in request.headers]
        more = [b"Content-Length", b"Content-Type"] if which == "d" else []
        assert sorted(names) == sorted([b"Host", b"User-Agent", b"Accept", *more])
        assert request.head.startswith((b"GET" if which != "d" else b"POST") + b" / HTTP/1.1\r\n" + host + agent)


def test_the_cookies_of_an_answer_are_not_kept_in_the_folder(project: Project, serve: Serve) -> None:
    server = serve({"/a": status(302, b"", "Set-Cookie: sid=s3cret; Path=/", "Location: /b"), "/b": echo})
    project.put_url("a", f"{server.url}/a", "location", 'cookie = ""')
    project.put_url("b", f"{server.url}/a")
    crawl(project)
    assert b"Cookie: sid=s3cret" in project.page("a")  # it went where it belongs
    for path in project.folder.rglob("*.conf"):
        assert b"s3cret" not in path.read_bytes()


@pytest.mark.case("C063")
def test_cookies_go_where_their_domain_and_path_say(project: Project, serve: Serve) -> None:
    """RFC 6265 section 5.1.3 and 5.1.4. Names of other hosts reach the server as their proxy."""
    given = ("a=1; Domain=example.org", "b=2; Domain=.localhost", "c=3", "d=4; Domain=127.0.0.1", "e=5; Path=/other")
    given = (*given, "f=6; Secure")  # loopback is secure by itself
    server = serve({"/seen": echo, "*": echo})
    server.on("/set", status(302, b"", *(f"Set-Cookie: {one}" for one in given), "Location: /seen"))
    project.put_url("ip", f"{server.url}/set", "location", 'cookie = ""')
    hosts = {"bad": "http://badexample.test/", "sub": "http://sub.example.test/", "same": "http://example.test/in"}
    for name, target in hosts.items():
        url = f"http://example.test/{name}"
        server.on(url, status(302, b"", "Set-Cookie: s=1; Domain=example.test", f"Location: {target}"))
        project.put_url(name, url, "location", 'cookie = ""', f'proxy = "{server.url}"')
    crawl(project)
    sent = {name: _cookies(project.page(name)) for name in project.written}
    assert sent == {"ip": {"c=3", "d=4", "f=6"}, "bad": set(), "sub": {"s=1"}, "same": {"s=1"}}


def _cookies(head: bytes) -> set[str]:
    found = re.findall(rb"^Cookie: (.*)\r$", head, re.M)
    return {cookie for line in found for cookie in line.decode().split("; ")}


# ── the table of verdicts ────────────────────────────────────────────────────────────────────────────────────────────

# What can't happen to a transfer over HTTP, so that it needs no verdict of its own: libcurl's multi and share
# interfaces, its other protocols, uploads and resumed downloads. These fall under UNLISTED.
NEVER_HERE = re.compile(
    "E_(OK|(CALL_)?MULTI_.*|SHARE_.*|FTP_.*|TFTP_.*|LDAP_.*|RTSP_.*|SSH|TELNET_.*|CONV_.*|REMOTE_(DISK|FILE)_.*"
    "|QUOTE_ERROR|UPLOAD_FAILED|ALREADY_COMPLETE|BAD_DOWNLOAD_RESUME|BAD_PASSWORD_ENTERED|MALFORMAT_USER"
    "|LIBRARY_NOT_FOUND)"
)


def test_every_error_of_pycurl_has_a_verdict() -> None:
    for name in (name for name in dir(pycurl) if name.startswith("E_")):
        code = getattr(pycurl, name)
        assert verdict.VERDICTS.get(code, verdict.UNLISTED) in (*REASONS, "fatal"), name
        assert code in verdict.VERDICTS or NEVER_HERE.fullmatch(name), f"give {name} a verdict"


def test_verdicts_also_for_errors_that_pycurl_has_no_name_for() -> None:
    """libcurl grows faster than pycurl: without their numbers such errors would all be called protocol faults."""
    assert set(range(92, 102)) <= set(verdict.VERDICTS)
    assert verdict.VERDICTS[97] == "connect" and verdict.VERDICTS[100] == "too-large"
    assert set(verdict.VERDICTS.values()) | {verdict.UNLISTED} <= {*REASONS, "fatal"}
