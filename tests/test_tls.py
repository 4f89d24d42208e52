"""TLS as curl's options say it, by a real nginx with certificates of an authority that only these tests know."""

from __future__ import annotations

import base64
import hashlib
import os
import pty
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import certifi
import pytest
import trustme
from conftest import Serve
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from helpers import TIMEOUT_S, Project, clean_env, crawl, run_sc, sc_command
from network_helpers import NEEDS_CURL, Case, run_both
from network_servers import Nginx, Papers, facts, needed, nginx
from servers import ok, redirect

from stateful_crawler.fetch import setup

pytestmark = NEEDS_CURL
CA = 'cacert = "ca.pem"'
# Makes the terminal on its stdin its own, as a login does, and becomes the command.
ON_TERMINAL = """\
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def tls_context(path: Path) -> ssl.SSLContext:
    """A server's context with the certificate and key of a PEM file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


@pytest.fixture
def papers(project: Project) -> Papers:
    return Papers(project.workdir)


@pytest.fixture
def server(papers: Papers, tmp_path: Path) -> Iterator[Nginx]:
    """One server for each way in which a certificate or a version of TLS can be wrong or right."""
    good, stranger = papers.server("good", "localhost"), trustme.CA()
    clients = f"{good} ssl_client_certificate {papers.folder}/ca.pem; ssl_verify_client"
    with nginx(
        tmp_path / "nginx",
        good=("ssl", good),
        other=("ssl", papers.server("other", "other.test")),
        expired=("ssl", papers.server("expired", "localhost", expired=True)),
        unknown=("ssl", papers.server("unknown", "localhost", by=stranger)),
        self_signed=("ssl", papers.self_signed("localhost")),
        old=("ssl", f"{good} ssl_protocols TLSv1.2;"),
        new=("ssl", f"{good} ssl_protocols TLSv1.3;"),
        clients=("ssl", f"{clients} on;"),
        either=("ssl http2", f"{clients} optional;"),
        plain=("", ""),
    ) as started:
        yield started


# ── who the server is ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_certificate_that_does_not_hold_is_refused(project: Project, server: Nginx) -> None:
    run_both(
        project,
        {
            "good": Case(server.url("good"), (CA,)),
            "wrong-host": Case(server.url("other"), (CA,), 60, "tls", "localhost"),
            "expired": Case(server.url("expired"), (CA,), 60, "tls", "expired"),
            "unknown": Case(server.url("unknown"), (CA,), 60, "tls", "issuer"),
            "self-signed": Case(server.url("self_signed"), (CA,), 60, "tls", "self-signed"),
            "without-cacert": Case(server.url("good"), (), 60, "tls", "cacert"),
            "no-tls": Case(server.url("plain"), (CA,), 35, "tls"),
            "empty-capath": Case(server.url("good"), ('capath = "html"',), 60, "tls"),
        },
    )
    # By curl and by us. Nothing was asked for after a refusal.
    assert [entry.status for entry in server.stopped_log() if entry.status != 400] == [200, 200]


def warnings_of(project: Project, *words: str) -> list[str]:
    """What a crawl says about certificates that are not checked."""
    said = run_sc(project, *words, "crawl", "--no-parse", check=0).stderr.splitlines()
    return [line for line in said if "insecure" in line and "certificates" in line]


def test_insecure_takes_them_all_and_is_said_once(project: Project, server: Nginx) -> None:
    for name in ("good", "other", "expired", "unknown", "self_signed"):
        project.put_url(name, server.url(name), "insecure")
    assert len(warnings_of(project)) == 1
    project.put_url("again", server.url("unknown"), "insecure")
    assert len(warnings_of(project, "-q")) == 1


def test_insecure_is_not_said_where_no_task_has_it(project: Project, server: Nginx) -> None:
    project.put_url("a", server.url("good"), CA)
    project.put_url("b", server.url("good"), CA, "insecure", "no-insecure")
    assert not warnings_of(project)


