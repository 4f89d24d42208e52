"""The transfers under way: libcurl's multi interface, driven by its sockets and its timer, in the caller's thread.

No user code runs here and nothing blocks but `wait`: libcurl's clocks go on while a thread is held up, and transfers
would time out falsely. Limits per host are not libcurl's either: transfers that it queues burn their own time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pycurl

from stateful_crawler import files
from stateful_crawler.errors import EnvironmentFault, TaskFileError, printable
from stateful_crawler.fetch import beside, verdict
from stateful_crawler.fetch.guarding import AddressGuard, Gate
from stateful_crawler.fetch.onward import Onward, raw_target
from stateful_crawler.fetch.poll import new_poller
from stateful_crawler.fetch.setup import Wanted, prepare, recipe_of
from stateful_crawler.guard import Networks
from stateful_crawler.record import Outcome
from stateful_crawler.task import Task, is_insecure
from stateful_crawler.urls import without_userinfo
from stateful_crawler.workdir import Claim

IN_MEMORY_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The hard limits of a transfer; what the task itself says can only be stricter."""

    connections: int = 3
    max_body_bytes: int = 64 * 1024 * 1024
    allow_private: Networks = ()


class _Transfer:
    """One handle under way and what has come in so far. Callbacks never raise: pycurl would print and lose it."""

    __slots__ = (
        "aside",
        "aside_path",
        "chunks",
        "claim",
        "cookies_before",
        "fault",
        "gate",
        "handle",
        "header_lines",
        "onward",
        "redirects_before",
        "size",
        "task",
        "wanted",
    )

    def __init__(self, claim: Claim, task: Task, handle: pycurl.Curl, wanted: Wanted, aside_path: str) -> None:
        self.claim, self.task, self.handle = claim, task, handle
        self.wanted, self.aside_path = wanted, aside_path
        self.gate: Gate | None = None
        self.header_lines: list[bytes] = []
        self.chunks: list[bytes] = []
        self.cookies_before = b""
        self.onward = ""  # where a redirect leads that libcurl can't follow
        self.redirects_before = 0  # those that were followed so far
        self.size = 0
        self.aside = -1
        self.fault: OSError | None = None

    def header(self, line: bytes) -> int | None:
        """libcurl's header callback: None takes the line, 0 ends the transfer, after all headers of a redirect that
        leads to a host in raw letters."""
        self.header_lines.append(line)
        if line[0] in b"Ll" and (target := raw_target(line)):
            self.onward = target
        return 0 if self.onward and line in (b"\r\n", b"\n") else None

    def write(self, chunk: bytes) -> int | None:
        """libcurl's write callback: None takes the chunk, 0 ends the transfer."""
        self.size += len(chunk)
        if self.size > self.wanted.max_body_bytes:
            return 0
        if self.aside < 0 and self.size <= IN_MEMORY_BYTES:
            self.chunks.append(chunk)
            return None
        try:
            self._spill(chunk)
        except OSError as error:
            self.fault = error
            return 0
        return None

    def close(self, *, keep: bool) -> None:
        """End the aside file; remove it unless the transfer was good."""
        self.handle.close()
        if self.aside >= 0:
            os.close(self.aside)
            if not keep:
                files.remove(self.aside_path)

    @property
    def lead(self) -> list[bytes]:
        """What the page begins with before the body: the headers, if the task says `include` or `head`."""
        return self.header_lines if self.wanted.include or self.wanted.head else []

    def _spill(self, chunk: bytes) -> None:
        if self.aside < 0:
            os.makedirs(os.path.dirname(self.aside_path), exist_ok=True)
            self.aside = files.open_aside(self.aside_path)
            files.write_all(self.aside, b"".join(self.lead + self.chunks))
            self.chunks.clear()
        files.write_all(self.aside, chunk)


