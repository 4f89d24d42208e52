"""A workdir against a model of it: whatever crawl, kill and user do in turn, each task stays in exactly one state."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from workdir_helpers import fetched, hidden, kill

from stateful_crawler.crawl import _take_back
from stateful_crawler.frontier import Frontier
from stateful_crawler.pages import Pages
from stateful_crawler.record import Outcome
from stateful_crawler.task import Task, new_task
from stateful_crawler.workdir import STATES, Claim, Workdir

# Some that sort in natural order only, some as people name files, one of bytes that are not UTF-8; two want one page.
NAMES = ["1", "2", "10", "a b", "ü", "caf\udce9", "wants-2"]
OUTPUTS = {"wants-2": "html/2.html"}
END = b"</html>"

names = st.sampled_from(NAMES)
states = st.sampled_from(STATES)
# How far a task came before the kill.
steps = st.sampled_from(["claimed", "half a page", "page", "record"])


class Crawl(RuleBasedStateMachine):
    """`known` is what the user may rely on: the state of every task. `claims` are what the present run has in hand."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="sc-model-")
        self.known: dict[str, str] = {}
        self.claims: dict[str, Claim] = {}
        self.versions = 0

    def teardown(self) -> None:
        self.drop_claims()
        shutil.rmtree(self.folder)

    @initialize(first=st.sets(names, min_size=2))
    def open(self, first: set[str]) -> None:
        self.workdir = Workdir(self.folder).open()
        for name in sorted(first):
            self.create(name)

    def drop_claims(self) -> None:
        kill(self.workdir, *self.claims.values())
        self.claims.clear()

    def body(self) -> bytes:
        """A page that no other is equal to, and that shows whether it is whole."""
        self.versions += 1
        return b"<html>%d%b" % (self.versions, END)

    # ── what create.py, parsers and people add ───────────────────────────────────────────────────────────────────

    @rule(name=names)
    def add(self, name: str) -> None:
        self.create(name)

    def create(self, name: str) -> None:
        made = new_task("http://127.0.0.1:9/", by="create", name="x", output=OUTPUTS.get(name, f"html/{name}.html"))
        task = Task(name, made.url, made.output, made.options, made.record_lines)
        assert self.workdir.add(task) == (name not in self.known)
        self.known.setdefault(name, "origin")

    # ── a run ────────────────────────────────────────────────────────────────────────────────────────────────────

    @rule()
    def claim_next(self) -> None:
        name = Frontier(self.workdir).next_name()
        waiting = [name for name, state in self.known.items() if state == "origin"]
        assert (name in waiting) if waiting else name is None
        if name is not None:
            self.claim(name)

    @rule(name=names)
    def claim_by_name(self, name: str) -> None:
        """As a scan of a moment ago would: the task may be elsewhere by now."""
        if self.known.get(name) == "origin":
            self.claim(name)
        else:
            assert self.workdir.claim(name) is None

    def claim(self, name: str) -> None:
        claim = self.workdir.claim(name)
        assert claim is not None and claim.task is not None
        self.claims[name], self.known[name] = claim, "working"

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        claim = self.claims.pop(data.draw(st.sampled_from(sorted(self.claims))))
        assert claim.task is not None
        task, pages = claim.task, Pages(self.workdir)
        if not pages.has(task):
            outcome = fetched(self.body())
            try:
                pages.publish(task, outcome)
            except Exception as error:
                assert "exists already" in str(error)
                self.settle(claim, "error")
                return
            self.workdir.record(claim, outcome.record(saved=task.page_output))
            pages.forget_aside(task)
        assert os.path.isfile(pages.path_of(task))
        self.settle(claim, "success")

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        claim = self.claims.pop(data.draw(st.sampled_from(sorted(self.claims))))
        outcome = Outcome("fetch", False, "http", "the server answered 503", body=b"sorry")
        Pages(self.workdir).keep_error(claim.name, outcome)
        self.workdir.record(claim, outcome.record(to="error"))
        self.settle(claim, "error")

    def settle(self, claim: Claim, state: str) -> None:
        self.workdir.settle(claim, state)  # type: ignore[arg-type]
        self.known[claim.name] = state

    # ── the end of a run, by kill -9, and the beginning of the next ──────────────────────────────────────────────

    @rule(step=steps)
    def die(self, step: str) -> None:
        for claim in self.claims.values():
            assert claim.task is not None
            pages, outcome = Pages(self.workdir), fetched(self.body())
            if step == "half a page":
                Path(pages.aside_of(claim.name)).write_bytes(outcome.body[:5])
            elif step != "claimed" and not os.path.exists(pages.path_of(claim.task)):
                pages.publish(claim.task, outcome)
                if step == "record":
                    self.workdir.record(claim, outcome.record(saved=claim.task.page_output))
        self.drop_claims()
        self.workdir = Workdir(self.folder).open()
        tally = _take_back(self.workdir)
        assert not tally.left_alone
        self.known.update({name: "origin" for name, state in self.known.items() if state == "working"})
        assert [name for name in hidden(self.folder) if not name.endswith(".error")] == []

    @rule(name=names)
    def requeue(self, name: str) -> None:
        state = self.known.get(name)
        if state in ("success", "error"):
            assert self.workdir.requeue(name, state)  # type: ignore[arg-type]
            self.known[name] = "origin"

    # ── the user ─────────────────────────────────────────────────────────────────────────────────────────────────

    @rule(name=names, state=states)
    def mv(self, name: str, state: str) -> None:
        """To any state, out of any state: also what the run has in hand."""
        if name in self.known:
            os.rename(self.workdir.path(self.known[name], name), self.workdir.path(state, name))
            self.forget_claim(name)
            self.known[name] = state

    @rule(name=names)
    def rm(self, name: str) -> None:
        if name in self.known:
            os.unlink(self.workdir.path(self.known.pop(name), name))
            self.forget_claim(name)

    def forget_claim(self, name: str) -> None:
        """The run goes on with a file that is no longer there, and must not bring it back."""
        if claim := self.claims.pop(name, None):
            self.workdir.record(claim, Outcome("fetch", False, "reset", "late").record())
            self.workdir.rest(claim)

    @rule(name=names.filter(lambda name: name != "2"))
    def rm_page(self, name: str) -> None:
        """Not the page that two want: when the other has saved it anew, both say with reason that they did."""
        Path(self.folder, "html", f"{name}.html").unlink(missing_ok=True)

    # ── what always holds ────────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def each_task_is_in_exactly_one_state(self) -> None:
        found = [(name, state) for state in STATES for name in self.workdir.names(state)]
        assert sorted(found) == sorted(self.known.items())

    @invariant()
    def each_task_can_be_read(self) -> None:
        for name, state in self.known.items():
            task = self.workdir.read(state, name)  # type: ignore[arg-type]
            assert task.page_output == OUTPUTS.get(name, f"html/{name}.html")

    @invariant()
    def each_page_is_whole(self) -> None:
        for path in Path(self.folder, "html").glob("[!.]*"):
            assert path.read_bytes().endswith(END)

    @invariant()
    def nobody_elses_page_is_taken_for_ones_own(self) -> None:
        """At most one task says that it saved a page, of those that are still there."""
        owners: dict[str, list[str]] = {}
        for name, state in self.known.items():
            task = self.workdir.read(state, name)  # type: ignore[arg-type]
            if Pages(self.workdir).has(task):
                owners.setdefault(task.page_output, []).append(name)
        assert all(len(found) == 1 for found in owners.values()), owners

    @invariant()
    def the_counts_are_the_listing(self) -> None:
        counts = self.workdir.counts()
        assert {state: counts[state] for state in STATES} == {
            state: list(self.known.values()).count(state) for state in STATES
        }
        assert counts["ignored"] == 0


TestCrawl = Crawl.TestCase
TestCrawl.settings = settings(max_examples=40, stateful_step_count=50, derandomize=True, deadline=None)
