"""What the value of an option may be: what curl takes as it stands, and nothing that leaves its line or its folder."""

from __future__ import annotations

import pytest
from wire_samples import SAMPLES

from stateful_crawler.curl.options import OPTIONS, SHORT
from stateful_crawler.curl.values import LineError, byte_count, check_value

GOOD = {
    "url": "http://h/ h/a HTTP://h http://[::1]/?a=b#c http://é/é",
    "header": "X-A:1 X-A: X-A; @headers.txt x!#$%&'*+.^_`|~9-a:b",
    "cookie": "a=1 jar.txt a=b=c",
    "request": "GET get PURGE X-Y M.1",
    "proto": "=http -all,http =http,https +https HTTP -ftp,-file",
    "range": "0-9 5- -5 0-9,20-29 0-0,-1",
    "max-redirs": "-1 0 50 2147483647",
    "retry": "0 10 2147483647",
    "max-time": "0 9.5 0.001 2147483",
    "retry-delay": "1 0.5",
    "max-filesize": "0 500 10k 10K 2M 1g 1T 1P 7b",
    "limit-rate": "1 1k 9M",
    "continue-at": "0 1000 -",
    "local-port": "0 1 4000 4000-4100 65535",
    "tls-max": "default 1.0 1.1 1.2 1.3",
    "delegation": "none policy always ALWAYS",
    "resolve": "h:443:127.0.0.1 h:80:[::1] +h:80:127.0.0.1 -h:80 h:80:1.2.3.4,5.6.7.8 *:80:1.2.3.4 [::1]:80:1.2.3.4",
    "connect-to": "h:80:g:8080 ::g:8080 h:80:: ::: h::g: [::1]:80:[::2]:81",
    "ip-tos": "0 32 255 032 CS1 AF43 EF VOICE-ADMIT ECT0 CE LE LOWDELAY",
    "vlan-priority": "0 7 07",
    "output": "html/a.html a/b",
    "output-dir": "html html/ html/a html/a/b/",
    "dump-header": "html/a.txt html/a/b",
    "cookie-jar": "var/jar var/a/b.txt",
    "etag-save": "var/tag",
    "etag-compare": "var/tag",
    "hsts": "var/hsts.txt",
    "data": "a=1 @body.txt",
    "data-urlencode": "a a=b =b @f n@f n=@-",
    "url-query": "a=b +a=%20 @f n@f",
    "json": "{} @f.json",
    "upload-file": "a.txt ./a",
    "proxy-header": "X-A:1 X-A;",
    "write-out": "%{http_code} @format.txt",
    "form": "a=1 a=@f a=<f;type=x/y",
    "form-string": "a=@-;x a=",
    "user": "a:b a : a:",
    "user-agent": "x",
}

