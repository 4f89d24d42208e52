"""The address guard: what is refused, on whose word it is not, and that nothing is connected to that was refused.

No socket is connected outside 127.0.0.0/8 and ::1: where another address could come up, the opener of the tests notes
it and opens nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pycurl
import pytest
from conftest import Serve
from helpers import TIMEOUT_S, Project, clean_env, run_sc, sc_command
from hypothesis import given
from hypothesis import strategies as st
from servers import CLOSE, FaultServer, hold, ok, redirect

from stateful_crawler import plugins
from stateful_crawler.curl.config import Option
from stateful_crawler.fetch import Fetcher, Limits, loop
from stateful_crawler.fetch.guarding import AddressGuard, Gate, open_socket
from stateful_crawler.guard import (
    Endpoint,
    Way,
    has_users_word,
    host_of,
    is_in,
    kind_of,
    plain,
    proxies_of,
    read_networks,
    same_host,
    way_of,
)
from stateful_crawler.record import Outcome
from stateful_crawler.task import Task, new_task
from stateful_crawler.workdir import Claim

PUBLIC = "93.184.216.34"  # never connected to: the opener of these tests refuses it

# ── addresses ────────────────────────────────────────────────────────────────────────────────────────────────────────

CLOSED = {
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "::1": "loopback",
    "0.0.0.0": "unspecified",
    "::": "unspecified",
    "0.1.2.3": "private",
    "10.0.0.1": "private",
    "10.255.255.255": "private",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.0.1": "private",
    "fc00::1": "private",
    "fdff::1": "private",
    "192.0.2.1": "private",
    "198.18.0.1": "private",
    "198.51.100.1": "private",
    "203.0.113.1": "private",
    "2001:db8::1": "private",
    "100.64.0.1": "shared, RFC 6598",
    "100.127.255.255": "shared, RFC 6598",
    "169.254.0.1": "link-local",
    "fe80::1": "link-local",
    "fe80::1%eth0": "link-local",
    "224.0.0.1": "multicast",
    "239.255.255.255": "multicast",
    "ff02::1": "multicast",
    "ff0e::1": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "192.88.99.1": "reserved",
    "169.254.169.254": "metadata",
    "168.63.129.16": "metadata",
    "100.100.100.200": "metadata",
    "192.0.0.192": "metadata",
    "fd00:ec2::254": "metadata",
    "fd20:ce::254": "metadata",
    "::ffff:10.0.0.1": "private",
    "::ffff:a00:1": "private",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:169.254.169.254": "metadata",
    "64:ff9b::10.0.0.1": "private",
    "64:ff9b::a9fe:a9fe": "metadata",
    "2002:a00:1::1": "private",
    "2002:7f00:1::": "loopback",
    "::10.0.0.1": "reserved",
    "::93.184.216.34": "reserved",
    "64:ff9b:1::1": "reserved",
    "2001::1": "reserved",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2": "reserved",
    "3fff::1": "reserved",
    "fec0::1": "reserved",
    "100::1": "private",
    "5f00::1": "reserved",
    "4000::1": "reserved",
    "": "unknown",
    "localhost": "unknown",
    "/run/app.sock": "unknown",
    "127.1": "unknown",
    "256.0.0.1": "unknown",
}
OPEN = [
    *(PUBLIC, "1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0"),
    *("169.253.255.255", "169.255.0.0", "192.167.255.255", "192.169.0.0", "223.255.255.255", "126.255.255.255"),
    *("128.0.0.0", "2606:4700:4700::1111", "2a00:1450::1", "::ffff:93.184.216.34", "64:ff9b::93.184.216.34"),
    *("2002:5db8:d822::1",),
]


@pytest.mark.parametrize("address", CLOSED)
def test_what_is_not_public_has_a_kind(address: str) -> None:
    kind = kind_of(address)
    assert kind
    if CLOSED[address] not in ("private", "reserved"):  # which of these two it is differs between Pythons
        assert kind == CLOSED[address]
    else:
        assert kind in ("private", "reserved", "unspecified", "link-local", "site-local")


@pytest.mark.parametrize("address", OPEN)
def test_what_is_public_has_none(address: str) -> None:
    assert kind_of(address) == ""


@given(st.ip_addresses(v=4))
def test_ipv6_that_carries_ipv4_is_judged_by_it(address: Any) -> None:
    """Mapped (RFC 4291), 6to4 (RFC 3056) and NAT64 (RFC 6052)."""
    kind, number = kind_of(str(address)), int(address)
    for carrier in (f"::ffff:{address}", f"2002:{number >> 16:x}:{number & 0xFFFF:x}::", f"64:ff9b::{address}"):
        assert (kind_of(carrier), plain(carrier)) == (kind, str(address))


@given(st.text() | st.ip_addresses().map(str))
def test_any_text_has_a_kind_or_is_public(text: str) -> None:
    assert isinstance(kind_of(text), str)
    assert isinstance(plain(text), str)
    assert isinstance(host_of(text), str)


def test_networks_are_read_and_hold_addresses() -> None:
    networks = read_networks("10.0.0.0/8, 192.168.1.5,fd00::/8,")
    inside = ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "192.168.1.5", "fd12::1", "fd12::1%eth0"]
    assert all(is_in(address, networks) for address in inside)
    assert not any(is_in(address, networks) for address in ("11.0.0.1", "192.168.1.6", "fe80::1", "", "x"))
    assert read_networks("") == read_networks(" , ") == ()
    assert all(is_in(address, read_networks("ALL")) for address in ("127.0.0.1", "::1", "169.254.169.254"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10.0.0.1/8", "'10.0.0.1/8' is not a network; did you mean 10.0.0.0/8?"),
        ("10/8", "'10/8' is not a network; write 10.0.0.0/8, 192.168.1.5, fd00::/8 or all"),
        ("10.0.0.0/8,intranet", "'intranet' is not a network; write"),
        ("10.0.0.0/33", "'10.0.0.0/33' is not a network; write"),
    ],
)
def test_what_is_no_network_is_told(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}"):
        read_networks(text)


# ── whose word ───────────────────────────────────────────────────────────────────────────────────────────────────────


def options(*words: str) -> tuple[Option, ...]:
    """`name=value` or `name`, as options."""
    pairs = (word.partition("=") for word in words)
    return tuple(Option(name, value if equals else True) for name, equals, value in pairs)


NAMED = {
    "proxy=http://me:p:w@10.0.0.1:3128/": ("10.0.0.1", 3128),
    "proxy=proxy.test": ("proxy.test", 1080),
    "proxy=https://Proxy.Test": ("proxy.test", 443),
    "proxy=[::1]:8080": ("::1", 8080),
    "proxy=http://[::ffff:10.0.0.1]:1": ("10.0.0.1", 1),
    "preproxy=socks5://10.0.0.2": ("10.0.0.2", 1080),
    "socks5-hostname=127.0.0.1:9050": ("127.0.0.1", 9050),
    "connect-to=a.test:443:10.0.0.3:8443": ("10.0.0.3", 8443),
    "connect-to=::10.0.0.3:": ("10.0.0.3", None),
    "connect-to=[::1]:1:[::2]:3": ("::2", 3),
    "resolve=a.test:443:10.0.0.4": ("10.0.0.4", 443),
    "resolve=+a.test:443:[::1]": ("::1", 443),
    "resolve=*:80:10.0.0.4": ("10.0.0.4", 80),
}


@pytest.mark.parametrize("word", NAMED)
def test_options_name_endpoints(word: str) -> None:
    way = way_of(options(word))
    assert way.named == (Endpoint(*NAMED[word]),)
    assert not way.straight
    assert way.by_proxy == word.startswith(("proxy", "pre", "socks"))


@pytest.mark.parametrize(
    "word",
    ["connect-to=a.test:443::", "connect-to=x", "resolve=-a.test:443", "resolve=x", "proxy=http://[::1", "proxy="],
)
def test_options_that_name_no_endpoint(word: str) -> None:
    assert way_of(options(word)).named == ()


def test_what_else_options_say_of_the_way() -> None:
    assert way_of(options("location", "compressed")) == Way()
    assert way_of(options("unix-socket=/run/x", "mptcp")) == Way(unix_socket=True, multipath=True)
    assert way_of(options("proxy=")) == Way(by_proxy=True)
    two = way_of(options("resolve=a.test:80:10.0.0.1,[::1]", "proxy=10.0.0.2:1"))
    assert two.named == (Endpoint("10.0.0.1", 80), Endpoint("::1", 80), Endpoint("10.0.0.2", 1))


def test_the_environment_names_proxies() -> None:
    environment = {
        "http_proxy": "http://10.0.0.1:1",
        "HTTP_PROXY": "http://10.0.0.2:2",
        "ALL_PROXY": "",
        "no_proxy": "x",
    }
    assert proxies_of(environment) == (Endpoint("10.0.0.1", 1),)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://A.Test./x?http://b", "a.test"),
        ("https://me:pw@127.0.0.1:80/", "127.0.0.1"),
        ("http://[::1]:80", "::1"),
        ("127.1/x", "127.1"),
        # What could be taken apart in two ways is no host at all.
        (r"http://127.0.0.1\@10.0.0.1/", ""),
        ("http://127.0.0.1@x@10.0.0.1/", ""),
        ("http://127.0.0.1 .x/", ""),
        ("http://bücher.test/", ""),
        ("ftp://a.test/", ""),
        ("", ""),
    ],
)
def test_the_host_of_a_url(url: str, host: str) -> None:
    assert host_of(url) == host


def test_a_person_vouches_for_the_tasks_that_he_makes() -> None:
    url = "http://127.0.0.1/"
    assert has_users_word(Task("hand", url))
    assert all(has_users_word(new_task(url, by=by)) for by in ("create", "import", "generate", "hand"))
    assert not has_users_word(new_task(url, by="follow"))
    assert has_users_word(new_task(url, by="follow", same_host=True))
    assert not has_users_word(new_task(url, by="follow", meta={"same_host": True, "by": "create"}))
    spelled = ('{"by": "create"}', '{"v":1,"by":"hand","created":"x"}')
    assert all(has_users_word(Task("x", url, record_lines=(text,))) for text in spelled)
    nobodys = (
        '{"v": 1, "created": "x", "by": "follow", "same_host": "true"}',
        '{"v": 1, "created": "x", "by": "follow", "parent": "a", "meta": {"by": "create"}',  # torn
        '{"v": 1, "created": "x", "by": "somebody"}',
        '{"v": 1, "created": "x", "by": ["create"]}'.replace("[", '{"a": ').replace("]", "}"),
    )
    assert not any(has_users_word(Task("x", url, record_lines=(text,))) for text in nobodys)


def test_a_link_takes_the_word_along_on_its_own_host_only() -> None:
    parent = new_task("http://127.0.0.1:8000/", by="create", name="a")
    child = plugins.follow(parent, "http://127.0.0.1:9000/b", {})
    assert child.created.facts["same_host"] is True
    assert plugins.follow(child, "https://127.0.0.1/c", {}).created.facts["same_host"] is True
    for url in ("http://127.0.0.2/", "http://localhost/", "http://127.1/", "http://evil.test/"):
        assert "same_host" not in plugins.follow(parent, url, {}).created.facts
    stranger = plugins.follow(parent, "http://evil.test/", {})
    assert not same_host("http://evil.test/again", stranger)  # nobody ever named that host


# ── at the connect ───────────────────────────────────────────────────────────────────────────────────────────────────


class Opener:
    """Notes every address that the guard lets through, and opens a socket for none but 127.0.0.0/8 and ::1."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.protocols: list[int] = []

    def __call__(self, address: Any) -> socket.socket:
        if address.family == socket.AF_UNIX:
            return open_socket(address)
        self.asked.append(tuple(address.addr[:2]))
        self.protocols.append(address.protocol)
        if kind_of(address.addr[0]) != "loopback" or ":" in address.addr[0] != "::1":
            raise PermissionError("not in a test")
        return open_socket(address)

    @property
    def hosts(self) -> list[str]:
        return [host for host, _ in self.asked]


