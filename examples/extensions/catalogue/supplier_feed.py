"""Take in a wholesaler's availability message.

The schema is the wholesaler's own, kept as published, so the module declares it as a plain dict instead of
retyping it as models. `supplier_feed_meta.yaml` names the class, because apcore finds only model-typed ones.
"""

from typing import Any, ClassVar

from _shop import store
from apcore import Context, ModuleAnnotations

MESSAGE: dict[str, Any] = {
    "type": "object",
    "title": "AvailabilityMessage",
    "required": ["messageId", "items"],
    "additionalProperties": False,
    "properties": {
        "messageId": {
            "type": "string",
            "pattern": "^[A-Z]{2}[0-9]{6}$",
            "description": "The wholesaler's number for this message, such as GA004711.",
        },
        "items": {
            "type": "array",
            "minItems": 1,
            "maxItems": 500,
            "description": "One entry for each title whose availability changed.",
            "items": {"$ref": "#/$defs/Item"},
        },
    },
    "$defs": {
        "Isbn": {"type": "string", "pattern": store.ISBN, "description": "ISBN-13 without hyphens."},
        "Item": {
            "oneOf": [{"$ref": "#/$defs/Delivered"}, {"$ref": "#/$defs/Delayed"}],
            "description": "Either copies delivered or a delay.",
        },
        "Delivered": {
            "type": "object",
            "title": "Delivered",
            "required": ["kind", "isbn", "copies"],
            "additionalProperties": False,
            "properties": {
                "kind": {"const": "delivered", "description": "Copies arrived."},
                "isbn": {"$ref": "#/$defs/Isbn"},
                "copies": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "Copies added to stock."},
            },
        },
        "Delayed": {
            "type": "object",
            "title": "Delayed",
            "required": ["kind", "isbn", "expected"],
            "additionalProperties": False,
            "properties": {
                "kind": {"const": "delayed", "description": "Nothing arrived yet."},
                "isbn": {"$ref": "#/$defs/Isbn"},
                "expected": {"type": "string", "format": "date", "description": "When copies are expected."},
            },
        },
    },
}

RECEIPT: dict[str, Any] = {
    "type": "object",
    "required": ["messageId", "copiesAdded", "delayed", "unknown"],
    "properties": {
        "messageId": {"type": "string", "description": "The number of the message that was taken in."},
        "copiesAdded": {"type": "integer", "minimum": 0, "description": "Copies added to stock in all."},
        "delayed": {"type": "array", "items": {"type": "string"}, "description": "ISBNs that are still awaited."},
        "unknown": {"type": "array", "items": {"type": "string"}, "description": "ISBNs that the shop does not sell."},
    },
}


class SupplierFeed:
    input_schema = MESSAGE
    output_schema = RECEIPT
    description = "Take in a wholesaler's availability message: add delivered copies to stock and list delays."
    tags: ClassVar = ["catalogue", "stock"]
    annotations = ModuleAnnotations(open_world=False)

    def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        known = [item for item in inputs["items"] if item["isbn"] in store.books]
        delivered = [item for item in known if item["kind"] == "delivered"]
        for item in delivered:
            store.books[item["isbn"]].in_stock += item["copies"]
        return {
            "messageId": inputs["messageId"],
            "copiesAdded": sum(item["copies"] for item in delivered),
            "delayed": [item["isbn"] for item in known if item["kind"] == "delayed"],
            "unknown": [item["isbn"] for item in inputs["items"] if item["isbn"] not in store.books],
        }
