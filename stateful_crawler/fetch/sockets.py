"""What tasks ask of their sockets that libcurl has no option for: MPTCP, type of service, priority."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any

import pycurl

from stateful_crawler.fetch.plan import Plan

_IPPROTO_MPTCP = 262


def set_on(handle: pycurl.Curl, plan: Plan) -> None:
    """Have the handle's sockets set as the plan says."""
    if plan.ip_tos is not None or plan.priority is not None:
        handle.setopt(pycurl.SOCKOPTFUNCTION, _socket_setter(plan.ip_tos, plan.priority))


def open_multipath(open_socket: Callable[[Any], Any], address: Any) -> Any:
    """A socket that speaks MPTCP, or plain TCP where the system can't; made by `open_socket`."""
    with contextlib.suppress(OSError):
        return open_socket(address._replace(protocol=_IPPROTO_MPTCP))
    return open_socket(address)


def _socket_setter(ip_tos: int | None, priority: int | None) -> Callable[[int, int], int]:
    def set_on(descriptor: int, _purpose: int) -> int:
        # What a system does not know is left out, as curl leaves it out.
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as sock:
            if ip_tos is not None and sock.family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, ip_tos)
            elif ip_tos is not None:
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ip_tos)
            if priority is not None and hasattr(socket, "SO_PRIORITY"):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, priority)
        return int(pycurl.SOCKOPT_OK)

    return set_on
