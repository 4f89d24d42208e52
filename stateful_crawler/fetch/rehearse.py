"""A request without a network: the bytes that libcurl would send, read from a pair of sockets.

libcurl gets one end of the pair for its connection, and an address instead of each name, so it looks up nothing and
connects to nothing. The other end listens until the request is whole, and hangs up. What only concerns the way there
(proxies, interfaces, TLS) is left out.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import pycurl

from stateful_crawler.curl.config import Option
from stateful_crawler.fetch.setup import prepare
from stateful_crawler.task import Task

# What decides the way to the server, not what is said to it; with these libcurl would not use the pair as it is.
_WAY_NAMES = """abstract-unix-socket alt-svc connect-to dns-interface doh-url haproxy-clientip haproxy-protocol hsts
    http2-prior-knowledge http3 http3-only interface ip-tos ipv4 ipv6 local-port mptcp noproxy preproxy proto
    proto-default proxy proxy1.0 proxytunnel resolve socks4 socks4a socks5 socks5-hostname tcp-fastopen unix-socket
    vlan-priority cookie-jar"""
_WAY = frozenset(_WAY_NAMES.split())
_WRITES = ("hsts",)  # libcurl writes the file when the handle is closed
_SILENT_S = 2.0  # after this long without a byte a request is taken to be over, though it said that more would come
_LONGEST_S = 120
_HTTPS = re.compile("https://", re.IGNORECASE).match


@dataclass(slots=True)
class _Ear:
    """The other end of the pair: what was said so far."""

    near: list[socket.socket] = field(default_factory=list)
    far: list[socket.socket] = field(default_factory=list)
    heard: bytearray = field(default_factory=bytearray)

    def open(self, _purpose: int, _address: object) -> socket.socket:
        near, far = socket.socketpair()
        far.setblocking(False)
        self.near.append(near)
        self.far.append(far)
        return near

    def listen(self) -> bool:
        """Take in what has come; whether anything has."""
        before = len(self.heard)
        for sock in self.far:
            try:
                while data := sock.recv(1 << 20):
                    self.heard += data
            except (BlockingIOError, ConnectionResetError):
                continue
        return len(self.heard) > before

    def close(self) -> None:
        for sock in (*self.near, *self.far):
            sock.close()


def check(task: Task, root: str, max_body_bytes: int) -> None:
    """Raise TaskFileError for options that can't be carried out, LocalFileError for a file that is not there."""
    prepare(_without(task, _WRITES), root, max_body_bytes)[0].close()


def rehearse(task: Task, root: str, max_body_bytes: int) -> bytes:
    """The first request of the task, head and body, byte for byte; https as the HTTP/1.1 that TLS would wrap.

    Nothing is sent, looked up or written. Raises TaskFileError for options that can't be carried out.
    """
    check(task, root, max_body_bytes)  # here: some of its faults lie in what is left out below
    secure = bool(_HTTPS(task.url))
    handle = _handle(task, root, max_body_bytes, secure)
    ear = _Ear()
    try:
        _connect_to(handle, ear)
        _drive(handle, ear)
    finally:
        handle.close()
        ear.close()
    return _with_port(bytes(ear.heard), task.url) if secure else bytes(ear.heard)


def _handle(task: Task, root: str, max_body_bytes: int, secure: bool) -> pycurl.Curl:
    options = list(_without(task, _WAY).options)
    cookies: list[bytes] = []
    if secure:
        cookies = _cookies(_without(task, _WAY), root, max_body_bytes)
        options = [option for option in options if not _is_cookie_file(option)]
        if Option("http1.0", True) not in options:
            options.append(Option("http1.1", True))
    url = _plain_url(task.url) if secure else task.url
    handle, _ = prepare(replace(task, url=url, options=tuple(options)), root, max_body_bytes)
    for line in cookies:
        handle.setopt(pycurl.COOKIELIST, line)
    return handle


def _without(task: Task, names: Collection[str]) -> Task:
    return replace(task, options=tuple(option for option in task.options if option.name not in names))


def _connect_to(handle: pycurl.Curl, ear: _Ear) -> None:
    handle.setopt(pycurl.OPENSOCKETFUNCTION, ear.open)
    handle.setopt(pycurl.SOCKOPTFUNCTION, lambda _descriptor, _purpose: pycurl.SOCKOPT_ALREADY_CONNECTED)
    handle.setopt(pycurl.CONNECT_TO, [b"::127.0.0.1:9"])
    handle.setopt(pycurl.PROXY, b"")
    handle.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP)
    handle.setopt(pycurl.FOLLOWLOCATION, 0)
    handle.setopt(pycurl.EXPECT_100_TIMEOUT_MS, 1)  # nobody will say 100
    handle.setopt(pycurl.TIMEOUT_MS, _LONGEST_S * 1000)
    handle.setopt(pycurl.WRITEFUNCTION, lambda _data: None)


def _drive(handle: pycurl.Curl, ear: _Ear) -> None:
    """Let libcurl speak until the request is whole, or it falls silent."""
    multi = pycurl.CurlMulti()
    multi.add_handle(handle)
    try:
        last = time.monotonic()
        running = 1
        while running and not _is_whole(ear.heard):
            _, running = multi.perform()
            if ear.listen():
                last = time.monotonic()
            elif time.monotonic() - last > _SILENT_S:
                return
            else:
                multi.select(0.005)
        ear.listen()
    finally:
        multi.remove_handle(handle)
        multi.close()


def _is_whole(heard: bytearray) -> bool:
    """Whether head and body are there, as RFC 9112 section 6.3 frames a request."""
    end = heard.find(b"\r\n\r\n")
    if end < 0:
        return False
    headers = dict(_fields(bytes(heard[:end])))
    if b"chunked" in headers.get(b"transfer-encoding", b"").lower():
        return heard.endswith(b"0\r\n\r\n")
    length = headers.get(b"content-length", b"0")
    return not length.isdigit() or len(heard) >= end + 4 + int(length)


def _fields(head: bytes) -> Iterator[tuple[bytes, bytes]]:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        yield name.strip().lower(), value.strip()


# ── https without TLS ────────────────────────────────────────────────────────────────────────────────────────────────


def _plain_url(url: str) -> str:
    """The same address with http and no default port, so that the Host header comes out as it does with https."""
    authority, slash, rest = re.sub("^https://", "", url, flags=re.IGNORECASE).partition("/")
    return "http://" + re.sub(":443?$", "", authority) + slash + rest


def _with_port(request: bytes, url: str) -> bytes:
    """Port 80 is left out of Host with http alone."""
    if urlsplit(url).port != 80:
        return request
    return re.sub(rb"(\r\nHost: [^\r:]*|\r\nHost: \[[^\r\]]*\])\r\n", rb"\1:80\r\n", request, count=1)


def _cookies(task: Task, root: str, max_body_bytes: int) -> list[bytes]:
    """The cookies of the task's files, as ones that plain http may send too."""
    if not any(_is_cookie_file(option) for option in task.options):
        return []
    handle, _ = prepare(task, root, max_body_bytes)
    try:
        handle.setopt(pycurl.COOKIELIST, b"RELOAD")
        lines: list[bytes] = handle.getinfo_raw(pycurl.INFO_COOKIELIST)
    finally:
        handle.close()
    fields = [line.split(b"\t") for line in lines]
    return [b"\t".join([*part[:3], b"FALSE", *part[4:]]) for part in fields if len(part) > 4]


def _is_cookie_file(option: Option) -> bool:
    return option.name == "cookie" and "=" not in str(option.value)
