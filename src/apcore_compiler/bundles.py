"""Tools that come with this project: a bundle is a package that can describe its modules without serving them."""

import importlib
import importlib.util
from typing import Any

__all__ = ["BUNDLES", "bundled_modules"]

BUNDLES = {"tree": "apcore_tree"}


def bundled_modules(name: str) -> dict[str, Any]:
    """The modules of a bundle by id; `ImportError` when what it needs is not installed."""
    package = importlib.import_module(BUNDLES[name])
    for need in package.NEEDS:
        # Imported only when used, which would be in the middle of somebody's call.
        if importlib.util.find_spec(need) is None:
            raise ModuleNotFoundError(f"No module named {need!r}")
    modules: dict[str, Any] = package.definitions()
    return modules
