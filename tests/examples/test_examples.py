"""Every example module answers through a real apcore Executor, as its schema and its description say."""

import asyncio
import copy
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import Any

import apcore
import jsonschema
import pytest
from apcore import Executor, Registry
from apcore.approval import AlwaysDenyHandler, AutoApproveHandler
from apcore.bindings import BindingLoader
from apcore.errors import ApprovalDeniedError, InvalidInputError, SchemaValidationError
from apcore.middleware import Middleware
from apcore.registry.metadata import load_metadata

EXTENSIONS = Path(__file__).parents[2] / "examples" / "extensions"
FILES = sorted(path for path in EXTENSIONS.rglob("*.py") if not path.relative_to(EXTENSIONS).parts[0].startswith("_"))

# The answer to each example call, and the arguments that bring it about.
CALLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "catalogue.search": (
        {"query": "WOOLF waves"},
        {
            "hits": [
                {
                    "isbn": "9780141182711",
                    "title": "The Waves",
                    "author": "Virginia Woolf",
                    "price_pence": 899,
                    "in_stock": 2,
                }
            ],
            "total": 1,
        },
    ),
    "catalogue.quote": (
        {"isbns": ["9780141439549", "9780141439549"], "zone": "europe", "school": True},
        {"goods_pence": 1998, "discount_pence": 199, "postage_pence": 1350, "total_pence": 3149},
    ),
    "catalogue.postage": ({"copies": 3}, {"result": 450}),
    "catalogue.supplier_feed": (
        {
            "messageId": "GA004711",
            "items": [
                {"kind": "delivered", "isbn": "9780099429838", "copies": 12},
                {"kind": "delayed", "isbn": "9780141182711", "expected": "2026-04-01"},
                {"kind": "delivered", "isbn": "9780000000002", "copies": 1},
            ],
        },
        {"messageId": "GA004711", "copiesAdded": 12, "delayed": ["9780141182711"], "unknown": ["9780000000002"]},
    ),
    "customers.find": ({"text": "osei"}, {"matches": [{"customer_id": "C-101", "name": "Amina Osei", "orders": 2}]}),
    "customers.verify": ({"customer_id": "C-101", "security_phrase": "Blue Kettle"}, {"verified": True}),
    "customers.update_contact": (
        {"customer_id": "C-101", "email": None},
        {"customer_id": "C-101", "changed": ["email"]},
    ),
    "customers.erase": (
        {"customer_id": "C-104", "basis": "customer_request"},
        {"customer_id": "C-104", "orders_kept": 0},
    ),
    "orders.create": (
        {
            "customer_id": "C-102",
            "lines": [{"isbn": "9780141439518", "copies": 2}, {"isbn": "9780140268867"}],
            "delivery": {
                "kind": "courier",
                "address": {"name": "Tom Marlowe", "street": "4 Quay Row", "town": "Whitby", "postcode": "YO21 1AA"},
                "not_before": "2026-03-20",
            },
        },
        {
            "order_id": "B-1005",
            "status": "placed",
            "placed_on": date(2026, 3, 14),
            "goods_pence": 2897,
            "postage_pence": 450,
            "total_pence": 3347,
        },
    ),
    "orders.find": (
        {"statuses": ["packed", "sent"], "placed": {"start": "2026-03-05"}},
        {
            "orders": [
                {
                    "order_id": "B-1002",
                    "customer_id": "C-102",
                    "placed_on": date(2026, 3, 9),
                    "status": "packed",
                    "copies": 2,
                    "total_pence": 2348,
                }
            ],
            "total": 1,
        },
    ),
    "orders.cancel": (
        {"order_id": "B-1003"},
        {"order_id": "B-1003", "reason": "customer", "copies_returned": 6},
    ),
    "orders.refund": (
        {"order_id": "B-1001", "amount": {"kind": "part", "pence": 500}, "reason": "A torn jacket"},
        {"outcome": "refunded", "refunded_pence": 500, "remaining_pence": 1748, "note": None},
    ),
    "reports.sales": (
        {"start": "2026-03-08", "end": "2026-03-12"},
        {
            "days": {
                "2026-03-09": {"orders": 1, "copies": 2, "takings_pence": 1998},
                "2026-03-12": {"orders": 2, "copies": 7, "takings_pence": 9093},
            },
            "takings_pence": 11091,
        },
    ),
    "reports.stocktake": (
        {"counts": [{"isbn": "9780141439549", "counted": 5}, {"isbn": "9780141182711", "counted": 2}]},
        {
            "checked": 2,
            "differences": [{"isbn": "9780141439549", "title": "Middlemarch", "expected": 6, "counted": 5}],
        },
    ),
}


