"""The programs and libraries that the contenders need: where they are, which versions, and what is missing."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

_MODULES = {
    "pycurl": "import pycurl; print(pycurl.version)",
    "parsel": "import parsel; print(parsel.__version__)",
    "scrapy": "import scrapy; print(scrapy.__version__)",
    "crawlee": "from crawlee.crawlers import ParselCrawler; import crawlee; print(crawlee.__version__)",
    "uvloop": "import uvloop; print(uvloop.__version__)",
}
_NOT_IMPORTED = {"uvloop": "can't be imported (pip install uvloop; Scrapy is a little faster with it)"}
_OF_PEERS = ("scrapy", "crawlee", "uvloop")


@dataclass(frozen=True)
class Tools:
    """`python` runs sc and our own loops, `peer_python` has Scrapy and crawlee. `missing` maps a tool to the reason."""

    python: str
    peer_python: str
    sc: str
    curl: str
    xargs: str
    nginx: str
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def lacks(self, *names: str) -> str:
        """Why a contender that needs these can't run; '' if it can."""
        return "; ".join(f"{name} {self.missing[name]}" for name in names if name in self.missing)


def find(peer_python: str) -> Tools:
    tools = Tools(
        python=sys.executable,
        peer_python=peer_python,
        # Not resolve(): a venv's python is a link, and sc lies beside the link.
        sc=str(Path(sys.executable).with_name("sc")),
        curl=shutil.which("curl") or "",
        xargs=shutil.which("xargs") or "",
        # Debian keeps nginx in a directory that only root has in PATH.
        nginx=shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin") or "",
    )
    for name, option in {"sc": "--version", "curl": "--version", "xargs": "--version", "nginx": "-v"}.items():
        _probe(tools, name, [getattr(tools, name), option], "not found")
    for name, code in _MODULES.items():
        python = peer_python if name in _OF_PEERS else tools.python
        _probe(tools, name, [python, "-c", code], _NOT_IMPORTED.get(name, "can't be imported (pip install '.[bench]')"))
    return tools


def _probe(tools: Tools, name: str, command: list[str], reason: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        tools.missing[name] = reason
        return
    tools.versions[name] = (done.stdout or done.stderr).strip().splitlines()[0]


def machine() -> dict[str, str]:
    """What a reader needs to know about the machine."""
    return {
        "cpu": _cpu_model(),
        "cores": str(len(os.sched_getaffinity(0))),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def file_system(path: Path) -> str:
    """The type of the file system that `path` lies on, such as tmpfs or ext4."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    where = str(path.resolve())
    around = [(point, kind) for point, kind in mounts if f"{where}/".startswith(f"{point.rstrip('/')}/")]
    return max(around, key=lambda mount: len(mount[0]))[1]
