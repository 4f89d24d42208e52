"""What curl's options are, and what each of them means to us; a pure table.

Two things are kept apart. The shapes are curl's (8.21, with the names that 8.22 adds): which kind of value an option
takes, its letter, whether every occurrence counts. The verdicts are ours, and every option has one: none is ever
silently ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

Kind = Literal["flag", "text", "word", "body", "file", "number", "seconds"]
"""flag: no value. text: one line, may be empty. word: the same, never empty. body: any characters, line ends too.
file: a path. number: a whole one. seconds: decimals allowed."""

Verdict = Literal["transfer", "ours", "no-effect", "refused"]
"""transfer: libcurl does it. ours: we do what the curl tool does. no-effect: accepted, but it means nothing in a crawl,
`note` says why. refused: `note` says why."""


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
        return self.verdict != "refused"


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
        continue-at/C create-file-mode delegation dns-interface dns-ipv4-addr dns-ipv6-addr dns-servers doh-url ech
        egd-file engine ftp-account ftp-alternative-to-user ftp-method ftp-port/P ftp-ssl-ccc-mode help/h hostpubmd5
        hostpubsha256 httpsig-algo httpsig-headers httpsig-keyid ip-tos ipfs-gateway krb krb4 libcurl limit-rate
        local-port login-options mail-auth mail-from max-filesize noproxy proxy/x proxy-pass proxy-tlsauthtype
        proxy-tlspassword proxy-tlsuser proxy-user/U pubkey rate referer/e sasl-authzid time-cond/z tls-max
        tlsauthtype tlspassword tlsuser upload-flags user/u user-agent/A write-out/w""",
    ("text", "+"): """
        alt-svc connect-to cookie/b hsts mail-rcpt proxy-header quote/Q resolve telnet-option/t trace-config url-query
        variable""",
    ("word", ""): """
        aws-sigv4 cert-type ciphers cookie-jar/c curves haproxy-clientip interface key-type oauth2-bearer output-dir
        pass pinnedpubkey preproxy proto proto-default proto-redir proxy-cert-type proxy-ciphers proxy-key-type
        proxy-pinnedpubkey proxy-service-name proxy-tls13-ciphers proxy1.0 range/r request-target request/X
        service-name sigalgs socks4 socks4a socks5 socks5-gssapi-service socks5-hostname tls13-ciphers""",
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

# Our verdicts. Every option stands in one row, or under the reason why it has no effect or is refused.
_DONE: dict[Verdict, str] = {
    "transfer": """
        alpn anyauth aws-sigv4 basic ca-native cacert capath cert cert-status cert-type ciphers compressed
        connect-timeout connect-to cookie crlf crlfile curves delegation digest disallow-username-in-url
        doh-cert-status doh-insecure doh-url expect100-timeout follow form-escape
        happy-eyeballs-timeout-ms haproxy-clientip haproxy-protocol head header hsts http0.9 http1.0 http1.1 http2
        http2-prior-knowledge http3 http3-only ignore-content-length insecure interface ipv4 ipv6
        junk-session-cookies keepalive keepalive-cnt keepalive-time key key-type limit-rate local-port location
        location-trusted login-options max-filesize max-redirs max-time negotiate netrc netrc-file netrc-optional
        noproxy oauth2-bearer pass path-as-is pinnedpubkey post301 post302 post303 preproxy proto proto-default
        proto-redir proxy proxy-anyauth proxy-basic proxy-ca-native proxy-cacert proxy-capath proxy-cert
        proxy-cert-type proxy-ciphers proxy-crlfile proxy-digest proxy-header proxy-http2 proxy-insecure proxy-key
        proxy-key-type proxy-negotiate proxy-pass proxy-pinnedpubkey proxy-service-name proxy-ssl-allow-beast
        proxy-ssl-auto-client-cert proxy-tls13-ciphers proxy-tlsv1 proxy-user proxy1.0 proxytunnel range raw referer
        request request-target resolve service-name sessionid sigalgs socks4 socks4a socks5 socks5-basic
        socks5-gssapi socks5-gssapi-nec socks5-gssapi-service socks5-hostname speed-limit speed-time
        ssl-allow-beast ssl-auto-client-cert ssl-no-revoke ssl-revoke-best-effort suppress-connect-headers
        tcp-fastopen tcp-nodelay time-cond tls-earlydata tls-max tls13-ciphers tlsv1 tlsv1.0 tlsv1.1 tlsv1.2
        tlsv1.3 tr-encoding unix-socket url user user-agent""",
    "ours": """
        continue-at cookie-jar create-dirs data data-ascii data-binary data-raw data-urlencode dump-header
        etag-compare etag-save fail fail-with-body form form-string get globoff include ip-tos json mptcp output
        output-dir remote-header-name remote-name remote-name-all remote-time remove-on-error retry
        retry-all-errors retry-connrefused retry-delay retry-max-time show-headers upload-file url-query variable
        vlan-priority write-out""",
}

