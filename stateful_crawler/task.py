"""A task, one page to fetch: its text in a task file, and back. Pure.

A task file is a curl config file. Its comment lines that begin with `# sc: ` are records: see record.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

from stateful_crawler._version import __version__
from stateful_crawler.curl.config import Option, format_config, needs_globoff, parse_config
from stateful_crawler.curl.variables import ReadFile
from stateful_crawler.errors import TaskFileError, printable
from stateful_crawler.record import MAX_RECORD_BYTES, RECORD, Record, Stage, read_record, utc_now

USER_AGENT = f"stateful-crawler/{__version__}"
MAX_NAME_BYTES = 200

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
DATA_OPTIONS = frozenset({"data", "data-ascii", "data-raw", "data-binary", "data-urlencode", "json"})
BODY_OPTIONS = DATA_OPTIONS | {"form", "form-string", "upload-file"}
_IDENTIFYING = BODY_OPTIONS | {"url-query"}
# Where the page goes, said in other ways than by `output`; see _with_output.
_PLACES = frozenset({"output-dir", "remote-name", "remote-name-all"})
_NAME = re.compile(r"[A-Za-z0-9._-]+")
# Host and the rest of a url: scheme and port say little, and a password must not stand in a file name.
_SPOKEN = re.compile(r"(?:[^/?#]*://)?(?:[^/?#]*@)?(\[[^]/?#]*\]|[^/?#:]*)(?::[^/?#]*)?(.*)", re.S).fullmatch
# A task as `Task.text` writes it: a record, url, output, other options, more records. What the grammar refuses must
# not match: `@file` is a list of urls to curl, `-` its standard output.
_WRITTEN = re.compile(
    r"# sc: (\{[^\n]*+)\n"
    r'url = "((?!@)[^"\\\x00-\x20\x7f{}\[\]]++)"\n'
    r'output = "((?!-")[^"\\\x00-\x1f\x7f]++)"\n'
    r"((?:[a-z][^\n]*+\n)*+)"
    r"((?:# sc: [^\n]*+\n)*+)"
).fullmatch

_SPECIAL = re.compile("^(?:no-)?(?:output-dir|remote-|variable|expand-)", re.M).search

By = Literal["create", "import", "follow", "generate", "hand"]


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
        return [record for text in self.record_lines if (record := read_record(text))]

    @property
    def created(self) -> Record:
        """Who made the task, from which parent, with what meta; empty for one made by hand."""
        texts = (text for text in self.record_lines if '"by"' in text)
        return next((record for text in texts if (record := read_record(text)) and "by" in record.facts), Record({}))

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
        if "upload-file" in flags:
            return "PUT"
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
            if word in text and (record := read_record(text)) and record.stage == stage:
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


@lru_cache(maxsize=256)
def is_insecure(options: tuple[Option, ...]) -> bool:
    """Whether the task's options switch off the check of certificates, the server's or the proxy's."""
    return any(dict(options).get(name) is True for name in ("insecure", "proxy-insecure", "doh-insecure"))


