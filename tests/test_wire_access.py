"""Who we say we are, to servers and to proxies: the same task sends the same bytes by `sc` and by curl."""

from __future__ import annotations

from conftest import Serve
from helpers import Project
from wire_helpers import NEEDS_CURL, Table, answer, assert_same, put_table, run_sc_on, run_table
from wire_newer import AWAY

pytestmark = NEEDS_CURL

USER, PROXY, PROXY_USER = 'user = "a:b c:\\"é"', 'proxy = "SERVER"', 'proxy-user = "a:b c"'

SERVERS: Table = {
    "user-empty-password": ('user = "name:"',),
    "user-no-name": ('user = ":word"',),
    "user-colons": ('user = "a:b:c"',),
    "302/user": (USER, "location"),
    "302/user-trusted": (USER, "location-trusted"),
    "user-and-header": (USER, 'header = "Authorization: own"'),
    "bearer": ('oauth2-bearer = "token"',),
    "bearer-and-user": ('oauth2-bearer = "token"', USER),
    "302/bearer": ('oauth2-bearer = "token"', "location"),
    "sigv4": ('aws-sigv4 = "aws:amz:eu-central-1:es"', 'user = "KEY:secret"'),
    "sigv4-twice": ('aws-sigv4 = "osc:osc:eu:api"', 'user = "KEY:secret"', 'data = "a=1"'),
    **{
        f"ask-{kind}-by-{word.replace(' ', '-') or 'none'}{'-post' if lines else ''}": (
            f'url = "SERVER/ask-{kind}/TASK"',
            USER,
            *word.split(),
            *lines,
        )
        for kind in ("basic", "digest", "both")
        for word in ("", "basic", "digest", "anyauth", "basic digest", "anyauth no-basic", "anyauth no-digest")
        for lines in ((), ('data = "a=1"',))
    },
    "anyauth-basic": (USER, "anyauth", "basic"),
    "basic-anyauth": (USER, "basic", "anyauth"),
    "no-basic": (USER, "basic", "no-basic"),
    "bearer-basic-user": (USER, 'oauth2-bearer = "token"', "basic"),
    "bearer-digest": ('oauth2-bearer = "token"', "digest"),
    "digest-no-user": ("digest",),
    "negotiate-no-user": ("negotiate",),
    "negotiate": ('url = "SERVER/ask-negotiate/TASK"', "negotiate", 'user = ":"'),
    "negotiate-any": ('url = "SERVER/ask-negotiate/TASK"', "anyauth", 'user = "a:b"'),
    "digest-url-user": ('url = "http://a:b@HOST/ask-digest/TASK"', "digest"),
    "login-options": (USER, 'login-options = "AUTH=*"'),
    "netrc": ("netrc",),
    "netrc-optional": ("netrc-optional",),
    "netrc-file": ('netrc-file = "netrc.txt"',),
    "netrc-file-optional": ('netrc-file = "netrc.txt"', "netrc-optional"),
    "netrc-and-user": ("netrc", USER),
    "netrc-optional-and-user": ("netrc-optional", USER),
    "netrc-optional-and-url-user": ("netrc-optional", 'url = "http://a:b@HOST/TASK"'),
    "netrc-off": ("netrc", "no-netrc"),
    "netrc-both": ("netrc", "netrc-optional", USER),
    "302/netrc": ("netrc", "location"),
    "netrc-digest": ('url = "SERVER/ask-digest/TASK"', "netrc", "digest"),
}

