"""Inside a parser process: read saved pages, call the user's parse(), write the items aside.

The user's code may do anything here: hang, exit, crash. Whatever it does costs the page that it was at, never more.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, MutableSequence
from typing import Any

from stateful_crawler import files, plugins
from stateful_crawler.errors import PluginError, TaskFileError
from stateful_crawler.page import Page
from stateful_crawler.pages import Pages
from stateful_crawler.record import Outcome, Record
from stateful_crawler.task import NO_CONTENT, Task
from stateful_crawler.workdir import Workdir

MAX_PAGE_BYTES = 1 << 31
MAX_TRACEBACK = 4000
SAFE_PATH, OURS = "PYTHONSAFEPATH", "sc"


class _Worker:
    """What one process keeps between pages: the workdir, the plugin, and the place where it notes the page it is at."""

    def __init__(self, root: str, plugin: plugins.Plugin, timeout_s: float, places: MutableSequence[int]) -> None:
        self.workdir, self.plugin, self.timeout_s, self.places = Workdir(root), plugin, timeout_s, places
        self.pages = Pages(self.workdir)
        self.digest = ""
        self._parse: Callable[[Page], Any] | None = None

    @property
    def parse(self) -> Callable[[Page], Any]:
        """The user's parse(), loaded once for each process."""
        if self._parse is None:
            with _users_turn:
                self._parse = plugins.load(self.plugin, "parse", interrupts_too=True)
            self.digest = plugins.code_digest(self.plugin)
        return self._parse


_worker: _Worker


def set_up(root: str, plugin: plugins.Plugin, timeout_s: float, places: MutableSequence[int]) -> None:
    """Make this process a parser process: quiet on stdout, deaf to Ctrl-C, dead with its parent."""
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole terminal group; the parent decides
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    if os.environ.get(SAFE_PATH) == OURS:
        del os.environ[SAFE_PATH]
    sys.stdout = sys.__stdout__ = sys.stderr  # type: ignore[assignment,misc]  # a stream is a stream
    os.dup2(2, 1)  # stdout is data: what a parser, or a library in C, prints must not get into it
    _die_with_parent()
    _never_exit_with_0()
    _worker = _Worker(root, plugin, timeout_s, places)


def check() -> str:
    """Load the plugin; the digest of its code. Raises PluginError."""
    _ = _worker.parse
    return _worker.digest


def parse_batch(place: int, names: list[str]) -> list[Outcome]:
    """Parse the pages of these tasks in working/; one outcome each. `places[place]` tells which one is under way."""
    outcomes = []
    for index, name in enumerate(names):
        _worker.places[place] = index
        outcomes.append(_parse_one(name))
    _worker.places[place] = len(names)  # done; what goes wrong from here on is not the last page's fault
    return outcomes


def _parse_one(name: str) -> Outcome:
    workdir = _worker.workdir
    try:
        task = workdir.read("working", name)
        body, changed_ns = files.read_and_age(_worker.pages.path_of(task), MAX_PAGE_BYTES)
    except (OSError, TaskFileError) as error:
        return Outcome("parse", False, "io", f"the saved page can't be read: {error}")
    facts: dict[str, Any] = {"plugin": _worker.digest, "page": [len(body), changed_ns]}
    page = _page(task, body)
    if page is None:
        _write_items(name, [])
        return Outcome("parse", True, facts=facts | {"items": 0, "skipped": "no content"})
    try:
        items, tasks = _call_user(page)
    except PluginError as fault:
        return Outcome("parse", False, "parse", fault.problem, facts | {"traceback": _both_ends(fault.detail)})
    _write_items(name, items)
    added = sum(workdir.add(task) for task in tasks)
    facts |= {"plugin": _worker.digest, "items": len(items), "encoding": page.encoding if page.was_read else None}
    if tasks:
        facts |= {"new_tasks": added, "seen": len(tasks) - added}
    return Outcome("parse", True, facts={key: value for key, value in facts.items() if value is not None})


def _both_ends(trace: str) -> str:
    """A traceback that is too long, cut in the middle: where it came from stands first, what it says last."""
    half = MAX_TRACEBACK // 2
    return trace if len(trace) <= MAX_TRACEBACK else f"{trace[:half]}\n[...]\n{trace[-half:]}"


def _page(task: Task, body: bytes) -> Page | None:
    """The page for the parser; None where the answer has no content by its status or method."""
    fetched = task.last("fetch") or Record({})
    if fetched.status in NO_CONTENT or task.method == "HEAD":
        return None
    return Page(
        body,
        url=str(fetched.facts.get("url") or task.url),
        status=fetched.status,
        headers=fetched.headers,
        name=task.name,
        meta=task.meta,
        follow=lambda url, given: plugins.follow(task, url, given),
    )


def _no_item(sentence: str) -> PluginError:
    """What parse() gave is no item, and why."""
    return PluginError(_worker.plugin.path, sentence)


def _call_user(page: Page) -> tuple[list[bytes], list[Task]]:
    """Call the user's parse() and take all that it gives; PluginError whatever it raises."""
    parse = _worker.parse
    with _users_turn, plugins.users_code(_worker.plugin.path, interrupts_too=True):
        return _collect(parse(page))