def read_task(name: str, data: bytes, path: str, read_file: ReadFile | None = None) -> Task:
    """The task that the bytes of a file spell; raises TaskFileError with file and line.

    `read_file` gives the bytes of a file that a variable names; without it such a variable is refused.
    """
    text = data.decode("utf-8", "surrogateescape")
    if (written := _WRITTEN(text)) and (options := _read_block(written[4])) is not None:
        more = tuple(line[len(RECORD) :] for line in written[5].split("\n")[:-1]) if written[5] else ()
        return Task(name, written[2], written[3], options, (written[1], *more))
    return _read_any(name, text, path, read_file)


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
    same_host: bool = False,
) -> Task:
    """A task to add: named (after its url where no name is given), with its output and its created record.

    Raises ValueError for a name that is not safe on every file system, ValueError or TypeError for meta that JSON
    can't hold.
    """
    options = tuple(options)
    name = check_name(name) if name else name_for(url, options)
    named, options = _with_output(url, output or None, options, f"{name}.html")
    created: dict[str, Any] = {"v": 1, "created": utc_now(), "by": by}
    more = {"same_host": same_host, "parent": parent, "depth": depth, "meta": dict(meta or {})}
    created |= {key: value for key, value in more.items() if value}
    # "backslashreplace" can only meet lone surrogates, which JSON spells the same way.
    try:
        record = json.dumps(created, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")
    except (TypeError, ValueError) as error:
        raise ValueError(f"meta of task {name!r} can't be written as JSON: {error}") from None
    if len(record) > MAX_RECORD_BYTES:
        raise ValueError(f"meta of task {name!r} is over {MAX_RECORD_BYTES} bytes of JSON")
    return Task(name, url, named or f"html/{name}.html", options, (record.decode(),))


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

    The hash covers method, url without fragment, added query and body, so that ten POSTs to one url are ten tasks.
    """
    url = url.partition("#")[0]
    task = Task("", url, None, tuple(options))
    import hashlib  # here, not above: it loads OpenSSL, and only new tasks need it

    from stateful_crawler.redact import redact_url

    parts = [task.method, url, *(f"{o.name}={o.value}" for o in task.options if o.name in _IDENTIFYING)]
    digest = hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogateescape"), digest_size=5).hexdigest()
    spoken = _SPOKEN(redact_url(url) if "=" in url else url)  # a name stands in logs and in listings
    assert spoken  # every part of it may be empty
    slug = re.sub(r"[^A-Za-z0-9]+", "-", spoken[1].lower() + spoken[2]).strip("-")[:80].strip("-")
    return f"{slug}-{digest}" if slug else digest


@lru_cache(maxsize=512)
def _read_block(text: str) -> tuple[Option, ...] | None:
    """All options but url and output, kept by their text: most tasks of a crawl differ in those two alone.

    None where the block must be read with the rest of its file: it is wrong, has a second url or output, says in
    another way where the page goes, or holds variables (whose files may change).
    """
    if _SPECIAL(text):
        return None
    try:
        options = parse_config(f'url = "http://x/"\noutput = "x"\n{text}', "")
    except TaskFileError:
        return None
    return tuple(options[2:])


def _read_any(name: str, text: str, path: str, read_file: ReadFile | None = None) -> Task:
    """By the full grammar, which names the line at fault."""
    options = parse_config(text, path, read_file=read_file)
    values = {option.name: str(option.value) for option in options if option.name in ("url", "output")}
    rest = tuple(option for option in options if option.name not in values)
    records = tuple(line[len(RECORD) :] for line in text.split("\n") if line.startswith(RECORD))
    output, rest = _with_output(values["url"], values.get("output"), rest, f"{name}.html")
    task = Task(name, values["url"], output, rest, records)
    if Option("remote-header-name", True) in rest and (saved := _last_saved(task)):
        return replace(task, output=saved)  # as the server named it
    return task


def _with_output(
    url: str, output: str | None, options: tuple[Option, ...], default: str
) -> tuple[str | None, tuple[Option, ...]]:
    """Output and options with `output-dir` and `remote-name` worked out, so that nobody further on meets them.

    `default` names a page in an output-dir that nothing else names.
    """
    if not any(option.name in _PLACES for option in options):
        return output, options
    values = dict(options)
    folder = str(values.get("output-dir") or "html").rstrip("/")
    by_url = values.get("remote-name", values.get("remote-name-all")) is True
    if output is None and by_url:
        output = f"{folder}/{_last_part(url) or default}"
    elif "output-dir" in values:
        output = f"{folder}/{output or default}"
    return output, tuple(option for option in options if option.name not in _PLACES)


def _last_part(url: str) -> str:
    """What curl names a file by: the last part of the url's path, as it is spelt there."""
    path = re.split(r"[?#]", url.partition("://")[2] or url, maxsplit=1)[0]
    return path.rpartition("/")[2] if "/" in path else ""


def _last_saved(task: Task) -> str:
    records = (record for record in reversed(task.records) if record.stage == "fetch" and record.ok)
    saved = next((record.facts.get("saved") for record in records), "")
    return saved if isinstance(saved, str) else ""
