"""Erase a customer's personal data."""

from typing import Any, ClassVar, Literal

from _shop import store
from apcore import Context, ModuleAnnotations
from apcore.errors import InvalidInputError
from pydantic import BaseModel, Field


class EraseInput(BaseModel):
    customer_id: str = Field(pattern=store.CUSTOMER_ID, description="Whose data is erased.")
    basis: Literal["customer_request", "retention_expired"] = Field(description="The legal basis, kept for the audit.")


class EraseOutput(BaseModel):
    customer_id: str = Field(description="The customer who was erased.")
    orders_kept: int = Field(ge=0, description="Orders kept for the accounts, without a name.")


class EraseCustomer:
    input_schema = EraseInput
    output_schema = EraseOutput
    description = (
        "Erase a customer's name, contact details and security phrase for good. Needs approval by a person each time. "
        "Refused while an order is still open; closed orders stay in the accounts without a name."
    )
    tags: ClassVar = ["customers", "write", "privacy"]
    annotations = ModuleAnnotations(destructive=True, requires_approval=True, open_world=False)

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        wanted = EraseInput.model_validate(inputs)
        who = store.customer(wanted.customer_id)
        theirs = [order for order in store.orders.values() if order.customer_id == who.id]
        open_orders = [order.id for order in theirs if order.status in ("placed", "packed")]
        if open_orders:
            raise InvalidInputError(f"{who.id} still has open orders: {', '.join(open_orders)}")
        del store.customers[who.id]
        return EraseOutput(customer_id=who.id, orders_kept=len(theirs)).model_dump()
