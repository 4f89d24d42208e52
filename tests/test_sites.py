"""The example sites serve what they promise, the examples fit them, the fault server makes the faults asked for."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import json
import re
import runpy
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

import pytest
import trustme
from parsel import Selector
from servers import (
    CLOSE,
    ENDLESS_HEADERS,
    H200,
    RESET,
    SILENCE,
    FaultServer,
    chunked,
    cut,
    drip,
    endless,
    gzip_body,
    has_ipv6,
    hold,
    ok,
    pause,
    redirect,
    refused_port,
    status,
)

from stateful_crawler.errors import EnvironmentFault, UsageError
from stateful_crawler.sites import PORT, SITES, Server, bookshop, gbk_news, members, quotes, serve

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"
TEMPLATES = ROOT / "stateful_crawler" / "templates"


@pytest.fixture
def site() -> Iterator[Server]:
    with serve(port=0) as server:
        yield server


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def connect(url: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)


def ask(
    connection: http.client.HTTPConnection, target: str, method: str = "GET", **more: Any
) -> tuple[http.client.HTTPResponse, bytes]:
    connection.request(method, target, **more)
    response = connection.getresponse()
    return response, response.read()


def get(url: str, target: str) -> tuple[int, str, bytes]:
    """Status, Content-Type and body."""
    with closing(connect(url)) as connection:
        response, body = ask(connection, target)
        return response.status, response.getheader("Content-Type", ""), body


def shop(path: str, visit: int = 1, **query: str) -> Any:
    return bookshop.respond(path, query, visit)


# ── the bookshop ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("page", [1, 50, 100])
def test_a_listing_page_shows_its_twenty_books(site: Server, page: int) -> None:
    code, content_type, body = get(site.url, f"/bookshop/catalogue?page={page}")
    assert (code, content_type) == (200, "text/html; charset=utf-8")
    assert 13_000 < len(body) < 18_000
    cards = Selector(body.decode()).css("article.book")
    for card, book in zip(cards, bookshop.books_of(page), strict=True):
        assert card.css("h3 a").attrib == {"href": f"book/{book.number}", "title": book.title, "itemprop": "name"}
        assert card.css("h3 a::text").get() == book.title
        assert card.css(".price::text").get() == f"£{book.price}"
        assert card.css(".stock::text").get() == ("In stock" if book.in_stock else "Sold out")
        assert (card.css(".rating::text").get() or "").count("★") == book.rating


def test_two_thousand_books_and_no_two_alike() -> None:
    books = [book for page in range(1, 101) for book in bookshop.books_of(page)]
    assert len({book.title for book in books}) == 2000
    assert {book.rating for book in books} == {1, 2, 3, 4, 5}
    assert all(re.fullmatch(r"[4-9]\.\d\d|[1-4]\d\.\d\d", book.price) for book in books)
    assert {book.in_stock for book in books} == {True, False}


def test_the_pages_never_change() -> None:
    pages = [shop("/catalogue", visit=2, page=str(page)).body for page in range(1, 101)]
    digest = hashlib.sha256(b"".join(pages)).hexdigest()
    assert digest == "227a17c2add4fc69ce4e38d6aa2baf9442f418fda46c14363eb2f5779ccb403a"


def test_a_few_pages_fail_once(site: Server) -> None:
    assert {page for page in range(1, 101) if shop("/catalogue", page=str(page)).status == 503} == {7, 42, 77}
    assert all(shop("/catalogue", visit=2, page=str(page)).status == 200 for page in range(1, 101))
    assert [get(site.url, "/bookshop/catalogue?page=42")[0] for _ in range(3)] == [503, 200, 200]
    assert site.requests["/bookshop/catalogue?page=42"] == 3


def test_a_few_pages_are_slow(site: Server) -> None:
    assert {page for page in range(1, 101) if shop("/catalogue", page=str(page)).delay_s} == {13, 37, 61}
    start = time.monotonic()
    assert get(site.url, "/bookshop/catalogue?page=13")[0] == 200
    assert time.monotonic() - start >= bookshop.SLOW_S


@pytest.mark.parametrize("page", ["0", "101", "404", "-1", "x", "", "²", "1.0"])
def test_other_listing_pages_do_not_exist(page: str) -> None:
    assert shop("/catalogue", page=page).status == 404


def test_every_link_of_a_listing_leads_to_a_page(site: Server) -> None:
    listing = "/bookshop/catalogue?page=99"
    for href in Selector(get(site.url, listing)[2].decode()).css("a::attr(href)").getall():
        target = urljoin(listing, href)
        code, _, body = get(site.url, target)
        assert code == 200
        if "/book/" in target:
            title = bookshop.book(int(target.rpartition("/")[2])).title
            assert Selector(body.decode()).css("h1::text").get() == title


def test_what_is_broken_stays_broken(site: Server) -> None:
    assert [get(site.url, "/bookshop/broken")[0] for _ in range(3)] == [500, 500, 500]
    for target in ("/bookshop/nowhere", "/bookshop/book/0", "/bookshop/book/2001", "/nowhere/", "/robots.txt"):
        assert get(site.url, target)[0] == 404


# ── the Chinese paper ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", range(1, 11))
def test_each_article_is_sent_under_its_label(site: Server, number: int) -> None:
    article = gbk_news.ARTICLES[number - 1]
    code, content_type, body = get(site.url, f"/gbk-news/{number}.html")
    assert code == 200
    assert content_type == (f"text/html; charset={article.header}" if article.header else "text/html")
    page = Selector(body.decode(article.encoding))
    assert page.css("h1::text").get() == article.title
    assert tuple(page.css(".text p::text").getall()) == article.paragraphs
    assert article.meta in body.decode(article.encoding)


def test_the_labels_are_wrong_in_every_way_that_matters() -> None:
    sent = [gbk_news.respond(f"/{number}.html", {}, 1).body for number in range(1, 11)]
    labels = [(article.encoding, article.header, "charset" in article.meta) for article in gbk_news.ARTICLES]
    assert labels == [
        ("gbk", "gbk", False),
        ("gbk", "gb2312", False),
        ("gbk", "ISO-8859-1", True),
        ("gbk", "", True),
        ("gbk", "", True),
        ("gbk", "", False),
        ("utf-8", "utf-8", False),
        ("gb18030", "gb18030", False),
        ("gb18030", "gb2312", False),
        ("utf-8-sig", "gb2312", False),
    ]
    for number, narrow in ((2, "gb2312"), (5, "gb2312"), (8, "gbk"), (9, "gbk"), (6, "utf-8")):
        with pytest.raises(UnicodeDecodeError):
            sent[number - 1].decode(narrow)
    assert sent[9].startswith(b"\xef\xbb\xbf")


def test_the_front_page_lists_every_article(site: Server) -> None:
    code, content_type, body = get(site.url, "/gbk-news/")
    links = Selector(body.decode("gb18030")).css(".news a")
    assert (code, content_type) == (200, "text/html; charset=gbk")
    assert links.css("::text").getall() == [article.title for article in gbk_news.ARTICLES]
    assert links.css("::attr(href)").getall() == [f"{number}.html" for number in range(1, 11)]
    assert get(site.url, "/gbk-news/11.html")[0] == 404


# ── the quotes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_next_links_lead_through_all_quotes(site: Server) -> None:
    target, seen = "/quotes/", []
    for page in range(1, 11):
        code, _, body = get(site.url, target)
        selector = Selector(body.decode())
        assert code == 200
        assert selector.css(".text::text").getall() == [quote.text for quote in quotes.quotes_of(page)]
        seen.append(target)
        target = urljoin(target, selector.css("a[rel=next]").attrib.get("href", "/end"))
    assert seen == ["/quotes/", *(f"/quotes/page/{page}/" for page in range(2, 11))]
    assert target == "/end"
    assert len({quote for page in range(1, 11) for quote in quotes.quotes_of(page)}) == 100
    assert get(site.url, "/quotes/page/11/")[0] == get(site.url, "/quotes/page/1/")[0] == 404


# ── the examples ─────────────────────────────────────────────────────────────────────────────────────────────────────


def run_example(name: str, server: Server, *arguments: Any) -> list[dict[str, Any]]:
    """The items that an example's own two files make of the site; fetched and decoded here, one after the other."""
    create = runpy.run_path(str(EXAMPLES / name / "create.py"))["create"]
    parse = runpy.run_path(str(EXAMPLES / name / "parser.py"))["parse"]
    tasks = [(task["url"], task.get("meta", {})) for task in create(*arguments, site=f"{server.url}/{name}")]
    items = []
    for url, meta in tasks:  # grows while pages name new ones
        for result in parse(fake_page(url, meta)):
            if isinstance(result, str):
                tasks.append((result, {}))
            else:
                items.append(result)
    return items


