"""The tree as a bundle: live modules for a server that was compiled with them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from apcore.acl import ACLRule
from apcore.executor import Executor

from apcore_tree.access import tree_rules
from apcore_tree.configuration import Configuration, read_configuration
from apcore_tree.modules import TreeModule, tree_modules
from apcore_tree.pipeline import install_tree
from apcore_tree.service import TreeService
from apcore_tree.store import open_store

__all__ = ["TreeBundle", "open_bundle"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TreeBundle:
    """What a server needs of the tree: modules, rules, and a place in the Executor's pipeline."""

    service: TreeService
    modules: dict[str, TreeModule]

    def rules(self) -> list[ACLRule]:
        """Readers read, editors change, and nobody else sees the tree."""
        nobody = ACLRule(callers=["*"], targets=["tree.*"], effect="deny", description="The tree asks for a role.")
        return [*tree_rules(self.service.settings), nobody]

    def install(self, executor: Executor) -> None:
        install_tree(executor, self.service)

    def close(self) -> None:
        """Leave the store to whoever opens it next."""
        self.service.close()


def open_bundle(store: str = "memory:", config: str | None = None) -> TreeBundle:
    """Open the tree kept in `memory:` or `sqlite:PATH`, as the TOML file `config` wants it."""
    if store == "memory:":
        _logger.warning("The tree is kept in memory and ends with this process; --tree-store sqlite:PATH keeps it.")
    chosen = read_configuration(Path(config)) if config else Configuration()
    service = TreeService(
        open_store(store), settings=chosen.settings, payload_types=chosen.payload_types, rulesets=chosen.rulesets
    )
    return TreeBundle(service, tree_modules(service))
