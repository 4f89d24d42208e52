"""What libcurl and the server said, as an Outcome: every error of libcurl has its reason here."""

from __future__ import annotations

import re
import time
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import urljoin

import pycurl

from stateful_crawler.errors import printable
from stateful_crawler.reasons import Reason
from stateful_crawler.record import Outcome
from stateful_crawler.urls import without_userinfo

# "fatal": it is the machine or we who are at fault, and the next task would meet the same.
Verdict = Reason | Literal["fatal"]

_BY_REASON: dict[Verdict, str] = {
    "dns": "COULDNT_RESOLVE_HOST COULDNT_RESOLVE_PROXY",
    "connect": "COULDNT_CONNECT INTERFACE_FAILED PROXY NO_CONNECTION_AVAILABLE QUIC_CONNECT_ERROR",
    "tls": """SSL_CONNECT_ERROR SSL_CERTPROBLEM SSL_CIPHER PEER_FAILED_VERIFICATION SSL_CACERT SSL_CACERT_BADFILE
        SSL_CRL_BADFILE SSL_ISSUER_ERROR SSL_INVALIDCERTSTATUS SSL_PINNEDPUBKEYNOTMATCH SSL_ENGINE_NOTFOUND
        SSL_ENGINE_SETFAILED SSL_ENGINE_INITFAILED SSL_SHUTDOWN_FAILED SSL_CLIENTCERT USE_SSL_FAILED ECH_REQUIRED""",
    "timeout": "OPERATION_TIMEDOUT",
    "reset": "GOT_NOTHING SEND_ERROR RECV_ERROR AGAIN UNRECOVERABLE_POLL HTTP2_STREAM",
    "truncated": "PARTIAL_FILE",
    "redirect": "TOO_MANY_REDIRECTS",
    "http": "HTTP_RETURNED_ERROR LOGIN_DENIED AUTH_ERROR REMOTE_ACCESS_DENIED",
    "protocol": """WEIRD_SERVER_REPLY HTTP2 HTTP3 CHUNK_FAILED HTTP_POST_ERROR RANGE_ERROR UNKNOWN_OPTION
        SETOPT_OPTION_SYNTAX""",
    "content-encoding": "BAD_CONTENT_ENCODING",
    "too-large": "FILESIZE_EXCEEDED TOO_LARGE",
    "forbidden": "UNSUPPORTED_PROTOCOL ABORTED_BY_CALLBACK",
    "config": "URL_MALFORMAT BAD_FUNCTION_ARGUMENT NOT_BUILT_IN",
    "io": "READ_ERROR WRITE_ERROR FILE_COULDNT_READ_FILE SEND_FAIL_REWIND",
    "fatal": "OUT_OF_MEMORY FAILED_INIT BAD_CALLING_ORDER FUNCTION_NOT_FOUND RECURSIVE_API_CALL",
}


# libcurl's own numbers, for names that pycurl may not have: without them such a failure would get no verdict.
_NUMBERS = {
    "WEIRD_SERVER_REPLY": 8,
    "SETOPT_OPTION_SYNTAX": 49,
    "HTTP2_STREAM": 92,
    "RECURSIVE_API_CALL": 93,
    "AUTH_ERROR": 94,
    "HTTP3": 95,
    "QUIC_CONNECT_ERROR": 96,
    "PROXY": 97,
    "SSL_CLIENTCERT": 98,
    "UNRECOVERABLE_POLL": 99,
    "TOO_LARGE": 100,
    "ECH_REQUIRED": 101,
}


def _codes() -> dict[int, Verdict]:
    """libcurl's error number -> verdict."""
    verdicts: dict[int, Verdict] = {}
    for verdict, names in _BY_REASON.items():
        for name in names.split():
            if (code := getattr(pycurl, f"E_{name}", _NUMBERS.get(name))) is not None:
                verdicts.setdefault(code, verdict)
    return verdicts


VERDICTS: dict[int, Verdict] = _codes()
# Other protocols than HTTP can't run here, and libcurl may grow: what is not listed is a protocol fault of the answer.
UNLISTED: Verdict = "protocol"

_BROKEN_OFF = re.compile("(?:Send|Recv) failure|unexpected eof|SYSCALL").search
_STATUS_LINE = re.compile(rb"HTTP/[0-9.]+ +[0-9]{3}").match
_SECRET = frozenset({b"set-cookie", b"set-cookie2"})
_RETRY_AFTER_STATUS = frozenset({429, 503, 301, 302, 307, 308})


def failed(handle: pycurl.Curl, code: int, message: str, facts: dict[str, Any], retry_after_s: float | None) -> Outcome:
    """The outcome of a transfer that libcurl gave up."""
    reason = _finer(VERDICTS.get(code, UNLISTED), code, message, handle)
    if code == pycurl.E_WRITE_ERROR:
        # Our own callback said no, or (no callback failed) the decoder met junk after the compressed data.
        reason = "content-encoding"
        message = "the body goes on with junk after its compressed data"
    if code == _NUMBERS["TOO_LARGE"] and not message:
        message = "a line of the answer's headers is too large"
    if reason == "fatal":
        reason = "io"
    detail = f"{printable(without_userinfo(message)) or pycurl_name(code)} (curl {code})"
    return Outcome(
        "fetch", False, reason, _advise(reason, detail, message), facts | {"curl": code}, retry_after_s=retry_after_s
    )


