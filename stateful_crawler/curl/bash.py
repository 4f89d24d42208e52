"""Lines of bash -> commands as lists of words, and words -> lines of bash; pure, nothing is ever run.

Only what a single command says is read. What a shell would do beside it (pipes, redirections, substitutions, globs) is
a fault of that command, named with its line; the commands beside it are read all the same.

Words are str of UTF-8 with surrogateescape: bash's `\\xe9` is one byte, and stays one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Fault(NamedTuple):
    """Why a command can't be taken, in which line of the text, and the way out where there is one."""

    line: int
    problem: str
    hint: str = ""


@dataclass(slots=True)
class Command:
    """A command of the text: `line`, from 1, is where it begins; of its faults the first is kept."""

    line: int
    words: list[str] = field(default_factory=list)
    fault: Fault | None = None

    def blame(self, line: int, problem: str, hint: str = "") -> None:
        """Note a fault, unless there is one already."""
        self.fault = self.fault or Fault(line, problem, hint)


def split_bash(text: str, variables: Mapping[str, str] | None = None) -> list[Command]:
    """The commands of the text, as bash reads them. `variables` are filled in; None: each is a fault."""
    return _Bash(_without_prompts(text.replace("\r\n", "\n")), variables).read()


def quote_bash(word: str) -> str:
    """The word as bash reads it back, in any locale and at a prompt; ValueError for a NUL, which no argument holds."""
    if "\0" in word:
        raise ValueError("an argument can't hold a NUL")
    if _SAFE(word):
        return word
    if word.isprintable() and "'" not in word and "!" not in word:
        return f"'{word}'"
    return f"$'{''.join(map(_ansi_c, word))}'"


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_SAFE = re.compile(r"[A-Za-z0-9_./:=@%+,-]+").fullmatch
_NAMED = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _ansi_c(char: str) -> str:
    """A character within $'...'. A `!` is escaped because an interactive bash would look it up in its history."""
    if char in _NAMED:
        return _NAMED[char]
    if char.isprintable() and char != "!":
        return char
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_PROMPT = re.compile(r"^[ \t]*[\w.@:~/\[\]-]*[$%][ \t]+(?=(?:\S*/)?curl\s)", re.MULTILINE)
_SECOND_PROMPT = re.compile(r"(?<=\\\n)> ?")
_ANSI_C = re.compile(r"\$'((?:[^'\\]++|\\.)*+)(')?", re.DOTALL)
_PLAIN = re.compile(r"[^\"\\$`\n]+")
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", re.ASCII)
_BRACES = re.compile(r"\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}").search
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII).match
_OPERATORS = re.compile(r"&&|\|\||\|&|;;|&>>?|[0-9]*(?:<<<|<<-?|<&|>&|>>|>\||<>|[<>])|[;&|()\n]")
_ESCAPE = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8})|c(\\\\|.))",
    re.DOTALL,
)
_ESCAPED = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_GLOB_HINT = "put quotes round it"


def _without_prompts(text: str) -> str:
    """The text without the `$ ` that a terminal puts before a command, and the `> ` before lines that go on with it."""
    plain = _PROMPT.sub("", text)
    return _SECOND_PROMPT.sub("", plain) if plain != text else text


