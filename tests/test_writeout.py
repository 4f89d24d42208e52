"""write-out: every variable against the real curl, and what must never land in a record."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pycurl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from servers import FaultServer, ok, redirect, status

from stateful_crawler.fetch.writeout import MAX_BYTES, render

CURL = shutil.which("curl")
needs_curl = pytest.mark.skipif(CURL is None, reason="no curl on this machine to compare with")

HEADERS = (
    "Date: Mon, 30 Nov 2026 17:00:00 GMT",
    "X-A: 1",
    "Set-Cookie: sid=s3cret",
    'x-a:  two "quoted" \\ ',
    "X-Empty:",
)
ROUTES = {
    "/a": ok("abc", *HEADERS, content_type="text/plain"),
    "/b?x=y": redirect("/a"),
    "/located": ok("", "Location: http://user:s3cret@h.test/elsewhere"),
    "/secret": redirect("http://user:s3cret@127.0.0.1/elsewhere"),
    "/none": status(404, "none"),
    "/untyped": ok("x", content_type=""),
}


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with FaultServer(ROUTES) as started:
        yield started


def written(url: str, format: str, *setting: tuple[int, object], error: Any = (0, "")) -> str:
    """What render gives after a transfer of our own."""
    headers: list[tuple[str, str]] = []

    def header(line: bytes) -> None:
        text = line.decode("latin-1").strip()
        if text.startswith("HTTP/"):
            headers.clear()
        elif text:
            name, _, value = text.partition(":")
            headers.append((name, value.strip()))

    handle = pycurl.Curl()
    handle.setopt(pycurl.URL, url.encode())
    handle.setopt(pycurl.PROXY, b"")
    handle.setopt(pycurl.USERAGENT, b"curl")
    handle.setopt(pycurl.WRITEFUNCTION, lambda _data: None)
    handle.setopt(pycurl.HEADERFUNCTION, header)
    for constant, value in setting:
        handle.setopt(constant, value)
    try:
        handle.perform()
    except pycurl.error as failure:
        error = tuple(failure.args)
    try:
        return render(format, handle, headers=headers, method="GET", url=url, error=error, saved_as="page")
    finally:
        handle.close()


def written_by_curl(url: str, format: str, *options: str) -> str:
    command = [str(CURL), "-q", "-s", "-A", "curl", "-o", "page", "--noproxy", "*", "-w", format, *options, url]
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run(command, capture_output=True, env=environment, timeout=60, stdin=subprocess.DEVNULL)
    return done.stdout.decode()


@pytest.fixture(autouse=True)
def _somewhere(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))


# What doesn't depend on the clock, on ports or on the version of curl.
STEADY = (
    *("content_type", "errormsg", "exitcode", "filename_effective", "ftp_entry_path", "http_code", "http_connect"),
    *("http_version", "local_ip", "method", "num_connects", "num_headers", "num_redirects", "redirect_url", "referer"),
    *("proxy_ssl_verify_result", "remote_ip", "remote_port", "response_code", "size_download", "size_header"),
    *("size_request", "size_upload", "ssl_verify_result", "url", "url_effective", "urlnum", "certs", "num_certs"),
)
FORMATS = [
    "a%%b %{http_code}%{response_code}\\n\\t\\r\\\\\\x|",
    "",
    "%",
    "\\",
    "%{",
    "%{http_code",
    "%{}|%{nope}|%{http_code }|",
    "%x%{",
    "x%\\n%\\\\n",
    "%header{x-a}|%header{X-A}|%header{nope}|%header{}|%header|%header{x-a",
    "%{onerror}only then",
    "before%{onerror}only then",
    "é 你好\n\t",
]


@needs_curl
@pytest.mark.parametrize("name", STEADY)
def test_a_variable_says_what_curl_says(server: FaultServer, name: str) -> None:
    format = f"<%{{{name}}}>"
    assert written(f"{server.url}/a", format) == written_by_curl(f"{server.url}/a", format)
    redirected = f"{server.url}/b?x=y"
    follow = (pycurl.FOLLOWLOCATION, 1)
    assert written(redirected, format, follow) == written_by_curl(redirected, format, "-L")
    assert written(redirected, format) == written_by_curl(redirected, format)
    referred = (pycurl.REFERER, b"http://r.test/"), (pycurl.POSTFIELDS, b"a=b")
    url = f"{server.url}/none?q#fragment"
    assert written(url, format, *referred) == written_by_curl(url, format, "-e", "http://r.test/", "-d", "a=b")


@needs_curl
@pytest.mark.parametrize("format", FORMATS)
def test_a_format_is_read_as_curl_reads_it(server: FaultServer, format: str) -> None:
    assert written(f"{server.url}/a", format) == written_by_curl(f"{server.url}/a", format)


def test_header_json_is_curls_but_for_the_escapes(server: FaultServer) -> None:
    assert written(f"{server.url}/a", "%{header_json}") == (
        '{"content-type":["text/plain"],\n'
        '"date":["Mon, 30 Nov 2026 17:00:00 GMT"],\n'
        '"x-a":["1","two \\"quoted\\" \\\\"],\n'
        '"x-empty":[""],\n'
        '"content-length":["3"]\n}'
    )


def test_json_holds_every_variable(server: FaultServer) -> None:
    url = f"{server.url}/a?b#c"
    facts = json.loads(written(url, "%{json}"))
    assert facts["http_code"] == 200 and facts["errormsg"] is None and facts["method"] == "GET"
    assert facts["url"] == url and facts["url.fragment"] == "c" and facts["urle.query"] == "b"
    assert facts["time_total"] > 0 and facts["curl_version"].startswith("libcurl/")
    assert set(STEADY) <= set(facts)
    assert list(facts)[:-1] == sorted(list(facts)[:-1])


@needs_curl
def test_json_has_the_keys_and_the_types_of_curl(server: FaultServer) -> None:
    url = f"{server.url}/a"
    ours, curls = (json.loads(ask(url, "%{json}")) for ask in (written, written_by_curl))
    kinds = {key: type(value) for key, value in ours.items()}
    assert {key: type(value) for key, value in curls.items()}.items() <= kinds.items()


def test_all_values_of_a_header_with_a_separator(server: FaultServer) -> None:
    """As curl has it since 8.17."""
    url = f"{server.url}/a"
    assert written(url, "%header{x-a:all:, }") == '1, two "quoted" \\'
    assert written(url, "%header{x-a:all:\\n%\\}\\x\\t}") == '1\n%}\\x\ttwo "quoted" \\'
    assert written(url, "%header{x-a:all:}") == '1two "quoted" \\'
    assert written(url, "%header{x-a:any}|%header{x-a:all}|%header{x-a:}") == "||"


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://h.test", "http|h.test||80|/|||||"),
        ("h.test:81/a?b#c", "http|h.test||81|/a|b|c|||"),
        ("https://u:p%40x@h.test:0443/x;y?", "https|h.test||443|/x;y|||||"),
        ("http://[::1%25lo]:1/a", "http|[::1]|lo|1|/a|||||"),
        ("http://[::1]/", "http|[::1]||80|/|||||"),
        ("http://é.test/ü", "http|é.test||80|/ü|||||"),
        ("", "|||||||||"),
        ("http://", "|||||||||"),
    ],
)
def test_the_parts_of_a_url(url: str, parts: str) -> None:
    names = ("scheme", "host", "zoneid", "port", "path", "query", "fragment", "user", "password", "options")
    format = "|".join(f"%{{url.{name}}}" for name in names)
    assert render(format, pycurl.Curl(), headers=[], method="GET", url=url) == parts


def test_a_failed_transfer(server: FaultServer) -> None:
    url = f"{server.url}/a"
    format = "%{exitcode} %{errormsg} %{http_code} %{filename_effective}%{onerror} shown"
    assert written(url, format, error=(23, "disk full")) == "23 disk full 200 page shown"
    rejected = written("http://h.test/a b", "%{exitcode} <%{url_effective}> %{http_code} %{urle.host} %{json}")
    assert rejected.startswith("3 <> 000  {")


def test_the_time_is_utc() -> None:
    format = "%time{%Y-%m-%d %H:%M:%S.%f %Z %z %s}|%time{}|%time{x\\n}|%time"
    text = render(format, pycurl.Curl(), headers=[], method="GET", url="", now_s=1796058000.25)
    assert text == "2026-11-30 17:00:00.250000 UTC +0000 1796058000||x\\n|%time"
    assert render("%time{\\}}", pycurl.Curl(), headers=[], method="GET", url="") == "\\}"


def test_there_is_one_place_to_write_to(server: FaultServer) -> None:
    assert written(f"{server.url}/a", "a%{stderr}b%{stdout}c%output{file}d%output{>>e}f%output{") == "abcdf%output{"
    assert os.listdir() == []


@pytest.mark.parametrize("path", ["/a", "/secret", "/located"])
def test_no_secret_comes_out(server: FaultServer, path: str) -> None:
    names = " ".join(f"%{{{name}}}" for name in [*STEADY, "json", "header_json", "url.user", "url.password"])
    format = f"{names} %header{{set-cookie}} %header{{Set-Cookie:all:,}} %header{{location}} %header{{location:all:,}}"
    url = server.url.replace("http://", "http://me:s3cret@") + path
    text = written(url, format, (pycurl.REFERER, b"http://you:s3cret@r.test/"))
    assert "s3cret" not in text
    assert "me:" not in text and "you" not in text and "user:" not in text
    assert "http://r.test/" in text and (path == "/a" or re.search("http://(127.0.0.1|h.test)/elsewhere", text))


def test_the_text_is_bounded() -> None:
    headers = [("X", "é" * 9000)]
    for format in ("%header{x}", "%header{x}" * 50, "y" * 100_000, "%%" * 100_000, "é" * 10_000):
        text = render(format, pycurl.Curl(), headers=headers, method="GET", url="")
        assert MAX_BYTES - 4 < len(text.encode()) <= MAX_BYTES


PIECES = ["%", "{", "}", "\\", "header", "time", "output", "x-a", ":all:", "json", "header_json", "http_code", "n", "é"]


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    format=st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=12).map("".join),
    header=st.tuples(st.text(), st.text()),
    url=st.text(),
)
def test_whatever_stands_in_a_format_or_an_answer_gives_text(format: str, header: tuple[str, str], url: str) -> None:
    text = render(format, pycurl.Curl(), headers=[header, ("x-a", "\udcff")], method="GET", url=url)
    assert len(text.encode("utf-8")) <= MAX_BYTES
