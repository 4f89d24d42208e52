"""Redirects to a host in raw letters: curl asks for it in punycode, but this libcurl knows no IDN, and finds none."""

from __future__ import annotations

from dataclasses import dataclass

import pycurl

from stateful_crawler.fetch.plan import Plan
from stateful_crawler.fetch.setup import Recipe
from stateful_crawler.task import Task
from stateful_crawler.urls import ascii_host, origin_of

_POST_BECOMES_GET = {301: 1, 302: 2, 303: 4}  # status -> the bit of POSTREDIR that keeps it a POST
_SECRET_HEADERS = (b"authorization:", b"cookie:")


@dataclass(frozen=True, slots=True)
class Onward:
    """The request that a redirect asks for: where, how many redirects it may follow, and what libcurl would change."""

    url: str
    redirects_left: int
    becomes_get: bool
    forget_secrets: bool

    @classmethod
    def after(cls, handle: pycurl.Curl, task: Task, plan: Plan, followed: int) -> Onward | None:
        """What comes after `followed` redirects; None where the last one does not lead to a host in raw letters."""
        if not plan.follow or followed > plan.max_redirects:
            return None
        try:
            target = handle.getinfo_raw(pycurl.EFFECTIVE_URL).decode()
            url = ascii_host(target)
        except (ValueError, pycurl.error):  # bytes that are no text, or no host name: nobody can be asked
            return None
        if url == target:
            return None
        bit = _POST_BECOMES_GET.get(handle.getinfo(pycurl.RESPONSE_CODE), 0)
        return cls(
            url,
            plan.max_redirects - followed,
            becomes_get=task.method == "POST" and bool(bit & ~plan.bits.get(pycurl.POSTREDIR, 0)),
            forget_secrets=not plan.trusted and origin_of(url) != origin_of(task.url),
        )

    def set_on(self, handle: pycurl.Curl, recipe: Recipe) -> None:
        """Make the ended transfer's handle ready for it; its cookies stay."""
        handle.setopt(pycurl.URL, self.url.encode())
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
