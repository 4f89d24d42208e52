"""Which addresses a transfer may be connected to, and whose word opens a private one. Pure: no socket, no look-up.

Public addresses are open to every task. Any other is open only to a task whose own url, proxy, `connect-to` or
`resolve` names it, and only if a person named it: a link or a redirect names nothing but the very host it came from.
The networks of `--allow-private` are open to all.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import NamedTuple, get_args

from stateful_crawler.curl.config import Option
from stateful_crawler.errors import printable
from stateful_crawler.task import By, Task

Address = IPv4Address | IPv6Address
Networks = tuple[IPv4Network | IPv6Network, ...]

# Where clouds tell their machines secrets. Most lie in a private range anyway; Azure's is a public address.
_METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        *("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
        *("fd00:ec2::254", "fd20:ce::254"),
    )
)
# What `ipaddress` does not know, or not in every Python that we run on.
_KINDS: tuple[tuple[str, IPv4Network | IPv6Network], ...] = tuple(
    (kind, ipaddress.ip_network(network))
    for kind, network in (
        ("shared, RFC 6598", "100.64.0.0/10"),
        ("reserved", "192.88.99.0/24"),  # 6to4 relays, RFC 7526
        ("reserved", "2001::/23"),  # Teredo and other special uses, RFC 6890
        ("reserved", "3fff::/20"),  # for examples, RFC 9637
    )
)
_UNICAST6 = ipaddress.IPv6Network("2000::/3")  # all that is public in IPv6 lies here
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")  # NAT64, RFC 6052: the last 32 bits are an IPv4 address
_ALL: Networks = (ipaddress.IPv4Network("0.0.0.0/0"), ipaddress.IPv6Network("::/0"))

_USERS_OWN = tuple(by for by in get_args(By) if by != "follow")
# A created record as `new_task` begins it: what most tasks have need not be read as JSON.
_WITH_WORD = re.compile(
    r'\{"v": 1, "created": "[^"\\]*", "by": (?:"(?:create|import|generate|hand)"|"follow", "same_host": true)[,}]'
).match
_PROXIES = frozenset({"proxy", "proxy1.0", "preproxy", "socks4", "socks4a", "socks5", "socks5-hostname"})
_ENVIRONMENT = ("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
_HOST = r"\[[^\]]*\]|[^:\[\]]*"
_CONNECT_TO = re.compile(rf"(?:{_HOST}):[^:]*:({_HOST}):([0-9]*)").fullmatch
_RESOLVE = re.compile(rf"\+?(?:{_HOST}):(\*|[0-9]+):(.+)").fullmatch
_PROXY = re.compile(rf"(?i)(?:([a-z][a-z0-9+.-]*)://)?(?:[^@/]*@)?({_HOST})(?::([0-9]+))?/?").fullmatch
# Strict, since a url that libcurl would take apart in another way must not pass for one of the parent's host.
_URL = re.compile(
    r"(?i)(?:https?://|(?![a-z][a-z0-9+.-]*:[/\\]))(?:[^@/?#\\\x00-\x20]*@)?"
    r"(\[[0-9a-f:.%]+\]|[a-z0-9._~-]+)(?::[0-9]*)?(?:[/?#].*)?",
    re.S,
).fullmatch


# ── addresses ────────────────────────────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=4096)
def kind_of(text: str) -> str:
    """Why nobody may connect to this address unasked: `private`, `loopback`, ...; empty for a public one.

    What is no IPv4 or IPv6 address is `unknown`. IPv6 that carries an IPv4 address is judged by that.
    """
    address = _read(text)
    return "unknown" if address is None else _kind(address)


@lru_cache(maxsize=4096)
def plain(text: str) -> str:
    """The address in its one spelling, without zone, as IPv4 where it carries that; the text itself for a name."""
    address = _read(text)
    return text if address is None else str(_carried(address) or address)


def is_address(text: str) -> bool:
    """Whether a host is an address in its plain form, and not a name that someone resolves."""
    return _read(text) is not None


def is_in(text: str, networks: Networks) -> bool:
    """Whether the address, or the IPv4 address that it carries, lies in one of the networks."""
    address = _read(text)
    if address is None:
        return False
    both = (address, _carried(address) or address)
    return any(each.version == network.version and each in network for each in both for network in networks)


def read_networks(text: str) -> Networks:
    """The networks of a comma list: `10.0.0.0/8`, `192.168.1.5`, `fd00::/8`, or `all`. ValueError for anything else."""
    networks: Networks = ()
    for word in filter(None, map(str.strip, text.split(","))):
        networks += _ALL if word.lower() == "all" else (_network(word),)
    return networks


def _network(word: str) -> IPv4Network | IPv6Network:
    try:
        return ipaddress.ip_network(word)
    except ValueError:
        pass
    try:
        meant = f"; did you mean {ipaddress.ip_network(word, strict=False)}?"
    except ValueError:
        meant = "; write 10.0.0.0/8, 192.168.1.5, fd00::/8 or all"
    raise ValueError(f"{printable(word)!r} is not a network{meant}")


def _read(text: str) -> Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


def _carried(address: Address) -> IPv4Address | None:
    """The IPv4 address that a mapped, a 6to4 or a NAT64 address stands for."""
    if isinstance(address, IPv4Address):
        return None
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _kind(address: Address) -> str:
    if address in _METADATA:
        return "metadata"
    if (inner := _carried(address)) is not None:
        return _kind(inner)
    for kind, network in _KINDS:
        if address.version == network.version and address in network:
            return kind
    return _common_kind(address)


def _common_kind(address: Address) -> str:
    flags = (
        ("unspecified", address.is_unspecified),
        ("loopback", address.is_loopback),
        ("link-local", address.is_link_local),
        ("multicast", address.is_multicast),
        ("reserved", address.is_reserved),
        ("private", address.is_private),
        ("reserved", not address.is_global or (address.version == 6 and address not in _UNICAST6)),
    )
    return next((kind for kind, holds in flags if holds), "")


# ── whose word ───────────────────────────────────────────────────────────────────────────────────────────────────────


def host_of(url: str) -> str:
    """The host as the url spells it, in lower case, without brackets and last dot; empty where that is not clear."""
    found = _URL(url)
    return found[1].lower().strip("[]").removesuffix(".") if found else ""


def same_host(url: str, parent: Task) -> bool:
    """Whether a link on `parent`'s page stays on a host that a person named: the parent's very host, and the parent
    itself made by a person or linked to in this way."""
    host = host_of(url)
    return bool(host) and host == host_of(parent.url) and has_users_word(parent)


def has_users_word(task: Task) -> bool:
    """Whether a person named the host of the task's url: he made the task, or it was linked to on that very host.

    A created record that can't be read, or that says what we never write, is nobody's word.
    """
    if task.record_lines and _WITH_WORD(task.record_lines[0]):
        return True
    if not any('"by"' in text for text in task.record_lines):
        return True  # written by hand
    facts = task.created.facts
    return facts.get("by") in _USERS_OWN or (facts.get("by") == "follow" and facts.get("same_host") is True)


class Endpoint(NamedTuple):
    """A host, name or address, that an option names as the place to connect to; port None for any."""

    host: str
    port: int | None


class Way(NamedTuple):
    """How a task's options say that connections are made; options are always a person's word, never a page's.

    `by_proxy` where a proxy option stands, though it be empty: then the environment's count no more. `straight`
    where no option comes between the url's host and its own addresses.
    """

    named: tuple[Endpoint, ...] = ()
    by_proxy: bool = False
    straight: bool = True
    unix_socket: bool = False
    multipath: bool = False


def way_of(options: Sequence[Option]) -> Way:
    """The way that a block of options names."""
    named: list[Endpoint] = []
    seen = {name for name, value in options if value}
    by_proxy = False
    for name, value in options:
        if name in _PROXIES:
            by_proxy = True
            named += _proxy(str(value))
        elif name == "connect-to" and (found := _CONNECT_TO(str(value))) and found[1]:
            named.append(_endpoint(found[1], found[2]))
        elif name == "resolve" and (found := _RESOLVE(str(value))):
            named += [_endpoint(address.strip(), found[1].strip("*")) for address in found[2].split(",")]
    straight = seen.isdisjoint(_PROXIES | {"connect-to", "resolve"})
    return Way(tuple(named), by_proxy, straight, "unix-socket" in seen, "mptcp" in seen)


def proxies_of(environment: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """The proxies that the environment names."""
    return tuple(point for name in _ENVIRONMENT for point in _proxy(environment.get(name, "")))


def _proxy(value: str) -> list[Endpoint]:
    found = _PROXY(value)
    if not found or not found[2]:
        return []
    default = "443" if (found[1] or "").lower() == "https" else "1080"  # as curl has it
    return [_endpoint(found[2], found[3] or default)]


def _endpoint(host: str, port: str) -> Endpoint:
    return Endpoint(plain(host.lower().strip("[]").partition("%")[0]), int(port) if port else None)
