"""Only the login form; parser.py sends it, and finds the pages behind it."""


def create(site: str = "http://127.0.0.1:8642/members"):
    """Make one task, for the login form of the club at SITE; its cookies are kept from run to run."""
    yield {"url": f"{site}/login", "name": "login-form", "cookie": "var/jar.txt", "cookie-jar": "var/jar.txt"}
