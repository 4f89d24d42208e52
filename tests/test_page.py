"""What the user's parser sees of a saved page: its text, its tree, its JSON, its links."""

# ruff: noqa: RUF001 (the texts are in many scripts, and mean what they look like)

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stateful_crawler.charset import detect_encoding
from stateful_crawler.page import Headers, Page
from stateful_crawler.urls import clean_url

URL = "http://site.example/c/p.html?old=1"


def page(body: bytes | str, content_type: str = "", **options: Any) -> Page:
    headers = [("Content-Type", content_type)] if content_type else []
    options.setdefault("headers", headers)
    options.setdefault("url", URL)
    return Page(body.encode() if isinstance(body, str) else body, **options)


def html(charset: str) -> str:
    return f"text/html; charset={charset}"


def judged(found: Page) -> tuple[str, str]:
    return found.encoding, found.encoding_source


# --- encoding: one label ----------------------------------------------------------------------------------------------

CHINESE, JAPANESE, KOREAN = (
    "天气很好，我们去公园散步。",
    "天気がいいので散歩に行きます。",
    "날씨가 좋아서 공원에 갑니다.",
)
RUSSIAN, POLISH, GREEK = "Сегодня хорошая погода, идём гулять.", "Zażółć gęślą jaźń", "Ο καιρός είναι καλός σήμερα"

# What a page calls it; Python's codec that means the same; a text in it.
ENCODINGS = [
    ("utf-8", "utf-8", CHINESE + RUSSIAN + KOREAN),
    ("gb2312", "gb18030", CHINESE),
    ("gbk", "gb18030", CHINESE + "镕"),
    ("gb18030", "gb18030", CHINESE + "㐀"),
    ("big5", "big5hkscs", "天氣很好，我們去公園散步。"),
    ("shift_jis", "cp932", JAPANESE + "①"),
    ("euc-jp", "euc_jp", JAPANESE),
    ("iso-2022-jp", "iso2022_jp", JAPANESE),
    ("euc-kr", "cp949", KOREAN + "똠"),
    ("windows-1251", "cp1251", RUSSIAN),
    ("koi8-r", "koi8-r", RUSSIAN),
    ("iso-8859-1", "cp1252", "déjà vu für 5 €"),
    ("windows-1250", "cp1250", POLISH),
    ("iso-8859-2", "iso8859-2", POLISH),
    ("iso-8859-7", "iso8859-7", GREEK),
    ("windows-1255", "cp1255", "מזג האוויר יפה היום"),
    ("windows-1256", "cp1256", "الطقس جميل اليوم"),
    ("iso-8859-9", "cp1254", "Bugün hava güzel, ığşİ"),
    ("tis-620", "cp874", "วันนี้อากาศดี"),
]


@pytest.mark.case("C037")
@pytest.mark.parametrize(("label", "codec", "text"), ENCODINGS, ids=[row[0] for row in ENCODINGS])
def test_each_encoding_is_read_by_its_label_in_header_meta_and_declaration(label: str, codec: str, text: str) -> None:
    body = f"<p>{text}</p>"
    for markup, content_type, source in (
        (body, html(label), "header"),
        (body, f'text/html;charset="{label.upper()}"', "header"),
        (f"<meta charset='{label}'>{body}", "text/html", "meta"),
        (f'<META http-equiv=content-type content="text/html; charset={label}">{body}', "", "meta"),
        (f'<?xml version="1.0" encoding="{label}"?><r>{body}</r>', "application/xml", "meta"),
    ):
        found = page(markup.encode(codec), content_type)
        assert judged(found) == (codec, source), markup
        assert found.text == markup
        assert found.css("p::text").getall() == [text]


@pytest.mark.parametrize(
    ("label", "codec"),
    [("utf-16le", "utf-16-le"), ("utf-16be", "utf-16-be"), ("utf-16", "utf-16-le"), ("utf-16", "utf-16-be")],
)
def test_utf_16_by_header_alone(label: str, codec: str) -> None:
    found = page(f"<p>{CHINESE}</p>".encode(codec), html(label))
    assert judged(found) == (codec, "header")
    assert found.css("p::text").get() == CHINESE


@pytest.mark.parametrize("declared", [html("utf-16"), html("utf-16-le"), "text/html"])
def test_a_plain_page_that_calls_itself_utf_16_is_not_read_as_that(declared: str) -> None:
    found = page(f"<meta charset=utf-16><p>{CHINESE}</p>", declared)
    assert found.css("p::text").get() == CHINESE
    assert found.encoding == "utf-8"


