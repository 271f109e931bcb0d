"""A registry over a surface: proxies are made when a module is first asked for."""

import builtins
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from apcore.registry import Registry

from apcore_runtime.bundles import open_bundle
from apcore_runtime.lazy import lazy_module
from apcore_runtime.loading import SourceFile
from apcore_runtime.surface import Surface


class SurfaceRegistry(Registry):
    """apcore's Registry, filled on demand: by name for a call, whole for an enumeration."""

    def __init__(self, surface: Surface, options: Mapping[str, Mapping[str, str]]) -> None:
        super().__init__()
        self._surface = surface
        self.bundles = {name: open_bundle(name, options.get(name, {})) for name in surface.bundles}
        self._pending = set(surface.names)
        self._fill_lock = threading.RLock()

    def _fill(self, module_id: str) -> None:
        if module_id not in self._pending:
            return
        with self._fill_lock:
            if module_id in self._pending:
                super().register(module_id, self._proxy(module_id))
                self._pending.discard(module_id)

    def _fill_all(self) -> None:
        for module_id in sorted(self._pending):
            self._fill(module_id)

    def _proxy(self, module_id: str) -> Any:
        spec, root = self._surface.spec(module_id), self._surface.source
        if spec.bundle is not None:
            return self.bundles[spec.bundle].modules[module_id]
        if spec.source is None or root is None:
            raise LookupError(f"{module_id} has no source file; serve it from its registry")
        source = SourceFile(root, spec.source)
        proxy = lazy_module(spec, self._surface.tool(module_id), source)
        load = proxy._load_module

        def load_compared() -> Any:
            self._surface.warn_if_changed(source.file, source.digest())
            return load()

        proxy._load_module = load_compared
        return proxy

    def get(self, module_id: str, version_hint: str | None = None) -> Any:
        self._fill(module_id)
        return super().get(module_id, version_hint)

    def register(self, module_id: str, *args: Any, **kwargs: Any) -> None:
        self._fill(module_id)
        super().register(module_id, *args, **kwargs)

    def unregister(self, module_id: str, **kwargs: Any) -> bool:
        self._fill(module_id)
        return bool(super().unregister(module_id, **kwargs))

    def safe_unregister(self, module_id: str, **kwargs: Any) -> bool:
        self._fill(module_id)
        return bool(super().safe_unregister(module_id, **kwargs))

    def acquire(self, module_id: str) -> Any:
        self._fill(module_id)
        return super().acquire(module_id)

    def get_module_metadata(self, module_id: str) -> dict[str, Any]:
        self._fill(module_id)
        return dict(super().get_module_metadata(module_id))

    def get_declared_annotations(self, module_id: str) -> Any:
        self._fill(module_id)
        return super().get_declared_annotations(module_id)

    def has(self, module_id: str) -> bool:
        return module_id in self._pending or bool(super().has(module_id))

    def list(self, *args: Any, **kwargs: Any) -> builtins.list[str]:
        self._fill_all()
        return super().list(*args, **kwargs)

    def iter(self, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        self._fill_all()
        return super().iter(**kwargs)

    @property
    def count(self) -> int:
        self._fill_all()
        return int(super().count)

    @property
    def module_ids(self) -> builtins.list[str]:
        self._fill_all()
        return list(super().module_ids)

    def close(self) -> None:
        """Give back what bundles keep open."""
        for bundle in self.bundles.values():
            bundle.close()