def _finer(reason: Verdict, code: int, message: str, handle: pycurl.Curl) -> Verdict:
    """What libcurl tells apart by its message alone: one number of its stands for faults of several kinds."""
    if message.startswith("Unsupported proxy"):
        return "config"
    if reason == "timeout" and (message.startswith("Connection tim") or not handle.getinfo(pycurl.REQUEST_SIZE)):
        return "connect"  # nothing was sent: this one may be tried again whatever its method
    if reason == "reset" and "response headers" in message:
        return "too-large"
    if reason == "reset" and "chunk" in message:
        return "protocol"
    if code == pycurl.E_UNSUPPORTED_PROTOCOL and "HTTP" in message and "scheme" not in message:
        return "protocol"  # the answer's version of HTTP, not the url's scheme
    if reason == "tls" and _BROKEN_OFF(message):
        return "reset"
    if reason == "config" and "redirect target" in message:
        return "redirect"
    if reason == "content-encoding" and "Transfer-Encoding" in message:
        return "protocol"
    return reason


def pycurl_name(code: int) -> str:
    """libcurl's own name of an error number."""
    known = (name[2:] for name in dir(pycurl) if name.startswith("E_") and getattr(pycurl, name) == code)
    return next(known, "") or next((name for name, number in _NUMBERS.items() if number == code), "error")


def _advise(reason: Reason, detail: str, message: str) -> str:
    if reason == "config" and ("Malformed" in message or "bad/illegal" in message):
        return f"{detail}; is there a blank in the url? write it as %20"
    if reason == "tls" and "certificate" in message:
        return f"{detail}; `cacert` names a certificate of your own"
    return detail


def retry_after(headers: list[tuple[str, str]], status: int) -> float | None:
    """Seconds that the server asks us to wait (RFC 9110 section 10.2.3); None where it says nothing usable."""
    if status not in _RETRY_AFTER_STATUS:
        return None
    value = next((value.strip() for name, value in headers if name.lower() == "retry-after"), "")
    if re.fullmatch(r"[0-9]{1,12}(\.[0-9]+)?", value):
        return float(value)
    import datetime  # here, not above: it and email take 9 ms, and few servers say a date
    import email.utils

    try:
        moment = email.utils.parsedate_to_datetime(value)
        if moment.tzinfo is None:  # the asctime form names no zone: all dates of HTTP are in UTC
            moment = moment.replace(tzinfo=datetime.UTC)
        return max(0.0, moment.timestamp() - time.time())
    except (ValueError, TypeError, IndexError, OverflowError, OSError):
        return None


def blocks(lines: list[bytes]) -> list[tuple[int, list[tuple[str, str]]]]:
    """The header lines of all answers of a transfer: (status, headers) for each, in order; 1xx left out."""
    fields = list(map(_field, lines))
    if fields.count(None) == 2 and fields[0] is None and fields[-1] is None:
        return [(_status(lines[0]), fields[1:-1])]  # type: ignore[list-item]  # both that are None are cut off
    found: list[tuple[int, list[tuple[str, str]]]] = []
    for line in lines:
        if found and (field := _field(line)):
            found[-1][1].append(field)
        elif _STATUS_LINE(line):  # and not a header that is named HTTP/something
            found.append((_status(line), []))
        elif found and line[:1] in b" \t" and line.strip() and found[-1][1]:
            name_before, value_before = found[-1][1][-1]
            found[-1][1][-1] = (name_before, f"{value_before} {_text(line.strip())}")
    if len(found) == 1:
        return found
    return [block for block in found if not 100 <= block[0] < 200] or found[-1:]


def is_whole(lines: list[bytes]) -> bool:
    """Whether the headers came to their end, the blank line (RFC 9112 section 8): libcurl does not mind their lack."""
    for line in reversed(lines):
        if line in (b"\r\n", b"\n"):
            return True
        if _STATUS_LINE(line):
            break
    return False


def hops(url: str, answers: list[tuple[int, list[tuple[str, str]]]], last_url: str) -> list[list[Any]]:
    """[url, status] of each answer on the way; the urls between the first and the last are worked out from Location.

    `last_url` is where the last answer came from; empty where the last redirect was not answered.
    """
    way: list[list[Any]] = []
    for status, headers in answers:
        way.append([url, status])
        location = next((value for name, value in headers if name.lower() == "location"), "")
        try:
            url = urljoin(url, location)[:4096]
        except ValueError:  # "http://[": a server may say anything
            url = location[:4096]
    if way and last_url:
        way[-1][0] = last_url
    return way[:60]


@lru_cache(maxsize=1024)
def _field(line: bytes) -> tuple[str, str] | None:
    """Name and value, without the secret of a Set-Cookie; kept, because a server repeats most of its lines."""
    name, colon, value = line.partition(b":")
    if not colon or not name.strip() or line[:1] in b" \t" or line.startswith(b"HTTP/"):
        return None
    return _text(name.strip()), "" if name.strip().lower() in _SECRET else without_userinfo(_text(value.strip()))


def _status(line: bytes) -> int:
    words = line.split(None, 2)
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


def _text(raw: bytes) -> str:
    """Header bytes as text: UTF-8 where they are, else one character a byte, as HTTP has it of old."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