@pytest.mark.case("C035")
@pytest.mark.parametrize(
    ("mark", "codec"),
    [
        (b"\xef\xbb\xbf", "utf-8"),
        (b"\xff\xfe", "utf-16-le"),
        (b"\xfe\xff", "utf-16-be"),
        (b"\xff\xfe\0\0", "utf-32-le"),
        (b"\0\0\xfe\xff", "utf-32-be"),
    ],
)
@pytest.mark.parametrize("declared", ["", html("cp1251"), html("utf-8"), html("gbk")])
def test_a_byte_order_mark_beats_every_label_and_is_no_text(mark: bytes, codec: str, declared: str) -> None:
    markup = "<meta charset=big5><p>Привет!</p>"
    found = page(mark + markup.encode(codec), declared)
    assert judged(found) == (codec, "bom")
    assert found.text == markup
    assert found.css("p::text").get() == "Привет!"
    assert found.body.startswith(mark)


def test_two_marks_as_joined_files_have_them_are_no_text_either() -> None:
    assert page("\ufeff\ufeff<p>x</p>").text == "<p>x</p>"


@pytest.mark.case("C037")
@pytest.mark.parametrize(
    "body",
    [
        "<p>中文镕</p>".encode("gbk"),
        "<meta charset=gb2312><p>中文镕</p>".encode("gbk"),
        "<p>中文镕㐀</p>".encode("gb18030"),
    ],
)
def test_gb2312_means_gb18030(body: bytes) -> None:
    found = page(body, "text/html" if b"meta" in body else html("gb2312"))
    assert found.text == body.decode("gb18030")
    assert found.encoding == "gb18030"


def test_gbk_has_the_euro_sign_of_windows() -> None:
    assert page("<p>售价：".encode("gbk") + b"\x80 5</p>", html("gbk")).css("p::text").get() == "售价：€ 5"


@pytest.mark.case("C041")
@pytest.mark.parametrize(
    "declaration",
    [
        '<meta httpequiv="ContentType" content="text/html; charset=gbk" />',
        "<meta charset = gbk>",
        "< meta charset='gbk'/>",
    ],
)
def test_a_clumsy_meta_is_understood(declaration: str) -> None:
    found = page(f"{declaration}<p>中文</p>".encode("gbk"))
    assert judged(found) == ("gb18030", "meta")
    assert found.css("p::text").get() == "中文"


@pytest.mark.case("C041")
def test_a_meta_behind_the_first_kilobytes_counts_where_the_page_is_not_utf_8() -> None:
    late = f"<!-- {'x' * 5000} --><meta charset=gbk><p>中文</p>"
    assert judged(page(late.encode("gbk"))) == ("gb18030", "meta")
    assert judged(page(late.encode())) == ("utf-8", "utf-8")


def test_a_meta_in_a_comment_does_not_count() -> None:
    assert judged(page(f"<!-- <meta charset=gbk> --><p>{CHINESE}</p>")) == ("utf-8", "utf-8")


# --- encoding: labels that contradict each other, or the bytes --------------------------------------------------------

GBK_PAGE = "<meta charset=gbk><p>中文</p>".encode("gbk")
UTF_8_PAGE = "<meta charset=utf-8><p>中文</p>".encode()


@pytest.mark.case("C039")
@pytest.mark.parametrize("latin", ["iso-8859-1", "ISO-8859-1", "latin1", "us-ascii", "windows-1252", "cp1252"])
@pytest.mark.parametrize(("body", "encoding"), [(GBK_PAGE, "gb18030"), (UTF_8_PAGE, "utf-8")])
def test_a_latin_1_header_gives_way_to_a_meta(latin: str, body: bytes, encoding: str) -> None:
    found = page(body, html(latin))
    assert judged(found) == (encoding, "meta")
    assert found.css("p::text").get() == "中文"


def test_a_latin_1_header_holds_where_the_page_says_nothing_or_the_same() -> None:
    body = "<p>déjà</p>".encode("latin-1")
    assert judged(page(body, html("iso-8859-1"))) == ("cp1252", "header")
    assert judged(page(b"<meta charset=latin1>" + body, html("iso-8859-1"))) == ("cp1252", "header")
    assert judged(page(b"<p>plain</p>", html("iso-8859-1"))) == ("cp1252", "header")


def test_a_latin_1_header_holds_against_a_meta_that_does_not_fit() -> None:
    body = b"<meta charset=utf-8>" + ("<p>déjà été, où ça</p>" * 9).encode("latin-1")
    found = page(body, html("iso-8859-1"))
    assert judged(found) == ("cp1252", "header")
    assert found.css("p::text").get() == "déjà été, où ça"


