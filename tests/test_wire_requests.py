"""Methods, urls, headers, cookies, redirects, conditions: the same task sends the same bytes by `sc` and by curl."""

from __future__ import annotations

from conftest import Serve
from helpers import Project
from wire_helpers import NEEDS_CURL, Table, answer, assert_same, run_table

pytestmark = NEEDS_CURL

URLS: Table = {
    "no-scheme": ('url = "HOST/TASK"',),
    "proto-default": ('proto-default = "http"', 'url = "HOST/TASK"'),
    "proto-default-is-not-needed": ('proto-default = "https"', 'url = "SERVER/TASK"'),
    "user-in-url": ('url = "http://a:b%20c@HOST/TASK"',),
    "user-in-url-and-user": ('url = "http://a:b@HOST/TASK"', 'user = "c:d"'),
    "user-in-url-no-password": ('url = "http://a@HOST/TASK"',),
    "no-disallow-username-in-url": ("no-disallow-username-in-url", 'url = "http://a:b@HOST/TASK"'),
    "request-target": ('request-target = "*/TASK"', 'request = "OPTIONS"'),
    "request-target-query?q=1": ('request-target = "http://h.test/TASK?x=1"',),
    "query": ('url-query = "a=b c"',),
    "query-own?q=1": ('url-query = "a=b"', 'url-query = "c=é&d"'),
    "query-open?": ('url-query = "a=b"',),
    "query-amp?q=1&": ('url-query = "a=b"',),
    "query-fragment#part": ('url-query = "a=b"',),
    "query-own-fragment?q=1#part": ('url-query = "a=b"',),
    "query-raw": ('url-query = "+a=%20b&c"',),
    "query-raw-and-not": ('url-query = "+a=b"', 'url-query = "c=d e"', 'url-query = "+f"'),
    "query-bare": ('url-query = "b c"',),
    "query-equals": ('url-query = "=b c"',),
    "query-file": ('url-query = "@query.txt"',),
    "query-named-file": ('url-query = "n@query.txt"',),
    "query-empty": ('url-query = ""',),
    "query-and-data": ('url-query = "a=b"', 'data = "c=d"'),
    "query-and-get": ('url-query = "a=b"', "get"),
    "query-no-path": ('url-query = "a=TASK.x"', 'url = "SERVER"'),
    "302/query": ('url-query = "a=b"', "location"),
}

HEADERS: Table = {
    "user-agent-twice": ('user-agent = "a"', 'user-agent = "b"'),
    "302/referer-auto-follow": ('referer = ";auto"', "location"),
    "header-file": ('header = "@headers.txt"',),
    "header-file-and-own": ('header = "X-Zero: 0"', 'header = "@headers.txt"', 'header = "X-Four: 4"'),
    "header-connection": ('header = "Connection: close"',),
    "header-cookie": ('header = "Cookie: a=1"', 'cookie = "b=2"'),
    "302/header-host": ('header = "Host: h.test"', "location"),
    "cookie-file-and-own": ('cookie = "cookies.txt"', 'cookie = "a=1"'),
    "cookie-two-files": ('cookie = "cookies.txt"', 'cookie = "lasting.txt"'),
    "cookie-junk": ('cookie = "lasting.txt"', "junk-session-cookies"),
    "cookie-junk-and-own": ('cookie = "lasting.txt"', "junk-session-cookies", 'cookie = "a=1"'),
    "302/cookie-jar": ('cookie-jar = "var/TASK.jar"', "location"),
    "302/cookie-file-and-jar": ('cookie = "cookies.txt"', 'cookie-jar = "var/TASK.jar"', "location"),
    "http1.0": ("http1.0",),
    "http1.0-post": ("http1.0", 'data = "a=1"'),
    "http1.1-after-1.0": ("http1.0", "http1.1"),
    "compressed-own": ("compressed", 'header = "Accept-Encoding: x"'),
}

METHODS: Table = {
    "request-lower": ('request = "get"',),
    "head-and-request": ("head", 'request = "GET"'),
    "302/max-redirs-unlimited": ("location", "max-redirs = -1"),
    "302/max-redirs-one": ("location", "max-redirs = 1"),
    "302/302/max-redirs-two": ("location", "max-redirs = 2"),
    "302/max-redirs-none": ("location", "max-redirs = 0"),
    "302/302/max-redirs-reached": ("location", "max-redirs = 1"),
    "302/no-location-after-trusted": ("location-trusted", "no-location"),
    "302/proto-redir-none": ('proto-redir = "=https"', "location"),
    "302/proto-redir-minus": ('proto-redir = "-http"', "location"),
    "302/proto-redir-plus": ('proto-redir = "-all,+http"', "location"),
    "proto-none": ('proto = "=https"',),
    "proto-minus": ('proto = "-http"',),
    "proto-all": ('proto = "-all,http"',),
    "proto-bare": ('proto = "https"',),
    **{
        f"{code}/post{switches}": ("location", 'data = "a=1"', *(f"post{digits}" for digits in switches.split("-")[1:]))
        for code in (301, 302, 303, 307, 308)
        for switches in ("", "-301", "-302", "-303", "-301-302-303")
    },
    "302/no-post302": ("location", 'data = "a=1"', "post301", "post302", "no-post302"),
}

