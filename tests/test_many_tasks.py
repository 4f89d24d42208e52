"""Many tasks, and tasks that are alike: nothing is done again for each, and each is done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Serve
from helpers import Project, clean_env, crawl
from servers import ok

# Runs `sc`, counting how often it lists a directory; VmHWM is the most memory it ever had.
COUNTING = """
import atexit, re, runpy, sys
lists = 0
def count(event, arguments):
    global lists
    lists += event in ("os.scandir", "os.listdir") and "workdir" in str(arguments[0])
def tell():
    with open("/proc/self/status") as status, open("told", "w") as out:
        out.write(f"{lists} {re.search(r'VmHWM:.*?([0-9]+) kB', status.read())[1]}")
sys.addaudithook(count)
atexit.register(tell)
sys.argv[0] = "sc"
runpy.run_module("stateful_crawler", run_name="__main__")
"""
FEW, MANY = 50, 2000


@pytest.mark.case("C075")
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_directories_are_not_listed_again_for_each_task(tmp_path: Path, serve: Serve) -> None:
    server = serve({"*": ok("<p>page</p>")})
    told = {}
    for size in (FEW, MANY):
        project = Project(tmp_path / str(size))
        for number in range(size):
            project.put_url(str(number), f"{server.url}/{number}")
        for left in range(size):  # as many are done already
            Path(project.workdir, "success").mkdir(exist_ok=True)
            Path(project.workdir, "success", f"done-{left}.conf").write_text(f'url = "{server.url}/"\n')
        command = [sys.executable, "-P", "-c", COUNTING, "crawl", "--no-parse", "-c", "10"]
        run = subprocess.run(command, cwd=project.folder, env=clean_env(), capture_output=True, text=True, timeout=100)
        assert run.returncode == 0, run.stderr
        assert len(project.in_state("success")) == 2 * size
        lists, peak_kb = map(int, (project.folder / "told").read_text().split())
        told[size] = (lists, peak_kb)
    assert told[MANY][0] <= told[FEW][0] + 20, told  # one more every half second, while the crawl runs
    assert told[MANY][1] - told[FEW][1] < 15_000, told


@pytest.mark.case("C109")
def test_tasks_that_ask_for_the_same_are_all_asked(project: Project, serve: Serve) -> None:
    """A task made by hand is a task of its own, whatever it asks for."""
    server = serve({"*": lambda request: ok(request.body + b"|" + b"".join(request.all("Accept-Language")))})
    for page in range(1, 11):
        project.put_url(f"post-{page}", f"{server.url}/api", f'data = "page={page}"')
    for language in ("de", "fr"):
        project.put_url(language, f"{server.url}/api", f'header = "Accept-Language: {language}"')
    for twin in ("one", "two"):
        project.put_url(twin, f"{server.url}/api")
    crawl(project)
    assert server.count("/api") == 14
    assert {project.page(f"post-{page}") for page in range(1, 11)} == {b"page=%d|" % page for page in range(1, 11)}
    assert (project.page("de"), project.page("fr")) == (b"|de", b"|fr")
    assert project.page("one") == project.page("two") == b"|"