def test_a_latin_1_header_gives_way_to_bytes_that_are_utf_8() -> None:
    found = page('{"город": "Москва"}', "application/json; charset=ISO-8859-1")
    assert judged(found) == ("utf-8", "utf-8")
    assert found.json() == {"город": "Москва"}


@pytest.mark.parametrize(
    ("body", "header", "encoding"),
    [
        (f"<meta charset=koi8-r><p>{RUSSIAN}</p>".encode("cp1251"), "windows-1251", "cp1251"),
        (f"<meta charset=iso-8859-1><p>{CHINESE}</p>".encode(), "utf-8", "utf-8"),
        (f"<meta charset=gbk><p>{CHINESE}</p>".encode(), "utf-8", "utf-8"),
        (f"<meta charset=utf-8><p>{CHINESE}</p>".encode("gbk"), "gbk", "gb18030"),
    ],
)
def test_any_other_header_that_reads_well_beats_a_meta(body: bytes, header: str, encoding: str) -> None:
    found = page(body, html(header))
    assert judged(found) == (encoding, "header")
    assert found.css("p::text").get() == body.decode(encoding).split("<p>")[1].removesuffix("</p>")


@pytest.mark.parametrize("header", ["utf-8", "utf-16-le", "iso-2022-jp"])
def test_a_header_that_cannot_be_true_gives_way_to_a_meta(header: str) -> None:
    found = page(GBK_PAGE, html(header))
    assert judged(found) == ("gb18030", "meta")
    assert found.css("p::text").get() == "中文"


def test_a_meta_that_cannot_be_true_gives_way_to_valid_utf_8() -> None:
    assert judged(page(f"<meta charset=big5><p>{RUSSIAN}</p>")) == ("utf-8", "utf-8")


def test_one_broken_character_does_not_unseat_a_label() -> None:
    titles = f"<p>{CHINESE}</p>" * 9
    cut = titles.encode() + "<p>天".encode()[:-1] + b"...</p>"
    for latin_meta in (b"", b"<meta charset=iso-8859-1>"):
        found = page(latin_meta + cut, html("utf-8"))
        assert judged(found) == ("utf-8", "header")
        assert found.css("p::text").getall() == [CHINESE] * 9 + ["\ufffd..."]
    cut = titles.encode("gbk") + b"<p>\xcc...</p>"
    assert judged(page(b"<meta charset=gbk>" + cut, html("iso-8859-1"))) == ("gb18030", "meta")


def test_stray_bytes_become_the_replacement_character() -> None:
    found = page(b"<p>a\xffb\xc3</p>", html("utf-8"))
    assert judged(found) == ("utf-8", "header")
    assert found.text == "<p>a\ufffdb\ufffd</p>"


@pytest.mark.parametrize("content_type", [html("utf-8"), html("iso-2022-jp"), html("klingon"), "", "text/html"])
def test_a_page_full_of_bytes_that_its_label_does_not_have_is_guessed(content_type: str) -> None:
    sentence = "昨日は友達と一緒に新しい映画を見に行きました。とても面白かったです。"
    found = page(f"<p>{sentence}</p>".encode("cp932") * 5, content_type)
    assert judged(found) == ("cp932", "guess")
    assert found.css("p::text").get() == sentence


@pytest.mark.parametrize(
    ("codec", "sentence"),
    [
        ("gb18030", "中国政府网今日发布消息，各地春运工作平稳有序，旅客出行总体顺畅。"),
        ("big5hkscs", "行政院今天表示，這項計畫將會在明年開始實施，並且持續進行三年。"),
        ("euc_jp", "昨日は友達と一緒に新しい映画を見に行きました。とても面白かったです。"),
        ("cp949", "어제는 친구와 함께 새로운 영화를 보러 갔습니다. 아주 재미있었어요."),
        ("cp1251", "Вчера мы с друзьями ходили смотреть новый фильм, он был очень интересным."),
        ("cp1252", "Hier nous sommes allés voir un nouveau film, il était très intéressant, même drôle."),
    ],
)
def test_a_page_without_any_label_is_guessed(codec: str, sentence: str) -> None:
    broken = b"<p>" + sentence.encode(codec)[:7] + b"\xa1\xff</p>" if codec == "gb18030" else b""
    found = page(b"<h1>" + broken + f"<p>{sentence}</p>\n".encode(codec) * 20)
    assert judged(found) == (codec, "guess")
    assert found.css("p::text").getall()[-1] == sentence


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        ("<p>日本語</p>".encode("utf-16-le"), "utf-16-le"),
        ("<!doctype html><p>日本語</p>".encode("utf-16-be"), "utf-16-be"),
        ("<p>日本語</p>".encode("iso2022_jp"), "iso2022_jp"),
    ],
)
def test_encodings_that_pass_for_utf_8_are_known_by_their_shape(body: bytes, encoding: str) -> None:
    found = page(body)
    assert judged(found) == (encoding, "guess")
    assert found.css("p::text").get() == "日本語"


