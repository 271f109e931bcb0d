"""A decorated function."""

from apcore import module


@module(id="desk.count", description="Count the words of a text.", tags=["desk", "read"])
def count(text: str) -> dict[str, int]:
    return {"words": len(text.split())}