def _collect(given: object) -> tuple[list[bytes], list[Task]]:
    items: list[bytes] = []
    tasks: list[Task] = []
    for thing in _things(given):
        if isinstance(thing, Task):
            tasks.append(plugins.as_task(thing, by="follow"))
        else:
            items.append(_item_line(thing, len(items) + 1))
    return items, tasks


def _things(given: object) -> Iterable[object]:
    """parse() may return nothing, one thing, a list, or be a generator."""
    if given is None:
        return ()
    if isinstance(given, Mapping | Task) or (dataclasses.is_dataclass(given) and not isinstance(given, type)):
        return (given,)
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise _no_item(f"parse() returned {type(given).__name__}; it gives dicts, dataclasses or tasks")
    return given


def _item_line(item: object, number: int) -> bytes:
    """One item as one line of strict JSON in UTF-8; PluginError names item, key and type of what
    JSON can't hold."""
    if type(item) is dict and _PLAIN_KEYS.issuperset(map(type, item)) and _SIMPLE.issuperset(map(type, item.values())):
        return _spelled(item, number)
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        item = {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
    if not isinstance(item, dict):
        raise _no_item(f"item {number} is {type(item).__name__}; parse() gives dicts, dataclasses or tasks")
    return _spelled(_plain(item, f"item {number}", 0), number)


def _spelled(plain: Any, number: int) -> bytes:
    try:
        return _spell(plain) + b"\n"
    except ValueError as error:
        at, part = _culprit(plain, f"item {number}")
        pair = isinstance(error, UnicodeEncodeError)
        why = "it holds half of a surrogate pair, which UTF-8 can't spell" if pair else str(error)
        raise _no_item(f"{at} is {type(part).__name__}: {why}") from None


_PLAIN_KEYS = frozenset({str})
_SIMPLE = frozenset({str, int, bool, type(None)})
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False).encode


def _spell(plain: Any) -> bytes:
    return _encode(plain).encode()


def _culprit(plain: Any, at: str) -> tuple[str, Any]:
    """The part, and its place, that makes `_spell` fail: half a surrogate pair, a number of 5000 digits."""
    parts: Iterable[tuple[str, Any]] = ()
    if isinstance(plain, Mapping):
        parts = ((f"{at}, key {key!r}", part) for key, part in plain.items())
    elif isinstance(plain, list):
        parts = ((f"{at}[{i}]", part) for i, part in enumerate(plain))
    for place, part in parts:
        try:
            _spell(part)
        except ValueError:
            return _culprit(part, place)
    return at, plain


def _plain(value: Any, at: str, depth: int) -> Any:
    """The value made of JSON's own types; what has no place in JSON is an error that says where it stands."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if depth > 100:
        raise _no_item(f"{at} is nested over 100 levels, or holds itself")
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise _no_item(f"{at} is the float {value}, which JSON has no word for")
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise _no_item(f"{at} has the key {key!r} of type {type(key).__name__}; keys must be str")
        return {key: _plain(part, f"{at}, key {key!r}", depth + 1) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, f"{at}[{i}]", depth + 1) for i, part in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type | Task):  # a task in an item would go nowhere
        return _plain({f.name: getattr(value, f.name) for f in dataclasses.fields(value)}, at, depth)
    raise _no_item(f"{at} is {type(value).__module__}.{type(value).__qualname__}; convert it to text or a number")


def _write_items(name: str, lines: list[bytes]) -> None:
    aside = _worker.pages.items_aside(name)
    with files.machine_faults("can't write", aside):
        files.write_aside(aside, b"".join(lines))


class _UsersTurn:
    """While the user's code runs: the kernel ends this process when it takes too long."""

    on = False

    def __enter__(self) -> None:
        self.on, self._pid = True, os.getpid()
        signal.setitimer(signal.ITIMER_REAL, _worker.timeout_s)

    def __exit__(self, *_: object) -> None:
        if os.getpid() != self._pid:  # a child that the user's code forked and let run on: never a second worker
            os._exit(0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.on = False
        # Without this, half a line that the parser printed is lost with this process; it may have closed the stream.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stderr.flush()


_users_turn = _UsersTurn()


def _never_exit_with_0() -> None:
    """Make os._exit(0) in the user's code visible: the pool takes a process that ends with 0 for one still at work, and
    the page would wait for its time limit."""
    really_exit, ours = os._exit, os.getpid()

    def _exit(status: int) -> None:
        really_exit(70 if status == 0 and _users_turn.on and os.getpid() == ours else status)

    os._exit = _exit  # type: ignore[assignment]  # NoReturn can't be said of a wrapper


def _die_with_parent() -> None:
    """End this process when the crawl is killed: a parser that goes on would write into the next run's folder.

    Its parent by birth is the fork server, which lives as long as we do. What tells of the crawl's end is a pipe of
    which only the crawl holds the other side.
    """
    crawl = multiprocessing.parent_process()
    assert crawl is not None  # we are the child of a pool
    if sys.platform == "linux":
        # By a signal of the kernel and not by a thread: a long match of `re` lets no thread run.
        fcntl.fcntl(crawl.sentinel, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(crawl.sentinel, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(crawl.sentinel, fcntl.F_SETFL, os.O_ASYNC)
        if multiprocessing.connection.wait([crawl.sentinel], 0):  # it died before we had asked
            os._exit(1)
    else:
        threading.Thread(target=_watch, args=(crawl.sentinel,), daemon=True).start()


def _watch(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os.kill(os.getpid(), signal.SIGKILL)
