"""What the value of an option was meant to be, where it is not written as curl reads it; pure."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from stateful_crawler.curl.options import OPTIONS, SHORT, CurlOption
from stateful_crawler.curl.values import shown
from stateful_crawler.lint.findings import Fault, Unclear
from stateful_crawler.lint.paths import folder_for, moved


class Said(NamedTuple):
    """What stands behind an option's name: the separator, and the rest of the line as it is."""

    dashed: bool
    gap: str
    raw: str


class Switch(NamedTuple):
    """What stood behind a switch: whether it means on (None: the name alone decides), a comment, other options."""

    on: bool | None = None
    comment: str = ""
    more: str = ""


_ON, _OFF = ("true", "on", "yes", "1", "enable", "enabled"), ("false", "off", "no", "0", "disable", "disabled")
_QUOTED = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL).match
_OPEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+\Z', re.DOTALL).match
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_UNESCAPED = {"t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_SECOND_SEPARATOR = re.compile(r"[ \t]*[=:][ \t]+([=:])").fullmatch
_HASH = re.compile(r"[ \t]+(#.*)", re.DOTALL).search
_COMMENT = re.compile(r"[ \t]+(#[ \t].*)", re.DOTALL).fullmatch
_OPTIONS_IN = re.compile(r"(?:^|(?<=[ \t]))--?[^ \t=]+").findall
_LOST = re.compile(r'\\(u[0-9A-Fa-f]{4}|[^\\"tnrv])', re.DOTALL).fullmatch
_PIECE = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|.)", re.DOTALL).findall
_HEADERS = ("header", "proxy-header")
_CUT = ("continued-line", "open-quote")
_QUOTE_IT = "put the value in double quotes, and a comment on its own line"
_BLANK = re.compile(r"[ \t\v\f]").search


def switch(known: CurlOption, said: Said, faults: list[Fault]) -> Switch:
    """What a switch with something behind it was meant to be; raises Unclear where that takes a guess."""
    word = said.raw.strip("\"' \t").lower()
    off = f"write no-{known.name} to switch it off"
    if said.raw.startswith("#"):
        faults.append(Fault("text-after-switch", f'a comment behind the switch "{known.name}"', mends=True))
        return Switch(comment=said.raw)
    if said.raw.startswith("-") and len(said.raw) > 1:
        faults.append(Fault("several-options", f'another option behind "{known.name}"', mends=True))
        return Switch(more=said.raw)
    if word in _ON or (word in _OFF and known.negatable):
        fix = f"write {known.name} alone" if word in _ON else off
        faults.append(Fault("switch-value", f'the switch "{known.name}" takes no value', fix, True))
        return Switch(on=word in _ON)
    fix = f"write {known.name} alone" + (f"; {off}" if known.negatable else "")
    raise Unclear("switch-value", f'the switch "{known.name}" takes no value', fix)


def value(known: CurlOption, said: Said, faults: list[Fault]) -> tuple[str, str]:
    """The value that was meant and a comment that stood behind it; raises Unclear where that takes a guess."""
    raw = said.raw.strip(" \t")
    write = f'write {known.name} = "..."'
    if said.dashed and said.gap == "=":
        faults.append(Fault("glued-equals", f'"=" right behind --{known.name}', write, True))
    if said.dashed and raw.startswith(("= ", ": ", "=\t", ":\t")):
        faults.append(Fault("dashed-equals", f'"{raw[0]}" behind --{known.name}', write, True))
        raw = raw[1:].lstrip(" \t")
    if not raw:
        raise Unclear("no-value", f'option "{known.name}" needs a value', write)
    second = _SECOND_SEPARATOR(said.gap)
    if second and raw[0] != '"' and not said.dashed:
        faults.append(Fault("leading-equals", f'the value begins with "{second[1]}"', mends=True))
        raw = second[1] + raw
    text, comment = _text(known, raw, faults)
    if text.endswith(":") and known.name in _HEADERS and (comment or any(one.code in _CUT for one in faults)):
        why = faults.pop()  # the mended line would remove the header
        raise Unclear(why.code, f'{why.what}, behind "{shown(text)}"', _QUOTE_IT)
    return _as_curl_takes_it(known, text, faults), comment


def _text(known: CurlOption, raw: str, faults: list[Fault]) -> tuple[str, str]:
    if raw[0] == '"':
        return _in_quotes(known, raw, faults)
    if raw[0] == "'" and len(raw) > 1:
        return _in_single_quotes(raw, faults)
    if raw.startswith("$'"):
        raise Unclear("single-quotes", "the quotes of a shell", f'write {known.name} = "..."')
    if raw.endswith('"') and raw.count('"') % 2:
        what = f'a quote that nothing opened, at the end of the value of "{known.name}"'
        raise Unclear("unquoted-blank" if _BLANK(raw) else "stray-quote", what, f'write {known.name} = "..."')
    if not _BLANK(raw):
        return raw, ""
    if raw[0] == "#":
        what = f'a comment where the value of "{known.name}" belongs'
        raise Unclear("no-value", what, f'write {known.name} = "..."')
    text, comment = uncommented(known.name, raw)
    faults.append(Fault("unquoted-blank", f'a blank in the unquoted value of "{known.name}"', mends=True))
    return text, comment


