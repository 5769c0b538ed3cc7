"""Ports of this machine for a server that a test starts as a process of its own."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
from pathlib import Path

FIRST_PORT = 5000
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""File with the first and the last port that Linux gives to connections."""


def free_ports(number: int) -> list[int]:
    """Return ports that nobody uses, below those that the system gives away; other processes of the tests begin at others.

    One that the system gave could be given again, to a connection of another test, before the server takes it. Where the
    system gives nearly all ports away, they are of its choice after all.
    """
    end = int(RANGE.read_text().split()[0]) if RANGE.exists() else 32768
    below = range(FIRST_PORT, end)
    start = number * os.getpid() % max(1, len(below))
    ports = list[int]()
    with contextlib.ExitStack() as opened:
        for port in itertools.chain(below[start:], below[:start], itertools.repeat(0, number)):
            tried = opened.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                tried.bind(("127.0.0.1", port))
                ports.append(int(tried.getsockname()[1]))
            if len(ports) == number:
                break
    return ports
