"""Ports of this machine for a server that a test starts as a process of its own."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

FIRST_PORT = 5000


def free_ports(number: int) -> list[int]:
    """Return ports that nobody uses, below those that the system gives away; other processes of the tests begin at others.

    One that the system gave could be given again, to a connection of another test, before the server takes it.
    """
    given = Path("/proc/sys/net/ipv4/ip_local_port_range")
    count = (int(given.read_text().split()[0]) if given.exists() else 32768) - FIRST_PORT
    ports = list[int]()
    for step in range(count):
        port = FIRST_PORT + (number * os.getpid() + step) % count
        with contextlib.suppress(OSError), socket.socket() as tried:
            tried.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == number:
            break
    return ports
