"""The loopback server under the example sites, and `Loopback`, the part of it that any small server can stand on."""

from __future__ import annotations

import socket
import socketserver
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple, Protocol, runtime_checkable
from urllib.parse import parse_qsl, urlsplit

POLL_S = 0.02  # how long close() may have to wait for the accepting loop


class Response(NamedTuple):
    """What a site answers; `delay_s` passes before the first byte."""

    body: bytes = b""
    status: int = 200
    content_type: str = "text/html; charset=utf-8"
    delay_s: float = 0.0
    location: str = ""
    cookies: tuple[str, ...] = ()  # the values of Set-Cookie


NOT_FOUND = Response(b"<!DOCTYPE html><title>Not found</title><h1>404 Not found</h1>\n", status=404)
NO_SUCH_METHOD = Response(b"<!DOCTYPE html><title>No</title><h1>405 Only to be read</h1>\n", status=405)
MAX_FORM_BYTES = 64 * 1024


class Site(Protocol):
    """One example site, in practice a module. `respond` is pure: `visit` counts this URL's requests from 1."""

    ABOUT: str

    def respond(self, path: str, query: Mapping[str, str], visit: int, /) -> Response: ...


class Asked(NamedTuple):
    """One request to a site with forms; of a field or cookie that is named twice the last counts."""

    method: str
    path: str
    query: Mapping[str, str]
    form: Mapping[str, str]
    cookies: Mapping[str, str]
    visit: int


@runtime_checkable
class FormSite(Protocol):
    """A site that also looks at what a request brings along: its method, its form, its cookies. Pure too."""

    ABOUT: str

    def answer(self, asked: Asked, /) -> Response: ...


class Loopback(socketserver.ThreadingTCPServer):
    """Serves connections, a thread each, from its making to close(), which leaves no thread and no socket behind."""

    allow_reuse_address = True
    request_queue_size = 128
    daemon_threads = False  # socketserver joins only such threads: one left over would disturb the next test

    def __init__(self, handler: type[socketserver.BaseRequestHandler], host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.closing = threading.Event()
        self.most_connections = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__((host, port), handler)
        self._loop = threading.Thread(target=self.serve_forever, args=(POLL_S,), name="loopback", daemon=True)
        self._loop.start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """`http://HOST:PORT`, without a slash at its end."""
        host = str(self.server_address[0])
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
            if len(self._open) > self.most_connections:
                self.most_connections = max(self.most_connections, sum(map(_peer_is_there, self._open)))
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:  # forgotten before it is closed: close() must not touch a number that a new file may have got
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away; all else is a fault of the server and is shown."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def close(self) -> None:
        """Stop accepting, hang up on everyone, wait for the threads; harmless when called twice."""
        if self.closing.is_set():
            return
        self.closing.set()
        self.shutdown()
        with self._lock:
            for connection in self._open:
                _hang_up(connection)
        self.server_close()
        self._loop.join()

    def __exit__(self, *_: object) -> None:
        self.close()


def _peer_is_there(connection: socket.socket) -> bool:
    """False when the client has closed its end, even if our thread has not noticed yet.

    Without this a client that closes one connection and opens the next is seen with two.
    """
    try:  # the plain socket's recv: the one of a TLS socket takes no flags
        return socket.socket.recv(connection, 1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def _hang_up(connection: socket.socket) -> None:
    """Wake the thread that reads from or writes to `connection`."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # the client was faster


class Server(Loopback):
    """Serves each site under `/NAME/`, and counts: `requests[target]`, `most_connections`."""

    def __init__(self, sites: Mapping[str, Site | FormSite], port: int, host: str) -> None:
        self.sites = sites
        self.requests: Counter[str] = Counter()
        super().__init__(_Handler, host, port)

    def answer(self, target: str, method: str = "GET", cookies: str = "", form: str = "") -> Response:
        """The response to a request for `target` (path and query), which is thereby counted.

        `cookies` is the header, `form` the body, both as they came.
        """
        with self._lock:
            self.requests[target] += 1
            visit = self.requests[target]
        path, query = urlsplit(target).path, dict(parse_qsl(urlsplit(target).query))
        if path == "/":
            return self._index()
        name, slash, rest = path[1:].partition("/")
        if name not in self.sites:
            return NOT_FOUND
        if not slash:
            return Response(status=301, location=f"/{name}/")
        site = self.sites[name]
        if isinstance(site, FormSite):
            pairs = (pair.strip().partition("=") for pair in cookies.split(";"))
            jar = {key: value for key, _, value in pairs}
            return site.answer(Asked(method, "/" + rest, query, dict(parse_qsl(form)), jar, visit))
        return NO_SUCH_METHOD if method == "POST" else site.respond("/" + rest, query, visit)

    def _index(self) -> Response:
        rows = "".join(f'<li><a href="/{name}/">{name}</a>: {site.ABOUT}</li>\n' for name, site in self.sites.items())
        page = f"<!DOCTYPE html>\n<title>Example sites</title>\n<h1>Example sites</h1>\n<ul>\n{rows}</ul>\n"
        return Response(page.encode())


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # headers and page leave in one write

    def do_GET(self) -> None:
        self._send(self.server.answer(self.path, "GET", self.headers.get("Cookie", "")))

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        if size > MAX_FORM_BYTES:
            self.close_connection = True  # what follows is the rest of the form, and no request
            self._send(Response(status=413))
            return
        form = self.rfile.read(size).decode("utf-8", "replace")
        self._send(self.server.answer(self.path, "POST", self.headers.get("Cookie", ""), form))

    def _send(self, response: Response) -> None:
        if response.delay_s:
            self.server.closing.wait(response.delay_s)
        self.send_response_only(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        if response.location:
            self.send_header("Location", response.location)
        for cookie in response.cookies:
            self.send_header("Set-Cookie", cookie)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the terminal belongs to the crawl."""