@pytest.mark.parametrize(
    "label",
    [
        *("klingon", "utf-7", "rot13", "hex", "zlib", "idna", "punycode", "unicode_escape", "raw_unicode_escape"),
        *("undefined", "cp037", "mbcs", "aliases", "x" * 3000, "", "charset"),
    ],
)
def test_names_that_no_page_is_written_in_are_passed_over(label: str) -> None:
    assert judged(page(GBK_PAGE, html(label))) == ("gb18030", "meta")
    assert judged(page(f"<meta charset={label}><p>\\ud800+ADw-</p>", html(label))) == ("utf-8", "utf-8")


def test_an_empty_page_and_a_picture() -> None:
    assert judged(page(b"")) == ("utf-8", "utf-8")
    assert page(b"").css("p") == []
    picture = page(b"\xff\xd8\xff\xe0\0\x10JFIF" + bytes(range(256)) * 40, "image/jpeg")
    assert picture.encoding_source == "guess"
    assert "\ufffd" in picture.text


def test_without_headers_nothing_is_missed() -> None:
    assert judged(Page(b"x", url=URL)) == ("utf-8", "utf-8")


@pytest.mark.parametrize(("wish", "codec"), [("big5", "big5hkscs"), ("GBK", "gb18030"), ("latin-1", "cp1252")])
def test_the_users_own_choice_beats_all(wish: str, codec: str) -> None:
    found = page(UTF_8_PAGE, html("utf-8"), encoding=wish)
    assert judged(found) == (codec, "given")
    assert found.text.startswith("<meta")


@pytest.mark.parametrize("codec", ["utf-8", "utf-16-le", "utf-16-be"])
def test_the_mark_is_dropped_from_the_users_own_choice_too(codec: str) -> None:
    wish = codec.removesuffix("-le").removesuffix("-be")
    found = page("\ufeff<p>中文</p>".encode(codec), encoding=wish)
    assert found.text == "<p>中文</p>"
    assert judged(found) == (codec, "given")


@pytest.mark.parametrize("wish", ["klingon", "", "hex", "unicode_escape"])
def test_a_choice_that_is_no_encoding_is_refused_at_once(wish: str) -> None:
    with pytest.raises(ValueError, match="is not an encoding of pages"):
        page(b"", encoding=wish)


def test_detect_encoding_is_what_the_page_uses() -> None:
    assert detect_encoding(GBK_PAGE, html("latin-1")) == ("gb18030", "meta")
    assert detect_encoding(b"", "") == ("utf-8", "utf-8")


def test_a_labelled_page_does_not_pay_for_the_guesser() -> None:
    code = (
        "import sys; from stateful_crawler.page import Page\n"
        "assert Page('é'.encode(), url='http://h/').text == 'é'\n"
        "assert 'charset_normalizer' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


# --- any bytes, any label ---------------------------------------------------------------------------------------------

LABELS = [label for label, _, _ in ENCODINGS] + [
    *(
        "utf-16",
        "utf-16-le",
        "utf-16-be",
        "utf-32",
        "utf-7",
        "hz",
        "iso-2022-kr",
        "big5-hkscs",
        "utf-8-sig",
        "euc_jis_2004",
    ),
    *("hex", "idna", "unicode_escape", "punycode", "cp037", "nonsense", "\u0130", "mac_cyrillic", "johab"),
]
labels = st.sampled_from(LABELS)
content_types = st.one_of(st.text(), labels.map(html), labels.map(lambda label: f"text/xml; charset={label}"))
pieces = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [b"<", b">", b"\0", b"&#xD800;", b"&#0;", b"<?xml ", b"<base href=//[>", b"\x1b$B", b"\xff\xfe", b"<!--"]
    ),
    labels.map(lambda label: f"<meta charset={label}>".encode()),
    labels.map(lambda label: f'<?xml version="1.0" encoding="{label}"?><r>'.encode()),
    st.tuples(st.text(max_size=30), labels).map(lambda pair: pair[0].encode("utf-16-le", "surrogatepass")),
)
bodies = st.one_of(st.binary(), st.lists(pieces, max_size=8).map(b"".join))


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(body=bodies, content_type=content_types)
@example(body=b"\xff\xfe", content_type="")
@example(body=b"<r>&#xD800;&#57343;x</r>", content_type="text/xml")
def test_no_page_raises_whatever_it_holds(body: bytes, content_type: str) -> None:
    found = page(body, content_type)
    assert not found.text.startswith("\ufeff")
    found.text.encode()  # no half of a surrogate pair
    assert found.encoding_source in {"bom", "header", "meta", "utf-8", "guess"}
    assert judged(found) == detect_encoding(body, content_type)
    found.selector.xpath("//text()|//@*|//comment()").getall()
    assert found.re("x{1000}") == []
    assert found.urljoin("/x") == "http://site.example/x" or b"base" in body


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    href=st.one_of(st.text(), st.text("/.\\:?#@[]% abht", max_size=12)),
    encoding=st.sampled_from(["utf-8", "gbk", "utf-16"]),
)
@example(href="#\x08", encoding="utf-8")
def test_no_link_becomes_a_url_that_could_not_be_sent(href: str, encoding: str) -> None:
    try:
        url = page(b"", encoding=encoding).urljoin(href)
    except ValueError as error:
        assert "is not a valid URL" in str(error)
        return
    if url.startswith("http"):
        assert url.isascii()
        assert url.isprintable()
        assert " " not in url


