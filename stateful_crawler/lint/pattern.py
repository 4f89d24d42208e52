"""A url with curl's patterns in it, as the urls that were most likely meant; pure."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from stateful_crawler.curl.glob import MAX_URLS, fill
from stateful_crawler.curl.glob import expand as all_of


def expand(url: str) -> list[tuple[str, tuple[str, ...]]] | None:
    """Each url of the pattern with what its pieces stand for, in curl's order.

    None where curl would refuse it, or where no pattern was meant: a set of one member, a piece of JSON.
    """
    if "{" in url and ('"' in url or "%22" in url):
        return None
    try:
        found = list(islice(all_of(url), MAX_URLS))
    except ValueError:
        return None
    return found if len(found) > 1 else None


def too_many(url: str) -> bool:
    """Whether it is a pattern of more urls than there are to be files."""
    try:
        next(all_of(url), None)
    except ValueError as error:
        return str(MAX_URLS) in str(error)
    return False


def with_outputs(url: str, output: str | None) -> Iterator[tuple[str, str | None]]:
    """Each url of a pattern with its output; an output that all would share is None: curl saves all over each other."""
    found = expand(url) or []
    outputs = [fill(output, values) if output is not None else None for _, values in found]
    shared = len(set(outputs)) < len(outputs)
    return zip((one for one, _ in found), [None] * len(found) if shared else outputs, strict=True)
