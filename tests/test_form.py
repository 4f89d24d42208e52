"""Multipart forms: the bytes against the real curl, and what is refused where curl would go wrong in silence."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pycurl
import pytest
from servers import FaultServer, Request, ok

from stateful_crawler.curl.config import Option
from stateful_crawler.curl.forms import END, FormError, HeaderLine, Part, guess_type, read_field, read_form
from stateful_crawler.errors import LocalFileError, TaskFileError
from stateful_crawler.fetch.form import build

CURL = shutil.which("curl")
needs_curl = pytest.mark.skipif(CURL is None, reason="no curl on this machine to compare with")

ENDINGS = ("gif", "jpeg", "png", "svg", "htm", "xml", "json", "txt2", "PDF")
FILES = {
    "a.txt": b"AAA\n",
    "b.html": b"<p>b</p>\r\n",
    "c": b"no ending\r\nand no line end",
    "D.JPG": b"\xff\xd8\x00\x01",
    "sub/e.svg": b"<svg/>",
    'n,1;2".txt': b"an awkward name",
    "é.pdf": b"%PDF",
    "page.html.gz": b"\x1f\x8b",
    "empty": b"",
    **{f"x.{ending}": b"x" for ending in ENDINGS},
    "headers": b"X-A: 1\r\n# a comment\nX-B:2  \n\nX-C: 3",
}


@pytest.fixture
def root(tmp_path: Path) -> str:
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "link.html").symlink_to("a.txt")
    return str(tmp_path)


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with FaultServer({"*": ok("x")}) as started:
        yield started


def sent_by_us(server: FaultServer, root: str, *fields: tuple[str, str]) -> Request:
    handle = pycurl.Curl()
    handle.setopt(pycurl.URL, server.url.encode())
    handle.setopt(pycurl.PROXY, b"")
    handle.setopt(pycurl.WRITEFUNCTION, lambda _data: None)
    build(handle, [Option(name, value) for name, value in fields], root, "t")
    handle.perform()
    handle.close()
    return server.requests[-1]


def sent_by_curl(server: FaultServer, root: str, *fields: tuple[str, str]) -> Request:
    arguments = [text for name, value in fields for text in (f"--{name}", os.fsdecode(value.encode()))]
    command = [str(CURL), "-q", "-sS", "-o", os.devnull, "--noproxy", "*", *arguments, server.url]
    subprocess.run(command, cwd=root, check=True, timeout=60, stdin=subprocess.DEVNULL)
    return server.requests[-1]


def body_of(request: Request) -> str:
    """The body of a multipart request, its boundaries numbered in the order in which they come."""
    [kind] = request.all("Content-Type")
    text = f"{kind.decode()}\r\n\r\n{request.body.decode('utf-8', 'surrogateescape')}"
    for number, boundary in enumerate(dict.fromkeys(re.findall(r"boundary=(\S+)", text)), 1):
        text = text.replace(boundary, f"<{number}>")
    return text


FORMS = [
    ["a=b"],
    ["a="],
    ["=no name"],
    ["a=b=c", "a=second", 'n "q" \\=x', "é=ü", "two\r\nlines=a\r\nb"],
    ["a=  blanks  "],
    ['a="  blanks; and a semicolon  "'],
    ['a="\\"quoted\\" and \\\\ and \\n"'],
    ['a="no closing quote'],
    ["a=b;"],
    ["a=b;type=text/html"],
    ["a=b;type=text/plain"],
    ["a=b;type=text/html; charset=utf-8"],
    ['a=b;type=text/html;charset="utf-8";filename=c.html'],
    ["a=b;filename=c.txt", "a=b;filename=c.png", "a=b;filename=c"],
    ['a=b; filename="x;y\\".png" '],
    ["a=b;TYPE=text/x;FileName= c "],
    ['a=b;headers="X-A: 1";headers=X-B:2'],
    ['a=b;headers="Content-Type: text/x"'],
    ["a=b;headers=@headers", "a=b;headers=< headers ;type=text/x"],
    ["a=b;encoder=base64", "a=b;encoder=8bit", "a=b;encoder=binary"],
    ["a=@a.txt"],
    ["a=@c"],
    ["a=@empty", "a=<empty"],
    ["a=@ b.html "],
    ['a=@"n,1;2\\".txt"', 'a=@"n,1;2\\".txt";filename=plain'],
    ["a=@é.pdf", "a=<é.pdf"],
    ["a=@sub/e.svg"],
    ["a=@link.html", "a=<link.html"],
    ["a=@D.JPG;type=text/x;filename=zz;headers=X-A:1;encoder=base64"],
    ["a=@c;filename=d.html", "a=@b.html;filename=d"],
    ["a=@a.txt,b.html"],
    ['a=@a.txt;type=text/x, "b.html" ;filename=zz.gif,c;headers="X: a,b"'],
    ["=@a.txt,c"],
    ["a=<a.txt"],
    ["a=<b.html"],
    ["a=<c;type=text/x;headers=X-A:1;encoder=base64"],
    ["a=<b.html;headers=content-type: x/y"],
    *[[f"a=@x.{ending}", f"a=<x.{ending}"] for ending in ENDINGS],
    ["a=@page.html.gz"],
    ["a=(", "b=c", "=@a.txt", "=)", "d=e"],
    ["=(;type=multipart/alternative", "=text;type=text/plain", "=<b.html;type=text/html", "=)", "f=@a.txt,c"],
    ['a=(;headers="X-A: 1";type=multipart/x; p=q', "b=(", "c=d", "=)", "=)"],
    ["a=(", "=)"],
    ["a=(", "b=c"],
]


@needs_curl
@pytest.mark.parametrize("fields", FORMS, ids=" ".join)
def test_a_form_is_sent_as_curl_sends_it(server: FaultServer, root: str, fields: list[str]) -> None:
    options = [("form", field) for field in fields]
    ours, curls = sent_by_us(server, root, *options), sent_by_curl(server, root, *options)
    assert body_of(ours) == body_of(curls)
    assert ours.method == curls.method == "POST"


@needs_curl
def test_a_quoted_printable_part_is_sent_as_curl_sends_it(server: FaultServer, root: str) -> None:
    """Its length isn't known before, so the body comes in chunks; their sizes hang on the length of the boundary."""
    field = ("form", "é=é\r\n=;encoder=quoted-printable")
    sent = [body_of(send(server, root, field)) for send in (sent_by_us, sent_by_curl)]
    ours, curls = (re.sub(r"(?m)^[0-9a-f]+\r\n", "", body) for body in sent)
    assert ours == curls
    assert "\r\n\r\n=C3=A9\r\n=3D\r\n" in ours


