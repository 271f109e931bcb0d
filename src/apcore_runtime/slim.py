"""Import parts of a package without the rest.

The `__init__` of a large package often imports everything below it.  A slim package is the
real one with that step put off: its submodules can be imported, and the first look at any
other name runs `__init__` in place, so that whoever uses the package finds it as usual.
"""

import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any

__all__ = ["slim_package"]

# Two threads may look at a package at once; one of them runs its __init__.
_lock = threading.RLock()

# Dunder names that only the real __init__ can answer; the import system's own are answered by the spec.
_ANSWERED_BY_INIT = {"__all__", "__version__"}


def slim_package(name: str) -> None:
    """Put off a package's `__init__`; does nothing when the package is already imported, or not installed."""
    if name in sys.modules:
        return
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None or spec.submodule_search_locations is None:
        return
    package = importlib.util.module_from_spec(spec)
    _Deferred(package)
    sys.modules[name] = package
    parent, _, child = name.rpartition(".")
    if parent:
        sys.modules[parent].__dict__[child] = package


class _Deferred:
    """Answers for a package until its `__init__` has run."""

    def __init__(self, package: ModuleType) -> None:
        self._package = package
        self._hooks = {"__getattr__": self._get, "__dir__": self._names}
        self._is_waiting = True
        package.__dict__.update(self._hooks)

    def _get(self, attribute: str) -> Any:
        if not attribute.startswith("__") or attribute in _ANSWERED_BY_INIT:
            self._run_init()
        if attribute in self._package.__dict__:
            return self._package.__dict__[attribute]
        own = self._package.__dict__.get("__getattr__", self._hooks["__getattr__"])
        if own is not self._hooks["__getattr__"]:
            return own(attribute)
        raise AttributeError(f"module {self._package.__name__!r} has no attribute {attribute!r}")

    def _names(self) -> list[str]:
        self._run_init()
        return sorted(self._package.__dict__)

    def _run_init(self) -> None:
        # Other threads wait here until the package is whole; the one that runs __init__ passes.
        with _lock:
            if not self._is_waiting:
                return
            self._is_waiting = False
            self._package.__spec__.loader.exec_module(self._package)  # type: ignore[union-attr]
            for name, hook in self._hooks.items():
                if self._package.__dict__.get(name) is hook:
                    del self._package.__dict__[name]
