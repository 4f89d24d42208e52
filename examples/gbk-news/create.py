"""Only the front page; parser.py finds the articles."""


def create(site: str = "http://127.0.0.1:8642/gbk-news"):
    """Make one task, for the front page of the paper at SITE."""
    yield {"url": f"{site}/", "name": "front"}
