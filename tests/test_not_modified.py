"""Tasks that ask only for what has changed (`etag-compare`, `time-cond`): what a 304 keeps, what it must not claim."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Serve
from helpers import Project, run_sc
from servers import Answer, Request, head, ok, status

TAGGED = ('etag-save = "var/tag"', 'etag-compare = "var/tag"')
PARSER = (
    "def parse(page):\n    yield {'body': page.text, 'status': page.status, 'type': page.headers['content-type']}\n"
)


def by_tag(changed: Answer) -> Callable[[Request], Answer]:
    """200 with the tag "v1" to who has none yet; `changed` to who names it."""

    def route(request: Request) -> Answer:
        return changed if request.all("If-None-Match") == [b'"v1"'] else ok("<p>page</p>", 'ETag: "v1"')

    return route


def crawl_twice(project: Project) -> None:
    (project.folder / "parser.py").write_text(PARSER)
    run_sc(project, "crawl", check=0)
    run_sc(project, "requeue", "a", check=0)
    run_sc(project, "retry", "--refetch")


ANSWERS: dict[str, Answer] = {
    "plain": status(304, b"", 'ETag: "v1"'),
    "new-tag": status(304, b"", 'ETag: "v2"', "X-New: 1"),
    # RFC 9110 section 15.4.5: a 304 ends at its blank line, whatever it claims.
    "with-a-length": (head(304, "Content-Length: 11", 'ETag: "v1"'),),
}


@pytest.mark.case("C113")
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_what_has_not_changed_keeps_its_page_and_its_items(project: Project, serve: Serve, answer: Answer) -> None:
    server = serve({"/a": by_tag(answer)})
    project.put_url("a", f"{server.url}/a", *TAGGED)
    crawl_twice(project)
    assert [request.all("If-None-Match") for request in server.requests] == [[b'""'], [b'"v1"']]
    assert project.state_of("a") == "success" and project.page("a") == b"<p>page</p>"
    last = project.records("a", "fetch")[-1]
    assert (last["ok"], last["not_modified"], last["status"], last["bytes"]) == (True, True, 200, 11)
    assert ["Content-Type", "text/html"] in last["headers"]
    items = (project.workdir / "parsed" / "a.jsonl").read_text()
    assert items == '{"body": "<p>page</p>", "status": 200, "type": "text/html"}\n'
    run_sc(project, "fsck", check=0)


@pytest.mark.case("C113")
def test_the_tag_is_the_one_of_the_page_that_is_there(project: Project, serve: Serve) -> None:
    server = serve({"/a": by_tag(ok("<p>new</p>", 'ETag: "v2"'))})
    project.put_url("a", f"{server.url}/a", *TAGGED)
    crawl_twice(project)
    assert project.page("a") == b"<p>new</p>"
    assert (project.workdir / "var" / "tag").read_text() == '"v2"\n'


@pytest.mark.case("C113")
@pytest.mark.parametrize("lose", [lambda page: page.unlink(), lambda page: page.rename(page.with_name("b.html"))])
def test_a_304_for_a_page_that_is_not_there_is_a_failure_that_says_so(
    project: Project, serve: Serve, lose: Callable[[Path], object]
) -> None:
    server = serve({"/a": by_tag(status(304))})
    project.put_url("a", f"{server.url}/a", *TAGGED)
    run_sc(project, "crawl", "--no-parse", check=0)
    lose(project.workdir / "html" / "a.html")
    run_sc(project, "requeue", "a", check=0)
    run_sc(project, "retry", "--no-parse", check=3)
    assert project.reason("a") == "http" and "not here" in project.last("a")["detail"]


@pytest.mark.case("C113")
def test_a_304_that_nobody_asked_for_is_a_failure(project: Project, serve: Serve) -> None:
    server = serve({"/a": status(304)})
    project.put_url("a", f"{server.url}/a")
    run_sc(project, "crawl", "--no-parse", check=3)
    assert project.reason("a") == "http"


@pytest.mark.case("C113")
def test_by_time(project: Project, serve: Serve) -> None:
    """A server that heeds the date, and one that does not: libcurl then reads no body."""
    old = "Last-Modified: Tue, 01 Jul 2025 10:00:00 GMT"
    server = serve(
        {"/heeds": [ok("<p>x</p>", old), status(304)], "/does-not": [ok("<p>x</p>", old), ok("<p>x</p>", old)]}
    )
    for name in ("heeds", "does-not"):
        project.put_url(name, f"{server.url}/{name}", "remote-time")
    run_sc(project, "crawl", "--no-parse", check=0)
    run_sc(project, "requeue", "heeds", "does-not", check=0)
    for name in ("heeds", "does-not"):
        path = project.path_of(name)
        path.write_text(path.read_text() + f'time-cond = "html/{name}.html"\n')
    run_sc(project, "retry", "--no-parse", "--refetch", check=0)
    for name in ("heeds", "does-not"):
        assert project.page(name) == b"<p>x</p>"
        assert project.last(name)["not_modified"] is True
    assert server.requests[-1].all("If-Modified-Since") == [b"Tue, 01 Jul 2025 10:00:00 GMT"]