class Run:
    """One run's fetcher, with names that resolve as the test says."""

    def __init__(self, folder: Path, names: dict[str, str], guard: AddressGuard, opener: Opener) -> None:
        self.names, self.opened = names, opener
        self.fetcher = Fetcher(str(folder), Limits(), lambda name: str(folder / name), guard)

    def get(self, task: Task) -> Outcome:
        """What comes of one task."""
        self.fetcher.start(Claim(task.name, "", -1), task)
        return self.ended(task.name)

    def ended(self, name: str) -> Outcome:
        """What came of a task that was started, once it has ended."""
        while self.fetcher.under_way:
            for claim, outcome in self.fetcher.wait(1.0):
                if claim.name == name:
                    return outcome
        raise AssertionError(f"{name} did not end")

    def forbidden(self, task: Task) -> str:
        """The sentence of a task that must be refused by the guard."""
        outcome = self.get(task)
        assert outcome.reason == "forbidden", outcome
        return outcome.detail

    def good(self, task: Task) -> bytes:
        outcome = self.get(task)
        assert outcome.ok, outcome
        return outcome.body or b""


Begin = Callable[..., Run]


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    """Starts a run: with networks that are allowed, names (`host:port` -> addresses), look-ups of our own."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    names: dict[str, str] = {}
    real = loop.prepare

    def prepare(task: Task, root: str, limit: int) -> Any:
        """As a resolver would answer: below the guard, and nothing of it stands in the task."""
        handle, wanted = real(task, root, limit)
        handle.setopt(pycurl.RESOLVE, [f"{name}:{addresses}" for name, addresses in names.items()])
        return handle, wanted

    def start(allowed: str = "", look_up: Mapping[str, Sequence[str]] | None = None, **more: str) -> Run:
        opener = Opener()
        guard = AddressGuard(
            read_networks(allowed), open_socket=opener, look_up=lambda name: [*(look_up or {})[name]], **more
        )
        run = Run(tmp_path, names, guard, opener)
        stack.callback(run.fetcher.close)
        return run

    monkeypatch.setattr(loop, "prepare", prepare)
    with contextlib.ExitStack() as stack:
        yield start


def made(url: str, *words: str) -> Task:
    """A task that a person made; it follows redirects."""
    return new_task(url, by="create", options=options("location", *words))


def found(url: str, *words: str) -> Task:
    """A task that was found on a page of another host."""
    return new_task(url, by="follow", options=options("location", *words), parent="p", depth=1)


TARGETS = {
    "http://127.0.0.1/": "127.0.0.1",
    "http://127.1/": "127.0.0.1",
    "http://2130706433/": "127.0.0.1",
    "http://0x7f000001/": "127.0.0.1",
    "http://017700000001/": "127.0.0.1",
    "http://0177.0.0.0x1/": "127.0.0.1",
    "http://127.0.0.1./": "127.0.0.1",
    "http://localhost/": "127.0.0.1",
    "http://localhost./": "127.0.0.1",
    "http://me@127.0.0.1/": "127.0.0.1",
    "http://[::1]/": "::1",
    "http://[::ffff:127.0.0.1]/": "::ffff:127.0.0.1",
    "http://[::ffff:10.0.0.1]/": "::ffff:10.0.0.1",
    "http://[::ffff:a00:1]/": "::ffff:10.0.0.1",
    "http://[64:ff9b::10.0.0.1]/": "64:ff9b::a00:1",
    "http://[fe80::1%25lo]/": "fe80::1",
    "http://[fd00::1]/": "fd00::1",
    "http://169.254.169.254/latest/meta-data/": "169.254.169.254",
    "http://168.63.129.16/": "168.63.129.16",
    "http://100.64.0.1/": "100.64.0.1",
    "http://10.0.0.1:8080/": "10.0.0.1",
    "http://192.168.1.1/": "192.168.1.1",
    "http://224.0.0.1/": "224.0.0.1",
    "http://0/": "0.0.0.0",
    "https://10.0.0.1/": "10.0.0.1",
    "//10.0.0.1/x": "10.0.0.1",
    "http://\uff11\uff12\uff17.\uff10.\uff10.\uff11/": "127.0.0.1",  # digits of another script
    "http://10\u30020\u30020\u30021/": "10.0.0.1",
    "http://intranet.test/": "10.1.2.3",
}


@pytest.mark.parametrize("target", TARGETS)
def test_a_redirect_reaches_no_other_private_host(begin: Begin, serve: Serve, target: str) -> None:
    run = begin()
    run.names["intranet.test:80"] = "10.1.2.3"
    server = serve({"/": redirect(target)}, host="127.0.0.2")
    said = run.forbidden(made(f"{server.url}/"))
    assert said.startswith(TARGETS[target])
    assert "a redirect may lead to no private address but those of the task's own host" in said
    assert f"`--allow-private {plain(TARGETS[target])}` allows it" in said
    assert ("intranet.test" in said) == ("intranet" in target)
    assert set(run.opened.hosts) == {"127.0.0.2"}


@pytest.mark.parametrize("target", TARGETS)
def test_a_link_reaches_no_private_host(begin: Begin, target: str) -> None:
    run = begin()
    run.names["intranet.test:80"] = "10.1.2.3"
    parent = new_task("http://127.0.0.2/", by="create", options=options("location"))
    url = target if "://" in target else f"http:{target}"
    said = run.forbidden(plugins.follow(parent, url, {}))
    assert said.startswith(TARGETS[target])
    assert "only on the page's own host" in said
    assert run.opened.asked == []


def test_a_redirect_on_the_tasks_own_host_works(begin: Begin, serve: Serve) -> None:
    other = serve({"/b": (*redirect("/c"), CLOSE), "/c": ok("c")})
    server = serve({"/a": redirect(f"{other.url}/b")})
    run = begin()
    assert run.good(made(f"{server.url}/a")) == b"c"
    run.names["own.test:80"] = run.names[f"own.test:{other.port}"] = "127.0.0.1"
    server.on("/a", (*redirect(f"http://own.test:{other.port}/b"), CLOSE))
    run.names[f"own.test:{server.port}"] = "127.0.0.1"
    assert run.good(made(f"http://own.test:{server.port}/a")) == b"c"


def test_a_link_on_the_pages_own_host_works_link_by_link(begin: Begin, serve: Serve) -> None:
    server = serve({"*": ok("x")})
    run, task = begin(), made(f"{server.url}/0")
    for number in range(4):
        assert run.good(task) == b"x"
        task = plugins.follow(task, f"{server.url}/{number + 1}", {})


def test_every_way_to_write_the_users_own_host_works(begin: Begin, serve: Serve) -> None:
    server = serve({"*": ok("x")})
    run = begin()
    for host in ("127.0.0.1", "127.1", "2130706433", "0x7f.1", "localhost", "localhost."):
        assert run.good(made(f"http://{host}:{server.port}/")) == b"x", host


def test_an_open_connection_of_another_task_is_no_way_round(begin: Begin, serve: Serve) -> None:
    server = serve({"*": ok("x")})
    run = begin()
    run.good(made(f"{server.url}/a"))
    assert run.forbidden(found(f"{server.url}/b")).startswith("127.0.0.1 was not connected to (loopback)")
    run.good(made(f"{server.url}/c"))
    assert [request.path for request in server.requests] == ["/a", "/c"]
    assert len(run.opened.asked) == 2  # none for the link: it was offered the first one's, and that was then closed


def test_an_open_connection_is_no_way_round_for_a_redirect(begin: Begin, serve: Serve) -> None:
    inner = serve({"*": ok("x")})
    outer = serve({"*": redirect(f"{inner.url}/secret")}, host="127.0.0.2")
    run = begin()
    run.good(made(f"{inner.url}/a"))
    assert "a redirect" in run.forbidden(made(f"{outer.url}/"))
    assert inner.count() == 1


def test_networks_that_are_allowed_are_open_to_all(begin: Begin, serve: Serve) -> None:
    inner = serve({"*": ok("x")})
    outer = serve({"*": redirect(f"{inner.url}/y")}, host="127.0.0.2")
    run = begin("127.0.0.0/8,10.0.0.0/8")
    assert run.good(found(f"{outer.url}/")) == b"x"
    assert run.get(found("http://10.0.0.1/")).reason == "connect"  # let through; the test's opener refused it
    assert run.opened.hosts[-1] == "10.0.0.1"
    assert run.forbidden(found("http://192.168.0.1/"))


# ── names ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_name_that_turns_private_within_a_run_is_refused(begin: Begin, serve: Serve) -> None:
    server = serve({"*": ok("x")})
    name = f"rebind.test:{server.port}"
    run = begin()
    run.names[name] = PUBLIC
    assert run.get(made(f"http://{name}/1")).reason == "connect"
    run.names[name] = "127.0.0.1"
    said = run.forbidden(made(f"http://REBIND.test:{server.port}/2"))
    assert said.startswith(
        "127.0.0.1, the address of rebind.test, was not connected to (loopback): earlier in this run"
    )
    assert f"the name had the public address {PUBLIC}" in said
    assert run.opened.hosts == [PUBLIC]
    assert server.connections == 0
    again = begin()  # the memory is one run's
    again.names[name] = "127.0.0.1"
    assert again.good(made(f"http://{name}/3")) == b"x"


def test_a_name_that_is_public_and_private_at_once_is_refused(begin: Begin, serve: Serve) -> None:
    server = serve({"*": ok("x")})
    name = f"both.test:{server.port}"
    run = begin()
    run.names[name] = f"{PUBLIC},127.0.0.1"
    assert "the public address" in run.forbidden(made(f"http://{name}/"))
    assert server.connections == 0


def test_a_name_that_turns_between_two_hops_is_refused(begin: Begin, serve: Serve) -> None:
    """The task's own name, and its own redirect: still another address than the one it came from."""
    told = threading.Event()
    server = serve({"/": (hold(told), *redirect("/next"), CLOSE)}, host="127.0.0.2")
    name = f"turn.test:{server.port}"
    run = begin()
    run.names[name] = "127.0.0.2"
    run.fetcher.start(Claim("first", "", -1), made(f"http://{name}/"))
    while not server.count("/"):
        run.fetcher.wait(0.1)
    run.names[name] = "127.0.0.3"
    assert run.get(made(f"http://{name}/other")).reason == "connect"  # nobody is there; but now that is its address
    told.set()
    said = run.ended("first")
    assert said.reason == "forbidden"
    assert said.detail.startswith("127.0.0.3, the address of turn.test,")
    assert "earlier in this task the name had another address" in said.detail
    assert not server.count("/next")