def fake_page(url: str, meta: dict[str, Any]) -> SimpleNamespace:
    """As much of a page as the examples use; follow() gives the address only."""
    target = url.removeprefix("http://" + urlsplit(url).netloc)
    code, _, body = get(url, target)
    if code == 503:
        code, _, body = get(url, target)
    assert code == 200
    article = re.fullmatch(r"/gbk-news/(\d+)\.html", target)
    encoding = gbk_news.ARTICLES[int(article[1]) - 1].encoding if article else "gb18030" if "gbk" in target else "utf-8"
    selector = Selector(body.decode(encoding))
    return SimpleNamespace(
        css=selector.css, meta=meta, urljoin=lambda href: urljoin(url, href), follow=lambda href: urljoin(url, href)
    )


def expected(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (EXAMPLES / name / "expected.jsonl").read_text().splitlines()]


def as_text(items: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(item, ensure_ascii=False, sort_keys=True) + "\n" for item in items)


def test_the_bookshop_example(site: Server) -> None:
    items = run_example("bookshop", site, 1, 100)
    text = as_text(items).replace(site.url, f"http://127.0.0.1:{PORT}")
    digest = (EXAMPLES / "bookshop" / "expected.sha256").read_text().strip()
    assert len(items) == 2000
    assert set(as_text(expected("bookshop")).splitlines()) <= set(text.splitlines())
    assert hashlib.sha256(text.encode()).hexdigest() == digest


