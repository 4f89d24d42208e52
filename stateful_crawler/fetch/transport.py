"""Options of the connection: TLS, proxies, who we are to them, addresses and sockets."""

from __future__ import annotations

import os

import pycurl

from stateful_crawler.fetch.plan import (
    Plan,
    Reader,
    Value,
    as_bytes,
    assign,
    bit,
    file_path,
    flag,
    listed,
    text,
    whole,
    word,
)
from stateful_crawler.urls import ascii_proxy

# libcurl's own numbers where pycurl has no name.
SUPPRESS_CONNECT_HEADERS = 265
_SOCKS5_AUTH, _HAPPY_EYEBALLS_MS, _KEEPALIVE_COUNT, _VERIFY_STATUS = 267, 271, 326, 232
_DOH_VERIFY_PEER, _DOH_VERIFY_HOST, _DOH_VERIFY_STATUS = 306, 307, 308
_SOCKS5_BASIC, _SOCKS5_GSSAPI = 1, 4
_AUTH_BEARER, _PROXYTYPE_HTTPS2 = 1 << 6, 3

TLS_MIN = {
    "tlsv1": pycurl.SSLVERSION_TLSv1,
    "tlsv1.0": pycurl.SSLVERSION_TLSv1_0,
    "tlsv1.1": pycurl.SSLVERSION_TLSv1_1,
    "tlsv1.2": pycurl.SSLVERSION_TLSv1_2,
    "tlsv1.3": pycurl.SSLVERSION_TLSv1_3,
}
"""option -> the lowest version it allows."""

TLS_MAX = {
    "default": pycurl.SSLVERSION_MAX_DEFAULT,
    "1.0": pycurl.SSLVERSION_MAX_TLSv1_0,
    "1.1": pycurl.SSLVERSION_MAX_TLSv1_1,
    "1.2": pycurl.SSLVERSION_MAX_TLSv1_2,
    "1.3": pycurl.SSLVERSION_MAX_TLSv1_3,
}
"""value of tls-max -> the highest version it allows."""

PROXY_AUTH = {  # the first that is on wins, as in curl
    "proxy-anyauth": pycurl.HTTPAUTH_ANY,
    "proxy-negotiate": pycurl.HTTPAUTH_NEGOTIATE,
    "proxy-digest": pycurl.HTTPAUTH_DIGEST,
    "proxy-basic": pycurl.HTTPAUTH_BASIC,
}

TYPES_OF_SERVICE = {
    **{f"CS{number}": number << 5 for number in range(8)},
    **{f"AF{group}{drop}": group << 5 | drop << 3 for group in range(1, 5) for drop in range(1, 4)},
    "EF": 0xB8,
    "VOICE-ADMIT": 0xB0,
    "ECT1": 1,
    "ECT0": 2,
    "CE": 3,
    "LE": 4,
    "LOWCOST": 2,
    "MINCOST": 2,
    "LOWDELAY": 0x10,
    "THROUGHPUT": 8,
    "RELIABILITY": 4,
}
"""The words that `ip-tos` takes (RFC 2474, 2597, 3246, 8622)."""


def proxy_auth(switched_on: set[str]) -> dict[int, Value]:
    """PROXYAUTH for the options that are on; empty where none is."""
    return next(({pycurl.PROXYAUTH: bits} for name, bits in PROXY_AUTH.items() if name in switched_on), {})


def split_certificate(value: str) -> tuple[str, str | None]:
    """`FILE[:PASSWORD]`, where `\\:` and `\\\\` are literal; None where no password is given."""
    path, rest = "", iter(value)
    for character in rest:
        if character == ":":
            return path, "".join(rest)
        if character == "\\":
            following = next(rest, "")
            path += following if following in ("\\", ":") else "\\" + following
        else:
            path += character
    return path, None


def _insecure(peer: int, host: int) -> Reader:
    def read(plan: Plan, value: str | bool) -> None:
        plan.settings |= {peer: 0 if value else 1, host: 0 if value else 2}

    return read