def test_the_memory_for_names_is_bounded() -> None:
    from stateful_crawler.fetch.guarding import _Names

    names = _Names(limit=10)
    assert not names
    for number in range(1000):
        names.note(f"{number}.test", PUBLIC)
        names.note("busy.test", "1.1.1.1")
    assert names
    assert names.get("busy.test") == "1.1.1.1"
    assert names.get("999.test") == PUBLIC
    assert names.get("0.test") == ""
    assert len(names._new) + len(names._old) <= 20


# ── what options name ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_link_may_go_where_options_lead(begin: Begin, serve: Serve, tmp_path: Path) -> None:
    server = serve({"*": ok("x")})
    run = begin()
    for word in (
        f"proxy=http://127.0.0.1:{server.port}",
        f"connect-to=::127.0.0.1:{server.port}",
        f"connect-to=public.test:80:127.0.0.1:{server.port}",
    ):
        assert run.good(found("http://public.test/", word)) == b"x", word
    assert run.good(found(f"http://public.test:{server.port}/", f"resolve=public.test:{server.port}:127.0.0.1")) == b"x"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        assert run.get(found("http://10.0.0.1/", f"unix-socket={tmp_path}/s", "max-time=0.2")).reason == "timeout"


def test_what_options_name_opens_nothing_else(begin: Begin, serve: Serve) -> None:
    server, other = serve({"*": ok("x")}), serve({"*": ok("y")})
    run = begin()
    word = f"proxy=http://127.0.0.1:{server.port}"
    run.forbidden(found(f"{other.url}/", word, "noproxy=127.0.0.1"))
    server.on("http://public.test/go", redirect(f"{other.url}/"))
    run.names["public.test:80"] = PUBLIC
    assert "a redirect" in run.forbidden(made("http://public.test/go", word, "noproxy=127.0.0.1"))
    assert other.connections == 0
    run.forbidden(found("http://10.0.0.1/", f"connect-to=a.test:80:10.0.0.2:{server.port}"))
    assert set(run.opened.asked) == {("127.0.0.1", server.port)}


