"""`secret://name` in configuration: given to its holders when they need it, and to nobody else."""

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from apcore_agents.failures import ToolError
from apcore_agents.scrubbing import Scrubber
from apcore_agents.servers import VariableUnset, expand, variables_in
from apcore_agents.settings import SHORTEST_SECRET, SecretSource

__all__ = ["Secrets"]

_REFERENCE = re.compile("secret://([a-z][a-z0-9_]{0,62})")


class Secrets:
    """Looks values up at each use, so that a rotated one is taken at once; all of them are scrubbed from then on."""

    def __init__(
        self, sources: Mapping[str, SecretSource], root: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self._sources, self._root = sources, root
        self._environment: Mapping[str, str] = os.environ if environment is None else environment
        self.scrubber = Scrubber()

    def fill(self, text: str, holder: str) -> str:
        """Put secrets and `${VARIABLES}` into a text of the configuration."""
        expanded = self._expand(text)
        return _REFERENCE.sub(lambda found: self._get(found[1], holder), expanded)

    def _expand(self, text: str) -> str:
        for name in variables_in(text):
            # What is read from the environment is taken for a secret, unless it is too short to be told from a word.
            if len(self._environment.get(name, "")) >= SHORTEST_SECRET:
                self.scrubber.learn(self._environment[name])
        try:
            return expand(text, self._environment)
        except VariableUnset as error:
            raise ToolError("SECRET_UNAVAILABLE", f"variable {error} is not set") from None

    def _get(self, name: str, holder: str) -> str:
        source = self._sources.get(name)
        if source is None or holder not in source.allow:
            raise ToolError("SECRET_UNAVAILABLE", f"{holder} may not use secret {name!r}")
        value = next((value for origin in source.sources if (value := self._look_up(origin))), None)
        if value is None:
            raise ToolError("SECRET_UNAVAILABLE", f"secret {name!r} is not set")
        if len(value) < SHORTEST_SECRET:
            raise ToolError("SECRET_UNAVAILABLE", f"secret {name!r} is too short to be kept out of texts")
        if not value.isprintable():
            # A line break in a header would begin another header.
            raise ToolError("SECRET_UNAVAILABLE", f"secret {name!r} has control characters")
        self.scrubber.learn(value)
        return value

    def _look_up(self, origin: str) -> str | None:
        kind, _, place = origin.partition(":")
        providers: dict[str, Callable[[str], str | None]] = {
            "env": self._environment.get,
            "file": self._read,
            "keyring": _from_keyring,
        }
        return providers[kind](place)

    def _read(self, place: str) -> str | None:
        try:
            return (self._root / place).read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise ToolError("SECRET_UNAVAILABLE", f"a secret's file cannot be read: {type(error).__name__}") from None


def _from_keyring(place: str) -> str | None:
    try:
        import keyring
    except ImportError:
        raise ToolError("SECRET_UNAVAILABLE", "keyring is not installed; install apcore-mcp[keyring]") from None
    service, _, name = place.rpartition("/")
    return keyring.get_password(service, name)
