"""Version tokens: what an agent hands back to say which state it decided on.

`t1.<epoch>.<revision>` means the whole tree, `f1.…` only the nodes that the change touches, `v1.…` a view.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from apcore_tree.errors import InvalidArgument

__all__ = ["Token", "parse_token"]

_TOKEN = re.compile(r"([tfv])1\.([0-9a-z]{1,16})\.([0-9]{1,15})", re.ASCII)


class Token(NamedTuple):
    scope: str
    epoch: str
    revision: int

    def __str__(self) -> str:
        return f"{self.scope}1.{self.epoch}.{self.revision}"


def parse_token(text: str) -> Token:
    match = _TOKEN.fullmatch(text)
    if match is None:
        raise InvalidArgument(
            "The version token cannot be read", field="versionToken", suggestion="pass back a `version` as received"
        )
    return Token(match[1], match[2], int(match[3]))
