"""Property paths: reading them from payloads, writing them into copies, and keeping or dropping them in outputs.

A path is dotted (`Address.Street`).  Arrays are transparent: a path reaches into every element.  Names match exactly
or, when reading, case-insensitively if only one name fits.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from apcore_tree.engine.node import Json
from apcore_tree.errors import InvalidArgument

__all__ = ["MISSING", "PropertyFilter", "folded", "read", "read_all", "split_path", "written"]

MISSING: Any = object()
_GUARDED = frozenset({"nodeid", "children", "parent", "payloadtype"})


def folded(name: str) -> str:
    """The name as a guard compares it: no look-alike passes by case or Unicode form."""
    return unicodedata.normalize("NFKC", name).casefold()


def is_guarded(name: str) -> bool:
    return folded(name) in _GUARDED


def split_path(path: str) -> list[str]:
    segments = path.split(".")
    if not all(segments):
        raise InvalidArgument(f"{path!r} is not a property path", field="path")
    return segments


def resolve(data: Json, name: str) -> str | None:
    """The key that the name means in this object."""
    if name in data:
        return name
    wanted = name.casefold()
    fitting = [key for key in data if key.casefold() == wanted]
    return fitting[0] if len(fitting) == 1 else None


def read(data: Json, path: str) -> Any:
    """The first value at the path, or MISSING."""
    if path in data:
        return data[path]
    return next(read_all(data, split_path(path)), MISSING)


def read_all(value: Any, segments: list[str]) -> Iterator[Any]:
    if not segments:
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from read_all(item, segments)
    elif isinstance(value, dict):
        key = resolve(value, segments[0])
        if key is not None:
            yield from read_all(value[key], segments[1:])


def written(data: Json, path: str, value: Any) -> Json:
    """A copy of the data with the value at the path; objects on the way are copied or made."""
    if path in data or "." not in path:
        _refuse_near_miss(data, path)
        return {**data, path: value}
    head, rest = path.split(".", 1)
    _refuse_near_miss(data, head)
    inner = data.get(head, {})
    if not isinstance(inner, dict):
        raise InvalidArgument(f"{head!r} holds no properties of its own", field="propertyName")
    return {**data, head: written(inner, rest, value)}


def _refuse_near_miss(data: Json, name: str) -> None:
    """Writing `color` beside `Color` is nearly always a slip, and never found again."""
    known = resolve(data, name)
    if known is not None and known != name:
        raise InvalidArgument(
            f"There is no property {name!r}; did you mean {known!r}?", field="propertyName", suggestion=known
        )


class PropertyFilter:
    """Included paths are a white list (empty: everything); excluded paths win.

    A path stands for itself and everything under it.  `$name` paths speak of the node, not of its payload.
    """

    def __init__(self, included: Iterable[str] = (), excluded: Iterable[str] = ()) -> None:
        self.included = list(included)
        self.excluded = list(excluded)
        self._keep = [split_path(path) for path in self.included if not path.startswith("$")]
        self._drop = [split_path(path) for path in self.excluded if not path.startswith("$")]
        self._hidden = {path for path in self.excluded if path.startswith("$")}
        self.everything = not self._keep and not self._drop

    def shows(self, field: str) -> bool:
        return field not in self._hidden

    def apply(self, data: Json) -> Json:
        """The visible part, as the caller's own copy."""
        kept: Any = _only(data, self._keep) if self._keep else data
        return dict(_without(kept, self._drop))


def _names(data: Json, paths: list[list[str]]) -> dict[str, list[list[str]]]:
    """The rests of the paths under each key that they name."""
    rests: dict[str, list[list[str]]] = {}
    for path in paths:
        key = resolve(data, path[0])
        if key is not None:
            rests.setdefault(key, []).append(path[1:])
    return rests


def _only(value: Any, paths: list[list[str]]) -> Any:
    if [] in paths:
        return value
    if isinstance(value, list):
        return [_only(item, paths) for item in value if isinstance(item, dict | list)]
    if not isinstance(value, dict):
        return MISSING
    rests = _names(value, paths)
    kept = {key: _only(value[key], rests[key]) for key in value if key in rests}
    return {key: item for key, item in kept.items() if item is not MISSING}


def _without(value: Any, paths: list[list[str]]) -> Any:
    if isinstance(value, list):
        return [_without(item, paths) for item in value]
    if not isinstance(value, dict):
        return value
    rests = _names(value, paths)
    return {key: _without(item, rests.get(key, [])) for key, item in value.items() if [] not in rests.get(key, [])}