def test_insecure_may_be_for_the_proxy(project: Project, serve: Serve, papers: Papers) -> None:
    """Such a proxy can put its own word in, so that is said too."""
    papers.server("proxy", "localhost")
    proxy = serve({"*": ok("x")}, tls=tls_context(papers.folder / "proxy.pem"))
    via = f'proxy = "https://localhost:{proxy.port}"'
    cases = {
        "checked": Case("http://a.test/", (via, 'proxy-cacert = "ca.pem"')),
        "unknown": Case("http://a.test/", (via,), 60, "tls"),
        "only-the-sites": Case("http://a.test/", (via, CA), 60, "tls"),
        "insecure-is-not-for-it": Case("http://a.test/", (via, "insecure"), 60, "tls"),
        "unchecked": Case("http://a.test/", (via, "proxy-insecure")),
    }
    run_both(project, cases, "-c", "1")
    project.put_url("again", "http://a.test/", via, "proxy-insecure")
    assert len(warnings_of(project)) == 1


@pytest.mark.case("C023")
def test_insecure_counts_for_its_own_task_only(project: Project, server: Nginx) -> None:
    """HTTP/2 would let them share one connection."""
    for number in range(6):
        project.put_url(str(number), server.url("either"), *(["insecure"] if number % 2 else []))
    crawl(project, "-c", "6", "--retries", "0")
    assert project.in_state("success") == {"1", "3", "5"}


def test_a_folder_of_authorities(project: Project, server: Nginx, papers: Papers) -> None:
    folder = project.workdir / "authorities"
    folder.mkdir()
    (folder / "ca.pem").write_bytes((papers.folder / "ca.pem").read_bytes())
    subprocess.run([needed("openssl"), "rehash", str(folder)], check=True)
    run_both(
        project,
        {
            "capath": Case(server.url("good"), ('capath = "authorities"',)),
            "capath-unknown": Case(server.url("unknown"), ('capath = "authorities"',), 60, "tls"),
            "both": Case(server.url("good"), (CA, 'capath = "html"')),
        },
    )