class Fetcher:
    """A counted pool of connections. `start` while there is `room`, then `wait` for what ends."""

    def __init__(
        self, root: str, limits: Limits, page_aside: Callable[[str], str], guard: AddressGuard | None = None
    ) -> None:
        self._root, self._limits, self._page_aside = root, limits, page_aside
        self._guard = guard or AddressGuard(limits.allow_private)
        self._poller = new_poller()
        self._multi = pycurl.CurlMulti()
        self._timers: list[int] = []  # milliseconds, as libcurl set its one timer since the last look; the last counts
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._poller.on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._timers.append)
        self._multi.setopt(pycurl.M_MAXCONNECTS, max(64, 2 * limits.connections))
        self._due: float | None = None
        self._under_way: dict[pycurl.Curl, _Transfer] = {}
        self._watched: set[int] = set()

    @property
    def under_way(self) -> int:
        """Transfers that hold a connection now."""
        return len(self._under_way)

    @property
    def room(self) -> int:
        """How many more may be started."""
        return self._limits.connections - len(self._under_way)

    def watch(self, fd: int) -> None:
        """Let `wait` return when `fd` can be read; the caller reads it."""
        self._poller.watch(fd, pycurl.POLL_IN)
        self._watched.add(fd)

    def start(self, claim: Claim, task: Task) -> None:
        """Begin the task's transfer; raises TaskFileError where its options can't be carried out."""
        try:
            handle, wanted = prepare(task, self._root, self._limits.max_body_bytes)
        except pycurl.error as error:
            raise TaskFileError(
                f"working/{task.name}.conf", None, f"libcurl refuses an option: {error.args[-1]}"
            ) from None
        except TaskFileError as error:
            path = error.path or f"working/{task.name}.conf"
            raise type(error)(path, error.line, error.problem, error.hint) from None
        transfer = _Transfer(claim, task, handle, wanted, self._page_aside(task.name))
        if wanted.reads_jar:
            transfer.cookies_before = beside.cookies_before(wanted, self._root, task.name)
        transfer.gate = self._guard.gate(handle, task, wanted.way, transfer.header_lines)
        handle.setopt(pycurl.HEADERFUNCTION, transfer.header if wanted.follow else transfer.header_lines.append)
        handle.setopt(pycurl.WRITEFUNCTION, transfer.write)
        self._under_way[handle] = transfer
        self._multi.add_handle(handle)
        self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)  # sends the request now, on a connection that is open

    def wait(self, timeout_s: float) -> list[tuple[Claim, Outcome]]:
        """What ended, after waiting for at most `timeout_s`; an empty list also when a watched fd can be read."""
        ended = self._ended()  # a fast server may have answered while `start` sent the request
        if self._timers:
            self._due = None if self._timers[-1] < 0 else time.monotonic() + self._timers[-1] / 1000
            self._timers.clear()
        if ended:
            timeout_s = 0.0
        elif self._due is not None:
            timeout_s = min(timeout_s, max(0.0, self._due - time.monotonic()))
        for fd, ready in self._poller.wait(timeout_s):
            if fd not in self._watched:
                self._multi.socket_action(fd, ready)
        if self._due is not None and time.monotonic() >= self._due:
            self._due = None
            self._multi.socket_action(pycurl.SOCKET_TIMEOUT, 0)
        return ended + self._ended()

    def abandon(self) -> list[Claim]:
        """Break off all that is under way; the claims it was for."""
        claims = []
        for handle, transfer in self._under_way.items():
            self._multi.remove_handle(handle)
            transfer.close(keep=False)
            claims.append(transfer.claim)
        self._under_way.clear()
        return claims

    def close(self) -> None:
        """Close all connections."""
        self.abandon()
        self._multi.close()
        self._poller.close()

    # ── what has ended ───────────────────────────────────────────────────────────────────────────────────────────

    def _ended(self) -> list[tuple[Claim, Outcome]]:
        ended: list[tuple[Claim, Outcome]] = []
        remaining = 1
        while remaining:
            remaining, good, bad = self._multi.info_read(1000)
            ended += [self._finish(handle, 0, "") for handle in good]
            for handle, code, message in bad:
                if not self._under_way[handle].onward or not self._goes_on(handle):
                    ended.append(self._finish(handle, code, message))
        return ended

    def _finish(self, handle: pycurl.Curl, code: int, message: str) -> tuple[Claim, Outcome]:
        self._multi.remove_handle(handle)
        transfer = self._under_way.pop(handle)
        try:
            outcome = _judge(transfer, code, message)
        except BaseException:
            transfer.close(keep=False)
            raise
        transfer.close(keep=outcome.aside is not None)
        return transfer.claim, outcome

    def _goes_on(self, handle: pycurl.Curl) -> bool:
        """Send a transfer that was redirected to a host in raw letters on its way again, to that host in punycode."""
        transfer = self._under_way[handle]
        recipe = recipe_of(transfer.task.options, self._root, self._limits.max_body_bytes)
        followed = transfer.redirects_before + handle.getinfo(pycurl.REDIRECT_COUNT) + 1
        onward = Onward.after(handle, transfer.task, recipe.plan, transfer.onward, followed)
        if onward is None:
            return False
        self._multi.remove_handle(handle)  # whose options must not change while it is in there
        onward.set_on(handle, recipe)
        transfer.onward, transfer.redirects_before = "", followed
        self._multi.add_handle(handle)
        return True