def test_the_proxy_of_the_environment_may_be_private(
    begin: Begin, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, other = serve({"*": ok("x")}), serve({"*": ok("y")})
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{server.port}")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    run = begin()
    assert run.good(found("http://public.test/")) == b"x"
    run.forbidden(found(f"{other.url}/"))
    run.forbidden(found(f"{other.url}/", "proxy="))


def test_a_proxy_that_is_named_is_looked_up_once(begin: Begin, serve: Serve) -> None:
    server, other = serve({"*": ok("x")}), serve({"*": ok("y")})
    looked: list[str] = []

    class Names(dict[str, Sequence[str]]):
        def __getitem__(self, name: str) -> Sequence[str]:
            looked.append(name)
            return super().__getitem__(name)

    run = begin(look_up=Names({"proxy.test": ["127.0.0.1"]}))
    run.names[f"proxy.test:{server.port}"] = "127.0.0.1"
    word = f"proxy=http://proxy.test:{server.port}"
    for _ in range(3):
        assert run.good(found("http://public.test/", word)) == b"x"
        run.forbidden(found(f"{other.url}/", word, "noproxy=127.0.0.1"))
    assert looked == ["proxy.test"]


def test_multipath_sockets_are_guarded_too(begin: Begin, serve: Serve) -> None:
    server = serve({"*": ok("x")})
    run = begin()
    run.forbidden(found(f"{server.url}/", "mptcp"))
    assert run.opened.asked == []
    assert run.good(made(f"{server.url}/", "mptcp", "ip-tos=CS1")) == b"x"
    assert run.opened.protocols[0] == 262


# ── callbacks ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_callbacks_never_raise() -> None:
    from types import SimpleNamespace

    def no_more(_address: Any) -> Any:
        raise OSError(24, "Too many open files")

    for guard in (AddressGuard(environment={}), AddressGuard(open_socket=no_more, environment={})):
        for task in (found("http://x/"), Task("x", "\udcff"), Task("x", "", record_lines=("{", '"by"'))):
            gate = Gate(guard, task, Way(), [])
            for host in ("", "x", "\udcff", "1.2.3.4.5", "fe80::1%", "%", "::ffff:1.2.3.4"):
                address = SimpleNamespace(family=socket.AF_INET, socktype=1, protocol=6, addr=(host, 1))
                assert gate.open(0, address) == pycurl.SOCKET_BAD or guard.kind(host) == "" or has_users_word(task)
                gate.before_request(host, "", 0, 0)
            unix = SimpleNamespace(family=socket.AF_UNIX, socktype=1, protocol=0, addr=b"/x")
            assert gate.open(0, unix) == pycurl.SOCKET_BAD


def test_another_address_of_the_host_is_tried(begin: Begin, serve: Serve) -> None:
    """`localhost` has two: the one that is refused doesn't stand in the way of the other, nor of its fault's name."""
    server = serve({"*": ok("x")})
    run = begin("127.0.0.1")
    run.names[f"two.test:{server.port}"] = "127.0.0.3,127.0.0.1"
    assert run.good(found(f"http://two.test:{server.port}/")) == b"x"
    run.names["two.test:9"] = "127.0.0.3,127.0.0.1"
    assert run.get(found("http://two.test:9/")).reason == "connect"


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
def test_no_descriptor_is_left_behind(begin: Begin, serve: Serve) -> None:
    server = serve({"*": (*ok("x"), CLOSE)})
    run = begin()
    run.good(made(f"{server.url}/"))
    before = len(os.listdir("/proc/self/fd"))
    for number in range(30):
        run.good(made(f"{server.url}/{number}"))
    assert server.connections == 31
    # Each side of a connection that is closing may still be counted once.
    assert len(os.listdir("/proc/self/fd")) <= before + 3


# ── the real sc ──────────────────────────────────────────────────────────────────────────────────────────────────────

PARSER = """
def parse(page):
    for link in page.css("a::attr(href)").getall():
        yield page.follow(link)
"""


def put_crawl(project: Project, serve: Serve) -> tuple[FaultServer, FaultServer]:
    """A project on 127.0.0.2, whose pages link and redirect to their own host and to 127.0.0.1; both servers."""
    inner = serve({"*": ok("<p>secret</p>")})
    outer = serve({"*": ok("<p>x</p>")}, host="127.0.0.2")
    outer.on("/", ok(f'<a href="/own">own</a> <a href="{inner.url}/linked">not</a>'))
    outer.on("/redirects", redirect(f"{inner.url}/redirected"))
    outer.on("/mapped", redirect(f"http://[::ffff:127.0.0.1]:{inner.port}/"))
    outer.on("/number", redirect(f"http://2130706433:{inner.port}/"))
    outer.on("/back", redirect("/own"))
    (project.folder / "parser.py").write_text(PARSER)
    project.put_url("start", f"{outer.url}/")
    for name in ("redirects", "mapped", "number", "back"):
        project.put_url(name, f"{outer.url}/{name}", "location")
    return inner, outer


def assert_guarded(project: Project, inner: FaultServer) -> None:
    states = project.states()
    refused = {name for name, state in states.items() if state == "error"}
    assert {"redirects", "mapped", "number"} < refused
    assert len(refused) == 4
    assert all(project.reason(name) == "forbidden" for name in refused)
    assert all("127.0.0.1" in project.last(name)["detail"] for name in refused)
    assert states["start"] == states["back"] == "success"
    assert len(states) == 7  # the link to the own host is among the successes
    assert inner.connections == 0


def test_a_crawl_is_guarded_unless_it_is_allowed(project: Project, serve: Serve) -> None:
    inner, _ = put_crawl(project, serve)
    run_sc(project, "crawl", check=3)
    assert_guarded(project, inner)
    linked = next(name for name in project.in_state("error") if name.startswith("127"))
    assert "same_host" not in project.records(linked)[0]
    assert "--allow-private 127.0.0.1` allows it" in run_sc(project, "show", linked).stdout
    (project.folder / "sc.toml").write_text('allow-private = ["10.0.0.0/8"]\n')
    run_sc(project, "retry", check=3)
    run_sc(project, "retry", linked, env={"SC_ALLOW_PRIVATE": "127.0.0.0/8"}, check=0)
    run_sc(project, "retry", "--allow-private", "10.0.0.0/8", "--allow-private", "127.0.0.1", check=0)
    assert inner.count() == 4


def test_no_socket_is_connected_to_what_is_refused(project: Project, serve: Serve, tmp_path: Path) -> None:
    """As the kernel sees it."""
    if not shutil.which("strace"):
        pytest.skip("needs strace")
    inner, outer = put_crawl(project, serve)
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-qq", "-e", "trace=connect,sendto,sendmsg", "-o", str(trace), *sc_command("crawl")]
    run = subprocess.run(
        command, cwd=project.folder, env=clean_env(), capture_output=True, text=True, timeout=TIMEOUT_S
    )
    if "ptrace" in run.stderr.lower():
        pytest.skip("strace may not trace here")
    assert run.returncode == 3, run.stderr
    assert_guarded(project, inner)
    calls = [line for line in trace.read_text(errors="replace").splitlines() if "connect(" in line]
    assert any(f"htons({outer.port})" in call and '"127.0.0.2"' in call for call in calls)
    assert not any(f"htons({inner.port})" in call for call in calls)
