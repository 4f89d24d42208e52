"""Fills the tables of docs/options.md from curl's table of options; `python tests/options_page.py` writes them anew."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from stateful_crawler.curl.options import OPTIONS, CurlOption, Verdict

PAGE = Path(__file__).parent.parent / "docs" / "options.md"

# Notes for people, where there is more to say than curl's manual and the table's own note do.
DETAILS = {
    "url": "http or https only, also after redirects. A host in another script is sent as punycode",
    "user-agent": "without it, `stateful-crawler/VERSION`",
    "referer": "`;auto` works too",
    "header": '`"Name: value"` sends it, `"Name:"` removes it, `"Name;"` sends it empty; or `"@file"`',
    "cookie": '`"a=1; b=2"`, or the name of a cookie file inside the workdir; `""` only keeps what redirects set',
    "user": '`"name:password"`; Basic, unless another way is asked for',
    "request": "the method",
    "head": "the headers are the page, which is not given to the parser",
    "location": "`sc create` writes it",
    "location-trusted": "follows, and secrets go along to other hosts",
    "follow": "as `location`, but the method changes as the status says, also that of `request`",
    "max-redirs": "50 at most; `-1` means 50",
    "max-time": "seconds for the whole transfer; without it, 60",
    "connect-timeout": "seconds; without it, 15",
    "compressed": "the page is saved unpacked. `sc create` writes it",
    "insecure": "does not check the certificate; a crawl says so once",
    "cacert": "a relative path starts from the workdir",
    "proxy": "the scheme says which kind: http, https, socks4, socks4a, socks5, socks5h",
    "range": "`0-499`, `500-`, `-500`; a 206 answer is a good page",
    "proto": 'narrows http and https further: `"=https"`',
    "proto-redir": "the same for redirects",
    "max-filesize": "bytes, or with k, M, G; the run's `--max-size` counts too",
    "limit-rate": "bytes a second, or with k, M, G",
    "netrc": "`~/.netrc` of whoever runs the crawl",
    "time-cond": "a date as curl reads it, or a file whose age counts; 304 keeps the page",
    "http3": "falls back to HTTP/2 and 1.1",
    "unix-socket": "the path of a socket; a relative one starts from the workdir",
    "get": "puts `data` into the url",
    "data": "a form body; `@file` reads a file inside the workdir, without its line ends",
    "data-raw": "as `data`, but `@` means nothing",
    "data-binary": "as `data`, line ends kept",
    "data-urlencode": "`name=content` or `name@file`; the content is encoded",
    "json": "a body, with `Content-Type` and `Accept` for JSON",
    "form": "see [forms](task-file.md#forms)",
    "form-string": "see [forms](task-file.md#forms)",
    "variable": "see [variables](task-file.md#variables)",
    "output": "under `html/`; see [where the page goes](task-file.md#where-the-page-goes)",
    "fail": "here a status other than 2xx is an error anyway",
    "include": "the headers come before the body, in the page",
    "url-query": "as `data-urlencode`, but into the url; after a `+` as it stands",
    "retry": "in place of the run's `--retries`",
    "write-out": "into the record of the fetch; `@file` reads the format from a file",
    "proxy-header": "to the proxy only",
    "continue-at": "a number of bytes to leave out",
    "upload-file": "PUT; a url that ends in `/` gets the file's name. The file lies in the workdir",
}

_ONCE = ("hsts", "output", "upload-file", "url")  # each counts to curl, for another url; a task has one


def filled(text: str) -> str:
    """The page with its tables as they must be; each stands between `<!-- VERDICT -->` and `<!-- end -->`."""
    for verdict in get_args(Verdict):
        start = f"<!-- {verdict} -->\n"
        before, _, rest = text.partition(start)
        text = before + start + "\n".join(_table(verdict)) + "\n<!-- end -->" + rest.partition("<!-- end -->")[2]
    return text


def _table(verdict: Verdict) -> list[str]:
    options = sorted((option for option in OPTIONS.values() if option.verdict == verdict), key=lambda one: one.name)
    rows = [f"| `{one.name}` | {_letter(one)}| {_value(one)}|{_note(one)} |" for one in options]
    return [f"| {len(options)} options | letter | value | note |", "|---|---|---|---|", *rows]


def _letter(option: CurlOption) -> str:
    return f"`-{option.short}` " if option.short else ""


def _value(option: CurlOption) -> str:
    if option.kind == "flag":
        return "none; `no-` too " if option.negatable else "none "
    kind = {"number": "a number", "word": "text", "body": "text or bytes"}.get(option.kind, option.kind)
    return f"{kind}, each counts " if option.repeats and option.name not in _ONCE else f"{kind} "


def _note(option: CurlOption) -> str:
    note = DETAILS.get(option.name, option.note)
    return f" {note}" if note else ""


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
