"""Whatever a parser does costs the page that it was at, never more; its items are JSON, its links are tasks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import SCRIPT, TWO, items, options, parsed, plugin, put_pages, sc, sc_json, texts
from conftest import Serve
from helpers import Project, assert_failures_explained, assert_in_one_state, clean_env, run_curl
from servers import ok, status

from stateful_crawler import crawl, parse
from stateful_crawler.control import CrawlSettings, Stop
from stateful_crawler.errors import PluginError
from stateful_crawler.plugins import Plugin
from stateful_crawler.workdir import Workdir

GOOD = ("good-1", "good-2", "good-3", "good-4", "good-5")
TWO_ITEMS = [{"n": 1}, {"n": 2}]

# What a parser may do after its second item: its code, the reason that the task gets, and how the detail reads. `L` is
# the line of parser.py that is to blame.
RAISES: dict[str, tuple[str, str, str]] = {
    "raises": ("raise ValueError('x')", "parse", "line L: ValueError: x"),
    "no-message": ("raise ValueError", "parse", "line L: ValueError"),
    "lines": (r"raise ValueError('two\nlines')", "parse", "line L: ValueError: two lines"),
    "megabyte": ("raise ValueError('x' * 1_000_000)", "parse", "line L: ValueError: x{100,1000}"),
    "escapes": (r"raise ValueError('\x1b[2J\x00\u202e')", "parse", r"line L: ValueError: \\x1b\[2J\\x00\\u202e"),
    "surrogates": (r"raise ValueError('\udc80\ud800')", "parse", r"line L: ValueError: \\udc80\\ud800"),
    "bad-str": ("raise type('Evil', (Exception,), {'__str__': lambda self: 1 / 0})", "parse", "line L: Evil: .+"),
    "no-str": ("raise type('Evil', (Exception,), {'__str__': lambda self: 3})", "parse", "line L: Evil: .+"),
    "group": ("raise ExceptionGroup('g', [ValueError('a')])", "parse", "line L: ExceptionGroup: g .+"),
    "from": ("raise ValueError('b') from KeyError('a')", "parse", "line L: ValueError: b"),
    "recursion": ("(f := lambda: f())()", "parse", "line L: RecursionError: .+"),
    "memory": ("raise MemoryError", "parse", "line L: MemoryError"),
    "syntax": ("compile('1 +', 'x', 'eval')", "parse", r"line L: SyntaxError: .+"),
    "timeout": ("raise TimeoutError('mine')", "parse", "line L: TimeoutError: mine"),
    "os-error": ("open('/no/such/file')", "parse", "line L: FileNotFoundError: .+"),
    "exit-0": ("sys.exit(0)", "parse", "line L: SystemExit: 0"),
    "exit": ("sys.exit()", "parse", "line L: SystemExit"),
    "exit-bye": ("sys.exit('bye')", "parse", "line L: SystemExit: bye"),
    "quit": ("raise SystemExit(3)", "parse", "line L: SystemExit: 3"),
    "interrupt": ("raise KeyboardInterrupt", "parse", "line L: KeyboardInterrupt"),
    "generator": ("raise GeneratorExit", "parse", "line L: GeneratorExit"),
    "stop": ("raise StopIteration", "parse", "line L: RuntimeError: generator raised StopIteration"),
    "base": ("raise BaseException('b')", "parse", "line L: BaseException: b"),
}
DIES: dict[str, tuple[str, str, str]] = {
    "os-exit-0": ("os._exit(0)", "crash-parse", "the parser's process ended with exit code 0"),
    "os-exit-1": ("os._exit(1)", "crash-parse", "the parser's process ended with exit code 1"),
    "segfault": ("ctypes.string_at(0)", "crash-parse", "the parser's process ended with signal SIGSEGV"),
    "kill": ("os.kill(os.getpid(), 9)", "crash-parse", "the parser's process ended with signal SIGKILL"),
    "abort": ("os.abort()", "crash-parse", "the parser's process ended with signal SIGABRT"),
    "no-pipes": ("os.closerange(3, 256)", "crash-parse", "the parser's process ended with .+"),
    "sleeps": ("time.sleep(600)", "timeout-parse", r"parse\(\) took over 1 s"),
    "busy": ("while True: pass", "timeout-parse", r"parse\(\) took over 1 s"),
    "swallows": ("swallow()", "timeout-parse", r"parse\(\) took over 1 s"),
    "blocks": ("re.match('(a+)+$', 'a' * 40 + 'b')", "timeout-parse", r"parse\(\) took over 1 s"),
    "endless": ("yield from iter(dict, None)", "timeout-parse", r"parse\(\) took over 1 s"),
}
# What looks like a fault and is none: the two items stand.
HARMLESS: dict[str, str] = {
    "fork": "os.fork()",
    "fork-exit": "os.fork() or os._exit(0)",
    "fork-sys-exit": "os.fork() or sys.exit(0)",
    "thread": "threading.Thread(target=time.sleep, args=(600,)).start()",
    "elsewhere": "os.chdir('/')",
    "ctrl-c": "os.kill(os.getpid(), signal.SIGINT)",
    "prints": "print('NOISE'); os.write(1, b'NOISE'); os.system('echo NOISE'); sys.__stdout__.write('NOISE')",
    "prints-much": "print('NOISE' * 100_000)",
    "asks": "sys.stdin.read()",
    "closes-stdout": "sys.stdout.close()",
    "warns": "warnings.warn('NOISE')",
}


def parser_of(faults: dict[str, str]) -> str:
    """A parser that gives two items and then does what the page's name says."""
    head = "import ctypes, os, re, signal, sys, threading, time, warnings\n\nprint('NOISE')\n\n"
    swallow = "def swallow():\n  while True:\n    try: time.sleep(600)\n    except BaseException: pass\n"
    cases = "".join(f"  if page.name == {name!r}:\n    {code}\n" for name, code in faults.items())
    return head + swallow + "def parse(page):\n  yield {'n': 1}\n  yield {'n': 2}\n" + cases


