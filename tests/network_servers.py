"""Real servers for the tests of the network: nginx, tinyproxy, a small SOCKS proxy, and certificates for them.

All listen on free ports of loopback and are started and stopped by the tests. A test that needs a program which is not
installed is skipped; with CI in the environment it fails instead, so that CI can't grow green by testing nothing.
"""

from __future__ import annotations

import http.client
import os
import selectors
import shutil
import signal
import socket
import socketserver
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from stateful_crawler.sites.server import Loopback

LONG_AGO = (datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 1, 2, tzinfo=UTC))
START_S = 30


def needed(program: str) -> str:
    """The path of a program; where it is not installed the test is skipped, or fails if CI is set."""
    if path := shutil.which(program):
        return path
    if os.environ.get("CI"):
        pytest.fail(f"{program} is not installed, and CI must not skip the tests that need it")
    pytest.skip(f"needs {program}, which is not installed")


# ── certificates ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Papers:
    """An authority that nobody knows, and certificates by it, as PEM files in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = trustme.CA()
        self.authority.cert_pem.write_to_path(str(folder / "ca.pem"))

    def server(self, name: str, *hosts: str, by: trustme.CA | None = None, expired: bool = False) -> str:
        """nginx's lines for a certificate for `hosts`, NAME.pem with its key; by another authority if one is given."""
        begin, end = LONG_AGO if expired else (None, None)
        made = (by or self.authority).issue_cert(*hosts, not_before=begin, not_after=end)
        path = self.folder / f"{name}.pem"
        made.private_key_and_cert_chain_pem.write_to_path(str(path))
        return f"ssl_certificate {path}; ssl_certificate_key {path};"

    def self_signed(self, host: str) -> str:
        """nginx's lines for a certificate that nobody but itself vouches for."""
        path = self.folder / "self.pem"
        names = ["-subj", f"/CN={host}", "-addext", f"subjectAltName=DNS:{host}"]
        command = [needed("openssl"), "req", "-x509", "-noenc", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        subprocess.run([*command, *names, "-keyout", str(path), "-out", f"{path}.crt"], check=True, capture_output=True)
        return f"ssl_certificate {path}.crt; ssl_certificate_key {path};"

    def write_client(self) -> None:
        """The files of a client: client.pem, client.key, both.pem; locked.key, locked.pem, client.p12 (`sesame`)."""
        made = self.authority.issue_cert("client@members.test", common_name="client")
        (certificate,) = made.cert_chain_pems
        plain, secret = made.private_key_pem.bytes(), serialization.BestAvailableEncryption(b"sesame")
        key = serialization.load_pem_private_key(plain, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        locked = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)
        files = {"client.pem": certificate.bytes(), "client.key": plain, "locked.key": locked}
        files |= {"both.pem": plain + certificate.bytes(), "locked.pem": locked + certificate.bytes()}
        parsed = x509.load_pem_x509_certificate(certificate.bytes())
        files["client.p12"] = pkcs12.serialize_key_and_certificates(b"client", key, parsed, None, secret)
        for name, content in files.items():
            (self.folder / name).write_bytes(content)


# ── nginx ────────────────────────────────────────────────────────────────────────────────────────────────────────────

# What a page of nginx says, so that tests can see how it was asked for.
FACTS = (
    "connection=$connection nth=$connection_requests protocol=$server_protocol tls=$ssl_protocol cipher=$ssl_cipher "
    "client=$ssl_client_verify host=$http_host proxy=$http_x_proxy peer=$remote_addr port=$remote_port "
    "by=$proxy_protocol_addr"
)
_CONFIG = """\
daemon off;
{user}
worker_processes 1;
pid nginx.pid;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path temp-body; proxy_temp_path temp-proxy; fastcgi_temp_path temp-fastcgi;
  uwsgi_temp_path temp-uwsgi; scgi_temp_path temp-scgi;
  ssl_protocols TLSv1.2 TLSv1.3;
  log_format facts '$connection $connection_requests $server_protocol $status $request_uri';
  {servers}
}}
"""
_SERVER = """\
  server {{
    listen 127.0.0.1:{port} {flags};
    access_log access.log facts;
    location / {{ return 200 "{facts}\\n"; }}
    {lines}
  }}
"""


class Logged(NamedTuple):
    """One request in nginx's access log; `connection` is nginx's number of the TCP connection, `nth` counts on it."""

    connection: int
    nth: int
    protocol: str
    status: int
    target: str


class Nginx:
    """A real nginx. `ports[name]` is where each of its servers listens."""

    def __init__(self, folder: Path, servers: Mapping[str, tuple[str, str]]) -> None:
        """`servers`: name -> flags of `listen` (`ssl http2`), and more lines of its block."""
        self.folder = folder
        folder.mkdir()
        # Bound here and handed over: no port can be taken in between, and clients may connect before nginx is up.
        with ExitStack() as stack:
            sockets = {name: stack.enter_context(socket.create_server(("127.0.0.1", 0))) for name in servers}
            self.ports = {name: int(listener.getsockname()[1]) for name, listener in sockets.items()}
            self._write_config(servers)
            numbers = [listener.fileno() for listener in sockets.values()]
            self._process = subprocess.Popen(
                [needed("nginx"), "-p", str(folder), "-c", "nginx.conf", "-e", "error.log"],
                env={**os.environ, "NGINX": "".join(f"{number};" for number in numbers)},
                pass_fds=numbers,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def _write_config(self, servers: Mapping[str, tuple[str, str]]) -> None:
        blocks = [
            _SERVER.format(port=self.ports[name], flags=flags, lines=lines, facts=FACTS)
            for name, (flags, lines) in servers.items()
        ]
        # Its worker must be able to read the test's own folder.
        user = "user root;" if os.geteuid() == 0 else ""
        (self.folder / "nginx.conf").write_text(_CONFIG.format(user=user, servers="".join(blocks)))

    def url(self, name: str, host: str = "localhost", scheme: str = "https") -> str:
        return f"{scheme}://{host}:{self.ports[name]}"

    def wait_until_up(self) -> None:
        """Until it answers: needed only where a test uses a socket that was not bound here."""
        with closing(http.client.HTTPConnection("127.0.0.1", next(iter(self.ports.values())), timeout=START_S)) as link:
            link.request("GET", "/")
            link.getresponse().read()

    def stop(self) -> None:
        """End it when it has answered what it was asked; harmless when called twice."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
        code = self._process.wait(START_S)
        assert code == 0, (self.folder / "error.log").read_text()

    def stopped_log(self) -> list[Logged]:
        """All requests that it had; it is stopped first, since it writes a line only after the answer is sent."""
        self.stop()
        lines = (line.split(" ", 4) for line in (self.folder / "access.log").read_text().splitlines())
        return [Logged(int(a), int(b), protocol, int(code), target) for a, b, protocol, code, target in lines]


@contextmanager
def nginx(folder: Path, **servers: tuple[str, str]) -> Iterator[Nginx]:
    server = Nginx(folder, servers)
    try:
        yield server
    finally:
        server.stop()


def facts(page: bytes) -> dict[str, str]:
    """What a page of nginx says, by name."""
    return dict(word.split("=", 1) for word in page.decode().split())


# ── tinyproxy ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Tinyproxy:
    """A real tinyproxy, with basic auth if `user` is given; adds `X-Proxy: seen` to plain requests."""

    def __init__(self, folder: Path, user: str = "", password: str = "") -> None:
        self.folder = folder
        folder.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])
        auth = [f"BasicAuth {user} {password}"] if user else []
        lines = [
            f"Port {self.port}",
            "Listen 127.0.0.1",
            "Timeout 60",
            "LogLevel Connect",
            'AddHeader "X-Proxy" "seen"',
        ]
        files = [f'LogFile "{folder}/proxy.log"', f'PidFile "{folder}/pid"']
        (folder / "proxy.conf").write_text("\n".join([*lines, *files, *auth, ""]))
        self._process = subprocess.Popen(
            [needed("tinyproxy"), "-d", "-c", str(folder / "proxy.conf")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait()

    def _wait(self) -> None:
        """Until it answers. It can't take over a socket of ours, as nginx can, and says nothing when it is ready."""
        end = time.monotonic() + START_S
        while self._process.poll() is None and time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
            except ConnectionRefusedError:
                time.sleep(0.01)
            else:
                return
        self.stop()
        raise AssertionError(f"tinyproxy does not run: {(self.folder / 'proxy.log').read_text()}")

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def asked(self) -> list[str]:
        """`METHOD target` of each request, in order; it writes the line before it passes the request on."""
        log = (self.folder / "proxy.log").read_text()
        return [line.partition("): ")[2].rpartition(" HTTP/")[0] for line in log.splitlines() if "Request (" in line]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(START_S)


@contextmanager
def tinyproxy(folder: Path, user: str = "", password: str = "") -> Iterator[Tinyproxy]:
    proxy = Tinyproxy(folder, user, password)
    try:
        yield proxy
    finally:
        proxy.stop()


# ── SOCKS ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class SocksRequest(NamedTuple):
    """One wish to connect: `kind` is how the target was written (`name`, `ipv4`, `ipv6`)."""

    version: str
    kind: str
    host: str
    port: int
    user: str
    password: str


class SocksProxy(Loopback):
    """SOCKS 4, 4a (draft), 5 (RFC 1928) with user and password (RFC 1929). Every name leads to 127.0.0.1."""

    def __init__(self, user: str = "", password: str = "") -> None:
        self.user, self.password = user, password
        self.requests: list[SocksRequest] = []
        super().__init__(_SocksWire, "127.0.0.1", 0)

    def lets_in(self, user: str, password: str) -> bool:
        return not self.user or (user, password) == (self.user, self.password)


class _SocksWire(socketserver.StreamRequestHandler):
    server: SocksProxy
    rbufsize = 0  # what comes after the handshake belongs to the tunnel

    def handle(self) -> None:
        version = self._take(1)[0]
        asked = self._socks4() if version == 4 else self._socks5()
        if asked is None:
            return
        self.server.requests.append(asked)
        target = asked.host if asked.kind != "name" else "127.0.0.1"
        with socket.create_connection((target, asked.port), timeout=START_S) as onward:
            self.request.sendall(b"\0\x5a" + bytes(6) if version == 4 else b"\5\0\0\1" + bytes(6))
            self._relay(onward)

    def _take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.request.recv(count - len(data))
            if not more:
                raise ConnectionAbortedError
            data += more
        return data

    def _until_nul(self) -> str:
        found = b""
        while (byte := self._take(1)) != b"\0":
            found += byte
        return found.decode()

    def _socks4(self) -> SocksRequest | None:
        _, port = struct.unpack("!BH", self._take(3))
        address = self._take(4)
        user = self._until_nul()
        if not self.server.lets_in(user, self.server.password):
            self.request.sendall(b"\0\x5d" + bytes(6))
            return None
        if address[:3] == bytes(3) and address[3]:  # 0.0.0.x: a name follows
            return SocksRequest("4a", "name", self._until_nul(), port, user, "")
        return SocksRequest("4", "ipv4", socket.inet_ntoa(address), port, user, "")

    def _socks5(self) -> SocksRequest | None:
        methods = self._take(self._take(1)[0])
        wanted = 2 if self.server.user else 0
        self.request.sendall(bytes([5, wanted if wanted in methods else 0xFF]))
        if wanted not in methods:
            return None
        user, password = self._login() if wanted == 2 else ("", "")
        if wanted == 2:
            fits = self.server.lets_in(user, password)
            self.request.sendall(b"\1\0" if fits else b"\1\1")
            if not fits:
                return None
        _, _, _, kind = self._take(4)
        spoken, host = self._address(kind)
        return SocksRequest("5", spoken, host, struct.unpack("!H", self._take(2))[0], user, password)

    def _login(self) -> tuple[str, str]:
        self._take(1)
        user = self._take(self._take(1)[0]).decode()
        return user, self._take(self._take(1)[0]).decode()

    def _address(self, kind: int) -> tuple[str, str]:
        if kind == 3:
            return "name", self._take(self._take(1)[0]).decode()
        if kind == 4:
            return "ipv6", socket.inet_ntop(socket.AF_INET6, self._take(16))
        return "ipv4", socket.inet_ntoa(self._take(4))

    def _relay(self, onward: socket.socket) -> None:
        """Bytes both ways until either side has done."""
        with selectors.DefaultSelector() as waiting:
            for source, sink in ((self.request, onward), (onward, self.request)):
                waiting.register(source, selectors.EVENT_READ, (source, sink))
            while True:
                for key, _ in waiting.select():
                    source, sink = key.data
                    data = source.recv(65536)
                    if not data:
                        return
                    sink.sendall(data)
