"""What a newcomer does: each example, `sc init`, `sc demo` and `sc site`, by the real `sc` and the real sites."""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cli_helpers import SCRIPT, Found, items, parsed, sc, sc_json, texts
from helpers import Project, clean_env

from stateful_crawler.sites import PORT, Server, members, serve
from stateful_crawler.task import name_for

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


@pytest.fixture
def site() -> Iterator[Server]:
    with serve(port=0) as server:
        yield server


@pytest.fixture
def example(tmp_path: Path) -> Any:
    """A copy of an example's folder: its crawl must not stay in the repo."""

    def copy(name: str) -> Project:
        folder = tmp_path / name
        shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("workdir", "__pycache__"))
        return Project(folder)

    return copy


def expected(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (EXAMPLES / name / "expected.jsonl").read_text().splitlines()]


def paths(project: Project) -> dict[str, str]:
    """path of its url -> name, of every task in success/."""
    found = {}
    for name, text in texts(project, "success").items():
        url = re.search(r'^url = "(.*)"$', text, re.MULTILINE)
        assert url
        found[urlsplit(url[1]).path] = name
    return found


def test_the_bookshop(site: Server, example: Any) -> None:
    project = example("bookshop")
    sc(project, "create", "1", "100", f"{site.url}/bookshop")
    summary = sc_json(project, "crawl", "-c", "10")
    assert (summary["succeeded"], summary["failed"], summary["items"]) == (100, 0, 2000)
    found = [item for page in range(1, 101) for item in items(project, str(page))]
    lines = [json.dumps(item, ensure_ascii=False, sort_keys=True) + "\n" for item in found]
    text = "".join(lines).replace(site.url, f"http://127.0.0.1:{PORT}")
    assert hashlib.sha256(text.encode()).hexdigest() == (EXAMPLES / "bookshop" / "expected.sha256").read_text().strip()
    assert all(json.dumps(item, ensure_ascii=False, sort_keys=True) in text for item in expected("bookshop"))
    plugins = [(EXAMPLES / "bookshop" / name).read_text().count("\n") for name in ("create.py", "parser.py")]
    assert sum(plugins) < 30


def test_the_chinese_paper(site: Server, example: Any) -> None:
    project = example("gbk-news")
    sc(project, "create", f"{site.url}/gbk-news")
    summary = sc_json(project, "crawl")
    assert (summary["succeeded"], summary["found"], summary["items"]) == (11, 10, 10)
    names = paths(project)
    found = [item for number in range(1, 11) for item in items(project, names[f"/gbk-news/{number}.html"])]
    assert found == expected("gbk-news")
    assert items(project, "front") == []
    with closing(http.client.HTTPConnection(urlsplit(site.url).netloc, timeout=30)) as connection:
        connection.request("GET", "/gbk-news/3.html")
        assert project.page(names["/gbk-news/3.html"]) == connection.getresponse().read()  # the bytes as they came


def test_the_quotes(site: Server, example: Any) -> None:
    project = example("quotes")
    sc(project, "create", f"{site.url}/quotes")
    summary = sc_json(project, "crawl")
    assert (summary["succeeded"], summary["found"], summary["items"]) == (10, 9, 100)
    names = paths(project)
    order = ["/quotes/", *(f"/quotes/page/{page}/" for page in range(2, 11))]
    assert names["/quotes/"] == "start"
    assert [item for path in order for item in items(project, names[path])] == expected("quotes")
    assert sc_json(project, "crawl")["fetched"] == 0
    assert set(site.requests.values()) == {1}


@pytest.fixture
def club(site: Server, example: Any) -> Project:
    """The login example with its password in place, and its one task."""
    project: Project = example("login")
    (project.workdir / "var").mkdir()
    (project.workdir / "var" / "password.txt").write_text(members.PASSWORD)
    sc(project, "create", f"{site.url}/members")
    return project


def all_items(project: Project) -> list[dict[str, Any]]:
    """Every item of a project; those with a number first, by it."""
    found = [item for name in parsed(project) for item in items(project, name)]
    return sorted(found, key=lambda item: item.get("number", 1000))


def test_the_login(site: Server, club: Project) -> None:
    summary = sc_json(club, "crawl", "-c", "5")
    assert (summary["succeeded"], summary["failed"], summary["items"]) == (28, 0, 21)
    assert all_items(club) == expected("login")
    everything = "".join("".join(texts(club, state).values()) for state in ("success", "error", "origin"))
    assert members.PASSWORD not in everything and "open" not in everything and "session=" not in everything
    assert "#HttpOnly_127.0.0.1" in (club.workdir / "var" / "jar.txt").read_text()
    assert site.requests["/members/login"] == 2  # the form, and what was sent with it
    archive = name_for(f"http://127.0.0.1:{PORT}/members/archive")
    assert f"sc -C examples/login requeue {archive} " in (EXAMPLES / "login" / "README.md").read_text()


def test_a_session_outlives_the_run(site: Server, club: Project) -> None:
    sc(club, "crawl", "-c", "5")
    archive = paths(club)["/members/archive"]
    sc(club, "requeue", archive)
    assert sc_json(club, "retry", "--refetch")["succeeded"] == 1
    assert site.requests["/members/login"] == 2


