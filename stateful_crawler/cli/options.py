"""Options that several commands share, each also a variable SC_* and a key of sc.toml."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class Size(click.ParamType[int]):
    """Bytes, with the suffix k, M or G for powers of 1024."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"(\d+)\s*([kKmMgG]?)i?[bB]?", str(value).strip())
        if not match or int(match[1]) == 0:
            self.fail(f"{value!r} is not a size; write 500k, 64M or 1G", param, ctx)
        return int(match[1]) << 10 * " kmg".index(match[2].lower() or " ")


class Seconds(click.FloatRange):
    """A time limit: a number that timers can count to."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if number != number:  # "nan" is a float, and in no range
            self.fail(f"{value!r} is not a number of seconds", param, ctx)
        return number


class Networks(click.ParamType[Any]):
    """Networks that the address guard leaves open: a comma list."""

    name = "networks"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from stateful_crawler.guard import read_networks

        try:
            return read_networks(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def setting(*names: str, **attributes: Any) -> Callable[[F], F]:
    """A click option that SC_NAME sets too, and sc.toml if it has a key of that name."""
    long = next(name for name in reversed(names) if name.startswith("--"))
    variable = "SC_" + long.lstrip("-").replace("-", "_").upper()
    return click.option(*names, envvar=variable, show_envvar=True, **attributes)


as_json = setting("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
names_argument = click.argument("names", nargs=-1)


def task_name(text: str) -> str:
    """NAME, also when it was given as `error/NAME.conf`, as a shell completes it."""
    return os.path.basename(text).removesuffix(".conf")


def print_json(value: object) -> None:
    """One JSON document on stdout, in ASCII: a name of raw bytes can't end the command."""
    click.echo(json.dumps(value, indent=2))


def count(number: int, thing: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
