"""The docs are true: what they show runs, and what there is (commands, options, records, modules) they name."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import typing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import click
import options_page
import pytest
from helpers import clean_env, sc_command
from test_layers import LAYERS, ONLY_IMPORTERS, OUTSIDE

from stateful_crawler import cli, fsck, plugins, settings
from stateful_crawler.cli.summary import as_dict
from stateful_crawler.control import Tally
from stateful_crawler.curl.config import parse_config
from stateful_crawler.curl.options import OPTIONS, Verdict
from stateful_crawler.errors import TaskFileError
from stateful_crawler.page import Page
from stateful_crawler.reasons import REASONS
from stateful_crawler.report import facts_of, status_of
from stateful_crawler.sites import PORT, Response, Server, bookshop, quotes
from stateful_crawler.task import name_for, new_task
from stateful_crawler.workdir import OUTPUTS, STATES, Workdir

ROOT = Path(__file__).parent.parent
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), *(ROOT / "examples").glob("*/README.md")])
TEXTS = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in PAGES}


# ── reading Markdown ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Block:
    """A fenced block; `note` is the HTML comment right above it."""

    page: str
    language: str
    text: str
    note: str


def blocks(page: str, *languages: str) -> list[Block]:
    fenced = re.compile(r"(?:<!-- ([^\n]*?) -->\n)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    found = [Block(page, match[2], match[3], match[1] or "") for match in fenced.finditer(TEXTS[page])]
    return [block for block in found if not languages or block.language in languages]


def prose(page: str) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", TEXTS[page], flags=re.MULTILINE | re.DOTALL)


def section(page: str, heading: str) -> str:
    """What stands under a heading, up to the next of the same or a higher level."""
    level = len(heading) - len(heading.lstrip("#"))
    # A comment in a fenced block is no heading.
    plain = re.sub(r"^```.*?^```$", lambda block: "\0" * len(block[0]), TEXTS[page], flags=re.MULTILINE | re.DOTALL)
    match = re.search(rf"^{re.escape(heading)}$(.*?)(?=^#{{1,{level}}} |\Z)", plain, re.MULTILINE | re.DOTALL)
    assert match, f"{page} has no section {heading!r}"
    return TEXTS[page][match.start(1) : match.end(1)]


def coded(text: str) -> set[str]:
    """All that stands between backticks; in a table, `|` is written with a backslash."""
    return {code.replace("\\|", "|") for code in re.findall(r"`([^`\n]+)`", text)}


def first_column(text: str) -> set[str]:
    """The code in the first cell of each row of the tables."""
    return {word for row in re.findall(r"^\|(.*?)(?<!\\)\|", text, re.MULTILINE) for word in coded(row)}


def commands_of(block: Block) -> list[tuple[str, list[str]]]:
    """The commands of a console block, `> ` lines joined to theirs, each with the output that is shown."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.startswith("> "):
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", [])
        else:
            found[-1][1].append(line)
    return found


# ── the tutorial ─────────────────────────────────────────────────────────────────────────────────────────────────────

TUTORIAL = "docs/tutorial.md"
MARK = "@@@ "
TAKEN_BACK = "taken back from a run that did not end"  # what the summary says only if there was something


@dataclass(frozen=True)
class Ran:
    """A command of the tutorial, what is shown of its output, what it really wrote, and its exit code."""

    command: str
    shown: list[str]
    wrote: list[str]
    code: int
    varies: bool


class HeldShop:
    """The bookshop, but the crawl that is to be killed waits at its page 61 until it is dead.

    Without this a fast crawl on a slow day could end before the shell has killed it.
    """

    ABOUT = bookshop.ABOUT

    def __init__(self) -> None:
        self.killed = threading.Event()

    def respond(self, path: str, query: Mapping[str, str], visit: int) -> Response:
        if path == "/killed":
            self.killed.set()
        if query.get("page") == "61" and visit > 1:
            self.killed.wait(60)
        return bookshop.respond(path, query, visit)


