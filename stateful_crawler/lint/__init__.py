"""What is wrong with a curl config, why, and the mended text; pure.

    lint(text, name) -> Report: the findings, and the text as --fix would write it, in several parts where the file held
    several transfers.

Each line is looked at by itself (`line`, `value`), then all together (`whole`, `transfers`, `pattern`). Last of all the
grammar of the task file reads the result: what it refuses is a finding, so nothing that a crawl refuses is passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from stateful_crawler.curl.config import Option, format_option, parse_config
from stateful_crawler.curl.glob import MAX_URLS
from stateful_crawler.curl.values import shown
from stateful_crawler.errors import TaskFileError
from stateful_crawler.lint import multiline, pattern, transfers, whole
from stateful_crawler.lint.findings import KINDS, Fault, Finding, Level, finding
from stateful_crawler.lint.line import look, word_of
from stateful_crawler.lint.paths import moved
from stateful_crawler.lint.transfers import Row

__all__ = ["KINDS", "Finding", "Level", "Report", "lint"]


@dataclass(frozen=True, slots=True)
class Report:
    """The findings in the order of the lines, and the mended configs: one, or one for each transfer of the file."""

    findings: tuple[Finding, ...]
    texts: tuple[str, ...]


def lint(text: str, name: str) -> Report:
    """What is wrong with the config of task `name`. `text` is UTF-8 decoded with surrogateescape.

    The mended text of what is clean is `text` itself. What is mended once needs no second time.
    """
    return _Lint(text, name).report()


class _Lint:
    """One look at one file: the rows so far, and what was found."""

    def __init__(self, text: str, name: str, *, may_split: bool = True) -> None:
        self._text, self._name, self._may_split = text, name, may_split
        self._found: list[tuple[int | None, Fault]] = []
        self._rows: list[Row] = []

    def report(self) -> Report:
        lines = self._decoded().split("\n")
        if any(self._is_command(line) for line in lines[:3]):
            return self._told([self._text])
        ended = lines[-1] == ""
        self._read(lines[:-1] if ended else lines)
        parts = self._parts()
        if parts is None:
            self._mend_whole()
            text = "\n".join(line for row in self._rows for line in row.lines)
            parts = [text + "\n" if ended or len(self._rows) != len(lines) else text]
            self._check_rest(parts[0])
        return self._told(parts if any(fault.mends for _, fault in self._found) else [self._text])

    def _told(self, texts: list[str]) -> Report:
        found = sorted(self._found, key=lambda placed: (placed[0] is None, placed[0] or 0))
        return Report(tuple(finding(line, fault) for line, fault in found), tuple(texts))

    def _find(self, line: int | None, code: str, what: str, fix: str = "", mends: bool = False) -> None:
        self._found.append((line, Fault(code, what, fix, mends)))

    # ── the text ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _decoded(self) -> str:
        """The text with one kind of line end and without a mark in front."""
        text = self._text
        if text.startswith(("\udcff\udcfe", "\udcfe\udcff")):
            try:
                text = text.encode("utf-8", "surrogateescape").decode("utf-16")
                self._find(1, "encoding", "the file is UTF-16", mends=True)
            except UnicodeDecodeError:
                self._find(1, "encoding", "the file is UTF-16, and broken")
        if text.startswith("\ufeff"):
            text = text.lstrip("\ufeff")
            self._find(1, "bom", "a byte order mark", mends=True)
        if "\r\n" in text:
            self._find(text[: text.index("\r\n")].count("\n") + 1, "crlf", "lines end with CRLF", mends=True)
            text = re.sub("\r+\n", "\n", text)
        if "\r" in text and "\n" not in text:
            self._find(1, "encoding", "lines end with a carriage return alone", mends=True)
            return text.replace("\r", "\n")
        if text.endswith("\r"):
            self._find(text.count("\n") + 1, "crlf", "a carriage return at the end of the file", mends=True)
        return text.rstrip("\r")

    def _is_command(self, line: str) -> bool:
        faults = look(line).faults
        if faults and faults[0].code == "command-line":
            self._found.append((1, faults[0]))
            return True
        return False

    # ── line by line ─────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self, lines: list[str]) -> None:
        at = 0
        while at < len(lines):
            seen = look(lines[at])
            value = multiline.value(lines, at, seen)
            if value and value.joined:
                what = f"a value over {value.end - at + 1} lines"
                self._find(at + 1, "open-quote", what, "a line end inside is \\n", True)
                seen = look(value.joined)
            elif value:
                seen = multiline.left(lines, at, value.end, seen)
            self._found += [(at + 1, fault) for fault in seen.faults]
            self._rows.append(Row(at + 1, seen.lines, seen.options))
            at = value.end + 1 if value else at + 1

    # ── several transfers ────────────────────────────────────────────────────────────────────────────────────────

    def _parts(self) -> list[str] | None:
        """The configs of several transfers, if the file holds these and each comes out well."""
        urls = [row for row in self._rows for option in row.options if option.name == "url"]
        nexts = [row for row in self._rows if row.has("next")]
        single = len(urls) == 1 and not any(
            sign in str(option.value) for option in urls[0].options if option.name == "url" for sign in "{["
        )
        parts = [] if single or not urls or not self._may_split else transfers.split(self._rows, self._name)
        if len(parts) < 2:
            for row in nexts:
                self._find(row.number, "useless-next", "next without two transfers", mends=True)
            self._rows = [row for row in self._rows if not row.has("next")]
            return None
        done = [_finished(part, f"{self._name}-{at}") for at, part in enumerate(parts, 1)]
        mends = all(text is not None for text in done)
        code, place = ("several-transfers", urls[1]) if len(urls) > 1 else ("url-pattern", urls[0])
        fix = f"--fix makes {len(parts)} files of it" if mends else "make a file of each"
        number = min(place.number, *(row.number for row in nexts)) if nexts and len(urls) > 1 else place.number
        self._find(number, code, f"{len(parts)} transfers in one file", fix, mends)
        if not mends:
            return None
        return [text for text in done if text is not None]

    # ── all together ─────────────────────────────────────────────────────────────────────────────────────────────

    def _last(self) -> dict[str, str | bool]:
        return {option.name: option.value for row in self._rows for option in row.options}

    def _mend_whole(self) -> None:
        """Find what is wrong with the options together, and mend the rows."""
        last = self._last()
        urls = [row for row in self._rows if row.has("url")]
        several = len(urls) > 1 or any(row.has("next") for row in self._rows)
        for line, fault in whole.warnings(self._rows):
            self._found.append((line, fault))
            if fault.mends:
                self._rows = [_mended(row, fault, last) if row.number == line else row for row in self._rows]
        if not urls:
            if all(row.options or not _says_something(row) for row in self._rows):
                self._find(None, "no-url", "no url")
            return
        if several:
            return
        url = next(option for option in urls[0].options if option.name == "url")
        if isinstance(url.value, str) and not whole.literal(url.value, last):
            self._find_pattern(urls[0], url.value)
        if not whole.has_page(last) and not any(_UNREAD_OUTPUT(line) for row in self._rows for line in row.lines):
            output = format_option(Option("output", f"html/{self._name}.html"))
            self._find(urls[0].number, "no-output", "no output", f"add {output}", mends=True)
            self._add_behind(urls[0], output)
        outputs = [row for row in self._rows if row.has("output")]
        for row in outputs[1:]:
            self._find(row.number, "second-output", "a second output", mends=len(row.options) == 1)
            if len(row.options) == 1:
                self._rows.remove(row)

    def _find_pattern(self, row: Row, url: str) -> None:
        """A pattern that was hardly meant for one, or one that means too much."""
        if pattern.too_many(url):
            what = f"a pattern of more than {MAX_URLS} urls"
            self._find(row.number, "url-pattern", what, "yield the urls in create.py, or add globoff if none is meant")
            return
        what = "curl would take the {} or [] in the url for a pattern"
        self._find(row.number, "url-pattern", what, "add globoff", mends=True)
        self._add_behind(row, "globoff")

    def _add_behind(self, row: Row, line: str) -> None:
        self._rows = [Row(r.number, (*r.lines, line), r.options) if r.number == row.number else r for r in self._rows]

    def _check_rest(self, text: str) -> None:
        """What the grammar still refuses in the mended text: a finding, unless one of its line says so already."""
        try:
            options = parse_config(text, "")
        except TaskFileError as error:
            if any(not fault.mends and KINDS[fault.code].level == "error" for _, fault in self._found):
                return
            row = self._origin_of(error.line)
            expanded = row is not None and any(word_of(line).startswith("expand-") for line in row.lines)
            code = "conflict" if error.line and not expanded else "bad-value"
            self._find(row.number if row else None, code, error.problem, error.hint)
            return
        # What a line alone does not show, its neighbours may: the end of a group in a form, for one.
        self._found = [placed for placed in self._found if placed[1].code not in _OF_A_LINE or placed[1].mends]
        self._check_expanded(dict(options))

    def _check_expanded(self, last: dict[str, str | bool]) -> None:
        """What the variables made of an output: only the whole file tells."""
        output = Option("output", last.get("output", ""))
        for row in self._rows:
            if any(word_of(line) == "expand-output" for line in row.lines) and whole.page_outside(output, last):
                self._find(row.number, "outside", f'"{shown(str(output.value))}" is not under html/', _UNDER_HTML)

    def _origin_of(self, line: int | None) -> Row | None:
        """The row of the file that a line of the mended text comes from."""
        at = 0
        for row in self._rows:
            at += len(row.lines)
            if line is not None and at >= line:
                return row
        return None


_UNDER_HTML = "name a file under html/"
_OF_A_LINE = frozenset({"bad-value", "refused-option", "unknown-option", "no-value"})


def _says_something(row: Row) -> bool:
    return any(line.strip() and not line.lstrip().startswith("#") for line in row.lines)


def _finished(part: str, name: str) -> str | None:
    """A part as a task of its own; None where it can't be read as one."""
    (text,) = _Lint(part, name, may_split=False).report().texts
    return text if _reads(text) else None


def _reads(text: str) -> bool:
    try:
        parse_config(text, "")
    except TaskFileError:
        return False
    return True


def _mended(row: Row, fault: Fault, last: dict[str, str | bool]) -> Row:
    """The row as the fault's fix has it."""
    options = []
    more = []
    for option in row.options:
        if fault.code == "outside" and (folder := whole.page_outside(option, last)):
            option = Option(option.name, moved(str(option.value), folder) or option.value)
        elif fault.code == "request-head" and option.name == "request":
            option = Option("head", True)
        elif fault.code == "unread-jar" and option.name == "cookie-jar":
            more = [Option("cookie", str(option.value))]
        elif fault.code == "packed-body" and option.name == "header" and not last.get("compressed"):
            more, last["compressed"] = [Option("compressed", True)], True
        options.append(option)
    if tuple(options) == row.options:
        return Row(row.number, (*row.lines, *map(format_option, more)), (*row.options, *more))
    return Row(row.number, tuple(map(format_option, [*options, *more])), (*options, *more))


_UNREAD_OUTPUT = re.compile(r"[ \t]*(?:--)?(?:expand-)?(?:output|remote-name)|[ \t]*-[oO]").match
