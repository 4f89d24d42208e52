"""The few file operations that all state rests on; the only importer of filelock.

Everything here is atomic for a reader of the folder: a name shows a whole file or nothing. Nothing is flushed to the
disk: what a killed process has written stays in the kernel's cache, so `kill -9` loses nothing; a power cut may.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys
from collections.abc import Callable, Iterator
from stat import S_ISREG

from stateful_crawler.errors import EnvironmentFault, NameTaken

_SMALL, _LARGE = 2048, 1 << 20
_CODING = sys.getfilesystemencoding()
_ASIDE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: without it opening a FIFO that someone put in place of a task would block the whole crawl.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_APPEND = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


# What the machine says when the folder as a whole can't be written any more: the run stops, no task is to blame.
_MACHINE_FAULTS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE, errno.ENOENT}
)


def within(root: str, path: str) -> str | None:
    """The real path of what `path`, seen from `root`, leads to; None where that lies outside of `root`."""
    full = os.path.realpath(os.path.join(root, path))
    return full if full.startswith(os.path.realpath(root) + os.sep) else None


def exists(path: str) -> bool:
    """Whether the name is taken, also by a dangling link."""
    return os.access(path, os.F_OK, follow_symlinks=False)


def open_aside(path: str) -> int:
    """A new file at `path`, whatever a dead run left there; the caller closes the descriptor.

    The old file is unlinked, never truncated: it may be a second name of a page that was published by a link.
    """
    try:
        return os.open(path, _ASIDE, 0o666)
    except FileExistsError:
        os.unlink(path)
        return os.open(path, _ASIDE, 0o666)


def write_all(fd: int, data: bytes) -> None:
    """All of `data`: a write to a disk that fills up may be short, and the next one says ENOSPC."""
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, data[written:])


def write_aside(path: str, data: bytes) -> None:
    """A whole file under a name that readers ignore; on failure nothing is left behind."""
    fd = open_aside(path)
    try:
        write_all(fd, data)
    except OSError:
        os.close(fd)
        remove(path)
        raise
    os.close(fd)


def publish(aside: str, final: str) -> None:
    """Put `aside` under its final name in one step, in place of an older file of ours."""
    os.rename(aside, final)


def publish_new(aside: str, final: str) -> None:
    """Put `aside` under a final name that must not exist yet; raises NameTaken and removes `aside` if it does.

    Never by a plain rename: that would silently replace what another process published a moment ago.
    """
    try:
        if not _renamed_new(aside, final):
            os.link(aside, final)
            os.unlink(aside)
    except FileExistsError:
        os.unlink(aside)
        raise NameTaken(final) from None


def replace(path: str, data: bytes) -> None:
    """Write a small file of ours anew, whole or not at all."""
    aside = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}.part")
    write_aside(aside, data)
    publish(aside, path)


def move(source: str, target: str) -> None:
    """Rename, but never over an existing name: that would silently end the task that has it.

    Raises NameTaken if the target exists, FileNotFoundError if the source or the target's directory has gone.
    """
    try:
        if _renamed_new(source, target):
            return
    except FileExistsError:
        raise NameTaken(target) from None
    if exists(target):
        raise NameTaken(target)
    os.rename(source, target)


def _renamed_new(source: str, target: str) -> bool:
    """Rename in the one step that refuses to replace (FileExistsError); False where this system has no such step."""
    if _rename_new is None:
        return False
    # As os.fsencode does, at a third of its cost: this is called twice for each task.
    code = _rename_new(source.encode(_CODING, "surrogateescape"), target.encode(_CODING, "surrogateescape"))
    if code and code not in _NOT_HERE:
        raise OSError(code, os.strerror(code), target if code == errno.EEXIST else source)
    return code == 0


# What an old kernel, or a file system that can't (NFS, some FUSE), says to a rename that must not replace. Then the
# check comes before the rename, which is as good while only the holder of the lock moves tasks.
_NOT_HERE = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})


def _find_rename_new() -> Callable[[bytes, bytes], int] | None:
    """The system's own rename that refuses to replace, as a function that returns an errno, or 0."""
    library = ctypes.CDLL(None, use_errno=True)
    # No argtypes: int and bytes are what C wants already, and looking them over costs as much as the call.
    if (linux := getattr(library, "renameat2", None)) is not None:
        return lambda source, target: linux(-100, source, -100, target, 1) and ctypes.get_errno()  # RENAME_NOREPLACE
    if (macos := getattr(library, "renamex_np", None)) is not None:
        return lambda source, target: macos(source, target, 4) and ctypes.get_errno()  # RENAME_EXCL
    return None


