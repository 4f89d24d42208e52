"""What a task writes beside its page: saved headers under html/; its ETag and the cookie jar under var/.

All that writes is for the holder of the lock. Each file is replaced in one step, and never through a symbolic link.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from functools import lru_cache

from stateful_crawler import files
from stateful_crawler.curl import jar
from stateful_crawler.errors import TaskFileError, printable
from stateful_crawler.record import Beside

MAX_JAR_BYTES = 16 * 1024 * 1024


_ASIDE = ".part"
_NAMING = frozenset({"cookie-jar", "dump-header", "etag-compare", "etag-save", "hsts"})


@lru_cache(maxsize=256)
def paths_of(options: tuple[tuple[str, str | bool], ...]) -> tuple[str, ...]:
    """The side files that a task's options name, from the workdir."""
    return tuple(str(value) for name, value in options if name in _NAMING)


class SideFiles:
    """The side files of the workdir at `root`."""

    def __init__(self, root: str) -> None:
        self._root = root

    def check(self, paths: Iterable[str], name: str) -> None:
        """Raise TaskFileError, before anything is sent, where a path leads through a symbolic link."""
        for path in paths:
            self._inside(path, name)

    def keep(self, beside: Beside, name: str) -> None:
        """Write what must be there before the task's record is: the headers, and the cookies that the answer changed.

        Raises TaskFileError where a file of another kind stands under the name, which then stays as it is.
        """
        if beside.headers is not None:
            self._keep_headers(*beside.headers, name)
        if beside.jar and beside.cookies[0] != beside.cookies[1]:
            self._keep_cookies(beside, name)

    def keep_etag(self, beside: Beside, name: str) -> None:
        """Write the ETag, after the record: with it alone, a crash would leave a page that is never asked for."""
        if beside.etag is not None:
            self._replace(*beside.etag, name)

    def sweep(self) -> None:
        """Remove what dead runs left aside under var/; what they left under html/, the workdir's own sweep removes."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(f"{self._root}/var") as entries:
            for entry in entries:
                if entry.name.startswith("..") and entry.name.endswith(_ASIDE):
                    files.remove(entry.path)

    def _keep_headers(self, path: str, lines: bytes, name: str) -> None:
        there = self._read(path, name)
        if there and not there.startswith(b"HTTP/"):  # a page, most likely of another task
            raise _fault(name, f"dump-header {printable(path)} is there, and holds no headers", "choose another name")
        self._replace(path, lines, name)

    def _keep_cookies(self, beside: Beside, name: str) -> None:
        before, after = beside.cookies
        self._replace(beside.jar, jar.merge(self._read(beside.jar, name), before, after, beside.jar), name)

    def _read(self, path: str, name: str) -> bytes:
        try:
            return files.read_regular(self._inside(path, name), MAX_JAR_BYTES)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise _fault(name, f"can't read {printable(path)}: {error.strerror}", "") from None

    def _replace(self, path: str, content: bytes, name: str) -> None:
        full = self._inside(path, name)
        # At the top, where a sweep finds it; and no page is written aside under two dots.
        aside = os.path.join(self._root, path.partition("/")[0], f"..{name}{_ASIDE}")
        with files.machine_faults("can't write", full):
            with contextlib.suppress(FileExistsError):
                os.makedirs(os.path.dirname(full))
            files.write_aside(aside, content)
            files.publish(aside, full)

    def _inside(self, path: str, name: str) -> str:
        """The absolute path; TaskFileError if it leads through a link, which could lead anywhere."""
        top, *parts = path.split("/")
        full = os.path.join(self._root, top)  # which may itself be one
        for part in parts:
            full = os.path.join(full, part)
            if os.path.islink(full):
                raise _fault(name, f"{printable(path)} leads through a symbolic link", "name a file of the workdir")
            if os.path.ismount(full):  # no rename leads from one file system to another
                problem = f"{printable(path)} leads into a file system of its own"
                raise _fault(name, problem, f"{top}/ itself may be one")
        return full


def _fault(name: str, problem: str, hint: str) -> TaskFileError:
    return TaskFileError(f"working/{name}.conf", None, problem, hint)
