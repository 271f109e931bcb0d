"""Taking secret values out of whatever leaves a tool.

apcore redacts by the name of a key, which does not help against `{"note": "your key is ..."}`.  This goes by the
value: raw, quoted for a URL, escaped for JSON or HTML, in hexadecimal, and in base64 wherever it may begin there.
A tool that transforms a secret in some other way cannot be covered; that it goes only to its holders is the real guard.
"""

import base64
import html
import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, quote_plus

from apcore_agents.settings import SHORTEST_SECRET

__all__ = ["MASK", "Scrubber", "TextStream", "scrubbed_logging"]

# Shorter than any secret, so that it can neither hold one nor be taken for one.
MASK = "***"
WITHHELD = "[log record withheld: it could not be scrubbed]"
# A number below this has fewer digits than any secret.
_SMALL = 10 ** (SHORTEST_SECRET - 1)


class Scrubber:
    """Knows every value that was given out, also after it has changed."""

    def __init__(self) -> None:
        self._forms: set[str] = set()
        self._beginnings: frozenset[str] = frozenset()
        self._pattern: re.Pattern[str] | None = None

    def learn(self, value: str) -> None:
        if value in self._forms:
            return
        self._forms |= {form for form in _forms_of(value) if len(form) >= SHORTEST_SECRET}
        # Longest first: a value may be part of another one.
        ordered = sorted(self._forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, ordered)))
        self._beginnings = frozenset(form[:end] for form in self._forms for end in range(1, len(form)))

    def text(self, text: str) -> str:
        if self._pattern is None:
            return text
        # What is left around a mask may be a secret again; every round makes the text shorter.
        while (scrubbed := self._pattern.sub(MASK, text)) != text:
            text = scrubbed
        return text

    def value(self, value: Any) -> Any:
        """A copy of a JSON value without secrets, keys included; anything else is judged by its text."""
        if self._pattern is None or value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.value(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item) for item in value]
        return value if self._is_small(value) or self.text(str(value)) == str(value) else MASK

    @staticmethod
    def _is_small(value: Any) -> bool:
        return isinstance(value, int) and -_SMALL < value < _SMALL

    def held_back(self, text: str) -> int:
        """How many characters at the end of a text could be the beginning of a secret."""
        longest = max(map(len, self._beginnings), default=0)
        for length in range(min(longest, len(text)), 0, -1):
            if text[-length:] in self._beginnings:
                return length
        return 0

    def stream(self) -> "TextStream":
        return TextStream(self)


class TextStream:
    """Scrubs a text that arrives in pieces; a piece that may end within a secret waits for the next one."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber, self._rest = scrubber, ""

    def push(self, piece: str) -> str:
        text = self._scrubber.text(self._rest + piece)
        end = len(text) - self._scrubber.held_back(text)
        self._rest = text[end:]
        return text[:end]

    def finish(self) -> str:
        rest, self._rest = self._rest, ""
        return rest


def _forms_of(value: str) -> Iterator[str]:
    data = value.encode("utf-8", "surrogatepass")
    yield value
    for text in (quote(value, safe=""), quote(value), quote_plus(value)):
        yield from (text, re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), text))
    for escaped in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]):
        # Twice, since a result in JSON is often put into a string of JSON.
        yield from (escaped, json.dumps(escaped)[1:-1])
    yield html.escape(value)
    yield from (data.hex(), data.hex().upper())
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield from (_base64_core(data, offset, encode) for offset in range(3))


def _base64_core(data: bytes, offset: int, encode: Callable[[bytes], bytes]) -> str:
    """The characters that are the same whatever stands before and after, with `offset` bytes before it."""
    encoded = encode(b"\0" * offset + data).decode()
    return encoded[-(-offset * 8 // 6) : (offset + len(data)) * 8 // 6]


@contextmanager
def scrubbed_logging(scrubber: Scrubber) -> Iterator[None]:
    """Scrub every log record as it is made, whichever logger and handler it is for."""
    before = logging.getLogRecordFactory()

    def make(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = before(*args, **kwargs)
        try:
            record.msg, record.args = scrubber.text(record.getMessage()), ()
            if record.exc_info:
                record.exc_text = scrubber.text(logging.Formatter().formatException(record.exc_info))
                record.exc_info = None
        except Exception:
            record.msg, record.args, record.exc_info = WITHHELD, (), None
        return record

    logging.setLogRecordFactory(make)
    try:
        yield
    finally:
        logging.setLogRecordFactory(before)
