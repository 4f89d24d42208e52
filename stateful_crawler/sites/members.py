"""A club whose pages are for members: a login form with a token, a session in a cookie, a page that renews it.

Nothing is remembered: a cookie carries its own proof, as with many real sites. So the site stays pure, and a session
ends when its cookie does.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from html import escape
from string import Template
from typing import NamedTuple

from stateful_crawler.sites.server import NOT_FOUND, Asked, Response

ABOUT = "20 members behind a login form with a token (user `reader`, password `open sesame`)"
USER, PASSWORD = "reader", "open sesame"
PAGES, PER_PAGE = 4, 5
NAMES = ("Abara", "Brandt", "Castelo", "Dufour", "Eklund", "Farouk", "Goto", "Hrubá", "Iyer", "Jansen")
TOWNS = ("Aarø", "Dunmere", "Kirkwell", "Tollgate")
MINUTES = "The boat was sold, and the money counted twice."
POSTS = ("treasurer", "librarian", "boatswain", "member", "member")
_HOME = "/members/"  # where the server has us; cookies are for that path
_KEY = b"no secret at all: it stands in a public repository"


class Member(NamedTuple):
    number: int
    name: str
    town: str
    post: str
    since: int


def member(number: int) -> Member:
    """Member `number` of 1 to 20."""
    name = f"{'AE'[number > 10]}. {NAMES[number % len(NAMES)]}"
    return Member(number, name, TOWNS[number * 3 % 4], POSTS[number % 5], 1990 + number * 7 % 30)


def answer(asked: Asked) -> Response:
    """Without a session: 302 to the form from the front page and the lists, 403 from all else that is for members."""
    if asked.path == "/login":
        return _log_in(asked) if asked.method == "POST" else _form(asked.visit)
    if asked.path == "/logout":
        return Response(status=302, location=f"{_HOME}login", cookies=(_cookie("session", "", "Max-Age=0"),))
    generation = _session(asked.cookies)
    if generation is None:
        return _turn_away(asked.path)
    return _for_members(asked, generation)


# ── who may come in ──────────────────────────────────────────────────────────────────────────────────────────────────


def _form(visit: int) -> Response:
    """The form; its token fits the visitor's cookie that is set with it, and no other."""
    visitor = f"v{visit}"
    fields = FORM.substitute(action=f"{_HOME}login", token=_proof("token", visitor))
    return Response(_page("Log in", fields), cookies=(_cookie("visitor", visitor),))


def _log_in(asked: Asked) -> Response:
    visitor = asked.cookies.get("visitor", "")
    if not visitor or not hmac.compare_digest(asked.form.get("token", ""), _proof("token", visitor)):
        return _forbidden("This form is too old, or was not yours")
    if (asked.form.get("user"), asked.form.get("password")) != (USER, PASSWORD):
        return _forbidden("Wrong name or password")
    return Response(status=302, location=_HOME, cookies=(_session_cookie(0),))


def _session(cookies: Mapping[str, str]) -> int | None:
    """How often the session was renewed; None where there is no session."""
    generation, _, proof = cookies.get("session", "").partition(".")
    valid = generation.isdecimal() and proof.isascii() and hmac.compare_digest(proof, _proof("session", generation))
    return int(generation) if valid else None


def _session_cookie(generation: int) -> str:
    return _cookie("session", f"{generation}.{_proof('session', str(generation))}")


def _cookie(name: str, value: str, more: str = "") -> str:
    return f"{name}={value}; Path={_HOME}; HttpOnly" + (f"; {more}" if more else "")


def _proof(kind: str, text: str) -> str:
    return hmac.new(_KEY, f"{kind} {text}".encode(), hashlib.sha256).hexdigest()[:24]


def _turn_away(path: str) -> Response:
    if path in ("/", "/list"):
        return Response(status=302, location=f"{_HOME}login")
    return _forbidden("Members only")


def _forbidden(why: str) -> Response:
    return Response(_page("403", f"<p>{why}.</p>"), status=403)


# ── what members see ─────────────────────────────────────────────────────────────────────────────────────────────────


def _for_members(asked: Asked, generation: int) -> Response:
    kind, _, number = asked.path[1:].partition("/")
    if asked.path == "/":
        links = "".join(f'<li><a class="list" href="list?page={page}">Page {page}</a></li>' for page in _numbers(PAGES))
        more = '<p><a class="renew" href="renew">Renew your stay</a> <a href="logout">Log out</a></p>'
        return Response(_page("Welcome", f"<ul>{links}</ul>{more}"))
    if asked.path == "/list":
        return _list(asked.query.get("page", "1"))
    if kind == "member" and number in map(str, _numbers(PAGES * PER_PAGE)):
        return Response(_member_page(member(int(number))))
    if asked.path == "/renew":
        link = '<p><a class="archive" href="archive">The archive</a></p>'
        return Response(_page("Renewed", link), cookies=(_session_cookie(generation + 1),))
    if asked.path == "/archive":
        minutes = f'<p class="minutes">{MINUTES}</p>'
        return (
            Response(_page("Archive", minutes)) if generation else _forbidden("Only for those who renewed their stay")
        )
    return NOT_FOUND


def _numbers(last: int) -> range:
    return range(1, last + 1)


def _list(page: str) -> Response:
    if page not in map(str, _numbers(PAGES)):
        return NOT_FOUND
    numbers = range((int(page) - 1) * PER_PAGE + 1, int(page) * PER_PAGE + 1)
    rows = "".join(
        f'<li><a class="member" href="member/{number}">{escape(member(number).name)}</a></li>' for number in numbers
    )
    return Response(_page(f"Members, page {page}", f"<ul>{rows}</ul>"))


def _member_page(one: Member) -> bytes:
    return _page(one.name, CARD.substitute(one._asdict(), name=escape(one.name)))


def _page(title: str, content: str) -> bytes:
    return SHELL.substitute(title=escape(title), content=content).encode()


FORM = Template("""\
<form id="login" method="post" action="$action">
  <input type="hidden" name="token" value="$token">
  <input name="user"> <input name="password" type="password"> <button>Log in</button>
</form>""")
CARD = Template("""\
<dl class="card" data-number="$number">
  <dt>Name</dt><dd class="name">$name</dd>
  <dt>Town</dt><dd class="town">$town</dd>
  <dt>Post</dt><dd class="post">$post</dd>
  <dt>Since</dt><dd class="since">$since</dd>
</dl>""")
SHELL = Template("""\
<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>$title | The Rowing Club</title></head>
<body>
<h1>$title</h1>
$content
</body>
</html>
""")
