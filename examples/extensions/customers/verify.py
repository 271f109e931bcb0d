"""Check that a caller is who they say."""

import hmac
from typing import Any, ClassVar

from _shop import store
from apcore import Context, ModuleAnnotations
from pydantic import BaseModel, Field


class VerifyInput(BaseModel):
    customer_id: str = Field(pattern=store.CUSTOMER_ID, description="Who the caller says they are.")
    security_phrase: str = Field(
        min_length=4,
        description="The phrase the caller gives. Masked in logs and never repeated.",
        json_schema_extra={"x-sensitive": True, "writeOnly": True},
    )


class VerifyOutput(BaseModel):
    verified: bool = Field(description="Whether the phrase is the one on file.")


class VerifyCaller:
    input_schema = VerifyInput
    output_schema = VerifyOutput
    description = (
        "Check a caller's security phrase before telling them anything about an account. "
        "Answers only yes or no, also when there is no such customer."
    )
    tags: ClassVar = ["customers", "security"]
    annotations = ModuleAnnotations(readonly=True, idempotent=True, open_world=False)

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        wanted = VerifyInput.model_validate(inputs)
        who = store.customers.get(wanted.customer_id)
        # Compared for an unknown customer too, so that the time taken does not tell who is on file.
        on_file = who.security_phrase if who else ""
        given = wanted.security_phrase.strip().lower()
        return {"verified": hmac.compare_digest(given.encode(), on_file.encode())}
