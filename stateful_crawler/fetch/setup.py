"""From a task's options to a curl handle.

Options that are the same for most tasks of a crawl are set once on a template, which is then duplicated: half the cost
of setting them anew. A handle is never used twice: a reset handle keeps its cookies, and the next task would send them.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from functools import lru_cache

import pycurl

from stateful_crawler.curl.config import Option
from stateful_crawler.errors import EnvironmentFault, TaskFileError
from stateful_crawler.fetch import body
from stateful_crawler.fetch.plan import Plan, Value, as_bytes
from stateful_crawler.fetch.readers import HTTP_ONLY, read
from stateful_crawler.guard import Way, way_of
from stateful_crawler.task import USER_AGENT, Task
from stateful_crawler.urls import ascii_host

# Where the systems we know keep their certificates; the wheel's libcurl looks only where its build machine had them.
_CA_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a task wants of the answer besides its body, and of the way to it; an empty path or format: nothing of the
    kind."""

    max_body_bytes: int
    way: Way
    follow: bool = False
    head: bool = False
    include: bool = False
    conditional: bool = False
    remote_time: bool = False
    remote_header_name: bool = False
    dump_header: str = ""
    etag_save: str = ""
    cookie_jar: str = ""
    reads_jar: bool = False
    write_out: str = ""

    @property
    def anything_beside(self) -> bool:
        """Whether the answer leaves something beside its page; most tasks' answers don't."""
        beside = self.dump_header or self.etag_save or self.cookie_jar
        return bool(beside or self.remote_time or self.remote_header_name)


@dataclass(frozen=True, slots=True)
class Recipe:
    """A block of options made ready: a template to duplicate, and what must be set on each duplicate.

    `plain` where nothing has to be read from files or put together for each task.
    """

    template: pycurl.Curl
    plan: Plan
    wanted: Wanted
    headers: list[bytes]
    share: pycurl.CurlShare | None
    plain: bool


def prepare(task: Task, root: str, max_body_bytes: int) -> tuple[pycurl.Curl, Wanted]:
    """A handle for the task's transfer, and what is wanted of the answer.

    `root` is the workdir, which relative paths start from. Raises TaskFileError for options that can't be carried out.
    """
    recipe = recipe_of(task.options, root, max_body_bytes)
    handle = recipe.template.duphandle()
    url = task.url if task.url.isascii() else _ascii_url(task)
    if not recipe.plain:
        url = _complete(handle, recipe, task, url, root)
    elif recipe.headers:
        handle.setopt(pycurl.HTTPHEADER, recipe.headers)
    if task.changes_things:
        # On a connection that is used again, libcurl repeats a request that got no answer: a POST would come twice.
        handle.setopt(pycurl.FRESH_CONNECT, 1)
        handle.setopt(pycurl.FORBID_REUSE, 1)
    if url.startswith("https:") or recipe.plan.values.get("http2-prior-knowledge"):
        # One HTTP/2 connection for a host. Not over plain HTTP/1, where a transfer would wait for another's answer.
        handle.setopt(pycurl.PIPEWAIT, 1)
    handle.setopt(pycurl.URL, url.encode("utf-8", "surrogateescape"))
    return handle, recipe.wanted


@lru_cache(maxsize=256)
def recipe_of(options: tuple[Option, ...], root: str, max_body_bytes: int) -> Recipe:
    """The recipe of a block of options; kept, because most tasks of a crawl have the same."""
    plan = read(options, root)
    limit = min(plan.max_body_bytes or max_body_bytes, max_body_bytes)
    template = pycurl.Curl()
    own_authorities = not {pycurl.CAINFO, pycurl.CAPATH}.isdisjoint(plan.settings)
    for constant, value in (_base_settings(limit, own_authorities) | plan.settings).items():
        template.setopt(constant, value)
    per_task = (plan.data, plan.form, plan.upload, plan.query, plan.cookie_files, plan.lists, plan.etag_compare)
    from_file = any(line.startswith("@") for line in plan.headers)
    return Recipe(
        template,
        plan,
        _wanted(plan, limit, way_of(options)),
        [] if from_file else [as_bytes(line) for line in [*plan.headers, *_json_headers(plan, plan.headers)]],
        _share() if plan.apart else None,
        plain=not (any(per_task) or from_file or plan.apart),
    )


