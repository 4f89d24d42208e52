"""Tasks in, outcomes out: one thread, libcurl's multi interface. The only package that knows pycurl.

setup     a task's curl options -> a handle that is ready to go
body      its data options -> the request's body
loop      the handles under way: CurlMulti, socket_action, selectors
verdict   what libcurl and the server said -> an Outcome
"""

from stateful_crawler.fetch.loop import Fetcher, Limits

__all__ = ["Fetcher", "Limits"]
