"""`python -m stateful_crawler.sites [--port N] [NAME ...]`: the example sites until Ctrl-C."""

from __future__ import annotations

import argparse
import sys

from stateful_crawler.errors import ScError
from stateful_crawler.sites import PORT, SITES, run


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()  # whoever started us waits for the port


def main() -> int:
    parser = argparse.ArgumentParser("python -m stateful_crawler.sites", description="Serve the example sites.")
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"one of {', '.join(SITES)} (default: all)")
    parser.add_argument("--port", type=int, default=PORT, help="0 takes a free one (default: %(default)s)")
    args = parser.parse_args()
    try:
        run(_say, args.names, args.port)
    except ScError as error:
        parser.exit(2, f"{error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
