"""Options that lead elsewhere before a request is made: HSTS and names looked up over HTTPS; by `sc` as by curl."""

from __future__ import annotations

import ssl
import struct
import subprocess
from datetime import datetime
from pathlib import Path

import pytest
import trustme
from conftest import Serve
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from helpers import Project
from network_servers import Papers, needed
from servers import Answer, FaultServer, Request, ok
from wire_helpers import NEEDS_CURL, Ran, Table, assert_same, put_table, run_sc_on, run_table

pytestmark = NEEDS_CURL

RESOLVE = 'resolve = "safe.test:PORT:127.0.0.1"'


def _answer(request: Request) -> Answer:
    if request.target.startswith("/dns-query"):
        return ok(_address(request.body), content_type="application/dns-message")
    return ok("<p>page</p>", "Strict-Transport-Security: max-age=9000; includeSubDomains")


def _address(question: bytes) -> bytes:
    """The DNS answer (RFC 1035) that says 127.0.0.1 for any name, and nothing to all but a question for an A record."""
    kind = struct.unpack("!H", question[-4:-2])[0]
    answers = [b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 60, 4) + b"\x7f\0\0\x01"] if kind == 1 else []
    return question[:2] + b"\x81\x80" + struct.pack("!HHHH", 1, len(answers), 0, 0) + question[12:] + b"".join(answers)