@pytest.mark.parametrize("variable", ["CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_the_environment_names_authorities(project: Project, server: Nginx, papers: Papers, variable: str) -> None:
    path = papers.folder / "ca.pem"
    if variable.endswith("DIR"):
        path = project.folder / "authorities"
        path.mkdir()
        (path / "ca.pem").write_bytes((papers.folder / "ca.pem").read_bytes())
        subprocess.run([needed("openssl"), "rehash", str(path)], check=True)
    stranger = project.workdir / "stranger.pem"
    trustme.CA().cert_pem.write_to_path(str(stranger))
    run_both(
        project,
        {
            "environment": Case(server.url("good")),
            "unknown": Case(server.url("unknown"), (), 60, "tls"),
            # The task's own word counts, and the environment's is not asked beside it.
            "own": Case(server.url("good"), ('cacert = "stranger.pem"',), 60, "tls"),
            "own-folder": Case(server.url("good"), ('capath = "html"',), 60, "tls"),
        },
        env={variable: str(path)},
    )


def test_a_pinned_key(project: Project, server: Nginx, papers: Papers) -> None:
    certificate = x509.load_pem_x509_certificates((papers.folder / "good.pem").read_bytes())[0]
    der = certificate.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    digest = base64.b64encode(hashlib.sha256(der).digest()).decode()
    other = base64.b64encode(bytes(32)).decode()
    (project.workdir / "good.der").write_bytes(der)
    url = server.url("good")
    run_both(
        project,
        {
            "digest": Case(url, (CA, f'pinnedpubkey = "sha256//{digest}"')),
            "one-of-two": Case(url, (CA, f'pinnedpubkey = "sha256//{other};sha256//{digest}"')),
            "file": Case(url, (CA, 'pinnedpubkey = "good.der"')),
            "wrong": Case(url, (CA, f'pinnedpubkey = "sha256//{other}"'), 90, "tls"),
            "wrong-and-insecure": Case(url, ("insecure", f'pinnedpubkey = "sha256//{other}"'), 90, "tls"),
        },
    )


@pytest.mark.case("C023")
def test_certifi_where_the_system_has_no_authorities(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(setup, "_CA_FILES", ())
    setup._certificates.cache_clear()
    try:
        assert setup._certificates() == (certifi.where(), "")
    finally:
        setup._certificates.cache_clear()


def test_ci_must_have_the_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no-such-program"):
        needed("no-such-program")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no-such-program"):
        needed("no-such-program")


# ── how it is spoken ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_versions_and_ciphers(project: Project, server: Nginx) -> None:
    old, new, good = server.url("old"), server.url("new"), server.url("good")
    cipher, other = "ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"
    pages = run_both(
        project,
        {
            "max-1.2": Case(good, (CA, 'tls-max = "1.2"')),
            "max-default": Case(good, (CA, 'tls-max = "default"')),
            "max-1.2-too-old": Case(new, (CA, 'tls-max = "1.2"'), 35, "tls"),
            "min-1.2": Case(old, (CA, "tlsv1.2")),
            "min-1.3": Case(good, (CA, "tlsv1.3")),
            "min-1.3-too-new": Case(old, (CA, "tlsv1.3"), 35, "tls"),
            "tlsv1": Case(old, (CA, "tlsv1")),
            "cipher": Case(old, (CA, f'ciphers = "{cipher}"')),
            "cipher-other": Case(old, (CA, f'ciphers = "{other}"')),
            "cipher-13": Case(new, (CA, 'tls13-ciphers = "TLS_CHACHA20_POLY1305_SHA256"')),
            "cipher-none": Case(old, (CA, 'ciphers = "NO-SUCH-CIPHER"'), 59, "tls"),
        },
    )
    for name, page in pages.items():
        if page.ours:
            ours, theirs = facts(page.ours), facts(page.theirs)
            assert (name, ours["tls"], ours["cipher"]) == (name, theirs["tls"], theirs["cipher"])
    assert facts(pages["max-1.2"].ours)["tls"] == "TLSv1.2"
    assert facts(pages["cipher"].ours)["cipher"] == cipher


# ── who the client is ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def client(papers: Papers) -> None:
    papers.write_client()


def test_client_certificates(project: Project, server: Nginx, client: None) -> None:
    url = server.url("clients")
    pages = run_both(
        project,
        {
            "cert-and-key": Case(url, (CA, 'cert = "client.pem"', 'key = "client.key"')),
            "bundle": Case(url, (CA, 'cert = "both.pem"')),
            "type": Case(url, (CA, 'cert = "both.pem"', 'cert-type = "PEM"', 'key-type = "PEM"')),
            "password-in-cert": Case(url, (CA, 'cert = "locked.pem:sesame"')),
            "password-of-key": Case(url, (CA, 'cert = "client.pem"', 'key = "locked.key"', 'pass = "sesame"')),
            "p12": Case(url, (CA, 'cert = "client.p12:sesame"', 'cert-type = "P12"')),
            "wrong-password": Case(url, (CA, 'cert = "locked.pem:wrong"'), 58, "config", "private key"),
            "no-such-cert": Case(url, (CA, 'cert = "none.pem"'), 58, "io", "none.pem"),
            "no-such-key": Case(url, (CA, 'cert = "client.pem"', 'key = "none.key"'), 58, "io", "none.key"),
            "none": Case(url, (CA, "fail"), 22, "http", "400"),
        },
    )
    assert {facts(page.ours)["client"] for page in pages.values() if page.ours} == {"SUCCESS"}


def test_a_password_is_not_asked_for(project: Project, server: Nginx, client: None) -> None:
    """OpenSSL would ask the terminal, and the crawl stand still."""
    project.put_url("a", server.url("clients"), CA, 'cert = "locked.pem"')
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", ON_TERMINAL, *sc_command("crawl", "--no-parse")]
    try:
        subprocess.run(
            command, cwd=project.folder, env=clean_env(), stdin=theirs, stdout=theirs, stderr=theirs, timeout=TIMEOUT_S
        )
        said = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert "pass phrase" not in said
    assert project.reason("a") == "config"


def test_a_client_certificate_is_for_its_own_task_only(project: Project, server: Nginx, client: None) -> None:
    for number in range(20):
        lines = ('cert = "both.pem"',) if number % 2 else ()
        project.put_url(str(number), server.url("either"), CA, *lines)
    crawl(project, "-c", "10")
    said = {name: facts(project.page(name))["client"] for name in project.states()}
    assert said == {str(number): "SUCCESS" if number % 2 else "NONE" for number in range(20)}


def test_a_redirect_from_plain_to_tls_is_checked_too(project: Project, server: Nginx, serve: Serve) -> None:
    plain = serve({"/good": redirect(server.url("good")), "/bad": redirect(server.url("expired")), "*": ok("x")})
    run_both(
        project,
        {
            "good": Case(f"{plain.url}/good", (CA, "location")),
            "bad": Case(f"{plain.url}/bad", (CA, "location"), 60, "tls", "expired"),
        },
    )