@pytest.mark.parametrize("name", ["gbk-news", "quotes"])
def test_an_example_gives_what_is_expected(site: Server, name: str) -> None:
    assert run_example(name, site) == expected(name)


def test_what_is_expected_comes_from_the_sites_own_tables() -> None:
    shop = [
        {
            "page": page,
            "title": book.title,
            "price": float(book.price),
            "rating": book.rating,
            "in_stock": book.in_stock,
            "url": f"http://127.0.0.1:{PORT}/bookshop/book/{book.number}",
        }
        for page in range(1, 101)
        for book in bookshop.books_of(page)
    ]
    digest = (EXAMPLES / "bookshop" / "expected.sha256").read_text().strip()
    assert hashlib.sha256(as_text(shop).encode()).hexdigest() == digest
    assert expected("quotes") == [
        {"text": quote.text, "author": quote.author, "tags": list(quote.tags)}
        for page in range(1, 11)
        for quote in quotes.quotes_of(page)
    ]
    assert expected("gbk-news") == [
        {"day": article.day, "title": article.title, "reporter": article.reporter, "text": list(article.paragraphs)}
        for article in gbk_news.ARTICLES
    ]
    club = [{**members.member(number)._asdict(), "since": str(members.member(number).since)} for number in range(1, 21)]
    assert expected("login") == [*club, {"minutes": members.MINUTES}]


@pytest.mark.parametrize("file", ["create.py", "parser.py"])
def test_what_init_writes_is_the_bookshop_example(file: str) -> None:
    assert (TEMPLATES / file).read_bytes() == (EXAMPLES / "bookshop" / file).read_bytes()


@pytest.mark.parametrize("example", sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir()))
def test_an_example_is_short_and_says_how_to_run_it(example: str) -> None:
    lines = [(EXAMPLES / example / file).read_text().count("\n") for file in ("create.py", "parser.py")]
    assert sum(lines) < 30
    assert f"sc -C examples/{example} create" in (EXAMPLES / example / "README.md").read_text()


def test_the_project_at_the_root_is_the_bookshop() -> None:
    settings = tomllib.loads((ROOT / "sc.toml").read_text())
    assert settings == {key: f"examples/bookshop/{key}.py" for key in ("create", "parser")}
    assert all((ROOT / path).is_file() for path in settings.values())


