"""From a task's options to a curl handle.

Options that are the same for most tasks of a crawl are set once on a template, which is then duplicated: half the cost
of setting them anew. A handle is never used twice: a reset handle keeps its cookies, and the next task would send them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import pycurl

from stateful_crawler.curlconfig import Option
from stateful_crawler.errors import EnvironmentFault, LocalFileError, TaskFileError, printable
from stateful_crawler.fetch import body
from stateful_crawler.task import USER_AGENT, Task
from stateful_crawler.urls import ascii_host

MAX_REDIRECTS = 50
# To curl 0 means no limit at all; here a server that falls silent must not hold a connection for ever.
LONGEST_S = 86_400.0
HTTP_ONLY = pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS
_PROTOCOLS = {"http": pycurl.PROTO_HTTP, "https": pycurl.PROTO_HTTPS, "all": HTTP_ONLY}

# Where the systems we know keep their certificates; the wheel's libcurl looks only where its build machine had them.
_CA_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
)

Setting = tuple[int, int | bytes | list[bytes]]


@dataclass(slots=True)
class _Plan:
    """What a block of options comes to, besides what is set on the template."""

    root: str
    settings: list[Setting] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)
    data: list[Option] = field(default_factory=list)
    cookies: list[str] = field(default_factory=list)
    cookie_files: list[str] = field(default_factory=list)
    method: str = ""
    head: bool = False
    get: bool = False
    follow: bool = False
    trusted: bool = False
    max_redirects: int = MAX_REDIRECTS

    def forget(self, constant: int) -> None:
        """Take back what an earlier line set."""
        self.settings = [setting for setting in self.settings if setting[0] != constant]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A block of options made ready: a template to duplicate, and what must be set on each duplicate.

    `data` and `cookie_files` name files and are read for each task anew.
    """

    template: pycurl.Curl
    headers: tuple[bytes, ...]
    data: tuple[Option, ...]
    cookie_files: tuple[str, ...]
    head: bool
    get: bool
    method: str


def prepare(task: Task, root: str, max_body_bytes: int) -> tuple[pycurl.Curl, bool]:
    """A handle for the task's transfer, and whether it asks for the headers only (HEAD).

    `root` is the workdir, which relative paths start from. Raises TaskFileError for options that can't be carried out.
    """
    recipe = _recipe(task.options, root, max_body_bytes)
    handle = recipe.template.duphandle()
    url = task.url if task.url.isascii() else _ascii_url(task)
    if recipe.data:
        url = _set_body(handle, recipe, task, url, root)
    if recipe.headers:
        handle.setopt(pycurl.HTTPHEADER, list(recipe.headers))
    for path in recipe.cookie_files:
        handle.setopt(pycurl.COOKIEFILE, os.fsencode(body.inside(path, root, task.name)) if path else b"")
    if task.changes_things:
        # On a connection that is used again, libcurl repeats a request that got no answer: a POST would come twice.
        handle.setopt(pycurl.FRESH_CONNECT, 1)
        handle.setopt(pycurl.FORBID_REUSE, 1)
    handle.setopt(pycurl.URL, url.encode("utf-8", "surrogateescape"))
    return handle, recipe.head


@lru_cache(maxsize=256)
def _recipe(options: tuple[Option, ...], root: str, max_body_bytes: int) -> Recipe:
    plan = _Plan(root)
    for option in options:
        if reader := _READERS.get(option.name):
            reader(plan, option.value)
    template = pycurl.Curl()
    for constant, value in [*_base_settings(max_body_bytes), *plan.settings, *_derived(plan)]:
        template.setopt(constant, value)
    headers = tuple(_header_lines(plan))
    return Recipe(template, headers, tuple(plan.data), tuple(plan.cookie_files), plan.head, plan.get, plan.method)


