"""What can be wrong with a config: the kinds of findings, and a finding; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

Level = Literal["error", "warning"]
"""error: the crawl refuses the file, or curl reads another thing than is written. warning: it runs, with a catch."""


class Kind(NamedTuple):
    """One trap: how bad, why it is one, and the way out where a finding has no better one of its own."""

    level: Level
    why: str
    fix: str = ""


class Fault(NamedTuple):
    """What is wrong with a line, before it is known which line it is. `mends`: --fix puts it right."""

    code: str
    what: str
    fix: str = ""
    mends: bool = False


class Finding(NamedTuple):
    """A fault and its place; `line` counts from 1, None where it is the file as a whole."""

    line: int | None
    code: str
    level: Level
    what: str
    why: str
    fix: str
    mends: bool


class Unclear(Exception):
    """A fault that no one can mend without guessing."""

    def __init__(self, code: str, what: str, fix: str = "") -> None:
        super().__init__(code, what, fix)
        self.fault = Fault(code, what, fix)


def finding(line: int | None, fault: Fault) -> Finding:
    """The fault with its place, and the reason that all of its kind share."""
    kind = KINDS[fault.code]
    return Finding(line, fault.code, kind.level, fault.what, kind.why, fault.fix or kind.fix, fault.mends)


KINDS: Mapping[str, Kind] = {
    # ── a line that is not an option ──
    "command-line": Kind(
        "error", "a config file has one option a line, not a command", "make tasks of it: sc import-curl"
    ),
    "foreign-comment": Kind("error", "curl takes the line for an option; comments begin with #", "put # before it"),
    "bare-url": Kind("error", "curl takes the address for the name of an option", 'write url = "http://..."'),
    "header-line": Kind("error", "curl takes the header's name for an option", 'write header = "Name: value"'),
    "unknown-option": Kind("error", "curl before 8.7 only warns and goes on without it", "see curl --help all"),
    "abbreviation": Kind("error", "what it stands for may change with the next curl", "write the whole name"),
    "one-dash": Kind(
        "error", "curl reads what follows one dash letter by letter", "a long name has two dashes, or none"
    ),
    "several-options": Kind("error", "curl reads one option a line; the rest is lost", "write each on its own line"),
    "continued-line": Kind("error", "a line can't go on on the next one, as it can in a shell", "take the end away"),
    # ── the value ──
    "unquoted-blank": Kind("error", "curl cuts an unquoted value at its first blank", "put the value in double quotes"),
    "open-quote": Kind("error", "curl takes the line's end into the value, or drops what follows", "close the quote"),
    "text-after-quote": Kind(
        "error", "curl drops it in silence", 'write \\" for a quote inside, # on a line of its own'
    ),
    "single-quotes": Kind("error", "single quotes are ordinary characters to curl", "write double quotes"),
    "glued-quotes": Kind("error", "curl takes a quote that is glued to a letter for a part of the value"),
    "dashed-equals": Kind("error", "after a dashed name and a blank, curl takes the = or : for the value"),
    "leading-equals": Kind(
        "error", "curl takes each unquoted = and : before a value for a separator", "quote the value"
    ),
    "switch-value": Kind("error", "a switch is on, whatever value stands beside it"),
    "text-after-switch": Kind("error", "curl takes it for a value", "give a comment its own line"),
    "no-value": Kind("error", "curl refuses the option, or takes the empty text"),
    "bad-value": Kind("error", "curl refuses it, or sends something else than is written"),
    "outside": Kind("error", "a task writes pages and headers under html/, cookies and the like under var/"),
    "scheme": Kind("error", "tasks speak http and https", "take the task away"),
    "refused-option": Kind("error", "the crawl can't do it, or must not", "take the line away"),
    # ── the transfer ──
    "no-url": Kind("error", "a task is one transfer, and this is none", 'write url = "http://..."'),
    "several-transfers": Kind("error", "a task is one transfer; curl makes them all", "make a file of each"),
    "url-pattern": Kind("error", "curl takes {} and [] in a url for a pattern of several urls"),
    "useless-next": Kind("error", "there is no other transfer that it could set apart", "take the line away"),
    "second-output": Kind("error", "each output belongs to one url; curl drops what is over", "take the line away"),
    "conflict": Kind("error", "these options don't go together"),
    # ── the file ──
    "encoding": Kind("error", "curl reads bytes, and ends lines at LF", "save it as UTF-8 with line ends LF"),
    # ── it runs here, with a catch ──
    "bom": Kind("warning", "curl takes the mark for a part of the first name", "save the file without it"),
    "crlf": Kind("warning", "curl since 8.13 stumbles over a carriage return after a switch", "end lines with LF"),
    "indent": Kind("warning", "curl since 8.13 does not read options that are indented", "begin at the margin"),
    "glued-equals": Kind("warning", "curl reads --name=value only since 8.16", 'write name = "value"'),
    "stray-quote": Kind("warning", "curl takes the quote for a part of the value", "put the value in double quotes"),
    "lost-backslash": Kind("warning", "curl drops a backslash that escapes nothing", "write two of them"),
    "long-line": Kind("warning", "older curls refuse a file with a line of over 100 kB", 'put it in a file: "@file"'),
    "newer-option": Kind("warning", "an older curl refuses the file, or ignores the option"),
    "no-effect": Kind("warning", "it stays without effect in a crawl"),
    "repeated-option": Kind("warning", "only the last one counts", "take the others away"),
    "no-scheme": Kind("warning", "curl guesses the protocol from the name of the host", "write http:// or https://"),
    "no-output": Kind("warning", "the crawl saves the page all the same, but curl prints it on the screen"),
    "remote-name": Kind(
        "warning", "curl saves it in the workdir itself, the crawl under html/", 'add output-dir = "html"'
    ),
    "packed-body": Kind("warning", "the page would be saved as it comes, gzip and all", "add compressed"),
    "request-head": Kind("warning", "curl waits for a body that never comes", "write head"),
    "lower-case-method": Kind("warning", "methods are case-sensitive, and this one is sent as it stands"),
    "unread-jar": Kind("warning", "curl writes the cookies there, but never reads them", 'add cookie = "FILE"'),
    "insecure": Kind("warning", "anyone on the way can read and change what is sent", "name the right CA: cacert"),
    "tilde": Kind("warning", "only a shell makes the home folder of ~", "write the whole path"),
}
