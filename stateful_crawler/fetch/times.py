"""Dates as `time-cond` takes them: the forms that every curl reads, or a file whose age counts."""

from __future__ import annotations

import contextlib
import os
import re
from datetime import UTC, datetime, timedelta

from stateful_crawler.errors import TaskFileError, printable

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
# Hours to add for UTC. Curls disagree about small letters, and about the military zones A to Y: not taken.
_ZONES = {
    name: hours
    for hours, names in {
        0: "GMT UT UTC WET Z",
        1: "WAT",
        3: "ADT",
        4: "AST EDT",
        5: "EST CDT",
        6: "CST MDT",
        7: "MST PDT",
        8: "PST YDT",
        9: "YST HDT",
        10: "HST CAT AHST",
        11: "NT",
        12: "IDLW",
        -1: "BST CET MET MEWT FWT",
        -2: "CEST MEST MESZ FST EET",
        -7: "WAST",
        -8: "WADT CCT",
        -9: "JST",
        -10: "EAST GST",
        -11: "EADT",
        -12: "NZT NZST IDLE",
        -13: "NZDT",
    }.items()
    for name in names.split()
}
# A date is words between other signs, each of one kind, each kind once at most.
_WORD = re.compile(
    r"(?P<letters>[A-Za-z]+)|(?P<clock>(?<![0-9])[0-9]{1,2}:[0-9]{1,2}(?::[0-9]{1,2})?)(?![0-9])"
    r"|(?P<zone>[+-](?:(?:0[0-9]|1[0-3])[0-9]{2}|1400)(?![0-9]))"
    r"|(?P<day8>(?<![0-9])[0-9]{8}(?![0-9]))|(?P<number>[0-9]+)"
).finditer
_MOST_WORDS = 6
_FIRST_YEAR = 1583  # of the Gregorian calendar


def moment_of(text: str, root: str) -> int:
    """Seconds since 1970 of a date, or of the last change of a file below `root`; TaskFileError for neither."""
    with contextlib.suppress(ValueError, OverflowError):
        return _read_date(text)
    with contextlib.suppress(OSError, ValueError):
        return int(os.stat(os.path.join(root, text)).st_mtime)
    raise TaskFileError(
        "", None, f'time-cond: "{printable(text[:60])}" is neither a date nor a file', 'as in "1 Dec 2026 10:00:00 GMT"'
    )


def _read_date(text: str) -> int:
    """By curl's rules: a number up to 31 is the day, the next the year. ValueError for what is no date."""
    found: dict[str, tuple[int, ...]] = {}
    words = list(_WORD(text))
    if len(words) > _MOST_WORDS:
        raise ValueError(text)
    for word in words:
        for kind, value in _meaning(word[0], str(word.lastgroup), found).items():
            if kind in found:
                raise ValueError(text)
            found[kind] = value
    (year,), (month,), (day,) = (found.get(kind) or (0,) for kind in ("year", "month", "day"))
    hour, minute, second = (*found.get("clock", ()), 0, 0, 0)[:3]
    if not 1 <= day <= 31 or year < _FIRST_YEAR or hour > 23 or minute > 59 or second > 60:
        raise ValueError(text)
    # Not datetime(year, month, day): 30 Feb is 1 Mar to curl, and a second may be the 60th.
    moment = datetime(year, month, 1, tzinfo=UTC) + timedelta(days=day - 1, hours=hour, minutes=minute, seconds=second)
    return int(moment.timestamp()) + found.get("zone", (0,))[0]


def _meaning(word: str, group: str, found: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Which parts of a date the word says."""
    if group == "letters":
        return _meaning_of_name(word)
    if group == "clock":
        return {"clock": tuple(map(int, word.split(":")))}
    if group == "day8":
        return {"year": (int(word[:4]),), "month": (int(word[4:6]),), "day": (int(word[6:]),)}
    if group == "zone":
        seconds = int(word[1:3]) * 3600 + int(word[3:]) * 60
        return {"zone": (-seconds if word[0] == "+" else seconds,)}
    number = int(word)
    if "day" not in found and 0 < number < 32:
        return {"day": (number,)}
    return {"year": (number + (2000 if number <= 70 else 1900) if number < 100 else number,)}


def _meaning_of_name(word: str) -> dict[str, tuple[int, ...]]:
    lower = word.lower()
    if lower in _DAYS or lower in [day[:3] for day in _DAYS]:
        return {"weekday": (0,)}
    if lower in _MONTHS:
        return {"month": (_MONTHS.index(lower) + 1,)}
    if word in _ZONES:
        return {"zone": (_ZONES[word] * 3600,)}
    raise ValueError(word)
