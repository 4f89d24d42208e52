"""What in a task is secret, and the same text with it hidden; pure.

Hidden is what stands where secrets stand: passwords, tokens, cookies, and whatever has a name that says so. A secret in
a place of its own (a path of a url, a field called `x`) is not known for one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stateful_crawler.curl.config import Option

HIDDEN = "***"

_WORDS = frozenset(
    {"auth", "authorization", "bearer", "cookie", "cookies", "credential", "credentials", "csrf", "hmac", "jwt", "key"}
    | {"nonce", "otp", "pass", "passcode", "passphrase", "passwd", "password", "pin", "pw", "pwd", "secret", "session"}
    | {"sid", "sig", "signature", "token", "xsrf"}
)
_JOINED = re.compile(
    r"api_?key|app_?key|access_?key|auth_?key|secret|token|passw|session_?id|sess_?id|signature|credential|csrf|xsrf",
    re.I,
)
_NAME_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_USERINFO = re.compile(r"^((?:[A-Za-z][A-Za-z0-9+.-]*:)?//)?([^/?#@]*(?:@[^/?#@]*)*)@")
# The same in a url that is the value of a parameter, plain or percent-encoded.
_INNER_USERINFO = re.compile(r"(?i)((?::|%3a)(?:/|%2f){2})(?:(?!%2f|%3f|%23|%40)[^/?#&@\s])+(@|%40)")
# A semicolon begins another pair if there is a name after it; else it belongs to the value.
_PAIR = re.compile(r"([^&;=?#\s]+)=([^&;#]*(?:;[^&;=#]*(?![^&;#]*=))*)")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>]+")
_JSON = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:\s*)("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false)')
_TAGGED = re.compile(r"<([A-Za-z_][\w.:-]*)>([^<]+)</\1>")
_PART = re.compile(r'(name="([^"]*)"[^\r\n]*(?:\r?\n[^\r\n]+)*\r?\n\r?\n)([^\r\n]*)', re.I)
_COOKIE = re.compile(r"([^=;\s]+)=([^;]*)")
_CREDENTIALS = re.compile(r"(?i)(basic|bearer|digest|negotiate|token|apikey|aws4-hmac-sha256)\s+\S.*", re.S)

_WHOLE = frozenset({"oauth2-bearer", "pass", "proxy-pass", "tlspassword", "proxy-tlspassword"})
_USERS = frozenset({"user", "proxy-user"})
_CERTS = frozenset({"cert", "proxy-cert"})
_URLS = frozenset(
    {"url", "referer", "proxy", "preproxy", "proxy1.0", "socks4", "socks4a", "socks5", "socks5-hostname", "doh-url"}
    | {"request-target", "ipfs-gateway"}
)
_HEADERS = frozenset({"header", "proxy-header"})
_BODIES = frozenset({"data", "data-ascii", "data-binary", "data-raw", "data-urlencode", "json", "url-query"})


def redact_option(option: Option) -> Option:
    """The option with the secret part of its value hidden."""
    name, value = option
    if isinstance(value, bool):
        return option
    plain = name.removeprefix("expand-")
    if plain in _WHOLE:
        return Option(name, HIDDEN if value else "")
    for names, hide in _RULES:
        if plain in names:
            return Option(name, hide(value))
    return Option(name, redact_text(value))


def redact_url(url: str) -> str:
    """The url without the password before its host, and without the values of parameters that are named as secrets."""
    at = next((index for index, char in enumerate(url) if char in "?#"), len(url))
    rest = _INNER_USERINFO.sub(rf"\g<1>{HIDDEN}\g<2>", url[at:])
    return _USERINFO.sub(_hide_userinfo, url[:at]) + _PAIR.sub(_hide_pair, rest)


def redact_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts of a task, or of a record, with the secrets in their urls, headers and options hidden."""
    return {key: _redact_value(key, value) for key, value in facts.items()}


def redact_text(text: str) -> str:
    """A sentence, or any text, with the secrets in the urls that it holds hidden."""
    return _URL.sub(lambda found: redact_url(found[0]), text) if "://" in text else text


def is_secret_name(name: str) -> bool:
    """Whether a parameter, field or header of this name holds a secret: apiKey, X-Auth-Token, session_id, pwd, ..."""
    name = re.sub(r"%[0-9A-Fa-f]{2}", "-", name)
    parts = {part.lower() for part in _NAME_PARTS.findall(name)}
    return bool(parts & _WORDS or _JOINED.search(name))