def crawled(project: Project, serve: Serve, faults: dict[str, str], *words: str) -> dict[str, Any]:
    """A crawl of a page for each fault and of five good ones; its --json."""
    server = serve({"*": ok(TWO)})
    plugin(project, parser_of(faults))
    put_pages(project, server.url, [*GOOD, *faults])
    summary: dict[str, Any] = sc_json(project, "crawl", "-j", "2", *words, check=None)
    assert_in_one_state(project)
    assert_failures_explained(project)
    assert all(items(project, name) == TWO_ITEMS for name in GOOD)
    return summary


def line_of(project: Project, name: str, code: str) -> int:
    lines = (project.folder / "parser.py").read_text().split("\n")
    return lines.index(f"    {code}", lines.index(f"  if page.name == {name!r}:")) + 1


# ── what a parser may do ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.case("C087", "C089")
def test_what_a_parser_raises_costs_one_task(project: Project, serve: Serve) -> None:
    summary = crawled(project, serve, {name: code for name, (code, _, _) in RAISES.items()})
    assert (summary["succeeded"], summary["errors"]) == (len(GOOD), {"parse": len(RAISES)})
    assert project.in_state("success") == parsed(project) == set(GOOD)
    for name, (code, reason, detail) in RAISES.items():
        record, at = project.last(name), line_of(project, name, code)
        assert record["reason"] == reason
        assert re.fullmatch(detail.replace("L", str(at), 1), record["detail"]), (name, record["detail"])
        assert project.page(name) == TWO.encode()  # kept: it can be parsed again without a request
        assert f'parser.py", line {at}, in parse' in record["traceback"], (name, record["traceback"])
        assert len(record["traceback"]) < 5000
    assert project.last("megabyte")["traceback"].endswith("xxx\n")
    for name in ("megabyte", "escapes", "surrogates"):
        shown = sc(project, "show", name).stdout
        assert shown.replace("\n", "").isprintable() and project.last(name)["detail"][:60] in shown
    curl = run_curl(project.workdir, "-o", str(project.folder / "again"), "-K", "error/megabyte.conf")
    assert (curl.returncode, (project.folder / "again").read_text()) == (0, TWO), curl.stderr


@pytest.mark.case("C089")
def test_a_parser_that_hangs_or_dies_costs_one_task(project: Project, serve: Serve) -> None:
    faults = {name: code for name, (code, _, _) in DIES.items()} | HARMLESS
    summary = crawled(project, serve, faults, "--parse-timeout", "1")
    deaths = sum(reason == "crash-parse" for _, reason, _ in DIES.values())
    assert summary["errors"] == {"crash-parse": deaths, "timeout-parse": len(DIES) - deaths}
    assert project.in_state("success") == parsed(project) == {*GOOD, *HARMLESS}
    for name, (_, reason, detail) in DIES.items():
        record = project.last(name)
        assert record["reason"] == reason and re.fullmatch(detail, record["detail"]), (name, record)
        assert project.page(name) == TWO.encode()
    for name in HARMLESS:
        assert items(project, name) == TWO_ITEMS
    sc(project, "crawl")
    assert not list((project.workdir / "parsed").glob(".*"))  # what the dead left aside is swept by the next run


BLOCKS = {
    "ignores": "signal.signal(signal.SIGALRM, signal.SIG_IGN)",
    "handles": "signal.signal(signal.SIGALRM, lambda *_: None)",
    "masks": "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])",
    "disarms": "signal.setitimer(signal.ITIMER_REAL, 0)",
}


