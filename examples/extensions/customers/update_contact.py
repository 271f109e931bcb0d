"""Change how a customer is reached.

Description, tags and annotations are in `update_contact_meta.yaml`, where the desk's staff can word them.
"""

from typing import Any

from _shop import store
from apcore import Context
from pydantic import BaseModel, Field


class UpdateContactInput(BaseModel):
    customer_id: str = Field(pattern=store.CUSTOMER_ID, description="Whose details change.")
    email: str | None = Field(
        default=None,
        max_length=120,
        description="New e-mail address; null removes it; leave out to keep it.",
        json_schema_extra={"format": "email"},
    )
    phone: str | None = Field(default=None, description="New telephone number; null removes it; leave out to keep it.")


class UpdateContactOutput(BaseModel):
    customer_id: str = Field(description="Whose details were looked at.")
    changed: list[str] = Field(description="The fields whose value is new; empty when nothing changed.")


class UpdateContact:
    input_schema = UpdateContactInput
    output_schema = UpdateContactOutput
    description = "Change a customer's contact details."

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        wanted = UpdateContactInput.model_validate(inputs)
        who = store.customer(wanted.customer_id)
        # What was sent, not what is None: null removes a detail, and an absent one stays.
        sent = wanted.model_dump(include=wanted.model_fields_set - {"customer_id"})
        changed = {name: value for name, value in sent.items() if getattr(who, name) != value}
        for name, value in changed.items():
            setattr(who, name, value)
        return UpdateContactOutput(customer_id=who.id, changed=sorted(changed)).model_dump()