# ── the club ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Visitor:
    """A browser for the club: keeps cookies as it is told, and follows nothing."""

    def __init__(self, url: str) -> None:
        self.url, self.cookies = url, dict[str, str]()

    def ask(self, path: str, **form: str) -> tuple[int, str, str]:
        """Status, Location and page."""
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        with closing(connect(self.url)) as connection:
            method, body = ("POST", urlencode(form)) if form else ("GET", None)
            response, page = ask(connection, f"/members{path}", method, body=body, headers=headers)
        for line in response.headers.get_all("Set-Cookie") or ():
            name, _, rest = line.partition("=")
            value, _, more = rest.partition(";")
            self.cookies[name] = value
            assert "Path=/members/" in more and "HttpOnly" in more
            if "Max-Age=0" in more:
                del self.cookies[name]
        return response.status, response.getheader("Location", ""), page.decode()

    def token(self) -> str:
        return Selector(self.ask("/login")[2]).css("[name=token]").attrib["value"]

    def log_in(self, **changes: str) -> tuple[int, str]:
        form = {"token": self.token(), "user": members.USER, "password": members.PASSWORD} | changes
        return self.ask("/login", **form)[:2]


def test_the_club_is_for_members(site: Server) -> None:
    stranger = Visitor(site.url)
    for path in ("/", "/list?page=1"):
        assert stranger.ask(path)[:2] == (302, "/members/login")
    assert [stranger.ask(path)[0] for path in ("/member/1", "/renew", "/archive", "/nowhere")] == [403] * 4
    assert stranger.cookies == {}


def test_the_club_lets_in_who_knows_the_words(site: Server) -> None:
    visitor = Visitor(site.url)
    assert visitor.log_in(password="other") == (403, "")
    assert visitor.log_in(token="other") == (403, "")
    assert visitor.log_in(user="") == (403, "")
    stale = visitor.token()
    visitor.token()  # a new form: the token of the one before is worth nothing
    assert visitor.log_in(token=stale) == (403, "")
    assert "session" not in visitor.cookies
    assert visitor.log_in() == (302, "/members/")
    assert [visitor.ask(path)[0] for path in ("/", "/list?page=4", "/member/20", "/archive")] == [200, 200, 200, 403]
    assert [visitor.ask(path)[0] for path in ("/list?page=5", "/member/21", "/nowhere")] == [404] * 3


def test_the_club_renews_and_ends_a_session(site: Server) -> None:
    visitor = Visitor(site.url)
    visitor.log_in()
    before = visitor.cookies["session"]
    assert visitor.ask("/renew")[0] == 200
    assert visitor.cookies["session"] != before
    assert members.MINUTES in visitor.ask("/archive")[2]
    visitor.cookies["session"] = "1." + before.partition(".")[2]  # a cookie that was tampered with
    assert visitor.ask("/archive")[0] == 403
    visitor.cookies["session"] = before
    assert visitor.ask("/logout")[:2] == (302, "/members/login")
    assert "session" not in visitor.cookies
    assert visitor.ask("/")[0] == 302


def test_only_sites_with_forms_take_a_post(site: Server) -> None:
    with closing(connect(site.url)) as connection:
        assert ask(connection, "/quotes/", "POST", body=b"a=1")[0].status == 405
        assert ask(connection, "/quotes/")[0].status == 200
        assert ask(connection, "/members/login", "POST", body=b"x" * 70_000)[0].status == 413


# ── the server ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_root_lists_the_sites_and_a_missing_slash_is_mended(site: Server) -> None:
    links = Selector(get(site.url, "/")[2].decode()).css("a::attr(href)").getall()
    assert links == [f"/{name}/" for name in SITES]
    assert [get(site.url, link)[0] for link in links] == [200, 200, 200, 302]  # the last one is for members
    with closing(connect(site.url)) as connection:
        response, _ = ask(connection, "/quotes")
        assert (response.status, response.getheader("Location")) == (301, "/quotes/")


def test_only_the_sites_that_are_named() -> None:
    with serve(["quotes"], port=0) as server:
        assert get(server.url, "/quotes/")[0] == 200
        assert get(server.url, "/bookshop/")[0] == 404


def test_connections_are_kept_and_counted(site: Server) -> None:
    with closing(connect(site.url)) as first, closing(connect(site.url)) as second:
        for target in ("/quotes/", "/nowhere", "/quotes/"):
            ask(first, target)
            ask(second, target)
        response, body = ask(first, "/quotes/", "HEAD")
        assert (response.status, body) == (200, b"")
        assert int(response.getheader("Content-Length", "0")) == len(ask(first, "/quotes/")[1])
    assert site.most_connections == 2
    assert site.requests == {"/quotes/": 6, "/nowhere": 2}


def test_a_closed_connection_is_not_counted_with_the_next(site: Server) -> None:
    for _ in range(50):
        get(site.url, "/quotes/")
    assert site.most_connections == 1


