"""A tree for agents: ordered nodes, versions, snapshots and views behind forty-four tools.

`TreeService` is the whole thing without apcore.  `register_tree`, `tree_acl` and `tree_executor` make apcore modules
of it; `install_tree` adds its gates to an executor that serves other modules as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from apcore_tree.access import tree_acl, tree_rules
from apcore_tree.engine.payload_types import PayloadType
from apcore_tree.engine.rulesets import Ruleset
from apcore_tree.errors import (
    ERRORS,
    Conflict,
    Forbidden,
    Internal,
    InvalidArgument,
    NotFound,
    RateLimited,
    TreeError,
    as_tree_error,
)
from apcore_tree.modules import SESSION_KEY, TreeModule, register_tree, tree_modules
from apcore_tree.pipeline import install_tree, tree_executor
from apcore_tree.service import TreeService
from apcore_tree.settings import Caller, Settings
from apcore_tree.store import Store, open_store
from apcore_tree.store.protocol import AuditEntry, AuditQuery

__all__ = [
    "ERRORS",
    "NEEDS",
    "SESSION_KEY",
    "AuditEntry",
    "AuditQuery",
    "Caller",
    "Conflict",
    "Forbidden",
    "Internal",
    "InvalidArgument",
    "NotFound",
    "PayloadType",
    "RateLimited",
    "Ruleset",
    "Settings",
    "Store",
    "TreeError",
    "TreeModule",
    "TreeService",
    "as_tree_error",
    "build_service",
    "definitions",
    "install_tree",
    "open_store",
    "register_tree",
    "tree_acl",
    "tree_executor",
    "tree_modules",
    "tree_rules",
]

# What the extra `tree` installs.
NEEDS = ("jsonpatch", "lark", "limits")


def build_service(
    store: str = "memory:", *, read_only: bool = False, settings: Settings | None = None, **options: Any
) -> TreeService:
    """A service over `memory:` or `sqlite:PATH`; the options are those of `TreeService`."""
    chosen = replace(settings or Settings(), read_only=read_only or (settings is not None and settings.read_only))
    return TreeService(open_store(store), settings=chosen, **options)


def definitions() -> dict[str, TreeModule]:
    """The modules by id for a compiler to read; they work on a tree of their own."""
    return tree_modules(TreeService())
