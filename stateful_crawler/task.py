"""The frozen values of a crawl: Task, Record, Outcome; their text in a task file and back. Pure.

A task file is a curl config file. Lines that begin with `# sc: ` are records, comments for curl: JSON objects that
say where the task came from and what happened to it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from stateful_crawler._version import __version__
from stateful_crawler.curlconfig import Option, format_config, needs_globoff, parse_config
from stateful_crawler.errors import TaskFileError, printable
from stateful_crawler.reasons import Reason

USER_AGENT = f"stateful-crawler/{__version__}"
MAX_NAME_BYTES = 200
RECORD = "# sc: "
MAX_RECORD_BYTES = 64 * 1024 - len(RECORD) - 1  # of its JSON: the line as a whole is at most 64 KiB

# What `sc create` writes into each task, so that plain curl does the very same transfer.
DEFAULTS = (
    Option("user-agent", USER_AGENT),
    Option("location", True),
    Option("compressed", True),
    Option("fail", True),
    Option("max-time", "60"),
    Option("connect-timeout", "15"),
)

NO_CONTENT = frozenset({204, 205})  # answers that have no body by their status (RFC 9110 section 15.3)
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
BODY_OPTIONS = frozenset({"data", "data-ascii", "data-raw", "data-binary", "data-urlencode", "json"})
_NAME = re.compile(r"[A-Za-z0-9._-]+")
# Host and the rest of a url: scheme and port say little, and a password must not stand in a file name.
_SPOKEN = re.compile(r"(?:[^/?#]*://)?(?:[^/?#]*@)?(\[[^]/?#]*\]|[^/?#:]*)(?::[^/?#]*)?(.*)", re.S).fullmatch
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
_quote = json.encoder.encode_basestring
# A task as `Task.text` writes it: a record, url, output, other options, more records. What the grammar refuses must
# not match: `@file` is a list of urls to curl, `-` its standard output.
_WRITTEN = re.compile(
    r"# sc: (\{[^\n]*+)\n"
    r'url = "((?!@)[^"\\\x00-\x20\x7f{}\[\]]++)"\n'
    r'output = "((?!-")[^"\\\x00-\x1f\x7f]++)"\n'
    r"((?:[a-z][^\n]*+\n)*+)"
    r"((?:# sc: [^\n]*+\n)*+)"
).fullmatch

By = Literal["create", "import", "follow", "generate", "hand"]
Stage = Literal["fetch", "parse"]
_NO_FACTS: Mapping[str, Any] = {}


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

    def line(self) -> bytes:
        """The record as one line of a task file, at most 64 KiB: old curls refuse a file with a line over 100 kB."""
        return b"# sc: %b\n" % _fit(self.facts)


@dataclass(frozen=True, slots=True)
class Task:
    """One page to fetch.

    `options` are all curl options but url and output, in file order; `record_lines` the records' JSON texts, read
    into values only when someone asks (`records`).
    """

    name: str
    url: str
    output: str | None = None
    options: tuple[Option, ...] = ()
    record_lines: tuple[str, ...] = ()

    @property
    def records(self) -> list[Record]:
        """The records that can be read; one torn by a power cut is passed over."""
        return [record for text in self.record_lines if (record := _read_record(text))]

    @property
    def created(self) -> Record:
        """Who made the task, from which parent, with what meta; empty for one made by hand."""
        texts = (text for text in self.record_lines if '"by"' in text)
        return next((record for text in texts if (record := _read_record(text)) and "by" in record.facts), Record({}))

    @property
    def meta(self) -> dict[str, Any]:
        """What create.py or the parent page's parser wanted this page's parser to know."""
        meta = self.created.facts.get("meta")
        return dict(meta) if isinstance(meta, dict) else {}

    @property
    def page_output(self) -> str:
        """Where the page is saved, relative to the workdir."""
        return self.output or f"html/{self.name}.html"

    @property
    def method(self) -> str:
        """The request's method as curl derives it from the options."""
        flags = dict(self.options)
        if isinstance(request := flags.get("request"), str) and request:
            return request
        if flags.get("head") is True:
            return "HEAD"
        return "POST" if BODY_OPTIONS & flags.keys() and flags.get("get") is not True else "GET"

    @property
    def changes_things(self) -> bool:
        """Whether sending the request twice may do something twice (RFC 9110 section 9.2.1)."""
        return self.method.upper() not in SAFE_METHODS

    def last(self, stage: Stage) -> Record | None:
        """The newest record of that stage."""
        word = f'"{stage}"'
        for text in reversed(self.record_lines):
            # Looked at before it is read: most tasks have only the record that says who created them.
            if word in text and (record := _read_record(text)) and record.stage == stage:
                return record
        return None

    def text(self) -> bytes:
        """The task as a file, in the plain form that every curl from 7.61 on reads the same way."""
        output = [Option("output", self.output)] if self.output else []
        options = [Option("url", self.url), *output, *self.options]
        if needs_globoff(self.url) and Option("globoff", True) not in self.options:
            options.append(Option("globoff", True))
        created, rest = self.record_lines[:1], self.record_lines[1:]
        lines = [
            *(RECORD + text + "\n" for text in created),
            format_config(options),
            *(RECORD + t + "\n" for t in rest),
        ]
        return "".join(lines).encode("utf-8", "surrogateescape")


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

    def record(self, **more: Any) -> Record:
        """The record that tells of this outcome, stamped with the present time."""
        facts: dict[str, Any] = {"at": utc_now(), "stage": self.stage, "ok": self.ok}
        if not self.ok:
            facts |= {"reason": self.reason, "detail": self.detail}
        return Record({**facts, **self.facts, **more})


