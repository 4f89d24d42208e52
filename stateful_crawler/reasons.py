"""Why a task failed: the closed vocabulary of the `reason` field of records, `sc status` and `sc retry`.

A reason is for programs and for counting; the sentence in the record's `detail` is for people.
"""

from __future__ import annotations

from typing import Literal

Reason = Literal[
    "dns",
    "connect",
    "tls",
    "timeout",
    "reset",
    "truncated",
    "redirect",
    "http",
    "protocol",
    "content-encoding",
    "too-large",
    "forbidden",
    "config",
    "io",
    "unknown-outcome",
    "parse",
    "timeout-parse",
    "crash-parse",
]

REASONS: dict[Reason, str] = {
    "dns": "the host name, or the proxy's, was not found",
    "connect": "no connection: refused, unreachable, or not made within connect-timeout",
    "tls": "the TLS handshake or the check of the certificate failed",
    "timeout": "connected, but the answer was not complete within max-time",
    "reset": "the connection broke before an answer came",
    "truncated": "the answer ended before its announced length",
    "redirect": "too many redirects, or one that leads nowhere",
    "http": "a complete answer whose status is not 2xx",
    "protocol": "the answer is not valid HTTP",
    "content-encoding": "the body can't be decoded as its Content-Encoding says",
    "too-large": "the body or the headers are over the limit",
    "forbidden": "a scheme or an address (or, later, a robots.txt) that the crawl may not use",
    "config": "the task file can't be run as it stands; its line is named",
    "io": "a local file that the task names can't be read or written",
    "unknown-outcome": "a request that changes things was under way when the run ended; `sc retry` sends it again",
    "parse": "the parser raised an error, or gave something that is not an item",
    "timeout-parse": "the parser ran longer than --parse-timeout",
    "crash-parse": "the parser's process died (exit, signal, out of memory)",
}

PARSE_REASONS = frozenset({"parse", "timeout-parse", "crash-parse"})