# --- the tree ---------------------------------------------------------------------------------------------------------


def test_css_xpath_and_re_ask_the_selector() -> None:
    found = page("<ul><li class=a>price 12</li><li>price 30</li></ul>")
    assert found.css("li.a::text").get() == "price 12"
    assert found.xpath("//li[@class=$kind]/text()", kind="a").getall() == ["price 12"]
    assert found.re(r"price (\d+)") == ["12", "30"]
    assert found.re_first(r"price (\d+)") == "12"
    assert found.re_first("none") is None
    assert found.selector is found.selector
    assert found.text is found.text


@pytest.mark.case("C043")
def test_nothing_is_lost_behind_a_nul() -> None:
    found = page(b'<html><body><p>a\0b</p><h1>after</h1><a href="/x\0y">l</a></body></html>')
    assert found.css("p::text").get() == "ab"
    assert found.css("h1::text").get() == "after"
    assert found.urljoin(found.css("a").attrib["href"]) == "http://site.example/xy"
    assert found.urljoin("/x\0y") == "http://site.example/x%00y"
    assert "\0" in found.text


def test_control_characters_lose_nothing() -> None:
    found = page("<p>a\x01\x0b\x1b\x85\uffffb</p><p>after</p>")
    assert len(found.css("p::text").getall()) == 2


@pytest.mark.case("C045")
def test_nothing_is_lost_behind_eleven_megabytes_of_script() -> None:
    found = page(b"<html><body><h1>pre</h1><script>" + b"a" * 11_000_000 + b"</script><h1>tail</h1></body></html>")
    assert found.css("h1::text").getall() == ["pre", "tail"]
    assert found.xpath("string-length(//script)").get() == "11000000.0"


@pytest.mark.parametrize("depth", [300, 2044, 2046, 5_000, 60_000])
@pytest.mark.parametrize("close", ["</div>", ""], ids=["closed", "left open"])
def test_nothing_is_lost_at_any_depth(depth: int, close: str) -> None:
    nest = f"{'<div>' * depth}<p>deep &amp; é{close * depth}<h1 id=t>tail</h1>"
    found = page(f"<!doctype html><title>t</title><b>\0</b>{nest}<!--c-->")
    assert found.css("title::text").get() == "t"
    assert found.css("p::text").get() == "deep & é"
    assert found.css("h1#t::text").get() == "tail"
    assert len(found.css("div")) == depth
    assert found.xpath("//comment()").getall() == ["<!--c-->"]


def test_depth_is_noticed_behind_any_number_of_faults_in_the_markup() -> None:
    assert page("</p></b><x &amp &foo <<a" * 500 + "<div>" * 3000 + "<h6>tail</h6>").css("h6::text").get() == "tail"


def test_deep_xml_is_read_as_html_rather_than_cut() -> None:
    found = page(f'<?xml version="1.0"?><r>{"<a>" * 3000}{"</a>" * 3000}<tail>x</tail></r>', "application/xml")
    assert found.css("tail::text").get() == "x"


FEED = '<?xml version="1.0"?>\n<rss><item><pubDate>now</pubDate><link>http://h/1</link></item></rss>'


@pytest.mark.parametrize("content_type", ["application/rss+xml", "text/xml; charset=utf-8", "", "text/html"])
def test_xml_is_read_as_xml(content_type: str) -> None:
    found = page(FEED, content_type)
    assert found.css("pubDate::text").get() == "now"
    assert found.css("link::text").get() == "http://h/1"


