"""How a run is watched: a bar on a terminal, a line now and then elsewhere, signals that end it, a summary."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from types import FrameType

import click

from stateful_crawler.control import Stop, Tally, Watch
from stateful_crawler.errors import printable

LINE_EVERY_S = 10.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def stop_on_signals() -> Iterator[tuple[Stop, list[int]]]:
    """A Stop that Ctrl-C, SIGTERM and SIGHUP request, and the signal that came. A second one leaves at once."""
    stop, came = Stop(), list[int]()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if came:
            os.write(2, b"\nsc: left at once; nothing is lost, `sc crawl` goes on\n")
            os._exit(128 + number)
        came.append(number)
        stop.request()
        os.write(2, b"\nsc: stopping: what is under way may end (8 s); once more to leave at once\n")

    # What was ignored when we began stays so: nohup, and a shell's background jobs, mean it.
    heeded = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, on_signal) for number in heeded}
    try:
        yield stop, came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        stop.close()


@contextlib.contextmanager
def progress(quiet: bool, verbose: bool) -> Iterator[Watch]:
    """What to call with the tally while a run goes on; `verbose` names each task that fails."""
    bar = sys.stderr.isatty() and not quiet
    with _bar() if bar else contextlib.nullcontext(_say_nothing if quiet else _lines()) as watch:
        say = _say_above_bar if bar else _say
        yield _warning(_naming_failures(watch, say) if verbose else watch, say)


def _warning(watch: Watch, say: Callable[[str], None]) -> Watch:
    """Say once, and whatever is said else, that certificates are not checked."""
    warned = False

    def warn_and_watch(tally: Tally) -> None:
        nonlocal warned
        if tally.insecure and not warned:
            warned = True
            say("warning: tasks with `insecure` don't check certificates: anyone on the way can read and change them")
        watch(tally)

    return warn_and_watch


def _naming_failures(watch: Watch, say: Callable[[str], None]) -> Watch:
    def name_and_watch(tally: Tally) -> None:
        for name, reason, detail in tally.newly_failed:
            say(f"failed: {printable(name)}: {reason}: {printable(detail)}")
        watch(tally)

    return name_and_watch


def _say(line: str) -> None:
    click.echo(line, err=True)


def _say_above_bar(line: str) -> None:
    from tqdm import tqdm

    tqdm.write(line, file=sys.stderr)


def _say_nothing(_: Tally) -> None:
    """-q."""


@contextlib.contextmanager
def _bar() -> Iterator[Watch]:
    from tqdm import tqdm  # here, not above: only a terminal needs it

    layout = "{n_fmt}/{total_fmt} |{bar}| {rate_fmt}{postfix} [{elapsed}<{remaining}]"
    bar = tqdm(
        total=0, unit=" pages", bar_format=layout, file=sys.stderr, dynamic_ncols=True, miniters=0, mininterval=0
    )

    def watch(tally: Tally) -> None:
        bar.total = tally.total
        bar.n = tally.done
        waiting = f", {tally.waiting} waiting" if tally.waiting else ""
        bar.set_postfix_str(f"{tally.failed} errors, {tally.connections} connections{waiting}", refresh=False)
        bar.refresh()

    try:
        yield watch
    finally:
        bar.close()


def _lines() -> Watch:
    started = last = time.monotonic()

    def watch(tally: Tally) -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= LINE_EVERY_S:
            last = now
            rate = tally.done / (now - started)
            pace = f"{rate:.1f} pages/s, {tally.failed} errors, {tally.connections} connections"
            click.echo(f"{tally.done}/{tally.total} done, {pace}", err=True)

    return watch
