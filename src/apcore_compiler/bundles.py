"""Tools that come with this project: a bundle is a package that can describe its modules without serving them."""

import importlib
from typing import Any

__all__ = ["BUNDLES", "bundled_modules"]

BUNDLES = {"tree": "apcore_tree"}


def bundled_modules(name: str) -> dict[str, Any]:
    """The modules of a bundle by id; `ImportError` when what it needs is not installed."""
    modules: dict[str, Any] = importlib.import_module(BUNDLES[name]).definitions()
    return modules