@pytest.mark.parametrize("content_type", ["application/xhtml+xml", "text/xml", "text/html", ""])
def test_xhtml_is_read_as_html(content_type: str) -> None:
    markup = '<?xml version="1.0"?>\n<html xmlns="http://www.w3.org/1999/xhtml"><body><p>x&nbsp;y</p></body></html>'
    assert page(markup, content_type).css("p::text").get() == "x\xa0y"


def test_json_and_text_have_a_tree_too() -> None:
    assert page('{"a": "<b>x</b>"}', "application/json").css("b::text").get() == "x"
    assert page("just text", "text/plain").css("::text").getall() == ["just text"]


# --- headers, names, meta ---------------------------------------------------------------------------------------------


def test_headers_keep_order_and_duplicates_and_know_names_in_any_case() -> None:
    pairs = [("Content-Type", "text/html"), ("Link", "</a>"), ("ETag", '"1"'), ("link", "</b>")]
    headers = Headers(pairs)
    assert headers["content-type"] == headers["CONTENT-TYPE"] == "text/html"
    assert headers["LINK"] == "</a>"
    assert headers.get_all("link") == ["</a>", "</b>"]
    assert headers.get("etag") == '"1"'
    assert headers.get("x-none") is None
    assert headers.get("x-none", "0") == "0"
    assert headers.get_all("x-none") == []
    assert "etag" in headers
    assert "x-none" not in headers
    assert 7 not in headers
    assert list(headers) == pairs
    assert len(headers) == 4
    assert "ETag" in repr(headers)
    with pytest.raises(KeyError, match="x-none"):
        headers["x-none"]


def test_headers_may_come_as_lists_as_json_has_them() -> None:
    found = Page(GBK_PAGE, url=URL, headers=[["content-TYPE", html("gb2312")]])
    assert found.encoding_source == "header"
    assert list(found.headers) == [("content-TYPE", "text/html; charset=gb2312")]


def test_a_page_knows_where_it_comes_from() -> None:
    found = page(b"x", status=206, name="books-7", meta={"page": 7})
    assert (found.url, found.status, found.name, found.meta["page"], found.body) == (URL, 206, "books-7", 7, b"x")
    assert repr(found) == f"<Page books-7 206 {URL}>"
    assert page(b"").meta == {}


# --- json -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
def test_json_is_read_with_the_pages_encoding(codec: str) -> None:
    content_type = "application/json; charset=gbk" if codec == "gb18030" else "application/json"
    assert page('{"名": ["值", 1.5, null]}'.encode(codec), content_type).json() == {"名": ["值", 1.5, None]}


def test_json_that_is_none_says_where_and_what_it_is() -> None:
    with pytest.raises(ValueError, match="not JSON") as caught:
        page('{"a": 1,\n "b": oops}').json()
    assert str(caught.value) == (
        f'{URL} is not JSON: Expecting value: line 2 column 7 (char 15); it begins \'{{"a": 1,\\n "b": oops}}\''
    )
    with pytest.raises(ValueError, match=r"line 1 column 1 .* it begins '<html>"):
        page("<html>" + "please log in " * 99).json()


@pytest.mark.parametrize("body", ["", "[" * 200_000, "9" * 5000, "\x00", b"\xff\xff"])
def test_json_raises_nothing_but_value_error(body: str | bytes) -> None:
    with pytest.raises(ValueError, match="is not JSON"):
        page(body).json()


# --- links ------------------------------------------------------------------------------------------------------------

LINKS = [
    ("next.html", "/c/next.html"),
    (" http://127.0.0.1:8/abs ", "http://127.0.0.1:8/abs"),
    ("\n   /nl\n", "/nl"),
    ("\x00\x1f /ctl \x0b", "/ctl"),
    ("/a\n b", "/a%20b"),
    ("/a\r\n\tb", "/ab"),
    ("/sp ace?a b", "/sp%20ace?a%20b"),
    ("HTTP://127.0.0.1:8/up", "http://127.0.0.1:8/up"),
    ("http://SITE.Example/Up", "/Up"),
    ("//127.0.0.1:8/rel", "http://127.0.0.1:8/rel"),
    ("///127.0.0.1:8/rel", "http://127.0.0.1:8/rel"),
    ("http:foo", "/c/foo"),
    ("http:/foo", "/foo"),
    ("https:other.example", "https://other.example/"),
    ("https:/other.example/x", "https://other.example/x"),
    ("http:///other.example/x", "http://other.example/x"),
    ("http://other.example", "http://other.example/"),
    ("http://other.example?q", "http://other.example/?q"),
    ("?page=2", "/c/p.html?page=2"),
    ("?", "/c/p.html?"),
    ("", "/c/p.html?old=1"),
    ("#top", "/c/p.html?old=1#top"),
    ("..", "/"),
    ("../../../x", "/x"),
    ("./a/./b/../d/.", "/c/a/d/"),
    ("%2e%2E/x", "/x"),
    ("http://other.example/a/../b?/../", "http://other.example/b?/../"),
    ("/.", "/"),
    ("/..x/.y/...", "/..x/.y/..."),
    ("/web/http://old.example//a", "/web/http://old.example//a"),
    ("\\\\other.example\\x?\\", "http://other.example/x?%5C"),
    ("a\\b", "/c/a/b"),
    ("/100%", "/100%"),
    ("/a%20b%2F%e4", "/a%20b%2F%e4"),
    ("/Special:Search", "/Special:Search"),
    ("http://user:pw@other.example:81/", "http://user:pw@other.example:81/"),
    ("http://[::1]:81/x", "http://[::1]:81/x"),
    ("http://bücher.example/ü?ü#ü", "http://xn--bcher-kva.example/%C3%BC?%C3%BC#%C3%BC"),
    ('/"<>', "/%22%3C%3E"),
    ("mailto:a@example.org", "mailto:a@example.org"),
    ("java\nscript:void(0)", "javascript:void(0)"),
    ("tel:1", "tel:1"),
]