@pytest.fixture(scope="module")
def loaded() -> Iterator[dict[str, ModuleType]]:
    """Import the extension files as one program: shared helpers come from the directory itself."""
    # `from apcore import module` registers with the process-wide client, which refuses a second import.
    apcore.close()
    sys.path.append(str(EXTENSIONS))
    try:
        yield {_module_id(path): _import(path) for path in FILES}
    finally:
        sys.path.remove(str(EXTENSIONS))
        apcore.close()


@pytest.fixture
def registry(loaded: dict[str, ModuleType]) -> Registry:
    sys.modules["_shop.store"].reset()
    registry = Registry()
    for module_id, file in loaded.items():
        meta = load_metadata(_path(module_id).with_name(f"{module_id.split('.')[-1]}_meta.yaml"))
        registry.register(module_id, _module_object(file), metadata=meta or None)
    for binding in sorted(EXTENSIONS.rglob("*.binding.yaml")):
        BindingLoader().load_bindings(str(binding), registry)
    return registry


@pytest.fixture
def call(registry: Registry) -> Callable[..., dict[str, Any]]:
    def call(module_id: str, arguments: dict[str, Any], handler: Any = None) -> dict[str, Any]:
        executor = Executor(registry, approval_handler=handler or AutoApproveHandler())
        result: dict[str, Any] = asyncio.run(executor.call_async(module_id, arguments))
        return result

    return call


def _module_id(path: Path) -> str:
    return ".".join(path.relative_to(EXTENSIONS).with_suffix("").parts)


def _path(module_id: str) -> Path:
    return EXTENSIONS.joinpath(*module_id.split(".")).with_suffix(".py")


def _import(path: Path) -> ModuleType:
    name = f"example_{_module_id(path).replace('.', '_')}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    file = importlib.util.module_from_spec(spec)
    # Known by name before it runs, so that postponed annotations can be resolved.
    sys.modules[name] = file
    spec.loader.exec_module(file)
    return file


def _module_object(file: ModuleType) -> Any:
    here = [value for value in vars(file).values() if getattr(value, "__module__", None) == file.__name__]
    functions = [value.apcore_module for value in here if hasattr(value, "apcore_module")]
    classes = [value() for value in here if inspect.isclass(value) and hasattr(value, "execute")]
    (only,) = functions + classes
    return only


def test_every_module_is_called_below(registry: Registry) -> None:
    assert sorted(registry.list()) == sorted(CALLS)


@pytest.mark.parametrize("module_id", CALLS)
def test_the_call_gives_the_answer_and_both_fit_the_schemas(
    module_id: str, call: Callable[..., dict[str, Any]], registry: Registry
) -> None:
    arguments, answer = CALLS[module_id]
    assert call(module_id, arguments) == answer
    definition = registry.get_definition(module_id)
    assert definition is not None
    jsonschema.validate(arguments, definition.input_schema)
    jsonschema.validate(json.loads(json.dumps(answer, default=str)), definition.output_schema)


