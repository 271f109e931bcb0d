"""Place an order."""

from datetime import date
from typing import Annotated, Any, ClassVar, Literal

from _shop import pricing, store
from apcore import Context, ModuleAnnotations, ModuleExample
from pydantic import BaseModel, Field


class Line(BaseModel):
    isbn: str = Field(pattern=store.ISBN, description="ISBN-13 of the book; catalogue.search finds it.")
    copies: int = Field(default=1, ge=1, le=99, description="How many copies.")


class Address(BaseModel):
    name: str = Field(min_length=1, description="Who receives the parcel.")
    street: str = Field(min_length=1, description="Street and number.")
    town: str = Field(min_length=1, description="Town or city.")
    postcode: str | None = Field(default=None, description="Postcode, where the country uses them.")
    zone: pricing.Zone = Field(default="uk", description="Postage zone of the country.")


class Courier(BaseModel):
    kind: Literal["courier"] = Field(description="Send the parcel.")
    address: Address = Field(description="Where the parcel goes.")
    not_before: date | None = Field(default=None, description="Hold the parcel back until this day.")


class Collect(BaseModel):
    kind: Literal["collect"] = Field(description="Keep the books at the counter.")
    branch: Literal["harbour", "station", "university"] = Field(description="Which branch keeps them.")


class CreateInput(BaseModel):
    customer_id: str = Field(pattern=store.CUSTOMER_ID, description="Who pays; customers.find gives the id.")
    lines: list[Line] = Field(min_length=1, max_length=20, description="The books, one line for each title.")
    delivery: Annotated[Courier | Collect, Field(discriminator="kind", description="By courier or collected.")]
    gift_note: str | None = Field(default=None, max_length=200, description="Printed on a card in the parcel.")
    newsletter: bool = Field(default=False, description="Whether the customer asked for the newsletter.")


class CreateOutput(BaseModel):
    order_id: str = Field(pattern=store.ORDER_ID, description="Number of the new order.")
    status: store.OrderStatus = Field(description="A new order is `placed`.")
    placed_on: date = Field(description="The business day of the order.")
    goods_pence: int = Field(ge=0, description="The books alone, in pence.")
    postage_pence: int = Field(ge=0, description="Postage in pence; 0 for collection.")
    total_pence: int = Field(ge=0, description="What the customer pays, in pence.")


class CreateOrder:
    input_schema = CreateInput
    output_schema = CreateOutput
    description = (
        "Place an order for a known customer and take the copies out of stock. "
        "Refuses the whole order when any title has too few copies. Not idempotent: calling twice orders twice."
    )
    tags: ClassVar = ["orders", "write"]
    annotations = ModuleAnnotations(open_world=False)
    examples: ClassVar = [
        ModuleExample(
            title="Two copies, collected at the station branch",
            inputs={
                "customer_id": "C-102",
                "lines": [{"isbn": "9780141439518", "copies": 2}],
                "delivery": {"kind": "collect", "branch": "station"},
            },
            output={
                "order_id": "B-1005",
                "status": "placed",
                "placed_on": "2026-03-14",
                "goods_pence": 1398,
                "postage_pence": 0,
                "total_pence": 1398,
            },
        )
    ]

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        wanted = CreateInput.model_validate(inputs)
        quantities: dict[str, int] = {}
        for line in wanted.lines:
            quantities[line.isbn] = quantities.get(line.isbn, 0) + line.copies
        order = store.place(wanted.customer_id, quantities, _postage(wanted.delivery, quantities))
        return CreateOutput(
            order_id=order.id,
            status=order.status,
            placed_on=order.placed_on,
            goods_pence=order.goods_pence,
            postage_pence=order.postage_pence,
            total_pence=order.total_pence,
        ).model_dump()


def _postage(delivery: Courier | Collect, quantities: dict[str, int]) -> int:
    if isinstance(delivery, Collect):
        return 0
    goods = sum(store.book(isbn).price_pence * copies for isbn, copies in quantities.items())
    return pricing.postage(sum(quantities.values()), delivery.address.zone, goods)