PROXIES: Table = {
    "proxy": (PROXY,),
    "proxy-no-scheme": ('proxy = "HOST"',),
    "proxy-user-in-url": ('proxy = "http://a:b%20c@HOST"',),
    "proxy-none": ('proxy = ""',),
    "proxy-last": ('proxy = "http://127.0.0.1:1"', PROXY),
    "302/proxy": (PROXY, USER, "location"),
    "proxy-other-host": (PROXY, 'url = "http://TASK.test/a?b"'),
    "proxy-fragment": (PROXY, 'url = "http://TASK.test/a#b"'),
    "proxy-user": (PROXY, PROXY_USER, USER),
    "proxy-user-no-name": (PROXY, 'proxy-user = ":word"'),
    "proxy-header": (PROXY, 'proxy-header = "X-P: 1"', 'header = "X-A: 1"'),
    "proxy-header-two": (PROXY, 'proxy-header = "X-P: 1"', 'proxy-header = "X-Q: 2"', 'header = "X-A: 1"'),
    "proxy1.0": ('proxy1.0 = "HOST"',),
    "proxy1.0-tunnel": ('proxy1.0 = "HOST"', "proxytunnel", 'url = "http://TASK.test/"'),
    "tunnel": (PROXY, "proxytunnel", 'url = "http://TASK.test/"'),
    "tunnel-post": (PROXY, "proxytunnel", 'url = "http://TASK.test/"', 'data = "a=1"'),
    "tunnel-headers": (
        PROXY,
        "proxytunnel",
        'proxy-header = "X-P: 1"',
        'header = "X-A: 1"',
        'url = "http://TASK.test/"',
    ),
    "tunnel-only-header": (PROXY, "proxytunnel", 'header = "X-A: 1"', 'url = "http://TASK.test/"'),
    "tunnel-user": (PROXY, PROXY_USER, "proxytunnel", 'url = "http://TASK.test/"'),
    "tunnel-agent": (PROXY, "proxytunnel", 'user-agent = "me"', 'url = "http://TASK.test/"'),
    "tunnel-digest": (PROXY, PROXY_USER, "proxytunnel", "proxy-digest", 'url = "http://ask-digest.TASK.test/"'),
    "tunnel-include": (PROXY, "proxytunnel", "include", 'url = "http://TASK.test/"'),
    "tunnel-suppress": (PROXY, "proxytunnel", "include", "suppress-connect-headers", 'url = "http://TASK.test/"'),
    "noproxy": ('proxy = "http://127.0.0.1:1"', 'noproxy = "127.0.0.1"'),
    "noproxy-all": ('proxy = "http://127.0.0.1:1"', 'noproxy = "*"'),
    "noproxy-other": (PROXY, 'noproxy = "other.test"', 'url = "http://TASK.test/"'),
    **{
        f"proxy-ask-{kind}-by-{word.replace(' ', '-')}": (
            PROXY,
            PROXY_USER,
            f'url = "http://ask-{kind}.TASK.test/"',
            *word.split(),
        )
        for kind in ("basic", "digest", "both")
        for word in (
            "",
            "proxy-basic",
            "proxy-digest",
            "proxy-anyauth",
            "proxy-digest proxy-anyauth",
            "proxy-anyauth no-proxy-anyauth",
            "proxy-basic proxy-digest",
        )
    },
    "haproxy": ("haproxy-protocol",),
    "haproxy-post": ("haproxy-protocol", 'data = "a=1"'),
    "after-haproxy": (),
    "resolve": ('resolve = "name.test:PORT:127.0.0.1"', 'url = "http://name.test:PORT/TASK"'),
    "resolve-any": ('resolve = "*:PORT:127.0.0.1"', 'url = "http://TASK.test:PORT/"'),
    "connect-to": ('connect-to = "name.test:80:127.0.0.1:PORT"', 'url = "http://name.test/TASK"'),
    "connect-to-any": ('connect-to = "::127.0.0.1:PORT"', 'url = "http://TASK.test/"'),
    "interface": ('interface = "127.0.0.1"',),
    "interface-host": ('interface = "host!127.0.0.1"',),
    "local-port": ('local-port = "42000-48000"',),
}


def test_servers(project: Project, serve: Serve) -> None:
    failing = {"negotiate", "negotiate-any"} | {  # they are asked for a way that the task does not allow
        f"ask-{way}{post}"
        for way in ("basic-by-digest", "basic-by-anyauth-no-basic", "digest-by-anyauth-no-digest")
        for post in ("", "-post")
    }
    assert_same(run_table(project, serve({"*": answer}), SERVERS), failing)


def test_a_user_without_a_password_has_an_empty_one(project: Project, serve: Serve) -> None:
    """curl would ask for it on the terminal."""
    server = serve({"*": answer})
    url = 'url = "SERVER/TASK"'
    table = {"bare": (url, 'user = "name"'), "colon": (url, 'user = "name:"')}
    ours = run_sc_on(project, server, put_table(project, server, table))
    assert ours["bare"] == ours["colon"]


def test_other_hosts(project: Project, serve: Serve) -> None:
    """But for two secrets that curl 7.88 still takes along."""
    table = {name: lines for name, lines in AWAY.items() if name not in ("away-cookie", "away-netrc-trusted")}
    assert_same(run_table(project, serve({"*": answer}), table))


def test_proxies(project: Project, serve: Serve) -> None:
    failing = {"tunnel-digest", "proxy-ask-basic-by-proxy-digest", "proxy-ask-basic-by-proxy-basic-proxy-digest"}
    assert_same(run_table(project, serve({"*": answer}), PROXIES), failing)
