"""`python -m stateful_crawler`, where the name `sc` is another program's."""

from stateful_crawler.cli import main

if __name__ == "__main__":
    main()
