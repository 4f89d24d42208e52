"""What happened to a task: Outcome, what one step did; Record, the line that tells of it in the task's file. Pure.

A record is a comment for curl: `# sc: ` and one JSON object.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from stateful_crawler.reasons import Reason

RECORD = "# sc: "
MAX_RECORD_BYTES = 64 * 1024 - len(RECORD) - 1  # of its JSON: the line as a whole is at most 64 KiB

Stage = Literal["fetch", "parse"]
_NO_FACTS: Mapping[str, Any] = {}
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
_quote = json.encoder.encode_basestring


@dataclass(frozen=True, slots=True)
class Record:
    """One `# sc: {…}` line: `facts` as written, JSON values only."""

    facts: Mapping[str, Any]

    @property
    def stage(self) -> str:
        """`fetch`, `parse`, …; empty for the record that says who created the task."""
        stage = self.facts.get("stage", "")
        return stage if isinstance(stage, str) else ""

    @property
    def ok(self) -> bool:
        """Whether the step that this record tells of went well."""
        return self.facts.get("ok") is True

    @property
    def headers(self) -> list[tuple[str, str]]:
        """The headers of the answer; what is no pair, because a hand was there, is passed over."""
        pairs = self.facts.get("headers")
        pairs = pairs if isinstance(pairs, list) else []
        return [(str(pair[0]), str(pair[1])) for pair in pairs if isinstance(pair, list) and len(pair) == 2]

    @property
    def status(self) -> int:
        """The status of the answer; 200 where it does not say."""
        status = self.facts.get("status")
        return status if isinstance(status, int) and status else 200

    def line(self) -> bytes:
        """The record as one line of a task file, at most 64 KiB: old curls refuse a file with a line over 100 kB."""
        return b"# sc: %b\n" % _fit(self.facts)


@dataclass(frozen=True, slots=True)
class Beside:
    """What an answer leaves beside its page.

    A file is its path from the workdir and its content. `cookies` are the lines that the task began with and those
    that it ended with, for the jar at `jar` (see jar.py). `modified` is when the page last changed on the server, in
    seconds since 1970; 0 where that isn't asked for, or not told. `name` is the file name that the server gave.
    """

    headers: tuple[str, bytes] | None = None
    etag: tuple[str, bytes] | None = None
    jar: str = ""
    cookies: tuple[bytes, bytes] = (b"", b"")
    modified: int = 0
    name: str = ""


class Outcome(NamedTuple):
    """What one step did to one task. `facts` go into the record as they are.

    For a fetch, `body` holds the answer up to 1 MiB; a larger one lies in the file `aside`.
    """

    stage: Stage
    ok: bool
    reason: Reason | None = None
    detail: str = ""
    facts: Mapping[str, Any] = _NO_FACTS
    body: bytes = b""
    aside: str | None = None
    retry_after_s: float | None = None
    beside: Beside | None = None

    def record(self, **more: Any) -> Record:
        """The record that tells of this outcome, stamped with the present time."""
        facts: dict[str, Any] = {"at": utc_now(), "stage": self.stage, "ok": self.ok}
        if not self.ok:
            facts |= {"reason": self.reason, "detail": self.detail}
        return Record({**facts, **self.facts, **more})


def utc_now() -> str:
    """The present second in RFC 3339 form, as records write it."""
    return _stamp(int(time.time()))


def utc_at(second: float) -> str:
    """A moment, in seconds since 1970, in the same form."""
    return _stamp(int(second))


@lru_cache(maxsize=4)
def _stamp(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))


def read_record(text: str) -> Record | None:
    """The record that a line's JSON holds; None for a line torn by a power cut."""
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return Record(facts) if isinstance(facts, dict) else None


def _fit(facts: Mapping[str, Any]) -> bytes:
    """JSON that makes a line of at most 64 KiB: what is longest gives way first, and `cut` says so."""
    data = _json(facts)
    for shorter in _cuts(facts) if len(data) > MAX_RECORD_BYTES else ():
        data = _json(shorter | {"cut": True})
        if len(data) <= MAX_RECORD_BYTES:
            break
    return data


def _cuts(facts: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for limit in (8000, 1000, 100):
        yield {key: _shorten(value, limit) for key, value in facts.items()}
    yield {key: facts[key] for key in ("at", "stage", "ok", "reason", "status", "attempt", "bytes") if key in facts}


def _shorten(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return value[:limit]
    if isinstance(value, list | tuple):
        return [_shorten(part, limit) for part in value[: max(8, limit // 100)]]
    return value


def _json(facts: Mapping[str, Any]) -> bytes:
    """As json.dumps spells it. Each page needs it, and json's encoder costs a twentieth of a page's whole way."""
    parts = []
    for key, value in facts.items():
        kind = type(value)
        if kind is str:
            spelled = _quote(value)
        elif kind is int or kind is float:
            spelled = repr(value)
        elif kind is bool:
            spelled = "true" if value else "false"
        elif kind is list and value and type(value[0]) is tuple:  # the headers, most of which a server repeats
            spelled = f"[{', '.join(map(_spell_pair, value))}]"
        else:
            spelled = _encode(value)
        parts.append(f"{_quote(key)}: {spelled}")
    # "backslashreplace" can only meet lone surrogates, which JSON spells the same way.
    return f"{{{', '.join(parts)}}}".encode("utf-8", "backslashreplace")


@lru_cache(maxsize=1024)
def _spell_pair(pair: tuple[str, str]) -> str:
    return f"[{_quote(pair[0])}, {_quote(pair[1])}]"
