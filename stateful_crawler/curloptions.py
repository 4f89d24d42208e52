"""What curl's options are, and what each of them means to us; a pure table.

Two things are kept apart. The shapes are curl's (8.21, with the names that 8.22 adds): which kind of value an option
takes, its letter, whether every occurrence counts. The verdicts are ours: what is in none of their rows is refused by
name as not supported yet, so an option is never silently ignored. To support one, add its name to a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

Kind = Literal["flag", "text", "word", "body", "file", "number", "seconds"]
"""flag: no value. text: one line, may be empty. word: the same, never empty. body: any characters, line ends too.
file: a path. number: a whole one. seconds: decimals allowed."""

Verdict = Literal["transfer", "ours", "no-effect", "later", "refused"]
"""transfer: libcurl does it. ours: we do what the curl tool does. no-effect: accepted, it only tells curl what to
print. later: known, not supported yet. refused: never, `note` says why."""


class CurlOption(NamedTuple):
    """One long option. `negatable` has a `no-` form, `repeats` counts at every occurrence (others: the last wins).

    A named tuple, because a frozen dataclass doubles the time that the import of this module takes.
    """

    name: str
    kind: Kind
    short: str
    negatable: bool
    repeats: bool
    verdict: Verdict
    note: str

    @property
    def usable(self) -> bool:
        """True if a task may hold it."""
        return self.verdict in ("transfer", "ours", "no-effect")


# curl's shapes: kind; "!" where there is no "no-" form, "+" where every occurrence counts; the names, as `name/letter`.
_SHAPES: dict[tuple[Kind, str], str] = {
    ("flag", ""): """
        alpn append/a basic buffer/N ca-native cert-status clobber compressed compressed-ssh create-dirs crlf digest
        disable/q disable-eprt disable-epsv disallow-username-in-url doh-cert-status doh-insecure eprt epsv fail/f
        fail-early fail-with-body false-start follow form-escape ftp-create-dirs ftp-pret ftp-skip-pasv-ip ftp-ssl
        ftp-ssl-ccc ftp-ssl-control ftp-ssl-reqd get/G globoff/g haproxy-protocol head/I http0.9 ignore-content-length
        include insecure/k junk-session-cookies/j keepalive list-only/l location/L location-trusted
        mail-rcpt-allowfails manual/M metalink mptcp negotiate netrc/n netrc-optional npn ntlm ntlm-wb parallel/Z
        parallel-immediate path-as-is post301 post302 post303 progress-bar/# progress-meter proxy-anyauth proxy-basic
        proxy-ca-native proxy-digest proxy-http2 proxy-http3 proxy-insecure proxy-negotiate proxy-ntlm
        proxy-ssl-allow-beast proxy-ssl-auto-client-cert proxytunnel/p raw remote-header-name/J remote-name-all
        remote-time/R remove-on-error retry-all-errors retry-connrefused sasl-ir sessionid show-error/S show-headers/i
        silent/s skip-existing socks5-basic socks5-gssapi socks5-gssapi-nec ssl ssl-allow-beast ssl-auto-client-cert
        ssl-no-revoke ssl-reqd ssl-revoke-best-effort styled-output suppress-connect-headers tcp-fastopen tcp-nodelay
        test-duphandle test-event tftp-no-options tls-earlydata tr-encoding trace-ids trace-time use-ascii/B verbose/v
        version/V wdebug xattr""",
    ("flag", "+"): "out-null remote-name/O",
    ("flag", "!"): """
        anyauth dump-ca-embed ftp-pasv http1.0/0 http1.1 http2 http2-prior-knowledge http3 http3-only ipv4/4 ipv6/6
        proxy-tlsv1 sslv2/2 sslv3/3 tlsv1/1 tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3""",
    ("flag", "!+"): "next/:",
    ("text", ""): """
        aws-sigv4 cert-type ciphers continue-at/C cookie-jar/c create-file-mode curves delegation dns-interface
        dns-ipv4-addr dns-ipv6-addr dns-servers doh-url ech egd-file engine ftp-account ftp-alternative-to-user
        ftp-method ftp-port/P ftp-ssl-ccc-mode haproxy-clientip help/h hostpubmd5 hostpubsha256 httpsig-algo
        httpsig-headers httpsig-keyid interface ip-tos ipfs-gateway key-type krb krb4 libcurl limit-rate local-port
        login-options mail-auth mail-from max-filesize noproxy oauth2-bearer output-dir pass pinnedpubkey preproxy
        proto-default proxy/x proxy-cert-type proxy-ciphers proxy-key-type proxy-pass proxy-pinnedpubkey
        proxy-service-name proxy-tls13-ciphers proxy-tlsauthtype proxy-tlspassword proxy-tlsuser proxy-user/U proxy1.0
        pubkey rate referer/e request-target sasl-authzid service-name sigalgs socks4 socks4a socks5
        socks5-gssapi-service socks5-hostname time-cond/z tls-max tls13-ciphers tlsauthtype tlspassword tlsuser
        upload-flags user/u user-agent/A write-out/w""",
    ("text", "+"): """
        alt-svc connect-to cookie/b hsts mail-rcpt proxy-header quote/Q resolve telnet-option/t trace-config url-query
        variable""",
    ("word", ""): "proto proto-redir range/r request/X",
    ("word", "+"): "header/H url",
    ("body", "+"): "data/d data-ascii data-binary data-raw data-urlencode form/F form-string json",
    ("file", ""): """
        abstract-unix-socket cacert capath cert/E crlfile dump-header/D etag-compare etag-save httpsig-key key
        knownhosts netrc-file proxy-cacert proxy-capath proxy-cert proxy-crlfile proxy-key random-file ssl-sessions
        stderr trace trace-ascii unix-socket""",
    ("file", "+"): "config/K output/o upload-file/T",
    ("number", ""): """
        happy-eyeballs-timeout-ms keepalive-cnt keepalive-time max-redirs parallel-max parallel-max-host retry
        speed-limit/Y speed-time/y tftp-blksize vlan-priority""",
    ("seconds", ""): "connect-timeout expect100-timeout max-time/m retry-delay retry-max-time",
}

# Our verdicts; whatever stands in none of these rows is "later".
_VERDICTS: dict[Verdict, str] = {
    "transfer": """
        cacert compressed connect-timeout cookie head header http1.1 http2 insecure location location-trusted max-redirs
        max-time path-as-is proto proto-redir proxy range referer request url user user-agent""",
    "ours": "data data-ascii data-binary data-raw data-urlencode fail get globoff json output",
    "no-effect": "silent show-error",
    "refused": "config next",
}

_NOTES = {
    "buffer": "its letter -N means no-buffer",
    "config": "nothing is included: a task file holds all that its transfer needs",
    "data-ascii": "the same as data",
    "globoff": "we never glob; curl does without it",
    "next": "one task is one transfer",
    "show-headers": "the newer name of include",
}


def _rows() -> Iterator[CurlOption]:
    verdicts = {name: verdict for verdict, names in _VERDICTS.items() for name in names.split()}
    for (kind, marks), words in _SHAPES.items():
        for word in words.split():
            name, _, short = word.partition("/")
            yield CurlOption(
                name=name,
                kind=kind,
                short=short,
                negatable=kind == "flag" and "!" not in marks,
                repeats="+" in marks,
                verdict=verdicts.get(name, "later"),
                note=_NOTES.get(name, ""),
            )


OPTIONS: Mapping[str, CurlOption] = {option.name: option for option in _rows()}
"""Every long option by its name, without dashes and without `no-`."""

SHORT: Mapping[str, CurlOption] = {option.short: option for option in OPTIONS.values() if option.short}
"""The options that have a letter, by the letter."""


def nearest(name: str) -> str | None:
    """The option that someone who wrote `name` most likely meant, or None where nothing is near."""
    import difflib  # on use: it costs more to import than this whole module, and only an error needs it

    wanted = name.lower().strip("-").replace("_", "-").removeprefix("no-")
    wanted = _OTHER_WORDS.get(wanted, wanted)
    if wanted in OPTIONS:
        return wanted
    starting = [option for option in OPTIONS if wanted and option.startswith(wanted)]
    near = difflib.get_close_matches(wanted, starting or OPTIONS, n=3, cutoff=0.0 if starting else 0.6)
    near.sort(key=lambda option: not OPTIONS[option].usable)  # what a task may hold comes first; the sort is stable
    return near[0] if near else None


_OTHER_WORDS = {"agent": "user-agent", "body": "data", "method": "request", "timeout": "max-time"}
"""What other tools call it, where no spelling leads to curl's name."""
