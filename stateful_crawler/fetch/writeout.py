"""The text that a task's `write-out` asks for, by curl's format; it goes into the record of the fetch.

What a record must not hold stays out: values of Set-Cookie, and user and password of any url. What has no meaning here
gives nothing: %{stderr}, %{stdout} and %output{} (there is one place to write to), %{certs} (their chain is not kept)
and %{ftp_entry_path}.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from json.encoder import encode_basestring

import pycurl

MAX_BYTES = 8192

Headers = Sequence[tuple[str, str]]


def render(
    format: str,
    handle: pycurl.Curl,
    *,
    headers: Headers,
    method: str,
    url: str,
    error: tuple[int, str] = (0, ""),
    saved_as: str = "",
    retries: int = 0,
    now_s: float | None = None,
) -> str:
    """`format` filled in from a handle whose transfer is done; at most 8 kB, whatever a server sent.

    `headers` are those of the last answer, `error` is curl's error number and text, `now_s` the time for %time{} in
    seconds since 1970 (None: the present).
    """
    facts = _Facts(handle, headers, method, url, error, saved_as, retries)
    now = datetime.now(UTC) if now_s is None else datetime.fromtimestamp(now_s, UTC)
    text, room = [], MAX_BYTES
    for piece in _pieces(format, facts, now):
        text.append(piece[:room])
        room -= len(piece)
        if room <= 0:
            break
    return "".join(text).encode("utf-8", "replace")[:MAX_BYTES].decode("utf-8", "ignore")


@dataclass(frozen=True, slots=True)
class _Facts:
    """All that a variable may tell of."""

    handle: pycurl.Curl
    headers: Headers
    method: str
    url: str
    error: tuple[int, str]
    saved_as: str
    retries: int

    def number(self, info: int) -> int:
        try:
            value = self.handle.getinfo(info)
        except pycurl.error:
            return 0
        return int(value) if isinstance(value, int | float) else 0

    def text(self, info: int) -> str | None:
        """None where libcurl knows none, or has rejected the url."""
        try:
            value = self.handle.getinfo_raw(info)
        except pycurl.error:
            return None
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else None

    def all_of(self, name: str) -> list[str]:
        """The values of every header `name`, but for those that let someone in."""
        return [value for key, value in self.headers if key.lower() == name.lower() and not _is_secret(key)]


# ── the format ──────────────────────────────────────────────────────────────────────────────────────────────────────

_TOKEN = re.compile(
    r"%\{(?P<variable>[^}]*+)\}"
    r"|%header\{(?P<header>(?:\\\}|[^}])*+)\}|%time\{(?P<time>[^}]*+)\}|%output\{(?P<output>[^}]*+)\}"
    r"|%(?P<percent>.)|\\(?P<escape>.)|(?P<plain>[^%\\]++|.)",
    re.DOTALL,
).match
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_SEPARATOR_ESCAPE = re.compile(r"\\([nrt}])")
_USERINFO = re.compile(r"//[^/?#\s]*@")
_SECRET_HEADERS = frozenset({"set-cookie", "set-cookie2"})


def _pieces(format: str, facts: _Facts, now: datetime) -> Iterator[str]:
    at = 0
    while (token := _TOKEN(format, at)) is not None:
        at = token.end()
        match token.lastgroup:
            case "variable" if token["variable"] == "onerror":
                if not facts.error[0]:
                    return
            case "variable":
                yield from _variable(token["variable"], facts)
            case "header":
                yield _header(token["header"], facts)
            case "time":
                yield _time(token["time"], now)
            case "percent":
                yield "%" if token["percent"] == "%" else token[0]
            case "escape":
                yield _ESCAPED.get(token["escape"], token[0])
            case "plain":
                yield token[0]


def _variable(name: str, facts: _Facts) -> Iterator[str]:
    if name == "json":
        yield _json(facts)
    elif name == "header_json":
        yield _header_json(facts)
    elif name in ("http_code", "response_code", "http_connect"):
        yield f"{_VARIABLES[name](facts):03d}"
    elif name in _VARIABLES:
        value = _VARIABLES[name](facts)
        yield "" if value is None else _seconds(value) if isinstance(value, float) else _without_userinfo(str(value))


def _header(argument: str, facts: _Facts) -> str:
    """`name` gives the first, `name:all:separator` every value."""
    name, colon, rest = argument.partition(":")
    values = facts.all_of(name)
    if colon:
        all_, colon, separator = rest.partition(":")
        if all_ != "all" or not colon:
            return ""
        joint = _SEPARATOR_ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), separator)
        return _without_userinfo(joint.join(values))
    return _without_userinfo(values[0]) if values else ""


def _time(format: str, now: datetime) -> str:
    try:
        return now.strftime(format.replace("%s", str(int(now.timestamp()))))
    except ValueError:  # from the C library
        return ""


def _without_userinfo(text: str) -> str:
    return _USERINFO.sub("//", text)


def _is_secret(header: str) -> bool:
    return header.lower() in _SECRET_HEADERS


# ── as JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _json(facts: _Facts) -> str:
    parts = [f'"{name}":{_json_value(read(facts))}' for name, read in sorted(_VARIABLES.items())]
    libcurl = pycurl.version.partition(" ")[2]
    return f'{{{",".join(parts)},"curl_version":{encode_basestring(libcurl)}}}'


def _json_value(value: str | int | float | None) -> str:
    match value:
        case None:
            return "null"
        case float():
            return _seconds(value)
        case int():
            return str(value)
        case _:
            return encode_basestring(_without_userinfo(value))


def _header_json(facts: _Facts) -> str:
    names = dict.fromkeys(key.lower() for key, _ in facts.headers if not _is_secret(key))
    lines = [f"{encode_basestring(name)}:[{','.join(map(_json_value, facts.all_of(name)))}]" for name in names]
    return "{" + ",\n".join(lines) + "\n}"


# ── the variables ───────────────────────────────────────────────────────────────────────────────────────────────────

_Value = str | int | float | None
_URL = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://)?(?:[^/?#]*@)?(?P<host>\[[^]/?#]*\]|[^:/?#]*)(?::(?P<port>[0-9]*))?"
    r"(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.DOTALL,
).fullmatch
_HTTP_VERSIONS = {1: "1.0", 2: "1.1", 3: "2", 30: "3"}


def _seconds(value: float) -> str:
    return f"{value:.6f}"


def _number(info: int) -> Callable[[_Facts], _Value]:
    return lambda facts: facts.number(info)


def _text(info: int) -> Callable[[_Facts], _Value]:
    return lambda facts: facts.text(info)


def _microseconds(info: int) -> Callable[[_Facts], _Value]:
    return lambda facts: facts.number(info) / 1e6


def _part(which: str, name: str) -> Callable[[_Facts], _Value]:
    def read(facts: _Facts) -> _Value:
        url = facts.url if which == "url" else facts.text(pycurl.EFFECTIVE_URL) or ""
        return _url_part(url, name)

    return read


def _url_part(url: str, name: str) -> str | None:
    """A part of a url as it is spelled, with curl's defaults for scheme, port and path; None where it has none."""
    found = _URL(url)
    if found is None or not found["host"]:
        return None
    scheme = (found["scheme"] or "http").lower()
    host, percent, zone = found["host"].partition("%")
    zoned = bool(percent) and host.startswith("[")
    match name:
        case "scheme":
            return scheme
        case "host":
            return host + "]" if zoned else found["host"]
        case "zoneid":
            return zone.removeprefix("25").removesuffix("]") if zoned else None
        case "port":
            default = {"http": "80", "https": "443"}.get(scheme)
            return str(int(found["port"])) if found["port"] else default
        case "path":
            return found["path"] or "/"
        case _:
            return found[name]


