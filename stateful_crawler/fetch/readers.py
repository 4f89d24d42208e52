"""What each curl option sets on a handle: a table from names to readers, and the plan that they fill together."""

from __future__ import annotations

import os
from collections.abc import Iterable

import pycurl

from stateful_crawler.curl.config import Option
from stateful_crawler.curl.values import byte_count
from stateful_crawler.errors import TaskFileError
from stateful_crawler.fetch.plan import (
    MAX_REDIRECTS,
    Plan,
    Reader,
    Value,
    append,
    as_bytes,
    assign,
    bit,
    flag,
    milliseconds,
    option,
    text,
)
from stateful_crawler.fetch.transport import SUPPRESS_CONNECT_HEADERS, TRANSPORT, proxy_auth
from stateful_crawler.task import DATA_OPTIONS

HTTP_ONLY = pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS
_PROTOCOLS = {"http": pycurl.PROTO_HTTP, "https": pycurl.PROTO_HTTPS, "all": HTTP_ONLY}

# libcurl's own numbers where pycurl has no name.
_IGNORE_CONTENT_LENGTH, _DISALLOW_USERNAME_IN_URL, _MIME_OPTIONS = 136, 278, 315
_FOLLOW_OBEY_CODE = 2

_KEYS, _PROXY_KEYS = {pycurl.SSLCERT, pycurl.SSLKEY}, {pycurl.PROXY_SSLCERT, pycurl.PROXY_SSLKEY}


def read(options: Iterable[Option], root: str) -> Plan:
    """The plan of a block of options; `root` is the workdir, which relative paths start from.

    Raises LocalFileError for a certificate or key that is not there, TaskFileError for what can't be put together.
    """
    plan = Plan(root)
    for name, value in options:
        plan.values[name] = value
        if reader := READERS.get(name):
            reader(plan, value)
    bodies = [kind for kind, there in (("data", plan.data), ("form", plan.form), ("upload-file", plan.upload)) if there]
    if len(bodies) > 1:
        raise TaskFileError("", None, f"{' and '.join(bodies)} can't go together: a request has one body")
    if bodies and plan.values.get("head") and not plan.get:
        raise TaskFileError("", None, f"head and {bodies[0]} can't go together: head asks for no body, and sends none")
    if plan.query and plan.data and plan.get:
        raise TaskFileError("", None, "url-query and data with get can't go together: curl would drop the url-query")
    _derive(plan)
    return plan


def _derive(plan: Plan) -> None:
    """The settings that several options decide together."""
    settings = plan.settings
    if plan.follow:
        settings |= {pycurl.FOLLOWLOCATION: plan.follow, pycurl.MAXREDIRS: plan.max_redirects}
    if plan.trusted:
        settings[pycurl.UNRESTRICTED_AUTH] = 1
    if plan.head:
        settings[pycurl.NOBODY] = 1
    if plan.method and not (plan.head and plan.method == "HEAD"):
        settings[pycurl.CUSTOMREQUEST] = plan.method.encode()
    if plan.cookies:
        settings[pycurl.COOKIE] = as_bytes(";".join(plan.cookies))
    if plan.tls_min or plan.tls_max:
        settings[pycurl.SSLVERSION] = plan.tls_min | plan.tls_max
    settings |= {constant: mask for constant, mask in plan.bits.items() if mask}
    if pycurl.AWS_SIGV4 in settings:  # it signs, whatever other ways the task names
        settings.pop(pycurl.HTTPAUTH, None)
    settings |= proxy_auth(plan.proxy_auth) | _netrc(plan) | _speeds(plan)
    if pycurl.PROXYHEADER in plan.lists:
        settings[pycurl.HEADEROPT] = pycurl.HEADER_SEPARATE
    # A proxy's answer to CONNECT is nothing that the page's server said: it is left out unless the task saves headers.
    if not (plan.values.get("include") or plan.values.get("show-headers") or plan.values.get("dump-header")):
        settings[SUPPRESS_CONNECT_HEADERS] = 1
    for key, password in ((_KEYS, pycurl.KEYPASSWD), (_PROXY_KEYS, pycurl.PROXY_KEYPASSWD)):
        if not key.isdisjoint(settings):
            settings.setdefault(password, b"")  # without one OpenSSL asks at the terminal, and the crawl stands still
    if plan.values.get("remote-time"):
        settings[pycurl.OPT_FILETIME] = 1
    if plan.values.get("cookie-jar"):
        plan.cookie_files.append("")  # the cookie engine, with nothing to read
    if plan.values.get("form-escape"):
        settings[_MIME_OPTIONS] = 1


