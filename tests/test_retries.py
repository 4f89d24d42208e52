"""What is tried again within a run, after how long, and what never is."""

from __future__ import annotations

import email.utils
import math
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from conftest import Serve
from helpers import Project, crawl, run_sc
from servers import CLOSE, H200, RESET, SILENCE, Answer, Part, Request, cut, ok, redirect, refused_port, status

from stateful_crawler import retries
from stateful_crawler.fetch.verdict import retry_after
from stateful_crawler.reasons import REASONS, Reason
from stateful_crawler.record import Outcome

PASSING_STATUS = (408, 429, 500, 502, 503, 504)
LASTING_STATUS = (304, 400, 401, 403, 404, 405, 410, 413, 418, 425, 451, 501, 505, 507, 511)
PASSING: set[Reason] = {"dns", "connect", "reset", "truncated", "timeout"}
CHANGING = {
    "POST": 'data = "a=1"',
    "PUT": 'request = "PUT"',
    "PATCH": 'request = "PATCH"',
    "DELETE": 'request = "DELETE"',
}

# ── the rules alone ──────────────────────────────────────────────────────────────────────────────────────────────────


def failed(reason: Reason, **facts: object) -> Outcome:
    return Outcome("fetch", False, reason, facts=facts)


@pytest.mark.case("C025")
@pytest.mark.parametrize("reason", [reason for reason in REASONS if reason != "http"])
def test_which_reasons_pass(reason: Reason) -> None:
    assert retries.is_transient(failed(reason), changes_things=False) == (reason in PASSING)
    assert retries.is_transient(failed(reason), changes_things=True) == (reason in {"dns", "connect"})


def test_which_statuses_pass() -> None:
    for code in range(100, 1000):
        outcome = failed("http", status=code)
        assert retries.is_transient(outcome, changes_things=False) == (code in PASSING_STATUS)
        assert retries.is_transient(outcome, changes_things=True) == (code in (429, 503))


def test_what_changed_things_before_a_redirect_is_not_sent_again() -> None:
    """A server took the request and sent us on; that the rest of the way failed does not undo it."""
    for outcome in (
        failed("connect", hops=[["http://a/", 303]]),
        failed("http", status=503, hops=[["http://a/", 303]]),
    ):
        assert retries.is_transient(outcome, changes_things=False)
        assert not retries.is_transient(outcome, changes_things=True)


@pytest.mark.parametrize(("attempt", "middle"), [(1, 0.5), (2, 1), (3, 2), (7, 32), (8, 60), (9, 60), (10_000, 60)])
def test_waits_double_with_a_quarter_of_jitter_up_to_a_minute(attempt: int, middle: float) -> None:
    waits = [retries.wait_s(failed("reset"), attempt, chance / 100) for chance in range(101)]
    assert waits[0] == pytest.approx(middle * 0.75)
    assert waits[50] == pytest.approx(middle)
    assert waits[100] == pytest.approx(middle * 1.25)
    assert waits == sorted(waits)


@pytest.mark.parametrize("chance", [0.0, 1.0])
def test_a_wait_is_never_shorter_than_the_server_wants_nor_than_the_back_off(chance: float) -> None:
    def asked(seconds: float) -> float:
        return retries.wait_s(Outcome("fetch", False, "http", retry_after_s=seconds), 1, chance)

    assert asked(120) >= 120
    assert asked(0) == asked(0.1) == retries.wait_s(failed("http"), 1, chance)


def in_seconds(seconds: float) -> datetime:
    return datetime.fromtimestamp(time.time() + seconds, UTC)


DATES: dict[str, Callable[[datetime], str]] = {  # RFC 9110 section 5.6.7
    "imf-fixdate": lambda when: email.utils.format_datetime(when, usegmt=True),
    "rfc-850": lambda when: when.strftime("%A, %d-%b-%y %H:%M:%S GMT"),
    "asctime": lambda when: when.strftime("%a %b %e %H:%M:%S %Y"),
}


