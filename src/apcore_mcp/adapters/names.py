"""Names that a provider accepts, and the table that leads back to the module.

A shortened name cannot be turned back by rule, so whoever calls modules by provider name keeps `name_table`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

NAME_LIMIT = 64
_DIGEST_LENGTH = 8


class ModuleIDNormalizer:
    def normalize(self, module_id: str) -> str:
        if "-" in module_id:
            raise ValueError(f"Module id {module_id!r} contains a hyphen, which is reserved for normalised names")
        if not re.fullmatch("[a-zA-Z0-9_.]+", module_id):
            raise ValueError(f"Module id {module_id!r} contains characters that no tool name may have")
        return module_id.replace(".", "-")

    def denormalize(self, name: str) -> str:
        return name.replace("-", ".")


def shorten(name: str, limit: int = NAME_LIMIT) -> str:
    """Cut a long name and end it with a digest of the whole, so that it stays distinct."""
    if len(name) <= limit:
        return name
    digest = sha256(name.encode()).hexdigest()[:_DIGEST_LENGTH]
    return f"{name[: limit - _DIGEST_LENGTH - 1]}_{digest}"


def openai_name(module_id: str) -> str:
    return shorten(ModuleIDNormalizer().normalize(module_id))


def name_table(module_ids: Iterable[str]) -> dict[str, str]:
    """Provider name to module id; two modules that meet in one name are an error that names both."""
    table: dict[str, str] = {}
    for module_id in module_ids:
        name = openai_name(module_id)
        if table.setdefault(name, module_id) != module_id:
            raise ValueError(f"Modules {table[name]!r} and {module_id!r} have the same tool name {name!r}")
    return table
