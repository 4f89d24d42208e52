"""Curl commands as people paste them -> tasks; pure.

A command keeps its meaning: what it asks of the server, the task asks. What is changed on the way is said in a note,
and what can't be kept is a fault of the command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from stateful_crawler.curl.bash import Command, split_bash
from stateful_crawler.curl.cmd import shell_of, split_cmd
from stateful_crawler.curl.command import Transfer, is_curl, transfers_of
from stateful_crawler.curl.config import Option
from stateful_crawler.curl.options import OPTIONS
from stateful_crawler.curl.values import LineError
from stateful_crawler.errors import TaskFileError, UsageError, printable
from stateful_crawler.task import DEFAULTS, Task, new_task, read_task

Shell = Literal["auto", "bash", "cmd"]
MAX_NUMBERS = 1_000_000


_FETCH = re.compile(r"\s*(?:await\s+)?fetch\(").match


@dataclass(frozen=True, slots=True)
class Wish:
    """What the tasks are to be called, and which part of the command is to count through `values`.

    `template` is a text with one `{placeholder}`; `name` may hold the same placeholder.
    """

    name: str = ""
    template: str = ""
    values: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Imported:
    """A task to add, and what was changed on the way from its command."""

    task: Task
    notes: tuple[str, ...]


def read_commands(text: str, shell: Shell = "auto", variables: Mapping[str, str] | None = None) -> list[Command]:
    """The curl commands of the text, those of another program with a fault. `variables`: see split_bash."""
    kind = shell_of(text) if shell == "auto" else shell
    if kind == "powershell" or _FETCH(text):
        command = Command(1)
        what = "PowerShell" if kind == "powershell" else "JavaScript"
        command.blame(1, f"this is {what}", "in the browser choose Copy as cURL (bash), or as cURL (cmd)")
        return [command]
    commands = split_cmd(text, variables) if kind == "cmd" else split_bash(text, variables)
    for command in commands:
        if not command.words or not is_curl(command.words[0]):
            command.blame(command.line, *_no_curl(command.words[0] if command.words else ""))
    return commands


def tasks_of(words: Sequence[str], wish: Wish) -> Iterator[Imported]:
    """The tasks of the command `curl WORDS`. Before the first is made: LineError for what a task can't hold, UsageError
    for a wish that can't be granted."""
    found = [_adapt(transfer) for transfer in transfers_of(words)]
    if wish.template:
        return _numbered(found, wish)
    if wish.name and len(found) > 1:
        raise UsageError(f"--name {wish.name}: the command stands for {len(found)} tasks, which can't share a name")
    return iter([Imported(_task(transfer, wish.name), notes) for transfer, notes in found])


def numbers(text: str) -> list[str]:
    """What `1..100`, `1..100..10` or `001..100` stands for; counts down where the first is the larger."""
    found = re.fullmatch(r"([0-9]{1,12})\.\.([0-9]{1,12})(?:\.\.([0-9]{1,12}))?", text, re.ASCII)
    if not found or (found[3] and int(found[3]) == 0):
        raise UsageError(
            f"--range {printable(text)!r}: write FIRST..LAST or FIRST..LAST..STEP, as in 1..100 or 001..100"
        )
    first, last, step = int(found[1]), int(found[2]), int(found[3] or 1)
    if abs(last - first) // step >= MAX_NUMBERS:
        raise UsageError(f"--range {text}: more than {MAX_NUMBERS} numbers")
    width = max(len(found[1]), len(found[2])) if found[1].startswith("0") and len(found[1]) > 1 else 0
    way = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
    return [str(number).zfill(width) for number in way]


# ── what is no curl command ─────────────────────────────────────────────────────────────────────────────────────────


def _no_curl(word: str) -> tuple[str, str]:
    if word.startswith("-"):
        return f"{word[:40]!r} begins a line", "does the line before end with a backslash, and nothing after it?"
    if word.startswith(("http://", "https://")):
        return "a url without curl before it", "write curl 'URL'"
    if word in ("sudo", "time", "env", "exec", "command", "nohup"):
        return f"{word} before the command", "leave it out"
    return f"{printable(word)[:40]!r} is no curl command", "only curl commands can be imported; nothing is run"


# ── a transfer as a task wants it ───────────────────────────────────────────────────────────────────────────────────

_BELOW_HTML = re.compile(r"html(?:/+[^./\x00-\x1f][^/\x00-\x1f]*)+/*").fullmatch
_CODINGS = frozenset({"gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress", "*"})
_FOREIGN_HOSTS = ("ftp.", "dict.", "ldap.", "imap.", "smtp.", "pop3.")  # what curl guesses another protocol by


def _adapt(transfer: Transfer) -> tuple[Transfer, tuple[str, ...]]:
    """The transfer with a scheme, a place below html/, what our libcurl decodes and the defaults; and the notes."""
    notes: list[str] = []
    options = _with_compressed(transfer.options, notes)
    output, options = _below_html(transfer.output, options, notes)
    silent = {option.name for option in options if OPTIONS.get(option.name) and _means_nothing(option.name)}
    if silent:
        notes.append(f"left out, without a meaning in a crawl: {', '.join(sorted(silent))}")
    options = tuple(option for option in options if option.name not in silent)
    if any(re.search("[\udc80-\udcff]", str(part)) for part in (transfer.url, *(option.value for option in options))):
        notes.append(r"holds bytes that are not UTF-8, as the shell reads them (Firefox and Safari write é as \xe9)")
    return Transfer(_with_scheme(transfer.url, options), output, _with_defaults(options)), tuple(notes)


def _means_nothing(name: str) -> bool:
    return OPTIONS[name].verdict == "no-effect"


