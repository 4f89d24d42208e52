"""Programs that the benchmarks time, each run as a process of its own (`python -m benchmarks.children.NAME`)."""
