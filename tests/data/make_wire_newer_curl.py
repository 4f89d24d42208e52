"""Records what a newer curl than Debian's sends, for options and forms that 7.88 lacks or does in another way.

    PYTHONPATH=tests python tests/data/make_wire_newer_curl.py CURL

writes wire_newer_curl.json beside this file; only for people who have such a curl.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from helpers import Project
from servers import FaultServer
from wire_helpers import answer, put_table, run_curl_on
from wire_newer import newer_table

JSON = Path(__file__).with_name("wire_newer_curl.json")


def main(program: str) -> None:
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    table = newer_table()
    with tempfile.TemporaryDirectory() as folder, FaultServer({"*": answer}) as server:
        project = Project(Path(folder))
        ran = run_curl_on(project, server, put_table(project, server, table), program)
    cases = {
        name: {
            "lines": table[name],
            "requests": [request.decode("latin-1") for request in one.requests],
            "went_well": one.went_well,
            "page": one.page.decode("latin-1"),
        }
        for name, one in ran.items()
    }
    JSON.write_text(json.dumps({"curl": version, "cases": cases}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
