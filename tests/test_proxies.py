"""Proxies as curl's options and the environment name them: a real tinyproxy, and SOCKS of every kind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Serve
from helpers import Project, crawl
from network_helpers import NEEDS_CURL, Case, by_curl, run_both
from network_servers import Nginx, Papers, SocksProxy, Tinyproxy, facts, nginx, tinyproxy
from servers import CLOSE, Request, ok, redirect, refused_port, status

pytestmark = NEEDS_CURL
CA = 'cacert = "ca.pem"'


@pytest.fixture
def site(project: Project, tmp_path: Path) -> Iterator[Nginx]:
    good = Papers(project.workdir).server("good", "localhost", "site.test")
    with nginx(tmp_path / "nginx", plain=("", ""), tls=("ssl http2", good)) as started:
        yield started


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Tinyproxy]:
    with tinyproxy(tmp_path / "proxy") as started:
        yield started


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Tinyproxy]:
    with tinyproxy(tmp_path / "guarded", "me", "sesame") as started:
        yield started


def went(page: bytes) -> bool:
    """Whether a plain request came by the proxy."""
    return facts(page)["proxy"] == "seen"


# ── http proxies ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_plain_and_tls_through_a_proxy(project: Project, site: Nginx, proxy: Tinyproxy) -> None:
    plain, tls = site.url("plain", scheme="http"), site.url("tls")
    via, port = f'proxy = "{proxy.url}"', proxy.port
    cases = {
        "plain": Case(f"{plain}/plain", (via,)),
        "without-scheme": Case(f"{plain}/without-scheme", (f'proxy = "127.0.0.1:{port}"',)),
        "proxy1.0": Case(f"{plain}/old", (f'proxy1.0 = "127.0.0.1:{port}"',)),
        "tls": Case(f"{tls}/tls", (via, CA)),
        "tunnel": Case(f"{plain}/tunnel", (via, "proxytunnel")),
        "tls-unchecked": Case(f"{tls}/unchecked", (via,), 60, "tls"),
    }
    pages = run_both(project, cases, "-c", "1")
    assert {name: went(page.ours) for name, page in pages.items() if page.ours} == {
        "plain": True,
        "without-scheme": True,
        "proxy1.0": True,
        "tls": False,
        "tunnel": False,
    }
    asked = proxy.asked()
    half = len(asked) // 2
    assert sorted(asked[:half]) == sorted(asked[half:])  # curl's, and ours
    assert f"CONNECT localhost:{site.ports['plain']}" in asked and f"GET {plain}/plain" in asked


def test_a_proxy_that_wants_a_password(project: Project, site: Nginx, guarded: Tinyproxy) -> None:
    plain, tls = site.url("plain", scheme="http"), site.url("tls")
    via, port = f'proxy = "{guarded.url}"', guarded.port
    run_both(
        project,
        {
            "user": Case(f"{plain}/user", (via, 'proxy-user = "me:sesame"')),
            "in-url": Case(f"{plain}/in-url", (f'proxy = "http://me:sesame@127.0.0.1:{port}"',)),
            "encoded": Case(f"{plain}/encoded", (f'proxy = "http://m%65:s%65same@127.0.0.1:{port}"',)),
            "basic": Case(f"{plain}/basic", (via, "proxy-basic", 'proxy-user = "me:sesame"')),
            "anyauth": Case(f"{plain}/any", (via, "proxy-anyauth", 'proxy-user = "me:sesame"')),
            "tls": Case(f"{tls}/tls", (via, CA, 'proxy-user = "me:sesame"')),
            "tls-in-url": Case(f"{tls}/tls-in-url", (f'proxy = "http://me:sesame@127.0.0.1:{port}"', CA)),
            "wrong": Case(f"{plain}/wrong", (via, "fail", 'proxy-user = "me:other"'), 22, "http", "40"),
            "none": Case(f"{plain}/none", (via, "fail"), 22, "http", "40"),
            "tls-wrong": Case(f"{tls}/tls-wrong", (via, CA, 'proxy-user = "me:other"'), 56, "connect", "40"),
            "tls-none": Case(f"{tls}/tls-none", (via, CA), 56, "connect", "40"),
        },
    )
    assert not [entry for entry in site.stopped_log() if "wrong" in entry.target or "none" in entry.target]


def test_the_proxy_sees_the_same_bytes(project: Project, serve: Serve) -> None:
    """What stands in requests to the proxy itself; it refuses to go on, so that its whole answer is ours to make."""
    proxy = serve({"*": status(403, "no")})
    lines = {
        "plain": (),
        "user": ('proxy-user = "me:s e"',),
        "header": ('proxy-header = "X-Way: 1"', 'header = "X-Site: 2"'),
        "headers": ('proxy-header = "X-Way: 1"', 'proxy-header = "X-Way: 2"'),
        "agent": ('user-agent = "mine"', 'proxy-header = "User-Agent: other"'),
        "site-user": ('user = "a:b"', 'proxy-user = "me:sesame"'),
        "site-cookie": ('cookie = "a=1"',),
    }
    tasks = {
        f"{kind}-{name}": (f"{scheme}://{kind}-{name}.test/", (*more, *own, "fail"))
        for kind, scheme, more in (("http", "http", ()), ("tls", "https", ()), ("tunnel", "http", ("proxytunnel",)))
        for name, own in lines.items()
    }
    for name, (url, own) in tasks.items():
        project.put_url(name, url, f'proxy = "{proxy.url}"', 'user-agent = "same"', *own)
        assert by_curl(project, name)[0] in (22, 56)
    theirs, count = heads(proxy.requests), proxy.count()
    crawl(project, "--retries", "0")
    ours = heads(proxy.requests[count:])
    assert {name: (ours.get(name), theirs[name]) for name in theirs if ours.get(name) != theirs[name]} == {}
    assert theirs.keys() == tasks.keys()


def heads(requests: list[Request]) -> dict[str, bytes]:
    """The request of each task, by the host that it asks for."""
    found = {}
    for request in requests:
        host = re.search(r"([\w-]+)\.test", request.target)
        assert host
        found[host[1]] = request.head
    return found


def test_a_redirect_takes_the_proxy_along(project: Project, serve: Serve, proxy: Tinyproxy, site: Nginx) -> None:
    # CLOSE: tinyproxy sends the next request to the same server for as long as that one keeps the connection.
    to_plain, to_tls = redirect(site.url("plain", scheme="http")), redirect(site.url("tls"))
    start = serve({"/to-plain": (*to_plain, CLOSE), "/to-tls": (*to_tls, CLOSE)})
    lines = (f'proxy = "{proxy.url}"', CA, "location")
    pages = run_both(
        project,
        {"plain": Case(f"{start.url}/to-plain", lines), "tls": Case(f"{start.url}/to-tls", lines)},
    )
    assert went(pages["plain"].ours)
    assert [entry for entry in proxy.asked() if entry.startswith("CONNECT")] == [
        f"CONNECT localhost:{site.ports['tls']}"
    ] * 2


def test_who_is_asked_without_the_proxy(project: Project, site: Nginx, proxy: Tinyproxy) -> None:
    via = f'proxy = "{proxy.url}"'
    plain = f"http://localhost:{site.ports['plain']}"
    address = f"http://127.0.0.1:{site.ports['plain']}"
    lists = {
        "host": (plain, "localhost", False),
        "other": (plain, "other.test", True),
        "all": (plain, "*", False),
        "some": (plain, "other.test,localhost", False),
        "blanks": (plain, "other.test, localhost", False),
        "suffix": (plain, "host", True),
        "dot": (plain, ".localhost", False),
        "empty": (plain, "", True),
        "address": (address, "127.0.0.1", False),
        "network": (address, "127.0.0.0/8", False),
        "network-other": (address, "10.0.0.0/8", True),
    }
    cases = {name: Case(f"{url}/{name}", (via, f'noproxy = "{value}"')) for name, (url, value, _) in lists.items()}
    pages = run_both(project, cases)
    assert {name: went(page.theirs) for name, page in pages.items()} == {n: by for n, (_, _, by) in lists.items()}
    assert {name: went(page.ours) for name, page in pages.items()} == {n: by for n, (_, _, by) in lists.items()}


# ── the environment ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_environment_names_proxies(project: Project, site: Nginx, proxy: Tinyproxy) -> None:
    """The task's own words win; `proxy = ""` asks for none."""
    plain = site.url("plain", scheme="http")
    environments: dict[str, tuple[dict[str, str], tuple[str, ...], bool]] = {
        "lower": ({"http_proxy": proxy.url}, (), True),
        "upper": ({"HTTP_PROXY": proxy.url}, (), False),  # a CGI program's clients could set it
        "https": ({"https_proxy": proxy.url}, (), False),
        "all": ({"all_proxy": proxy.url}, (), True),
        "all-upper": ({"ALL_PROXY": proxy.url}, (), True),
        "no": ({"http_proxy": proxy.url, "no_proxy": "localhost"}, (), False),
        "no-upper": ({"http_proxy": proxy.url, "NO_PROXY": "localhost"}, (), False),
        "no-overruled": ({"http_proxy": proxy.url, "no_proxy": "localhost"}, ('noproxy = ""',), True),
        "no-for-own": ({"no_proxy": "localhost"}, (f'proxy = "{proxy.url}"',), False),
        "off": ({"http_proxy": proxy.url}, ('proxy = ""',), False),
        "own": ({"http_proxy": "http://127.0.0.1:1"}, (f'proxy = "{proxy.url}"',), True),
    }
    seen = {}
    for name, (env, lines, _) in environments.items():
        pages = run_both(project, {name: Case(f"{plain}/{name}", lines)}, env=env)
        seen[name] = (went(pages[name].theirs), went(pages[name].ours))
    assert seen == {name: (by, by) for name, (_, _, by) in environments.items()}


