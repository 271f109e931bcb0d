"""Cancel an order."""

from typing import Annotated, Literal

from _shop import store
from apcore.decorator import module
from apcore.errors import InvalidInputError
from pydantic import BaseModel, Field


class Cancelled(BaseModel):
    order_id: str = Field(pattern=store.ORDER_ID, description="The order that was cancelled.")
    reason: Literal["customer", "stock", "payment"] = Field(description="Why, as filed.")
    copies_returned: int = Field(ge=0, description="Copies put back on the shelf; 0 if it was cancelled before.")


@module(
    id="orders.cancel",
    description=(
        "Cancel an order that has not been sent and put its copies back on the shelf. "
        "Cannot be undone; cancelling an order twice changes nothing."
    ),
    tags=["orders", "write"],
    annotations={"destructive": True, "idempotent": True, "open_world": False},
)
def cancel(
    order_id: Annotated[str, Field(pattern=store.ORDER_ID, description="The order to cancel, such as B-1003.")],
    reason: Annotated[
        Literal["customer", "stock", "payment"], Field(description="Why: the customer's wish, no stock, no payment.")
    ] = "customer",
) -> Cancelled:
    order = store.order(order_id)
    if order.status is store.OrderStatus.CANCELLED:
        return Cancelled(order_id=order_id, reason=reason, copies_returned=0)
    if order.status not in (store.OrderStatus.PLACED, store.OrderStatus.PACKED):
        raise InvalidInputError(f"order {order_id} is already {order.status}; use orders.refund")
    order.status = store.OrderStatus.CANCELLED
    return Cancelled(order_id=order_id, reason=reason, copies_returned=store.put_back(order))
