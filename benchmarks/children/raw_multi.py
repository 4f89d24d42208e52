"""`raw_multi URL COUNT`: pages 1 to COUNT with CurlMulti, socket_action and selectors, ten at a time, and nothing else.

The pages are fetched twice: the first time only their bytes are counted, and only that is timed; the second time they
are digested, to show that the loop gets what it should.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector

import pycurl

from benchmarks import pages, verify
from benchmarks.children.timing import timed

_IN_FLIGHT = 10
_INTEREST = {pycurl.POLL_IN: EVENT_READ, pycurl.POLL_OUT: EVENT_WRITE, pycurl.POLL_INOUT: EVENT_READ | EVENT_WRITE}
_ACTION = {
    EVENT_READ: pycurl.CSELECT_IN,
    EVENT_WRITE: pycurl.CSELECT_OUT,
    EVENT_READ | EVENT_WRITE: pycurl.CSELECT_IN | pycurl.CSELECT_OUT,
}


class Loop:
    """libcurl's sockets and timer on a selector."""

    def __init__(self) -> None:
        self.selector = DefaultSelector()
        self.timeout_s: float | None = None
        self.watched: dict[int, int] = {}
        self.multi = pycurl.CurlMulti()
        self.multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self.multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)

    def _on_socket(self, event: int, fd: int, _multi: object, _data: object) -> None:
        if event == pycurl.POLL_REMOVE:
            self.selector.unregister(fd)
            del self.watched[fd]
        elif fd in self.watched:
            self.selector.modify(fd, _INTEREST[event])
        else:
            self.selector.register(fd, _INTEREST[event])
            self.watched[fd] = event

    def _on_timer(self, timeout_ms: int) -> None:
        self.timeout_s = None if timeout_ms < 0 else timeout_ms / 1000

    def turn(self) -> None:
        ready = self.selector.select(self.timeout_s)
        if not ready:
            self.multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        for key, events in ready:
            self.multi.socket_action(key.fd, _ACTION[events])


def fetch(urls: Iterator[str], on_body: Callable[[str, list[bytes]], None]) -> None:
    """`on_body` gets each URL with the chunks of its body."""
    loop = Loop()
    flying: dict[pycurl.Curl, tuple[str, list[bytes]]] = {}

    def add() -> None:
        url = next(urls, None)
        if url is not None:
            chunks: list[bytes] = []
            handle = new_handle(url, chunks)
            flying[handle] = url, chunks
            loop.multi.add_handle(handle)

    for _ in range(_IN_FLIGHT):
        add()
    while flying:
        loop.turn()
        _, done, failed = loop.multi.info_read()
        if failed:
            sys.exit(f"{flying[failed[0][0]][0]}: {failed[0][2]}")
        for handle in done:
            loop.multi.remove_handle(handle)
            on_body(*flying.pop(handle))
            add()


def new_handle(url: str, chunks: list[bytes]) -> pycurl.Curl:
    handle = pycurl.Curl()
    handle.setopt(pycurl.URL, url.encode())
    handle.setopt(pycurl.PROXY, b"")
    handle.setopt(pycurl.USERAGENT, b"sc/1.0")
    handle.setopt(pycurl.FAILONERROR, 1)
    handle.setopt(pycurl.NOSIGNAL, 1)
    handle.setopt(pycurl.TIMEOUT, 60)
    handle.setopt(pycurl.WRITEFUNCTION, chunks.append)
    return handle


def main(site_url: str, count: int) -> None:
    urls = [site_url + pages.path(number) for number in range(1, count + 1)]
    sizes: list[int] = []
    with timed():
        fetch(iter(urls), lambda _url, chunks: sizes.append(sum(map(len, chunks))))
    if sizes != [pages.PAGE_BYTES] * count:
        sys.exit(f"{len(sizes)} pages of {sum(sizes)} bytes")


def check(site_url: str, count: int) -> None:
    urls = [site_url + pages.path(number) for number in range(1, count + 1)]
    bodies: dict[str, bytes] = {}
    fetch(iter(urls), lambda url, chunks: bodies.update({url: b"".join(chunks)}))
    print(verify.same(verify.page_digest(map(bodies.__getitem__, urls)), verify.served_pages(count), f"{count} pages"))


if __name__ == "__main__":
    check(sys.argv[1], int(sys.argv[2]))
    main(sys.argv[1], int(sys.argv[2]))