def test_a_session_that_has_ended(site: Server, club: Project) -> None:
    """What docs/login.md tells: pages fail, no login form is saved for one, and three commands mend it."""
    sc(club, "crawl", "-c", "5")
    club.put_url("out", f"{site.url}/members/logout", 'cookie = "var/jar.txt"', 'cookie-jar = "var/jar.txt"')
    sc(club, "crawl", check=3)  # a redirect that is not followed
    assert "session" not in (club.workdir / "var" / "jar.txt").read_text()
    names = paths(club)
    lost = {names["/members/list"], names["/members/member/7"]}
    sc(club, "requeue", *lost)
    sc(club, "retry", "--refetch", check=3)
    assert club.in_state("error") == lost | {"out"}
    assert {club.last(name)["status"] for name in lost} == {302, 403}
    (club.workdir / "error" / "out.conf").unlink()
    sc(club, "requeue", "login-form")
    sc(club, "retry", "--refetch", "login-form")
    sc(club, "crawl")
    sc(club, "retry")
    assert not club.in_state("error") and lost <= club.in_state("success")


def test_a_wrong_password_is_a_failure(site: Server, club: Project) -> None:
    (club.workdir / "var" / "password.txt").write_text("wrong")
    summary = sc_json(club, "crawl", check=3)
    assert (summary["succeeded"], summary["failed"], summary["errors"]) == (1, 1, {"http": 1})
    assert not all_items(club)


def test_a_project_of_ones_own_in_a_fresh_folder(site: Server, tmp_path: Path) -> None:
    folder = tmp_path / "mine" / "crawl"
    said = sc(tmp_path, "init", "mine/crawl").stderr
    assert "made mine/crawl/create.py" in said and "cd mine/crawl && sc create 1 100 && sc crawl -c 10" in said
    assert sorted(path.name for path in folder.iterdir()) == ["create.py", "parser.py", "sc.toml", "workdir"]
    states = ["error", "html", "origin", "parsed", "success", "working"]
    assert sorted(path.name for path in (folder / "workdir").glob("[!.]*")) == states
    (folder / "sc.toml").write_text("# mine\n")
    assert "kept create.py" in sc(folder, "init").stderr
    assert (folder / "sc.toml").read_text() == "# mine\n"
    project = Found(folder)
    sc(project, "create", "1", "100", f"{site.url}/bookshop")
    sc(project, "crawl", "-c", "10")
    names = {str(page) for page in range(1, 101)}
    pages = {path.stem for path in (project.workdir / "html").glob("*.html")}
    assert project.in_state("success") == parsed(project) == pages == names
    assert site.most_connections == 10
    again = {target for target, count in site.requests.items() if count > 1}
    assert again == {f"/bookshop/catalogue?page={page}" for page in (7, 42, 77)}  # those that fail once
    asked = site.requests.total()
    assert "nothing to do" in sc(project, "crawl", "-c", "10").stderr
    assert sc(project, "fsck").stdout == ""
    assert site.requests.total() == asked


def test_the_project_at_the_root_of_the_repo(site: Server, tmp_path: Path) -> None:
    words = ["-C", str(ROOT), "-w", str(tmp_path / "workdir")]
    assert sc_json(tmp_path, *words, "create", "1", "3", f"{site.url}/bookshop")["created"] == 3
    assert sc_json(tmp_path, *words, "crawl")["items"] == 60
    assert sc_json(tmp_path, *words, "retry")["fetched"] == 0


def test_the_demo(tmp_path: Path) -> None:
    first = sc(tmp_path, "demo")
    assert "origin/ 0  working/ 0  html/ 100  parsed/ 100  success/ 100  error/ 1" in first.stdout
    shown = [json.loads(line) for line in first.stdout.splitlines() if line.startswith("{")]
    assert len(shown) == 3 and all({"title", "price"} <= item.keys() for item in shown)
    assert "\nhttp: the server answered 404\n" in first.stdout
    for command in ("sc status", "sc retry", "sc parse", "curl -q -o", "sc show"):
        assert command in first.stdout
    assert "100 done, 1 failed" in first.stderr
    project = Found(tmp_path / "sc-demo")
    assert (len(project.in_state("success")), project.in_state("error")) == (100, {"page-404"})
    assert project.reason("page-404") == "http"
    second = sc(tmp_path, "demo").stdout
    assert "sc demo --fresh" in second and "success/ 100  error/ 1" in second
    fresh = sc(tmp_path, "demo", "--fresh")
    assert "sc demo --fresh" not in fresh.stdout and "100 done, 1 failed" in fresh.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sc-demo"]
    assert sc(project, "status").stdout.startswith("origin 0  working 0  success 100  error 1")


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_the_site_serves_until_it_is_told_to_end(tmp_path: Path, ending: signal.Signals) -> None:
    command = [SCRIPT, "site", "--port", "0", "quotes"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, env=clean_env(), text=True, **pipes) as run:
        assert run.stdout
        served = re.fullmatch(r"serving http://(127\.0\.0\.1:\d+)/\n", run.stdout.readline())
        assert served
        assert run.stdout.readline().startswith(f"  http://{served[1]}/quotes/  ")
        with closing(http.client.HTTPConnection(served[1], timeout=30)) as connection:
            connection.request("GET", "/quotes/")
            assert connection.getresponse().status == 200
        run.send_signal(ending)
        assert run.communicate(timeout=30) == ("", "")
    assert run.returncode == 0


def test_a_port_that_is_taken_is_told(site: Server, tmp_path: Path) -> None:
    said = sc(tmp_path, "site", "--port", str(site.port), check=7).stderr
    assert f"127.0.0.1:{site.port}: Address already in use" in said and "--port 0" in said