def _wanted(plan: Plan, limit: int, way: Way) -> Wanted:
    said = plan.values.get
    return Wanted(
        max_body_bytes=limit,
        way=way,
        follow=bool(plan.follow),
        head=plan.head,
        include=said("include") is True or said("show-headers") is True,
        conditional=bool(plan.etag_compare or said("time-cond")),
        remote_time=said("remote-time") is True,
        remote_header_name=said("remote-header-name") is True,
        dump_header=str(said("dump-header") or ""),
        etag_save=str(said("etag-save") or ""),
        cookie_jar=str(said("cookie-jar") or ""),
        reads_jar=said("cookie-jar") in plan.cookie_files,
        write_out=_format(str(said("write-out") or ""), plan.root),
    )


def _format(write_out: str, root: str) -> str:
    if not write_out.startswith("@"):
        return write_out
    text = body.read_sent_file(write_out[1:], root, "").decode("utf-8", "replace")
    return text.replace("\r", "").replace("\n", "")  # as curl reads it: a line end is written \n


def _base_settings(max_body_bytes: int, own_authorities: bool = False) -> dict[int, Value]:
    settings: dict[int, Value] = {
        pycurl.NOSIGNAL: 1,
        pycurl.NOPROGRESS: 1,
        pycurl.USERAGENT: USER_AGENT.encode(),
        pycurl.PROTOCOLS: HTTP_ONLY,
        pycurl.REDIR_PROTOCOLS: HTTP_ONLY,
        pycurl.TIMEOUT_MS: 60_000,
        pycurl.CONNECTTIMEOUT_MS: 15_000,
        pycurl.MAXFILESIZE_LARGE: max_body_bytes,
        pycurl.BUFFERSIZE: 128 * 1024,
        pycurl.TCP_NODELAY: 1,
    }
    ca_file, ca_path = _certificates(own_authorities)
    if ca_file:
        settings[pycurl.CAINFO] = os.fsencode(ca_file)
        settings[pycurl.PROXY_CAINFO] = os.fsencode(ca_file)
    if ca_path:
        settings[pycurl.CAPATH] = os.fsencode(ca_path)
        settings[pycurl.PROXY_CAPATH] = os.fsencode(ca_path)
    return settings


def _share() -> pycurl.CurlShare:
    """A name cache and connections of their own, for tasks with `resolve` and the like (Plan.apart).

    Without it the addresses would hold for every task of the crawl, and so would the connections made to them.
    """
    share = pycurl.CurlShare()
    share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_DNS)
    share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_CONNECT)
    return share


# ── what is put together for each task ───────────────────────────────────────────────────────────────────────────────


def _complete(handle: pycurl.Curl, recipe: Recipe, task: Task, url: str, root: str) -> str:
    """Set what names files or holds more than plain values; the url to ask for, with what is added to its query."""
    plan = recipe.plan
    if plan.query:
        url = body.with_query(url, body.compose_query(plan.query, root, task.name))
    if plan.data:
        url = _set_data(handle, plan, task, url, root)
    if plan.form:
        from stateful_crawler.fetch import form  # here, not above: few tasks send one

        form.build(handle, plan.form, root, task.name)
        _set_method(handle, plan)
    if plan.upload:
        url = _set_upload(handle, plan, task, url, root)
    if headers := _headers(recipe, root, task.name):
        handle.setopt(pycurl.HTTPHEADER, headers)
    if recipe.share is not None:
        handle.setopt(pycurl.SHARE, recipe.share)
    for constant, entries in plan.lists.items():
        handle.setopt(constant, entries)
    for path in plan.cookie_files:
        handle.setopt(pycurl.COOKIEFILE, os.fsencode(body.inside(path, root, task.name)) if path else b"")
    if plan.ip_tos is not None or plan.priority is not None:
        from stateful_crawler.fetch import sockets  # here, not above: few tasks need Python's sockets

        sockets.set_on(handle, plan)
    return url