def _with_compressed(options: tuple[Option, ...], notes: list[str]) -> tuple[Option, ...]:
    """A header Accept-Encoding would leave the body compressed; `compressed` asks for what libcurl decodes."""
    headers = [option for option in options if _asks_for_coding(option)]
    if not headers:
        return options
    notes.append(f"{headers[-1].value!r} became compressed, which asks for what can be decoded here")
    rest = tuple(option for option in options if option not in headers)
    return rest if dict(rest).get("compressed") else (*rest, Option("compressed", True))


def _asks_for_coding(option: Option) -> bool:
    name, _, value = str(option.value).partition(":")
    codings = {coding.partition(";")[0].strip().lower() for coding in value.split(",")}
    return option.name == "header" and name.strip().lower() == "accept-encoding" and bool(codings & _CODINGS)


def _below_html(
    output: str | None, options: tuple[Option, ...], notes: list[str]
) -> tuple[str | None, tuple[Option, ...]]:
    """Where the page goes, if below html/; elsewhere curl may write, but no task."""
    folder = dict(options).get("output-dir")
    place = output if folder is None else f"{folder}/{output or ''}"
    if place is None or _BELOW_HTML(place):
        return output, options
    notes.append(f"the page goes to html/, not to {printable(place)}")
    return None, tuple(option for option in options if option.name != "output-dir")


def _with_scheme(url: str, options: tuple[Option, ...]) -> str:
    """The url with the scheme that curl takes it to have, so that every reader of the task sees it."""
    if "://" in url.partition("?")[0]:
        if not re.match(r"(?i)https?://", url):
            raise LineError(f"{printable(url)[:60]!r} is not http or https", "tasks speak http and https")
        return url
    if url.lower().startswith(_FOREIGN_HOSTS):
        raise LineError(f"curl takes {printable(url)[:60]} for another protocol than http", "write http:// before it")
    return f"{dict(options).get('proto-default', 'http')}://{url}"


def _with_defaults(options: tuple[Option, ...]) -> tuple[Option, ...]:
    """The options, and of our defaults those that leave the meaning of the command as it is."""
    names = {option.name for option in options}
    names |= {"fail"} if "fail-with-body" in names else set()
    agents = [
        o for o in options if o.name == "header" and str(o.value).lower().startswith(("user-agent:", "user-agent;"))
    ]
    names |= {"user-agent"} if agents else set()
    return (*options, *(o for o in DEFAULTS if o.name not in names | {"location", "compressed"}))


def _task(transfer: Transfer, name: str, meta: Mapping[str, int | str] | None = None) -> Task:
    """The task, read back from its own text: what a run would refuse is refused here."""
    try:
        task = new_task(
            transfer.url, by="import", name=name, options=transfer.options, output=transfer.output or "", meta=meta
        )
        read_task(task.name, task.text(), f"origin/{task.name}.conf")
    except TaskFileError as error:
        raise LineError(error.problem, error.hint) from None
    except ValueError as error:
        raise LineError(str(error)) from None
    return task


# ── many tasks out of one command ───────────────────────────────────────────────────────────────────────────────────

_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}", re.ASCII)


def _numbered(found: Sequence[tuple[Transfer, tuple[str, ...]]], wish: Wish) -> Iterator[Imported]:
    placeholder, pattern = _pattern(wish.template)
    spelled = "{" + placeholder + "}"

    def task(transfer: Transfer, value: str) -> Task:
        meta = {placeholder: value if value != str(int(value)) else int(value)}
        filled = _filled(transfer, pattern, wish.template.replace(spelled, value))
        return _task(filled, wish.name.replace(spelled, value), meta)

    for transfer, _ in found:
        if not any(pattern.search(text) for text in _texts(transfer)):
            raise UsageError(
                f"--template {wish.template!r} matches nothing in {printable(transfer.url)} and its options"
            )
    # One of each transfer and the second of the first tell whether the names differ: they cover url, method and body.
    tried = [task(transfer, value) for transfer, _ in found[:1] for value in wish.values[:2]]
    tried += [task(transfer, wish.values[0]) for transfer, _ in found[1:]]
    if len({one.name for one in tried}) < len(tried):
        raise UsageError(f"the tasks would share a name; `--name 'list-{spelled}'` makes one for each number")
    return (Imported(task(transfer, value), notes) for transfer, notes in found for value in wish.values)


def _pattern(template: str) -> tuple[str, re.Pattern[str]]:
    """The placeholder's name, and what finds the template with any number in its place.

    A word must not go on to either side: `id={id}` is not found in `uuid=7`.
    """
    places = set(_PLACEHOLDER.findall(template))
    if len(places) != 1:
        raise UsageError(f"--template {template!r}: it needs one placeholder, as in 'page={{page}}'")
    first, *others = [re.escape(part) for part in _PLACEHOLDER.split(template)[::2]]
    before = r"(?:(?<![0-9A-Za-z_])|(?<=%[0-9A-Fa-f]{2}))" if re.match(r"[\w{]", template) else ""
    after = r"(?![0-9A-Za-z_])" if re.search(r"[\w}]\Z", template) else ""
    return places.pop(), re.compile(f"{before}{first}(?P<number>[0-9]+){'(?P=number)'.join(others)}{after}")


def _texts(transfer: Transfer) -> Iterator[str]:
    yield transfer.url
    yield transfer.output or ""
    yield from (option.value for option in transfer.options if isinstance(option.value, str))


def _filled(transfer: Transfer, pattern: re.Pattern[str], text: str) -> Transfer:
    def fill(value: str) -> str:
        return pattern.sub(lambda _: text, value)

    options = tuple(o._replace(value=fill(o.value)) if isinstance(o.value, str) else o for o in transfer.options)
    return replace(transfer, url=fill(transfer.url), output=transfer.output and fill(transfer.output), options=options)
