"""Hypothesis strategies for any url, output and options that a task may hold, with awkward characters in them."""

from __future__ import annotations

from hypothesis import strategies as st

from stateful_crawler.curl.config import Option, format_option
from stateful_crawler.curl.options import OPTIONS, CurlOption
from stateful_crawler.curl.values import LineError, check_value

ONE_LINE = st.text(
    st.one_of(
        st.characters(min_codepoint=32, max_codepoint=126),
        st.sampled_from("'\"\\!$`%^&|<>(){}[]*?~#;= \t-@é你😀\u202e\u0085\udc80\udcff"),
    ),
    max_size=12,
)
BODY = st.text(st.sampled_from("'\"\\!$`%^&|<> \t\n\r\v-@é😀\u0085\udc80x"), max_size=12)
TYPICAL = [
    "a:1:127.0.0.1",
    "a:1:b:2",
    "html/x",
    "var/x",
    "a b.pem",
    "1.2",
    "none",
    "4000",
    "CS1",
    "default",
    "1k",
    "7",
]
TYPICAL += [
    "=http",
    "1.5",
    "0",
    "GET",
    "5-9",
    "X-A: 1",
    "X-A;",
    "X-A:",
    "Accept-Encoding: gzip",
    "@file",
    "",
    "a=1&b=2",
    "{[]}",
    "-x",
]
URLS = st.one_of(
    st.sampled_from(["http://h/", "http://h/?a=[1-3]&b={x,y}", "http://h/\\[1\\]", "-url", "http://h/%20%41%"]),
    st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=12).map(lambda text: f"http://h/{text}é"),
)
OUTPUTS = st.none() | st.just("html/a b#1.html") | ONE_LINE.map(lambda text: f"html/{text}x")


def takes(known: CurlOption, value: str) -> bool:
    try:
        check_value(known, value)
        format_option(Option(known.name, value))
    except (LineError, ValueError):
        return False
    return True


def values_of(known: CurlOption) -> st.SearchStrategy[str | bool]:
    """Values that the option takes; any text where it takes any."""
    if known.kind == "flag":
        return st.booleans() if known.negatable else st.just(True)
    typical = st.sampled_from([value for value in TYPICAL if takes(known, value)])
    if known.name in ("header", "proxy-header"):
        return typical | ONE_LINE.map(lambda text: f"X-A: {text}")
    if not takes(known, "any 'text"):
        return typical
    awkward = (BODY if known.kind == "body" else ONE_LINE).filter(lambda value: takes(known, value))
    return typical | awkward


USABLE = [o for o in OPTIONS.values() if o.usable and o.name not in ("url", "output", "disable", "variable")]
OPTION_LISTS = st.lists(
    st.one_of([st.builds(Option, st.just(known.name), values_of(known)) for known in USABLE]), max_size=6
)
