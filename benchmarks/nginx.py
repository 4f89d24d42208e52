"""The benchmark site: an nginx of our own on loopback, one process, its whole prefix in a temporary folder."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks import pages

_START_TIMEOUT_S = 10.0
_CONFIG = """
daemon off;
master_process off;
pid {prefix}/nginx.pid;
error_log {prefix}/error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 100000000;
    keepalive_timeout 600s;
    open_file_cache max=20000 inactive=600s;
    open_file_cache_valid 600s;
    client_body_temp_path {prefix}/body;
    proxy_temp_path {prefix}/proxy;
    fastcgi_temp_path {prefix}/fastcgi;
    uwsgi_temp_path {prefix}/uwsgi;
    scgi_temp_path {prefix}/scgi;
    types {{ }}
    default_type "text/html; charset=utf-8";
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location ~ "^/page/\\d\\d(\\d\\d\\d\\d)$" {{ alias {prefix}/pages/$1; }}
        location = /status {{ stub_status; }}
        location / {{ return 404; }}
    }}
}}
"""


class Traffic(NamedTuple):
    connections: int
    requests: int


class Site:
    """A running site; `url` is its root."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def traffic(self) -> Traffic:
        """What nginx has seen since its start, this question (one connection, one request) included."""
        # Not urllib: it would ask a proxy of the environment.
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)) as connection:
            connection.request("GET", "/status")
            numbers = re.findall(rb"\d+", connection.getresponse().read())
        return Traffic(connections=int(numbers[1]), requests=int(numbers[3]))


class NginxFailedError(Exception):
    """nginx did not come up; the message is the end of its own log."""


@contextlib.contextmanager
def serve(binary: str, prefix: Path, page_count: int) -> Iterator[Site]:
    """Serve pages 1 to `page_count`, written below `prefix` first; the server ends with the block."""
    _write_pages(prefix / "pages", page_count)
    port = _free_port()
    config = prefix / "nginx.conf"
    config.write_text(_CONFIG.format(prefix=prefix, port=port))
    command = [binary, "-p", str(prefix), "-c", str(config), "-e", str(prefix / "error.log")]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_until_up(server, port, prefix / "error.log")
        yield Site(port)
    finally:
        server.terminate()
        server.wait()


def _write_pages(folder: Path, page_count: int) -> None:
    folder.mkdir()
    for number in range(1, min(page_count, pages.DISTINCT_PAGES) + 1):
        (folder / f"{pages.slot(number):04d}").write_bytes(pages.body(number))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


def _wait_until_up(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.02)
    said = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    raise NginxFailedError(said[-1] if said else f"nginx did not answer within {_START_TIMEOUT_S:g} s")