def _headers(recipe: Recipe, root: str, name: str) -> list[bytes]:
    plan = recipe.plan
    headers = recipe.headers
    if any(line.startswith("@") for line in plan.headers):
        lines: list[str] = []
        for line in plan.headers:
            lines += body.header_file(line[1:], root, name) if line.startswith("@") else [line]
        headers = [as_bytes(line) for line in [*lines, *_json_headers(plan, lines)]]
    if plan.etag_compare:
        headers = [*headers, b"If-None-Match: " + body.stored_etag(plan.etag_compare, root, name)]
    return headers


def _json_headers(plan: Plan, lines: list[str]) -> list[str]:
    if not any(option.name == "json" for option in plan.data):
        return []
    given = {line.partition(":")[0].strip().lower() for line in lines}
    return [f"{name}: application/json" for name in ("Content-Type", "Accept") if name.lower() not in given]


def _set_data(handle: pycurl.Curl, plan: Plan, task: Task, url: str, root: str) -> str:
    """Set the request's body, or with `get` put it into the url, which is returned."""
    data = body.compose(plan.data, root, task.name)
    if plan.get:
        return body.with_query(url, data.decode("utf-8", "surrogateescape"))
    handle.setopt(pycurl.POSTFIELDSIZE_LARGE, len(data))
    handle.setopt(pycurl.POSTFIELDS, data)
    _set_method(handle, plan)
    return url


def _set_method(handle: pycurl.Curl, plan: Plan) -> None:
    """Once more: what sets a body sets the method, too."""
    if plan.method:
        handle.setopt(pycurl.CUSTOMREQUEST, plan.method.encode())


def _set_upload(handle: pycurl.Curl, plan: Plan, task: Task, url: str, root: str) -> str:
    content = body.read_sent_file(plan.upload, root, task.name)
    source = io.BytesIO(content)

    def seek(offset: int, origin: int) -> int:
        source.seek(offset, origin)
        return pycurl.SEEKFUNC_OK

    handle.setopt(pycurl.UPLOAD, 1)
    handle.setopt(pycurl.INFILESIZE_LARGE, len(content))
    handle.setopt(pycurl.READFUNCTION, source.read)
    handle.setopt(pycurl.SEEKFUNCTION, seek)  # a redirect sends the file once more
    _set_method(handle, plan)
    return body.with_file_name(url, plan.upload)


def _ascii_url(task: Task) -> str:
    try:
        return ascii_host(task.url)
    except ValueError as error:
        raise TaskFileError(f"working/{task.name}.conf", None, str(error)) from None


@lru_cache(maxsize=2)
def _certificates(own_authorities: bool = False) -> tuple[str, str]:
    """CA file and directory: as the environment says, else the system's, else certifi's (as curl looks for them).

    As with curl, the environment is not asked for a task that names its own authorities.
    """
    for variable in ("CURL_CA_BUNDLE", "SSL_CERT_FILE") if not own_authorities else ():
        if path := os.environ.get(variable):
            if not os.path.isfile(path):
                raise EnvironmentFault(f"{variable} names a CA file that is not there:", path)
            return path, os.environ.get("SSL_CERT_DIR", "")
    if not own_authorities and (folder := os.environ.get("SSL_CERT_DIR")):
        return "", folder
    for path in _CA_FILES:
        if os.path.isfile(path):
            return path, ""
    import certifi  # here, not above: for the rare system without a CA file

    return certifi.where(), ""