@pytest.mark.parametrize("module_id", CALLS)
def test_a_model_can_choose_and_fill_it(module_id: str, registry: Registry) -> None:
    definition = registry.get_definition(module_id)
    assert definition is not None
    assert len(definition.description) > 40
    assert definition.tags
    assert module_id.split(".")[0] in definition.tags
    undescribed = [
        path
        for schema in (definition.input_schema, definition.output_schema)
        for path, node in _properties(schema, "")
        if "description" not in node and "$ref" not in node
    ]
    # apcore wraps a plain return value in a property of its own.
    assert undescribed in ([], ["/result"])


def _properties(schema: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, list):
        for item in schema:
            yield from _properties(item, path)
    elif isinstance(schema, dict):
        for name, node in schema.get("properties", {}).items():
            yield f"{path}/{name}", node
            yield from _properties(node, f"{path}/{name}")
        for key, node in schema.items():
            if key in ("items", "anyOf", "oneOf"):
                yield from _properties(node, path)
            elif key == "$defs":
                for name, definition in node.items():
                    yield from _properties(definition, f"{path}#{name}")


@pytest.mark.parametrize("module_id", ["catalogue.search", "orders.create"])
def test_the_documented_examples_are_true(
    module_id: str, registry: Registry, call: Callable[..., dict[str, Any]]
) -> None:
    definition = registry.get_definition(module_id)
    assert definition is not None
    assert definition.examples
    for example in definition.examples:
        assert json.loads(json.dumps(call(module_id, example.inputs), default=str)) == example.output


