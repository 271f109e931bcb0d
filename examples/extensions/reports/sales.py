"""Sales by day, one day at a time."""

from collections.abc import AsyncIterator, Iterator
from datetime import date, timedelta
from typing import Any, ClassVar

from _shop import store
from apcore import Context, ModuleAnnotations
from apcore.errors import InvalidInputError
from pydantic import BaseModel, Field

LONGEST_PERIOD = timedelta(days=92)


class SalesInput(BaseModel):
    start: date = Field(description="First day of the report.")
    end: date = Field(description="Last day of the report, at most 92 days later.")
    skip_empty: bool = Field(default=True, description="Leave out days without a sale.")


class Day(BaseModel):
    orders: int = Field(ge=0, description="Orders placed that day, cancelled ones left out.")
    copies: int = Field(ge=0, description="Books in those orders.")
    takings_pence: int = Field(ge=0, description="Their worth without postage, in pence.")


class SalesOutput(BaseModel):
    days: dict[str, Day] = Field(default_factory=dict, description="Figures by day; keys are ISO dates.")
    takings_pence: int = Field(default=0, ge=0, description="Takings of the whole period, in pence.")


class SalesReport:
    input_schema = SalesInput
    output_schema = SalesOutput
    description = (
        "Report orders, copies and takings for each day of a period, with the total. "
        "Days arrive one by one when the client follows progress, so a long report can be read as it grows."
    )
    tags: ClassVar = ["reports", "read", "money"]
    annotations = ModuleAnnotations(readonly=True, idempotent=True, streaming=True, open_world=False)

    async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        days: dict[str, Any] = {}
        takings = 0
        async for chunk in self.stream(inputs, context):
            days |= chunk.get("days", {})
            takings = chunk.get("takings_pence", takings)
        return {"days": days, "takings_pence": takings}

    async def stream(self, inputs: dict[str, Any], context: Context) -> AsyncIterator[dict[str, Any]]:
        wanted = SalesInput.model_validate(inputs)
        if not timedelta(0) <= wanted.end - wanted.start <= LONGEST_PERIOD:
            raise InvalidInputError("`end` must lie 0 to 92 days after `start`")
        takings = 0
        for day in _days(wanted.start, wanted.end):
            figures = _figures(day)
            takings += figures.takings_pence
            if figures.orders or not wanted.skip_empty:
                # Keyed by day, because chunks are merged by key into the final result.
                yield {"days": {day.isoformat(): figures.model_dump()}}
        yield {"takings_pence": takings}


def _days(start: date, end: date) -> Iterator[date]:
    return (start + timedelta(days=offset) for offset in range((end - start).days + 1))


def _figures(day: date) -> Day:
    placed = [
        order
        for order in store.orders.values()
        if order.placed_on == day and order.status is not store.OrderStatus.CANCELLED
    ]
    return Day(
        orders=len(placed),
        copies=sum(sum(order.quantities.values()) for order in placed),
        takings_pence=sum(order.goods_pence for order in placed),
    )
