"""What curl makes of the patterns in a url: `{a,b}` and `[1-100:10]` stand for several urls; pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

MAX_URLS = 10_000

_IPV6 = re.compile(r"\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(?:%[^\]]{1,20})?\]")
_NUMBERS = re.compile(r"\[([0-9]+)-([0-9]+)(?::([0-9]+))?\]", re.ASCII)
_LETTERS = re.compile(r"\[([A-Za-z])-([A-Za-z])(?::([0-9]+))?\]", re.ASCII)
_FIXED = re.compile(r"\\([\[\]{}])|\[\]|[^\[\]{}]")
_SET_ITEM = re.compile(r"(?:\\[\[\]{},]|[^{}\[\],])*")


def expand(url: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each url that curl makes of `url`, the last pattern turning fastest, with what each pattern stands for in it.

    Raises ValueError for a pattern that curl refuses too, and for more than MAX_URLS urls.
    """
    parts = _parse(url)
    count = 1
    for part in parts:
        count *= len(part) if isinstance(part, list | range) else 1
    if count > MAX_URLS:
        raise ValueError(f"the patterns in the url stand for {count} urls, and {MAX_URLS} is the most")
    for chosen in itertools.product(*([part] if isinstance(part, str) else part for part in parts)):
        picked = tuple(text for part, text in zip(parts, chosen, strict=True) if not isinstance(part, str))
        yield "".join(chosen), picked


def fill(output: str, picked: Sequence[str]) -> str:
    """An output's name, in which curl puts what the first pattern stands for in the place of `#1`, and so on."""
    return re.sub(r"#([0-9]+)", lambda found: _nth(picked, int(found[1]), found[0]), output)


def _nth(picked: Sequence[str], number: int, otherwise: str) -> str:
    return picked[number - 1] if 1 <= number <= len(picked) else otherwise


def _parse(url: str) -> list[str | list[str]]:
    """The url in parts: a text as it is, or the texts that a pattern stands for."""
    parts: list[str | list[str]] = []
    at = 0
    while at < len(url):
        if fixed := _IPV6.match(url, at) or _FIXED.match(url, at):
            parts.append(fixed[1] if fixed.lastindex else fixed[0])
            at = fixed.end()
        elif url[at] == "{":
            texts, at = _parse_set(url, at)
            parts.append(texts)
        elif found := _NUMBERS.match(url, at) or _LETTERS.match(url, at):
            parts.append(_range_of(found))
            at = found.end()
        else:
            raise ValueError(f"{url[at]} at character {at + 1} of the url is no pattern that curl can read")
    return parts


def _parse_set(url: str, at: int) -> tuple[list[str], int]:
    start, texts = at, []
    while at == start or url[at : at + 1] == ",":
        found = _SET_ITEM.match(url, at + 1)
        assert found  # it matches the empty text too
        texts.append(re.sub(r"\\([\[\]{},])", r"\1", found[0]))
        at = found.end()
    if url[at : at + 1] != "}" or texts == [""]:
        raise ValueError(f"the braces at character {start + 1} of the url are no pattern that curl can read")
    return texts, at + 1


def _range_of(found: re.Match[str]) -> list[str]:
    first, last, step = found[1], found[2], int(found[3] or 1)
    if not first.isdigit():
        low, high = ord(first), ord(last)
    else:
        low, high = int(first), int(last)
    if low > high or step < 1 or step > max(high - low, 1) or first.isupper() != last.isupper():
        raise ValueError(f"{found[0]} in the url is no range that curl can read")
    if (high - low) // step >= MAX_URLS:
        raise ValueError(f"{found[0]} in the url stands for over {MAX_URLS} urls")
    if not first.isdigit():
        return [chr(code) for code in range(low, high + 1, step)]
    # curl pads as the first number is padded.
    width = len(first) if first.startswith("0") else 0
    return [str(number).zfill(width) for number in range(low, high + 1, step)]
