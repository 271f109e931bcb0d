"""Write extensions for measurements: one file a module, ten input properties, three output properties."""

from pathlib import Path

MODULE = '''"""Benchmark module {number}."""

from typing import Any, Literal

from pydantic import BaseModel, Field


class Input(BaseModel):
    customer: str = Field(description="Who asks")
    quantity: int = Field(ge=1, le=1000, description="How many")
    price: float = Field(default=1.0, description="Price of one")
    currency: Literal["EUR", "GBP", "USD"] = Field(default="EUR", description="Currency of the price")
    express: bool = Field(default=False, description="Whether to hurry")
    note: str | None = Field(default=None, description="Anything else")
    tags: list[str] = Field(default_factory=list, description="Labels")
    reference: str = Field(default="", description="The customer's own number")
    discount: float | None = Field(default=None, description="Fraction taken off")
    region: str = Field(default="north", description="Where it goes")


class Output(BaseModel):
    total: float
    accepted: bool
    reference: str


class Tool{number}:
    """Quote number {number}."""

    description = "Quote number {number}: what a quantity costs, with discount and delivery."
    input_schema = Input
    output_schema = Output

    async def execute(self, inputs: dict[str, Any], context: Any) -> dict[str, Any]:
        total = inputs["quantity"] * inputs.get("price", 1.0)
        return {{"total": total, "accepted": True, "reference": inputs.get("reference", "")}}
'''


def write_modules(directory: Path, count: int, per_namespace: int = 20, template: str = MODULE) -> None:
    """Write `count` modules in namespaces of a size that people keep."""
    for number in range(count):
        folder = directory / f"area{number // per_namespace}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"tool{number}.py").write_text(template.format(number=number), encoding="utf-8")
