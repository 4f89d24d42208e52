"""A scripted HTTP server: every fault that a real server has shown, said in a line or two.

    routes = {
        "/a": ok("<p>a</p>"),                                   # one answer, for every visit
        "/b": [status(503, retry_after="1"), ok("<p>b</p>")],   # visit by visit, the last one for ever
        "/c": cut(b"0123456789", claims=100),
        "/d": (H200 + b"Content-Length: 4\\r\\n\\r\\nab", hold(event), b"cd"),
        "/e": lambda request: ok(request.head),
        "*": status(404),                                       # any other path
    }
    with FaultServer(routes) as server:
        ...  # server.url + "/a"
        assert server.count("/a") == 1

An answer is a tuple of parts, sent one after the other as they are: bytes, or functions that act on the connection
(CLOSE, RESET, SILENCE, hold(), pause(), drip(), endless()). Answers can be built on: `(*ok("x"), CLOSE)`. Where no part
closes the connection it stays open for the next request, whatever the headers say.
"""

from __future__ import annotations

import gzip
import socket
import socketserver
import ssl
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, NamedTuple

from stateful_crawler.sites.server import Loopback

H200 = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"


class Request(NamedTuple):
    """One request as it came; `nth` counts the requests of its connection from 1, `at` is on the monotonic clock."""

    method: str
    target: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    head: bytes
    connection: int
    nth: int
    at: float

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def all(self, name: str) -> list[bytes]:
        """The values of every header `name`, in order."""
        return [value for key, value in self.headers if key.lower() == name.lower().encode()]


Act = Callable[["Wire"], None]
Part = bytes | Act
Answer = bytes | tuple[Part, ...] | Callable[[Request], Any]
Route = Answer | list[Answer]


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def head(code: int, *headers: str | bytes) -> bytes:
    """Status line, `headers` ("Name: value"; bytes are sent as they are) and the blank line."""
    lines = [f"HTTP/1.1 {code} {HTTPStatus(code).phrase}", *headers]
    return b"".join(_bytes(line) + b"\r\n" for line in lines) + b"\r\n"


def status(
    code: int,
    body: str | bytes = b"",
    *headers: str | bytes,
    content_type: str = "text/html",
    retry_after: str | None = None,
) -> tuple[Part, ...]:
    """A complete and honest answer."""
    content = _bytes(body)
    more = [f"Content-Type: {content_type}"] if content_type else []
    more += [f"Retry-After: {retry_after}"] if retry_after is not None else []
    return (head(code, *more, *headers, f"Content-Length: {len(content)}") + content,)


def ok(body: str | bytes = b"", *headers: str | bytes, content_type: str = "text/html") -> tuple[Part, ...]:
    return status(200, body, *headers, content_type=content_type)


def redirect(to: str | bytes, code: int = 302) -> tuple[Part, ...]:
    """A redirect with exactly these bytes in its Location."""
    return status(code, b"", b"Location: " + _bytes(to))


def gzip_body(body: str | bytes, *headers: str | bytes, junk: bytes = b"", missing: int = 0) -> tuple[Part, ...]:
    """A gzip answer, its stream short of `missing` bytes or followed by `junk`; the Content-Length is right."""
    packed = gzip.compress(_bytes(body), mtime=0)
    return ok(packed[: len(packed) - missing] + junk, "Content-Encoding: gzip", *headers)


def cut(body: bytes, claims: int) -> tuple[Part, ...]:
    """`body` under a Content-Length of `claims`, then the end of the connection."""
    return (head(200, "Content-Type: text/html", f"Content-Length: {claims}") + body, CLOSE)


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> tuple[Part, ...]:
    """The chunks, then `end` as it is: b"zz\\r\\n" breaks it, and b"" with a CLOSE after it cuts it."""
    framed = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return (head(200, "Content-Type: text/html", "Transfer-Encoding: chunked") + framed + end,)


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


# ── parts that act on the connection ─────────────────────────────────────────────────────────────────────────────────


def _close(_wire: Wire) -> None:
    raise ConnectionAbortedError  # socketserver ends the connection in good order


def _reset(wire: Wire) -> None:
    wire.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.request.close()  # here and not in socketserver, which would say goodbye first
    raise ConnectionAbortedError


def _silence(wire: Wire) -> None:
    while wire.request.recv(65536):
        pass
    raise ConnectionAbortedError


CLOSE: Part = _close
RESET: Part = _reset  # a TCP reset; what was sent just before may be lost with it
SILENCE: Part = _silence  # until the client gives up


def hold(event: threading.Event) -> Act:
    """Go on when `event` is set; give up when the server closes."""

    def part(wire: Wire) -> None:
        while not event.wait(0.01):
            wire.check()

    return part


def pause(seconds: float) -> Act:
    def part(wire: Wire) -> None:
        wire.server.closing.wait(seconds)
        wire.check()

    return part


def drip(data: bytes, every_s: float = 0.01) -> Act:
    """Byte by byte, a pause after each."""
    wait = pause(every_s)

    def part(wire: Wire) -> None:
        for byte in data:
            wire.request.sendall(bytes([byte]))
            wait(wire)

    return part


def endless(data: bytes) -> Act:
    """`data` again and again until the client has had enough."""

    def part(wire: Wire) -> None:
        while True:
            wire.request.sendall(data)

    return part


