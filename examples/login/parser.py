"""Sends the login form, then follows the pages for members; the cookies of var/jar.txt go along to each."""


def parse(page):
    """One item for each member, and one for the archive."""
    for form in page.css("#login"):
        fields = [f"token={form.css('[name=token]').attrib['value']}", "user=reader", "password@var/password.txt"]
        yield page.follow(form.attrib["action"], data_urlencode=fields)
    for card in page.css(".card"):
        texts = {key: card.css(f".{key}::text").get() for key in ("name", "town", "post", "since")}
        yield {"number": int(card.attrib["data-number"]), **texts}
    for text in page.css(".minutes::text").getall():
        yield {"minutes": text}
    # Not the link that logs out. Without `location` the end of the session is a failure, not the login form's page.
    for link in page.css("a.list, a.member, a.renew, a.archive"):
        yield page.follow(link, location=False)
