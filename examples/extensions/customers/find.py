"""Find a customer."""

from typing import Annotated

from _shop import store
from apcore import module
from pydantic import BaseModel, Field


class Match(BaseModel):
    customer_id: str = Field(pattern=store.CUSTOMER_ID, description="Id, as the other tools expect it.")
    name: str = Field(description="Full name.")
    orders: int = Field(ge=0, description="How many orders the customer has placed.")


class Matches(BaseModel):
    matches: list[Match] = Field(description="Sorted by name.")


@module(
    id="customers.find",
    description=(
        "Find customers by part of their name or e-mail address and get their id. "
        "Shows no contact details: call customers.verify before discussing an order."
    ),
    tags=["customers", "read"],
    annotations={"readonly": True, "idempotent": True, "open_world": False},
)
def find(
    text: Annotated[str, Field(min_length=2, description="Part of the name or of the e-mail address.")],
) -> Matches:
    wanted = text.lower()
    found = [who for who in store.customers.values() if wanted in who.name.lower() or wanted in (who.email or "")]
    placed = [order.customer_id for order in store.orders.values()]
    return Matches(
        matches=[
            Match(customer_id=who.id, name=who.name, orders=placed.count(who.id))
            for who in sorted(found, key=lambda who: who.name)
        ]
    )
