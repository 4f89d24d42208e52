"""Where a task's connection goes, and where it comes from: resolve, connect-to, interface, IPv6, sockets, IDN."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Serve
from helpers import Project, crawl
from network_helpers import NEEDS_CURL, Case, run_both
from network_servers import Nginx, Papers, facts, nginx
from servers import FaultServer, Request, has_ipv6, ok, redirect, refused_port

pytestmark = NEEDS_CURL
CA = 'cacert = "ca.pem"'


@pytest.fixture
def site(project: Project, tmp_path: Path) -> Iterator[Nginx]:
    good = Papers(project.workdir).server("good", "site.test", "xn--bcher-kva.test")
    with nginx(
        tmp_path / "nginx",
        plain=("", f"listen unix:{project.workdir}/sock;"),
        tls=("ssl http2", good),
        haproxy=("proxy_protocol", ""),
    ) as started:
        yield started


def test_a_name_can_be_given_an_address(project: Project, site: Nginx) -> None:
    port, tls = site.ports["plain"], site.ports["tls"]
    url = f"http://site.test:{port}"
    with refused_port() as refused:
        pages = run_both(
            project,
            {
                "resolve": Case(url, (f'resolve = "site.test:{port}:127.0.0.1"',)),
                "upper": Case(f"http://SITE.test:{port}", (f'resolve = "site.test:{port}:127.0.0.1"',)),
                "any-host": Case(url, (f'resolve = "*:{port}:127.0.0.1"',)),
                "kept-a-while": Case(url, (f'resolve = "+site.test:{port}:127.0.0.1"',)),
                "several": Case(url, (f'resolve = "site.test:{port}:127.0.0.9,127.0.0.1"',)),
                "brackets": Case(url, (f'resolve = "site.test:{port}:[127.0.0.1]"',)),
                "two-lines": Case(
                    url, (f'resolve = "other.test:{port}:127.0.0.1"', f'resolve = "site.test:{port}:127.0.0.1"')
                ),
                "other-port": Case(url, (f'resolve = "site.test:{port + 1}:127.0.0.1"',), 6, "dns"),
                "taken-back": Case(
                    url, (f'resolve = "site.test:{port}:127.0.0.1"', f'resolve = "-site.test:{port}"'), 6, "dns"
                ),
                "refused": Case(
                    f"http://site.test:{refused}", (f'resolve = "site.test:{refused}:127.0.0.1"',), 7, "connect"
                ),
                "tls": Case(f"https://site.test:{tls}", (CA, f'resolve = "site.test:{tls}:127.0.0.1"')),
                "tls-other": Case(f"https://x.test:{tls}", (CA, f'resolve = "x.test:{tls}:127.0.0.1"'), 60, "tls"),
            },
            "-c",
            "1",
        )
    assert facts(pages["resolve"].ours)["host"] == f"site.test:{port}"


def test_a_connection_can_be_led_elsewhere(project: Project, site: Nginx) -> None:
    port, tls = site.ports["plain"], site.ports["tls"]
    pages = run_both(
        project,
        {
            "all": Case("http://site.test/a?b", (f'connect-to = "::127.0.0.1:{port}"',)),
            "host": Case("http://site.test/", (f'connect-to = "site.test:80:127.0.0.1:{port}"',)),
            "port-kept": Case(f"http://site.test:{port}/", ('connect-to = "site.test::127.0.0.1:"',)),
            "second": Case(
                "http://b.test/", ('connect-to = "a.test:80:127.0.0.9:1"', f'connect-to = "::localhost:{port}"')
            ),
            "other": Case("http://site.test:1/", (f'connect-to = "other.test::127.0.0.1:{port}"',), 6, "dns"),
            "tls": Case("https://site.test/", (CA, f'connect-to = "::127.0.0.1:{tls}"')),
            "tls-other": Case("https://x.test/", (CA, f'connect-to = "::127.0.0.1:{tls}"'), 60, "tls"),
        },
        "-c",
        "1",
    )
    assert [facts(pages[name].ours)["host"] for name in ("all", "host", "tls")] == ["site.test"] * 3


@pytest.fixture
def two(serve: Serve) -> tuple[FaultServer, FaultServer]:
    """Servers on one port of two addresses, which say which they are."""
    first = serve({"*": ok("127.0.0.1")})
    return first, serve({"*": ok("127.0.0.2")}, host="127.0.0.2", port=first.port)


@pytest.mark.parametrize("connections", ["1", "6"])
@pytest.mark.parametrize("option", ["resolve", "connect-to"])
def test_an_address_is_for_its_own_task_only(
    project: Project, two: tuple[FaultServer, FaultServer], option: str, connections: str
) -> None:
    """Connections and looked-up names are shared between tasks; what one task says of a name must not be."""
    port = two[0].port
    for number in range(18):
        address = f"127.0.0.{number % 3}"
        value = f"site.test:{port}:{address}" + (f":{port}" if option == "connect-to" else "")
        lines = [f'{option} = "{value}"'] if number % 3 else []
        project.put_url(f"{number:02}", f"http://site.test:{port}/{number}", *lines)
    crawl(project, "-c", connections, "--retries", "0")
    assert {project.reason(f"{number:02}") for number in range(0, 18, 3)} == {"dns"}
    led = [number for number in range(18) if number % 3]
    assert {n: project.page(f"{n:02}").decode() for n in led} == {n: f"127.0.0.{n % 3}" for n in led}


def test_a_redirect_is_led_too(project: Project, serve: Serve) -> None:
    server = serve({"/a": redirect("http://b.test:81/b"), "/b": lambda request: ok(request.head)})
    pages = run_both(
        project,
        {
            "connect-to": Case("http://a.test/a", (f'connect-to = "::127.0.0.1:{server.port}"', "location")),
            "not-led": Case(
                "http://a.test/a", (f'connect-to = "a.test::127.0.0.1:{server.port}"', "location"), 6, "dns"
            ),
        },
    )
    assert b"Host: b.test:81\r\n" in pages["connect-to"].ours


# ── from where ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_where_a_connection_comes_from(project: Project, site: Nginx) -> None:
    url = site.url("plain", "127.0.0.1", "http")
    pages = run_both(
        project,
        {
            "plain": Case(url),
            "address": Case(url, ('interface = "127.0.0.2"',)),
            "host": Case(url, ('interface = "host!127.0.0.3"',)),
            "missing": Case(url, ('interface = "no-such-one"',), 45, "connect"),
            "not-ours": Case(url, ('interface = "192.0.2.1"',), 45, "connect"),
        },
        "-c",
        "1",
    )
    peers = {name: (facts(page.theirs)["peer"], facts(page.ours)["peer"]) for name, page in pages.items() if page.ours}
    wanted = {"plain": "127.0.0.1", "address": "127.0.0.2", "host": "127.0.0.3"}
    assert peers == {name: (address, address) for name, address in wanted.items()}


def test_a_range_of_local_ports(project: Project, site: Nginx) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        first = min(free.getsockname()[1], 65000)
    line = f'local-port = "{first}-{first + 99}"'
    cases = {str(number): Case(site.url("plain", "127.0.0.1", "http"), (line,)) for number in range(4)}
    pages = run_both(project, cases, "-c", "2")
    ports = [int(facts(page)["port"]) for pair in pages.values() for page in pair]
    assert all(first <= port < first + 100 for port in ports), (first, ports)


@pytest.mark.case("C021")
@pytest.mark.skipif(not has_ipv6(), reason="no ::1 on this machine")
def test_ipv4_or_ipv6(project: Project, serve: Serve) -> None:
    six = serve({"*": ok("six")}, host="::1")
    with refused_port("::1") as only_four:
        four = serve({"*": ok("four")}, port=only_four)
        pages = run_both(
            project,
            {
                "either": Case(f"http://localhost:{six.port}/"),
                "eyeballs": Case(f"http://localhost:{six.port}/", ("happy-eyeballs-timeout-ms = 50",)),
                "literal": Case(f"http://[::1]:{six.port}/"),
                "literal-led": Case("http://site.test/", (f'connect-to = "::[::1]:{six.port}"',)),
                "resolved": Case(f"http://site.test:{six.port}/", (f'resolve = "site.test:{six.port}:[::1]"',)),
                "ipv6": Case(f"http://localhost:{six.port}/", ("ipv6",)),
                "ipv4-not-there": Case(f"http://localhost:{six.port}/", ("ipv4",), 7, "connect"),
                "ipv4": Case(f"http://localhost:{four.port}/", ("ipv4",)),
                "ipv6-not-there": Case(f"http://localhost:{four.port}/", ("ipv6",), 7, "connect"),
                "last-wins": Case(f"http://localhost:{four.port}/", ("ipv6", "ipv4")),
            },
            "-c",
            "1",
        )
    assert pages["ipv4"].ours == b"four" and pages["ipv6"].ours == pages["literal"].ours == b"six"


@pytest.mark.skipif(not has_ipv6(), reason="no ::1 on this machine")
def test_the_family_is_for_its_own_task_only(project: Project, serve: Serve) -> None:
    """The name's addresses are kept for the next task, which may want the others."""
    six = serve({"*": ok("six")}, host="::1")
    serve({"*": ok("four")}, port=six.port)
    for number in range(12):
        project.put_url(str(number), f"http://localhost:{six.port}/", ("ipv4", "ipv6")[number % 2])
    crawl(project, "-c", "4")
    assert {n: project.page(str(n)) for n in range(12)} == {n: (b"four", b"six")[n % 2] for n in range(12)}