@pytest.mark.case("C107")
@pytest.mark.parametrize(("href", "url"), LINKS)
def test_a_link_leads_where_a_browser_would_go(href: str, url: str) -> None:
    expected = "http://site.example" + url if url.startswith("/") else url
    assert page(b"").urljoin(href) == expected
    assert page(b"").urljoin(expected) == expected


ENCODED = [
    "/a%2376",
    "/100%25",
    "/100%",
    "/a%2Fb",
    "/a%3Fb",
    "/%7euser/%e4",
    "/?q=a%26b%3Dc",
    "/?q=a+b",
    "/?q=a%20b",
    "/a;p%3B",
    "/a%2fb%23?c=%25&d=%2B",
    "/%zz",
    "/%2",
    "/?%",
]


@pytest.mark.case("C103")
@pytest.mark.parametrize("path", ENCODED)
def test_what_is_percent_encoded_stays_so_and_means_the_same(path: str) -> None:
    """As a link, and as a url of create.py; and once more, which changes nothing."""
    url = "http://h.example" + path
    assert page(b"").urljoin(url) == clean_url(url) == url
    assert clean_url(clean_url(url + " é")) == clean_url(url + " é")


def test_segments_without_a_name_are_kept() -> None:
    assert page(b"", url="http://h/web/http://old/a/b").urljoin("c") == "http://h/web/http://old/a/c"
    assert page(b"", url="http://h//x//y").urljoin("../z") == "http://h//x/z"
    assert page(b"", url="http://h").urljoin("z") == "http://h/z"


@pytest.mark.parametrize(
    "href", ["http://", "//", "//?x", "http://a b/", "http://%41/", "http://[x/", "http://h:port/"]
)
def test_what_is_no_url_is_named(href: str) -> None:
    with pytest.raises(ValueError, match="is not a valid URL") as caught:
        page(b"").urljoin(href)
    assert repr(href) in str(caught.value)


def test_nothing_is_relative_to_a_page_without_http() -> None:
    with pytest.raises(ValueError, match="is not a valid URL"):
        page(b"", url="about:blank").urljoin("x")


@pytest.mark.parametrize(
    ("encoding", "query"),
    [
        ("utf-8", "%E4%B8%AD%F0%9F%98%80"),
        ("gbk", "%D6%D0%949%FC6"),
        ("big5", "%A4%A4%26%23128512%3B"),
        ("windows-1252", "%26%2320013%3B%26%23128512%3B"),
        ("utf-16", "%E4%B8%AD%F0%9F%98%80"),
    ],
)
def test_the_query_is_in_the_pages_encoding_and_the_path_is_not(encoding: str, query: str) -> None:
    found = page(b"", encoding=encoding).urljoin("/中?q=中😀&x=%20")
    assert found == f"http://site.example/%E4%B8%AD?q={query}&x=%20"


