"""Which sockets are ready: epoll where the system has it, the best of `selectors` elsewhere.

libcurl takes a socket off the list after each transfer and puts it back for the next one on the same connection. Under
epoll the first is only noted, so that a kept-alive connection costs one system call for each transfer and not two.
"""

from __future__ import annotations

import contextlib
import select
import selectors
from typing import Protocol

import pycurl

Ready = list[tuple[int, int]]


class Poller(Protocol):
    """Sockets by number; `wanted` is a pycurl.POLL_ constant, what is ready comes back as pycurl.CSELECT_ bits."""

    def watch(self, fd: int, wanted: int) -> None: ...
    def on_socket(self, what: int, fd: int, multi: object, data: object) -> None: ...
    def wait(self, timeout_s: float) -> Ready: ...
    def close(self) -> None: ...


class Epoll:
    """The Linux way."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._idle: set[int] = set()
        self._wanted = {
            pycurl.POLL_IN: select.EPOLLIN,
            pycurl.POLL_OUT: select.EPOLLOUT,
            pycurl.POLL_INOUT: select.EPOLLIN | select.EPOLLOUT,
        }

    def watch(self, fd: int, wanted: int) -> None:
        """Begin or change. A socket that was closed meanwhile has left epoll by itself: then its number is new."""
        self._idle.discard(fd)
        try:
            self._epoll.modify(fd, self._wanted[wanted])
        except FileNotFoundError:
            self._epoll.register(fd, self._wanted[wanted])

    def on_socket(self, what: int, fd: int, multi: object, data: object) -> None:
        """libcurl's wish for a socket; one that it is done with is ignored until it is watched again."""
        if what == pycurl.POLL_REMOVE:
            self._idle.add(fd)
        else:
            self.watch(fd, what)

    def wait(self, timeout_s: float) -> Ready:
        """Without the unregister here, a server that closes an idle connection would keep us spinning."""
        ready = []
        for fd, mask in self._epoll.poll(timeout_s):
            if fd in self._idle:
                self._idle.discard(fd)
                with contextlib.suppress(OSError):
                    self._epoll.unregister(fd)
                continue
            bits = pycurl.CSELECT_IN if mask & ~select.EPOLLOUT else 0
            ready.append((fd, bits | (pycurl.CSELECT_OUT if mask & select.EPOLLOUT else 0)))
        return ready

    def close(self) -> None:
        """Give the descriptor back."""
        self._epoll.close()


class Portable:
    """kqueue on macOS, poll elsewhere."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        both = selectors.EVENT_READ | selectors.EVENT_WRITE
        self._wanted = {
            pycurl.POLL_IN: selectors.EVENT_READ,
            pycurl.POLL_OUT: selectors.EVENT_WRITE,
            pycurl.POLL_INOUT: both,
        }
        self._ready = {
            selectors.EVENT_READ: pycurl.CSELECT_IN,
            selectors.EVENT_WRITE: pycurl.CSELECT_OUT,
            both: pycurl.CSELECT_IN | pycurl.CSELECT_OUT,
        }

    def watch(self, fd: int, wanted: int) -> None:
        """Begin or change."""
        change = self._selector.modify if fd in self._selector.get_map() else self._selector.register
        change(fd, self._wanted[wanted])

    def on_socket(self, what: int, fd: int, multi: object, data: object) -> None:
        """libcurl's wish for a socket."""
        if what != pycurl.POLL_REMOVE:
            self.watch(fd, what)
            return
        with contextlib.suppress(KeyError):
            self._selector.unregister(fd)

    def wait(self, timeout_s: float) -> Ready:
        """What is ready after at most `timeout_s`."""
        return [(key.fd, self._ready[mask]) for key, mask in self._selector.select(timeout_s)]

    def close(self) -> None:
        """Give the descriptor back."""
        self._selector.close()


def new_poller() -> Poller:
    """The fastest that this system has."""
    return Epoll() if hasattr(select, "epoll") else Portable()
