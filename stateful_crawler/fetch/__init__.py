"""Tasks in, outcomes out: one thread, libcurl's multi interface. The only package that knows pycurl.

setup     a task's curl options -> a handle that is ready to go, and what is wanted of the answer
readers   what each option sets: the table; transport (TLS, proxies, sockets), plan (what they fill), times
body      its data options -> the request's body; form: its form options
loop      the handles under way: CurlMulti, socket_action, selectors
onward    redirects to hosts in raw letters
verdict   what libcurl and the server said -> an Outcome
beside    what the answer leaves beside its page; writeout: what `write-out` says of it
rehearse  what would be sent, without a network
"""

from stateful_crawler.fetch.loop import Fetcher, Limits

__all__ = ["Fetcher", "Limits"]