def test_the_environment_names_proxies_for_tls(project: Project, site: Nginx, proxy: Tinyproxy) -> None:
    for name, env in {
        "lower": {"https_proxy": proxy.url},
        "upper": {"HTTPS_PROXY": proxy.url},
        "http": {"http_proxy": proxy.url},
        "off": {"https_proxy": proxy.url},
    }.items():
        lines = (CA, 'proxy = ""') if name == "off" else (CA,)
        run_both(project, {name: Case(f"{site.url('tls')}/{name}", lines)}, env=env)
    assert proxy.asked() == [f"CONNECT localhost:{site.ports['tls']}"] * 4


def test_a_proxy_of_the_environment_that_is_not_there(project: Project, site: Nginx) -> None:
    with refused_port() as port:
        env = {"http_proxy": f"http://127.0.0.1:{port}"}
        run_both(project, {"a": Case(site.url("plain", scheme="http"), (), 7, "connect")}, env=env)


# ── SOCKS ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def socks() -> Iterator[SocksProxy]:
    with SocksProxy() as server:
        yield server


@pytest.fixture
def guarded_socks() -> Iterator[SocksProxy]:
    with SocksProxy("me", "sesame") as server:
        yield server


def test_socks_of_every_kind(project: Project, site: Nginx, socks: SocksProxy) -> None:
    """`4a` and `5h` leave the name to the proxy, `4` and `5` don't."""
    at = f"127.0.0.1:{socks.port}"
    plain, port = site.url("plain", scheme="http"), site.ports["plain"]
    far = f"http://site.test:{port}"
    ways = {
        "socks4": (plain, f'socks4 = "{at}"', "4", "ipv4"),
        "socks4a": (far, f'socks4a = "{at}"', "4a", "name"),
        "socks5": (f"http://127.0.0.1:{port}", f'socks5 = "{at}"', "5", "ipv4"),
        "socks5-hostname": (far, f'socks5-hostname = "{at}"', "5", "name"),
        "url-socks": (plain, f'proxy = "socks://{at}"', "4", "ipv4"),
        "url-socks4": (plain, f'proxy = "socks4://{at}"', "4", "ipv4"),
        "url-socks4a": (far, f'proxy = "socks4a://{at}"', "4a", "name"),
        "url-socks5": (f"http://127.0.0.1:{port}", f'proxy = "socks5://{at}"', "5", "ipv4"),
        "url-socks5h": (far, f'proxy = "socks5h://{at}"', "5", "name"),
    }
    for name, (url, line, version, kind) in ways.items():
        run_both(project, {name: Case(f"{url}/{name}", (line,))})
        theirs, ours = socks.requests[-2:]
        assert (name, ours.version, ours.kind) == (name, version, kind)
        assert ours == theirs
    run_both(project, {"tls": Case(site.url("tls", "site.test"), (CA, f'socks5-hostname = "{at}"'))})
    run_both(project, {"tls-wrong": Case(site.url("tls", "x.test"), (CA, f'socks5-hostname = "{at}"'), 60, "tls")})


