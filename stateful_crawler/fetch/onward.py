"""Redirects to a host in raw letters: curl asks for it in punycode, but this libcurl knows no IDN, and finds none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urljoin

import pycurl

from stateful_crawler.fetch.plan import Plan
from stateful_crawler.fetch.setup import Recipe
from stateful_crawler.task import Task
from stateful_crawler.urls import ascii_host, origin_of

_LOCATION = re.compile(rb"(?i)location:[ \t]*(\S.*?)\s*\Z", re.S).match
# The authority of an absolute url, or of one that takes over the scheme.
_AUTHORITY = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?//([^/?#\\]*)").match
_UNSENT = re.compile(rb"[^!-~]")  # what libcurl, too, spells with a % in the target of a redirect
_POST_BECOMES_GET = {301: 1, 302: 2, 303: 4}  # status -> the bit of POSTREDIR that keeps it a POST
_SECRET_HEADERS = (b"authorization:", b"cookie:")


def raw_target(line: bytes) -> str:
    """Where a Location line leads, if that is to a host in raw letters; else empty. Other bytes than UTF-8 stay as
    surrogates."""
    found = _LOCATION(line)
    if found is None or found[1].isascii():
        return ""
    target = found[1].decode("utf-8", "surrogateescape")
    authority = _AUTHORITY(target)
    return "" if authority is None or authority[1].isascii() else target


@dataclass(frozen=True, slots=True)
class Onward:
    """The request that a redirect asks for: where, how many redirects it may follow, and what libcurl would change."""

    url: bytes
    redirects_left: int
    becomes_get: bool
    forget_secrets: bool

    @classmethod
    def after(cls, handle: pycurl.Curl, task: Task, plan: Plan, target: str, followed: int) -> Onward | None:
        """The request that redirect number `followed`, to `target`, asks for; None where it can't be made."""
        if followed > plan.max_redirects:
            return None
        try:
            url = ascii_host(urljoin(handle.getinfo_raw(pycurl.EFFECTIVE_URL).decode("ascii"), target))
            raw = _UNSENT.sub(lambda found: b"%%%02X" % found[0][0], url.encode("utf-8", "surrogateescape"))
        except (ValueError, pycurl.error):  # no host name: nobody can be asked
            return None
        bit = _POST_BECOMES_GET.get(handle.getinfo(pycurl.RESPONSE_CODE), 0)
        return cls(
            raw,
            plan.max_redirects - followed,
            becomes_get=task.method == "POST" and bool(bit & ~plan.bits.get(pycurl.POSTREDIR, 0)),
            forget_secrets=not plan.trusted and origin_of(url) != origin_of(task.url),
        )

    def set_on(self, handle: pycurl.Curl, recipe: Recipe) -> None:
        """Make the ended transfer's handle ready for it; its cookies stay."""
        handle.setopt(pycurl.URL, self.url)
        handle.setopt(pycurl.MAXREDIRS, self.redirects_left)
        if self.becomes_get:
            handle.setopt(pycurl.HTTPGET, 1)
            if recipe.plan.method:  # it sticks, as in curl
                handle.setopt(pycurl.CUSTOMREQUEST, recipe.plan.method.encode())
        if self.forget_secrets:
            handle.unsetopt(pycurl.USERPWD)
            handle.unsetopt(pycurl.COOKIE)
            handle.setopt(pycurl.HTTPAUTH, pycurl.HTTPAUTH_BASIC)  # and no longer what would send a bearer token
            kept = [line for line in recipe.headers if not line.lower().startswith(_SECRET_HEADERS)]
            handle.setopt(pycurl.HTTPHEADER, kept)