_WITHOUT_EFFECT = {
    "tells curl what to print": """progress-bar progress-meter show-error silent stderr styled-output trace-config
        trace-ids trace-time verbose""",
    "means something to a run of several transfers; a crawl has `--connections`": """fail-early parallel
        parallel-immediate parallel-max parallel-max-host rate""",
    "a task is one file that curl reads with -q": "disable",
    "pages are written whole, and only ever replaced by their own task": "buffer clobber skip-existing",
    "what it would note is in the task's record": "xattr",
    "OpenSSL can't do it, and curl goes on without": "false-start",
    "curl itself ignores it": "egd-file metalink npn random-file sslv2 sslv3 test-duphandle test-event wdebug",
}

_REFUSED = {
    "nothing is included: a task file holds all that its transfer needs": "config",
    "one task is one transfer": "next",
    "it makes curl print something, and transfer nothing": "dump-ca-embed help libcurl manual version",
    "it would write secrets to a file; run the task by curl to see them": "ssl-sessions trace trace-ascii",
    "it would throw the page away; `head` asks for the headers alone": "out-null",
    "pages get the mode that your umask gives": "create-file-mode",
    "it is for another protocol; tasks speak http and https": """append compressed-ssh disable-eprt disable-epsv eprt
        epsv ftp-account ftp-alternative-to-user ftp-create-dirs ftp-method ftp-pasv ftp-port ftp-pret
        ftp-skip-pasv-ip ftp-ssl ftp-ssl-ccc ftp-ssl-ccc-mode ftp-ssl-control ftp-ssl-reqd hostpubmd5
        hostpubsha256 ipfs-gateway knownhosts krb krb4 list-only mail-auth mail-from mail-rcpt
        mail-rcpt-allowfails pubkey quote sasl-authzid sasl-ir ssl ssl-reqd telnet-option tftp-blksize
        tftp-no-options upload-flags use-ascii""",
    "pycurl can't set it": """abstract-unix-socket alt-svc dns-interface dns-ipv4-addr dns-ipv6-addr dns-servers
        httpsig-algo httpsig-headers httpsig-key httpsig-keyid proxy-http3""",
    "the libcurl that comes with pycurl was built without it": """ech engine ntlm ntlm-wb proxy-ntlm
        proxy-tlsauthtype proxy-tlspassword proxy-tlsuser tlsauthtype tlspassword tlsuser""",
}

_NOTES = {
    "buffer": "its letter -N means no-buffer",
    "data-ascii": "the same as data",
    "globoff": "we never glob; curl does without it",
    "hsts": "its file lies under var/",
    "cookie-jar": "under var/; many tasks may share one",
    "create-dirs": "folders below html/ are always made",
    "dump-header": "under html/",
    "etag-compare": "under var/; 304 keeps the page",
    "etag-save": "under var/",
    "fail-with-body": "the body of a failed answer is kept beside the pages, with and without it",
    "form": "a file that is sent lies in the workdir",
    "output": "under html/",
    "output-dir": "under html/",
    "remote-name": "under html/",
    "remove-on-error": "html/ never holds the body of a failed transfer",
    "retry": "in place of the run's own --retries",
    "show-headers": "the newer name of include",
    "upload-file": "the file lies in the workdir",
    "variable": "worked out when the task is read, with its expand- options",
    "write-out": "into the record of the fetch",
}


def _verdicts() -> Iterator[tuple[str, Verdict, str]]:
    for verdict, names in _DONE.items():
        yield from ((name, verdict, _NOTES.get(name, "")) for name in names.split())
    for note, names in _WITHOUT_EFFECT.items():
        yield from ((name, "no-effect", _NOTES.get(name, note)) for name in names.split())
    for note, names in _REFUSED.items():
        yield from ((name, "refused", note) for name in names.split())


def _rows() -> Iterator[CurlOption]:
    verdicts = {name: (verdict, note) for name, verdict, note in _verdicts()}
    for (kind, marks), words in _SHAPES.items():
        for word in words.split():
            name, _, short = word.partition("/")
            yield CurlOption(
                name=name,
                kind=kind,
                short=short,
                negatable=kind == "flag" and "!" not in marks,
                repeats="+" in marks,
                verdict=verdicts[name][0],
                note=verdicts[name][1],
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