class _Bash:
    """One pass over a text; a method for each kind of quoting, each of which leaves `at` behind what it has read."""

    def __init__(self, text: str, variables: Mapping[str, str] | None) -> None:
        self.text, self.variables = text, variables
        self.at, self.line = 0, 1
        self.commands: list[Command] = []
        self.command = Command(1)
        self.word: list[str] | None = None  # the parts of the word at hand; None between words
        self.bare = ""  # what of it stands outside quotes, "\0" for what does not: for globs and braces

    def read(self) -> list[Command]:
        while self.at < len(self.text):
            self.step()
        self.end_command()
        return self.commands

    def step(self) -> None:
        char = self.text[self.at]
        operator = _OPERATORS.match(self.text, self.at)
        if char in " \t":
            self.end_word()
            self.at += 1
        elif operator and (operator[0][0] not in "0123456789" or self.word is None):
            self.read_operator(operator[0])
        elif char == "#" and self.word is None:
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        elif char == "'":
            self.read_single()
        elif char == '"':
            self.read_double()
        elif char == "\\":
            self.read_backslash()
        elif char == "`":
            self.blame("a command in backticks", "nothing is run here; write what it prints in its place")
            self.take(char)
        elif char == "$":
            self.read_dollar()
        else:
            self.take(char)

    # words

    def add(self, text: str, bare: str = "\0") -> None:
        if self.word is None:
            self.word, self.bare = [], ""
            if not self.command.words:
                self.command.line = self.line
        self.word.append(text)
        self.bare += bare

    def take(self, char: str) -> None:
        """An ordinary character outside quotes."""
        self.add(char, char)
        self.at += 1

    def blame(self, problem: str, hint: str = "") -> None:
        self.command.blame(self.line, problem, hint)

    def end_word(self) -> None:
        if self.word is None:
            return
        word = "".join(self.word).encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
        self.check_bare()
        self.command.words.append(self.home_of(word))
        self.word = None

    def check_bare(self) -> None:
        """Faults for what bash would expand: globs, braces, a variable set for one command."""
        if _BRACES(self.bare):
            self.blame("braces outside quotes, which bash makes several words of", "put quotes round the word")
        # Without a match bash leaves the word as it is, and there is no folder `http:` for a url to match in.
        elif re.search(r"[*?\[]", self.bare) and "://" not in self.bare:
            self.blame(f'a pattern of file names, "{self.bare.replace(chr(0), "")[:40]}"', _GLOB_HINT)
        if not self.command.words and _ASSIGNMENT(self.bare):
            self.blame("a variable set for one command", "use --env and set it in the environment")

    def home_of(self, word: str) -> str:
        if not self.bare.startswith("~"):
            if _ASSIGNMENT(self.bare) and re.search(r"[=:]~(?:[/:]|\Z)", self.bare):
                self.blame(
                    "a home folder, ~, after an equals sign", "write the folder itself, or quotes round the word"
                )
            return word
        if self.bare != "~" and self.bare[1] != "/":
            self.blame("another user's home folder", "write the folder itself")
            return word
        return self.value_of("HOME", "~") + word[1:]

    def end_command(self) -> None:
        self.end_word()
        if self.command.words or self.command.fault:
            self.commands.append(self.command)
        self.command = Command(self.line)

    # what is not a word

    def read_operator(self, operator: str) -> None:
        self.at += len(operator)
        if operator == "&" and self.word and self.text[self.at : self.at + 1] not in ("", " ", "\t", "\n"):
            self.blame("an & outside quotes, where bash ends the command", "put quotes round the url")
            self.end_word()
            return
        if operator in ("\n", ";", "&&", "&"):
            self.line += operator == "\n"
            self.end_command()
            return
        self.end_word()
        self.blame(*_OPERATOR_FAULTS.get(operator.lstrip("0123456789"), _REDIRECTION))

    def read_backslash(self) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if following == "\n":
            self.line += 1
        elif following in (" ", "\t") and not self.text[self.at :].partition("\n")[0].strip():
            self.blame("a blank after the backslash that ends a line", "then the next line is no part of the command")
        elif following:
            self.add(following)
        elif self.word is not None:
            self.blame("a backslash at the very end", "the command was copied in part")

    # quotes

    def read_single(self) -> None:
        end = self.text.find("'", self.at + 1)
        self.add_quoted(self.text[self.at + 1 : end if end >= 0 else len(self.text)])
        self.close("'", end)

    def add_quoted(self, inner: str, value: str | None = None) -> None:
        self.add(inner if value is None else value)
        self.line += inner.count("\n")

    def close(self, quote: str, end: int) -> None:
        if end < 0:
            self.blame(f"no closing {quote}", "the command was copied in part, or it is of another shell")
        self.at = len(self.text) if end < 0 else end + 1

    def read_double(self) -> None:
        self.add("")
        self.at += 1
        while self.at < len(self.text) and (char := self.text[self.at]) != '"':
            following = self.text[self.at + 1 : self.at + 2]
            if char == "\\" and following in ("$", "`", '"', "\\", "\n"):
                self.add("" if following == "\n" else following)
                self.line += following == "\n"
                self.at += 2
            elif char == "$":
                self.read_dollar(quoted=True)
            elif plain := _PLAIN.match(self.text, self.at):
                self.add(plain[0])
                self.at = plain.end()
            else:
                if char == "`":
                    self.blame("a command in backticks", "nothing is run here; write what it prints in its place")
                self.line += char == "\n"
                self.add(char)
                self.at += 1
        self.close('"', self.at if self.at < len(self.text) else -1)

    def read_ansi_c(self) -> None:
        found = _ANSI_C.match(self.text, self.at)
        assert found  # the caller has seen its first two characters
        value = _SURROGATES.sub(_one_of_pair, found[1])
        self.add_quoted(found[1], _ESCAPE.sub(_unescape, value))
        if "\0" in str(self.word and self.word[-1]):
            self.blame("a NUL in $'...', where bash ends the word", "no argument can hold one")
        self.close("'", found.end() - 1 if found[2] else -1)

    def read_dollar(self, *, quoted: bool = False) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        if following == "'" and not quoted:
            self.read_ansi_c()
        elif following == '"' and not quoted:  # $"..." is a text to translate, and there is no translation
            self.at += 1
        elif variable := _VARIABLE.match(self.text, self.at):
            self.at = variable.end()
            value = self.value_of(variable[1] or variable[2], variable[0])
            if not quoted and re.search(r"[\s*?\[]|\A\Z", value):
                self.blame(f"{variable[0]} outside quotes, whose value bash would split", 'write "' + variable[0] + '"')
            self.add(value)
        else:
            if self.text.startswith("$\\\n", self.at):
                self.blame("a $ that ends a line", "bash reads on for a variable's name: put it on one line")
            elif following and following in "({[":
                what = "a command substitution" if following == "(" else "an expansion"
                self.blame(f"{what}, $" + following + "...", "nothing is run here; write its result in its place")
            elif following and (following in "@*#?$!-" or following.isdigit()):
                self.blame(f"a variable of the shell's own, ${following}", "write its value in its place")
            self.add("$")
            self.at += 1

    def value_of(self, name: str, spelled: str) -> str:
        if self.variables is None:
            self.blame(f"the variable {spelled}", f"--env fills it from the environment ({name})")
            return spelled
        if name not in self.variables:
            self.blame(f"the variable {spelled} is not set", f"set {name} in the environment")
        return self.variables.get(name, "")


