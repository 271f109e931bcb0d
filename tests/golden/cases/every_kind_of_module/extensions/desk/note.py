"""A class with pydantic schemas, and a companion file that words its description."""

from typing import Any

from apcore import Context, ModuleAnnotations
from pydantic import BaseModel, Field


class NoteInput(BaseModel):
    text: str = Field(description="What to keep.")
    pinned: bool = False


class NoteOutput(BaseModel):
    id: int


class KeepNote:
    input_schema = NoteInput
    output_schema = NoteOutput
    description = "Keep a note."
    annotations = ModuleAnnotations(destructive=True)

    async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        return {"id": len(inputs["text"])}