_rename_new = _find_rename_new()


def read_regular(path: str, limit_bytes: int) -> bytes:
    """The whole of a regular file, opened without following a link; OSError ELOOP, EISDIR or EFBIG otherwise."""
    fd = os.open(path, _READ)
    try:
        return read_open(fd, path, limit_bytes)
    finally:
        os.close(fd)


def read_and_age(path: str, limit_bytes: int) -> tuple[bytes, int]:
    """As read_regular, with the file's time of last change in nanoseconds since 1970."""
    fd = os.open(path, _READ)
    try:
        return read_open(fd, path, limit_bytes), os.fstat(fd).st_mtime_ns
    finally:
        os.close(fd)


def open_to_append(path: str) -> int:
    """A descriptor for reading and for appending, by name and without following a link."""
    return os.open(path, _APPEND)


def append_line(path: str, line: bytes) -> None:
    """Append one line in one write, on a line of its own even where an earlier write was torn."""
    fd = open_to_append(path)
    try:
        append_line_to(fd, line)
    finally:
        os.close(fd)


def append_line_to(fd: int, line: bytes) -> None:
    """As append_line, for an open file."""
    size = os.fstat(fd).st_size
    if size and os.pread(fd, 1, size - 1) != b"\n":
        line = b"\n" + line
    write_all(fd, line)


def remove(path: str) -> None:
    """Remove a file that may have gone already."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def same_file(one: str, other: str) -> bool:
    """Whether both names exist and lead to one file (a link published, its first name not yet removed)."""
    try:
        a, b = os.lstat(one), os.lstat(other)
    except FileNotFoundError:
        return False
    return (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)


def other_name(path: str, folder: str) -> str | None:
    """The name that the file at `path` has in `folder` too; None for none, or where either is not there."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        ours = os.lstat(path)
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.inode() == ours.st_ino and entry.path != path and same_file(path, entry.path):
                    return entry.path
    return None


@contextlib.contextmanager
def only_one(path: str) -> Iterator[bool]:
    """Hold the lock file for the length of the block; yields False at once where another process holds it.

    The kernel drops the lock with its process, so a crash leaves nothing to clean up and what the file says never
    matters. The descriptor is not inherited over exec: a worker that outlives us must not keep the folder locked.
    """
    import filelock  # here, not above: it takes 40 ms, and reading a workdir needs no lock

    lock = filelock.FileLock(path, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except filelock.Timeout:
        yield False
        return
    except OSError as error:
        ours_to_remove = error.errno in (errno.EISDIR, errno.ELOOP, errno.EACCES)
        hint = "remove what stands there and start again" if ours_to_remove else ""
        raise EnvironmentFault.from_os("can't lock", path, error, hint) from error
    try:
        yield True
    finally:
        lock.release()


def read_open(fd: int, path: str, limit_bytes: int) -> bytes:
    """The whole of an open file, from its beginning; OSError EINVAL if it is not regular, EFBIG over the limit."""
    data = os.read(fd, _SMALL)
    while data and (more := os.read(fd, _LARGE if len(data) > _SMALL else _SMALL)):
        data += more
        if len(data) > limit_bytes:
            break
    if len(data) > limit_bytes:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
    # Asked last, and only where it matters: fstat costs more than the reads, and a listing told files from the rest.
    if not data and not S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    return data


class machine_faults:  # noqa: N801 - reads as a verb where it is used
    """Translate what the machine refuses into our own error; anything else is not expected and goes up as it is.

    A class and not a generator: it stands on the path of every page, and costs a quarter.
    """

    __slots__ = ("_doing", "_path")

    def __init__(self, doing: str, path: str) -> None:
        self._doing, self._path = doing, path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, OSError) and error.errno in _MACHINE_FAULTS:
            hint = "make room, then run the same command again" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
            raise EnvironmentFault.from_os(self._doing, self._path, error, hint) from error