CONDITIONS: Table = {
    "range-post": ('range = "0-9"', 'data = "a=1"'),
    "continue-at": ("continue-at = 5", "head"),
    "continue-at-none": ("continue-at = 0",),
    "etag-compare": ('etag-compare = "var/etag.txt"',),
    "etag-compare-weak": ('etag-compare = "var/weak.txt"',),
    "etag-compare-empty": ('etag-compare = "var/empty.txt"',),
    "etag-compare-header": ('etag-compare = "var/etag.txt"', 'header = "X-A: 1"'),
    "etag-compare-own-header": ('etag-compare = "var/etag.txt"', 'header = "If-None-Match: x"'),
    "raw": ("raw",),
    "raw-compressed": ("raw", "compressed"),
    "time-cond": ('time-cond = "Tue, 01 Dec 2026 10:00:00 GMT"',),
    "time-cond-before": ('time-cond = "-Tue, 01 Dec 2026 10:00:00 GMT"',),
    "time-cond-plus": ('time-cond = "+1 Dec 2026"',),
    "time-cond-equals": ('time-cond = "=1 Dec 2026"',),
    "time-cond-file": ('time-cond = "dated.txt"',),
    "time-cond-before-file": ('time-cond = "-dated.txt"',),
    "time-cond-head": ('time-cond = "1 Dec 2026"', "head"),
    "time-cond-own-header": ('time-cond = "1 Dec 2026"', 'header = "If-Modified-Since: x"'),
}

DATES = """
    Sun, 06 Nov 1994 08:49:37 GMT|Sunday, 06-Nov-94 08:49:37 GMT|Sun Nov  6 08:49:37 1994|06 Nov 1994 08:49:37 GMT
    06-Nov-94 08:49:37 GMT|Nov  6 08:49:37 1994|06 Nov 1994 08:49:37|06-Nov-94 08:49:37|1994 Nov 6 08:49:37
    GMT 08:49:37 06-Nov-94 Sunday|94 6 Nov 08:49:37|1994 Nov 6|06-Nov-94|Sun Nov 6 94|1994.Nov.6|Sun/Nov/6/94/GMT
    Sun, 06 Nov 1994 08:49:37 CET|06 Nov 1994 08:49:37 EST|Sun, 12 Sep 2004 15:05:58 -0700
    Sat, 11 Sep 2004 21:32:11 +0200|20040912 15:05:58 -0700|20040911 +0200|20111205|1 Dec 2026 10:00 UTC
    Sep 11 2001|2024-Feb-29|30 Feb 2024|1 Jan 1970 00:00:00 GMT|1 Jan 1969|1 dec 2026|Tuesday 1 Dec 2026
    1 Dec 2026 23:59:60|1 Dec 70|1 Dec 71|1 Dec 1583|1 Dec 2026 +1400|1 Dec 2026 -0330|31 Dec 2026 9:5:7 GMT"""
ZONES = """GMT UT UTC WET Z WAT ADT AST EDT EST CDT CST MDT MST PDT PST YDT YST HDT HST CAT AHST NT IDLW BST CET MET
    MEWT FWT CEST MEST MESZ FST EET WAST WADT CCT JST EAST GST EADT NZT NZST IDLE NZDT"""
NO_DATES = """
    2026-12-01|2026-12-01 10:00:00|2026-12-01T10:00:00Z|12/01/2026|tomorrow|1 day ago|now|1764547200|no date
    6 november 2024|Fri, 32 Dec 2026|1 Dec 2026 24:00:00|1 Dec 100|1 Dec 1582|1 Dec 2026 +1401|1 1 2026
    1 Dec 2026 10:00:00.5 GMT|1 Dec 2026 GMT GMT|tues 1 Dec 2026|1 Dec 2026 10:00:00 GMT+0200|1 Dec 2026 MSK"""


def test_urls(project: Project, serve: Serve) -> None:
    assert_same(run_table(project, serve({"*": answer}), URLS))


def test_headers_and_cookies(project: Project, serve: Serve) -> None:
    assert_same(run_table(project, serve({"*": answer}), HEADERS))


def test_methods_and_redirects(project: Project, serve: Serve) -> None:
    failing = {name for name in METHODS if name.startswith("302/no-location")} | {
        "302/302/max-redirs-reached",
        "302/max-redirs-none",
        "302/proto-redir-minus",
        "302/proto-redir-none",
        "proto-minus",
        "proto-none",
    }
    assert_same(run_table(project, serve({"*": answer}), METHODS), failing)


def test_conditions(project: Project, serve: Serve) -> None:
    assert_same(run_table(project, serve({"*": answer}), CONDITIONS))


def test_dates(project: Project, serve: Serve) -> None:
    """The forms that curl's own manual lists, and others that every curl reads; all zones that they agree about."""
    dates = [*_listed(DATES), *(f"1 Dec 2026 12:00:00 {zone}" for zone in ZONES.split())]
    table = {f"date-{number}": (f'time-cond = "{date}"',) for number, date in enumerate(dates)}
    ran = run_table(project, serve({"*": answer}), table)
    assert_same({table[name][0]: pair for name, pair in ran.items()})
    assert all(b"\r\nIf-Modified-Since: " in ours.requests[0] for ours, _ in ran.values())


def test_what_curl_takes_for_no_date_is_refused(project: Project, serve: Serve) -> None:
    """curl says so, and asks without the condition."""
    table = {f"date-{number}": (f'time-cond = "{date}"',) for number, date in enumerate(_listed(NO_DATES))}
    ran = run_table(project, serve({"*": answer}), table)
    wrong = {table[name]: pair for name, pair in ran.items() if pair[0].went_well or b"If-" in pair[1].requests[0]}
    assert not wrong


def _listed(text: str) -> list[str]:
    return [date.strip() for line in text.split("\n") for date in line.split("|") if date.strip()]