LITERAL = ["a=@x;type=y", 'b="q"; z ', "c=(", "=)", "d=<c", "e=a\r\nb"]


@needs_curl
def test_a_form_string_is_literal(server: FaultServer, root: str) -> None:
    options = [("form-string", field) for field in LITERAL]
    assert body_of(sent_by_us(server, root, *options)) == body_of(sent_by_curl(server, root, *options))


@needs_curl
@pytest.mark.parametrize("name", FILES)
def test_a_type_is_guessed_as_libcurl_guesses(server: FaultServer, root: str, name: str) -> None:
    quoted = name.replace('"', '\\"')
    sent = body_of(sent_by_curl(server, root, ("form", f'a=@"{quoted}"')))
    assert re.findall(r"\r\nContent-Type: (\S+)\r\n", sent) == [guess_type(name) or "application/octet-stream"]


def test_the_bytes_of_a_form(server: FaultServer, root: str) -> None:
    """What a curl that isn't there can't say."""
    fields = [("form", "a=1"), ("form", "b=@b.html"), ("form-string", "c=@"), ("form", "d=<b.html")]
    assert body_of(sent_by_us(server, root, *fields)) == "\r\n".join(
        [
            "multipart/form-data; boundary=<1>\r\n",
            '--<1>\r\nContent-Disposition: form-data; name="a"\r\n\r\n1',
            '--<1>\r\nContent-Disposition: form-data; name="b"; filename="b.html"\r\nContent-Type: text/html\r\n',
            "<p>b</p>\r\n",
            '--<1>\r\nContent-Disposition: form-data; name="c"\r\n\r\n@',
            '--<1>\r\nContent-Disposition: form-data; name="d"\r\nContent-Type: text/html\r\n\r\n<p>b</p>\r\n',
            "--<1>--\r\n",
        ]
    )


def test_a_header_file_is_read_as_curl_8_reads_it(server: FaultServer, root: str) -> None:
    """Older curls send a folded line as it stands."""
    Path(root, "folded").write_bytes(b"X-A: 1\r\n\n  and 2\nX-B:3 \n  # none\n\tx")
    sent = body_of(sent_by_us(server, root, ("form", "a=b;headers=@folded")))
    assert 'name="a"\r\nX-A: 1  and 2\r\nX-B:3\tx\r\n\r\nb' in sent


def test_files_are_read_when_they_are_sent(server: FaultServer, root: str) -> None:
    for content in ("first", "second"):
        Path(root, "a.txt").write_text(content)
        assert content in body_of(sent_by_us(server, root, ("form", "a=@a.txt"), ("form", "b=<a.txt")))


