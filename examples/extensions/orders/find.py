"""List orders.

Postponed annotations and models inside models: both forms are fine in an extension.
"""

from __future__ import annotations

from datetime import date
from typing import Any, ClassVar

from _shop import store
from apcore import Context, ModuleAnnotations
from pydantic import BaseModel, Field


class Period(BaseModel):
    start: date | None = Field(default=None, description="First day to include; open when absent.")
    end: date | None = Field(default=None, description="Last day to include; open when absent.")

    def includes(self, day: date) -> bool:
        return (self.start or date.min) <= day <= (self.end or date.max)


class FindInput(BaseModel):
    customer_id: str | None = Field(default=None, pattern=store.CUSTOMER_ID, description="Only this customer's orders.")
    statuses: list[store.OrderStatus] = Field(
        default_factory=list, description="Only orders in one of these states; empty for all."
    )
    placed: Period = Field(default_factory=Period, description="Only orders placed in this period.")
    limit: int = Field(default=20, ge=1, le=100, description="Return at most this many orders, newest first.")


class FindOutput(BaseModel):
    orders: list[Summary] = Field(description="Newest first.")
    total: int = Field(ge=0, description="How many orders matched before `limit` was applied.")


# Declared after its use: the name is looked up when the schema is built.
class Summary(BaseModel):
    order_id: str = Field(pattern=store.ORDER_ID, description="Order number.")
    customer_id: str = Field(pattern=store.CUSTOMER_ID, description="Who placed it.")
    placed_on: date = Field(description="The business day of the order.")
    status: store.OrderStatus = Field(description="Where the order stands.")
    copies: int = Field(ge=1, description="Books in the order.")
    total_pence: int = Field(ge=0, description="What it came to, with postage, in pence.")


class FindOrders:
    input_schema = FindInput
    output_schema = FindOutput
    description = (
        "List orders, newest first, filtered by customer, state or the day they were placed. "
        "Use it to find an order number when the customer does not know it."
    )
    tags: ClassVar = ["orders", "read"]
    annotations = ModuleAnnotations(readonly=True, idempotent=True, open_world=False)

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        wanted = FindInput.model_validate(inputs)
        found = [
            order
            for order in store.orders.values()
            if wanted.customer_id in (None, order.customer_id)
            and (not wanted.statuses or order.status in wanted.statuses)
            and wanted.placed.includes(order.placed_on)
        ]
        found.sort(key=lambda order: (order.placed_on, order.id), reverse=True)
        return FindOutput(orders=[_summary(order) for order in found[: wanted.limit]], total=len(found)).model_dump()


def _summary(order: store.Order) -> Summary:
    return Summary(
        order_id=order.id,
        customer_id=order.customer_id,
        placed_on=order.placed_on,
        status=order.status,
        copies=sum(order.quantities.values()),
        total_pence=order.total_pence,
    )