def test_a_unix_socket(project: Project, site: Nginx) -> None:
    site.wait_until_up()
    pages = run_both(
        project,
        {
            "relative": Case("http://site.test/", ('unix-socket = "sock"',)),
            "absolute": Case("http://site.test/", (f'unix-socket = "{project.workdir}/sock"',)),
            "none": Case("http://site.test/", ('unix-socket = "none"',), 7, "connect"),
        },
    )
    assert facts(pages["relative"].ours)["peer"] == "unix:"


def test_the_haproxy_line(project: Project, site: Nginx) -> None:
    pages = run_both(project, {"a": Case(site.url("haproxy", "127.0.0.1", "http"), ("haproxy-protocol",))})
    assert facts(pages["a"].ours)["by"] == facts(pages["a"].theirs)["by"] == "127.0.0.1"


# ── hosts in other scripts ───────────────────────────────────────────────────────────────────────────────────────────

HOSTS = {
    "umlaut": "bücher.test",
    "upper": "BÜCHER.Test",
    "decomposed": "bu\u0308cher.test",
    "sharp-s": "straße.test",
    "chinese": "例え.test",
    "chinese-dot": "bücher。test",
    "cyrillic": "пример.test",
    "punycode": "xn--bcher-kva.test",
    "user": "a:b@bücher.test",
}


