"""The tasks that are compared with stored results of a newer curl, because Debian's 7.88 does them in another way."""

from __future__ import annotations

from wire_helpers import Table
from wire_samples import every_form

# curl 7.88 sends `Expect` with every upload, a wrong length after `crlf`, and has no `follow`.
_FORMS: dict[str, tuple[str, ...]] = {
    "upload/": ('upload-file = "body.txt"',),
    "upload/?q=1": ('upload-file = "body.txt"',),
    "upload/a?q=/": ('upload-file = "body.txt"',),
    "upload/#part": ('upload-file = "body.txt"',),
    "upload/odd/": ('upload-file = "na me+é&;#?.txt"',),
    "upload-folder/": ('upload-file = "var/etag.txt"',),
    "upload-bare": ('upload-file = "TASK.txt"', 'url = "SERVER"'),
    "upload-bare-query": ('upload-file = "TASK.txt"', 'url = "SERVER?q=/x"'),
    "upload-no-scheme": ('upload-file = "body.txt"', 'url = "HOST/TASK/"'),
    "upload-empty": ('upload-file = "empty.txt"',),
    "upload-large": ('upload-file = "large.bin"',),
    "upload-large-no-expect": ('upload-file = "large.bin"', 'header = "Expect:"'),
    "upload-request": ('upload-file = "body.txt"', 'request = "POST"'),
    "upload-typed": ('upload-file = "body.txt"', 'header = "Content-Type: text/plain"'),
    "upload-chunked": ('upload-file = "body.txt"', 'header = "Transfer-Encoding: chunked"'),
    "upload-query": ('upload-file = "body.txt"', 'url-query = "a=b c"'),
    "upload-twice": ('upload-file = "lines.txt"', 'upload-file = "body.txt"'),
    "upload-digest": ('url = "SERVER/ask-digest/TASK"', 'upload-file = "body.txt"', 'user = "a:b"', "digest"),
    "upload-anyauth": ('url = "SERVER/ask-both/TASK"', 'upload-file = "body.txt"', 'user = "a:b"', "anyauth"),
    "307/upload": ('upload-file = "body.txt"', "location"),
    "302/upload": ('upload-file = "body.txt"', "location"),
    "303/upload": ('upload-file = "body.txt"', "location"),
    "upload-continue": ('upload-file = "body.txt"', "continue-at = 3"),
    "crlf-large": ("crlf", 'upload-file = "large.bin"'),
    "crlf-data": ("crlf", 'data = "a\\nb"'),
    "sigv4-s3": ('aws-sigv4 = "aws:amz:eu-central-1:s3"', 'user = "KEY:secret"'),
    "sigv4-post": ('aws-sigv4 = "aws:amz:eu-central-1:es"', 'user = "KEY:secret"', 'data = "a=1"'),
    "sigv4-query?b=2&a=1": ('aws-sigv4 = "aws:amz:eu-central-1:es"', 'user = "KEY:secret"'),
    "sigv4-upload": ('aws-sigv4 = "aws:amz:eu-central-1:s3"', 'user = "KEY:secret"', 'upload-file = "body.txt"'),
    "sigv4-bearer": ('aws-sigv4 = "aws:amz:eu:es"', 'user = "KEY:secret"', 'oauth2-bearer = "token"'),
    "sigv4-basic": ('aws-sigv4 = "aws:amz:eu:es"', 'user = "KEY:secret"', "basic"),
    "head-and-form": ("head", 'form = "a=1"'),
    "te-and-compressed": ("tr-encoding", "compressed"),
    "http2-post": ("http2", 'data = "a=1"'),
    "haproxy-clientip-6": ('haproxy-clientip = "2001:db8::1"',),
    "ip-tos-number": ("ip-tos = 32",),
    "ip-tos-zeros": ('ip-tos = "032"',),
    "include-newer": ("show-headers", 'data = "a=1"'),
    "etag-missing": ('etag-compare = "var/missing.txt"',),
    "etag-compare-and-save": ('etag-compare = "var/TASK.etag"', 'etag-save = "var/TASK.etag"'),
    "302/location-then-no-follow": ("location", "no-follow"),
    "302/follow-then-no-location": ("follow", "no-location"),
    "302/follow-then-location": ("follow", "location", 'request = "PUT"', 'data = "a=1"'),
    "302/location-then-follow": ("location", "follow", 'request = "PUT"', 'data = "a=1"'),
    "302/follow-trusted": ("follow", "location-trusted", 'request = "PUT"', 'data = "a=1"'),
    "302/trusted-follow": ("location-trusted", "follow", 'request = "PUT"', 'data = "a=1"'),
    "referer-auto-within": ('referer = "http://a;autoX"',),
    "302/referer-auto": ('referer = "http://a;auto"', "location"),
    "variable-twice": ('variable = "a=1"', 'variable = "a=2"', 'expand-data = "{{a}}-{{a}}"'),
    "variable-file": ('variable = "a@body.txt"', 'expand-data = "{{a:trim:b64}}"'),
    "form-encoder": ('form = "a=é ü;encoder=base64"', 'form = "b=é=;encoder=quoted-printable"'),
    "no-such-data-file": ('data = "@none.txt"',),
    "data-empty-first": ('data = ""', 'data = "b=2"', 'data-urlencode = ""', 'data = "c=3"'),
    "query-empty-pieces": ('url-query = ""', 'url-query = "b=2"', 'url-query = ""', 'url-query = "c=3"'),
    "query-more-and-empty": ('url-query = "b=2"', 'url-query = ""'),
    "data-urlencode-empty": ('data-urlencode = ""', 'data-urlencode = "a="', 'data-urlencode = "="'),
    "netrc-and-url-user": ("netrc", 'url = "http://a:b@HOST/TASK"'),
    "netrc-and-url-user-name": ("netrc", 'url = "http://homely@HOST/TASK"'),
    "netrc-and-user-name": ("netrc", 'user = "homely:"'),
    "retry-after-upload": ('upload-file = "body.txt"', "retry = 0"),
}
_FOLLOWED = {
    f"{code}/{verb}-{kind}": (follow, *lines)
    for code in (301, 302, 303, 307, 308)
    for verb, follow in (("follow", "follow"), ("location", "location"))
    for kind, lines in {
        "put": ('request = "PUT"', 'data = "a=1"'),
        "delete": ('request = "DELETE"',),
        "post": ('data = "a=1"',),
        "json": ('json = "{}"',),
        "form": ('form = "a=1"',),
        "head": ("head",),
        "get-with-body": ('request = "GET"', 'data = "a=1"'),
    }.items()
}