def test_a_large_file_is_streamed_whole(server: FaultServer, root: str) -> None:
    content = bytes(range(256)) * 8192
    Path(root, "large").write_bytes(content)
    assert content in sent_by_us(server, root, ("form", "a=@large")).body


@pytest.mark.parametrize("field", ["a=@{}", "a=<{}", "a=b;headers=@{}", "a=@a.txt,{}"])
def test_a_file_outside_the_workdir_is_not_sent(
    root: str, tmp_path_factory: pytest.TempPathFactory, field: str
) -> None:
    outside = tmp_path_factory.mktemp("elsewhere") / "secret"
    outside.write_text("X: secret")
    Path(root, "link").symlink_to(outside)
    for path in (str(outside), os.path.relpath(outside, root), "link"):
        with pytest.raises(TaskFileError, match="outside the workdir"):
            build(pycurl.Curl(), [Option("form", field.format(path))], root, "t")


@pytest.mark.parametrize("path", ["nope", "sub", "pipe", "locked"])
@pytest.mark.parametrize("mark", ["@", "<"])
def test_what_is_no_file_to_read_is_an_error_that_names_it(root: str, path: str, mark: str) -> None:
    os.mkfifo(Path(root, "pipe"))
    Path(root, "locked").write_bytes(b"")
    Path(root, "locked").chmod(0)
    if path == "locked" and os.access(Path(root, "locked"), os.R_OK):
        pytest.skip("this user may read everything")
    if path == "pipe" and mark == "<":
        pytest.skip("read_regular has its own test")
    with pytest.raises(LocalFileError, match=f"can't read {path}"):
        build(pycurl.Curl(), [Option("form", f"a={mark}{path}")], root, "t")


REFUSED = {
    "a": "no =",
    "": "no =",
    "a=@": "names no file",
    "a=<": "names no file",
    "a=@a.txt,": "names no file",
    "a=@;type=x/y": "names no file",
    "a=@-": "standard input",
    "a=<-": "standard input",
    'a=@"-"': "standard input",
    "a=b;headers=@-": "standard input",
    "a=@sub/": "a directory",
    "a=b;c": "goes on with",
    "a=@a.txt; charset=utf-8": "goes on with",
    'a="b" c': "after the closing quote",
    "a=b;type=": "not a media type",
    "a=b;type=html": "not a media type",
    "a=b;type=text/html extra": "not a media type",
    "a=b;type=text/html\r\nX: y": "not a media type",
    "a=b;type=a/b;type=c/d": "two type=",
    "a=b;headers=": "not a header",
    "a=b;headers=X": "not a header",
    'a=b;headers="X: 1\r\nY: 2"': "not a header",
    "a=b;encoder=": "encoder= is none",
    "a=b;encoder=gzip": "encoder= is none",
    "a=<c;filename=x": '"filename=" means nothing',
    "a=(;filename=": '"filename=" means nothing',
    "a=(;encoder=base64": '"encoder=" means nothing',
    "a=(b": 'after the "("',
}


@pytest.mark.parametrize(("field", "says"), REFUSED.items())
def test_what_curl_would_lose_is_refused(field: str, says: str) -> None:
    with pytest.raises(FormError) as caught:
        read_field(field)
    assert says in caught.value.problem
    assert caught.value.hint


def test_a_group_that_nothing_began_can_t_end(root: str) -> None:
    for fields in ([("form", "=)")], [("form", "a=("), ("form", "=)"), ("form", "=)")]):
        with pytest.raises(FormError, match="nothing began"):
            read_form(fields)
        with pytest.raises(TaskFileError, match="nothing began"):
            build(pycurl.Curl(), [Option(*field) for field in fields], root, "t")


def test_a_header_file_that_holds_no_headers_is_an_error(root: str) -> None:
    with pytest.raises(TaskFileError, match="not a header"):
        build(pycurl.Curl(), [Option("form", "a=b;headers=@a.txt")], root, "t")


def test_fields_are_frozen_values() -> None:
    field = 'a=@"x y";type=text/x; b=c;filename=n;headers=X:1;headers=@h;encoder=7bit'
    headers = (HeaderLine("X:1"), HeaderLine("h", from_file=True))
    assert read_field(field) == Part("file", "x y", "a", "n", "text/x; b=c", "7bit", headers)
    assert read_field("=)") is END
    assert read_field("=)", literal=True) == Part("text", ")")
    inner = Part("group", name="b", parts=(Part("text", "d", "c"),))
    assert read_form([("form", "a=("), ("form", "b=("), ("form", "c=d")]) == (Part("group", name="a", parts=(inner,)),)