def _judge(transfer: _Transfer, code: int, message: str) -> Outcome:
    """The outcome of a transfer that has ended: good when it is complete and its status is 2xx."""
    if transfer.fault is not None:
        raise EnvironmentFault.from_os(
            "can't write", transfer.aside_path, transfer.fault, "make room, then run the same command again"
        )
    answers = verdict.blocks(transfer.header_lines)
    bare = not transfer.size
    if transfer.lead:
        transfer.size += sum(map(len, transfer.lead))
    status, headers = answers[-1] if answers else (0, [])
    facts = _facts(transfer, answers, status, headers)
    outcome = _outcome(transfer, code, message, facts, headers, bare=bare)
    wanted = transfer.wanted
    if wanted.write_out:
        from stateful_crawler.fetch import writeout  # here, not above: few tasks want it

        facts["write_out"] = writeout.render(
            wanted.write_out,
            transfer.handle,
            headers=headers,
            method=transfer.task.method,
            url=transfer.task.url,
            error=(code, message),
            saved_as=transfer.task.page_output,
            retries=transfer.claim.attempt,
        )
    if not wanted.anything_beside:
        return outcome
    left = beside.left(wanted, transfer.handle, transfer.header_lines, status, headers, transfer.cookies_before)
    return outcome._replace(beside=left)


def _outcome(
    transfer: _Transfer, code: int, message: str, facts: dict[str, Any], headers: list[tuple[str, str]], *, bare: bool
) -> Outcome:
    status = facts.get("status", 0)
    wait_s = verdict.retry_after(headers, status)
    limit = transfer.wanted.max_body_bytes
    if transfer.size > limit or code == pycurl.E_FILESIZE_EXCEEDED:
        detail = f"the body is over {limit} bytes: the limit of --max-size, or of the task's max-filesize"
        return Outcome("fetch", False, "too-large", detail, facts, retry_after_s=wait_s)
    if code and transfer.gate and transfer.gate.refused:
        return Outcome("fetch", False, "forbidden", transfer.gate.sentence(_effective_url(transfer.handle)), facts)
    if code and transfer.onward:
        detail = f"the redirect to {printable(transfer.onward)[:200]} can't be followed"
        return Outcome("fetch", False, "redirect", detail, facts)
    if code:
        outcome = verdict.failed(transfer.handle, code, message, facts, wait_s)
        return _with_header_value(outcome, headers)
    if bare and not verdict.is_whole(transfer.header_lines):
        return Outcome("fetch", False, "truncated", "the answer ended within its headers", facts)
    aside = transfer.aside_path if transfer.aside >= 0 else None
    body = b"" if aside else b"".join(transfer.lead + transfer.chunks)
    if transfer.wanted.conditional and (status == 304 or transfer.handle.getinfo(pycurl.CONDITION_UNMET)):
        return Outcome("fetch", True, facts=facts | {"not_modified": True})
    if 200 <= status < 300 or not (status or bare):  # HTTP/0.9, where a task allows it, has no status
        return Outcome("fetch", True, facts=facts, body=body, aside=aside)
    leads_on = 300 <= status < 400 and any(name.lower() == "location" for name, _ in headers)
    hint = "; add `location` to the task to follow it" if leads_on else ""
    return Outcome("fetch", False, "http", f"the server answered {status}{hint}", facts, body, aside, wait_s)


def _with_header_value(outcome: Outcome, headers: list[tuple[str, str]]) -> Outcome:
    """A body that can't be decoded is the header's fault, so the sentence says what it was."""
    if outcome.reason != "content-encoding":
        return outcome
    value = ", ".join(value for name, value in headers if name.lower() == "content-encoding")
    detail = f"Content-Encoding: {value}: {outcome.detail}"
    return Outcome("fetch", False, outcome.reason, detail, outcome.facts, retry_after_s=outcome.retry_after_s)


def _facts(
    transfer: _Transfer, answers: list[tuple[int, list[tuple[str, str]]]], status: int, headers: list[tuple[str, str]]
) -> dict[str, Any]:
    """What the fetch record keeps, so that the page can be parsed again without the network."""
    handle = transfer.handle
    facts: dict[str, Any] = {}
    if status:
        facts["status"] = status
    url = without_userinfo(transfer.task.url)
    if redirects := transfer.redirects_before + handle.getinfo(pycurl.REDIRECT_COUNT):
        url = without_userinfo(_effective_url(handle)) or url
        facts["hops"] = verdict.hops(
            without_userinfo(transfer.task.url), answers, url if len(answers) > redirects else ""
        )
    facts["url"] = url
    if headers:
        facts["headers"] = headers
    if is_insecure(transfer.task.options):
        facts["insecure"] = True
    facts["bytes"] = transfer.size
    facts["seconds"] = round(handle.getinfo(pycurl.TOTAL_TIME), 3)
    return facts


def _effective_url(handle: pycurl.Curl) -> str:
    try:
        return str(handle.getinfo_raw(pycurl.EFFECTIVE_URL).decode("ascii", "backslashreplace"))[:8192]
    except pycurl.error:  # libcurl has none to tell for a url that it rejected itself
        return ""