def _certificate(file: int, password: int) -> Reader:
    def read(plan: Plan, value: str | bool) -> None:
        path, secret = split_certificate(str(value))
        file_path(file)(plan, path)
        if secret is not None:
            plan.settings[password] = as_bytes(secret)

    return read


def _proxy(kind: int) -> Reader:
    def read(plan: Plan, value: str | bool) -> None:
        plan.settings |= {pycurl.PROXY: as_bytes(ascii_proxy(str(value))), pycurl.PROXYTYPE: kind}

    return read


def _proxy_http2(plan: Plan, value: str | bool) -> None:
    plan.settings[pycurl.PROXYTYPE] = _PROXYTYPE_HTTPS2 if value else pycurl.PROXYTYPE_HTTP


def _user(plan: Plan, value: str | bool) -> None:
    # Where no password is given, curl asks for it on the terminal; a crawl sends an empty one.
    plan.settings[pycurl.USERPWD] = as_bytes(str(value) if ":" in str(value) else f"{value}:")


def _sigv4(plan: Plan, value: str | bool) -> None:
    plan.settings[pycurl.AWS_SIGV4] = as_bytes(str(value))


def _bearer(plan: Plan, value: str | bool) -> None:
    plan.settings[pycurl.XOAUTH2_BEARER] = as_bytes(str(value))
    plan.toggle(pycurl.HTTPAUTH, _AUTH_BEARER, True)


def _any_auth(plan: Plan, _value: str | bool) -> None:
    plan.bits[pycurl.HTTPAUTH] = pycurl.HTTPAUTH_ANY


def _local_port(plan: Plan, value: str | bool) -> None:
    first, _, last = str(value).partition("-")
    plan.settings[pycurl.LOCALPORT] = int(first)
    plan.settings[pycurl.LOCALPORTRANGE] = int(last or first) - int(first) + 1


def _keepalive_time(plan: Plan, value: str | bool) -> None:
    plan.settings |= {pycurl.TCP_KEEPALIVE: 1, pycurl.TCP_KEEPIDLE: int(value), pycurl.TCP_KEEPINTVL: int(value)}


def _pinned(constant: int) -> Reader:
    def read(plan: Plan, value: str | bool) -> None:
        (text if str(value).startswith("sha256//") else file_path)(constant)(plan, value)

    return read


def _tls_max(plan: Plan, value: str | bool) -> None:
    plan.tls_max = TLS_MAX[str(value)]


def _tls_min(version: int) -> Reader:
    def read(plan: Plan, _value: str | bool) -> None:
        plan.tls_min = version

    return read


def _doh_insecure(plan: Plan, value: str | bool) -> None:
    plan.settings |= {_DOH_VERIFY_PEER: 0 if value else 1, _DOH_VERIFY_HOST: 0 if value else 2}


def _delegation(plan: Plan, value: str | bool) -> None:
    plan.settings[pycurl.GSSAPI_DELEGATION] = {"policy": 1, "always": 2}.get(str(value).lower(), 0)


def _socket_path(plan: Plan, value: str | bool) -> None:
    plan.settings[pycurl.UNIX_SOCKET_PATH] = os.fsencode(os.path.join(plan.root, str(value)))


def _socket_number(attribute: str, words: dict[str, int]) -> Reader:
    def read(plan: Plan, value: str | bool) -> None:
        known = words.get(str(value))
        setattr(plan, attribute, int(value) if known is None else known)

    return read


# ── the tables ───────────────────────────────────────────────────────────────────────────────────────────────────────