_VARIABLES: dict[str, Callable[[_Facts], _Value]] = {
    "certs": lambda _facts: "",
    "conn_id": _number(pycurl.CONN_ID),
    "content_type": _text(pycurl.CONTENT_TYPE),
    "errormsg": lambda facts: facts.error[1] or None,
    "exitcode": lambda facts: facts.error[0],
    "filename_effective": lambda facts: facts.saved_as or None,
    "ftp_entry_path": lambda _facts: None,
    "http_code": _number(pycurl.RESPONSE_CODE),
    "http_connect": _number(pycurl.HTTP_CONNECTCODE),
    "http_version": lambda facts: _HTTP_VERSIONS.get(facts.number(pycurl.INFO_HTTP_VERSION), "0"),
    "local_ip": _text(pycurl.LOCAL_IP),
    "local_port": _number(pycurl.LOCAL_PORT),
    "method": lambda facts: facts.text(pycurl.EFFECTIVE_METHOD) or facts.method,
    "num_certs": lambda _facts: 0,
    "num_connects": _number(pycurl.NUM_CONNECTS),
    "num_headers": lambda facts: len(facts.headers),
    "num_redirects": _number(pycurl.REDIRECT_COUNT),
    "num_retries": lambda facts: facts.retries,
    "proxy_ssl_verify_result": _number(pycurl.PROXY_SSL_VERIFYRESULT),
    "proxy_used": _number(pycurl.USED_PROXY),
    "redirect_url": _text(pycurl.REDIRECT_URL),
    "referer": _text(pycurl.INFO_REFERER),
    "remote_ip": _text(pycurl.PRIMARY_IP),
    "remote_port": _number(pycurl.PRIMARY_PORT),
    "response_code": _number(pycurl.RESPONSE_CODE),
    "scheme": lambda facts: (facts.text(pycurl.SCHEME) or "").lower() or None,
    "size_delivered": _number(pycurl.SIZE_DELIVERED),
    "size_download": _number(pycurl.SIZE_DOWNLOAD_T),
    "size_header": _number(pycurl.HEADER_SIZE),
    "size_request": _number(pycurl.REQUEST_SIZE),
    "size_upload": _number(pycurl.SIZE_UPLOAD_T),
    "speed_download": _number(pycurl.SPEED_DOWNLOAD_T),
    "speed_upload": _number(pycurl.SPEED_UPLOAD_T),
    "ssl_verify_result": _number(pycurl.SSL_VERIFYRESULT),
    "time_appconnect": _microseconds(pycurl.APPCONNECT_TIME_T),
    "time_connect": _microseconds(pycurl.CONNECT_TIME_T),
    "time_namelookup": _microseconds(pycurl.NAMELOOKUP_TIME_T),
    "time_posttransfer": _microseconds(pycurl.POSTTRANSFER_TIME_T),
    "time_pretransfer": _microseconds(pycurl.PRETRANSFER_TIME_T),
    "time_queue": _microseconds(pycurl.QUEUE_TIME_T),
    "time_redirect": _microseconds(pycurl.REDIRECT_TIME_T),
    "time_starttransfer": _microseconds(pycurl.STARTTRANSFER_TIME_T),
    "time_total": _microseconds(pycurl.TOTAL_TIME_T),
    "tls_earlydata": _number(pycurl.EARLYDATA_SENT_T),
    "url": lambda facts: facts.url,
    "url_effective": _text(pycurl.EFFECTIVE_URL),
    "urlnum": lambda _facts: 0,
    "xfer_id": _number(pycurl.XFER_ID),
    **{
        f"{which}.{name}": _part(which, name)
        for which in ("url", "urle")
        for name in ("scheme", "host", "zoneid", "port", "path", "query", "fragment")
    },
    **{f"{which}.{name}": lambda _facts: None for which in ("url", "urle") for name in ("user", "password", "options")},
}
