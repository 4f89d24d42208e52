"""The pasted commands of data/browser_commands.txt, and what the tests that use them share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from servers import Request

DATA = Path(__file__).parent / "data" / "browser_commands.txt"
SITE = "https://shop.example"

# What no task can hold, or only a shell can say; and a word of the reason that must be given.
REFUSED = [
    ("curl http://h/$(date)", "a command substitution"),
    ("curl http://h/`date`", "backticks"),
    ('curl "http://h/`date`"', "backticks"),
    ("curl http://h/ | jq .", "a pipe"),
    ("curl http://h/ > page.html", "a redirection"),
    ("curl http://h/ 2>/dev/null", "a redirection"),
    ("curl http://h/ -d @- <<< x", "a here-string"),
    ("curl http://h/ || true", "||"),
    ("(curl http://h/)", "a parenthesis"),
    ("curl http://h/?a=1&b=2", "an & outside quotes"),
    ("curl http://h/{a,b}", "braces outside quotes"),
    ("curl http://h/ -d *.txt", "a pattern of file names"),
    ("curl http://h/ -d ${X:-1}", "an expansion"),
    ("curl http://h/ -d $1", "a variable of the shell's own"),
    ("A=1 curl http://h/", "a variable set for one command"),
    ("curl http://h/ -K x", "nothing is included"),
    ("curl http://h/ --max-t 5", "--max-time"),
    ("curl http://h/ --header", "needs a value"),
    ("curl http://h/ --compressed=1", "takes no value"),
    ("curl http://h/ -request GET", "write --request"),
    ("curl http://h/ --no-header", "takes a value"),
    ("curl http://h/ -d @-", "standard input"),
    ("curl -L", "no url"),
    ("curl 'http://h/[3-1]'", "--globoff"),
    ("curl 'http://h/[1-99999]'", "10000"),
    ("curl 'http://h/ x'", "blank"),
    ("curl ftp.example.com", "another protocol"),
    ("curl http://h/ -T a -o html/x -o html/y", "outputs for"),
    ("curl http://h/ http://i/ -T a", "several urls"),
    ("curl http://h/ -d $'a\\0b'", "NUL"),
    ("curl http://h/ --data-raw $'\\x1b'", "can't hold"),
    ("curl 'http://h/", "no closing '"),
    ("curl http://h/ ''", "an empty word"),
    ("curl http://h/ -", "standard input"),
    ("wget http://h/", "no curl command"),
    ("curl \u201chttp://h/\u201d", "typographic"),
    ("curl http://h/ \u2013H 'a: b'", "typographic"),
    ("curl ftp://h/x", "http and https"),
    ("curl http://h/ -c cookies.txt", "lies outside var/"),
    ("sudo curl http://h/", "leave it out"),
    ("fetch('http://h/', {})", "JavaScript"),
    ('Invoke-WebRequest -UseBasicParsing -Uri "http://h/"', "PowerShell"),
    (
        '$session = New-Object Microsoft.PowerShell.Commands.WebRequestSession\nInvoke-WebRequest -Uri "x"',
        "PowerShell",
    ),
    ('curl.exe "http://h/" `\n  -H "a: b"', "PowerShell"),
    ('curl ^"http://h/^" | findstr x', "a pipe"),
    ('curl ^"http://h/^" > x', "a redirection"),
    ("curl http://h/?a=1&b=2 ^\n -s", "an & outside quotes"),
    ('curl "http://h/" ^\n --data "a"^\n"b"', "a line end that cmd.exe would lose"),
]


@dataclass
class Expected:
    """A request that a command stands for: `headers` must be in it; a body of None is not looked at."""

    method: str
    target: str
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes | None = None

    def differs_from(self, request: Request) -> str:
        """What of it the request does not have; empty where all is as it should be."""
        if (request.method, request.target) != (self.method, self.target):
            return f"{request.method} {request.target}"
        sent = {(name.lower(), value) for name, value in request.headers}
        missing = [header for header in self.headers if (header[0].lower(), header[1]) not in sent]
        if missing:
            return f"without {missing}: {request.head!r}"
        return "" if self.body is None or request.body == self.body else f"body {request.body!r}"


@dataclass
class Sample:
    """A command as it is pasted, SITE in it, and the requests it stands for."""

    name: str
    text: str
    requests: list[Expected]

    @property
    def is_bash(self) -> bool:
        return "-cmd" not in self.name


def samples() -> list[Sample]:
    return list(_samples(DATA.read_text(encoding="utf-8")))


def _samples(text: str) -> Iterator[Sample]:
    for part in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
        command, *requests = re.split(r"^--- ", part, flags=re.MULTILINE)
        name, _, pasted = command.partition("\n")
        if "windows-lines" in name:
            pasted = pasted.replace("\n", "\r\n")
        yield Sample(name, pasted, [_expected(request) for request in requests])


def _expected(text: str) -> Expected:
    first, *lines = text.rstrip("\n").split("\n")
    method, target = first.split(" ", 1)
    expected = Expected(method, target, body=b"" if method in ("GET", "HEAD") else None)
    for line in lines:
        if line.startswith("body "):
            expected.body = json.loads(line[5:]).encode()
        else:
            header, _, value = line.partition(":")
            expected.headers.append((header.encode(), value.strip().encode()))
    return expected
