"""Speed and memory of `sc`, each figure in turn with a peer in the same run; `python -m benchmarks --help`."""
