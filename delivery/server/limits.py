"""Limits for the clients of a server."""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from palmkit.engine.errors import RepositoryError

# Reserved for the database, the repository, the log, and sockets that are just being closed.
OTHER_FILES = 128
FEWEST, MOST = 8, 4096


def most_connections() -> int:
    """Return how many connections the limit on open files allows: each may send a file."""
    if sys.platform == "win32":
        return 10**9
    import resource

    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 10**9 if files == resource.RLIM_INFINITY else max(FEWEST, (files - OTHER_FILES) // 2)


@dataclass(frozen=True)
class Limits:
    """Limits for clients; times in seconds.

    connections: in all at once. per_address: at once from one address (of IPv6: from one /64),
    except from proxies. idle_s: between requests, and before the first. head_s: for the lines
    before a body. body_s: for a body. least_rate: bytes/s of a body or of the reading of an answer,
    on average over each stall_s. ending_s: for work under way when the server ends.
    """

    connections: int
    per_address: int
    proxies: frozenset[str] = frozenset({"127.0.0.1", "::1"})
    idle_s: float = 5.0
    head_s: float = 10.0
    body_s: float = 30.0
    stall_s: float = 20.0
    least_rate: float = 500.0
    ending_s: float = 8.0

    @classmethod
    def of(
        cls,
        connections: int | None = None,
        per_address: int | None = None,
        proxies: Iterable[str] | None = None,
    ) -> Limits:
        """Return the limits of a server; None: what suits the limit on open files.

        Raises RepositoryError if they cannot be kept.
        """
        room = most_connections()
        if connections is None:
            connections = min(MOST, room)
        elif not 1 <= connections <= room:
            raise RepositoryError(
                f"connections: expected 1 to {room}, for which so many files may be open "
                f"(ulimit -n), got {connections}"
            )
        if per_address is None:
            per_address = max(FEWEST, connections // 8)
        elif per_address < 1:
            raise RepositoryError(f"connections per address: expected 1 or more, got {per_address}")
        found = cls(connections, per_address)
        if proxies is None:
            return found
        return cls(connections, per_address, frozenset(map(_proxy, proxies)))


def _proxy(text: str) -> str:
    try:
        return origin(str(ipaddress.ip_address(text)))
    except ValueError:
        raise RepositoryError(f"proxy: expected an IP address, got {text!r}") from None


def origin(address: str) -> str:
    """Return whom an address stands for: itself, or the /64 of IPv6, which one subscriber has."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped:
        return str(found.ipv4_mapped)
    if found.is_loopback:
        return str(found)
    return str(ipaddress.ip_network((found, 64), strict=False))