def test_close_waits_for_nobody() -> None:
    with serve(port=0) as server, closing(connect(server.url)) as idle, closing(connect(server.url)) as busy:
        ask(idle, "/quotes/")
        busy.request("GET", "/bookshop/catalogue?page=61")
        server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))


def test_what_cannot_be_served_is_said() -> None:
    with pytest.raises(UsageError, match="no example site named 'bookshpo'; there are bookshop, gbk-news, quotes"):
        serve(["bookshpo"])
    with pytest.raises(UsageError, match="65536 is no port"):
        serve(port=65536)
    with serve(port=0) as server, pytest.raises(EnvironmentFault, match=f"127.0.0.1:{server.port}: .*--port 0"):
        serve(port=server.port)


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_as_a_command_it_serves_until_a_signal(ending: signal.Signals) -> None:
    command = [sys.executable, "-m", "stateful_crawler.sites", "--port", "0", "quotes", "bookshop"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout
        found = re.fullmatch(r"serving (http://127\.0\.0\.1:\d+)/\n", process.stdout.readline())
        assert found
        sites = [process.stdout.readline().split()[0] for _ in range(2)]
        assert sites == [f"{found[1]}/quotes/", f"{found[1]}/bookshop/"]
        assert get(found[1], "/quotes/")[0] == 200
        process.send_signal(ending)
        assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 0


def test_as_a_command_it_says_what_is_wrong() -> None:
    command = [sys.executable, "-m", "stateful_crawler.sites", "nowhere"]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=30, check=False)
    assert ended.returncode == 2
    assert ended.stderr == "no example site named 'nowhere'; there are bookshop, gbk-news, quotes, members\n"


# ── the fault server ─────────────────────────────────────────────────────────────────────────────────────────────────


def read_all(url: str, target: str = "/") -> bytes:
    """All bytes that come for one request, up to the end of the connection."""
    address = urlsplit(url)
    with socket.create_connection((address.hostname, address.port), timeout=30) as raw:
        raw.sendall(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return b"".join(iter(lambda: raw.recv(65536), b""))


def test_answers_go_visit_by_visit_and_requests_are_logged() -> None:
    with FaultServer({"/a": [status(503, retry_after="2"), ok("<p>é</p>", "X-A: b")]}) as server:
        with closing(connect(server.url)) as connection:
            first, _ = ask(connection, "/a")
            assert (first.status, first.getheader("Retry-After")) == (503, "2")
            for _ in range(2):
                second, body = ask(connection, "/a")
                assert (second.status, second.getheader("X-A"), body) == (200, "b", "<p>é</p>".encode())
            ask(connection, "/a?b", "POST", body=b"\x00\r\n\r\n1", headers={"X-C": "d"})
        assert get(server.url, "/other")[0] == 404
        assert [server.count(target) for target in ("/a", "/a?b", "/other", "/none", None)] == [3, 1, 1, 0, 5]
        numbers = [(request.connection, request.nth) for request in server.requests]
        assert numbers == [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1)]
        post = server.requests[3]
        assert (post.method, post.target, post.path, post.body) == ("POST", "/a?b", "/a", b"\x00\r\n\r\n1")
        assert post.all("x-c") == [b"d"]
        assert post.head.startswith(b"POST /a?b HTTP/1.1\r\n")
        assert server.requests[0].at <= post.at
        assert (server.connections, server.most_connections, server.most_in_flight) == (2, 1, 1)


def test_routes_can_be_functions_and_can_be_replaced() -> None:
    with FaultServer({"*": lambda request: ok(request.head)}) as server:
        assert get(server.url, "/x?y")[2].startswith(b"GET /x?y HTTP/1.1\r\n")
        server.on("/x", b"HTTP/1.1 204 No Content\r\n\r\n")
        assert get(server.url, "/x?y")[0] == 204


