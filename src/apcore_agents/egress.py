"""Where requests may go: to the addresses of one configured host, looked at before they are connected to.

A name is resolved once, every answer is vetted, and the connection is made to a vetted address; there is no second
lookup that could say something else.  TLS verifies the name all the same.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any

import httpcore

from apcore_agents.failures import ToolError

__all__ = ["GuardedBackend", "is_allowed"]

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Awaitable[list[str]]]

MOST_ADDRESSES = 4

# Written out, because what Python calls global has changed from version to version.
_CLOSED: list[Network] = [
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4",
        "::/128", "::1/128", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16",
        "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    )
]  # fmt: skip
_NAT64, _COMPATIBLE = ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("::/96")


def is_allowed(address: str, networks: Iterable[Network] = ()) -> bool:
    """Whether an address is public, or in one of the networks that were opened by hand."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if any(parsed in network for network in networks if network.version == parsed.version):
        return True
    return all(_is_public(each) for each in (parsed, *_hidden_in(parsed)))


def _is_public(address: Address) -> bool:
    closed = any(address in network for network in _CLOSED if network.version == address.version)
    return not closed and not address.is_multicast and (address.is_global or _carries_ipv4(address))


def _carries_ipv4(address: Address) -> bool:
    # Judged by the address inside.
    return next(_hidden_in(address), None) is not None


def _hidden_in(address: Address) -> Iterator[ipaddress.IPv4Address]:
    """The IPv4 addresses that an IPv6 address leads to: mapped, compatible, NAT64, 6to4, Teredo."""
    if isinstance(address, ipaddress.IPv4Address):
        return
    if address.ipv4_mapped:
        yield address.ipv4_mapped
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield from address.teredo
    if address in _NAT64 or address in _COMPATIBLE:
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """httpcore's way to the network, with the guard in it."""

    def __init__(self, networks: Sequence[Network] = (), resolve: Resolve | None = None) -> None:
        self._inner = httpcore.AnyIOBackend()
        self._networks, self._resolve = networks, resolve or _resolve

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await self._resolve(host, port)
        if not addresses:
            raise httpcore.ConnectError("no address")
        # One bad answer among good ones is how a name is made to lead elsewhere.
        if not all(is_allowed(address, self._networks) for address in addresses):
            raise ToolError("EGRESS_DENIED", f"the address of {host} is not a public one")
        return await self._connect(addresses[:MOST_ADDRESSES], port, timeout, local_address, socket_options)

    async def _connect(self, addresses: list[str], port: int, *options: Any) -> httpcore.AsyncNetworkStream:
        for address in addresses[:-1]:
            try:
                return await self._inner.connect_tcp(address, port, *options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self._inner.connect_tcp(addresses[-1], port, *options)

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        raise ToolError("EGRESS_DENIED", "sockets of this machine are not reached")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def _resolve(host: str, port: int) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpcore.ConnectError(type(error).__name__) from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
