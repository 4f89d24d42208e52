"""Only the start page; parser.py finds the others."""


def create(site: str = "http://127.0.0.1:8642/quotes"):
    """Make one task, for the first page of quotes at SITE."""
    yield {"url": f"{site}/", "name": "start"}
