"""Two modules in one file."""

from typing import Any

from apcore import Context
from apcore.registry.multi_class import multi_class
from pydantic import BaseModel


class Nothing(BaseModel):
    pass


@multi_class
class OpenDrawer:
    input_schema = Nothing
    output_schema = Nothing
    description = "Open the drawer."

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        return {}


@multi_class
class CloseDrawer:
    input_schema = Nothing
    output_schema = Nothing
    description = "Close the drawer."

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        return {}