@pytest.fixture
def server(project: Project, serve: Serve) -> FaultServer:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(project.workdir / "authority.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("safe.test", "sub.safe.test", "127.0.0.1").configure_cert(context)
    return serve({"*": _answer}, tls=context)


HSTS: Table = {
    "known": ('hsts = "var/known.txt"', RESOLVE, 'cacert = "authority.pem"', 'url = "http://safe.test:PORT/TASK"'),
    "known-below": (
        'hsts = "var/known.txt"',
        'resolve = "sub.safe.test:PORT:127.0.0.1"',
        'cacert = "authority.pem"',
        'url = "http://sub.safe.test:PORT/TASK"',
    ),
    "learned": ('hsts = "var/TASK.txt"', RESOLVE, 'cacert = "authority.pem"', 'url = "https://safe.test:PORT/TASK"'),
}
DOH: Table = {
    "doh": (
        'doh-url = "SERVER/dns-query?TASK"',
        'cacert = "authority.pem"',
        'url = "https://safe.test:PORT/TASK"',
    ),
    "doh-insecure": (
        'doh-url = "https://127.0.0.1:PORT/dns-query?TASK"',
        "doh-insecure",
        "insecure",
        'url = "https://any.test:PORT/TASK"',
    ),
    "doh-not-insecure": (
        'doh-url = "https://127.0.0.1:PORT/dns-query?TASK"',
        "insecure",
        'url = "https://any.test:PORT/TASK"',
    ),
}


def test_hosts_that_are_known_to_be_safe(project: Project, server: FaultServer) -> None:
    (project.workdir / "var").mkdir()
    (project.workdir / "var/known.txt").write_text('.safe.test "20990101 00:00:00"\n')
    assert_same(run_table(project, server, HSTS))
    assert _hosts(project.workdir / "var/t2.txt") == {".safe.test"}


def _hosts(path: Path) -> set[str]:
    return {line.split()[0] for line in path.read_text().splitlines() if not line.startswith("#")}


def test_names_are_looked_up_over_https(project: Project, server: FaultServer) -> None:
    """One by one: libcurl may let one look-up wait for another's connection to the same server, and forget it."""
    ran = run_table(project, server, DOH, "-c", "1")
    assert_same(
        {name: (in_order(ours), in_order(theirs)) for name, (ours, theirs) in ran.items()}, {"doh-not-insecure"}
    )


def in_order(ran: Ran) -> Ran:
    """The two questions for a name, for its IPv4 and its IPv6 address, come in any order."""
    return ran._replace(requests=sorted(ran.requests))


# ── TLS to servers and to proxies ────────────────────────────────────────────────────────────────────────────────────

CA, PROXY_CA = 'cacert = "ca.pem"', 'proxy-cacert = "ca.pem"'
SITE, VIA = 'url = "https://localhost:PORT/TASK"', 'proxy = "https://localhost:PORT"'
OTHER_KEY = f"sha256//{'A' * 43}="

TLS: Table = {
    "plain": (SITE, CA),
    "crlfile": (SITE, CA, 'crlfile = "crl.pem"'),
    "crlfile-not-one": (SITE, CA, 'crlfile = "ca.pem"'),
    "curves": (SITE, CA, 'curves = "X25519"'),
    "curves-none": (SITE, CA, 'curves = "none"'),
    "tlsv1.0": (SITE, CA, "tlsv1.0"),
    "tlsv1.1": (SITE, CA, "tlsv1.1", 'tls-max = "1.2"'),
    "alpn": (SITE, CA, "no-alpn"),
    "sessionid": (SITE, CA, "no-sessionid"),
    "cert-status": (SITE, CA, "cert-status"),
    "ciphers-none": (SITE, CA, 'ciphers = "none"'),
    "proxy": (VIA, PROXY_CA, 'url = "http://TASK.test/"'),
    "proxy-unknown": (VIA, 'url = "http://TASK.test/"'),
    "proxy-insecure": (VIA, "proxy-insecure", 'url = "http://TASK.test/"'),
    "proxy-capath": (VIA, 'proxy-capath = "."', 'url = "http://TASK.test/"'),
    "proxy-of-server-ca": (VIA, CA, 'url = "http://TASK.test/"'),
    "proxy-insecure-server": (VIA, "insecure", 'url = "http://TASK.test/"'),
    "proxy-cert": (VIA, PROXY_CA, 'proxy-cert = "both.pem"', 'url = "http://TASK.test/"'),
    "proxy-key": (
        VIA,
        PROXY_CA,
        'proxy-cert = "client.pem"',
        'proxy-key = "client.key"',
        'proxy-cert-type = "PEM"',
        'proxy-key-type = "PEM"',
        'url = "http://TASK.test/"',
    ),
    "proxy-pass": (
        VIA,
        PROXY_CA,
        'proxy-cert = "client.pem"',
        'proxy-key = "locked.key"',
        'proxy-pass = "sesame"',
        'url = "http://TASK.test/"',
    ),
    "proxy-pass-in-cert": (VIA, PROXY_CA, 'proxy-cert = "locked.pem:sesame"', 'url = "http://TASK.test/"'),
    "proxy-pass-wrong": (VIA, PROXY_CA, 'proxy-cert = "locked.pem:no"', 'url = "http://TASK.test/"'),
    "proxy-crlfile": (VIA, PROXY_CA, 'proxy-crlfile = "crl.pem"', 'url = "http://TASK.test/"'),
    "proxy-ciphers": (VIA, PROXY_CA, 'proxy-ciphers = "ECDHE+AESGCM"', 'url = "http://TASK.test/"'),
    "proxy-ciphers-none": (VIA, PROXY_CA, 'proxy-ciphers = "none"', 'url = "http://TASK.test/"'),
    "proxy-tls13-ciphers": (
        VIA,
        PROXY_CA,
        'proxy-tls13-ciphers = "TLS_AES_128_GCM_SHA256"',
        'url = "http://TASK.test/"',
    ),
    "proxy-tls13-ciphers-none": (VIA, PROXY_CA, 'proxy-tls13-ciphers = "none"', 'url = "http://TASK.test/"'),
    "proxy-tlsv1": (VIA, PROXY_CA, "proxy-tlsv1", 'url = "http://TASK.test/"'),
    "proxy-allow-beast": (VIA, PROXY_CA, "proxy-ssl-allow-beast", 'url = "http://TASK.test/"'),
}
TLS_FAILING = frozenset(
    [
        "crlfile-not-one",
        "curves-none",
        "cert-status",
        "ciphers-none",
        "proxy-unknown",
        "proxy-of-server-ca",
        "proxy-insecure-server",
        "proxy-pass-wrong",
        "proxy-ciphers-none",
        "proxy-tls13-ciphers-none",
    ]
)
# What curl 7.88 lacks, or takes and forgets.
NEWER_TLS: Table = {
    "sigalgs": (SITE, CA, 'sigalgs = "ECDSA+SHA256:RSA+SHA256"'),
    "sigalgs-none": (SITE, CA, 'sigalgs = "none"'),
    "proxy-pinnedpubkey-other": (VIA, PROXY_CA, f'proxy-pinnedpubkey = "{OTHER_KEY}"', 'url = "http://TASK.test/"'),
    "ca-native": (SITE, CA, "ca-native"),
    "proxy-ca-native": (VIA, PROXY_CA, "proxy-ca-native", 'url = "http://TASK.test/"'),
    "proxy-http2": (VIA, PROXY_CA, "proxy-http2", 'url = "http://TASK.test/"'),
    "tls-earlydata": (SITE, CA, "tls-earlydata"),
}


@pytest.fixture
def tls_server(project: Project, serve: Serve) -> FaultServer:
    """It asks for a client's certificate, and does without."""
    papers = Papers(project.workdir)
    papers.write_client()
    (project.workdir / "crl.pem").write_bytes(_no_revocations(papers.authority))
    subprocess.run([needed("openssl"), "rehash", str(project.workdir)], check=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    papers.authority.issue_cert("localhost").configure_cert(context)
    context.load_verify_locations(str(project.workdir / "ca.pem"))
    context.verify_mode = ssl.CERT_OPTIONAL
    return serve({"*": _answer}, tls=context)


def test_certificates_and_versions(project: Project, tls_server: FaultServer) -> None:
    assert_same(run_table(project, tls_server, TLS), TLS_FAILING)


def test_certificates_and_versions_that_only_newer_curls_know(project: Project, tls_server: FaultServer) -> None:
    ours = run_sc_on(project, tls_server, put_table(project, tls_server, NEWER_TLS))
    assert {name for name, ran in ours.items() if not ran.went_well} == {"sigalgs-none", "proxy-pinnedpubkey-other"}


def _no_revocations(authority: trustme.CA) -> bytes:
    """A list of revoked certificates, in which none stands, as PEM."""
    issuer = x509.load_pem_x509_certificate(authority.cert_pem.bytes()).subject
    key = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    made = x509.CertificateRevocationListBuilder(issuer, datetime(2020, 1, 1), datetime(2090, 1, 1))
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