_TEXTS = {
    "cert-type": pycurl.SSLCERTTYPE,
    "ciphers": pycurl.SSL_CIPHER_LIST,
    "curves": pycurl.SSL_EC_CURVES,
    "doh-url": pycurl.DOH_URL,
    "haproxy-clientip": pycurl.HAPROXY_CLIENT_IP,
    "interface": pycurl.INTERFACE,
    "key-type": pycurl.SSLKEYTYPE,
    "login-options": pycurl.LOGIN_OPTIONS,
    "noproxy": pycurl.NOPROXY,
    "pass": pycurl.KEYPASSWD,
    "preproxy": pycurl.PRE_PROXY,
    "proxy-cert-type": pycurl.PROXY_SSLCERTTYPE,
    "proxy-ciphers": pycurl.PROXY_SSL_CIPHER_LIST,
    "proxy-key-type": pycurl.PROXY_SSLKEYTYPE,
    "proxy-pass": pycurl.PROXY_KEYPASSWD,
    "proxy-service-name": pycurl.PROXY_SERVICE_NAME,
    "proxy-tls13-ciphers": pycurl.PROXY_TLS13_CIPHERS,
    "proxy-user": pycurl.PROXYUSERPWD,
    "service-name": pycurl.SERVICE_NAME,
    "sigalgs": pycurl.SSL_SIGNATURE_ALGORITHMS,
    "socks5-gssapi-service": pycurl.PROXY_SERVICE_NAME,
    "tls13-ciphers": pycurl.TLS13_CIPHERS,
}

_SWITCHES = {
    "alpn": pycurl.SSL_ENABLE_ALPN,
    "cert-status": _VERIFY_STATUS,
    "doh-cert-status": _DOH_VERIFY_STATUS,
    "haproxy-protocol": pycurl.HAPROXYPROTOCOL,
    "keepalive": pycurl.TCP_KEEPALIVE,
    "proxytunnel": pycurl.HTTPPROXYTUNNEL,
    "sessionid": pycurl.SSL_SESSIONID_CACHE,
    "socks5-gssapi-nec": pycurl.SOCKS5_GSSAPI_NEC,
    "suppress-connect-headers": SUPPRESS_CONNECT_HEADERS,
    "tcp-fastopen": pycurl.TCP_FASTOPEN,
    "tcp-nodelay": pycurl.TCP_NODELAY,
}

_BITS = {
    "basic": (pycurl.HTTPAUTH, pycurl.HTTPAUTH_BASIC),
    "digest": (pycurl.HTTPAUTH, pycurl.HTTPAUTH_DIGEST),
    "negotiate": (pycurl.HTTPAUTH, pycurl.HTTPAUTH_NEGOTIATE),
    "ssl-allow-beast": (pycurl.SSL_OPTIONS, pycurl.SSLOPT_ALLOW_BEAST),
    "ssl-auto-client-cert": (pycurl.SSL_OPTIONS, pycurl.SSLOPT_AUTO_CLIENT_CERT),
    "ssl-no-revoke": (pycurl.SSL_OPTIONS, pycurl.SSLOPT_NO_REVOKE),
    "ssl-revoke-best-effort": (pycurl.SSL_OPTIONS, pycurl.SSLOPT_REVOKE_BEST_EFFORT),
    "ca-native": (pycurl.SSL_OPTIONS, pycurl.SSLOPT_NATIVE_CA),
    "tls-earlydata": (pycurl.SSL_OPTIONS, pycurl.SSLOPT_EARLYDATA),
    "proxy-ca-native": (pycurl.PROXY_SSL_OPTIONS, pycurl.SSLOPT_NATIVE_CA),
    "proxy-ssl-allow-beast": (pycurl.PROXY_SSL_OPTIONS, pycurl.SSLOPT_ALLOW_BEAST),
    "proxy-ssl-auto-client-cert": (pycurl.PROXY_SSL_OPTIONS, pycurl.SSLOPT_AUTO_CLIENT_CERT),
    "socks5-basic": (_SOCKS5_AUTH, _SOCKS5_BASIC),
    "socks5-gssapi": (_SOCKS5_AUTH, _SOCKS5_GSSAPI),
}

