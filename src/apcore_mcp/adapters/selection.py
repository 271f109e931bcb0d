"""Which modules are meant: the registry behind an argument, and the filters over it."""

from __future__ import annotations

from apcore import Executor, Registry


def registry_of(registry_or_executor: Registry | Executor) -> Registry:
    if isinstance(registry_or_executor, Executor):
        return registry_or_executor.registry
    if isinstance(registry_or_executor, Registry):
        return registry_or_executor
    raise TypeError(f"Expected Registry or Executor instance, got {type(registry_or_executor).__name__}")


def validate_filters(tags: list[str] | None, prefix: str | None) -> None:
    if tags is not None and not all(tags):
        raise ValueError("Tag values must not be empty")
    if prefix == "":
        raise ValueError("prefix must not be empty")