def _netrc(plan: Plan) -> dict[int, Value]:
    if "netrc-optional" in plan.netrc:
        return {pycurl.NETRC: pycurl.NETRC_OPTIONAL}
    if "netrc" in plan.netrc or pycurl.NETRC_FILE in plan.settings:
        return {pycurl.NETRC: pycurl.NETRC_REQUIRED}
    return {}


def _speeds(plan: Plan) -> dict[int, Value]:
    limit, seconds = plan.values.get("speed-limit"), plan.values.get("speed-time")
    if limit is None and seconds is None:
        return {}
    return {pycurl.LOW_SPEED_LIMIT: int(limit or 1), pycurl.LOW_SPEED_TIME: int(seconds or 30)}


# ── readers of one option ────────────────────────────────────────────────────────────────────────────────────────────


def _protocols(constant: int) -> Reader:
    def read(plan: Plan, value: str | bool) -> None:
        plan.settings[constant] = _mask(str(value))

    return read


def _mask(text: str) -> int:
    """`=https`, `-http`, `+x`, comma-separated, as curl reads them; what is not http or https stays off."""
    mask = HTTP_ONLY
    for word in text.lower().split(","):
        bits = _PROTOCOLS.get(word.strip().lstrip("=+-"), 0)
        if word.strip().startswith("="):
            mask = bits
        elif word.strip().startswith("-"):
            mask &= ~bits
        else:
            mask |= bits
    return mask


def _compressed(plan: Plan, value: str | bool) -> None:
    if value:
        plan.settings[pycurl.ACCEPT_ENCODING] = b""  # empty: all that this libcurl can decode, and no more
    else:
        plan.settings.pop(pycurl.ACCEPT_ENCODING, None)


def _raw(plan: Plan, value: str | bool) -> None:
    plan.settings |= {pycurl.HTTP_CONTENT_DECODING: not value, pycurl.HTTP_TRANSFER_DECODING: not value}


def _referer(plan: Plan, value: str | bool) -> None:
    text = str(value).removesuffix(";auto")
    plan.settings[pycurl.AUTOREFERER] = 1 if text != value else 0
    if text:
        plan.settings[pycurl.REFERER] = as_bytes(text)
    else:  # an empty one would be sent as a header without a value
        plan.settings.pop(pycurl.REFERER, None)


def _cookie(plan: Plan, value: str | bool) -> None:
    (plan.cookies if "=" in str(value) else plan.cookie_files).append(str(value))


def _max_redirects(plan: Plan, value: str | bool) -> None:
    wanted = int(value)
    plan.max_redirects = wanted if 0 <= wanted <= MAX_REDIRECTS else MAX_REDIRECTS


def _request(plan: Plan, value: str | bool) -> None:
    plan.method = str(value)
    # With -X HEAD alone curl waits for a body that never comes.
    plan.head = plan.head or plan.method == "HEAD"


def _location(plan: Plan, value: str | bool) -> None:
    plan.follow = 1 if value else 0


def _location_trusted(plan: Plan, value: str | bool) -> None:
    plan.trusted = bool(value)
    plan.follow = 1 if value else 0  # both, as curl has it


def _follow(plan: Plan, value: str | bool) -> None:
    plan.follow = _FOLLOW_OBEY_CODE if value else 0


def _limit_rate(plan: Plan, value: str | bool) -> None:
    rate = byte_count(str(value))
    plan.settings |= {pycurl.MAX_RECV_SPEED_LARGE: rate, pycurl.MAX_SEND_SPEED_LARGE: rate}
    if 0 < rate < 128 * 1024:  # as curl: libcurl measures per buffer, and a large one makes a coarse limit
        plan.settings[pycurl.BUFFERSIZE] = max(1024, rate)


def _max_filesize(plan: Plan, value: str | bool) -> None:
    plan.max_body_bytes = byte_count(str(value))


def _time_condition(plan: Plan, value: str | bool) -> None:
    kinds = {"-": pycurl.TIMECONDITION_IFUNMODSINCE, "=": pycurl.TIMECONDITION_LASTMOD}
    from stateful_crawler.fetch.times import moment_of  # here, not above: it takes 9 ms, and few tasks have a date

    text = str(value)
    kind = kinds.get(text[:1], pycurl.TIMECONDITION_IFMODSINCE)
    moment = moment_of(text.lstrip("+-="), plan.root)
    plan.settings |= {pycurl.TIMECONDITION: kind, pycurl.TIMEVALUE: moment}


