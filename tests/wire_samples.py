"""A sample value for every option that takes one, and the tasks that are made of the whole table of options."""

from __future__ import annotations

from stateful_crawler.curl.options import OPTIONS, CurlOption

# name -> a value, and the lines that it needs beside it.
SAMPLES: dict[str, tuple[str, ...]] = {
    "aws-sigv4": ("aws:amz:eu-central-1:es", 'user = "KEY:secret"'),
    "cert-type": ("PEM",),
    "ciphers": ("ECDHE-RSA-AES128-GCM-SHA256",),
    "connect-timeout": ("5.5",),
    "connect-to": ("name.test:PORT:127.0.0.1:PORT", 'url = "http://name.test:PORT/TASK"'),
    "continue-at": ("5", "head"),
    "cookie": ("a=1",),
    "cookie-jar": ("var/jar.txt",),
    "curves": ("X25519",),
    "data": ("a=1",),
    "data-ascii": ("a=1",),
    "data-binary": ("a=1",),
    "data-raw": ("@a=1",),
    "data-urlencode": ("a=b c",),
    "delegation": ("policy",),
    "dump-header": ("html/TASK.headers",),
    "egd-file": ("none",),
    "etag-compare": ("var/etag.txt",),
    "etag-save": ("var/TASK.etag",),
    "expect100-timeout": ("2.5", 'data-binary = "@large.bin"'),
    "form": ("a=1",),
    "form-string": ("a=@1;type=x",),
    "happy-eyeballs-timeout-ms": ("300",),
    "haproxy-clientip": ("192.0.2.7",),
    "header": ("X-A: 1",),
    "interface": ("127.0.0.1",),
    "ip-tos": ("CS1",),
    "json": ("{}",),
    "keepalive-cnt": ("3",),
    "keepalive-time": ("30",),
    "key-type": ("PEM",),
    "limit-rate": ("10M",),
    "local-port": ("42000-48000",),
    "login-options": ("AUTH=*", 'user = "a:b"'),
    "max-filesize": ("1M",),
    "max-redirs": ("3",),
    "max-time": ("9.5",),
    "netrc-file": ("netrc.txt",),
    "noproxy": ("127.0.0.1", 'proxy = "http://127.0.0.1:1"'),
    "oauth2-bearer": ("token",),
    "output": ("html/TASK.html",),
    "parallel-max": ("3",),
    "parallel-max-host": ("3",),
    "pass": ("word",),
    "pinnedpubkey": ("sha256//AAAA",),
    "proto": ("=http",),
    "proto-default": ("http", 'url = "HOST/TASK"'),
    "proto-redir": ("=http",),
    "proxy": ("SERVER",),
    "proxy-cert-type": ("PEM",),
    "proxy-ciphers": ("ECDHE-RSA-AES128-GCM-SHA256",),
    "proxy-header": ("X-A: 1", 'proxy = "SERVER"'),
    "proxy-key-type": ("PEM",),
    "proxy-pass": ("word",),
    "proxy-pinnedpubkey": ("sha256//AAAA",),
    "proxy-service-name": ("HTTP",),
    "proxy-tls13-ciphers": ("TLS_AES_128_GCM_SHA256",),
    "proxy-user": ("a:b", 'proxy = "SERVER"'),
    "proxy1.0": ("SERVER",),
    "random-file": ("none",),
    "range": ("0-9",),
    "rate": ("9/s",),
    "referer": ("http://r.test/",),
    "request": ("PURGE",),
    "request-target": ("/other/TASK",),
    "resolve": ("name.test:PORT:127.0.0.1", 'url = "http://name.test:PORT/TASK"'),
    "retry": ("0",),
    "retry-delay": ("1",),
    "retry-max-time": ("1",),
    "service-name": ("HTTP",),
    "sigalgs": ("ECDSA+SHA256",),
    "socks5-gssapi-service": ("rcmd",),
    "speed-limit": ("1",),
    "speed-time": ("9",),
    "stderr": ("stderr.txt",),
    "time-cond": ("1 Dec 2026 10:00:00 GMT",),
    "tls-max": ("1.2",),
    "tls13-ciphers": ("TLS_AES_128_GCM_SHA256",),
    "trace-config": ("ids",),
    "upload-file": ("body.txt",),
    "url-query": ("a=b c",),
    "user": ("a:b",),
    "user-agent": ("me",),
    "variable": ("name=value", 'expand-header = "X-A: {{name}}"'),
    "vlan-priority": ("3",),
    "write-out": ("done",),
}
SAMPLES |= {name: ("empty.pem",) for name in OPTIONS if name.endswith(("cacert", "crlfile", "cert", "key"))}
SAMPLES |= dict.fromkeys(("capath", "proxy-capath"), (".",))

