"""Nothing secret is left in what --redact shows, and the rest stays readable."""

from __future__ import annotations

import pytest

from stateful_crawler.curl.config import Option, parse_config
from stateful_crawler.redact import is_secret_name, redact_facts, redact_option, redact_text, redact_url
from stateful_crawler.task import name_for

URLS = [
    ("http://h/a?b=c", "http://h/a?b=c"),
    ("http://me:pw@h/", "http://me:***@h/"),
    ("http://me:p:w@x@h/", "http://me:***@h/"),
    ("http://ghp_token@h/", "http://***@h/"),
    ("http://sk_live:@h/", "http://***:@h/"),
    ("h:8080/a@b", "h:8080/a@b"),
    ("http://h/me@example.com", "http://h/me@example.com"),
    ("http://h/?access_token=x&page=2", "http://h/?access_token=***&page=2"),
    ("http://h/?a=1;sig=x#id_token=y&z=1", "http://h/?a=1;sig=***#id_token=***&z=1"),
    ("http://h/?X-Amz-Signature=x&X-Amz-Credential=y", "http://h/?X-Amz-Signature=***&X-Amz-Credential=***"),
    ("http://h/?keyword=tea&monkey=1&assign=2", "http://h/?keyword=tea&monkey=1&assign=2"),
    ("http://h/?token=", "http://h/?token="),
    ("//me:pw@h/", "//me:***@h/"),
]


@pytest.mark.parametrize(("url", "shown"), URLS)
def test_urls(url: str, shown: str) -> None:
    assert redact_url(url) == shown
    assert redact_option(Option("url", url)) == Option("url", shown)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("user", "me:pw", "me:***"),
        ("user", "me", "me"),
        ("user", "sk_live_1:", "***:"),
        ("proxy-user", "me:p:w", "me:***"),
        ("oauth2-bearer", "abc", "***"),
        ("pass", "abc", "***"),
        ("proxy-pass", "abc", "***"),
        ("proxy-tlspassword", "abc", "***"),
        ("cert", "a.pem:pw", "a.pem:***"),
        ("cert", "a.pem", "a.pem"),
        ("cert", r"a\:b.pem:pw", r"a\:b.pem:***"),
        ("cert", "C:\\a.pem:pw", "C:\\a.pem:***"),
        ("proxy-cert", "a.pem:pw", "a.pem:***"),
        ("proxy", "me:pw@h:3128", "me:***@h:3128"),
        ("proxy", "socks5h://me:pw@h", "socks5h://me:***@h"),
        ("preproxy", "socks5://me:pw@h", "socks5://me:***@h"),
        ("socks5", "me:pw@h", "me:***@h"),
        ("referer", "http://h/?token=a", "http://h/?token=***"),
        ("cookie", "a=1; b=2", "a=***; b=***"),
        ("cookie", "var/jar.txt", "var/jar.txt"),
        ("header", "Authorization: Bearer abc", "Authorization: Bearer ***"),
        ("header", "authorization: abc", "authorization: ***"),
        ("header", "Proxy-Authorization: Basic abc=", "Proxy-Authorization: Basic ***"),
        ("header", "Cookie: a=1; b=2", "Cookie: a=***; b=***"),
        ("header", "X-Api-Key: abc", "X-Api-Key: ***"),
        ("header", "X-CSRF-Token:abc", "X-CSRF-Token: ***"),
        ("header", "X-Auth: abc", "X-Auth: ***"),
        ("header", "Accept: */*", "Accept: */*"),
        ("header", "Authorization:", "Authorization:"),
        ("header", "Referer: http://h/?sid=1", "Referer: http://h/?sid=***"),
        ("header", "@headers.txt", "@headers.txt"),
        ("proxy-header", "X-Token: abc", "X-Token: ***"),
        ("data", "user=me&password=pw&page=1", "user=me&password=***&page=1"),
        ("data", "@body.txt", "@body.txt"),
        ("json", '{"user": "me", "pin": 1234, "apiKey": "a\\"b"}', '{"user": "me", "pin": "***", "apiKey": "***"}'),
        ("data-raw", "<a><password>x</password><b>1</b></a>", "<a><password>***</password><b>1</b></a>"),
        ("data-binary", 'name="token"\r\n\r\nabc\r\n--', 'name="token"\r\n\r\n***\r\n--'),
        ("data-urlencode", "token=abc", "token=***"),
        ("url-query", "api_key=abc", "api_key=***"),
        ("form", "password=pw;type=text/plain", "password=***"),
        ("form", "secret=@file.txt", "secret=@file.txt"),
        ("form-string", "token=@abc", "token=***"),
        ("expand-header", "X-Api-Key: abc", "X-Api-Key: ***"),
        ("output", "html/token=1.html", "html/token=1.html"),
        ("max-time", "60", "60"),
        ("location", True, True),
    ],
)
def test_options(name: str, value: str | bool, shown: str | bool) -> None:
    assert redact_option(Option(name, value)) == Option(name, shown)


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        *(
            (name, True)
            for name in ("token", "accessToken", "PHPSESSID", "JSESSIONID", "session_id", "X-Api-Key", "pwd")
        ),
        *(
            (name, True)
            for name in ("client_secret", "sig", "apikey", "user%5Bpassword%5D", "csrfmiddlewaretoken", "auth")
        ),
        *(
            (name, False)
            for name in ("page", "keyword", "author", "passage", "design", "sort_keys_x", "monkey", "keyboard")
        ),
    ],
)
def test_names(name: str, secret: bool) -> None:
    assert is_secret_name(name) == secret


