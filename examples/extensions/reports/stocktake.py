"""Compare a shelf count with the books."""

from typing import Any, ClassVar

from _shop import store
from apcore import Context, ModuleAnnotations
from pydantic import BaseModel, Field

from apcore_mcp import report_progress


class Count(BaseModel):
    isbn: str = Field(pattern=store.ISBN, description="ISBN-13 of the book on the shelf.")
    counted: int = Field(ge=0, description="Copies found on the shelf.")


class StocktakeInput(BaseModel):
    counts: list[Count] = Field(min_length=1, max_length=2000, description="What was found on the shelf.")
    tolerance: float = Field(
        default=0.0, ge=0.0, le=1.0, description="Share of the stock that may be missing before it is reported."
    )


class Difference(BaseModel):
    isbn: str = Field(pattern=store.ISBN, description="ISBN-13 of the book.")
    title: str = Field(description="Its title.")
    expected: int = Field(ge=0, description="Copies on the books.")
    counted: int = Field(ge=0, description="Copies on the shelf.")


class StocktakeOutput(BaseModel):
    checked: int = Field(ge=0, description="Titles compared.")
    differences: list[Difference] = Field(description="Titles whose count is off by more than the tolerance.")


class Stocktake:
    input_schema = StocktakeInput
    output_schema = StocktakeOutput
    description = (
        "Compare a shelf count with the recorded stock and list the titles that differ. "
        "Changes nothing. Reports its progress title by title."
    )
    tags: ClassVar = ["reports", "read", "stock"]
    annotations = ModuleAnnotations(readonly=True, idempotent=True, open_world=False)

    async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        wanted = StocktakeInput.model_validate(inputs)
        differences = []
        for done, count in enumerate(wanted.counts, start=1):
            book = store.book(count.isbn)
            if abs(book.in_stock - count.counted) > wanted.tolerance * book.in_stock:
                differences.append(
                    Difference(isbn=book.isbn, title=book.title, expected=book.in_stock, counted=count.counted)
                )
            await report_progress(context, done, total=len(wanted.counts), message=book.title)
        return StocktakeOutput(checked=len(wanted.counts), differences=differences).model_dump()
