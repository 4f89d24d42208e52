"""sc.toml, SC_* and flags: which one wins, and what is said of a file that can't be used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from cli_helpers import TWO, items, plugin, put_pages, sc, sc_json
from click.testing import CliRunner
from conftest import Serve
from helpers import Project
from servers import ok

from stateful_crawler import cli
from stateful_crawler.cli import COMMANDS, crawling
from stateful_crawler.errors import SettingsError
from stateful_crawler.settings import KEYS, PATHS, read_settings

# key -> the option's name in the program, and [text, value] as a flag, a variable, in sc.toml; the default.
VALUES: dict[str, tuple[str, tuple[str, Any], tuple[str, Any], tuple[str, Any], Any]] = {
    "connections": ("connections", ("11", 11), ("12", 12), ("13", 13), 3),
    "retries": ("retries", ("0", 0), ("5", 5), ("6", 6), 2),
    "workers": ("workers", ("7", 7), ("8", 8), ("9", 9), None),
    "parse-timeout": ("parse_timeout", ("1.5", 1.5), ("2.5", 2.5), ("3", 3.0), 60.0),
    "max-size": ("max_size", ("500k", 500 << 10), ("1G", 1 << 30), ('"2M"', 2 << 20), 64 << 20),
    "parser": ("parser", ("a.py", "a.py"), ("b.py", "b.py"), ('"sub/c.py"', "sub/c.py"), None),
}


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What `sc crawl WORDS` would run with, given sc.toml and the environment; nothing is run."""
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(crawling, "_run", lambda project, options, *rest: seen.append(options | {"project": project}))
    monkeypatch.chdir(tmp_path)

    def choose(*words: str, toml: str = "", env: Mapping[str, str] | None = None) -> dict[str, Any]:
        (tmp_path / "sc.toml").write_text(toml)
        ended = CliRunner().invoke(cli.sc, words, env=dict(env or {}), catch_exceptions=False)
        assert ended.exit_code == 0, ended.output
        return seen.pop()

    return choose


@pytest.mark.parametrize("key", VALUES)
def test_a_flag_beats_a_variable_beats_the_file_beats_the_default(chosen: Any, tmp_path: Path, key: str) -> None:
    name, flag, variable, line, default = VALUES[key]
    env, toml = {f"SC_{key.upper().replace('-', '_')}": variable[0]}, f"{key} = {line[0]}\n"
    in_file = str(tmp_path / line[1]) if key in PATHS else line[1]
    assert chosen("crawl", f"--{key}", flag[0], toml=toml, env=env)[name] == flag[1]
    assert chosen("crawl", toml=toml, env=env)[name] == variable[1]
    assert chosen("crawl", toml=toml)[name] == in_file
    assert chosen("crawl")[name] == default
    assert chosen("crawl", env=env)[name] == variable[1]
    assert chosen("retry", toml=toml)[name] == in_file  # not for one command only


def test_the_workdir_is_chosen_in_the_same_order(chosen: Any, tmp_path: Path) -> None:
    toml, env = 'workdir = "c"\n', {"SC_WORKDIR": "b"}

    def workdir(*words: str, **where: Any) -> str:
        path: str = chosen(*words, "crawl", **where)["project"].workdir
        return str(Path(path).relative_to(tmp_path))

    assert workdir("-w", "a", toml=toml, env=env) == "a"
    assert workdir(toml=toml, env=env) == "b"
    assert workdir(toml=toml) == "c"
    assert workdir() == "workdir"


def test_switches_are_variables_too(chosen: Any) -> None:
    for name in ("quiet", "verbose", "debug"):
        assert getattr(chosen(f"--{name}", "crawl")["project"], name) is True
        assert getattr(chosen("crawl", env={f"SC_{name.upper()}": "1"})["project"], name) is True
        assert getattr(chosen("crawl")["project"], name) is False
    assert chosen("crawl", env={"SC_NO_PARSE": "1"})["no_parse"] is True


def test_other_ways_to_write_the_file(chosen: Any) -> None:
    assert chosen("crawl", toml="\ufeffconnections = 4\r\nretries = 1\r\n")["connections"] == 4
    assert chosen("crawl", toml="# nothing\n\n")["connections"] == 3
    assert chosen("crawl", toml="max-size = 1000\n")["max_size"] == 1000
    assert chosen("crawl", toml="'connections' = 0x10\n\"retries\" = 1_0\n")["connections"] == 16


def test_networks_stand_in_a_list_or_in_several_options(chosen: Any) -> None:
    def networks(*words: str, **given: Any) -> list[str]:
        return [str(network) for group in chosen("crawl", *words, **given)["allow_private"] for network in group]

    assert networks() == []
    assert networks(toml='allow-private = "10.0.0.0/8, fd00::/8"\n') == ["10.0.0.0/8", "fd00::/8"]
    assert networks(toml='allow-private = ["10.0.0.0/8", "fd00::/8"]\n') == ["10.0.0.0/8", "fd00::/8"]
    assert networks(toml='allow-private = ""\n') == networks(toml="allow-private = []\n") == []
    env, toml = {"SC_ALLOW_PRIVATE": "::1,127.0.0.1"}, "allow-private = 'all'\n"
    assert networks(toml=toml) == ["0.0.0.0/0", "::/0"]
    assert networks(toml=toml, env=env) == ["::1/128", "127.0.0.1/32"]
    words = ("--allow-private", "10.0.0.1", "--allow-private", "10.0.0.2,10.0.0.3")
    assert networks(*words, toml=toml, env=env) == ["10.0.0.1/32", "10.0.0.2/32", "10.0.0.3/32"]