ENDLESS_HEADERS: tuple[Part, ...] = (H200, endless(b"X-Filler: " + b"a" * 1000 + b"\r\n"))


# ── the server ───────────────────────────────────────────────────────────────────────────────────────────────────────


class FaultServer(Loopback):
    """Answers from `routes` and logs every request in `requests`; also an honest server, where the routes are honest.

    Routes are found by target, then by path, then under "*" (default: 404); visits are counted per target. An error in
    a route's own code is raised again by close().
    """

    def __init__(
        self,
        routes: Mapping[str, Route] | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self.connections = 0
        self.most_in_flight = 0
        self._in_flight = 0
        self._visits: Counter[str] = Counter()
        self._arrival = threading.Condition()
        self._routes: dict[str, Route] = {"*": status(404), **(routes or {})}
        self._tls = tls
        self._faults: list[BaseException] = []
        super().__init__(Wire, host, port)

    @property
    def url(self) -> str:
        """`http://HOST:PORT`, or https, without a slash at its end."""
        return super().url.replace("http:", "https:") if self._tls else super().url

    def on(self, path: str, *answers: Answer) -> None:
        """Set or replace a route: for answers that need the server's own url, or a change between two runs."""
        self._routes[path] = list(answers)

    def count(self, target: str | None = None) -> int:
        """How many requests came for this target (None: for all)."""
        return len(self.requests) if target is None else self._visits[target]

    def wait_for(self, target: str | None = None, visits: int = 1, timeout_s: float = 30) -> None:
        """Return as soon as `visits` requests for `target` have come; AssertionError when they don't."""
        with self._arrival:
            came = self._arrival.wait_for(lambda: self.count(target) >= visits, timeout_s)
        assert came, f"{self.count(target)} of {visits} requests for {target or 'anything'} came in {timeout_s} s"

    def close(self) -> None:
        super().close()
        if self._faults:
            raise self._faults.pop()

    # called by socketserver and by the connections

    def get_request(self) -> tuple[Any, Any]:
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tls:  # the handshake waits for the connection's own thread, or a silent client would block all others
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            self._faults.append(error)

    def connected(self) -> int:
        """The number of a new connection, from 1."""
        with self._arrival:
            self.connections += 1
            return self.connections

    def arrived(self, request: Request) -> tuple[Part, ...]:
        """Log the request and find its answer."""
        with self._arrival:
            self.requests.append(request)
            self._visits[request.target] += 1
            visit = self._visits[request.target]
            self._in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self._in_flight)
            self._arrival.notify_all()
        keys = (request.target, request.path, "*")
        route = self._routes[next(key for key in keys if key in self._routes)]
        answer = route[min(visit, len(route)) - 1] if isinstance(route, list) else route
        if callable(answer):
            answer = answer(request)
        return (answer,) if isinstance(answer, bytes) else tuple(answer)

    def answered(self) -> None:
        with self._arrival:
            self._in_flight -= 1


class Wire(socketserver.BaseRequestHandler):
    """One connection, in its own thread; `request` is its socket, by socketserver's name for it."""

    server: FaultServer

    def setup(self) -> None:
        self._number = self.server.connected()
        self._unread = b""

    def check(self) -> None:
        """Leave the answer when the server is closing."""
        if self.server.closing.is_set():
            raise ConnectionAbortedError

    def handle(self) -> None:
        nth = 0
        while (request := self._read(nth := nth + 1)) is not None:
            try:
                self._answer(self.server.arrived(request))
            finally:
                self.server.answered()

    def _answer(self, parts: tuple[Part, ...]) -> None:
        for part in parts:
            if isinstance(part, bytes):
                self.request.sendall(part)
            else:
                part(self)

    def _read(self, nth: int) -> Request | None:
        """The next request, or None at the end of the connection."""
        while b"\r\n\r\n" not in self._unread:
            if not self._receive():
                return None
        at = time.monotonic()
        start, _, self._unread = self._unread.partition(b"\r\n\r\n")
        first, *lines = start.split(b"\r\n")
        method, target, _ = first.decode("latin-1").split(" ", 2)
        headers = tuple((name, value.strip()) for name, _, value in (line.partition(b":") for line in lines))
        request = Request(method, target, headers, b"", start + b"\r\n\r\n", self._number, nth, at)
        return request._replace(body=self._read_body(request))

    def _read_body(self, request: Request) -> bytes:
        if request.all("Transfer-Encoding") == [b"chunked"]:
            return self._read_chunks()
        length = int((request.all("Content-Length") or [b"0"])[0])
        if request.all("Expect") and len(self._unread) < length:
            self.request.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        while len(self._unread) < length:
            if not self._receive():
                break  # the log shows what came of it
        body, self._unread = self._unread[:length], self._unread[length:]
        return body

    def _read_chunks(self) -> bytes:
        """A chunked body as it came, with its sizes."""
        while not self._unread.endswith(b"0\r\n\r\n") and self._receive():
            pass
        body, self._unread = self._unread, b""
        return body

    def _receive(self) -> bool:
        received = self.request.recv(65536)
        self._unread += received
        return bool(received)


@contextmanager
def refused_port(host: str = "127.0.0.1") -> Iterator[int]:
    """A port where connections are refused: bound, so that nobody else takes it, but not listened on."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as taken:
        taken.bind((host, 0))
        yield int(taken.getsockname()[1])


def has_ipv6() -> bool:
    """Whether ::1 can be served on this machine."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True
