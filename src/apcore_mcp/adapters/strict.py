"""OpenAI's strict mode, which lives in a package of its own."""

from apcore_openai.strict import Departure, StrictResult, remove_nulls, to_strict

__all__ = ["Departure", "StrictResult", "remove_nulls", "to_strict"]
