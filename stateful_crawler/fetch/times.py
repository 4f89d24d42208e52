"""Dates as `time-cond` takes them: what HTTP writes, ISO dates, or a file whose age counts."""

from __future__ import annotations

import contextlib
import datetime
import email.utils
import os

from stateful_crawler.errors import TaskFileError, printable


def moment_of(text: str, root: str) -> int:
    """Seconds since 1970 of a date, or of the last change of a file below `root`; TaskFileError for neither."""
    with contextlib.suppress(OSError, ValueError):
        return int(os.stat(os.path.join(root, text)).st_mtime)
    with contextlib.suppress(ValueError, TypeError, IndexError, OverflowError):
        return int(_with_zone(email.utils.parsedate_to_datetime(text)).timestamp())
    with contextlib.suppress(ValueError, OverflowError):
        return int(_with_zone(datetime.datetime.fromisoformat(text)).timestamp())
    raise TaskFileError(
        "", None, f'time-cond: "{printable(text[:60])}" is neither a date nor a file', 'as in "1 Dec 2026 10:00:00 GMT"'
    )


def _with_zone(moment: datetime.datetime) -> datetime.datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