BAD: dict[str, tuple[str, ...]] = {
    "url": ("@urls", "http://h/a b", "http://h/\x07", ""),
    "header": ("X A: 1", "X-A", " X: 1", "@-", "", ": x", "X-A: 1\nX-B: 2", "X-A: 1\rX-B: 2", "X-A; b", "@"),
    "cookie": ("-", "@-", "@jar.txt", "@a=b", "a=1\nb", "a=\x00"),
    "request": ("GET IT", "", "A:B", "GET\n"),
    "proto": ("", "=", "bogus", "=http,", "http https", "http;https"),
    "range": ("5", "a-b", "9", "", "0-9,", "-", "0-9 "),
    "max-redirs": ("-2", "1.5", "", "x", "2147483648", "+1", "1 "),
    "retry": ("-1", "1.5", "", "0x1", "²"),
    "max-time": (".5", "1e3", "-1", "", "5s", "9999999", "1,5", "٣"),
    "max-filesize": ("", "k", "1kk", "-1", "1.5M", "1 k"),
    "limit-rate": ("x", ""),
    "continue-at": ("a", "", "-5", "1-"),
    "local-port": ("a", "1-2-3", "-5", "", "123456", "65536", "9-8", "70000-70001"),
    "tls-max": ("1.4", "", "ssl", "1"),
    "delegation": ("x", ""),
    "resolve": ("h", "h:80", "h:x:127.0.0.1", "h:80:1 2", ""),
    "connect-to": ("h", "h:80", "h:80:g", "h:x:g:80"),
    "ip-tos": ("256", "cs1", "CS8", "0x20", "", "-1", "AF51"),
    "vlan-priority": ("8", "-1", "", "x"),
    "output": ("-", ""),
    "output-dir": ("", "a", "/html", "html/..", "html/../x", "var", "html//a", "html/.a", "../html"),
    "dump-header": ("-", "", "html", "html/", "a", "/etc/a", "html/../a", "html/.a", "%"),
    "cookie-jar": ("-", "", "jar", "var", "var/", "var/../jar", "var/.a", "html/a"),
    "etag-save": ("-", "tag", "html/tag"),
    "etag-compare": ("-", "tag", "/etc/passwd"),
    "hsts": ("", "hsts", "var/../x"),
    "data": ("@-",),
    "data-ascii": ("@-",),
    "data-binary": ("@-",),
    "data-urlencode": ("@-", "n@-"),
    "url-query": ("@-", "n@-", "a\nb"),
    "json": ("@-",),
    "upload-file": ("-", ".", ""),
    "proxy-header": ("@f", "X A: 1", "", "X-A"),
    "write-out": ("@-", "%output{x}", "%output{>>x}"),
    "form": ("a", "", "a=@", "a=@-", "a=<-"),
    "form-string": ("a",),
    "user-agent": ("a\nb", "a\x7f"),
    "proxy-user": ("a\nb:c",),
    "oauth2-bearer": ("a\r\nX: y", ""),
    "aws-sigv4": ("a\n", ""),
    "interface": ("",),
    "ciphers": ("",),
    "socks5": ("",),
    "request-target": ("/a\nb", ""),
    "haproxy-clientip": ("1.2.3.4\n",),
}


def _words(table: dict[str, str]) -> list[tuple[str, str]]:
    return [(name, value) for name, values in table.items() for value in values.split()]


@pytest.mark.parametrize(("name", "value"), _words(GOOD))
def test_what_curl_takes_is_taken_as_it_stands(name: str, value: str) -> None:
    assert check_value(OPTIONS[name], value) == value


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_what_curl_would_not_take_or_take_otherwise_is_refused(name: str, value: str) -> None:
    with pytest.raises(LineError) as caught:
        check_value(OPTIONS[name], value)
    assert "\n" not in caught.value.problem + caught.value.hint


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_the_samples_are_taken(name: str) -> None:
    value = SAMPLES[name][0].replace("PORT", "80")
    assert check_value(OPTIONS[name], value) == value


FREE = {"body", "flag"}


@pytest.mark.parametrize("name", [o.name for o in OPTIONS.values() if o.usable and o.kind not in FREE])
@pytest.mark.parametrize("control", ["\n", "\r", "\0", "\x1b"])
def test_no_value_of_one_line_may_leave_it(name: str, control: str) -> None:
    """write-out and variable are no part of a request as they stand, and hold what they like."""
    value = f"{SAMPLES.get(name, ('html/a',))[0]}{control}X: y"
    if name in ("write-out", "variable"):
        assert check_value(OPTIONS[name], value) == value
        return
    with pytest.raises(LineError):
        check_value(OPTIONS[name], value)


@pytest.mark.parametrize("text", ["0", "500", "1k", "1K", "2M", "3g", "1T", "1P", "9b"])
def test_letters_stand_for_powers_of_1024(text: str) -> None:
    powers = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
    number = int("".join(filter(str.isdigit, text)))
    assert byte_count(text) == number * 1024 ** powers.get(text[-1].lower(), 0)


@pytest.mark.parametrize("text", ["", "k", "1.5k", "-1", "1kb"])
def test_other_counts_are_no_counts(text: str) -> None:
    with pytest.raises(ValueError, match=text or "^$"):
        byte_count(text)


def test_a_letter_stands_for_one_option() -> None:
    assert all(OPTIONS[option.name] is option and option.short == letter for letter, option in SHORT.items())
