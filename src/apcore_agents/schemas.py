"""JSON Schemas that apcore takes for models, validated as they are written.

Turning a foreign schema into a pydantic model loses part of it, and Python's jsonschema gives its patterns to `re`,
where `^(a+)+$` and thirty characters take seconds.  The engine used here gives up on such a pattern instead.
"""

from itertools import islice
from typing import Any, NoReturn

import jsonschema_rs
from apcore.errors import SchemaValidationError

__all__ = ["JsonSchema"]

MOST_ERRORS = 10
MOST_CHARACTERS = 200


class JsonSchema:
    """Has the methods that apcore asks of a pydantic model class."""

    def __init__(self, schema: dict[str, Any], subject: str = "Input") -> None:
        self._schema, self._subject = schema, subject
        self._validator = jsonschema_rs.validator_for(schema, retriever=_refuse)

    def model_json_schema(self, *_: Any, **__: Any) -> dict[str, Any]:
        return self._schema

    def model_rebuild(self, *_: Any, **__: Any) -> None:
        """Nothing to rebuild: the schema is final."""

    def model_validate(self, data: Any, *, strict: bool | None = None) -> Any:
        if not self._is_valid(data):
            raise SchemaValidationError(message=f"{self._subject} validation failed", errors=self._errors(data))
        return data

    def _is_valid(self, data: Any) -> bool:
        try:
            return self._validator.is_valid(data)
        except ValueError:
            # Not JSON at all.
            return False

    def _errors(self, data: Any) -> list[dict[str, str]]:
        try:
            return [_described(error) for error in islice(self._validator.iter_errors(data), MOST_ERRORS)]
        except ValueError as error:
            return [{"path": "", "keyword": "type", "message": str(error)[:MOST_CHARACTERS]}]


def _described(error: Any) -> dict[str, str]:
    path = "".join(f"/{part}" for part in error.instance_path)
    keyword = next((part for part in reversed(error.schema_path) if isinstance(part, str)), "invalid")
    return {"path": path, "keyword": keyword, "message": error.message[:MOST_CHARACTERS]}


def _refuse(uri: str) -> NoReturn:
    raise LookupError(f"{uri} is not within the schema")