@pytest.fixture(params=["UTC0", "JST-9", "EST5"])
def anywhere(request: pytest.FixtureRequest) -> Iterator[None]:
    """The test in several time zones: dates of HTTP are in UTC, also those that do not say so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


@pytest.mark.case("C095")
@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("form", DATES)
def test_retry_after_as_a_date_in_each_of_its_forms(form: str) -> None:
    assert retry_after([("Retry-After", DATES[form](in_seconds(100)))], 503) == pytest.approx(100, abs=2)
    assert retry_after([("retry-after", DATES[form](in_seconds(-100)))], 429) == 0


@pytest.mark.case("C095")
@pytest.mark.parametrize(
    ("value", "seconds"),
    [("0", 0), ("2", 2), (" 2 ", 2), ("007", 7), ("99999999", 99_999_999), ("1.5", 1.5)]
    + [(junk, None) for junk in ("", "-5", "120junk", "junk", "abc", "2 s", "0x10", "1e3", "١٢", "2,3", "inf", "nan")]
    + [
        (junk, None)
        for junk in ("Mon", "Mon, 99 Foo 2026 99:99:99 GMT", "9" * 400, "10 Jan", "\x00", "Tue, 1 Jan 0000")
    ],
)
def test_retry_after_in_seconds_or_junk(value: str, seconds: float | None) -> None:
    assert retry_after([("Retry-After", value)], 503) == seconds


def test_retry_after_counts_only_where_it_has_a_meaning() -> None:
    assert retry_after([("Retry-After", "5")], 404) is None
    assert retry_after([("X", "5")], 503) is None


# ── whole runs ───────────────────────────────────────────────────────────────────────────────────────────────────────


def attempts(project: Project, name: str) -> list[int]:
    return [record["attempt"] for record in project.records(name, "fetch")]


def test_what_passes_is_asked_again_and_what_lasts_is_not(project: Project, serve: Serve) -> None:
    """By status and by kind of failure, all in one run, every one of them well at the second try."""
    server = serve()
    passing: dict[str, tuple[Part, ...]] = {f"status-{code}": status(code, "no") for code in PASSING_STATUS}
    passing |= {"reset": (RESET,), "closed": (CLOSE,), "truncated": cut(b"abc", claims=9), "timeout": (SILENCE,)}
    passing |= {"in-the-headers": (H200, CLOSE), "slow-body": (H200 + b"Content-Length: 9\r\n\r\nabc", SILENCE)}
    lasting: dict[str, tuple[Part, ...]] = {f"status-{code}": status(code, "no") for code in LASTING_STATUS}
    lasting |= {"protocol": (b"SSH-2.0\r\n",), "redirect": redirect("/redirect"), "forbidden": redirect("ftp://h/")}
    for name, answer in (passing | lasting).items():
        server.on(f"/{name}", answer, ok("well"))
        limit = "max-time = 1" if SILENCE in answer else "max-time = 30"
        project.put_url(name, f"{server.url}/{name}", limit, "location", "max-redirs = 0")
    crawl(project, "-c", "40")
    assert project.in_state("success") == set(passing)
    assert {name: server.count(f"/{name}") for name in passing} == dict.fromkeys(passing, 2)
    assert {name: server.count(f"/{name}") for name in lasting} == dict.fromkeys(lasting, 1)
    assert {tuple(attempts(project, name)) for name in passing} == {(1, 2)}
    assert {tuple(attempts(project, name)) for name in lasting} == {(1,)}


def test_what_fails_each_time_is_tried_as_often_as_it_says(project: Project, serve: Serve) -> None:
    server = serve({"/a": status(503, "busy")})
    with refused_port() as port:
        project.put_url("a", f"{server.url}/a")
        project.put_url("b", f"http://127.0.0.1:{port}/")
        crawl(project)  # two more tries, by default
        assert (server.count("/a"), attempts(project, "a"), attempts(project, "b")) == (3, [1, 2, 3], [1, 2, 3])
        run_sc(project, "retry", "--no-parse", "--retries", "0", check=3)
        assert server.count("/a") == 4
    first, second, third = project.records("a", "fetch")[:3]
    assert 0.3 <= first["retry_in_s"] <= 0.7 and 0.7 <= second["retry_in_s"] <= 1.3
    assert "retry_in_s" not in third and third["to"] == "error" and "to" not in first
    gaps = [later.at - sooner.at for sooner, later in zip(server.requests, server.requests[1:3], strict=False)]
    assert gaps[0] >= 0.375 and gaps[1] >= 0.75


@pytest.mark.parametrize("how", ["flag", "environment", "sc.toml"])
def test_without_retries_each_task_is_asked_once(project: Project, serve: Serve, how: str) -> None:
    server = serve({"*": status(503)})
    project.put_url("a", server.url)
    if how == "sc.toml":
        (project.folder / "sc.toml").write_text("retries = 0\n")
    crawl(
        project, *(["--retries", "0"] if how == "flag" else []), env={"SC_RETRIES": "0"} if how == "environment" else {}
    )
    assert server.count() == 1


def test_a_server_that_comes_up_meanwhile_is_found(project: Project, serve: Serve) -> None:
    """The first try finds the port closed; it is opened as soon as the record says so."""
    waiting = project.workdir / "working" / "a.conf"
    with refused_port() as port:
        project.put_url("a", f"http://127.0.0.1:{port}/a", 'data = "once"')
        running = threading.Thread(target=crawl, args=(project, "--retries", "7"))
        running.start()
        while running.is_alive() and not (waiting.exists() and b"retry_in_s" in waiting.read_bytes()):
            time.sleep(0.005)
    server = serve({"/a": ok("up")}, port=port)
    running.join()
    assert project.page("a") == b"up"
    assert [request.body for request in server.requests] == [b"once"]  # a POST too: the first was never sent


def test_a_task_that_waits_holds_no_connection(project: Project, serve: Serve) -> None:
    """One connection, and the first task must wait: the others go on meanwhile."""
    server = serve({"/1": [status(503, retry_after="1"), ok("late")], "*": ok("early")})
    for number in range(1, 8):
        project.put_url(f"{number}", f"{server.url}/{number}")
    crawl(project, "-c", "1")
    assert [request.path for request in server.requests] == [*(f"/{number}" for number in range(1, 8)), "/1"]
    assert server.requests[-1].at - server.requests[0].at >= 1
    assert (project.page("1"), server.most_in_flight) == (b"late", 1)


# ── Retry-After ──────────────────────────────────────────────────────────────────────────────────────────────────────

JUNK = ("-5", "120junk", "abc", "", "Thu, 01 Jan 1970 00:00:00 GMT", "Thu Jan  1 00:00:00 1970")


@pytest.mark.case("C095")
def test_a_server_that_says_when_to_come_back_is_believed(project: Project, serve: Serve) -> None:
    """Seconds and dates are waited for; junk and the past mean the usual back-off. Run far from UTC."""
    due: dict[str, float] = {}

    def soon(form: str) -> Callable[[Request], Answer]:
        def answer(request: Request) -> Answer:
            moment = math.ceil(time.time()) + 1
            due[request.path] = request.at + moment - time.time()
            return status(503, retry_after=DATES[form](datetime.fromtimestamp(moment, UTC)))

        return answer

    server = serve()
    for form in DATES:
        server.on(f"/{form}", soon(form), ok("x"))
    for number, value in enumerate(JUNK):
        server.on(f"/junk-{number}", status(429, retry_after=value), ok("x"))
    server.on("/seconds", status(429, retry_after="1"), ok("x"))
    server.on("/two-headers", status(503, b"", "Retry-After: 1", "Retry-After: 1"), ok("x"))
    names = [*DATES, *(f"junk-{number}" for number in range(len(JUNK))), "seconds", "two-headers"]
    for name in names:
        project.put_url(name, f"{server.url}/{name}")
    crawl(project, "-c", "20", env={"TZ": "JST-9"})
    assert project.in_state("success") == set(names)
    at = {name: [request.at for request in server.requests if request.path == f"/{name}"] for name in names}
    assert {len(times) for times in at.values()} == {2}
    for form in DATES:
        assert at[form][1] >= due[f"/{form}"] - 0.01, form
    for name in ("seconds", "two-headers"):
        assert at[name][1] - at[name][0] >= 1
    for number in range(len(JUNK)):
        times = at[f"junk-{number}"]
        assert times[1] - times[0] >= 0.375
        assert project.records(f"junk-{number}", "fetch")[0]["retry_in_s"] <= 0.7


@pytest.mark.case("C095")
def test_a_long_wait_is_left_to_a_later_run(project: Project, serve: Serve) -> None:
    """Over five minutes no slot and no run waits: error/, with the moment; `sc retry` honours it unless --now."""
    far = email.utils.format_datetime(in_seconds(4000), usegmt=True)
    values = {"seconds": "1000", "date": far, "years": "99999999", "just-over": "302"}
    server = serve({f"/{name}": [status(503, retry_after=value), ok("x")] for name, value in values.items()})
    server.on("/other", status(404))
    for name in (*values, "other"):
        project.put_url(name, f"{server.url}/{name}")
    crawl(project)
    assert project.in_state("error") == {*values, "other"}
    for name, least, most in (("seconds", 990, 1001), ("date", 3900, 4001), ("years", 300, 8 * 86400)):
        moment = datetime.fromisoformat(project.last(name)["not_before"])
        assert least <= moment.timestamp() - time.time() <= most, name
    run = run_sc(project, "retry", "--no-parse")
    assert server.count("/other") == 2
    assert {name: server.count(f"/{name}") for name in values} == dict.fromkeys(values, 1)
    assert "--now" in run.stderr
    run_sc(project, "retry", "--no-parse", "--now", check=3)
    assert project.in_state("success") == set(values)


@pytest.mark.case("C095")
def test_a_moment_that_has_passed_keeps_nothing_back(project: Project, serve: Serve) -> None:
    server = serve({"/a": [status(503, retry_after="301"), ok("x")]})
    project.put_url("a", f"{server.url}/a")
    crawl(project)
    path, moment = project.path_of("a"), project.last("a")["not_before"]
    path.write_text(path.read_text().replace(moment, "2020-01-01T00:00:00Z"))  # time goes by
    run_sc(project, "retry", "--no-parse", check=0)
    assert project.page("a") == b"x"


# ── requests that change things ──────────────────────────────────────────────────────────────────────────────────────

SENT_ONCE: dict[str, tuple[Part, ...]] = {  # it may have been carried out
    **{f"status-{code}": status(code) for code in (408, 500, 502, 504)},
    "reset": (RESET,),
    "closed": (CLOSE,),
    "truncated": cut(b"abc", claims=9),
    "timeout": (SILENCE,),
    "in-the-headers": (H200, CLOSE),
}
SENT_AGAIN: dict[str, tuple[Part, ...]] = {f"status-{code}": status(code) for code in (429, 503)}  # it was refused


def test_what_changes_things_is_sent_again_only_if_it_was_not_carried_out(project: Project, serve: Serve) -> None:
    server = serve()
    for method, line in CHANGING.items():
        for name, answer in (SENT_ONCE | SENT_AGAIN).items():
            server.on(f"/{method}-{name}", answer, ok("done"))
            limit = "max-time = 0.5" if SILENCE in answer else "max-time = 30"
            project.put_url(f"{method}-{name}", f"{server.url}/{method}-{name}", line, limit)
    for method in ("HEAD", "OPTIONS"):  # these change nothing
        server.on(f"/{method}", status(500), ok("done"))
        project.put_url(method, f"{server.url}/{method}", f'request = "{method}"')
    server.on("/GET", status(500), ok("done"))
    project.put_url("GET", f"{server.url}/GET", "get", 'data = "a=1"')
    crawl(project, "-c", "50")
    counts = {name: server.count(f"/{name}") for method in CHANGING for name in (f"{method}-{n}" for n in SENT_ONCE)}
    assert counts == dict.fromkeys(counts, 1)
    again = {f"{method}-{name}" for method in CHANGING for name in SENT_AGAIN}
    assert project.in_state("success") == again | {"HEAD", "OPTIONS", "GET"}
    assert {name: server.count(f"/{name}") for name in again} == dict.fromkeys(again, 2)


def test_a_post_that_was_sent_on_is_not_sent_again(project: Project, serve: Serve) -> None:
    """Post, redirect, get: the post was carried out, whatever becomes of the page after it."""
    server = serve({"/busy": status(503)})
    server.on("/post-busy", redirect("/busy", 303))
    server.on("/get-busy", redirect("/busy", 303))
    with refused_port() as port:
        server.on("/post-gone", redirect(f"http://127.0.0.1:{port}/", 303))
        for name in ("post-busy", "post-gone"):
            project.put_url(name, f"{server.url}/{name}", "location", 'data = "a=1"')
        project.put_url("get-busy", f"{server.url}/get-busy", "location")
        crawl(project, "--retries", "1")
    assert [server.count(f"/{name}") for name in ("post-busy", "post-gone", "get-busy")] == [1, 1, 2]


# ── while a task waits ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_that_goes_away_while_its_task_waits_fails_that_task_only(project: Project, serve: Serve) -> None:
    body = project.workdir / "body.txt"
    body.write_text("a=1")

    def busy(_: Request) -> Answer:
        body.unlink()
        return status(503)

    server = serve({"/a": busy, "*": [status(503), ok("x")]})
    project.put_url("a", f"{server.url}/a", 'data = "@body.txt"')
    project.put_url("b", f"{server.url}/b")
    crawl(project)
    assert project.page("b") == b"x"
    assert project.reason("a") in ("config", "io") and "body.txt" in project.last("a")["detail"]


def test_the_last_failed_answer_is_kept_for_show(project: Project, serve: Serve) -> None:
    """Aside, under a name that is no page's; each try replaces it."""
    server = serve({"/a": [status(500, "first"), status(502, "second"), status(404, "third" * 400_000)]})
    project.put_url("a", f"{server.url}/a")
    crawl(project)
    assert (project.workdir / "html" / ".a.error").read_bytes() == b"third" * 400_000
    assert "html/.a.error" in run_sc(project, "show", "a", check=0).stdout


def test_a_page_that_is_well_in_the_end_shows_no_failed_answer(project: Project, serve: Serve) -> None:
    server = serve({"/a": [status(500, "first"), ok("well")]})
    project.put_url("a", f"{server.url}/a")
    crawl(project)
    assert ".a.error" not in run_sc(project, "show", "a", check=0).stdout
