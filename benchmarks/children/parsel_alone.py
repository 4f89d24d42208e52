"""`parsel_alone COUNT`: the benchmark's parser over pages 1 to COUNT in one process: what the user's own code costs.

Prints the digest of the items that a second, untimed pass finds, then the timing.
"""

from __future__ import annotations

import json
import sys

from parsel import Selector

from benchmarks import pages, verify
from benchmarks.children.timing import timed
from benchmarks.plugins.parser import parse


def parse_page(body: bytes) -> list[dict[str, str]]:
    return list(parse(Selector(text=body.decode())))


def main(count: int) -> None:
    bodies = [pages.body(number) for number in range(1, count + 1)]
    print(verify.saved_items((json.dumps(item) for body in bodies for item in parse_page(body)), count))
    with timed():
        for body in bodies:
            parse_page(body)


if __name__ == "__main__":
    main(int(sys.argv[1]))