@pytest.mark.parametrize(
    ("head", "url"),
    [
        ('<base href="http://other.example/d/e">', "http://other.example/d/x"),
        ('<BASE TARGET=_top HREF="/d/">', "http://site.example/d/x"),
        ('<base href=" d/\n">', "http://site.example/c/d/x"),
        ('<base target=_top><base href="/1/"><base href="/2/">', "http://site.example/1/x"),
        ('<base href="//other.example">', "http://other.example/x"),
        ('<base href="">', "http://site.example/c/x"),
        ('<base href="ftp://other.example/">', "http://site.example/c/x"),
        ('<base href="javascript:x">', "http://site.example/c/x"),
        ('<base href="http://[">', "http://site.example/c/x"),
        ('<!-- <base href="/d/"> -->', "http://site.example/c/x"),
        ("<script>'<base href=\"/d/\">'</script>", "http://site.example/c/x"),
    ],
)
@pytest.mark.parametrize("codec", ["utf-8", "utf-16"])
def test_links_are_relative_to_the_base_element(head: str, url: str, codec: str) -> None:
    assert page(f"<html><head>{head}</head>".encode(codec)).urljoin("x") == url


# --- follow -----------------------------------------------------------------------------------------------------------


def task(url: str, options: Mapping[str, object]) -> object:
    return url, dict(options)


PAGE = page(
    """<a class=next href=" /p/2 ">next</a> <a class=anchor name=x>x</a> <div>d</div>
    <map><area href="?area=1"></map> <a class=mail href="mailto:a@example.org">mail</a>""",
    follow=task,
)


def test_follow_gives_the_task_that_was_made_of_url_and_options() -> None:
    options: dict[str, Any] = {"name": "p2", "meta": {"n": 2}, "max_time": "5", "user-agent": "x"}
    assert PAGE.follow("/p/2", **options) == ("http://site.example/p/2", options)
    assert PAGE.follow("/p/2") == ("http://site.example/p/2", {})


def test_follow_takes_a_selector() -> None:
    assert PAGE.follow(PAGE.css("a.next")[0]) == ("http://site.example/p/2", {})
    assert PAGE.follow(PAGE.css("a.next::attr(href)")[0]) == ("http://site.example/p/2", {})
    assert PAGE.follow(PAGE.css("area")[0]) == ("http://site.example/c/p.html?area=1", {})


@pytest.mark.parametrize(
    "href", [href for href, url in LINKS if url.startswith(("/", "http")) and href[:1] not in ("", "#")]
)
def test_follow_goes_where_urljoin_points(href: str) -> None:
    assert PAGE.follow(href) == (PAGE.urljoin(href), {})


@pytest.mark.case("C107")
@pytest.mark.parametrize("href", ["", "  \n", "#", "#x", " #x"])
def test_follow_refuses_what_leads_to_no_other_page(href: str) -> None:
    with pytest.raises(ValueError, match="leads to no other page") as caught:
        PAGE.follow(href)
    assert repr(href) in str(caught.value)


@pytest.mark.case("C029", "C107")
@pytest.mark.parametrize(
    "href", ["mailto:a@example.org", "javascript:void(0)", "tel:1", "data:,x", "ftp://h/x", "java\nscript:x"]
)
def test_follow_refuses_other_schemes(href: str) -> None:
    with pytest.raises(ValueError, match="only http and https") as caught:
        PAGE.follow(href)
    assert repr(href) in str(caught.value)


def test_follow_refuses_a_url_without_host_and_cuts_what_is_long() -> None:
    with pytest.raises(ValueError, match="is not a valid URL"):
        PAGE.follow("http://")
    with pytest.raises(ValueError, match="only http") as caught:
        PAGE.follow("data:" + "x" * 1_000_000)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("query", ["a.anchor", "div"])
def test_follow_refuses_an_element_without_href(query: str) -> None:
    with pytest.raises(ValueError, match="has no href"):
        PAGE.follow(PAGE.css(query)[0])


@pytest.mark.parametrize("link", [PAGE.css("a"), None, 7, b"/p/2"], ids=["several", "none", "number", "bytes"])
def test_follow_wants_one_link(link: Any) -> None:
    with pytest.raises(TypeError, match="wants one link"):
        PAGE.follow(link)


def test_follow_says_so_where_there_is_no_crawl() -> None:
    with pytest.raises(RuntimeError, match="built without follow="):
        page(b"").follow("/x")


def test_every_pair_of_labels_reads_the_page_when_one_of_them_is_right() -> None:
    """Header and meta contradict each other in all ways: the text is right when the header's (or, behind a latin-1
    header, the meta's) encoding is the page's."""
    multi = [row for row in ENCODINGS if row[1] in {"utf-8", "gb18030", "big5hkscs", "cp932", "euc_jp", "cp949"}]
    for (label, codec, text), (wrong, _, _) in itertools.product(multi, ENCODINGS):
        body = f"<meta charset={wrong}><p>{text}</p>".encode(codec)
        assert page(body, html(label)).css("p::text").get() == text, (label, wrong)
        body = f"<meta charset={label}><p>{text}</p>".encode(codec)
        assert page(body, html("iso-8859-1")).css("p::text").get() == text, label