@pytest.fixture
def ran(tmp_path: Path) -> list[Ran]:
    """All commands of the tutorial, run as a reader would: in one shell, with the site in another process."""
    if not shutil.which("curl") or not shutil.which("bash"):
        pytest.skip("needs curl and bash")
    steps = [
        (block, command, shown)
        for block in blocks(TUTORIAL, "console")
        if block.note != "the site"
        for command, shown in commands_of(block)
    ]
    with Server({"bookshop": HeldShop(), "quotes": quotes}, 0, "127.0.0.1") as server:
        port = server.url.rpartition(":")[2]
        output = run_in_shell(tmp_path, [command for _, command, _ in steps], port)
    parts = re.split(rf"^{MARK}(\d+)$", output, flags=re.MULTILINE)
    assert len(parts) == 2 * len(steps) + 1, output
    return [
        Ran(command, shown, wrote.strip("\n").splitlines(), int(code), bool(block.note))
        for (block, command, shown), wrote, code in zip(steps, parts[::2], parts[1::2], strict=False)
    ]


def run_in_shell(folder: Path, commands: list[str], port: str) -> str:
    """What the commands write, a line with MARK and the exit code after each."""
    told = f"curl -q -s -o killed http://127.0.0.1:{port}/bookshop/killed\n"
    script = [
        f"{command}\ncode=$?; echo; echo '{MARK}'$code\n" + (told if "kill -9" in command else "")
        for command in commands
    ]
    write_sc(folder / "bin", port)
    (folder / "script").write_text("exec 2>&1\n" + "".join(script).replace(f":{PORT}", f":{port}"), encoding="utf-8")
    env = clean_env(PATH=f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", LC_ALL="C.UTF-8")
    shell = subprocess.run(["bash", folder / "script"], cwd=folder, env=env, stdout=subprocess.PIPE, timeout=100)
    return shell.stdout.decode().replace(f":{port}", f":{PORT}")


def write_sc(folder: Path, port: str) -> None:
    """An `sc` for the shell that writes the port of this test's site into the plugins that `sc init` makes."""
    folder.mkdir()
    path = folder / "sc"
    ours = shlex.join(sc_command())
    path.write_text(
        f'#!/bin/sh\n[ "$1" = init ] || exec {ours} "$@"\n{ours} "$@" || exit\n'
        f'sed "s/:{PORT}/:{port}/" "$2/create.py" > "$2/.create" && mv "$2/.create" "$2/create.py"\n'
    )
    path.chmod(0o755)


def masked(line: str, varies: bool) -> str:
    """The line without what differs from run to run: times, waits, hashes over the port, blanks round it."""
    line = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", line.strip())
    line = re.sub(r"((?:seconds|retry_in_s)\"?:? )[\d.]+", r"\1S", line)
    line = re.sub(r"-[0-9a-f]{10}\b", "-HASH", line)
    return re.sub(r"\d+", "N", line) if varies else line


def test_the_tutorial_shows_what_the_site_says() -> None:
    (block,) = (block for block in blocks(TUTORIAL, "console") if block.note == "the site")
    ((command, shown),) = commands_of(block)
    assert command == "sc site"
    with subprocess.Popen(
        sc_command("site", "--port", "0"), stdout=subprocess.PIPE, text=True, env=clean_env()
    ) as site:
        assert site.stdout is not None
        said = [site.stdout.readline().rstrip() for _ in shown]
        site.terminate()
    assert [re.sub(r":\d+/", f":{PORT}/", line) for line in said] == shown


def test_the_tutorial_is_true(ran: list[Ran], tmp_path: Path) -> None:
    """One test, since the whole takes some seconds: what it shows, where it fails, what the kill left, what it made."""
    assert len(ran) > 30
    for step in ran:
        assert_as_shown(step)
    assert [(step.command, step.code) for step in ran if step.code] == [("sc parse", 3), ("sc crawl", 3)]
    assert_nothing_was_lost(ran)
    assert_only_documented_keys(tmp_path)
    assert_the_parser_can_be_tried(tmp_path / "shop")


def assert_as_shown(step: Ran) -> None:
    shown = [masked(line, step.varies) for line in step.shown]
    wrote = [masked(line, step.varies) for line in step.wrote]
    told = f"$ {step.command}\nshown:\n{os.linesep.join(shown)}\nwritten:\n{os.linesep.join(wrote)}"
    if "..." in shown or step.varies:
        rest = iter(wrote)
        assert all(line in rest for line in shown if line != "..." and TAKEN_BACK not in line), told
    else:
        assert shown == wrote, told


def assert_nothing_was_lost(ran: list[Ran]) -> None:
    """The crawl that was killed: a hundred tasks in its states, and the next one took back what lay in working/."""
    wrote = {step.command: step.wrote for step in reversed(ran)}
    counts = {word: int(count) for word, count in re.findall(r"(\w+) (\d+)", "\n".join(wrote["sc -w again status"]))}
    assert sum(counts[state] for state in STATES) == 100
    assert 1 <= counts["success"] <= 60
    told = f"{counts['working']} {TAKEN_BACK}"
    assert (told in wrote["sc -w again crawl"]) == (counts["working"] > 0), wrote["sc -w again crawl"]


def assert_only_documented_keys(folder: Path) -> None:
    paths = list(folder.glob("*/*/*/*.conf"))
    assert len(paths) == 212
    for path in paths:
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("# sc: "):
                assert json.loads(line[6:]).keys() <= record_keys(), f"{path}: {line}"


def assert_the_parser_can_be_tried(project: Path) -> None:
    """What docs/plugins.md says to do in a Python shell."""
    (block,) = (block for block in blocks("docs/plugins.md", "python") if "read_bytes" in block.text)
    env = clean_env(PYTHONIOENCODING="utf-8")
    run = subprocess.run([sys.executable, "-c", block.text], cwd=project, env=env, stdout=subprocess.PIPE, check=True)
    assert len(ast.literal_eval(run.stdout.decode())) == bookshop.PER_PAGE


# ── commands ─────────────────────────────────────────────────────────────────────────────────────────────────────────

COMMANDS = "docs/commands.md"


def command_of(name: str) -> click.Command:
    command = cli.sc.get_command(click.Context(cli.sc), name)
    assert command is not None
    return command


def spelled(command: click.Command) -> set[str]:
    """Every spelling of every option of a command."""
    return {name for param in command.params if isinstance(param, click.Option) for name in param.opts}


@pytest.mark.parametrize("name", ["", *cli.COMMANDS])
def test_every_option_and_variable_of_a_command_is_documented(name: str) -> None:
    command = command_of(name) if name else cli.sc
    text = section(COMMANDS, f"## sc {name}" if name else "## Global options")
    words = {word for code in coded(text) for word in code.replace("=", " ").split()}
    for param in command.params:
        if isinstance(param, click.Argument):
            assert {param.make_metavar(click.Context(command)).strip("[].").split("|")[0], "NAMES", "NAME"} & words
            continue
        assert set(param.opts) <= words, f"{name}: {param.opts}"
        if param.envvar and name != "retry":  # retry's are crawl's
            assert param.envvar in words, f"{name}: {param.envvar}"


@pytest.mark.parametrize("name", ["", *cli.COMMANDS])
def test_no_option_is_documented_that_does_not_exist(name: str) -> None:
    text = section(COMMANDS, f"## sc {name}" if name else "## Global options")
    known = spelled(cli.sc) | (spelled(command_of(name)) if name else set()) | {"--help", "-h", "--refetch"}
    rows = "\n".join(first_column(text) | {code for code in coded(text) if code.startswith("-")})
    assert set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", rows)) <= known


def test_the_list_of_commands_is_complete() -> None:
    assert set(re.findall(r"^## sc ([\w-]+)$", TEXTS[COMMANDS], re.MULTILINE)) == set(cli.COMMANDS)
    assert set(re.findall(r"`sc ([a-z-]+)", section("README.md", "## Commands"))) >= set(cli.COMMANDS)


def test_every_variable_is_documented_and_every_documented_one_exists() -> None:
    commands = [cli.sc, *map(command_of, cli.COMMANDS)]
    known = {param.envvar for command in commands for param in command.params if param.envvar}
    assert set(re.findall(r"\bSC_[A-Z_]+\b", TEXTS[COMMANDS])) == known


def test_every_key_of_sc_toml_is_documented() -> None:
    text = section(COMMANDS, "## Settings: variables and sc.toml")
    assert first_column(text) == set(settings.KEYS)


def test_every_exit_code_is_documented() -> None:
    codes = {value for name, value in vars(cli).items() if name.startswith("EXIT_")}
    codes |= {0, 141} | {128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    rows = re.findall(r"^\| ([\d, ]+) \|", section(COMMANDS, "## Exit codes"), re.MULTILINE)
    assert {int(code) for row in rows for code in row.split(",")} == codes


def test_the_keys_of_json_are_documented(tmp_path: Path) -> None:
    workdir = Workdir(str(tmp_path)).open()
    workdir.add(new_task("http://127.0.0.1/", by="hand", name="one"))
    facts = facts_of(workdir, "one")
    assert facts is not None
    assert first_column(section(COMMANDS, "## sc status")) == status_of(workdir, 3).keys()
    assert facts.keys() <= coded(section(COMMANDS, "## sc show"))
    assert first_column(section(COMMANDS, "### The sums of a run")) == as_dict(Tally()).keys()
    assert first_column(section(COMMANDS, "## sc fsck")) >= set(typing.get_args(fsck.Kind))


def shell_lines() -> Iterator[tuple[str, str]]:
    """Every line of shell that the docs show, with its page."""
    for page in TEXTS:
        for block in blocks(page):
            if block.language == "console":
                yield from ((page, command) for command, _ in commands_of(block))
            elif block.language == "sh":
                yield from ((page, line) for line in block.text.splitlines())
            elif not block.language:
                yield from ((page, line) for line in block.text.splitlines() if re.search(r"(&& |=\S*/)sc ", line))
        yield from ((page, code) for code in coded(prose(page)) if re.match(r"sc [-a-z]", code))


def sc_lines() -> list[tuple[str, str]]:
    found = set()
    for page, line in shell_lines():
        for part in re.split(r"&&|\|\|?|;|&(?!&)|\$\(|\)", line.partition("\n")[0]):
            if match := re.search(r"(?:^|\s|/)sc (?=[-a-z])(.*)", part):
                found.add((page, match[1]))
    return sorted(found)


@pytest.mark.parametrize(("page", "line"), sc_lines(), ids=[f"{page}:{line}" for page, line in sc_lines()])
def test_every_sc_command_line_is_one_that_sc_takes(page: str, line: str) -> None:
    words = [word for word in shlex.split(re.sub(r"\d?>.*", "", line), comments=True) if not word.startswith("[")]
    group = click.Context(cli.sc)
    _, rest, _ = cli.sc.make_parser(group).parse_args(words)
    if not rest:
        return
    command = command_of(rest[0])
    context = click.Context(command)
    given, left, order = command.make_parser(context).parse_args(rest[1:])
    assert not left
    for param in order:
        value = given.get(param.name)
        if isinstance(param, click.Option) and isinstance(value, str) and not value.isupper():
            param.type_cast_value(context, value)


@pytest.mark.parametrize("page", TEXTS)
def test_every_shell_snippet_parses(page: str) -> None:
    if not shutil.which("bash"):
        pytest.skip("needs bash")
    snippets = [block.text for block in blocks(page, "sh")]
    snippets += [command + "\n" for block in blocks(page, "console") for command, _ in commands_of(block)]
    script = "".join(f"f{number}() {{\n{text}}}\n" for number, text in enumerate(snippets))
    check = subprocess.run(["bash", "-n"], input=script, text=True, stderr=subprocess.PIPE)
    assert check.returncode == 0, check.stderr


# ── the task file ────────────────────────────────────────────────────────────────────────────────────────────────────

TASK_FILE = "docs/task-file.md"
OPTIONS_PAGE = "docs/options.md"


def test_the_tables_of_options_are_those_of_the_code() -> None:
    """If not: `python tests/options_page.py` makes them anew."""
    assert options_page.filled(TEXTS[OPTIONS_PAGE]) == TEXTS[OPTIONS_PAGE]


def test_every_option_of_curl_is_documented_once_with_its_letter() -> None:
    rows = re.findall(r"^\| `([^`]+)` \| (?:`-(.)` )?\|", TEXTS[OPTIONS_PAGE], re.MULTILINE)
    assert len(rows) == len(OPTIONS)
    assert dict(rows) == {option.name: option.short for option in OPTIONS.values()}


def test_the_page_of_options_counts_them_right() -> None:
    counts = Counter(option.verdict for option in OPTIONS.values())
    introduction = TEXTS[OPTIONS_PAGE].partition("\n## ")[0]
    assert f"All {len(OPTIONS)}" in introduction
    wanted = [counts[verdict] for verdict in get_args(Verdict)]
    assert [int(number) for number in re.findall(r"\*\*(\d+)\*\*", introduction)] == wanted


def test_options_that_are_named_in_the_docs_exist() -> None:
    named = coded(section(TASK_FILE, "## Options").partition("Files that go out")[0])
    assert named <= {option.name for option in OPTIONS.values() if option.usable}


def test_what_is_said_to_be_refused_is_refused() -> None:
    lines = re.findall(r"^\| `(.*?)` \|", section(TASK_FILE, "## Where we are stricter than curl"), re.MULTILINE)
    assert len(lines) > 15
    for line in lines:
        url = "" if "url=" in line else 'url = "http://h/"\n'
        with pytest.raises(TaskFileError):
            parse_config(f"{url}{line}\n", "a.conf")
            pytest.fail(f"accepted: {line}")


def test_the_task_files_that_are_shown_can_be_read() -> None:
    shown = [block.text for page in TEXTS for block in blocks(page, "")]
    files = [text for text in shown if re.search("^url = ", text, re.MULTILINE)]
    assert len(files) >= 2
    for text in files:
        parse_config(text, "shown.conf")


def test_the_name_that_is_shown_is_the_name_that_is_made() -> None:
    assert f"{name_for('http://127.0.0.1:8642/quotes/page/2/')}.conf\n" in section(TASK_FILE, "## Names")
    for url in ("http://127.0.0.1:8642/quotes/", "http://127.0.0.1:8642/quotes/page/10/"):
        assert f"\n{name_for(url)}.conf\n" in TEXTS[TUTORIAL]


def test_every_reason_is_documented() -> None:
    assert first_column(section(TASK_FILE, "## Reasons")) == set(REASONS)


def record_keys() -> set[str]:
    """The keys of records that the docs name."""
    return first_column(section(TASK_FILE, "## Records"))


def keys_written() -> set[str]:
    """The keys that the code can write into a record: those of its dicts, and the keywords of `.record(...)`."""
    found = {"parent", "depth", "meta"}
    for name in ("task.py", "record.py", "run.py", "worker.py", "fetch/loop.py", "fetch/verdict.py"):
        tree = ast.parse((ROOT / "stateful_crawler" / name).read_text(encoding="utf-8"))
        functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
        for node in (inner for function in functions for inner in ast.walk(function)):
            if isinstance(node, ast.Dict):
                found |= {str(key.value) for key in node.keys if isinstance(key, ast.Constant)}
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                key = node.slice.value if isinstance(node.slice, ast.Constant) else None
                found |= {key} if isinstance(key, str) else set()
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "record":
                found |= {keyword.arg for keyword in node.keywords if keyword.arg}
    return found


def test_every_key_that_a_record_may_have_is_documented_and_no_other() -> None:
    assert record_keys() == keys_written()


def test_every_directory_of_the_workdir_is_documented() -> None:
    (block,) = (block for block in blocks(TASK_FILE) if block.text.startswith("workdir/"))
    assert set(re.findall(r"^  (\S+)/ ", block.text, re.MULTILINE)) == {*STATES, *OUTPUTS, ".sc"}


# ── plugins ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def python_blocks() -> list[Block]:
    return [block for page in TEXTS for block in blocks(page, "python")]


def functions_of(block: Block) -> Mapping[str, Any]:
    """What a block defines; one that only shows the inside of parse() becomes one."""
    try:
        code = compile(block.text, block.page, "exec")
    except SyntaxError:
        code = compile(f"def parse(page):\n{textwrap.indent(block.text, '    ')}", block.page, "exec")
    if "def " not in block.text and "page" not in block.text.split("\n")[0]:
        return {}  # a line to show an import
    defined: dict[str, Any] = {}
    exec(code, defined)
    return defined


@pytest.mark.parametrize("block", [b for b in python_blocks() if "def create" in b.text], ids=lambda b: b.page)
def test_every_create_that_is_shown_makes_tasks(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "secret")
    (tmp_path / "list").write_text("http://127.0.0.1:8642/bookshop/\n\nhttp://127.0.0.1:8642/quotes/\n")
    create: Callable[..., Any] = functions_of(block)["create"]
    needed = [p for p in inspect.signature(create).parameters.values() if p.default is p.empty]
    words = ["1" if p.annotation == "int" or p.annotation is int else str(tmp_path / "list") for p in needed]
    tasks = [plugins.as_task(thing, by="create") for thing in create(*plugins.convert(create, words))]
    assert tasks
    for task in tasks:
        parse_config(task.text().decode(), "task.conf")


def samples() -> list[Page]:
    """Pages to try a parser on: a shelf of books, quotes, and the answer of a JSON API."""
    made = [
        (bookshop.respond("/catalogue", {"page": "1"}, 1).body, "bookshop/catalogue?page=1"),
        (quotes.respond("/", {}, 1).body, "quotes/"),
        (b'{"items": [{"id": 1}], "next": "?page=2"}', "api?page=1"),
    ]
    return [Page(body, url=f"http://127.0.0.1:8642/{path}", follow=lambda url, given: url) for body, path in made]


@pytest.mark.parametrize(
    "block", [b for b in python_blocks() if "yield" in b.text and "def create" not in b.text], ids=lambda b: b.page
)
def test_every_parser_that_is_shown_finds_something(block: Block) -> None:
    pages = [page for page in samples() if ("json()" in block.text) == ("/api?" in page.url)]
    assert [thing for page in pages for thing in functions_of(block)["parse"](page)]


@pytest.mark.parametrize("block", python_blocks(), ids=lambda b: b.page)
def test_every_piece_of_python_compiles(block: Block) -> None:
    functions_of(block)


def test_the_page_is_documented_in_full() -> None:
    public = {name for name in dir(Page(b"", url="")) if not name.startswith("_")} - {"was_read"}  # the worker's own
    said = set(re.findall(r"`page\.(\w+)", section("docs/plugins.md", "## The page")))
    assert said == public


# ── architecture ─────────────────────────────────────────────────────────────────────────────────────────────────────

ARCHITECTURE = "docs/architecture.md"


def test_the_picture_of_the_layers_is_the_one_that_is_enforced() -> None:
    (picture,) = blocks(ARCHITECTURE, "layers")
    assert [set(line.split()) for line in picture.text.splitlines()] == [set(row) for row in reversed(LAYERS)]


def test_every_module_is_named() -> None:
    text = section(ARCHITECTURE, "## Layers")
    assert first_column(text) == set().union(*LAYERS)
    assert OUTSIDE.keys() | {"templates"} <= coded(text)


def test_who_alone_knows_a_library_is_said() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", section(ARCHITECTURE, "## Layers"), re.MULTILINE))
    for library, module in ONLY_IMPORTERS.items():
        assert re.search(rf"Alone knows .*\b{library}\b", rows[module]), f"{module} alone knows {library}"


def test_the_files_that_are_named_exist() -> None:
    text = section(ARCHITECTURE, "## The way of a task")
    for name in re.findall(r"`([\w/]+\.py)`", text):
        if name not in ("create.py", "parser.py"):
            assert (ROOT / "stateful_crawler" / name).is_file(), name


# ── all pages ────────────────────────────────────────────────────────────────────────────────────────────────────────


def anchor(heading: str) -> str:
    """The anchor that GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")


def anchors(page: str) -> set[str]:
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)}


@pytest.mark.parametrize("page", TEXTS)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"https?:", target):
            continue
        file, _, wanted = target.partition("#")
        path = ((ROOT / page).parent / file).resolve() if file else ROOT / page
        assert path.exists(), f"{page}: {target}"
        if wanted:
            assert wanted in anchors(str(path.relative_to(ROOT))), f"{page}: {target}"


@pytest.mark.parametrize("page", TEXTS)
def test_no_page_names_a_place_of_the_machine_it_was_written_on(page: str) -> None:
    assert not re.search(r"/(work|root|home/\w+|Users|var/folders|tmp/pytest)\b", TEXTS[page])
    assert not re.search(r"DESIGN\.md|STYLE\.md|/shared/", TEXTS[page])
