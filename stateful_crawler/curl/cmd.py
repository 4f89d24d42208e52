"""Lines of Windows' cmd.exe -> commands as lists of words, and words -> a line of cmd.exe; pure, nothing is ever run.

Two programs read such a line one after the other: cmd.exe takes its carets, variables and operators, and what is left
curl.exe splits into words by the rules of Microsoft's C runtime. So does this module, as at a prompt: in a batch file
percent signs mean something else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from stateful_crawler.curl.bash import Command

_CARET_IN_QUOTES = re.compile(r'\^\\\^"|\^%\^')
_PROMPT = re.compile(r"^[ \t]*[A-Za-z]:\\[^>\n]*>[ \t]*(?=curl)", re.MULTILINE)
_VARIABLE = re.compile(r"%([A-Za-z_][A-Za-z0-9_]*)(?::[^%\n]*)?%")
_TWO_HEX = re.compile(r"[0-9A-Fa-f]{2}").match
_ARGUMENT_PART = re.compile(r'(\\*)(")|\\+|[^\\"]')
# Browsers double every backslash, with a caret before each; where no quote follows, cmd.exe would leave them doubled.
_DOUBLED_BACKSLASHES = re.compile(r'(?:\^\\)+(?![\^\\]|\^?")').match
_FAULTS = {
    "|": ("a pipe", "leave it out, with what follows: what reads the page is parser.py"),
    "||": ("a command that runs only if another fails (||)", "leave it out, or import each by itself"),
    "<": ("a redirection", "write the data in the command, or in a file: --data-binary @FILE"),
    ">": ("a redirection", "leave it out: the page is saved in html/, `--output html/NAME` names the file"),
}


# Text in pieces, each quoted part as one: what stands in quotes of bash says nothing about the shell.
_PIECES = re.compile(
    r"""\$'(?:[^'\\]++|\\.)*+' | '[^']*+' | \\.
      | (?P<tick> [ \t]`(?=[ \t]*\r?\n) )
      | (?P<caret> (?<=\s)\^(?=["\r\n]) )
      | (?P<inner> "(?:[^"\n\\]++|\\.)*+" )(?P<doubled> "(?=[^\s"]) )?
      | (?P<line> ^[ \t]*(?:PS[ ][^>\n]*>|Invoke-(?:WebRequest|RestMethod)|i[wr][rm]\b|\$\w+[ ]*=[ ]*(?:New-|@\{)) )
      | .""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)


def shell_of(text: str) -> Literal["bash", "cmd", "powershell"]:
    """Whose text this is: a caret before a quote or a line end, a doubled quote in quotes, or a %NAME% is cmd.exe's."""
    single = "'" in text
    for piece in _PIECES.finditer(text):
        inner = piece["inner"] or ""
        if piece["tick"] or piece["line"]:
            return "powershell"
        if piece["caret"] or (piece["doubled"] and len(inner) > 2) or _CARET_IN_QUOTES.search(inner):
            return "cmd"
        if not single and (found := _VARIABLE.search(inner)) and not _is_percent_encoding(found):
            return "cmd"
    return "bash"


def split_cmd(text: str, variables: Mapping[str, str] | None = None) -> list[Command]:
    """The commands of the text, as cmd.exe reads them. `variables` are filled in; None: each is a fault."""
    return _Cmd(_PROMPT.sub("", text.replace("\r\n", "\n").replace("\r", "")), variables).read()


def quote_cmd(word: str) -> str:
    """The word as cmd.exe and curl.exe read it back at a prompt; ValueError for what no line of cmd.exe can hold."""
    if bad := re.search("[\0\r\ud800-\udfff]", word):
        raise ValueError(f"a command of cmd.exe can't hold {bad[0]!r}")
    if re.fullmatch(r"[A-Za-z0-9_./:=@+-]+", word):
        return word
    argument = re.sub(r'(\\*)(?:"|\Z)', lambda found: found[1] * 2 + ('\\"' if found[0].endswith('"') else ""), word)
    careted = re.sub(r"[^\w\s.,:;=/@+~*?'`$#\\-]", r"^\g<0>", f'"{argument}"')
    # The name of a variable could follow a percent sign, and a caret in it makes it the name of none.
    return re.sub(r"%(?=\w)", "%^", careted).replace("\n", "^\n\n")


def _is_percent_encoding(found: re.Match[str]) -> bool:
    """Whether a %...% is a byte of a url, as in %E4%BD, and not a variable."""
    return bool(_TWO_HEX(found[1]) and (len(found[1]) == 2 or _TWO_HEX(found.string, found.end())))


class _Cmd:
    """One pass over a text as cmd.exe makes it; each command is then split into its words."""

    def __init__(self, text: str, variables: Mapping[str, str] | None) -> None:
        self.text, self.variables = text, variables
        self.at, self.line = 0, 1
        self.quoted = False
        self.rest: list[str] = []  # what cmd.exe leaves of the command at hand
        self.commands: list[Command] = []
        self.command = Command(1)
        # Chrome up to 2023 wrote carets inside plain quotes, where cmd.exe leaves them: read them as Chrome meant them.
        self.meant = bool(_CARET_IN_QUOTES.search(text)) and not re.search(r'[\s]\^"', text)

    def read(self) -> list[Command]:
        while self.at < len(self.text):
            self.step(self.text[self.at])
        self.end_command()
        return self.commands

    def step(self, char: str) -> None:
        if char == "\n":
            self.end_command()
            self.line += 1
            self.at += 1
        elif char == "^" and (self.meant or not self.quoted):
            self.read_caret()
        elif char == "%" and (found := self.variable()):
            self.read_variable(found)
        elif char in "&|<>" and not self.quoted:
            self.read_operator(char)
        else:
            if char == '"' and not (self.meant and self.backslashes() % 2):
                self.quoted = not self.quoted
            self.add(char)
            self.at += 1

    def add(self, text: str) -> None:
        if not self.rest and text.strip():
            self.command.line = self.line
        if self.rest or text.strip():
            self.rest.append(text)

    def backslashes(self) -> int:
        said = "".join(self.rest[-50:])
        return len(said) - len(said.rstrip("\\"))

    def blame(self, problem: str, hint: str = "") -> None:
        self.command.blame(self.line, problem, hint)

    def read_caret(self) -> None:
        """A caret makes the next character an ordinary one; of two line ends it leaves the second."""
        if run := _DOUBLED_BACKSLASHES(self.text, self.at):
            self.at = run.end()
            length = len(run[0]) // 2
            self.add("\\" * (length // 2 + length % 2))
            return
        following = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if following == "\n":
            self.line += 1
            before = self.rest[-1] if self.rest else ""
            following = self.text[self.at : self.at + 1]
            if following == '"' and before == '"':
                self.blame("a line end that cmd.exe would lose", "copy it from a newer browser, or as cURL (bash)")
            self.at += 1
            self.line += following == "\n"
        if following == '"' and self.meant and not self.backslashes() % 2:
            self.quoted = not self.quoted
        self.add(following)

    def variable(self) -> re.Match[str] | None:
        """A %NAME% here; not the percent signs of a url, as in %E4%BD."""
        found = _VARIABLE.match(self.text, self.at)
        return None if found and _is_percent_encoding(found) else found

    def read_variable(self, found: re.Match[str]) -> None:
        self.at = found.end()
        name = found[1]
        if self.variables is None:
            self.blame(f"the variable {found[0]}", f"--env fills it from the environment ({name})")
        elif name not in self.variables:
            self.blame(f"the variable {found[0]} is not set", f"set {name} in the environment")
        elif '"' in self.variables[name] or ":" in found[0]:
            self.blame(f"the variable {found[0]}, as cmd.exe would change or split it", "write its value in its place")
        self.add((self.variables or {}).get(name, found[0]))

    def read_operator(self, char: str) -> None:
        doubled = self.text.startswith(char * 2, self.at)
        self.at += 2 if doubled and char in "&|" else 1
        if char == "&":
            following = self.text[self.at : self.at + 1]
            if not doubled and self.rest and self.rest[-1].strip() and following.strip():
                self.blame("an & outside quotes, where cmd.exe ends the command", "put quotes round the url")
            else:
                self.end_command()
            return
        self.blame(*_FAULTS[char * 2 if char == "|" and doubled else char])

    def end_command(self) -> None:
        line = "".join(self.rest).rstrip(" \t")
        if re.match(r"(?i)@?rem\b|::|@?echo off\b", line):
            self.command.fault, line = None, ""
        if line or self.command.fault:
            self.command.words = self.arguments(line.removeprefix("@"))
            self.commands.append(self.command)
        self.command, self.rest, self.quoted = Command(self.line), [], False

    def arguments(self, line: str) -> list[str]:
        """The words as the C runtime makes them: 2n backslashes and a quote are n and a quote that opens or closes,
        2n+1 are n and a quote as such; a doubled quote inside quotes is one as such."""
        words: list[str] = []
        word: str | None = None
        quoted = False
        at = 0
        while at < len(line):
            part = _ARGUMENT_PART.match(line, at)
            assert part  # it matches any character
            at = part.end()
            if not part[2]:
                if part[0] in " \t" and not quoted:
                    words += [word] if word is not None else []
                    word = None
                else:
                    word = (word or "") + part[0]
                continue
            word = (word or "") + "\\" * (len(part[1]) // 2)
            if len(part[1]) % 2:
                word += '"'
            elif quoted and line.startswith('"', at):
                word, at = word + '"', at + 1
            else:
                quoted = not quoted
        if quoted:
            self.blame(
                'no closing "', "inside quotes a line end is written ^ and two line ends, outside of cmd's quotes"
            )
        return words + ([word] if word is not None else [])
