"""The address guard at work: libcurl asks it before it opens a socket, and before every request on an open one.

Both questions are needed. A connection that is kept open for the next task was allowed to the one before it; and
where no socket is opened, nothing is said to an address that is refused. No callback here raises: pycurl would print
and lose it. Names are looked up in one rare case only, where a private address may be the proxy's that a name stands
for; libcurl has just done the same look-up.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import pycurl

from stateful_crawler import guard
from stateful_crawler.errors import printable
from stateful_crawler.fetch.sockets import open_multipath
from stateful_crawler.guard import Endpoint, Networks, Way
from stateful_crawler.task import Task

# libcurl's address (family, socktype, protocol, addr) -> an object with a fileno(), of which pycurl takes a duplicate.
Opener = Callable[[Any], Any]
LookUp = Callable[[str], Collection[str]]

_OK, _ABORT = int(pycurl.PREREQFUNC_OK), int(pycurl.PREREQFUNC_ABORT)
_MAX_KINDS = 20_000
_MAX_NAMES = 32_768
_LOOK_AGAIN_S = 60.0


class LentSocket(socket.socket):
    """A socket for libcurl, which gets a duplicate: without the close here ours would keep the connection open after
    libcurl has closed its own."""

    __slots__ = ()

    def __del__(self) -> None:
        self.close()


def open_socket(address: Any) -> LentSocket:
    """A socket as libcurl wants it, not yet connected."""
    return LentSocket(address.family, address.socktype, address.protocol)


def look_up(name: str) -> set[str]:
    """The addresses of a name, as this machine resolves it; empty where it can't."""
    try:
        return {guard.plain(str(found[4][0])) for found in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)}
    except (OSError, UnicodeError):
        return set()


class _Refusal(NamedTuple):
    """What was not connected to. `redirected` where the task had got an answer before; `before` is the public address
    that its host had earlier in this run, if that is why."""

    address: str
    kind: str
    redirected: bool
    before: str


class _Names:
    """Name -> the public address it had; the newest ones only, so that memory stays flat over a million hosts."""

    def __init__(self, limit: int = _MAX_NAMES) -> None:
        self._limit = limit
        self._new: dict[str, str] = {}
        self._old: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._new or self._old)

    def note(self, name: str, address: str) -> None:
        self._new[name] = address
        if len(self._new) >= self._limit:
            self._new, self._old = {}, self._new

    def get(self, name: str) -> str:
        """Empty where the name had none."""
        return self._new.get(name) or self._old.get(name, "")


