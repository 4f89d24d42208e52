"""STUB until the real one lands."""

from __future__ import annotations
import json
from typing import Any
import parsel


class Page:
    def __init__(
        self,
        body: bytes,
        *,
        url: str,
        status: int = 200,
        headers: Any = (),
        name: str = "",
        meta: Any = None,
        encoding: str | None = None,
        follow: Any = None,
    ) -> None:
        self.body, self.url, self.status, self.headers, self.name, self.meta = (
            body,
            url,
            status,
            headers,
            name,
            meta or {},
        )
        self.encoding = encoding or "utf-8"
        self._follow = follow

    @property
    def text(self) -> str:
        return self.body.decode(self.encoding, "replace")

    @property
    def selector(self) -> parsel.Selector:
        if not hasattr(self, "_sel"):
            self._sel = parsel.Selector(text=self.text)
        return self._sel

    def css(self, q: str) -> Any:
        return self.selector.css(q)

    def xpath(self, q: str) -> Any:
        return self.selector.xpath(q)

    def json(self) -> Any:
        return json.loads(self.body)

    def urljoin(self, h: str) -> str:
        from urllib.parse import urljoin

        return urljoin(self.url, h)

    def follow(self, h: str, **o: Any) -> Any:
        return self._follow(self.urljoin(h), o)
