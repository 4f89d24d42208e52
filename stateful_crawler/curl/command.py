"""The words of a curl command <-> the transfers that they ask for; pure.

Nothing is lost on the way: each option of the command is in the transfer as curl would give it, or LineError says why
a task can't hold it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stateful_crawler.curl import glob
from stateful_crawler.curl.config import Option, needs_globoff
from stateful_crawler.curl.options import OPTIONS, SHORT, CurlOption, nearest
from stateful_crawler.curl.values import LineError, check_value, shown
from stateful_crawler.curl.variables import Variables

_TYPOGRAPHIC = re.compile("[\u2010-\u2015\u2018-\u201f\u00ab\u00bb]").match
_CURL = re.compile(r"(?i)(?:.*[/\\])?curl(?:\.exe)?").fullmatch


@dataclass(frozen=True, slots=True)
class Transfer:
    """One url of a command, and what goes for it: `options` are all but url and output, in their order."""

    url: str
    output: str | None
    options: tuple[Option, ...]


def is_curl(word: str) -> bool:
    """Whether the word is the name of curl, with or without its folder."""
    return bool(_CURL(word))


def transfers_of(words: Sequence[str]) -> list[Transfer]:
    """What `curl WORDS` transfers (the words without curl's own name); LineError for what a task can't hold.

    After `--next` the options start afresh; several urls, and those that a pattern stands for, share them. Variables of
    curl's own (`--variable`, `--expand-...`) are worked out.
    """
    operations: list[list[Option]] = [[]]
    variables = Variables()
    for option in _read(words):
        name, value = option
        if name == "next":
            operations.append([])
        elif name == "variable":
            variables.set(str(value))
        elif name not in OPTIONS:  # expand-...
            known = OPTIONS[name.removeprefix("expand-")]
            operations[-1].append(Option(known.name, _checked(known, variables.expand(str(value)))))
        else:
            operations[-1].append(option)
    return [transfer for operation in operations for transfer in _transfers(operation)]


def lines_of(options: Iterable[Option]) -> list[list[str]]:
    """The command that does what the options of a task do: `curl -q URL`, then each option with its value, in words.

    `-q` keeps curl from reading the user's own ~/.curlrc, which a task does not heed either.
    """
    options = list(options)
    urls = [str(option.value) for option in options if option.name == "url"]
    lines = [["curl", "-q", *(["--url", url] if url.startswith("-") else [url])] for url in urls]
    for name, value in options:
        if isinstance(value, bool):
            lines.append([f"--{name}" if value else f"--no-{name}"])
        elif name != "url":
            lines.append([f"--{name}", value])
    patterns = {str(option.value) for option in options if option.name in ("url", "upload-file")}
    if any(map(needs_globoff, patterns)) and not dict(options).get("globoff"):
        lines.append(["--globoff"])
    return lines


# ── words -> options ────────────────────────────────────────────────────────────────────────────────────────────────


def _read(words: Sequence[str]) -> Iterator[Option]:
    rest = iter(words)
    options = 0
    for word in rest:
        if word == "--":
            for url in rest:
                yield _url(url)
            return
        if not word.startswith("-"):
            yield _url(word)
            continue
        for option in _read_long(word, rest) if word.startswith("--") else _read_letters(word, rest):
            # The first of all keeps curl from reading ~/.curlrc; a task is never read with it.
            if not (option.name == "disable" and options == 0 and word is words[0]):
                yield option
            options += 1


def _url(word: str) -> Option:
    if not word:
        raise LineError("an empty word where curl expects a url", "a variable without a value?")
    if _TYPOGRAPHIC(word):
        raise LineError(f'"{shown(word)}" begins with a typographic sign', "write straight quotes and hyphens")
    return Option("url", check_value(OPTIONS["url"], word))


def _read_long(word: str, rest: Iterator[str]) -> Iterator[Option]:
    name, glued, value = word[2:].partition("=")
    off = name.startswith("no-") and name not in OPTIONS
    plain = name[3:] if off else name
    expand = plain.startswith("expand-") and plain not in OPTIONS
    known = OPTIONS.get(plain.removeprefix("expand-") if expand else plain)
    if known is None:
        near = nearest(plain)
        starting = [option for option in OPTIONS if plain and option.startswith(plain)]
        hint = "newer curls take no shortened names" if len(starting) == 1 else ""
        raise LineError(
            f'there is no curl option "--{shown(plain)}"', (f"did you mean --{near}? " if near else "") + hint
        )
    _refuse_unusable(known, f"--{known.name}")
    if known.kind == "flag":
        if glued or expand:
            raise LineError(f'option "--{known.name}" takes no value')
        if off and not known.negatable:
            raise LineError(f'option "{known.name}" can\'t be switched off with "--no-"')
        yield Option(known.name, not off)
    elif off:
        raise LineError(f'option "{known.name}" takes a value, and no "--no-"')
    else:
        value = value if glued else _next_word(f"--{name}", rest)
        yield Option(plain, value) if expand else Option(known.name, _checked(known, value))


def _read_letters(word: str, rest: Iterator[str]) -> Iterator[Option]:
    if word == "-":
        raise LineError('a lone "-" is no option of curl', "data from the standard input can't be kept in a task")
    if (long := word[1:].partition("=")[0].removeprefix("no-")) in OPTIONS:
        raise LineError(f'"{shown(word)}" has one dash, so curl reads it letter by letter', f"write --{long}")
    for index, letter in enumerate(word[1:], 2):
        known = SHORT.get(letter)
        if known is None:
            raise LineError(f'there is no curl option "-{shown(letter)}"')
        _refuse_unusable(known, f"-{letter} (--{known.name})")
        if known.kind != "flag":
            value = word[index:] or _next_word(f"-{letter}", rest)
            yield Option(known.name, _checked(known, value))
            return
        yield Option(known.name, letter != "N")  # the one letter that switches off: -N is no-buffer


def _refuse_unusable(known: CurlOption, spelled: str) -> None:
    if not known.usable and known.name != "next":
        raise LineError(f"a task can't hold {spelled}", known.note)


def _next_word(spelled: str, rest: Iterator[str]) -> str:
    value = next(rest, None)
    if value is None:
        raise LineError(f"{spelled} needs a value, and the command ends there")
    return value


def _checked(known: CurlOption, value: str) -> str:
    """The value; where the page goes is looked at by whoever makes a task of it, as curl may write anywhere."""
    return value if known.name in ("output", "output-dir") else check_value(known, value)


# ── options -> transfers ────────────────────────────────────────────────────────────────────────────────────────────


def _transfers(operation: Sequence[Option]) -> Iterator[Transfer]:
    urls = [str(option.value) for option in operation if option.name == "url"]
    outputs = [str(option.value) for option in operation if option.name == "output"]
    options = tuple(option for option in operation if option.name not in ("url", "output"))
    if not urls:
        raise LineError("no url in the command", "" if operation else "and no option either")
    if len(outputs) > len(urls):
        raise LineError(
            f"{len(outputs)} outputs for {len(urls)} url{'s' * (len(urls) > 1)}", "curl would drop the rest"
        )
    if len(urls) > 1 and any(option.name == "upload-file" for option in options):
        raise LineError("upload-file beside several urls", "curl sends it to the first alone: write a command for each")
    literal = dict(options).get("globoff") is True
    for number, url in enumerate(urls):
        output = outputs[number] if number < len(outputs) else None
        for one, picked in [(url, ())] if literal else _expand(url):
            globoff = (Option("globoff", True),) if not literal and needs_globoff(one) else ()
            named = glob.fill(output, picked) if output and not literal else output
            yield Transfer(one, named, (*options, *globoff))


def _expand(url: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    try:
        yield from glob.expand(url)
    except ValueError as error:
        raise LineError(str(error), "--globoff takes the url as it is") from None
