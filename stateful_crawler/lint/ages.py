"""In which version curl got an option, for those that are younger than what we write; a pure table."""

from __future__ import annotations

from collections.abc import Mapping

_SINCE = {
    "7.62.0": "doh-url",
    "7.64.0": "http0.9",
    "7.64.1": "alt-svc",
    "7.66.0": "http3 parallel parallel-max sasl-authzid",
    "7.68.0": "etag-compare etag-save parallel-immediate",
    "7.69.0": "mail-rcpt-allowfails",
    "7.70.0": "ssl-revoke-best-effort",
    "7.71.0": "retry-all-errors",
    "7.73.0": "curves output-dir",
    "7.74.0": "hsts",
    "7.75.0": "aws-sigv4 create-file-mode",
    "7.76.0": "doh-cert-status doh-insecure fail-with-body",
    "7.77.0": "proxy-ssl-auto-client-cert ssl-auto-client-cert",
    "7.80.0": "hostpubsha256",
    "7.81.0": "form-escape",
    "7.82.0": "json",
    "7.83.0": "remove-on-error",
    "7.84.0": "rate",
    "7.87.0": "url-query",
    "7.88.0": "http3-only",
    "8.1.0": "proxy-http2",
    "8.2.0": "ca-native haproxy-clientip proxy-ca-native trace-ids",
    "8.3.0": "trace-config variable",
    "8.4.0": "ipfs-gateway",
    "8.8.0": "ech",
    "8.9.0": "ip-tos keepalive-cnt mptcp vlan-priority",
    "8.10.0": "dump-ca-embed skip-existing",
    "8.11.0": "tls-earlydata",
    "8.12.0": "ssl-sessions",
    "8.13.0": "upload-flags",
    "8.14.0": "sigalgs",
    "8.16.0": "follow out-null parallel-max-host",
    "8.17.0": "knownhosts",
    "8.21.0": "proxy-http3",
    "8.22.0": "httpsig-algo httpsig-headers httpsig-key httpsig-keyid",
}

ADDED: Mapping[str, str] = {name: version for version, names in _SINCE.items() for name in names.split()}
"""Option -> the curl that has it first; what is not here is in curl 7.61 already."""
