"""`python -m stateful_crawler`, where the name `sc` is another program's."""

import sys

if not sys.flags.safe_path:
    # -m puts the folder that we stand in first; last, as for `sc`, a parser called json.py hides nothing.
    sys.path.append(sys.path.pop(0))

from stateful_crawler.cli import main

if __name__ == "__main__":
    main()
