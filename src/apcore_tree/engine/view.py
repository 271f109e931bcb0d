"""Which nodes an agent has unfolded.

Unfolding a whole subtree stores one rule and touches no descendant; a node's state is the newest of its own override
and the rules of its ancestors that reach down to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from apcore_tree.engine.node import Node, ancestry, is_within
from apcore_tree.engine.tree import Tree

__all__ = ["Rule", "View"]

_PRUNE_ABOVE = 256


@dataclass(frozen=True)
class Rule:
    """`levels` says how many levels, the node's own included, the rule still covers; None is all."""

    sequence: int
    expanded: bool
    levels: int | None = None

    def outreaches(self, other: Rule) -> bool:
        """Whether the rule covers nodes that the other does not."""
        return other.levels is not None and (self.levels is None or self.levels > other.levels)

    def below(self) -> Rule | None:
        """What the rule means one level further down."""
        if self.levels is None:
            return self
        return Rule(self.sequence, self.expanded, self.levels - 1) if self.levels > 1 else None


Rules = tuple[Rule, ...]


@dataclass
class View:
    default_expanded: bool = True
    overrides: dict[str, Rule] = field(default_factory=dict)
    rules: dict[str, Rules] = field(default_factory=dict)
    sequence: int = 0

    def copy(self) -> View:
        return View(self.default_expanded, dict(self.overrides), dict(self.rules), self.sequence)

    def set(self, node: Node, expanded: bool) -> bool:
        """Set one node; returns whether its state changed."""
        before = self.is_expanded(node)
        self.sequence += 1
        self.overrides[node.id] = Rule(self.sequence, expanded, 1)
        return before != expanded

    def set_below(self, node: Node, expanded: bool, levels: int | None, tree: Tree) -> None:
        """Set the node and everything under it, down to `levels`, in one rule."""
        if levels == 0:
            return
        self.sequence += 1
        rule = Rule(self.sequence, expanded, levels)
        if levels is None and node.parent is None:
            self.overrides.clear()
            self.rules.clear()
        self.rules[node.id] = (*(old for old in self.rules.get(node.id, ()) if old.outreaches(rule)), rule)
        if len(self.overrides) + len(self.rules) > _PRUNE_ABOVE:
            self._prune(node if levels is None else None, tree)

    def inherited(self, node: Node) -> Rules:
        """The rules that reach the node from its ancestors."""
        rules: Rules = ()
        for ancestor in ancestry(node)[:-1]:
            rules = self.handed_down(ancestor, rules)
        return rules

    def handed_down(self, node: Node, inherited: Rules) -> Rules:
        return tuple(rule for each in self._at(node, inherited) if (rule := each.below()) is not None)

    def state(self, node: Node, inherited: Rules, default: bool | None = None) -> bool:
        rules = self._at(node, inherited)
        own = self.overrides.get(node.id)
        if own is not None:
            rules = (*rules, own)
        if not rules:
            return self.default_expanded if default is None else default
        return max(rules, key=lambda rule: rule.sequence).expanded

    def is_expanded(self, node: Node) -> bool:
        return self.state(node, self.inherited(node))

    def _at(self, node: Node, inherited: Rules) -> Rules:
        own = self.rules.get(node.id)
        return inherited if own is None else (*inherited, *own)

    def _prune(self, under: Node | None, tree: Tree) -> None:
        """Drop the state of removed nodes, and of nodes that a newer rule covers."""

        def stays(node_id: str) -> bool:
            node = tree.nodes.get(node_id)
            return node is not None and (under is None or node is under or not is_within(node, under))

        self.overrides = {key: rule for key, rule in self.overrides.items() if stays(key)}
        self.rules = {key: rules for key, rules in self.rules.items() if stays(key)}
