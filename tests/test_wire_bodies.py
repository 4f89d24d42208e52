"""Bodies: the same task sends the same bytes by `sc` and by curl, the boundary of a form apart."""

from __future__ import annotations

from conftest import Serve
from helpers import Project
from wire_helpers import NEEDS_CURL, Table, answer, assert_same, run_table

pytestmark = NEEDS_CURL

NO_EXPECT = 'header = "Expect:"'  # curl 7.88 sends it with every upload; test_wire_newer_curl.py compares without this

DATA: Table = {
    "data-more-and-empty": ('data = "b=2"', 'data = ""'),
    "data-file-empty": ('data = "@empty.txt"',),
    "data-chunked": ('data = "a=1"', 'header = "Transfer-Encoding: chunked"'),
    "data-large": (f'data = "{"x" * 90_000}"',),
    "data-no-expect": ('data-binary = "@large.bin"', NO_EXPECT),
    "data-own-expect": ('data = "a=1"', 'header = "Expect: 100-continue"'),
    "data-urlencode-line-ends": ('data-urlencode = "a=b\\r\\nc\\t%"',),
    "data-urlencode-empty": ('data-urlencode = "a="', 'data-urlencode = "="'),
    "json-no-accept": ('json = "{}"', 'header = "Accept:"'),
    "json-header-file": ('json = "{}"', 'header = "@headers.txt"'),
    "json-then-data": ('json = "{}"', 'data = "a=1"'),
    "json-put": ('json = "{}"', 'request = "PUT"'),
    "get-json": ("get", 'json = "1"'),
    "get-request": ("get", 'data = "a=1"', 'request = "POST"'),
}

FORMS: Table = {
    "form": ('form = "a=1"', 'form = "b=é"'),
    "form-string": ('form-string = "a=@body.txt"', 'form-string = "b=<x;type=y"'),
    "form-file": ('form = "a=@body.txt"',),
    "form-file-type": ('form = "a=@body.txt;type=text/csv;filename=\\"na \\\\\\"me.csv\\""',),
    "form-file-odd-name": ('form = "a=@\\"na me+é&;#?.txt\\""',),
    "form-content": ('form = "a=<body.txt"',),
    "form-content-type": ('form = "a=<body.txt;type=text/html"',),
    "form-files": ('form = "a=@body.txt,lines.txt"',),
    "form-large": ('form = "a=@large.bin"',),
    "form-binary": ('form = "a=@large.bin;type=image/png"', NO_EXPECT),
    "form-headers": ('form = "a=1;headers=\\"X-A: 1\\""', 'form = "b=2;headers=@part.txt"'),
    "form-group": (
        'form = "=(;type=multipart/alternative"',
        'form = "=plain"',
        'form = "= <b>text</b>;type=text/html"',
        'form = "=)"',
        'form = "a=1"',
    ),
    "form-escape": ("form-escape", 'form = "a\\"b=c"', 'form = "x=@body.txt;filename=\\"q\\\\\\"q\\""'),
    "form-quotes": ('form = "a\\"b=c"',),
    "form-own-type": ('form = "a=1"', 'header = "Content-Type: multipart/mixed"'),
    "form-get": ("get", 'form = "a=1"'),
    "form-put": ('form = "a=1"', 'request = "PUT"'),
    "form-query": ('form = "a=1"', 'url-query = "b=c d"'),
    "302/form": ('form = "a=1"', "location"),
    "307/form": ('form = "a=@body.txt"', "location"),
    "308/form-large": ('form = "a=@large.bin"', "location", NO_EXPECT),
    "form-digest": ('url = "SERVER/ask-digest/TASK"', 'form = "a=@body.txt"', 'user = "a:b"', "digest"),
}

UPLOADS: Table = {
    "upload": ('upload-file = "body.txt"', NO_EXPECT),
    "upload/": ('upload-file = "body.txt"', NO_EXPECT),
    "upload/#part": ('upload-file = "body.txt"', NO_EXPECT),
    "upload/odd/": ('upload-file = "na me+é&;#?.txt"', NO_EXPECT),
    "upload-folder/": ('upload-file = "var/etag.txt"', NO_EXPECT),
    "upload-bare": ('upload-file = "TASK.txt"', 'url = "SERVER"', NO_EXPECT),
    "upload-no-scheme": ('upload-file = "body.txt"', 'url = "HOST/TASK/"', NO_EXPECT),
    "upload-large": ('upload-file = "large.bin"',),
    "upload-get": ("get", 'upload-file = "body.txt"', NO_EXPECT),
    "upload-post": ('upload-file = "body.txt"', 'request = "POST"', NO_EXPECT),
    "upload-typed": ('upload-file = "body.txt"', 'header = "Content-Type: text/plain"', NO_EXPECT),
    "307/upload": ('upload-file = "body.txt"', "location", NO_EXPECT),
    "upload-query": ('upload-file = "body.txt"', 'url-query = "a=b c"', NO_EXPECT),
}


def test_data(project: Project, serve: Serve) -> None:
    assert_same(run_table(project, serve({"*": answer}), DATA))


def test_forms(project: Project, serve: Serve) -> None:
    assert_same(run_table(project, serve({"*": answer}), FORMS))


def test_uploads(project: Project, serve: Serve) -> None:
    assert_same(run_table(project, serve({"*": answer}), UPLOADS))


REFUSED: Table = {  # by curl as by us, before any request
    "form-and-data": ('form = "a=1"', 'data = "a=1"'),
    "upload-and-data": ('upload-file = "body.txt"', 'data = "a=1"'),
    "upload-and-form": ('upload-file = "body.txt"', 'form = "a=1"'),
    "head-and-data": ("head", 'data = "a=1"'),
    "head-and-json": ("head", 'json = "{}"'),
    "head-and-upload": ("head", 'upload-file = "body.txt"'),
    "head-and-data-and-request": ("head", 'data = "a=1"', 'request = "POST"'),
    "blank-in-get-data": ("get", 'data = "q=a b"'),
    "line-end-in-get-data": ("get", 'data-binary = "q=a\\nb"'),
    "no-such-protocol": ('proto = "=ftp"',),
    "no-such-upload": ('upload-file = "none.txt"',),
    "no-such-form-file": ('form = "a=@none.txt"',),
    "disallow-username-in-url": ("disallow-username-in-url", 'url = "http://a:b@HOST/TASK"'),
    "no-such-ca": ('cacert = "none.pem"', 'url = "https://HOST/TASK"'),
}


def test_what_curl_refuses_is_not_sent_by_us_either(project: Project, serve: Serve) -> None:
    ran = run_table(project, serve({"*": answer}), REFUSED)
    assert_same(ran, REFUSED)
    assert not any(ours.requests for ours, _ in ran.values())