def _base_settings(max_body_bytes: int) -> list[Setting]:
    settings: list[Setting] = [
        (pycurl.NOSIGNAL, 1),
        (pycurl.NOPROGRESS, 1),
        (pycurl.USERAGENT, USER_AGENT.encode()),
        (pycurl.PROTOCOLS, HTTP_ONLY),
        (pycurl.REDIR_PROTOCOLS, HTTP_ONLY),
        (pycurl.TIMEOUT_MS, 60_000),
        (pycurl.CONNECTTIMEOUT_MS, 15_000),
        (pycurl.MAXFILESIZE_LARGE, max_body_bytes),
        (pycurl.BUFFERSIZE, 128 * 1024),
        (pycurl.TCP_NODELAY, 1),
    ]
    ca_file, ca_path = _certificates()
    if ca_file:
        settings.append((pycurl.CAINFO, os.fsencode(ca_file)))
    if ca_path:
        settings.append((pycurl.CAPATH, os.fsencode(ca_path)))
    return settings


def _derived(plan: _Plan) -> list[Setting]:
    """The settings that several options decide together."""
    settings: list[Setting] = []
    if plan.follow:
        settings += [(pycurl.FOLLOWLOCATION, 1), (pycurl.MAXREDIRS, plan.max_redirects)]
    if plan.trusted:
        settings.append((pycurl.UNRESTRICTED_AUTH, 1))
    if plan.head:
        settings.append((pycurl.NOBODY, 1))
    if plan.method and not (plan.head and plan.method == "HEAD"):
        settings.append((pycurl.CUSTOMREQUEST, plan.method.encode()))
    if plan.cookies:
        settings.append((pycurl.COOKIE, ";".join(plan.cookies).encode("utf-8", "surrogateescape")))
    return settings


def _header_lines(plan: _Plan) -> list[bytes]:
    lines = list(plan.headers)
    if any(option.name == "json" for option in plan.data):
        given = {line.partition(":")[0].strip().lower() for line in lines}
        lines += [f"{name}: application/json" for name in ("Content-Type", "Accept") if name.lower() not in given]
    return [line.encode("utf-8", "surrogateescape") for line in lines]


_Reader = Callable[[_Plan, str | bool], None]

# ── one function an option ───────────────────────────────────────────────────────────────────────────────────────────


def _text(constant: int) -> _Reader:
    def read(plan: _Plan, value: str | bool) -> None:
        plan.settings.append((constant, str(value).encode("utf-8", "surrogateescape")))

    return read


def _milliseconds(constant: int) -> _Reader:
    def read(plan: _Plan, value: str | bool) -> None:
        plan.settings.append((constant, int(min(float(value) or LONGEST_S, LONGEST_S) * 1000)))

    return read


def _flag(constant: int, on: int | bytes = 1, off: int | bytes = 0) -> _Reader:
    def read(plan: _Plan, value: str | bool) -> None:
        plan.settings.append((constant, on if value else off))

    return read


def _protocols(constant: int) -> _Reader:
    def read(plan: _Plan, value: str | bool) -> None:
        plan.settings.append((constant, _mask(str(value))))

    return read


def _mask(text: str) -> int:
    """`=https`, `-http`, `+x`, comma-separated, as curl reads them; what is not http or https stays off."""
    mask = HTTP_ONLY
    for word in text.lower().split(","):
        bits = _PROTOCOLS.get(word.strip().lstrip("=+-"), 0)
        if word.strip().startswith("="):
            mask = bits
        elif word.strip().startswith("-"):
            mask &= ~bits
        else:
            mask |= bits
    return mask


def _compressed(plan: _Plan, value: str | bool) -> None:
    plan.forget(pycurl.ACCEPT_ENCODING)
    if value:
        plan.settings.append((pycurl.ACCEPT_ENCODING, b""))  # empty: all that this libcurl can decode, and no more


def _insecure(plan: _Plan, value: str | bool) -> None:
    plan.settings += [(pycurl.SSL_VERIFYPEER, 0 if value else 1), (pycurl.SSL_VERIFYHOST, 0 if value else 2)]


def _cacert(plan: _Plan, value: str | bool) -> None:
    path = os.path.join(plan.root, str(value))
    if not os.path.isfile(path):
        raise LocalFileError("", None, f"cacert {printable(str(value))} is not there", "paths start from the workdir")
    plan.settings.append((pycurl.CAINFO, os.fsencode(path)))


def _proxy(plan: _Plan, value: str | bool) -> None:
    plan.settings.append((pycurl.PROXY, str(value).encode("utf-8", "surrogateescape")))