@pytest.mark.parametrize(
    ("module_id", "arguments", "message"),
    [
        ("orders.cancel", {"order_id": "B-9999"}, "no order B-9999"),
        ("orders.cancel", {"order_id": "B-1001"}, "already sent; use orders.refund"),
        ("orders.refund", {"order_id": "B-1001", "amount": {"kind": "part", "pence": 9999}, "reason": "Lost"}, "2248"),
        ("catalogue.quote", {"isbns": ["9780000000002"]}, "no book with ISBN"),
        ("customers.erase", {"customer_id": "C-101", "basis": "customer_request"}, "open orders: B-1003"),
        ("reports.sales", {"start": "2026-03-12", "end": "2026-03-01"}, "0 to 92 days"),
    ],
)
def test_a_mistake_is_explained_to_the_caller(
    module_id: str, arguments: dict[str, Any], message: str, call: Callable[..., dict[str, Any]]
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call(module_id, arguments)


@pytest.mark.parametrize(
    ("module_id", "arguments"),
    [
        ("orders.create", {"customer_id": "C-102", "lines": [], "delivery": {"kind": "collect", "branch": "harbour"}}),
        ("orders.create", {"customer_id": "C-102", "lines": [{"isbn": "1"}], "delivery": {"kind": "pigeon"}}),
        ("catalogue.supplier_feed", {"messageId": "GA004711", "items": [{"kind": "lost", "isbn": "9780099429838"}]}),
        ("customers.find", {"text": "a"}),
    ],
)
def test_arguments_outside_the_schema_are_refused(
    module_id: str, arguments: dict[str, Any], call: Callable[..., dict[str, Any]]
) -> None:
    with pytest.raises(SchemaValidationError):
        call(module_id, arguments)


def test_a_refused_order_takes_no_copies(call: Callable[..., dict[str, Any]]) -> None:
    lines = [{"isbn": "9780141439549", "copies": 1}, {"isbn": "9780099429838", "copies": 1}]
    with pytest.raises(InvalidInputError, match="only 0 of 'Invisible Cities'"):
        call(
            "orders.create",
            {"customer_id": "C-102", "lines": lines, "delivery": {"kind": "collect", "branch": "station"}},
        )
    assert call("catalogue.search", {"query": "middlemarch"})["hits"][0]["in_stock"] == 6


def test_cancelling_twice_returns_the_copies_once(call: Callable[..., dict[str, Any]]) -> None:
    assert call("orders.cancel", {"order_id": "B-1003"})["copies_returned"] == 6
    assert call("orders.cancel", {"order_id": "B-1003"})["copies_returned"] == 0


def test_verification_does_not_tell_who_is_on_file(call: Callable[..., dict[str, Any]]) -> None:
    wrong = call("customers.verify", {"customer_id": "C-101", "security_phrase": "red kettle"})
    unknown = call("customers.verify", {"customer_id": "C-999", "security_phrase": "red kettle"})
    assert wrong == unknown == {"verified": False}


def test_the_security_phrase_is_masked_for_logs(registry: Registry) -> None:
    seen: list[Any] = []

    class Note(Middleware):
        def after(self, module_id: str, inputs: Any, output: Any, context: Any) -> None:
            seen.append(context.redacted_inputs)

    arguments = {"customer_id": "C-101", "security_phrase": "blue kettle"}
    asyncio.run(Executor(registry, middlewares=[Note()]).call_async("customers.verify", arguments))
    assert seen == [{"customer_id": "C-101", "security_phrase": "***REDACTED***"}]


def test_erasing_needs_a_yes(call: Callable[..., dict[str, Any]]) -> None:
    arguments = {"customer_id": "C-104", "basis": "retention_expired"}
    with pytest.raises(ApprovalDeniedError):
        call("customers.erase", arguments, handler=AlwaysDenyHandler())
    assert call("customers.find", {"text": "voss"})["matches"]
    call("customers.erase", arguments)
    assert not call("customers.find", {"text": "voss"})["matches"]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (None, {"outcome": "declined", "refunded_pence": 0, "remaining_pence": 2248, "note": None}),
        ({"confirmed": False}, {"outcome": "declined", "refunded_pence": 0, "remaining_pence": 2248, "note": None}),
        (
            {"confirmed": True, "note": "Regular"},
            {"outcome": "refunded", "refunded_pence": 2248, "remaining_pence": 0, "note": "Regular"},
        ),
    ],
)
def test_a_large_refund_waits_for_the_desk(
    answer: dict[str, Any] | None,
    outcome: dict[str, Any],
    loaded: dict[str, ModuleType],
    call: Callable[..., dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ask(context: Any, message: str, requested_schema: dict[str, Any]) -> dict[str, Any] | None:
        assert "22.48 pounds for order B-1001" in message
        if answer:
            jsonschema.validate(answer, requested_schema)
        return answer

    monkeypatch.setattr(loaded["orders.refund"], "elicit", ask)
    arguments = {"order_id": "B-1001", "amount": {"kind": "whole"}, "reason": "Never arrived"}
    assert call("orders.refund", arguments) == outcome


def test_the_stocktake_reports_each_title(
    loaded: dict[str, ModuleType], call: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[tuple[float, float | None, str | None]] = []

    async def note(context: Any, progress: float, total: float | None = None, message: str | None = None) -> None:
        reported.append((progress, total, message))

    monkeypatch.setattr(loaded["reports.stocktake"], "report_progress", note)
    call("reports.stocktake", CALLS["reports.stocktake"][0])
    assert reported == [(1, 2, "Middlemarch"), (2, 2, "The Waves")]


def test_sales_arrive_day_by_day(registry: Registry) -> None:
    arguments, answer = CALLS["reports.sales"]

    async def chunks() -> list[dict[str, Any]]:
        # Copied on arrival: apcore merges later chunks into the first one it handed out.
        return [copy.deepcopy(chunk) async for chunk in Executor(registry).stream("reports.sales", arguments)]

    received = asyncio.run(chunks())
    assert [list(chunk.get("days", {})) for chunk in received] == [["2026-03-09"], ["2026-03-12"], []]
    assert received[-1] == {"takings_pence": answer["takings_pence"]}


def test_the_companion_file_words_the_description(registry: Registry) -> None:
    definition = registry.get_definition("customers.update_contact")
    assert definition is not None
    assert "Send only the fields that change" in definition.description
    assert definition.version == "1.2.0"
    assert definition.annotations is not None
    assert definition.annotations.idempotent