# Lines that a switch needs beside it to mean something.
BESIDE: dict[str, tuple[str, ...]] = {
    "anyauth": ('url = "SERVER/ask-both/TASK"', 'user = "a:b"'),
    "basic": ('user = "a:b"',),
    "crlf": ('upload-file = "lines.txt"',),
    "digest": ('url = "SERVER/ask-digest/TASK"', 'user = "a:b"'),
    "follow": ('url = "SERVER/302/TASK"', 'request = "PUT"', 'data = "a=1"'),
    "form-escape": ('form = "a\\"b=c"',),
    "get": ('data = "a=1"',),
    "ignore-content-length": ('url = "SERVER/close/TASK"',),
    "junk-session-cookies": ('cookie = "lasting.txt"',),
    "location": ('url = "SERVER/302/TASK"',),
    "location-trusted": ('url = "SERVER/302/TASK"', 'user = "a:b"'),
    "path-as-is": ('url = "SERVER/TASK/../a/./b"',),
    "post301": ('url = "SERVER/301/TASK"', 'data = "a=1"', "location"),
    "post302": ('url = "SERVER/302/TASK"', 'data = "a=1"', "location"),
    "post303": ('url = "SERVER/303/TASK"', 'data = "a=1"', "location"),
    "proxy-anyauth": ('url = "http://ask-both.TASK.test/"', 'proxy = "SERVER"', 'proxy-user = "a:b"'),
    "proxy-basic": ('proxy = "SERVER"', 'proxy-user = "a:b"'),
    "proxy-digest": ('url = "http://ask-digest.TASK.test/"', 'proxy = "SERVER"', 'proxy-user = "a:b"'),
    "proxytunnel": ('url = "http://TASK.test/"', 'proxy = "SERVER"'),
    "remote-header-name": ("remote-name", 'url = "SERVER/TASK.html"'),
    "remote-name": ('url = "SERVER/TASK.html"',),
    "remote-name-all": ('url = "SERVER/TASK.html"',),
    "suppress-connect-headers": ('url = "http://TASK.test/"', 'proxy = "SERVER"', "proxytunnel", "include"),
}

# name -> the tests that show what it does. Here is no place for it: it needs another proxy or protocol.
NOT_HERE = {
    "doh-url": "test_wire_network",
    "hsts": "test_wire_network",
    "http2-prior-knowledge": "test_http2",
    "output-dir": "test_wire_files",
    "preproxy": "test_proxies",
    "socks4": "test_proxies",
    "socks4a": "test_proxies",
    "socks5": "test_proxies",
    "socks5-hostname": "test_proxies",
    "unix-socket": "test_addresses",
}
# These are compared here without TLS, where they must change nothing; and shown there with it.
OVER_TLS = {
    "cacert": "test_tls",
    "capath": "test_tls",
    "cert": "test_tls",
    "cert-type": "test_tls",
    "ciphers": "test_tls",
    "crlfile": "test_wire_network",
    "curves": "test_wire_network",
    "doh-insecure": "test_wire_network",
    "insecure": "test_tls",
    "key": "test_tls",
    "key-type": "test_tls",
    "pass": "test_tls",
    "pinnedpubkey": "test_tls",
    "proxy-cacert": "test_wire_network",
    "proxy-capath": "test_wire_network",
    "proxy-cert": "test_wire_network",
    "proxy-cert-type": "test_wire_network",
    "proxy-ciphers": "test_wire_network",
    "proxy-crlfile": "test_wire_network",
    "proxy-insecure": "test_wire_network",
    "proxy-key": "test_wire_network",
    "proxy-key-type": "test_wire_network",
    "proxy-pass": "test_wire_network",
    "proxy-pinnedpubkey": "test_wire_network",
    "proxy-tls13-ciphers": "test_wire_network",
    "proxy-tlsv1": "test_wire_network",
    "sigalgs": "test_wire_network",
    "tls-max": "test_tls",
    "tls13-ciphers": "test_tls",
    "tlsv1.0": "test_wire_network",
    "tlsv1.1": "test_wire_network",
    "tlsv1.2": "test_tls",
    "tlsv1.3": "test_tls",
}
SHOWN_BY = NOT_HERE | OVER_TLS
ELSEWHERE = NOT_HERE | {
    "test-duphandle": "curl has it only where it is built for its own tests",
    "test-event": "curl has it only where it is built for its own tests",
    "url": "every task has one",
    "wdebug": "curl has it only for a system of long ago",
}


def usable() -> list[CurlOption]:
    return [option for option in OPTIONS.values() if option.usable and option.name not in ELSEWHERE]


def forms_of(option: CurlOption) -> dict[str, tuple[str, ...]]:
    """Every way to write the option: by its name, its letter, off, on and off again."""
    name = option.name
    if option.kind != "flag":
        value, *beside = SAMPLES[name]
        forms = {name: (f'{name} = "{value}"', *beside)}
        return forms | ({f"{name} by letter": (f'-{option.short} "{value}"', *beside)} if option.short else {})
    beside = list(BESIDE.get(name, ()))
    forms = {name: (name, *beside)}
    if option.short and name not in ("buffer",):  # its letter says no-buffer
        forms[f"{name} by letter"] = (f"-{option.short}", *beside)
    if option.negatable:
        forms[f"no-{name}"] = (f"no-{name}", *beside)
        forms[f"{name}, no-{name}"] = (name, f"no-{name}", *beside)
        forms[f"no-{name}, {name}"] = (f"no-{name}", name, *beside)
    return forms


def every_form(*, newer: bool) -> dict[str, tuple[str, ...]]:
    """The forms of all options that this machine's curl knows; with `newer`, of those that 7.88 lacks."""
    options = [option for option in usable() if (option.name in NEWER) == newer]
    table: dict[str, tuple[str, ...]] = {}
    for option in options:
        for name, lines in forms_of(option).items():
            has_url = any(line.startswith("url = ") for line in lines)
            table[name] = lines if has_url else (*lines, 'url = "SERVER/TASK"')
    return table


# What curl 7.88 lacks, or was built without in Debian: compared with what a newer curl sent.
NEWER = frozenset(
    [
        "ca-native",
        "crlf",
        "follow",
        "haproxy-clientip",
        "http2",
        "http3",
        "http3-only",
        "ip-tos",
        "ipv6",
        "keepalive-cnt",
        "mptcp",
        "parallel-max-host",
        "proxy-ca-native",
        "proxy-http2",
        "show-headers",
        "sigalgs",
        "skip-existing",
        "tls-earlydata",
        "tr-encoding",
        "trace-config",
        "trace-ids",
        "upload-file",
        "variable",
        "vlan-priority",
    ]
)
FAILING = frozenset(
    {"no-location", "location, no-location", "no-location-trusted", "location-trusted, no-location-trusted"}
)