def _http_0_9(plan: Plan, value: str | bool) -> None:
    # On a connection that is used again, libcurl takes no answer without a status line.
    plan.settings |= {pycurl.HTTP09_ALLOWED: bool(value), pycurl.FRESH_CONNECT: bool(value)}


def _upload(plan: Plan, value: str | bool) -> None:
    plan.upload = plan.upload or str(value)  # to curl, a second one belongs to a second url


def _hsts(plan: Plan, value: str | bool) -> None:
    if pycurl.HSTS in plan.settings:
        raise TaskFileError("", None, "two hsts: a task has one such file")
    os.makedirs(os.path.dirname(os.path.join(plan.root, str(value))), exist_ok=True)
    plan.settings |= {pycurl.HSTS_CTRL: 1, pycurl.HSTS: os.fsencode(os.path.join(plan.root, str(value)))}


def _continue_at(plan: Plan, value: str | bool) -> None:
    # "-" stands for the bytes that are there already; a page of ours is whole or not there at all.
    plan.settings[pycurl.RESUME_FROM_LARGE] = 0 if value == "-" else int(value)


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────────

_TEXTS = {
    "proto-default": pycurl.DEFAULT_PROTOCOL,
    "range": pycurl.RANGE,
    "request-target": pycurl.REQUEST_TARGET,
    "user-agent": pycurl.USERAGENT,
}

_SWITCHES = {
    "crlf": pycurl.CRLF,
    "disallow-username-in-url": _DISALLOW_USERNAME_IN_URL,
    "ignore-content-length": _IGNORE_CONTENT_LENGTH,
    "junk-session-cookies": pycurl.COOKIESESSION,
    "path-as-is": pycurl.PATH_AS_IS,
    "tr-encoding": pycurl.TRANSFER_ENCODING,
}

_VERSIONS = {
    "http1.0": pycurl.CURL_HTTP_VERSION_1_0,
    "http1.1": pycurl.CURL_HTTP_VERSION_1_1,
    "http2": pycurl.CURL_HTTP_VERSION_2_0,
    "http2-prior-knowledge": pycurl.CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE,
    "http3": pycurl.CURL_HTTP_VERSION_3,
    "http3-only": pycurl.CURL_HTTP_VERSION_3ONLY,
}

READERS: dict[str, Reader] = {
    **TRANSPORT,
    **{name: text(constant) for name, constant in _TEXTS.items()},
    **{name: flag(constant) for name, constant in _SWITCHES.items()},
    **{name: flag(pycurl.HTTP_VERSION, version, version) for name, version in _VERSIONS.items()},
    **{name: bit(pycurl.POSTREDIR, mask) for name, mask in (("post301", 1), ("post302", 2), ("post303", 4))},
    **{name: option("data", name) for name in sorted(DATA_OPTIONS)},
    "compressed": _compressed,
    "connect-timeout": milliseconds(pycurl.CONNECTTIMEOUT_MS),
    "continue-at": _continue_at,
    "cookie": _cookie,
    "etag-compare": assign("etag_compare"),
    "expect100-timeout": milliseconds(pycurl.EXPECT_100_TIMEOUT_MS),
    "follow": _follow,
    "form": option("form", "form"),
    "form-string": option("form", "form-string"),
    "get": assign("get"),
    "head": assign("head"),
    "header": append("headers"),
    "hsts": _hsts,
    "http0.9": _http_0_9,
    "limit-rate": _limit_rate,
    "location": _location,
    "location-trusted": _location_trusted,
    "max-filesize": _max_filesize,
    "max-redirs": _max_redirects,
    "max-time": milliseconds(pycurl.TIMEOUT_MS),
    "proto": _protocols(pycurl.PROTOCOLS),
    "proto-redir": _protocols(pycurl.REDIR_PROTOCOLS),
    "raw": _raw,
    "referer": _referer,
    "request": _request,
    "time-cond": _time_condition,
    "upload-file": _upload,
    "url-query": append("query"),
}

# Where the other options of verdict transfer and ours are done.
ELSEWHERE = {
    "the task's reading": "url output output-dir remote-name remote-name-all variable globoff",
    "Plan.values, by _derive": "form-escape remote-time speed-limit speed-time",
    "how the answer is taken (setup.Wanted)": """dump-header etag-save cookie-jar include show-headers
        remote-header-name write-out""",
    "retries": "retry retry-all-errors retry-connrefused retry-delay retry-max-time",
    "the crawl, always": "create-dirs fail fail-with-body remove-on-error",
}
