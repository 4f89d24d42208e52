"""A Chinese local paper, put online over twenty years by people who each had their own idea of a charset label.

The bytes are GBK (some GB18030, some UTF-8); the labels are right, wrong or missing, see `ARTICLES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from string import Template
from typing import NamedTuple

from stateful_crawler.sites.server import NOT_FOUND, Response

ABOUT = "10 Chinese news pages in GBK, GB18030 and UTF-8, with right, wrong and missing charset labels"
FULL_WIDTH = str.maketrans(",:", "\uff0c\uff1a")  # the texts below are typed with the ASCII ones


class Article(NamedTuple):
    """One story, and how its page is sent: `encoding` of the bytes, `header` charset ("" for none), `meta` tag."""

    day: str
    title: str
    reporter: str
    paragraphs: tuple[str, ...]
    encoding: str
    header: str
    meta: str


def _article(
    day: str, title: str, reporter: str, text: str, *, encoding: str, header: str = "", meta: str = ""
) -> Article:
    paragraphs = tuple(text.translate(FULL_WIDTH).split("\n"))
    return Article(day, title.translate(FULL_WIDTH), reporter, paragraphs, encoding, header, meta)


ARTICLES = (
    _article(  # the label is right
        "2026-03-02", "青溪镇图书馆延长夜间开放", "沈知遥",
        "青溪镇图书馆从本周起每天开放到晚上十点,方便下班后的居民借书。\n"
        "馆长说,夜里来得最多的不是学生,而是在码头值班的船工。",
        encoding="gbk", header="gbk",
    ),
    _article(  # labelled gb2312, with characters that only GBK has
        "2026-03-05", "老桥修好了,桥头的面馆也回来了", "林喆",
        "经过四个月的加固,镇东的石桥昨天重新通车。主持工程的陈堃说,桥上的每块石头都编了号。\n"
        "面馆老板丁镕在门口贴了一个大大的囍字,头一天卖出三百碗面。",
        encoding="gbk", header="gb2312",
    ),
    _article(  # the server's own default label contradicts the page, and the page is right
        "2026-03-09", "中学生为河里的白鹭建了观察站", "周以宁",
        "三中的十二名学生用旧木料在河边搭起一座小屋,记录白鹭每天的来去。\n"
        "他们发现,雨后的清晨是白鹭最多的时候,最多的一天有四十七只。",
        encoding="gbk", header="ISO-8859-1", meta='<meta charset="gbk">',
    ),
    _article(  # only the page says it
        "2026-03-14", "渡轮改用电力,船票不涨价", "沈知遥",
        "往返南岸的渡轮昨天换上了电动机,乘客说船上终于可以小声说话了。\n"
        "轮渡公司表示,省下的油钱将用来修理候船室的屋顶。",
        encoding="gbk", meta='<meta charset="gbk">',
    ),
    _article(  # only the page says it, in the old form and too narrowly
        "2026-03-18", "集市上的修表人", "林喆",
        "王旸在集市上修了三十年表。他说,坏得最多的是闹钟,因为人们总拿它出气。\n"
        "问他最喜欢哪一块,他从怀里掏出一块停了的怀表,说它每天准两次。",
        encoding="gbk", meta='<meta http-equiv="Content-Type" content="text/html; charset=gb2312">',
    ),
    _article(  # nobody says anything
        "2026-03-21", "今年的春茶晚了一个星期", "周以宁",
        "因为二月的寒潮,山上的茶树比往年晚发芽,采茶的人也就多睡了一个星期的好觉。\n"
        "合作社的会计估计,今年的产量会少一成,但是味道比去年更好。\n"
        "茶农们说,天气的事情谁也说不准,只要雨水按时来,夏茶还可以补回来。",
        encoding="gbk",
    ),
    _article(  # the new system: UTF-8, and it says so
        "2026-03-25", "镇上第一座屋顶菜园丰收", "何青禾",
        "粮站的屋顶上长出了番茄、黄瓜和一棵没有人记得种过的南瓜。\n"
        "第一批蔬菜送给了隔壁的养老院,老人们回赠了二十双手套。",
        encoding="utf-8", header="utf-8",
    ),
    _article(  # 㐂 has four bytes, which GB18030 knows and GBK does not
        "2026-03-28", "百年老店㐂寿堂重新开张", "何青禾",
        "关了八年的点心铺㐂寿堂昨天重新开张,招牌上的字是店主的曾祖父写的。\n"
        "第一锅桂花糕出炉时,排队的人一直排到了邮局门口。",
        encoding="gb18030", header="gb18030",
    ),
    _article(  # the same under the oldest label
        "2026-04-01", "邮局征集没有寄出的信", "林喆",
        "青溪邮局请居民送来抽屉里没有寄出的信,已经收到一百六十封。\n"
        "最早的一封写于五十年前,收信人是㐂寿堂的学徒,邮局决定照原地址投递。",
        encoding="gb18030", header="gb2312",
    ),
    _article(  # a byte order mark, which beats the server's wrong label
        "2026-04-04", "气象站的老温度计退休", "周以宁",
        "用了六十一年的温度计昨天从气象站的墙上取下,送进了镇里的陈列室。\n"
        "站长说,它最冷见过零下十九度,最热的那天没有人愿意出门去看它。",
        encoding="utf-8-sig", header="gb2312",
    ),
)  # fmt: skip


def respond(path: str, _query: Mapping[str, str], _visit: int) -> Response:
    """`/` lists the articles, `/1.html` to `/10.html` are they."""
    pages = {f"/{number}.html": article for number, article in enumerate(ARTICLES, 1)}
    if path == "/":
        return Response(_index().encode("gb18030"), content_type="text/html; charset=gbk")
    return _response(pages[path]) if path in pages else NOT_FOUND


def _response(article: Article) -> Response:
    content_type = f"text/html; charset={article.header}" if article.header else "text/html"
    return Response(_page(article).encode(article.encoding), content_type=content_type)


def _page(article: Article) -> str:
    text = "\n".join(f"<p>{escape(paragraph)}</p>" for paragraph in article.paragraphs)
    return PAGE.substitute(article._asdict(), title=escape(article.title), text=text)


def _index() -> str:
    rows = "\n".join(
        f'<li>{article.day} <a href="{number}.html">{escape(article.title)}</a></li>'
        for number, article in enumerate(ARTICLES, 1)
    )
    return INDEX.substitute(rows=rows)


PAGE = Template("""\
<!DOCTYPE html>
<html>
<head>$meta<title>$title - 青溪日报</title></head>
<body>
<article>
<h1>$title</h1>
<p class="byline"><time>$day</time> 记者 <span class="reporter">$reporter</span></p>
<div class="text">
$text
</div>
</article>
</body>
</html>
""")
INDEX = Template("""\
<!DOCTYPE html>
<html>
<head><title>青溪日报</title></head>
<body>
<h1>青溪日报</h1>
<ul class="news">
$rows
</ul>
</body>
</html>
""")
