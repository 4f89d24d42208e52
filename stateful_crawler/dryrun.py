"""What a crawl would do with each task, without doing it: `sc plan`. Needs no lock, sends nothing, writes nothing."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from stateful_crawler.curl.config import Option
from stateful_crawler.errors import TaskFileError, UsageError, printable
from stateful_crawler.files import exists
from stateful_crawler.frontier import Frontier, natural_key
from stateful_crawler.pages import Pages
from stateful_crawler.redact import redact_option, redact_url
from stateful_crawler.task import BODY_OPTIONS, Task
from stateful_crawler.workdir import MAX_STEM_BYTES, SUFFIX, State, Workdir


@dataclass(frozen=True, slots=True)
class Planned:
    """One task as a crawl would take it. `problem` says why it would fail, and the rest is then what is known.

    `request` are the bytes of its first request, where they were asked for; `body_bytes` is None without a body.
    """

    name: str
    state: State
    method: str = ""
    url: str = ""
    output: str = ""
    body_bytes: int | None = None
    saved: bool = False
    problem: str = ""
    notes: tuple[str, ...] = ()
    request: bytes = b""


def planned(workdir: Workdir, names: Sequence[str], max_body_bytes: int, *, full: bool = False) -> Iterator[Planned]:
    """The named tasks, or all that a crawl would take in its order, one at a time: memory stays flat.

    With `full` each with its request. Raises UsageError for a name that no task has.
    """
    pages = Pages(workdir)
    for name in names or _in_order(workdir):
        if found := _planned(workdir, pages, name, max_body_bytes, full):
            yield found
        elif names:
            raise UsageError(f"there is no task {printable(name)!r}")


def _in_order(workdir: Workdir) -> Iterator[str]:
    """origin/ as a crawl goes through it; with what a dead run left in working/, which it takes back first."""
    left = workdir.names("working") if not workdir.running() and _there(workdir, "working") else iter(())
    origin = _origin(workdir) if _there(workdir, "origin") else iter(())
    return heapq.merge(sorted(left, key=natural_key), origin, key=natural_key)


def _origin(workdir: Workdir) -> Iterator[str]:
    frontier = Frontier(workdir)
    while (name := frontier.next_name()) is not None:
        yield name


def _there(workdir: Workdir, state: State) -> bool:
    return os.path.isdir(workdir.path(state, "", ""))


def _planned(workdir: Workdir, pages: Pages, name: str, max_body_bytes: int, full: bool) -> Planned | None:
    """None where the task has moved on for good, or never was."""
    for _ in range(3):  # it may move on between the look and the read
        state = workdir.state_of(name)
        if state is None:
            return None
        try:
            return _read(workdir, pages, name, state, max_body_bytes, full)
        except FileNotFoundError:
            continue
    return None


def _read(workdir: Workdir, pages: Pages, name: str, state: State, max_body_bytes: int, full: bool) -> Planned:
    try:
        if len(os.fsencode(name)) > MAX_STEM_BYTES:
            raise TaskFileError("", None, f"the task's name is over {MAX_STEM_BYTES} bytes", "give it a shorter one")
        task = workdir.read(state, name)
    except TaskFileError as error:
        return Planned(name, state, problem=_problem(error, state, name))
    except FileNotFoundError:
        raise
    except OSError as error:
        return Planned(name, state, problem=f"{state}/{printable(name)}{SUFFIX}: can't be read: {error.strerror}")
    known = Planned(name, state, task.method, task.url, task.page_output, saved=pages.has(task), notes=_notes(task))
    try:
        pages.check_output(task)
        request = _request(task, workdir.root, max_body_bytes, full)
    except TaskFileError as error:
        return replace(known, problem=_problem(error, state, name))
    if not known.saved and task.output not in (None, f"html/{name}.html") and exists(pages.path_of(task)):
        known = replace(known, notes=(*known.notes, "a file stands there already: the page must be this task's own"))
    size = len(request.partition(b"\r\n\r\n")[2]) if _has_body(task) else None
    return replace(known, body_bytes=size, request=request if full else b"")


def _request(task: Task, root: str, max_body_bytes: int, full: bool) -> bytes:
    """The request, where it is asked for or its body must be measured; else only a look whether it could be made."""
    from stateful_crawler.fetch.rehearse import check, rehearse  # here, not above: a listing needs no libcurl

    if full or _has_body(task):
        return rehearse(task, root, max_body_bytes)
    check(task, root, max_body_bytes)
    return b""


def _has_body(task: Task) -> bool:
    return any(name in BODY_OPTIONS for name, _ in task.options) and dict(task.options).get("get") is not True


def _problem(error: TaskFileError, state: State, name: str) -> str:
    return str(TaskFileError(f"{state}/{name}{SUFFIX}", error.line, error.problem, error.hint))


def _notes(task: Task) -> tuple[str, ...]:
    """What the bytes of the first request don't tell."""
    said = dict(task.options)
    notes = []
    if said.get("location") or said.get("location-trusted") or said.get("follow"):
        notes.append("follows redirects")
    if proxy := _proxy(task):
        notes.append(f"goes through the proxy {redact_url(proxy)}")
    if any(said.get(name) for name in ("digest", "anyauth", "negotiate")):
        notes.append("the server is asked first, then the request is sent again with what it wants")
    if said.get("insecure"):
        notes.append("the certificate is not checked")
    if said.get("hsts"):
        notes.append("the hsts file may turn http into https")
    return tuple(notes)


def _proxy(task: Task) -> str:
    """The proxy of the task, else of the environment, as libcurl would take it."""
    said = dict(task.options)
    for name in ("proxy", "proxy1.0", "preproxy", "socks5", "socks5-hostname", "socks4", "socks4a"):
        if name in said:
            return str(said[name])
    scheme = "https" if task.url.lower().startswith("https:") else "http"
    names = [f"{scheme}_proxy", "all_proxy", "ALL_PROXY"] + (["HTTPS_PROXY"] if scheme == "https" else [])
    return next((value for name in names if (value := os.environ.get(name))), "")


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def without_secrets(request: bytes) -> bytes:
    """The request with what looks like a password, a token or a cookie hidden; its Content-Length stays as it was."""
    head, gap, body = request.decode("utf-8", "surrogateescape").partition("\r\n\r\n")
    first, *headers = head.split("\r\n")
    method, _, rest = first.partition(" ")
    target, _, version = rest.rpartition(" ")
    lines = [f"{method} {redact_url(target)} {version}", *(_hidden("header", line) for line in headers)]
    at = "@" if body.startswith("@") else ""  # which to the option would name a file
    return ("\r\n".join(lines) + gap + at + _hidden("data", body[len(at) :])).encode("utf-8", "surrogateescape")


def _hidden(name: str, value: str) -> str:
    return str(redact_option(Option(name, value)).value)