def uncommented(name: str, raw: str) -> tuple[str, str]:
    """A value without quotes, and the comment behind it; raises Unclear where either may be something else."""
    found = _HASH(raw)
    text, comment = (raw[: found.start()], found[1]) if found else (raw, "")
    if other := next(filter(_is_option, _OPTIONS_IN(text)), None):
        what = f'"{shown(other)}" in the unquoted value of "{name}"'
        raise Unclear("several-options", what, "write each on its own line, or the value in double quotes")
    if comment and (comment[1:2] not in (" ", "\t") or text.endswith(("=", ":"))):
        what = f'"{shown(comment)}" in the unquoted value of "{name}"'
        raise Unclear("unquoted-blank", what, _QUOTE_IT)
    return text, comment


def _is_option(word: str) -> bool:
    """Whether a shell's user would have meant an option by a word that begins with a dash."""
    if word.startswith("--"):
        name = word[2:].removeprefix("no-")
        return bool(name) and any(option.startswith(name) for option in OPTIONS)
    return word[1] in SHORT


def _in_quotes(known: CurlOption, raw: str, faults: list[Fault]) -> tuple[str, str]:
    quoted = _QUOTED(raw)
    if quoted is None:
        if not _OPEN(raw):  # a backslash ends the line: whether it was meant to continue, no one knows
            raise Unclear("open-quote", "no closing quote, and a backslash at the end of the line")
        faults.append(Fault("open-quote", "no closing quote on this line", mends=True))
        _tell_lost(known, raw[1:], faults)
        return unescaped(raw[1:]), ""
    rest = raw[quoted.end() :]
    if comment := _COMMENT(rest):
        faults.append(Fault("text-after-quote", "a comment after the closing quote", "give it its own line", True))
        _tell_lost(known, quoted[1], faults)
        return unescaped(quoted[1]), comment[1]
    if rest and known.kind == "body" and _is_json(raw[1:-1] if raw.endswith('"') else ""):
        faults.append(Fault("text-after-quote", "quotes inside the value without a backslash", 'write \\"', True))
        return raw[1:-1], ""
    if rest:
        raise Unclear("text-after-quote", f'"{shown(rest.strip())}" after the closing quote')
    _tell_lost(known, quoted[1], faults)
    return unescaped(quoted[1]), ""


def _in_single_quotes(raw: str, faults: list[Fault]) -> tuple[str, str]:
    end = raw.find("'", 1)
    rest = raw[end + 1 :]
    comment = _COMMENT(rest)
    if end < 0 or (rest and not comment):
        raise Unclear("single-quotes", "single quotes round a value")
    faults.append(Fault("single-quotes", "single quotes round a value", mends=True))
    return raw[1:end], comment[1] if comment else ""


def _is_json(text: str) -> bool:
    if text[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def lost(inner: str) -> str:
    """The first backslash of a quoted text that curl drops, with what it stands before; empty where there is none."""
    return next(filter(_LOST, _PIECE(inner)), "") if "\\" in inner else ""


def _tell_lost(known: CurlOption, inner: str, faults: list[Fault]) -> None:
    if piece := lost(inner):
        what = f'"{shown(piece)}" in the value of "{known.name}"'
        faults.append(Fault("lost-backslash", what, f"write \\{shown(piece)} to keep it, or take it away"))


def unescaped(inner: str) -> str:
    """The text between two quotes, as curl reads its backslashes."""
    return _ESCAPE.sub(lambda found: _UNESCAPED.get(found[1], found[1]), inner) if "\\" in inner else inner


def _as_curl_takes_it(known: CurlOption, text: str, faults: list[Fault]) -> str:
    """The value in the form that curl takes, where there is one that says the same."""
    wanted = text
    if known.name != "output" and (folder := folder_for(known.name, text)) and (better := moved(text, folder)):
        what = f'"{shown(text)}" is not under {folder}/'
        faults.append(Fault("outside", what, f'write {known.name} = "{shown(better)}"', True))
        return better
    if known.name == "url":
        wanted = text.strip(" \t").replace(" ", "%20")
    elif known.kind == "seconds" and re.fullmatch(r"\.[0-9]+|[0-9]+\.", text):
        wanted = f"0{text}" if text[0] == "." else text[:-1]
    elif known.kind == "number" and re.fullmatch(r"\+[0-9]+", text):
        wanted = text[1:]
    elif known.name == "range" and re.fullmatch(r"[0-9]+", text):
        wanted = f"{text}-"
    elif known.name == "header" and text[:1] in (" ", "\t"):
        wanted = text.lstrip(" \t")
    if wanted != text:
        what = f'"{shown(text)}" is not a value that "{known.name}" takes'
        faults.append(Fault("bad-value", what, f'write {known.name} = "{shown(wanted)}"', True))
    return wanted