class AddressGuard:
    """What one run knows: which networks are open, what kind each address is, which public address a name had."""

    def __init__(
        self,
        allowed: Networks = (),
        *,
        open_socket: Opener = open_socket,
        look_up: LookUp = look_up,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._allowed, self._look_up = allowed, look_up
        self.open_socket = open_socket
        self.proxies = guard.proxies_of(environment)
        self.kinds: dict[str, str] = {}  # address -> its kind; empty for one that is open to everybody
        self.names = _Names()
        self._looked_up: dict[str, tuple[float, Collection[str]]] = {}

    def gate(self, handle: pycurl.Curl, task: Task, way: Way, header_lines: list[bytes]) -> Gate:
        """Watch over one transfer; `header_lines` is the list that its answers' headers come into."""
        gate = Gate(self, task, way, header_lines)
        handle.setopt(pycurl.OPENSOCKETFUNCTION, gate.open)
        handle.setopt(pycurl.PREREQFUNCTION, gate.before_request)
        return gate

    def kind(self, address: str) -> str:
        """Why not everybody may connect to the address; empty where everybody may."""
        kind = self.kinds.get(address)
        if kind is None:
            kind = "" if guard.is_in(address, self._allowed) else guard.kind_of(address)
            if len(self.kinds) >= _MAX_KINDS:
                self.kinds.clear()
            self.kinds[address] = kind
        return kind

    def is_named(self, endpoints: Iterable[Endpoint], address: str, port: int) -> bool:
        """Whether one of the endpoints is at this address and port."""
        address = guard.plain(address)
        return any(
            wanted in (None, port) and (host == address or (not guard.is_address(host) and self._is_at(host, address)))
            for host, wanted in endpoints
        )

    def _is_at(self, name: str, address: str) -> bool:
        at, addresses = self._looked_up.get(name, (-_LOOK_AGAIN_S, ()))
        if address not in addresses and time.monotonic() - at >= _LOOK_AGAIN_S:
            addresses = {*addresses, *self._look_up(name)}  # a name may have other addresses each time
            self._looked_up[name] = time.monotonic(), addresses
        return address in addresses


class Gate:
    """The guard of one transfer. Until the first answer comes, libcurl can only be on its way to where the task's own
    url and options lead; from then on a redirect may lead anywhere, but to private addresses only as before."""

    __slots__ = ("_guard", "_header_lines", "_reached", "_task", "_way", "refused")

    def __init__(self, address_guard: AddressGuard, task: Task, way: Way, header_lines: list[bytes]) -> None:
        self._guard, self._task, self._way, self._header_lines = address_guard, task, way, header_lines
        self._reached: tuple[tuple[str, int | None], ...] = ()  # address, and port or None for any
        self.refused: _Refusal | None = None

    def open(self, _purpose: int, address: Any) -> Any:
        """libcurl's wish for a socket to `address`: one, or SOCKET_BAD."""
        if address.family == socket.AF_UNIX:
            allowed = self._way.unix_socket
        else:
            allowed = self._may_connect(address.addr[0], address.addr[1])
        if not allowed:
            return pycurl.SOCKET_BAD
        self.refused = None  # another address of the host was; what becomes of this one is now the story
        opener = self._guard.open_socket
        try:
            if self._way.multipath:
                return open_multipath(opener, address)
            return opener(address)
        except OSError:  # no more descriptors: as libcurl tells it, no connection
            return pycurl.SOCKET_BAD

    def before_request(self, address: str, _local: str, port: int, _local_port: int) -> int:
        """libcurl's last question before it sends a request over a connection to `address`."""
        if self._guard.kind(address) and not self._may_reach(address, port):
            return _ABORT
        self.refused = None
        return _OK

    def sentence(self, url: str) -> str:
        """What was refused, why, and what would allow it; `url` is the one that was asked for last."""
        assert self.refused is not None
        address, kind, redirected, before = self.refused
        own = guard.host_of(self._task.url)
        host = guard.host_of(url) if redirected else own
        whose = "" if host in ("", address) else f", the address of {printable(host)[:200]},"
        if before:
            why = f"earlier in this run the name had the public address {before}"
        elif redirected and host == own:
            why = "earlier in this task the name had another address"
        elif redirected:
            why = "a redirect may lead to no private address but those of the task's own host"
        else:
            why = "a link that was found on a page may lead to a private address only on the page's own host"
        return (
            f"{printable(address)}{whose} was not connected to ({kind}): {why};"
            f" `--allow-private {guard.plain(address)}` allows it"
        )

    def _may_connect(self, address: str, port: int) -> bool:
        if self._guard.kind(address):
            return self._may_reach(address, port)
        if not self._header_lines and self._is_straight():
            self._note_public(address)
        return True

    def _may_reach(self, address: str, port: int) -> bool:
        """Whether this task may go to an address that is not open to everybody; before a request over a unix socket,
        the address is its path."""
        if self._reached and ((address, None) in self._reached or (address, port) in self._reached):
            return True
        before = ""
        if not self._header_lines and guard.has_users_word(self._task):
            before = self._public_before()
            if not before:
                self._remember(address, port)
                return True
        if self._guard.is_named(self._named(), address, port) or (self._way.unix_socket and address[:1] == "/"):
            return True
        self.refused = _Refusal(address, self._guard.kind(address), bool(self._header_lines), before)
        return False

    def _named(self) -> tuple[Endpoint, ...]:
        return self._way.named if self._way.by_proxy else self._way.named + self._guard.proxies

    def _is_straight(self) -> bool:
        """Whether what libcurl connects to first is sure to be the url's own host."""
        return self._way.straight and (self._way.by_proxy or not self._guard.proxies)

    def _remember(self, address: str, port: int) -> None:
        """A redirect may come back here: to any port of the task's own host, to this very port of anything else."""
        own = self._is_straight() or guard.host_of(self._task.url) == address
        self._reached += ((address, None if own else port),)

    def _note_public(self, address: str) -> None:
        host = guard.host_of(self._task.url)
        if host and not guard.is_address(host):
            self._guard.names.note(host, address)

    def _public_before(self) -> str:
        return self._guard.names.get(guard.host_of(self._task.url)) if self._guard.names else ""