def _referer(plan: _Plan, value: str | bool) -> None:
    text, auto, _ = str(value).partition(";auto")
    plan.settings.append((pycurl.AUTOREFERER, 1 if auto else 0))
    plan.forget(pycurl.REFERER)
    if text:  # an empty one would be sent as a header without a value
        plan.settings.append((pycurl.REFERER, text.encode("utf-8", "surrogateescape")))


def _header(plan: _Plan, value: str | bool) -> None:
    if str(value).startswith("@"):
        raise TaskFileError("", None, "header = @file is not supported yet", "write a `header` line for each")
    plan.headers.append(str(value))


def _cookie(plan: _Plan, value: str | bool) -> None:
    (plan.cookies if "=" in str(value) else plan.cookie_files).append(str(value))


def _max_redirects(plan: _Plan, value: str | bool) -> None:
    wanted = int(value)
    plan.max_redirects = wanted if 0 <= wanted <= MAX_REDIRECTS else MAX_REDIRECTS


def _request(plan: _Plan, value: str | bool) -> None:
    plan.method = str(value)
    # With -X HEAD alone curl waits for a body that never comes.
    plan.head = plan.head or plan.method == "HEAD"


def _data(name: str) -> _Reader:
    def read(plan: _Plan, value: str | bool) -> None:
        plan.data.append(Option(name, value))

    return read


def _set(attribute: str) -> _Reader:
    def read(plan: _Plan, value: str | bool) -> None:
        setattr(plan, attribute, bool(value))

    return read


def _location_trusted(plan: _Plan, value: str | bool) -> None:
    plan.follow = plan.trusted = bool(value)  # both, as curl has it


_READERS: dict[str, _Reader] = {
    "user-agent": _text(pycurl.USERAGENT),
    "referer": _referer,
    "header": _header,
    "cookie": _cookie,
    "user": _text(pycurl.USERPWD),
    "request": _request,
    "get": _set("get"),
    "head": _set("head"),
    "location": _set("follow"),
    "location-trusted": _location_trusted,
    "max-redirs": _max_redirects,
    "max-time": _milliseconds(pycurl.TIMEOUT_MS),
    "connect-timeout": _milliseconds(pycurl.CONNECTTIMEOUT_MS),
    "compressed": _compressed,
    "insecure": _insecure,
    "cacert": _cacert,
    "proxy": _proxy,
    "range": _text(pycurl.RANGE),
    "proto": _protocols(pycurl.PROTOCOLS),
    "proto-redir": _protocols(pycurl.REDIR_PROTOCOLS),
    "path-as-is": _flag(pycurl.PATH_AS_IS),
    "http1.1": _flag(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1),
    "http2": _flag(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2_0),
    **{name: _data(name) for name in ("data", "data-ascii", "data-raw", "data-binary", "data-urlencode", "json")},
}


def _set_body(handle: pycurl.Curl, recipe: Recipe, task: Task, url: str, root: str) -> str:
    """Set the request's body, or with `get` put it into the url, which is returned."""
    data = body.compose(recipe.data, root, task.name)
    if recipe.get:
        return body.with_query(url, data.decode("utf-8", "surrogateescape"))
    handle.setopt(pycurl.POSTFIELDSIZE_LARGE, len(data))
    handle.setopt(pycurl.POSTFIELDS, data)
    if recipe.method:
        handle.setopt(pycurl.CUSTOMREQUEST, recipe.method.encode())
    return url


def _ascii_url(task: Task) -> str:
    try:
        return ascii_host(task.url)
    except ValueError as error:
        raise TaskFileError(f"working/{task.name}.conf", None, str(error)) from None


@lru_cache(maxsize=1)
def _certificates() -> tuple[str, str]:
    """CA file and directory: as the environment says, else the system's, else certifi's (as curl looks for them)."""
    for variable in ("CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        if path := os.environ.get(variable):
            if not os.path.isfile(path):
                raise EnvironmentFault(f"{variable} names a CA file that is not there:", path)
            return path, os.environ.get("SSL_CERT_DIR", "")
    if folder := os.environ.get("SSL_CERT_DIR"):
        return "", folder
    for path in _CA_FILES:
        if os.path.isfile(path):
            return path, ""
    import certifi  # here, not above: for the rare system without a CA file

    return certifi.where(), ""