def echo(request: Request) -> tuple[object, ...]:
    """The request as it came; under /to/HOST, a redirect there in raw UTF-8."""
    if request.path.startswith("/to/"):
        return redirect(f"http://{HOSTS[request.path[4:]]}/there?é=ü".encode())
    return ok(request.head)


def spelled_alike(head: bytes) -> bytes:
    """A request's bytes; curl 7.88 writes the digits of %c3 in lower case, later ones in upper case."""
    return re.sub(rb"%..", lambda found: found[0].upper(), head)


def test_hosts_in_other_scripts(project: Project, serve: Serve) -> None:
    server = serve({"*": echo})
    lines = (f'connect-to = "::127.0.0.1:{server.port}"', 'user-agent = "same"', "location")
    cases = {name: Case(f"http://{host}/here", lines) for name, host in HOSTS.items()}
    # Not with a user in the Location, which newer curls send and older ones don't.
    cases |= {f"to-{name}": Case(f"http://start.test/to/{name}", lines) for name in HOSTS if name != "user"}
    pages = run_both(project, cases)
    differ = {n: p for n, p in pages.items() if spelled_alike(p.ours) != spelled_alike(p.theirs)}
    assert not differ
    assert b"Host: xn--bcher-kva.test\r\n" in pages["umlaut"].ours
    assert b"Host: xn--bcher-kva.test\r\n" in pages["to-umlaut"].ours


def test_hosts_in_other_scripts_over_tls_and_by_name(project: Project, site: Nginx) -> None:
    tls, port = site.ports["tls"], site.ports["plain"]
    run_both(
        project,
        {
            "tls": Case(f"https://bücher.test:{tls}", (CA, f'connect-to = "::127.0.0.1:{tls}"')),
            "resolve": Case(f"http://bücher.test:{port}", (f'resolve = "xn--bcher-kva.test:{port}:127.0.0.1"',)),
            "connect-to": Case("http://bücher.test/", (f'connect-to = "xn--bcher-kva.test::127.0.0.1:{port}"',)),
        },
    )


def test_a_redirect_to_another_script_takes_no_secret_along(project: Project, serve: Serve) -> None:
    """And the way is in the record."""
    server = serve({"*": echo})
    led = f'connect-to = "::127.0.0.1:{server.port}"'
    project.put_url("a", "http://start.test/to/umlaut", led, "location", 'user = "me:sesame"', 'cookie = "own=1"')
    crawl(project)
    assert b"Host: xn--bcher-kva.test\r\n" in project.page("a")
    assert b"Authorization" not in project.page("a") and b"own=1" not in project.page("a")
    hops = project.last("a")["hops"]
    assert [status for _, status in hops] == [302, 200] and "xn--bcher-kva.test" in hops[1][0]


def test_a_proxy_is_asked_for_a_name_that_it_can_look_up(project: Project, serve: Serve) -> None:
    """After a redirect too: it would be handed raw letters otherwise, since libcurl looks up nothing itself."""
    proxy = serve({"http://start.test/": redirect("http://bücher.test/there".encode()), "*": ok("x")})
    lines = (f'proxy = "{proxy.url}"', "location")
    run_both(
        project,
        {"direct": Case("http://bücher.test/", lines), "redirect": Case("http://start.test/", lines)},
        "-c",
        "1",
    )
    asked = [request.target for request in proxy.requests]
    assert asked == ["http://xn--bcher-kva.test/", "http://start.test/", "http://xn--bcher-kva.test/there"] * 2


def test_a_host_that_no_name_can_be_made_of(project: Project, serve: Serve) -> None:
    server = serve({"/to": redirect("http://\u2603\ufffd.test/".encode()), "*": ok("x")})
    led = f'connect-to = "::127.0.0.1:{server.port}"'
    project.put_url("direct", "http://a\ufffdb.test/", led)
    project.put_url("redirect", "http://start.test/to", led, "location")
    crawl(project, "--retries", "0")
    assert project.reason("direct") == "config"
    assert project.reason("redirect") == "redirect"