def test_facts_of_a_task_and_of_a_record() -> None:
    facts = {
        "name": "one",
        "url": "http://me:pw1@h/?token=tk2",
        "options": [["url", "http://me:pw1@h/"], ["user", "ak3:pw4"], ["aws-sigv4", "aws:amz"], ["location", True]],
        "records": [
            {"by": "create", "meta": {"page": 1, "token": "tk5", "pin": 778899}},
            {
                "stage": "fetch",
                "detail": "could not reach http://me:pw6@h/x",
                "hops": [["http://h/?sig=sg7", 302]],
                "headers": [
                    ["Location", "http://h/?code=1&token=tk8"],
                    ["X-Auth-Token", "tk9"],
                    ["Content-Type", "a/b"],
                ],
                "seconds": 0.5,
            },
        ],
    }
    shown = redact_facts(facts)
    text = str(shown)
    for secret in ("pw1", "tk2", "ak3", "pw4", "tk5", "pw6", "sg7", "tk8", "tk9", "778899"):
        assert secret not in text
    assert shown["records"][1]["headers"][2] == ["Content-Type", "a/b"]
    assert shown["records"][0]["meta"]["page"] == 1 and shown["records"][1]["seconds"] == 0.5
    assert facts["url"] == "http://me:pw1@h/?token=tk2"


def test_text() -> None:
    assert redact_text("see http://a:b@h/ and 'http://h/?key=1'") == "see http://a:***@h/ and 'http://h/?key=***'"


def test_what_is_shown_is_still_a_config() -> None:
    options = parse_config('url = "http://me:pw@h/?token=1"\nheader = "Authorization: Basic x"\nuser = "a:b"\n', "x")
    for option in options:
        redact_option(option)


@pytest.mark.parametrize(
    "url", ["http://h/r?next=http://rd:SECRET@h/&a=1", "http://h/r?next=http%3A%2F%2Frd%3ASECRET%40h%2F&a=1"]
)
def test_a_password_in_a_url_inside_a_url_is_hidden_and_stands_in_no_name(url: str) -> None:
    assert "SECRET" not in redact_url(url) and redact_url(url).endswith("&a=1")
    assert "SECRET" not in name_for(url)