TRANSPORT: dict[str, Reader] = {
    **{name: text(constant) for name, constant in _TEXTS.items()},
    **{name: flag(constant) for name, constant in _SWITCHES.items()},
    **{name: bit(constant, mask) for name, (constant, mask) in _BITS.items()},
    **{name: _tls_min(version) for name, version in TLS_MIN.items()},
    **{name: word("proxy_auth", name) for name in PROXY_AUTH},
    **{name: word("netrc", name) for name in ("netrc", "netrc-optional")},
    "anyauth": _any_auth,
    "aws-sigv4": _sigv4,
    "cacert": file_path(pycurl.CAINFO),
    "capath": file_path(pycurl.CAPATH, pycurl.PROXY_CAPATH),
    "cert": _certificate(pycurl.SSLCERT, pycurl.KEYPASSWD),
    "connect-to": listed(pycurl.CONNECT_TO),
    "crlfile": file_path(pycurl.CRLFILE, pycurl.PROXY_CRLFILE),
    "delegation": _delegation,
    "doh-insecure": _doh_insecure,
    "happy-eyeballs-timeout-ms": whole(_HAPPY_EYEBALLS_MS),
    "insecure": _insecure(pycurl.SSL_VERIFYPEER, pycurl.SSL_VERIFYHOST),
    "ip-tos": _socket_number("ip_tos", TYPES_OF_SERVICE),
    "ipv4": flag(pycurl.IPRESOLVE, pycurl.IPRESOLVE_V4, pycurl.IPRESOLVE_V4),
    "ipv6": flag(pycurl.IPRESOLVE, pycurl.IPRESOLVE_V6, pycurl.IPRESOLVE_V6),
    "keepalive-cnt": whole(_KEEPALIVE_COUNT),
    "keepalive-time": _keepalive_time,
    "key": file_path(pycurl.SSLKEY),
    "local-port": _local_port,
    "mptcp": assign("mptcp"),
    "netrc-file": file_path(pycurl.NETRC_FILE),
    "oauth2-bearer": _bearer,
    "pinnedpubkey": _pinned(pycurl.PINNEDPUBLICKEY),
    "proxy": _proxy(pycurl.PROXYTYPE_HTTP),
    "proxy-cacert": file_path(pycurl.PROXY_CAINFO),
    "proxy-capath": file_path(pycurl.PROXY_CAPATH),
    "proxy-cert": _certificate(pycurl.PROXY_SSLCERT, pycurl.PROXY_KEYPASSWD),
    "proxy-crlfile": file_path(pycurl.PROXY_CRLFILE),
    "proxy-header": listed(pycurl.PROXYHEADER),
    "proxy-http2": _proxy_http2,
    "proxy-insecure": _insecure(pycurl.PROXY_SSL_VERIFYPEER, pycurl.PROXY_SSL_VERIFYHOST),
    "proxy-key": file_path(pycurl.PROXY_SSLKEY),
    "proxy-pinnedpubkey": _pinned(pycurl.PROXY_PINNEDPUBLICKEY),
    "proxy-tlsv1": flag(pycurl.PROXY_SSLVERSION, pycurl.SSLVERSION_TLSv1, pycurl.SSLVERSION_TLSv1),
    "proxy1.0": _proxy(pycurl.PROXYTYPE_HTTP_1_0),
    "resolve": listed(pycurl.RESOLVE),
    "socks4": _proxy(pycurl.PROXYTYPE_SOCKS4),
    "socks4a": _proxy(pycurl.PROXYTYPE_SOCKS4A),
    "socks5": _proxy(pycurl.PROXYTYPE_SOCKS5),
    "socks5-hostname": _proxy(pycurl.PROXYTYPE_SOCKS5_HOSTNAME),
    "tls-max": _tls_max,
    "unix-socket": _socket_path,
    "user": _user,
    "vlan-priority": _socket_number("priority", {}),
}