# What goes along to another host: nothing that is secret, unless the task trusts it.
AWAY: Table = {
    f"away-{name}{'-trusted' if 'trusted' in follow else ''}": (f'url = "SERVER/away/PORT/TASK/{name}"', follow, *lines)
    for follow in ("location", "location-trusted")
    for name, lines in {
        "user": ('user = "a:b"',),
        "url-user": (),
        "header": ('header = "Authorization: own"', 'header = "Cookie: a=1"', 'header = "X-A: 1"'),
        "header-host": ('header = "Host: h.test"',),
        "cookie": ('cookie = "a=1"',),
        "cookie-file": ('cookie = "cookies.txt"',),
        "bearer": ('oauth2-bearer = "token"',),
        "digest": ('user = "a:b"', "digest"),
        "anyauth": ('user = "a:b"', "anyauth"),
        "netrc": ("netrc",),
        "netrc-optional": ("netrc-optional", 'user = "a:b"'),
        "referer": ('referer = "http://a:b@r.test/;auto"',),
        "post": ('data = "a=1"', "post302", 'user = "a:b"'),
        "put": ('request = "PUT"', 'data = "a=1"', 'user = "a:b"'),
        "range": ('range = "0-5"',),
        "proxy": ('proxy = "SERVER"', 'proxy-user = "a:b"', 'user = "a:b"'),
    }.items()
}


def newer_table() -> Table:
    return every_form(newer=True) | _FORMS | _FOLLOWED | AWAY
