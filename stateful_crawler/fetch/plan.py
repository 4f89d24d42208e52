"""What a block of curl options comes to, and the readers that many options share.

A reader takes the plan and the value of one option, and notes in the plan what the option asks for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import pycurl

from stateful_crawler.curl.config import Option
from stateful_crawler.errors import LocalFileError, printable

Value = int | bytes

MAX_REDIRECTS = 50
# To curl 0 means no limit at all; here a server that falls silent must not hold a connection for ever.
LONGEST_S = 86_400.0


@dataclass(slots=True)
class Plan:
    """What a block of options comes to. `settings` go onto the template that handles are duplicated from, `lists`
    onto each duplicate; the rest is put together for each task."""

    root: str
    settings: dict[int, Value] = field(default_factory=dict)
    lists: dict[int, list[bytes]] = field(default_factory=dict)
    bits: dict[int, int] = field(default_factory=dict)
    headers: list[str] = field(default_factory=list)
    data: list[Option] = field(default_factory=list)
    form: list[Option] = field(default_factory=list)
    query: list[str] = field(default_factory=list)
    upload: str = ""
    cookies: list[str] = field(default_factory=list)
    cookie_files: list[str] = field(default_factory=list)
    etag_compare: str = ""
    method: str = ""
    head: bool = False
    get: bool = False
    follow: int = 0
    trusted: bool = False
    max_redirects: int = MAX_REDIRECTS
    max_body_bytes: int = 0
    tls_min: int = 0
    tls_max: int = 0
    proxy_auth: set[str] = field(default_factory=set)
    netrc: set[str] = field(default_factory=set)
    ip_tos: int | None = None
    priority: int | None = None
    mptcp: bool = False
    values: dict[str, str | bool] = field(default_factory=dict)

    @property
    def apart(self) -> bool:
        """Whether its names and connections must serve no other tasks: libcurl does not see how they differ."""
        named = pycurl.RESOLVE in self.lists or pycurl.DOH_URL in self.settings
        marked = self.mptcp or self.ip_tos is not None or self.priority is not None
        greets = self.values.get("haproxy-protocol") or self.values.get("haproxy-clientip")
        return bool(named or marked or greets)

    def toggle(self, constant: int, bit: int, on: bool) -> None:
        """Switch one bit of a mask on or off."""
        mask = self.bits.get(constant, 0)
        self.bits[constant] = mask | bit if on else mask & ~bit


Reader = Callable[[Plan, str | bool], None]


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def text(constant: int) -> Reader:
    def read(plan: Plan, value: str | bool) -> None:
        plan.settings[constant] = as_bytes(str(value))

    return read


def whole(constant: int) -> Reader:
    def read(plan: Plan, value: str | bool) -> None:
        plan.settings[constant] = int(value)

    return read


def milliseconds(constant: int) -> Reader:
    def read(plan: Plan, value: str | bool) -> None:
        plan.settings[constant] = int(min(float(value) or LONGEST_S, LONGEST_S) * 1000)

    return read


def flag(constant: int, on: int | bytes = 1, off: int | bytes = 0) -> Reader:
    def read(plan: Plan, value: str | bool) -> None:
        plan.settings[constant] = on if value else off

    return read


def bit(constant: int, bit: int) -> Reader:
    def read(plan: Plan, value: str | bool) -> None:
        plan.toggle(constant, bit, bool(value))

    return read


def listed(constant: int) -> Reader:
    def read(plan: Plan, value: str | bool) -> None:
        plan.lists.setdefault(constant, []).append(as_bytes(str(value)))

    return read


def file_path(constant: int, *also: int) -> Reader:
    """A file of the machine (certificates and the like); told now if it is not there, by the option's own name."""

    def read(plan: Plan, value: str | bool) -> None:
        path = os.path.join(plan.root, str(value))
        if not os.path.exists(path):
            raise LocalFileError("", None, f"{printable(str(value))} is not there", "paths start from the workdir")
        for each in (constant, *also):
            plan.settings[each] = os.fsencode(path)

    return read


def assign(attribute: str) -> Reader:
    def read(plan: Plan, value: str | bool) -> None:
        setattr(plan, attribute, value)

    return read


def append(attribute: str) -> Reader:
    def read(plan: Plan, value: str | bool) -> None:
        getattr(plan, attribute).append(value)

    return read


def option(attribute: str, name: str) -> Reader:
    def read(plan: Plan, value: str | bool) -> None:
        getattr(plan, attribute).append(Option(name, value))

    return read


def word(attribute: str, name: str) -> Reader:
    def read(plan: Plan, value: str | bool) -> None:
        words = getattr(plan, attribute)
        (words.add if value else words.discard)(name)

    return read