def test_a_body_may_be_announced() -> None:
    with FaultServer({"/up": ok("thanks")}) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
            raw.sendall(b"POST /up HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
            assert raw.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
            raw.sendall(b"abc")
            assert raw.recv(1000).endswith(b"thanks")
        assert server.requests[0].body == b"abc"


@pytest.mark.parametrize(
    ("answer", "received"),
    [
        ((CLOSE,), b""),
        ((H200, CLOSE), H200),
        (cut(b"0123456789", claims=100), b"0123456789"),
        ((*chunked(b"a", b"bc"), CLOSE), b"\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"),
        ((*chunked(b"a", end=b"zz\r\n"), CLOSE), b"1\r\na\r\nzz\r\n"),
        ((*redirect(b"/caf\xe9"), CLOSE), b"Location: /caf\xe9\r\nContent-Length: 0\r\n\r\n"),
        ((drip(b"slow", every_s=0.001), pause(0.001), b"er", CLOSE), b"slower"),
    ],
)
def test_bytes_are_sent_as_they_are(answer: Any, received: bytes) -> None:
    with FaultServer({"/": [answer]}) as server:
        assert read_all(server.url).endswith(received)
        if not received:
            assert read_all(server.url) == b""


def test_a_short_body_and_broken_chunks_are_seen_by_a_client() -> None:
    routes = {"/cut": cut(b"01", claims=9), "/chunks": chunked(b"a", end=b"zz\r\n"), "/ok": chunked(b"a", b"b")}
    with FaultServer(routes) as server:
        assert get(server.url, "/ok")[2] == b"ab"
        for target in ("/cut", "/chunks"):
            with pytest.raises(http.client.IncompleteRead):
                get(server.url, target)


def test_gzip_whole_cut_and_with_junk() -> None:
    routes = {"/": gzip_body("<p>hi</p>"), "/junk": gzip_body("x", junk=b"JUNK"), "/short": gzip_body("x", missing=4)}
    with FaultServer(routes) as server:
        assert gzip.decompress(get(server.url, "/")[2]) == b"<p>hi</p>"
        assert get(server.url, "/junk")[2].endswith(b"JUNK")
        with pytest.raises(EOFError):
            gzip.decompress(get(server.url, "/short")[2])


def test_a_reset_is_a_reset() -> None:
    with FaultServer({"/": (RESET,)}) as server, pytest.raises(ConnectionResetError):
        read_all(server.url)


def test_hold_waits_for_the_event_and_wait_for_for_the_request() -> None:
    go = threading.Event()
    with FaultServer({"/": (H200 + b"Content-Length: 2\r\n\r\na", hold(go), b"b")}) as server:
        with closing(connect(server.url)) as first, closing(connect(server.url)) as second:
            first.request("GET", "/")
            second.request("GET", "/")
            server.wait_for("/", visits=2)
            assert server.most_in_flight == 2
            go.set()
            assert first.getresponse().read() == second.getresponse().read() == b"ab"
        with pytest.raises(AssertionError, match="2 of 3 requests for / came"):
            server.wait_for("/", visits=3, timeout_s=0.01)


@pytest.mark.parametrize(
    "answer",
    [(SILENCE,), (hold(threading.Event()),), (pause(600),), (drip(b"x" * 99, 600),), (H200, endless(b"X: y\r\n"))],
)
def test_whatever_it_is_doing_it_closes_at_once(answer: Any) -> None:
    with FaultServer({"/": [answer]}) as server, closing(connect(server.url)) as client:
        client.request("GET", "/")
        server.wait_for("/")


def test_endless_headers_go_on_until_the_client_has_had_enough() -> None:
    with FaultServer({"/": ENDLESS_HEADERS}) as server, pytest.raises(http.client.HTTPException, match="headers"):
        get(server.url, "/")


def test_an_error_in_a_route_comes_out() -> None:
    with pytest.raises(ZeroDivisionError), FaultServer({"/": lambda request: ok(str(1 // 0))}) as server:
        read_all(server.url)


def test_a_refused_port_refuses() -> None:
    with refused_port() as port, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.skipif(not has_ipv6(), reason="no ::1 on this machine")
def test_it_speaks_ipv6() -> None:
    with FaultServer({"/": ok("six")}, host="::1") as server:
        assert server.url == f"http://[::1]:{server.port}"
        assert get(server.url, "/")[2] == b"six"


def test_it_speaks_tls_and_survives_clients_that_refuse_it() -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    trusting, wary = ssl.create_default_context(), ssl.create_default_context()
    authority.configure_trust(trusting)
    with FaultServer({"/": (*ok("secret"), CLOSE)}, tls=context) as server:
        assert server.url.startswith("https://")
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(http.client.HTTPSConnection("localhost", server.port, context=wary), "/")
        with closing(http.client.HTTPSConnection("localhost", server.port, context=trusting)) as connection:
            assert ask(connection, "/")[1] == b"secret"
    assert server.count() == 1