def test_every_key_is_an_option_with_its_variable() -> None:
    context = click.Context(cli.sc)
    commands = [cli.sc, *(cli.sc.get_command(context, name) for name in COMMANDS)]
    options = {
        name: option.envvar
        for command in commands
        if command
        for option in command.params
        if isinstance(option, click.Option)
        for name in option.opts
    }
    assert {key: options.get(f"--{key}") for key in KEYS} == {
        key: f"SC_{key.upper().replace('-', '_')}" for key in KEYS
    }


@pytest.mark.parametrize(
    ("toml", "line", "said"),
    [
        ("retries = 1\nconections = 3\n", 2, "unknown key 'conections'; did you mean 'connections'?"),
        ("\n\nparse_timeout = 3\n", 3, "unknown key 'parse_timeout'; did you mean 'parse-timeout'?"),
        ("zzz = 1\n", 1, "unknown key 'zzz'"),
        ("retries = 1\n[crawl]\nconnections = 3\n", 2, "unknown key 'crawl'"),
        ("'Connections' = 1\n", 1, "unknown key 'Connections'; did you mean 'connections'?"),
        ("# connections\nconnections = '3'\n", 2, "connections must be a whole number, not '3'"),
        ("connections = 3.5\n", 1, "connections must be a whole number, not 3.5"),
        ("connections = true\n", 1, "connections must be a whole number, not True"),
        ("connections = [3]\n", 1, "connections must be a whole number, not [3]"),
        ("retries = 1\nparser = 3\n", 2, "parser must be text in quotes, not 3"),
        ("parse-timeout = '60'\n", 1, "parse-timeout must be a whole number or a number, not '60'"),
        ("max-size = 1.5\n", 1, "max-size must be a whole number or text in quotes, not 1.5"),
        ("allow-private = [1]\n", 1, "allow-private must be text in quotes or a list of texts, not [1]"),
        ("workdir = false\n", 1, "workdir must be text in quotes, not False"),
        ("retries = 1\nconnections = = 3\n", 2, "is not TOML: "),
        ("retries = 1\nretries = 2\n", 2, "is not TOML: "),
        ("retries = \n", 1, "is not TOML: "),
        ("parser = parser.py\n", 1, "is not TOML: "),
    ],
)
def test_what_is_wrong_in_the_file_is_told_with_its_line(tmp_path: Path, toml: str, line: int, said: str) -> None:
    (tmp_path / "sc.toml").write_text(toml)
    with pytest.raises(SettingsError) as error:
        read_settings(str(tmp_path))
    assert str(error.value).startswith(f"{tmp_path}/sc.toml:{line}: {said}")


def test_a_file_that_cannot_be_read_as_text_or_at_all(tmp_path: Path) -> None:
    assert read_settings(str(tmp_path)) == {}
    path = tmp_path / "sc.toml"
    path.write_bytes(b"parser = '\xff'\n")
    with pytest.raises(SettingsError, match=r"sc\.toml: is not TOML: .*utf-8"):
        read_settings(str(tmp_path))
    path.unlink()
    path.mkdir()
    with pytest.raises(SettingsError, match=r"sc\.toml: can't be read: Is a directory"):
        read_settings(str(tmp_path))


def test_a_wrong_file_ends_every_command_with_2_before_it_begins(project: Project) -> None:
    (project.folder / "sc.toml").write_text("conections = 3\n")
    for words in (["crawl"], ["status"], ["create", "1"]):
        run = sc(project, *words, check=2)
        assert run.stderr == f"sc: {project.folder}/sc.toml:1: unknown key 'conections'; did you mean 'connections'?\n"
    assert sc(project, "--help").stdout.startswith("Usage: ")
    (project.folder / "sc.toml").write_text("connections = 0\n")
    said = sc(project, "crawl", check=2).stderr
    assert "0 is not in the range" in said and "sc.toml" in said
    said = sc(project, "crawl", "-c", "1", env={"SC_RETRIES": "many"}, check=2).stderr
    assert "SC_RETRIES" in said and "'many' is not a valid integer" in said and "sc.toml" not in said


def test_a_project_is_used_from_anywhere_by_its_own_file(project: Project, serve: Serve, tmp_path: Path) -> None:
    server = serve({"*": ok(TWO)})
    (project.folder / "sc.toml").write_text(
        'workdir = "data/crawl"\ncreate = "plugins/make.py"\nparser = "plugins/take.py"\nconnections = 1\n'
    )
    (project.folder / "plugins").mkdir()
    plugin(project, f"def create(n: int): yield from (f'{server.url}/{{i}}' for i in range(n))", "plugins/make.py")
    plugin(project, "def parse(page): yield {'by': 'take'}", "plugins/take.py")
    plugin(project, "def parse(page): yield {'by': 'flag'}", "other.py")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert "plugins/make.py" in sc(elsewhere, "-C", "../project", "create", "--help").stdout
    assert sc_json(elsewhere, "-C", "../project", "create", "4") == {"created": 4, "existing": 0}
    assert sc_json(elsewhere, "-C", "../project", "crawl")["items"] == 4
    assert server.most_in_flight == 1
    project.workdir = project.folder / "data" / "crawl"
    name = project.in_state("success").pop()
    assert items(project, name) == [{"by": "take"}]
    sc(elsewhere, "-C", "../project", "parse", "--all", "--parser", "other.py")
    assert items(project, name) == [{"by": "flag"}]
    put_pages(project, server.url, ["x"])
    sc(elsewhere, "-C", "../project", "crawl", env={"SC_PARSER": "other.py"})
    assert items(project, "x") == [{"by": "flag"}]
    assert not list(elsewhere.iterdir())
