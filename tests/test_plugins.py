"""create.py: its arguments, what it may yield, and the task files that come of it; the urls that go into them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import options, plugin, sc, sc_json, texts
from conftest import Serve
from helpers import Project
from servers import ok

from stateful_crawler.errors import PluginError, UsageError
from stateful_crawler.plugins import Plugin, as_task, call_create, signature_of
from stateful_crawler.task import DEFAULTS, Task
from stateful_crawler.urls import clean_url, origin_of

DEFAULT_LINES = [
    re.compile(line)
    for line in (
        r'user-agent = "stateful-crawler/\S+"',
        "location",
        "compressed",
        "fail",
        'max-time = "60"',
        'connect-timeout = "15"',
    )
]


def created(source: str, *arguments: str) -> list[Task]:
    """The tasks that a create.py with this text yields."""
    return list(call_create(Plugin("/project/create.py", source.encode()), arguments))


def refused(source: str, *arguments: str) -> str:
    with pytest.raises(PluginError) as error:
        created(source, *arguments)
    assert str(error.value).startswith("/project/create.py: ")
    return error.value.problem


def given(signature: str, *arguments: str, head: str = "") -> Any:
    """The values that create(SIGNATURE) is called with."""
    seen: list[Any] = []
    source = (
        f"{head}\ndef create({signature}):\n    import builtins; builtins.seen.append(locals() | {{'builtins': 0}})\n"
    )
    import builtins

    builtins.seen = seen  # type: ignore[attr-defined]
    try:
        assert created(source, *arguments) == []
    finally:
        del builtins.seen  # type: ignore[attr-defined]
    return {key: value for key, value in seen[0].items() if key != "builtins"}


# ── arguments ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("signature", "arguments", "values"),
    [
        ("", (), {}),
        ("a", ("x",), {"a": "x"}),
        ("a: str", ("7",), {"a": "7"}),
        ("a: int", ("7",), {"a": 7}),
        ("a: int", ("-7",), {"a": -7}),
        ("a: float", ("1.5",), {"a": 1.5}),
        ("a: bool", ("yes",), {"a": True}),
        ("a: bool", ("False",), {"a": False}),
        ("a: 'int'", ("7",), {"a": 7}),
        ("a: int | None", ("7",), {"a": 7}),
        ("a: None | int = None", ("7",), {"a": 7}),
        ("a: 'None | int' = None", ("7",), {"a": 7}),
        ("a: typing.Optional[int]", ("7",), {"a": 7}),
        ("a: 'typing.Optional[float]'", ("7",), {"a": 7.0}),
        ("a: str | None", ("7",), {"a": "7"}),
        ("a: pathlib.Path", ("7",), {"a": "7"}),
        ("a: 'NoSuchType'", ("7",), {"a": "7"}),
        ("a: int = 3", (), {"a": 3}),
        ("a: int, b: str = 'x', c: float = 0.5", ("1", "y"), {"a": 1, "b": "y", "c": 0.5}),
        ("a: int, *rest: int", ("1", "2", "3"), {"a": 1, "rest": (2, 3)}),
        ("*urls", ("x", "y"), {"urls": ("x", "y")}),
        ("*urls", (), {"urls": ()}),
        ("a: int, *, b: int = 4, **c", ("1",), {"a": 1, "b": 4, "c": {}}),
        ("a: int, b: int, /", ("1", "2"), {"a": 1, "b": 2}),
        ("é", ("中文 😀",), {"é": "中文 😀"}),
    ],
)
def test_arguments_are_what_the_annotations_want(signature: str, arguments: tuple[str, ...], values: object) -> None:
    head = "import pathlib, typing"
    assert given(signature, *arguments, head=head) == values
    if "NoSuchType" not in signature:
        assert given(signature, *arguments, head=f"from __future__ import annotations\n{head}") == values


@pytest.mark.parametrize(
    ("signature", "arguments", "said"),
    [
        ("first: int, last: int", (), "missing a required argument: 'first'; usage: sc create FIRST:int LAST"),
        ("first: int, last: int", ("1",), "missing a required argument: 'last'"),
        ("first: int, last: int", ("1", "2", "3"), "too many positional arguments; usage: sc create FIRST:int"),
        ("first: int, last: int", ("1", "x"), "last must be int, not 'x'; usage: sc create FIRST:int LAST:int"),
        ("a: int", ("1.5",), "a must be int, not '1.5'"),
        ("a: int", ("",), "a must be int, not ''"),
        ("a: float, b: str = ''", ("x",), "a must be float, not 'x'; usage: sc create A:float [B]"),
        ("a: bool = True", ("maybe",), "a must be bool, not 'maybe'; usage: sc create [A:bool]"),
        ("a, *more: int", ("x", "1", "y"), "more must be int, not 'y'; usage: sc create A MORE:int..."),
        ("", ("x",), "too many positional arguments"),
    ],
)
def test_wrong_arguments_are_told_with_the_signature(signature: str, arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError) as error:
        created(f"def create({signature}): yield 'http://h/'", *arguments)
    assert said in str(error.value)


def test_the_signature_as_a_user_types_it() -> None:
    def create(first: int, site="x", *more: float, flag: bool = False, **rest: int) -> None:  # type: ignore[no-untyped-def]
        """Not called."""

    assert signature_of(create) == "FIRST:int [SITE] MORE:float..."


# ── what it yields ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "body",
    [
        "yield 'http://h/1'; yield 'http://h/2'",
        "return ['http://h/1', 'http://h/2']",
        "return (f'http://h/{n}' for n in (1, 2))",
        "return {'http://h/1': 0, 'http://h/2': 0}.keys()",
        "yield {'url': 'http://h/1'}; yield types.MappingProxyType({'url': 'http://h/2'})",
        "from stateful_crawler import Task; yield Task('a', 'http://h/1'); yield Task('b', 'http://h/2')",
    ],
)
def test_urls_dicts_and_tasks_in_any_iterable(body: str) -> None:
    assert [task.url for task in created(f"import types\ndef create(): {body}\n")] == ["http://h/1", "http://h/2"]


@pytest.mark.parametrize("body", ["pass", "return None", "return []", "return; yield"])
def test_nothing_is_no_task(body: str) -> None:
    assert created(f"def create(): {body}\n") == []


@pytest.mark.parametrize("thing", ["'http://h/'", "{'url': 'http://h/'}", "Task('a', 'http://h/')"])
def test_one_thing_returned_is_one_task(thing: str) -> None:
    source = f"from stateful_crawler import Task\ndef create(): return {thing}\n"
    assert [task.url for task in created(source)] == ["http://h/"]


def test_a_url_becomes_a_task_that_holds_every_default() -> None:
    (task,) = created("def create(): yield 'http://h.example/catalogue?page=7'")
    lines = options(task.text().decode())
    assert task.options == DEFAULTS
    assert re.fullmatch(r"h-example-catalogue-page-7-[0-9a-f]{10}", task.name)
    assert lines[:2] == ['url = "http://h.example/catalogue?page=7"', f'output = "html/{task.name}.html"']
    assert all(pattern.fullmatch(line) for pattern, line in zip(DEFAULT_LINES, lines[2:], strict=True))
    assert task.created.facts["by"] == "create"


def test_options_change_the_defaults_and_add_to_them() -> None:
    (task,) = created(
        """def create():
            yield {"url": "http://h/", "name": "n", "meta": {"page": 7, "é": [None]}, "output": "html/other.html",
                   "user_agent": "me", "max-time": 5, "connect_timeout": 0.5, "compressed": False, "location": None,
                   "header": ["A: 1", 'B: "two"\\\\'], "data": "line 1\\nline 2", "insecure": True}"""
    )
    assert (task.name, task.meta, task.output) == ("n", {"page": 7, "é": [None]}, "html/other.html")
    lines = options(task.text().decode())
    assert sorted(lines[2:]) == sorted(
        [
            "fail",
            'user-agent = "me"',
            'max-time = "5"',
            'connect-timeout = "0.5"',
            "no-compressed",
            'header = "A: 1"',
            r'header = "B: \"two\"\\"',
            r'data = "line 1\nline 2"',
            "insecure",
        ]
    )


def test_names_are_given_or_made_from_method_url_and_body() -> None:
    def names(*dicts: str) -> list[str]:
        return [task.name for task in created(f"def create(): yield from [{', '.join(dicts)}]")]

    same = names("'http://h/a'", "'http://h/a#top'", "{'url': 'http://h/a', 'user-agent': 'x'}")
    assert len(set(same)) == 1
    other = names(
        "'http://h/A'", "'http://h/a?'", "{'url': 'http://h/a', 'data': '1'}", "{'url': 'http://h/a', 'data': '2'}"
    )
    assert len({*same, *other}) == 5
    for name in names(
        "'http://h/' + 'x' * 5000", "'http://例え.テスト/é/?q=日本'", "'http://[::1]:80/x'", "'http://h/..%2f..'"
    ):
        assert re.fullmatch(r"[A-Za-z0-9-]{1,91}", name)
    assert names("{'url': 'http://h/', 'name': 'a.B_c-1'}") == ["a.B_c-1"]


WRONG: dict[str, tuple[str, str]] = {
    "number": ("7", "create() yields urls, dicts or Task, not int: 7"),
    "bytes": ("b'http://h/'", "not bytes"),
    "none": ("None", "not NoneType"),
    "tuple": ("('http://h/', 'n')", "not tuple"),
    "no-url": ("{'name': 'x'}", "a dict without 'url': {'name': 'x'}"),
    "empty": ("''", "'' is not an http or https url"),
    "relative": ("'/page/2'", "'/page/2' is not an http or https url"),
    "ftp": ("'ftp://h/'", "'ftp://h/' is not an http or https url"),
    "file": ("'file:///etc/passwd'", "'file:///etc/passwd' is not an http or https url"),
    "url-list": ("{'url': ['http://h/']}", "is not an http or https url"),
    "unknown": ("{'url': 'http://h/', 'user_agnet': 'x'}", "option 'user-agnet'; did you mean 'user-agent'?"),
    "very-unknown": ("{'url': 'http://h/', 'zzzzzz': 'x'}", "unknown curl option 'zzzzzz'"),
    "other-protocol": ("{'url': 'http://h/', 'ftp-pasv': True}", '"ftp-pasv" is refused'),
    "refused": ("{'url': 'http://h/', 'config': 'x'}", '"config" is refused'),
    "value": ("{'url': 'http://h/', 'header': {'A': 'b'}}", "option 'header' must be text, a number"),
    "no-number": ("{'url': 'http://h/', 'max-time': 'soon'}", "max-time"),
    "flag-value": ("{'url': 'http://h/', 'compressed': 'x'}", "compressed"),
    "value-flag": ("{'url': 'http://h/', 'user-agent': True}", "user-agent"),
    "line-end": (r"{'url': 'http://h/', 'header': 'A: b\nurl = http://evil/'}", "header"),
    "name": ("{'url': 'http://h/', 'name': 'a/b'}", "task name 'a/b': use letters"),
    "dot-name": ("{'url': 'http://h/', 'name': '.hidden'}", "task name '.hidden'"),
    "long-name": ("{'url': 'http://h/', 'name': 'x' * 201}", "at most 200 characters"),
    "meta": ("{'url': 'http://h/', 'meta': [1]}", "meta must be a dict, not list"),
    "meta-set": ("{'url': 'http://h/', 'name': 'n', 'meta': {'k': {1}}}", "meta of task 'n' can't be written as JSON"),
    "meta-nan": ("{'url': 'http://h/', 'meta': {'k': float('nan')}}", "can't be written as JSON: "),
    "meta-big": ("{'url': 'http://h/', 'meta': {'k': 'x' * 70_000}}", "bytes of JSON"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_task_is_named(case: str) -> None:
    thing, said = WRONG[case]
    problem = refused(f"def create():\n    yield 'http://h/1'\n    yield {thing}\n")
    assert problem.startswith("task 2 that create() yields: ") and said in problem, problem


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def create(:\n", "line 1: SyntaxError"),
        ("x = 1\nimport no_such_module\n", "line 2: ModuleNotFoundError: No module named 'no_such_module'"),
        ("import sys\nsys.exit(0)\n", "line 2: SystemExit: 0"),
        ("crate = 1\n", "has no function create()"),
        ("def create():\n    yield 'http://h/'\n    raise ValueError('x')\n", "line 3: ValueError: x"),
        ("def create():\n    return 1 / 0\n", "line 2: ZeroDivisionError: division by zero"),
        ("def create():\n    return 7\n", "TypeError"),
        ("import sys\ndef create():\n    sys.exit('bye')\n", "line 3: SystemExit: bye"),
    ],
)
def test_a_fault_in_the_plugin_is_told_with_its_line(source: str, said: str) -> None:
    assert refused(source).startswith(said)


# ── the command ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_create_writes_a_file_for_each_task_and_skips_those_that_exist(project: Project, serve: Serve) -> None:
    server = serve({"*": ok("x")})
    plugin(
        project,
        """
        def create(first: int, last: int, site: str):
            for page in range(first, last + 1):
                yield {"url": f"{site}/p?page={page}", "name": str(page), "meta": {"page": page}}
        """,
        "create.py",
    )
    run = sc(project, "create", "1", "4", server.url)
    assert (run.stdout, run.stderr) == ("", "4 tasks created in workdir/origin\n")
    assert project.in_state("origin") == {"1", "2", "3", "4"}
    assert options(texts(project)["3"])[:2] == [f'url = "{server.url}/p?page=3"', 'output = "html/3.html"']
    sc(project, "crawl")
    project.put_url("6", "http://127.0.0.1:1/mine")
    (project.workdir / "success" / "1.conf").rename(project.workdir / "error" / "1.conf")
    (project.workdir / "success" / "2.conf").rename(project.workdir / "working" / "2.conf")
    before = {state: texts(project, state) for state in ("origin", "working", "success", "error")}
    run = sc(project, "create", "1", "6", server.url)  # in error, working, success twice; 5 is new; in origin
    assert run.stderr == "1 task created in workdir/origin, 5 exist already\n"
    after = {state: texts(project, state) for state in before}
    assert after.pop("origin").keys() == {"5", "6"} and before.pop("origin")["6"] == texts(project)["6"]
    assert after == before
    assert sc_json(project, "create", "5", "7", server.url) == {"created": 1, "existing": 2}
    assert sc(project, "-q", "create", "1", "8", server.url).stderr == ""
    assert server.count() == 4


def test_help_shows_what_the_plugin_wants(project: Project) -> None:
    plugin(
        project,
        """
        print("NOISE")
        def create(first: int, last: int = 3, *sites):
            \"\"\"Make a task for each page.

            And more of it.
            \"\"\"
        """,
        "create.py",
    )
    shown = sc(project, "create", "--help").stdout
    assert "sc create FIRST:int [LAST:int] SITES..." in shown
    assert "Make a task for each page." in shown and "And more of it." in shown
    assert "NOISE" not in shown
    (project.folder / "create.py").write_text("def create(:\n")
    assert "Usage: sc create" in sc(project, "create", "--help").stdout


def test_without_a_create_py_the_message_says_what_to_do(project: Project) -> None:
    said = sc(project, "create", "1", "2", check=2).stderr
    assert "there is no create.py here" in said and "`sc init`" in said and "-C examples/bookshop" in said
    assert "can't be read: No such file" in sc(project, "create", "--create", "nowhere.py", check=5).stderr


def test_a_create_that_raises_midway_keeps_what_it_made(project: Project) -> None:
    source = """
        def create(count: int):
            yield from (f"http://127.0.0.1:1/{n}" for n in range(count))
            raise ValueError("no\\x1b[2Jmore" + "!" * 100_000)
    """
    plugin(project, source, "create.py")
    run = sc(project, "create", "3", check=5)
    line, *trace = run.stderr.splitlines()
    assert line.startswith(f"sc: {project.folder / 'create.py'}: line 3: ValueError: no\\x1b[2Jmore!!!")
    assert len(run.stderr) < 3000 and "\x1b" not in run.stderr and trace
    assert len(project.in_state("origin")) == 3
    assert not list((project.workdir / "origin").glob(".*"))
    plugin(project, source.replace("raise", "return "), "create.py")
    assert sc_json(project, "create", "5") == {"created": 2, "existing": 3}


def test_wrong_use_of_create_is_a_usage_error_and_makes_nothing(project: Project) -> None:
    plugin(project, "def create(first: int, last: int): yield 'http://127.0.0.1:1/'", "create.py")
    for words in (["1"], ["1", "x"], ["1", "2", "3"], []):
        assert "usage: sc create FIRST:int LAST:int" in sc(project, "create", *words, check=2).stderr
    assert project.states() == {}
    assert sc(project, "create", "--", "-1", "2").stderr.startswith("1 task created")


def test_what_create_prints_goes_to_stderr(project: Project) -> None:
    plugin(
        project,
        """
        import os, sys
        print("NOISE")
        def create():
            print("NOISE")
            os.write(1, b"NOISE\\n")
            os.system("echo NOISE")
            yield "http://127.0.0.1:1/"
        """,
        "create.py",
    )
    run = sc(project, "create", "--json")
    assert json.loads(run.stdout) == {"created": 1, "existing": 0}
    assert run.stderr.count("NOISE") == 4


def test_a_create_of_any_name_finds_its_neighbours(project: Project) -> None:
    plugin(project, "import json, html, helper\ndef create(): yield helper.SITE + html.escape('&')", "my json.v2.py")
    plugin(project, "SITE = 'http://127.0.0.1:1/?q='", "helper.py")
    for name in ("json.py", "html.py"):
        plugin(project, "raise RuntimeError('not me')", name)
    sc(project, "create", "--create", "my json.v2.py")
    (text,) = texts(project).values()
    assert 'url = "http://127.0.0.1:1/?q=&amp;"' in text


# ── urls ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "clean"),
    [
        ("http://h/", "http://h/"),
        ("https://u:p@h.example:8080/a;b/c.d?e=f&g=[1]#h", "https://u:p@h.example:8080/a;b/c.d?e=f&g=[1]#h"),
        ("  \t\n http://h/a \r\n", "http://h/a"),
        ("\x00\x1fhttp://h/", "http://h/"),
        ("http://h/a b", "http://h/a%20b"),
        ("http://h/?q=a b", "http://h/?q=a%20b"),
        ("http://h/a\n b\tc\rd", "http://h/a%20bcd"),
        ("http://h/café?q=é", "http://h/caf%C3%A9?q=%C3%A9"),
        ("http://h/日本", "http://h/%E6%97%A5%E6%9C%AC"),
        ("http://h/\u2028\x00x", "http://h/%E2%80%A8%00x"),
        ('http://h/"<>^`', "http://h/%22%3C%3E%5E%60"),
        ("http://h/a|b{c}[1-3]", "http://h/a|b{c}[1-3]"),
        ("http://h/%e9%C3%A9%2F%25", "http://h/%e9%C3%A9%2F%25"),
        ("http://h/100%", "http://h/100%"),
        ("http://h\\a\\b", "http://h/a/b"),
        ("http://h/a+b?c=d+e", "http://h/a+b?c=d+e"),
        ("http://bücher.example/x", "http://xn--bcher-kva.example/x"),
        ("http://BÜCHER.Example:8080/X", "http://xn--bcher-kva.example:8080/X"),
        ("https://u:p@例え.テスト/?q", "https://u:p@xn--r8jz45g.xn--zckzah/?q"),
        ("http://faß.example/", "http://xn--fa-hia.example/"),
        ("http://[::1]:80/x", "http://[::1]:80/x"),
        ("HTTP://H/", "HTTP://H/"),
        ("http://h", "http://h"),
        ("http://h?x", "http://h?x"),
    ],
)
def test_a_url_goes_into_a_task_as_a_browser_would_send_it(url: str, clean: str) -> None:
    assert clean_url(url) == clean
    assert clean_url(clean) == clean


@pytest.mark.parametrize(
    "url",
    [
        *("", " ", "x", "/a", "//h/a", "h/a", "www.example.org", "?q", "#x", "http", "http:", "http:h", "http://"),
        *("http:///a", "http://?x", "http://#x", "ftp://h/", "file:///etc/passwd", "data:text/html,hi"),
        *("javascript:1", "mailto:a@example.org", "http://a b/", "http://bü cher/", "http://😀.example/"),
        *("http://" + "é" * 70 + ".example/", "http://h/\ud800"),
    ],
)
def test_what_is_no_url_with_a_host_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"is not an http or https url|has no host|not a url that can be sent"):
        clean_url(url)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://h/a", "http://h/b?c#d", True),
        ("http://h/", "HTTP://H:80", True),
        ("https://h:443/", "https://u:p@h/", True),
        ("http://h/", "https://h/", False),
        ("http://h/", "http://h:8080/", False),
        ("http://h/", "http://h.evil/", False),
        ("http://h/", "http://h@evil/", False),
        ("http://h/", "http://evil?@h/", False),
        ("http://h/", "http://evil#@h/", False),
        ("http://h/", "http://evil\\@h/", False),
        ("http://127.0.0.1/", "http://localhost/", False),
    ],
)
def test_secrets_go_along_to_the_same_origin_only(one: str, other: str, same: bool) -> None:
    assert (origin_of(one) == origin_of(other)) is same


def test_a_plugin_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "create.py"
    path.write_text("def create(): yield 'http://h/1'\n")
    read = Plugin.read(str(path))
    path.write_text("def create(): yield 'http://h/2'\n")
    assert [task.url for task in call_create(read, [])] == ["http://h/1"]


@pytest.mark.parametrize(
    "output", ["../x", "/etc/x", "x.html", "html", "html/", "html/../x", "html/.x", "origin/x.conf"]
)
def test_an_output_outside_html_is_refused_when_the_task_is_made(output: str) -> None:
    with pytest.raises(ValueError, match="lies outside html/"):
        as_task({"url": "http://127.0.0.1/", "output": output}, by="create")


@pytest.mark.parametrize("output", ["html/x.html", "html/a/b.json", "html/x"])
def test_an_output_under_html_is_taken(output: str) -> None:
    assert as_task({"url": "http://127.0.0.1/#part", "output": output}, by="create").output == output


def test_a_fragment_is_no_part_of_the_task() -> None:
    assert as_task("http://127.0.0.1/page#part", by="create").url == "http://127.0.0.1/page"