# ── inside ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _hide_userinfo(found: re.Match[str]) -> str:
    scheme, userinfo = found[1] or "", found[2]
    name, colon, password = userinfo.partition(":")
    # With an empty password, or none, the name is a token: https://TOKEN@host/
    return f"{scheme}{name}:{HIDDEN}@" if colon and password else f"{scheme}{HIDDEN}{colon}@"


def _hide_pair(found: re.Match[str]) -> str:
    return f"{found[1]}={HIDDEN}" if found[2] and is_secret_name(found[1]) else found[0]


def _hide_user(value: str) -> str:
    name, colon, password = value.partition(":")
    return f"{name}:{HIDDEN}" if password else f"{HIDDEN}:" if colon else value


def _hide_cert_password(value: str) -> str:
    """`FILE:PASSWORD`; a colon of the file's own has a backslash before it, or is that of a drive."""
    found = re.match(r"((?:[A-Za-z]:(?=[\\/]))?(?:[^:\\]|\\.)*):.", value, re.DOTALL)
    return f"{found[1]}:{HIDDEN}" if found else value


def _hide_cookie(value: str) -> str:
    """The names of cookies stay; a value without any is the name of a file."""
    return _COOKIE.sub(lambda found: f"{found[1]}={HIDDEN}", value)


def _hide_header(value: str) -> str:
    name, mark, content = value.partition(":")
    return f"{name}{mark} {_hide_field(name, content.strip())}" if mark and content.strip() else value


def _hide_field(name: str, content: str) -> str:
    """The content of a header of this name."""
    low = name.strip().lower()
    if low in ("cookie", "set-cookie"):
        return _hide_cookie(content)
    if low in ("authorization", "proxy-authorization"):
        found = _CREDENTIALS.fullmatch(content)
        return f"{found[1]} {HIDDEN}" if found else HIDDEN
    return HIDDEN if is_secret_name(name) and not low.startswith("access-control-") else redact_text(content)


def _hide_body(value: str) -> str:
    """The values of fields of a form, JSON, XML or multipart body that are named as secrets."""
    if value.startswith("@"):
        return value
    if _JSON.search(value):
        return _JSON.sub(_hide_json, value)
    if _PART.search(value):
        return _PART.sub(lambda found: found[1] + (HIDDEN if is_secret_name(found[2]) else found[3]), value)
    value = _TAGGED.sub(
        lambda found: f"<{found[1]}>{HIDDEN}</{found[1]}>" if is_secret_name(found[1]) else found[0], value
    )
    return redact_text(_PAIR.sub(_hide_pair, value))


def _hide_json(found: re.Match[str]) -> str:
    if is_secret_name(found[1]):
        return f'{found[1]}{found[2]}"{HIDDEN}"'
    return found[1] + found[2] + redact_text(found[3])


def _hide_form(value: str) -> str:
    """`NAME=CONTENT` of a form field; `NAME=@FILE` names a file, which stays."""
    return value if value.partition("=")[2].startswith(("@", "<")) else _hide_named(value)


def _hide_named(value: str) -> str:
    name, mark, content = value.partition("=")
    return f"{name}={HIDDEN}" if content and is_secret_name(name) else name + mark + _hide_body(content)


_RULES = (
    (_USERS, _hide_user),
    (_CERTS, _hide_cert_password),
    (_URLS, redact_url),
    (_HEADERS, _hide_header),
    (_BODIES, _hide_body),
    (frozenset({"form"}), _hide_form),
    (frozenset({"form-string", "variable"}), _hide_named),
    (frozenset({"cookie"}), _hide_cookie),
)


def _redact_value(key: str, value: Any) -> Any:
    if key == "options" and _are_pairs(value):
        return redact_options(value)
    if key == "headers" and _are_pairs(value):
        return [[name, _hide_field(str(name), str(content))] for name, content in value]
    if value and isinstance(value, str | int | float) and not isinstance(value, bool) and is_secret_name(key):
        return HIDDEN
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, Mapping):
        return redact_facts(value)
    if isinstance(value, list | tuple):
        return [_redact_value("", part) for part in value]
    return value


def _are_pairs(value: Any) -> bool:
    """Whether it is a list of names with their values: under the same key a `meta` may hold anything."""
    return isinstance(value, list | tuple) and all(
        isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in value
    )


def redact_options(pairs: list[Any]) -> list[list[Any]]:
    """Options as pairs. With aws-sigv4 the user's name is a key, and is hidden too."""
    aws = any(name == "aws-sigv4" for name, _ in pairs)
    hidden = [list(redact_option(Option(name, value))) for name, value in pairs]
    return [[name, f"{HIDDEN}:{HIDDEN}"] if aws and name == "user" else [name, value] for name, value in hidden]
