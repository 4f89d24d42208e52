"""Compares what `sc import-curl`, Scrapy and uncurl make of the same pasted commands; prints what the
table of docs/import-curl.md says.

    python tests/compare_importers.py PYTHON

PYTHON is that of an environment with scrapy and uncurl in it. Ours is measured by sending the task with real curl;
the others by what they return, read kindly: percent-encoding in the url, the order of cookies and quotes round their
values don't count.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from curl_samples import REFUSED, SITE, Expected, samples
from servers import FaultServer, ok

from stateful_crawler.curl.values import LineError
from stateful_crawler.curlimport import Wish, read_commands, tasks_of

# Run by the other python: reads a list of texts, writes for each what the two importers make of it.
THEIRS = """
import json, sys, warnings, importlib.metadata
import scrapy, uncurl
def by_scrapy(text):
    found = scrapy.Request.from_curl(text)
    headers = [(n.decode(), v.decode("utf-8", "replace")) for n, vs in found.headers.items() for v in vs]
    return found.method, found.url, headers, found.cookies or {}, found.body.decode("utf-8", "replace")
def by_uncurl(text):
    found = uncurl.parse_context(text)
    data = found.data or ""
    return found.method.upper(), found.url, list(found.headers.items()), dict(found.cookies), data
def ask(importer, text):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            return {"request": importer(text), "warned": len(said)}
        except BaseException as error:
            return {"refused": repr(error)[:200]}
texts = json.load(sys.stdin)
versions = {name: importlib.metadata.version(name) for name in ("scrapy", "uncurl")}
json.dump([versions, [[ask(by_scrapy, text), ask(by_uncurl, text)] for text in texts]], sys.stdout)
"""


def main(python: str) -> None:
    found = samples()
    texts = [sample.text for sample in found] + [text for text, _ in REFUSED]
    run = subprocess.run([python, "-c", THEIRS], input=json.dumps(texts), capture_output=True, text=True, check=True)
    versions, answers = json.loads(run.stdout)
    counts: dict[str, Counter[str]] = {name: Counter() for name in ("ours", "scrapy", "uncurl")}
    with FaultServer({"*": ok(b"")}) as server, tempfile.TemporaryDirectory() as folder:
        for sample, theirs in zip(found, answers, strict=False):
            verdicts = [ours(sample.text, sample.requests, server, Path(folder))]
            verdicts += [theirs_is(answer, sample.requests) for answer in theirs]
            say(f"{sample.name:40} {' | '.join(verdicts)}")
            for name, verdict in zip(counts, verdicts, strict=True):
                counts[name][verdict] += 1
    for (text, _), theirs in zip(REFUSED, answers[len(found) :], strict=True):
        taken = ["refused" if refuses(text) else "taken", *("refused" if "refused" in a else "taken" for a in theirs)]
        for name, verdict in zip(counts, taken, strict=True):
            counts[name][f"bad input {verdict}"] += 1
    say(f"{versions}: {len(found)} commands, {len(REFUSED)} that no request can hold")
    for name, count in counts.items():
        say(f"{name} {dict(count)}")


def say(line: str) -> None:
    sys.stdout.write(line + "\n")


def ours(text: str, requests: Sequence[Expected], server: FaultServer, folder: Path) -> str:
    before = len(server.requests)
    for command in read_commands(text.replace(SITE, server.url)):
        if command.fault:
            return "refused"
        for number, one in enumerate(tasks_of(command.words[1:], Wish())):
            path = folder / f"{number}.conf"
            path.write_bytes(one.task.text())
            (folder / "html").mkdir(exist_ok=True)
            subprocess.run(["curl", "-q", "-s", "-K", path], check=True, cwd=folder)
    sent = server.requests[before:]
    right = len(sent) == len(requests) and not any(e.differs_from(r) for e, r in zip(requests, sent, strict=True))
    return "right" if right else "wrong in silence"


def refuses(text: str) -> bool:
    try:
        return any(command.fault or not list(tasks_of(command.words[1:], Wish())) for command in read_commands(text))
    except LineError:
        return True


def theirs_is(answer: dict[str, Any], requests: Sequence[Expected]) -> str:
    if "refused" in answer:
        return "refused"
    if len(requests) == 1 and is_right(answer["request"], requests[0]):
        return "right"
    return "wrong with a warning" if answer["warned"] else "wrong in silence"


def is_right(request: list[Any], expected: Expected) -> bool:
    method, url, headers, cookies, body = request
    target = unquote(url.partition("#")[0].removeprefix(SITE))
    if (method, target) != (expected.method, unquote(expected.target)):
        return False
    sent = {(name.lower(), value) for name, value in headers}
    for name_, value_ in expected.headers:
        name, value = name_.decode().lower(), value_.decode()
        if name == "cookie":
            wanted = {pair.strip().replace('"', "") for pair in value.split(";")}
            if wanted != {f"{key}={content}".replace('"', "") for key, content in cookies.items()}:
                return False
        elif (name, value) not in sent:
            return False
    return bool(body) if expected.body is None and method == "POST" else body.encode() == (expected.body or b"")


if __name__ == "__main__":
    main(sys.argv[1])
