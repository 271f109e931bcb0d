"""Page tokens: opaque, signed, and bound to the query they continue."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from typing import Any

from apcore_tree.errors import InvalidArgument

__all__ = ["PageTokens", "Position", "query_hash"]

_MAC_BYTES = 12


@dataclass(frozen=True)
class Position:
    """Where the next page begins: after `after`, in the state first seen at `first`."""

    after: Any
    seen: int
    first: int
    pin: str | None = None


def query_hash(tool: str, arguments: dict[str, Any]) -> str:
    """The same for every page of a query, whatever the size of the pages."""
    asked = {name: value for name, value in arguments.items() if name not in ("limit", "pageSize", "pageToken")}
    paging = asked.get("paging")
    if isinstance(paging, dict):
        asked["paging"] = {name: value for name, value in paging.items() if name not in ("pageSize", "pageToken")}
    text = json.dumps([tool, asked], sort_keys=True)
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=9).hexdigest()


class PageTokens:
    """Signs with a key of this process: order keys of an earlier process may mean other places."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def issue(self, query: str, position: Position) -> str:
        body = json.dumps(
            [query, position.after, position.seen, position.first, position.pin], separators=(",", ":")
        ).encode()
        return base64.urlsafe_b64encode(self._mac(body) + body).decode()

    def read(self, query: str, token: str) -> Position:
        try:
            raw = base64.urlsafe_b64decode(token.encode("ascii"))
        except (binascii.Error, ValueError):
            raise _refused() from None
        mac, body = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(body)):
            raise _refused()
        asked, after, seen, first, pin = json.loads(body)
        if asked != query:
            raise InvalidArgument("The page token belongs to another query", field="pageToken")
        return Position(after, seen, first, pin)

    def _mac(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256")[:_MAC_BYTES]


def _refused() -> InvalidArgument:
    return InvalidArgument(
        "The page token is not valid", field="pageToken", suggestion="begin again without a page token"
    )