def test_socks_with_a_password(project: Project, site: Nginx, guarded_socks: SocksProxy) -> None:
    at = f"127.0.0.1:{guarded_socks.port}"
    url = f"http://site.test:{site.ports['plain']}"
    run_both(
        project,
        {
            "in-url": Case(url, (f'proxy = "socks5h://me:sesame@{at}"',)),
            "user": Case(url, (f'socks5-hostname = "{at}"', 'proxy-user = "me:sesame"')),
            "basic": Case(url, (f'socks5-hostname = "{at}"', "socks5-basic", 'proxy-user = "me:sesame"')),
            "socks4-user": Case(url, (f'proxy = "socks4a://me@{at}"',)),
            "wrong": Case(url, (f'proxy = "socks5h://me:other@{at}"',), 97, "connect"),
            "none": Case(url, (f'proxy = "socks5h://{at}"',), 97, "connect"),
            "socks4-wrong": Case(url, (f'proxy = "socks4a://you@{at}"',), 97, "connect"),
        },
    )
    assert {(asked.user, asked.password) for asked in guarded_socks.requests if asked.version == "5"} == {
        ("me", "sesame")
    }


def test_one_proxy_behind_another(project: Project, site: Nginx, socks: SocksProxy, guarded: Tinyproxy) -> None:
    lines = (f'preproxy = "socks5://127.0.0.1:{socks.port}"', f'proxy = "http://me:sesame@127.0.0.1:{guarded.port}"')
    pages = run_both(
        project,
        {
            "plain": Case(site.url("plain", scheme="http"), lines),
            "tls": Case(site.url("tls"), (*lines, CA)),
        },
    )
    assert went(pages["plain"].ours) and went(pages["plain"].theirs)
    assert {(asked.host, asked.port) for asked in socks.requests} == {("127.0.0.1", guarded.port)}
    assert len(socks.requests) == 4


def test_each_task_keeps_to_its_own_proxy(project: Project, site: Nginx, proxy: Tinyproxy, socks: SocksProxy) -> None:
    """Connections are shared between tasks, and must not be between proxies."""
    ways = {0: ('proxy = ""',), 1: (f'proxy = "{proxy.url}"',), 2: (f'socks5-hostname = "127.0.0.1:{socks.port}"',)}
    for number in range(30):
        project.put_url(str(number), site.url("plain", scheme="http"), *ways[number % 3])
    crawl(project, "-c", "6")
    seen = {int(name): facts(project.page(name)) for name in project.states()}
    assert {number for number, said in seen.items() if said["proxy"] == "seen"} == set(range(1, 30, 3))
    by_way = [{said["connection"] for number, said in seen.items() if number % 3 == way} for way in (0, 2)]
    assert not by_way[0] & by_way[1]
    assert 0 < len(socks.requests) <= 10


def test_a_page_from_a_proxy_is_not_one_of_the_site(project: Project, serve: Serve) -> None:
    proxy = serve({"*": ok("anything")})
    project.put_url("plain", "http://site.test/", f'proxy = "{proxy.url}"')
    crawl(project)
    record = project.last("plain")
    assert record["url"] == "http://site.test/"
