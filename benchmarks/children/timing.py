"""How a self-timed program measures its loop and tells it."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator


@contextlib.contextmanager
def timed() -> Iterator[None]:
    """Print the wall and CPU time of the block as the line that `measure.run` reads."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    print(json.dumps({"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}))
