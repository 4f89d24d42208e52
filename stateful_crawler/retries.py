"""Whether a failed fetch is tried again within the run, and after how long. Pure: chance and time are parameters."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from stateful_crawler.curl.config import Option
from stateful_crawler.reasons import Reason
from stateful_crawler.record import Outcome

FIRST_WAIT_S = 0.5
MAX_WAIT_S = 60.0
JITTER = 0.25
# A longer Retry-After is not waited for in working/: the task goes to error/ with `not_before` in its record.
MAX_RETRY_AFTER_S = 300.0
# A server that says "come back in three years" is believed for a week.
MAX_NOT_BEFORE_S = 7 * 86400.0

TRANSIENT_REASONS: frozenset[Reason] = frozenset({"dns", "connect", "reset", "truncated", "timeout"})
TRANSIENT_STATUS = frozenset({408, 429, 500, 502, 503, 504})
# What can't have been carried out by the server, so that even a POST may be sent again.
UNSENT_REASONS: frozenset[Reason] = frozenset({"dns", "connect"})
REFUSED_STATUS = frozenset({429, 503})


class Policy(NamedTuple):
    """What a task's own `retry` options say; a task without them is tried again as the run's settings say.

    `delay_s` in place of the growing wait, `within_s` from the first try on; 0 for none. `any_failure` also tries
    again what is not known to pass, and requests that change things.
    """

    times: int
    delay_s: float
    within_s: float
    any_failure: bool


@lru_cache(maxsize=256)
def policy_of(options: tuple[Option, ...]) -> Policy | None:
    """The task's own policy; None where it has none."""
    said = dict(options)
    if "retry" not in said:
        return None
    delay_s, within_s = float(said.get("retry-delay", 0)), float(said.get("retry-max-time", 0))
    return Policy(int(said["retry"]), delay_s, within_s, said.get("retry-all-errors") is True)


def is_transient(outcome: Outcome, *, changes_things: bool) -> bool:
    """Whether the same request may go well a little later, and may be sent again at all."""
    if changes_things and outcome.facts.get("hops"):
        return False  # a server took the request and answered with a redirect; only what came after it failed
    reasons, statuses = (UNSENT_REASONS, REFUSED_STATUS) if changes_things else (TRANSIENT_REASONS, TRANSIENT_STATUS)
    if outcome.reason == "http":
        return outcome.facts.get("status") in statuses
    return outcome.reason in reasons


def wait_s(outcome: Outcome, attempt: int, chance: float, delay_s: float = 0.0) -> float:
    """Seconds before try `attempt` + 1: `delay_s`, or exponential and spread by `chance` (0 to 1) where that is 0.

    Never less than the server wants.
    """
    backoff = min(MAX_WAIT_S, FIRST_WAIT_S * 2.0 ** min(attempt - 1, 30))
    backoff *= 1 + JITTER * (2 * chance - 1)
    return max(delay_s or backoff, outcome.retry_after_s or 0.0)