def read_task(name: str, data: bytes, path: str) -> Task:
    """The task that the bytes of a file spell; raises TaskFileError with file and line."""
    text = data.decode("utf-8", "surrogateescape")
    if (written := _WRITTEN(text)) and (options := _read_block(written[4])) is not None:
        more = tuple(line[len(RECORD) :] for line in written[5].split("\n")[:-1]) if written[5] else ()
        return Task(name, written[2], written[3], options, (written[1], *more))
    return _read_any(name, text, path)


def new_task(
    url: str,
    *,
    by: By,
    name: str = "",
    options: Iterable[Option] = DEFAULTS,
    output: str = "",
    meta: Mapping[str, Any] | None = None,
    parent: str = "",
    depth: int = 0,
) -> Task:
    """A task to add: named (after its url where no name is given), with its output and its created record.

    Raises ValueError for a name that is not safe on every file system, ValueError or TypeError for meta that JSON
    can't hold.
    """
    options = tuple(options)
    name = check_name(name) if name else name_for(url, options)
    created: dict[str, Any] = {"v": 1, "created": utc_now(), "by": by}
    created |= {k: v for k, v in (("parent", parent), ("depth", depth), ("meta", dict(meta or {}))) if v}
    # "backslashreplace" can only meet lone surrogates, which JSON spells the same way.
    try:
        record = json.dumps(created, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")
    except (TypeError, ValueError) as error:
        raise ValueError(f"meta of task {name!r} can't be written as JSON: {error}") from None
    if len(record) > MAX_RECORD_BYTES:
        raise ValueError(f"meta of task {name!r} is over {MAX_RECORD_BYTES} bytes of JSON")
    return Task(name, url, output or f"html/{name}.html", options, (record.decode(),))


def check_name(name: str) -> str:
    """The name itself, if it may stand in any file system and any shell unquoted; else ValueError."""
    if not _NAME.fullmatch(name) or name.startswith(".") or len(name) > MAX_NAME_BYTES:
        raise ValueError(
            f"task name {printable(name)[:80]!r}: use letters, digits, '.', '_' and '-' only, no dot in front,"
            f" at most {MAX_NAME_BYTES} characters; or leave it out and one is made from the url"
        )
    return name


def name_for(url: str, options: Iterable[Option] = ()) -> str:
    """A name that a person recognises and that is the same for the same request: a slug of the url and a hash.

    The hash covers method, url without fragment and body, so that ten POSTs to one url are ten tasks.
    """
    url = url.partition("#")[0]
    task = Task("", url, None, tuple(options))
    import hashlib  # here, not above: it loads OpenSSL, and only new tasks need it

    parts = [task.method, url, *(f"{o.name}={o.value}" for o in task.options if o.name in BODY_OPTIONS)]
    digest = hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=5).hexdigest()
    spoken = _SPOKEN(url)
    assert spoken  # every part of it may be empty
    slug = re.sub(r"[^A-Za-z0-9]+", "-", spoken[1].lower() + spoken[2]).strip("-")[:80].strip("-")
    return f"{slug}-{digest}" if slug else digest


def utc_now() -> str:
    """The present second in RFC 3339 form, as records write it."""
    return _stamp(int(time.time()))


def utc_at(second: float) -> str:
    """A moment, in seconds since 1970, in the same form."""
    return _stamp(int(second))


@lru_cache(maxsize=4)
def _stamp(second: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))


@lru_cache(maxsize=512)
def _read_block(text: str) -> tuple[Option, ...] | None:
    """All options but url and output, kept by their text: most tasks of a crawl differ in those two alone.

    None where the block is wrong, or has a second url or output.
    """
    try:
        options = parse_config(f'url = "http://x/"\noutput = "x"\n{text}', "")
    except TaskFileError:
        return None
    return tuple(options[2:])


def _read_any(name: str, text: str, path: str) -> Task:
    """By the full grammar, which names the line at fault."""
    options = parse_config(text, path)
    values = {option.name: str(option.value) for option in options if option.name in ("url", "output")}
    rest = tuple(option for option in options if option.name not in values)
    records = tuple(line[len(RECORD) :] for line in text.split("\n") if line.startswith(RECORD))
    return Task(name, values["url"], values.get("output"), rest, records)


def _read_record(text: str) -> Record | None:
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
