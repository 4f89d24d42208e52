"""Lines of bash and of cmd.exe as words: bash is asked itself, cmd.exe's rules are spelt out."""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest

from stateful_crawler.curl.bash import Fault, quote_bash, split_bash
from stateful_crawler.curl.cmd import quote_cmd, split_cmd

# What real bash is asked about: each piece means something to it, and no mixture of them runs a program.
PIECES = [
    *("a", "b", "0", "é", " ", "  ", "\t", "'", "'", '"', '"', "\\", "\\\n", "$'", "\\'", "\\x41", "\\u00e9", "\\101"),
    *(
        "\\U0001f600",
        "\\n",
        "\\e",
        "\\c",
        "A",
        "$",
        '$"',
        "#",
        "~",
        "=",
        "=~/",
        ":",
        "%",
        "^",
        "!",
        "@",
        "-H",
        "/",
        "{}",
    ),
    *("http://h/?a=", "[", "]", "*", "?", "\\\\", "{", "}", "\\x", "\\8"),
]


def words(text: str) -> list[str]:
    (command,) = split_bash(text)
    assert command.fault is None
    return command.words


def cmd_words(text: str) -> list[str]:
    (command,) = split_cmd(text)
    assert command.fault is None
    return command.words


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_reads_the_same_words(tmp_path: Path) -> None:
    """Mixtures of awkward pieces, all in one bash: where we see no fault, it sees the same words."""
    chance = random.Random(1)
    asked: list[tuple[str, list[str]]] = []
    while len(asked) < 1500:
        text = "curl " + "".join(chance.choices(PIECES, k=chance.randint(1, 14)))
        commands = split_bash(text)
        if len(commands) == 1 and not commands[0].fault and not text.endswith("\\"):
            asked.append((text, commands[0].words))
    script = 'curl() { printf \'%s\\0\' "$#" "$@"; }\n' + "\n".join(text for text, _ in asked) + "\n"
    env = {"LC_ALL": "C.UTF-8", "HOME": "/nobody", "PATH": ""}
    bash = str(shutil.which("bash"))
    run = subprocess.run([bash, "--norc", "-c", script], env=env, cwd=tmp_path, capture_output=True, check=True)
    said = iter(word.decode("utf-8", "surrogateescape") for word in run.stdout.split(b"\0")[:-1])
    for text, ours in asked:
        assert [next(said) for _ in range(int(next(said)))] == ours[1:], text
    assert next(said, None) is None


def test_lines_are_counted() -> None:
    commands = split_bash("# one\n\ncurl a \\\n  -d 'x\ny'\n\ncurl b | x\ncurl \\\n $A\n")
    assert [command.line for command in commands] == [3, 7, 8]
    assert commands[1].fault and commands[1].fault.line == 7
    assert commands[2].fault and commands[2].fault.line == 9
    commands = split_cmd('curl a ^\r\n  -d "x"\r\n\r\nrem curl c\r\ncurl b > x\r\n')
    assert [command.line for command in commands] == [1, 5]


def test_only_the_first_fault_of_a_command_is_kept() -> None:
    (command,) = split_bash("curl $A | jq . > $B")
    assert command.fault == Fault(1, "the variable $A", "--env fills it from the environment (A)")


def test_variables_are_filled_in() -> None:
    values = {"A": "1", "B": "x y", "HOME": "/h", "E": ""}
    (command,) = split_bash('curl $A${A}b "$B" \'$B\' ~/c "a${E}b"', values)
    assert (command.words, command.fault) == (["curl", "11b", "x y", "$B", "/h/c", "ab"], None)
    (command,) = split_bash("curl $B", values)
    assert command.fault and "split" in command.fault.problem
    (command,) = split_bash("curl $C", values)
    assert command.fault and "$C is not set" in command.fault.problem
    (command,) = split_cmd("curl %A%b %E4%BD% %20 ^%A^%", values)
    assert (command.words, command.fault) == (["curl", "1b", "%E4%BD%", "%20", "%A%"], None)
    (command,) = split_cmd("curl %C%", values)
    assert command.fault and "%C% is not set" in command.fault.problem


def test_halves_of_a_pair_are_one_character() -> None:
    assert words(r"curl $'\ud83d\ude00' $'\\ud83d\ude00'")[1] == "😀"
    assert words(r"curl $'\xf0\x9f\x98\x80\xff'")[1] == "😀\udcff"


def test_the_prompts_of_a_terminal_are_no_part_of_a_command() -> None:
    text = "me@box:~/x$ curl a \\\n> -d 'b'\n$ curl c\n"
    assert [command.words for command in split_bash(text)] == [["curl", "a", "-d", "b"], ["curl", "c"]]
    assert words("curl -d 'x\n$ y\n> z'")[2] == "x\n$ y\n> z"
    assert cmd_words("C:\\Users\\me>curl a")[:2] == ["curl", "a"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # cmd.exe's part
        ("curl a^&b", ["a&b"]),
        ('curl "a&b|c<d>e^f"', ["a&b|c<d>e^f"]),
        ("curl a ^\n b", ["a", "b"]),
        ("curl a^\nb", ["ab"]),
        ('curl ^"a b^"', ["a b"]),
        ('curl ^"a^\n\nb^"', ["a\nb"]),
        ("curl a^^b", ["a^b"]),
        # the C runtime's part: https://learn.microsoft.com/cpp/c-language/parsing-c-command-line-arguments
        (r'curl "a b c" d e', ["a b c", "d", "e"]),
        (r'curl "ab\"c" "\\" d', ['ab"c', "\\", "d"]),
        (r'curl a\\\b d"e f"g h', [r"a\\\b", "de fg", "h"]),
        (r"curl a\\\"b c d", [r"a\"b", "c", "d"]),
        (r'curl a\\\\"b c" d e', [r"a\\b c", "d", "e"]),
        (r'curl a"b"" c d"', ['ab" c d']),
        ('curl "" a', ["", "a"]),
        # a backslash as browsers double it, and before a quote
        (r'curl ^"a^\^\b^"', [r"a\b"]),
        (r'curl ^"a^\^"b^\^\^\^"c^\^\^"', ['a"b\\"c\\']),
        (r'curl ^"http://h/?a^\[^\]=1^"', [r"http://h/?a\[\]=1"]),
    ],
)
def test_cmd_words(text: str, expected: list[str]) -> None:
    assert cmd_words(text)[1:] == expected


def test_a_quote_left_open_is_a_fault() -> None:
    for split, text in (
        (split_bash, 'curl "a'),
        (split_bash, "curl 'a"),
        (split_bash, "curl $'a"),
        (split_cmd, 'curl "a'),
    ):
        (command,) = split(text)
        assert command.fault and "no closing" in command.fault.problem


def test_what_no_word_can_hold() -> None:
    with pytest.raises(ValueError):
        quote_bash("a\0b")
    for word in ("a\0", "a\rb", "\udcff"):
        with pytest.raises(ValueError):
            quote_cmd(word)
