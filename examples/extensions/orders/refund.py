"""Give money back for an order."""

from typing import Any, ClassVar, Literal

from _shop import store
from apcore import Context, ModuleAnnotations
from apcore.errors import InvalidInputError
from pydantic import BaseModel, Field

from apcore_mcp import elicit

# Above this, the desk's house rule wants a person to say yes, in words, to the exact sum.
ASK_ABOVE_PENCE = 2000

CONFIRMATION: dict[str, Any] = {
    "type": "object",
    "properties": {
        "confirmed": {"type": "boolean", "title": "Refund this amount", "description": "Yes pays the money back now."},
        "note": {"type": "string", "title": "Note for the file", "maxLength": 200},
    },
    "required": ["confirmed"],
}


class WholeOrder(BaseModel):
    kind: Literal["whole"] = Field(description="Everything that was paid and not yet refunded.")


class PartOfOrder(BaseModel):
    kind: Literal["part"] = Field(description="A sum.")
    pence: int = Field(ge=1, description="How much, in pence.")


class RefundInput(BaseModel):
    order_id: str = Field(pattern=store.ORDER_ID, description="The order to refund.")
    amount: WholeOrder | PartOfOrder = Field(description="The whole order, or a part of it.")
    reason: str = Field(min_length=3, max_length=200, description="What went wrong, in the customer's words.")


class RefundOutput(BaseModel):
    outcome: Literal["refunded", "declined"] = Field(description="`declined` when the person asked said no.")
    refunded_pence: int = Field(ge=0, description="Paid back by this call, in pence.")
    remaining_pence: int = Field(ge=0, description="What could still be refunded, in pence.")
    note: str | None = Field(default=None, description="The note of whoever confirmed.")


class RefundOrder:
    input_schema = RefundInput
    output_schema = RefundOutput
    description = (
        "Give a customer's money back, wholly or in part. Sums above 20 pounds are confirmed with the person at the "
        "desk first; without their yes nothing is paid and the outcome is `declined`."
    )
    tags: ClassVar = ["orders", "write", "money"]
    annotations = ModuleAnnotations(destructive=True, open_world=False)

    async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        wanted = RefundInput.model_validate(inputs)
        order = store.order(wanted.order_id)
        remaining = order.total_pence - order.refunded_pence
        pence = wanted.amount.pence if isinstance(wanted.amount, PartOfOrder) else remaining
        if not 0 < pence <= remaining:
            raise InvalidInputError(f"at most {remaining} pence of order {order.id} can be refunded")

        note = None
        if pence > ASK_ABOVE_PENCE:
            question = f"Refund {pence / 100:.2f} pounds for order {order.id}? Reason given: {wanted.reason}"
            answer = await elicit(context, question, CONFIRMATION)
            if not answer or not answer.get("confirmed"):
                return RefundOutput(outcome="declined", refunded_pence=0, remaining_pence=remaining).model_dump()
            note = answer.get("note")

        order.refunded_pence += pence
        if pence == remaining:
            order.status = store.OrderStatus.REFUNDED
        return RefundOutput(
            outcome="refunded", refunded_pence=pence, remaining_pence=remaining - pence, note=note
        ).model_dump()
