"""Which pages to fetch: `sc create FIRST LAST` writes what create() yields into origin/, a task file for each."""


def create(first: int, last: int, site: str = "http://127.0.0.1:8642/bookshop"):
    """Make a task for each listing page from FIRST to LAST of the shop at SITE."""
    for page in range(first, last + 1):
        # url is curl's own option, and so may be header, cookie, data, ...; name and meta are for us.
        yield {"url": f"{site}/catalogue?page={page}", "name": str(page), "meta": {"page": page}}
