"""The embedded example sites on loopback, for the demo, the examples and the tests; only the standard library.

    with serve(["bookshop"], port=0) as server:
        ...  # server.url + "/bookshop/catalogue?page=1"

Every run and every machine serves the same bytes; only what a request brings along,
and `visit`, the count of requests for one URL, change an answer.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable

from stateful_crawler.errors import EnvironmentFault, UsageError
from stateful_crawler.sites import bookshop, gbk_news, members, quotes
from stateful_crawler.sites.server import FormSite, Response, Server, Site

__all__ = ["PORT", "SITES", "FormSite", "Response", "Server", "Site", "run", "serve"]

PORT = 8642
SITES: dict[str, Site | FormSite] = {
    "bookshop": bookshop,
    "gbk-news": gbk_news,
    "quotes": quotes,
    "members": members,
}


def serve(names: Iterable[str] | None = None, port: int = PORT, host: str = "127.0.0.1") -> Server:
    """A running server of the sites `names` (None or none: all) to use in a `with`; port 0 takes a free one."""
    chosen = list(names or SITES)
    if unknown := [name for name in chosen if name not in SITES]:
        raise UsageError(f"no example site named {unknown[0]!r}; there are {', '.join(SITES)}")
    if not 0 <= port <= 65535:
        raise UsageError(f"{port} is no port; give one from 1 to 65535, or 0 for a free one")
    try:
        return Server({name: SITES[name] for name in chosen}, port, host)
    except OSError as error:
        hint = "do the sites run already? --port 0 takes a free port"
        raise EnvironmentFault.from_os("listening on", f"{host}:{port}", error, hint) from error


def run(say: Callable[[str], object], names: Iterable[str] | None = None, port: int = PORT) -> None:
    """Serve until SIGINT or SIGTERM; `say` gets one line for the server and one for each site. Main thread only."""
    stop = threading.Event()
    stops = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda *_: stop.set()) for number in stops]
    try:
        with serve(names, port) as server:
            say(f"serving {server.url}/")
            for name, site in server.sites.items():
                say(f"  {server.url}/{name}/  {site.ABOUT}")
            stop.wait()
    finally:
        for number, handler in zip(stops, before, strict=True):
            signal.signal(number, handler)
