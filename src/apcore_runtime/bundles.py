"""Bundled tools at run time: live modules, the access rules they ask for, and their steps in the pipeline."""

import importlib
from collections.abc import Mapping
from typing import Any, Protocol

__all__ = ["Bundle", "open_bundle"]


class Bundle(Protocol):
    """What a package that can be compiled in offers to a server."""

    @property
    def modules(self) -> Mapping[str, Any]: ...
    def rules(self) -> list[Any]: ...
    def install(self, executor: Any) -> None: ...
    def close(self) -> None: ...


def open_bundle(name: str, options: Mapping[str, str]) -> Bundle:
    """Open a bundle by the name it was compiled in under; the options are its own."""
    bundle: Bundle = importlib.import_module(f"apcore_{name}.bundle").open_bundle(**options)
    return bundle