_REDIRECTION = ("a redirection", "leave it out: the page is saved in html/, `--output html/NAME` names the file")
_OPERATOR_FAULTS = {
    "|": ("a pipe", "leave it out, with what follows: what reads the page is parser.py"),
    "|&": ("a pipe", "leave it out, with what follows: what reads the page is parser.py"),
    "||": ("a command that runs only if another fails (||)", "leave it out, or import each by itself"),
    "(": ("a parenthesis outside quotes", "a group of commands can't be imported; a url with it needs quotes"),
    ")": ("a parenthesis outside quotes", "a group of commands can't be imported; a url with it needs quotes"),
    ";;": ("a part of a script (;;)", "import the commands alone"),
    "<<": ("a here-document", "write the data in the command, or in a file: --data-binary @FILE"),
    "<<-": ("a here-document", "write the data in the command, or in a file: --data-binary @FILE"),
    "<<<": ("a here-string", "write the data in the command"),
}

# Browsers escape each half of a pair; bash would send the halves as they are, which is no UTF-8 and nobody's wish.
_SURROGATES = re.compile(r"(?<!\\)((?:\\\\)*)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})", re.IGNORECASE)


def _one_of_pair(found: re.Match[str]) -> str:
    high, low = int(found[2], 16), int(found[3], 16)
    return found[1] + chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))


def _unescape(found: re.Match[str]) -> str:
    named, octal, byte, code, control = found.groups()
    if named:
        return _ESCAPED[named]
    if octal or byte:
        return bytes([int(octal, 8) & 255 if octal else int(byte, 16)]).decode("utf-8", "surrogateescape")
    if code:
        number = int(code[1:], 16)
        raw = chr(number).encode("utf-8", "surrogatepass") if number < 0x110000 else b""
        return raw.decode("utf-8", "surrogateescape")
    return "\x7f" if control == "?" else chr(ord(control[0]) & 31)