def test_a_hang_that_turned_the_timer_off_is_ended_all_the_same(
    project: Project, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, where the second net can be hung lower than its 10 s."""
    monkeypatch.setattr(parse, "BACKSTOP_S", 0.4)
    faults = {name: f"{code}; time.sleep(600)" for name, code in BLOCKS.items()}
    plugin(project, parser_of(faults).replace("print('NOISE')", ""))
    put_pages(project, serve({"*": ok(TWO)}).url, [*GOOD, *faults])
    read = Plugin.read(str(project.folder / "parser.py"))
    stop = Stop()
    try:
        settings = CrawlSettings(parser=read, workers=2, parse_timeout_s=0.2)
        tally = crawl.crawl(Workdir(str(project.workdir)).open(), settings, stop, lambda _: None)
    finally:
        stop.close()
    assert (tally.succeeded, dict(tally.reasons)) == (len(GOOD), {"timeout-parse": len(BLOCKS)})
    assert {project.last(name)["detail"] for name in BLOCKS} == {"parse() took over 0.2 s"}
    assert all(items(project, name) == TWO_ITEMS for name in GOOD)


def test_what_a_parser_prints_goes_to_stderr(project: Project, serve: Serve) -> None:
    plugin(project, parser_of({"prints": HARMLESS["prints"]}))
    put_pages(project, serve({"*": ok(TWO)}).url, ["prints"])
    run = sc(project, "crawl", "-j", "1", "--json")
    assert json.loads(run.stdout)["items"] == 2  # one document, nothing else
    assert run.stderr.count("NOISE") == 5  # at loading, and four times for the page
    assert "NOISE" not in sc(project, "parse", "--all", "--json").stdout


# ── items ────────────────────────────────────────────────────────────────────────────────────────────────────────────

ITEMS_HEAD = """
    import collections, dataclasses, datetime, decimal, enum, fractions, pathlib, types, uuid

    @dataclasses.dataclass
    class Book:
        title: str
        price: float = 1.5
        tags: list = dataclasses.field(default_factory=list)

    @dataclasses.dataclass(frozen=True, slots=True)
    class Shop:
        name: str
        best: Book

    class Colour(enum.StrEnum):
        RED = "red"

    class Level(enum.IntEnum):
        HIGH = 3

    class Mood(enum.Enum):
        GOOD = object()

    Point = collections.namedtuple("Point", "x y")
    loop = []
    loop.append(loop)
    deep = 1
    for _ in range(150):
        deep = [deep]
"""
# What `parse` returns -> the items.
GIVES: dict[str, tuple[str, list[Any]]] = {
    "nothing": ("None", []),
    "empty-list": ("[]", []),
    "empty-generator": ("iter(())", []),
    "one-dict": ("{'a': 1}", [{"a": 1}]),
    "empty-dict": ("{}", [{}]),
    "a-list": ("[{'a': 1}, {'a': 2}]", [{"a": 1}, {"a": 2}]),
    "a-tuple": ("({'a': 1}, {'a': 2})", [{"a": 1}, {"a": 2}]),
    "a-map": ("map(lambda n: {'a': n}, [1, 2])", [{"a": 1}, {"a": 2}]),
    "a-dataclass": ("Book('x')", [{"title": "x", "price": 1.5, "tags": []}]),
    "dataclasses": (
        "[Shop('s', Book('x', 2, ['t']))]",
        [{"name": "s", "best": {"title": "x", "price": 2, "tags": ["t"]}}],
    ),
    "ordered": ("[collections.OrderedDict(b=1, a=2)]", [{"b": 1, "a": 2}]),
    "all-kinds": (
        "{'s': '', 'i': -1, 'f': 0.5, 't': True, 'f2': False, 'n': None, 'l': [1, [2]], 'd': {'x': {'y': []}}}",
        [{"s": "", "i": -1, "f": 0.5, "t": True, "f2": False, "n": None, "l": [1, [2]], "d": {"x": {"y": []}}}],
    ),
    "kin": (
        "{'c': Colour.RED, 'h': Level.HIGH, 'p': Point(1, 2), 'm': types.MappingProxyType({'a': 1})}",
        [{"c": "red", "h": 3, "p": [1, 2], "m": {"a": 1}}],
    ),
    "unicode": ("{'é': '中文 😀 \\x00 \\u2028 \\n \"'}", [{"é": '中文 😀 \x00 \u2028 \n "'}]),
    "numbers": (
        "{'big': 2 ** 64, 'huge': 10 ** 4000, 'small': 5e-324}",
        [{"big": 2**64, "huge": 10**4000, "small": 5e-324}],
    ),
    "20-MB": ("{'x': 'é' * 10_000_000}", [{"x": "é" * 10_000_000}]),
    "hundred": ("[{'n': n} for n in range(1000)]", [{"n": n} for n in range(1000)]),
}
# What `parse` returns -> how the task's detail names the item, the key and the type.
REFUSED: dict[str, tuple[str, str]] = {
    "datetime": ("[{'ok': 1}, {'when': datetime.datetime.now()}]", "item 2, key 'when' is datetime.datetime"),
    "date": ("{'day': datetime.date.today()}", "item 1, key 'day' is datetime.date"),
    "bytes": ("{'b': b'x'}", "item 1, key 'b' is builtins.bytes"),
    "bytearray": ("{'b': bytearray(b'x')}", "item 1, key 'b' is builtins.bytearray"),
    "set": ("{'s': {1, 2}}", "item 1, key 's' is builtins.set"),
    "decimal": ("{'price': decimal.Decimal('1.1')}", "item 1, key 'price' is decimal.Decimal"),
    "fraction": ("{'f': fractions.Fraction(1, 2)}", "item 1, key 'f' is fractions.Fraction"),
    "complex": ("{'c': 1j}", "item 1, key 'c' is builtins.complex"),
    "uuid": ("{'u': uuid.UUID(int=1)}", "item 1, key 'u' is uuid.UUID"),
    "path": ("{'p': pathlib.PurePosixPath('x')}", "item 1, key 'p' is pathlib.PurePosixPath"),
    "enum": ("{'m': Mood.GOOD}", "item 1, key 'm' is _sc_plugin_"),
    "generator": ("{'g': (n for n in ())}", "item 1, key 'g' is builtins.generator"),
    "function": ("{'f': print}", "item 1, key 'f' is builtins.builtin_function_or_method"),
    "selector": ("{'title': page.css('p')[0]}", "item 1, key 'title' is parsel.selector.Selector"),
    "selectors": ("{'title': page.css('p')}", "item 1, key 'title'[0] is parsel.selector.Selector"),
    "task": ("{'next': page.follow('/x')}", "item 1, key 'next' is stateful_crawler.task.Task"),
    "none-key": ("{None: 'x'}", "item 1 has the key None of type NoneType"),
    "int-key": ("{1: 'a', '1': 'b'}", "item 1 has the key 1 of type int"),
    "tuple-key": ("{'in': [{('a', 1): 1}]}", "item 1, key 'in'[0] has the key ('a', 1) of type tuple"),
    "nan": ("{'x': float('nan')}", "item 1, key 'x' is the float nan"),
    "infinity": ("{'x': [1, -float('inf')]}", "item 1, key 'x'[1] is the float -inf"),
    "surrogate": (
        "[{'ok': 1}, {'a': 'b', 'x': '\\ud800'}]",
        "item 2, key 'x' is str: it holds half of a surrogate pair",
    ),
    "surrogate-deep": ("{'l': [0.5, {'x': 'y\\udfff'}]}", "item 1, key 'l'[1], key 'x' is str: it holds half of"),
    "surrogate-key": ("{'\\ud800': 1}", "item 1 is dict: it holds half of a surrogate pair"),
    "digits": ("{'n': 1, 'x': 10 ** 5000}", "item 1, key 'x' is int: "),
    "loop": ("{'x': loop}", "item 1, key 'x'[0][0]"),
    "deep": ("{'x': deep}", "item 1, key 'x'[0][0]"),
    "nested-bytes": ("{'a': {'b': [{'c': b'x'}]}}", "item 1, key 'a', key 'b'[0], key 'c' is builtins.bytes"),
    "in-dataclass": (
        "[Shop('s', Book('t', decimal.Decimal(1)))]",
        "item 1, key 'best', key 'price' is decimal.Decimal",
    ),
    "a-string": ("'text'", "parse() returned str"),
    "some-bytes": ("b'x'", "parse() returned bytes"),
    "a-number": ("7", "parse() returned int"),
    "the-page": ("page", "parse() returned Page"),
    "a-class": ("Book", "parse() returned type"),
    "list-item": ("[{'a': 1}, ['a']]", "item 2 is list"),
    "string-item": ("['a']", "item 1 is str"),
    "none-item": ("[{'a': 1}, None]", "item 2 is NoneType"),
    "set-of": ("{1}", "item 1 is int"),
    "class-item": ("[Book]", "item 1 is type"),
    "a-coroutine": ("async_parse()", "parse() returned coroutine"),
}


def parser_giving(answers: dict[str, str]) -> str:
    cases = "".join(f"        if page.name == {name!r}: return {code}\n" for name, code in answers.items())
    return ITEMS_HEAD + "    async def async_parse(): return {}\n    def parse(page):\n" + cases


@pytest.mark.case("C091")
def test_items_are_strict_json_or_an_error_that_says_which(project: Project, serve: Serve) -> None:
    answers = {name: code for name, (code, _) in (GIVES | REFUSED).items()}
    plugin(project, parser_giving(answers))
    put_pages(project, serve({"*": ok(TWO)}).url, list(answers))
    summary = sc_json(project, "crawl", "-j", "1", check=3)
    assert project.in_state("success") == parsed(project) == set(GIVES)
    assert summary["errors"] == {"parse": len(REFUSED)}
    for name, (_, given) in GIVES.items():
        assert items(project, name) == given, name
    for name, (_, detail) in REFUSED.items():
        assert project.last(name)["detail"].startswith(detail), (name, project.last(name)["detail"])
    for name in ("a-string", "list-item"):
        assert project.last(name)["detail"].endswith("gives dicts, dataclasses or tasks")
    assert "over 100 levels, or holds itself" in project.last("loop")["detail"]
    assert summary["items"] == sum(len(given) for _, given in GIVES.values())


# ── finding and loading it ───────────────────────────────────────────────────────────────────────────────────────────

# What parser.py may be that can't be loaded, and what is said of it after its path.
BROKEN: dict[str, tuple[str | bytes, str]] = {
    "syntax": ("def parse(page):\n    return [\n", r"line \d: SyntaxError: .+"),
    "import": ("import no_such_module\n", "line 1: ModuleNotFoundError: No module named 'no_such_module'"),
    "raises": ("x = 1\nraise ValueError('boo')\n", "line 2: ValueError: boo"),
    "exits": ("import sys\nsys.exit(0)\n", "line 2: SystemExit: 0"),
    "interrupt": ("raise KeyboardInterrupt\n", "line 1: KeyboardInterrupt"),
    "exits-0": ("import os\nos._exit(0)\n", "can't be loaded: the process ended with exit code 0"),
    "dies": ("import os\nos.kill(os.getpid(), 11)\n", "can't be loaded: the process ended with signal SIGSEGV"),
    "hangs": ("import time\ntime.sleep(600)\n", "can't be loaded: it took over 0.5 s"),
    "empty": ("", r"has no function parse\(\).*"),
    "no-function": ("parse = 3\n", r"has no function parse\(\).*"),
    "latin-1": (b"x = 'caf\xe9'\n", ".*SyntaxError: .+"),
    "nul": (b"x = '\0'\n", "(SyntaxError|ValueError): .+"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_parser_that_cannot_be_loaded_says_why(tmp_path: Path, name: str) -> None:
    text, said = BROKEN[name]
    path = tmp_path / "parser.py"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    root = Workdir(str(tmp_path / "workdir")).open().root
    pool = parse.Parser(root, Plugin.read(str(path)), workers=1, timeout_s=0.5)
    try:
        with pytest.raises(PluginError) as caught:
            pool.check()
    finally:
        pool.close()
    assert re.fullmatch(f"{re.escape(str(path))}: {said}", str(caught.value)), caught.value


@pytest.mark.parametrize("name", ["syntax", "exits-0"])
def test_a_parser_that_cannot_be_loaded_ends_the_run_before_any_request(
    project: Project, serve: Serve, name: str
) -> None:
    server = serve({"*": ok(TWO)})
    put_pages(project, server.url, GOOD)
    plugin(project, str(BROKEN[name][0]))
    for command in ("crawl", "retry"):
        run = sc(project, command, "-j", "1", check=5)
        assert run.stderr.startswith(f"sc: {project.folder / 'parser.py'}: ") and run.stdout == ""
    assert server.count() == 0
    assert project.in_state("origin") == set(GOOD)


def test_a_parser_that_is_named_must_be_there(project: Project, serve: Serve) -> None:
    server = serve({"*": ok(TWO)})
    put_pages(project, server.url, GOOD)
    assert "nowhere.py: can't be read: No such file" in sc(project, "crawl", "--parser", "nowhere.py", check=5).stderr
    assert "workdir: can't be read: Is a directory" in sc(project, "crawl", "--parser", "workdir", check=5).stderr
    assert "there is no parser.py here; `sc init` makes one" in sc(project, "parse", check=2).stderr
    assert server.count() == 0


def test_without_a_parser_a_crawl_only_fetches_and_says_so(project: Project, serve: Serve) -> None:
    server = serve({"*": ok(TWO)})
    put_pages(project, server.url, GOOD)
    assert "5 fetched (fetched only, not parsed)" in sc(project, "crawl").stderr
    assert "nothing to do (fetching only: there is no parser)" in sc(project, "crawl").stderr
    assert (project.in_state("success"), parsed(project)) == (set(GOOD), set())
    plugin(project, parser_of({}))  # a parser that comes later has all pages to parse
    assert sc_json(project, "parse")["items"] == 2 * len(GOOD)
    assert parsed(project) == set(GOOD)
    put_pages(project, server.url, ["later"])
    assert "(fetched only, not parsed)" in sc(project, "crawl", "--no-parse").stderr
    assert server.count() == len(GOOD) + 1


@pytest.mark.case("C093")
def test_a_parser_may_have_any_name_and_any_neighbour(project: Project, serve: Serve) -> None:
    """And whatever the folder holds: what is imported is the standard library's own, here and in every process."""
    server = serve({"*": ok(TWO)})
    put_pages(project, server.url, ["1"])
    names = ("csv.py", "json.py", "html.py", "parsel.py", "parser with space.py", "my-parser.v2.py")
    for name in names:
        plugin(
            project,
            """
            import csv, html, json, logging, parsel, signal
            import helper
            from pack import inner

            def parse(page):
                modules = (csv, html, json, logging, parsel, signal)
                yield {module.__name__: module.__file__ for module in modules}
                yield {"a": html.escape("<"), "b": json.loads("1"), "c": helper.WORD, "d": inner.WORD, "e": __file__}
            """,
            name,
        )
    for name in ("logging.py", "signal.py", "click.py", "create.py", "stateful_crawler.py"):
        plugin(project, "raise RuntimeError('not me')", name)
    plugin(project, "WORD = 'here'", "helper.py")
    (project.folder / "pack").mkdir()
    plugin(project, "WORD = 'there'", "pack/inner.py")
    sc(project, "crawl", "--no-parse")
    for name in names:
        assert sc_json(project, "parse", "--all", "--parser", name)["items"] == 2, name
        modules, rest = items(project, "1")
        assert not [file for file in modules.values() if file.startswith(str(project.folder))], modules
        path = str(project.folder / name)
        assert rest == {"a": "&lt;", "b": 1, "c": "here", "d": "there", "e": path}
    (project.folder / "stateful_crawler.py").unlink()  # `python -m` would take it for the package
    module = [Path(SCRIPT).with_name("python"), "-m", "stateful_crawler", "parse", "--all", "--parser", "json.py"]
    run = subprocess.run(module, cwd=project.folder, env=clean_env(), capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (0, ""), run.stderr


def test_what_a_parser_starts_has_the_users_own_environment(project: Project, serve: Serve) -> None:
    plugin(project, "import os\ndef parse(page):\n    yield dict(os.environ)\n")
    put_pages(project, serve({"*": ok(TWO)}).url, ["1"])
    env = {"MINE": "yes"}
    sc(project, "crawl", env=env)
    given = clean_env(**env)
    assert {key: items(project, "1")[0].get(key) for key in given} == given
    assert "PYTHONSAFEPATH" not in items(project, "1")[0]


# ── healing ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.case("C087")
def test_when_the_parser_is_mended_retry_heals_all_without_a_request(project: Project, serve: Serve) -> None:
    server = serve({"*": ok(TWO)})
    faults = {"a": "sys.exit(0)", "b": "raise ValueError", "c": "yield 1", "d": "os._exit(1)"}
    plugin(project, parser_of(faults))
    put_pages(project, server.url, [*GOOD, *faults])
    sc(project, "crawl", check=3)
    pages = {name: project.page(name) for name in faults}
    asked = server.count()
    assert asked == len(GOOD) + len(faults)
    plugin(project, parser_of({}))
    summary = sc_json(project, "retry")
    assert (summary["succeeded"], summary["failed"], summary["fetched"]) == (len(faults), 0, 0)
    assert server.count() == asked
    assert project.in_state("success") == parsed(project) == {*GOOD, *faults}
    assert {name: items(project, name) for name in faults} == dict.fromkeys(faults, TWO_ITEMS)
    assert {name: project.page(name) for name in faults} == pages


def test_parse_takes_what_is_stale_and_nothing_else(project: Project, serve: Serve) -> None:
    server = serve({"/gone": status(404), "*": ok(TWO)})
    names = ("1", "2", "3")
    put_pages(project, server.url, [*names, "gone"])
    plugin(project, "WORD = 'a'", "helper.py")
    parser = """
        import helper
        def parse(page):
            yield {"word": helper.WORD, "paragraphs": page.css("p::text").getall()}
    """
    plugin(project, parser)
    sc(project, "crawl", check=3)
    asked = server.count()

    def parse_again(*words: str, check: int = 0) -> set[str]:
        """The tasks that `sc parse` took."""
        before = {name: len(project.records(name)) for name in project.states()}
        summary = sc_json(project, "parse", "-j", "1", *words, check=check)
        taken = {name for name, count in before.items() if len(project.records(name)) != count}
        assert summary["succeeded"] + summary["failed"] == len(taken)
        return taken

    assert parse_again() == set()
    assert "nothing to do" in sc(project, "parse").stderr
    (project.workdir / "html" / "2.html").write_text("<p>changed</p>")
    assert parse_again() == {"2"}
    assert items(project, "2") == [{"word": "a", "paragraphs": ["changed"]}]
    assert parse_again() == set()
    plugin(project, "WORD = 'bb'", "helper.py")
    assert parse_again() == set(names)
    assert [items(project, name)[0]["word"] for name in names] == ["bb"] * 3
    plugin(project, parser + "\n        # a word more")
    assert parse_again("3") == {"3"}  # only that one of the three
    assert parse_again() == {"1", "2"}
    assert parse_again("success/1.conf", "2") == {"1", "2"}  # named, though nothing has changed
    assert parse_again("--all") == set(names)
    (project.workdir / "parsed" / "1.jsonl").unlink()
    assert parse_again() == {"1"}
    plugin(project, parser + '\n            if page.name == "2": raise ValueError("new")')
    assert parse_again(check=3) == set(names)
    assert (project.in_state("success"), project.in_state("error")) == ({"1", "3"}, {"2", "gone"})
    assert (project.reason("2"), project.reason("gone")) == ("parse", "http")
    plugin(project, parser)
    assert parse_again() == set(names)
    assert (project.in_state("success"), project.in_state("error")) == (set(names), {"gone"})
    assert project.reason("gone") == "http"
    assert server.count() == asked


def test_a_neighbour_that_parse_itself_imports_makes_items_stale_too(project: Project, serve: Serve) -> None:
    put_pages(project, serve({"*": ok(TWO)}).url, ["1"])
    plugin(project, "WORD = 'a'", "helper.py")
    plugin(project, "def parse(page):\n    import helper\n    yield {'word': helper.WORD}\n")
    sc(project, "crawl")
    plugin(project, "WORD = 'bb'", "helper.py")
    sc(project, "parse")
    assert items(project, "1") == [{"word": "bb"}]


def test_a_parse_that_is_killed_loses_nothing(project: Project, serve: Serve) -> None:
    server = serve({"*": ok(TWO)})
    put_pages(project, server.url, GOOD)
    plugin(project, parser_of({}))
    sc(project, "crawl")
    pages = {name: project.page(name) for name in GOOD}
    at_work = project.folder / "at-work"
    os.mkfifo(at_work)
    plugin(project, parser_of({"good-3": f"open({str(at_work)!r}, 'w').close(); time.sleep(600)"}))
    with subprocess.Popen([SCRIPT, "-q", "parse", "-j", "1"], cwd=project.folder, env=clean_env()) as run:
        at_work.read_text()  # returns when the parser is at good-3
        run.send_signal(signal.SIGKILL)
    assert_in_one_state(project)
    assert {name: project.page(name) for name in GOOD} == pages
    assert all(items(project, name) == TWO_ITEMS for name in GOOD)
    plugin(project, parser_of({}))
    run_again = sc(project, "parse").stderr
    assert "taken back from a run that did not end" in run_again
    sc(project, "crawl")
    assert project.in_state("success") == parsed(project) == set(GOOD)
    assert all(items(project, name) == TWO_ITEMS for name in GOOD)
    assert server.count() == len(GOOD)


# ── following links ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_crawl_finds_the_pages_of_a_chain_and_ends(project: Project, serve: Serve) -> None:
    last = 12
    links = {
        f"/{n}": ok(f"<p>{n}</p><a href='{n + 1}'>next</a><a href='/1'>home</a><a href='./{n}#top'>top</a>")
        for n in range(1, last)
    }
    server = serve(links | {f"/{last}": ok(f"<p>{last}</p><a href='1'>home</a>")})
    put_pages(project, server.url, ["1"])
    plugin(
        project,
        """
        def parse(page):
            yield {"n": int(page.css("p::text").get())}
            for link in page.css("a"):
                number = page.urljoin(link.attrib["href"]).rpartition("/")[2].partition("#")[0]
                yield page.follow(link, name=number, meta={"from": page.name})
        """,
    )
    summary = sc_json(project, "crawl")
    names = {str(n) for n in range(1, last + 1)}
    assert (summary["succeeded"], summary["found"]) == (last, last - 1)
    assert project.in_state("success") == parsed(project) == names
    assert [server.count(f"/{name}") for name in names] == [1] * last
    for n in range(2, last + 1):
        created = project.records(str(n))[0]
        assert (created["by"], created["parent"], created["depth"]) == ("follow", str(n - 1), n - 1)
        assert created["meta"] == {"from": str(n - 1)}
    middle = project.records("5", "parse")[-1]
    assert (middle["items"], middle["new_tasks"], middle["seen"]) == (1, 1, 2)
    assert sc_json(project, "crawl")["fetched"] == 0
    assert server.count() == last


def test_a_followed_link_inherits_options_but_no_body_and_no_secret_for_others(project: Project, serve: Serve) -> None:
    other = serve({"*": ok(TWO)})
    server = serve({"*": ok(TWO)})
    project.put_url(
        "start",
        f"{server.url}/start",
        'user-agent = "me/1"',
        'referer = "http://ref.example/"',
        "compressed",
        'max-time = "9"',
        'header = "X-Mine: 1"',
        'header = "Authorization: Bearer secret"',
        'header = "cookie: c=secret"',
        'cookie = "d=secret"',
        'user = "u:secret"',
        'data = "q=1"',
        'request = "PUT"',
        'output = "html/first.html"',
    )
    plugin(
        project,
        f"""
        def parse(page):
            if page.name == "start":
                yield page.follow("/same?x=1#top", name="same")
                yield page.follow("{other.url}/other", name="port")
                yield page.follow("//localhost:{server.port}/host", name="host")
                more = {{"user_agent": "you/2", "header": ["X-Yours: 2"], "data": "w=2"}}
                yield page.follow("/own", name="own", meta={{"k": [1]}}, **more)
                yield page.follow("/derived")
        """,
    )
    sc(project, "crawl")
    after = texts(project, "success")
    kept = ['user-agent = "me/1"', 'referer = "http://ref.example/"', "compressed", 'max-time = "9"']
    secret = ['header = "Authorization: Bearer secret"', 'header = "cookie: c=secret"', 'cookie = "d=secret"']
    for name in ("same", "port", "host"):
        lines = options(after[name])
        assert set(kept) | {'header = "X-Mine: 1"', f'output = "html/{name}.html"'} <= set(lines)
        assert not [line for line in lines if line.startswith(("data", "request"))]
    assert {*secret, 'user = "u:secret"', f'url = "{server.url}/same?x=1"'} <= set(options(after["same"]))
    assert "secret" not in after["port"] + after["host"]
    own = options(after["own"])
    assert {'user-agent = "you/2"', 'header = "X-Yours: 2"', 'data = "w=2"'} <= set(own)
    assert "me/1" not in after["own"] and "X-Mine" not in after["own"]
    assert project.records("own")[0]["meta"] == {"k": [1]}
    methods = {request.target: (request.method, request.body) for request in server.requests}
    assert methods["/start"] == ("PUT", b"q=1")
    assert methods["/same?x=1"] == ("GET", b"")
    assert methods["/own"] == ("POST", b"w=2")
    elsewhere = [*other.requests, *(request for request in server.requests if request.target == "/host")]
    assert len(elsewhere) == 2
    for request in elsewhere:
        assert b"secret" not in request.head and not request.all("authorization") and not request.all("cookie")
    derived = (set(after) - {"start", "same", "port", "host", "own"}).pop()
    assert re.fullmatch(r"127-0-0-1-derived-[0-9a-f]{10}", derived)


def test_the_same_page_found_twice_in_one_run_is_one_task(project: Project, serve: Serve) -> None:
    server = serve({"*": ok("<a href='/hub'>x</a><a href='/hub#1'>x</a><a href='http://127.0.0.1:1/'>y</a>")})
    put_pages(project, server.url, [f"p{n}" for n in range(20)])
    plugin(
        project,
        """
        def parse(page):
            if page.name[0] == "p":
                for link in page.css("a")[:2]:
                    yield page.follow(link)
        """,
    )
    summary = sc_json(project, "crawl", "-c", "4", "-j", "2")
    assert (summary["found"], summary["succeeded"]) == (1, 21)
    assert (server.count("/hub"), server.count()) == (1, 21)


NO_TASK = {
    "mailto": ("page.follow('mailto:a@example.org')", "only http and https links can be followed"),
    "same-page": ("page.follow('#top')", "leads to no other page"),
    "typo": ("page.follow('/x', user_agnet='x')", "unknown curl option 'user-agnet'; did you mean 'user-agent'?"),
    "name": ("page.follow('/x', name='a/b')", "task name 'a/b'"),
    "meta": ("page.follow('/x', meta={'k': {1}})", "set"),
    "refused": ("page.follow('/x', ftp_pasv=True)", "is refused"),
}


def test_a_link_that_is_no_task_is_an_error_of_that_page(project: Project, serve: Serve) -> None:
    source = parser_of({name: f"yield {call}" for name, (call, _) in NO_TASK.items()})
    plugin(project, source)
    put_pages(project, serve({"*": ok(TWO)}).url, list(NO_TASK))
    sc(project, "crawl", "-j", "1", check=3)
    for name, (call, said) in NO_TASK.items():
        record = project.last(name)
        at = line_of(project, name, f"yield {call}")
        assert record["reason"] == "parse" and record["detail"].startswith(f"line {at}: "), record
        assert said in record["detail"], record
    assert parsed(project) == set()
