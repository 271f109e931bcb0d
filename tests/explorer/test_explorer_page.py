"""What someone sees and does on the explorer page."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

Json = dict[str, Any]

EVERY_KIND: Json = {
    "type": "object",
    "required": ["name", "quantity", "urgent", "colour", "lines", "delivery"],
    "properties": {
        "name": {"type": "string", "description": "Who it is for.", "minLength": 1, "maxLength": 40},
        "quantity": {"type": "integer", "minimum": 1, "maximum": 99},
        "weight": {"type": "number", "default": 0.5, "description": "In kilograms."},
        "urgent": {"type": "boolean"},
        "gift": {"type": "boolean", "default": False},
        "colour": {"enum": ["red", "green", 7]},
        "size": {"type": "string", "enum": ["s", "m"], "default": "m"},
        "day": {"type": "string", "format": "date"},
        "note": {"anyOf": [{"type": "string", "maxLength": 200}, {"type": "null"}], "default": None},
        "pin": {"type": "string", "x-sensitive": True},
        "tags": {"type": "array", "items": {"type": "string"}},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/Line"}},
        "period": {"type": "object", "properties": {"start": {"type": "string"}, "open": {"type": "boolean"}}},
        "delivery": {"oneOf": [{"$ref": "#/$defs/Courier"}, {"$ref": "#/$defs/Collect"}]},
        "amount": {"type": ["integer", "string"]},
        "labels": {"type": "object", "additionalProperties": {"type": "integer"}},
        "parent": {"$ref": "#/$defs/Node"},
        "anything": {"description": "No type at all."},
    },
    "$defs": {
        "Line": {
            "type": "object",
            "title": "Line",
            "required": ["sku"],
            "properties": {"sku": {"type": "string", "pattern": "^[A-Z]+$"}, "copies": {"type": "integer"}},
        },
        "Courier": {
            "type": "object",
            "required": ["kind", "town"],
            "properties": {"kind": {"const": "courier"}, "town": {"type": "string"}},
        },
        "Collect": {
            "type": "object",
            "required": ["kind", "branch"],
            "properties": {"kind": {"const": "collect"}, "branch": {"enum": ["harbour", "station"]}},
        },
        "Node": {
            "type": "object",
            "properties": {"label": {"type": "string"}, "child": {"$ref": "#/$defs/Node"}},
        },
    },
}

DOCUMENTATION = """\
# How to order

Say **who** it is for. See [the guide](https://example.org/guide).

| field | meaning |
|---|---|
| `name` | the person |

1. Choose.
2. Send.

```
{"name": "Ada"}
```
"""


def tool(name: str, schema: Json | None = None, meta: Json | None = None, **hints: bool) -> Json:
    made: Json = {
        "name": name,
        "description": f"What {name} does, told in one sentence.",
        "inputSchema": schema or {"type": "object", "properties": {"text": {"type": "string"}}},
        "annotations": {
            "readOnlyHint": False,
            "destructiveHint": False,
            "idempotentHint": False,
            "openWorldHint": False,
        }
        | hints,
    }
    return made | ({"_meta": meta} if meta else {})


SHOP: Json = {
    "name": "Order desk",
    "version": "1.4.0",
    "tools": [
        tool("orders.create", EVERY_KIND) | {"outputSchema": EVERY_KIND["$defs"]["Line"]},
        tool("orders.erase", None, {"apcore/requiresApproval": True}, destructiveHint=True),
        tool("orders.find", {"type": "object", "properties": {}}, readOnlyHint=True, idempotentHint=True),
        tool("reports.sales", None, {"apcore/streaming": True}, readOnlyHint=True, openWorldHint=True),
        tool("ping"),
    ],
    "openai": {"orders.create": {"type": "function", "function": {"name": "orders-create"}}},
    "sources": {"orders.create": "orders/create.py:12"},
    "docs": {"orders.create": DOCUMENTATION},
}


def field(page: Page, name: str) -> Any:
    """The control of a top-level field, by its label."""
    return page.locator(".editor").get_by_label(re.compile(rf"^{name} ")).first


def arguments(page: Page) -> Json:
    """What a run would send, read off the MCP snippet."""
    sent: Json = json.loads(page.locator(".snippets pre").inner_text())["params"]["arguments"]
    return sent


def fill_required(page: Page) -> None:
    field(page, "name").fill("Ada")
    field(page, "quantity").fill("3")
    field(page, "colour").select_option("green")
    page.get_by_label("delivery: which kind").select_option("Collect")
    page.get_by_label("branch").select_option("harbour")


REQUIRED: Json = {
    "name": "Ada",
    "quantity": 3,
    "urgent": False,
    "colour": "green",
    "lines": [],
    "delivery": {"kind": "collect", "branch": "harbour"},
}


class TestReading:
    def test_opens_from_disk_and_asks_for_nothing_else(self, visit: Any, on_disk: Any) -> None:
        seen = visit()
        address = on_disk(SHOP)
        page = seen.open(address, "orders.create")
        expect(page.locator("h2", has_text="orders.create")).to_be_visible()
        page.get_by_role("button", name="curl").click()
        expect(page.get_by_text("From disk", exact=True)).to_be_visible()
        expect(page.get_by_role("button", name="Run")).to_be_disabled()
        assert [url for url in seen.requests if not url.startswith((address, "data:"))] == []
        assert seen.trouble == []

    def test_served_it_asks_only_its_own_endpoints(self, visit: Any, page_server: Any) -> None:
        server = page_server(SHOP)
        seen = visit()
        page = seen.open(server.url, "orders.find")
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_text("Succeeded")).to_be_visible()
        called = {url.removeprefix(server.url) for url in seen.requests if not url.startswith("data:")}
        assert called == {"", "tools", "tools/orders.find", "tools/orders.find/call"}
        assert seen.trouble == []

    def test_tools_are_grouped_by_namespace(self, visit: Any, on_disk: Any) -> None:
        page = visit().open(on_disk(SHOP))
        assert page.locator("#list h2").all_inner_texts() == ["orders\n3", "reports\n1", "no namespace\n1"]
        assert page.locator(".tool-name").all_inner_texts()[0] == "create"

    def test_badges_tell_how_a_tool_behaves(self, visit: Any, on_disk: Any) -> None:
        seen = visit()
        address = on_disk(SHOP)
        badges = {
            name: seen.open(address, name).locator(".badges li").all_inner_texts()
            for name in ("orders.erase", "orders.find", "reports.sales", "ping")
        }
        assert badges == {
            "orders.erase": ["destructive", "needs approval"],
            "orders.find": ["read-only", "idempotent"],
            "reports.sales": ["read-only", "open-world", "streaming"],
            "ping": [],
        }

    def test_the_schema_reads_as_nested_properties(self, visit: Any, on_disk: Any) -> None:
        page = visit().open(on_disk(SHOP), "orders.create")
        reference = page.locator(".reference")
        said = " ".join(reference.inner_text().split())
        assert "name string required Who it is for. length 1 to 40" in said
        assert "quantity integer required value 1 to 99" in said
        assert 'colour choice required one of "red" | "green" | 7' in said
        assert "day date" in said
        assert "note string or null length at most 200" in said
        assert "pin string sensitive masked in logs" in said
        assert "lines list of Line required sku string required pattern ^[A-Z]+$ copies integer" in said
        assert 'delivery Courier or Collect required Courier kind constant required always "courier"' in said
        assert "labels map of integer" in said
        # A recursive type is named instead of being repeated for ever.
        assert "Node, as above" in said
        assert "Defined in orders/create.py:12" in page.locator(".tool-head").inner_text()

    def test_documentation_is_set_as_text(self, visit: Any, on_disk: Any) -> None:
        page = visit().open(on_disk(SHOP), "orders.create")
        prose = page.locator(".prose")
        expect(prose.locator("h4")).to_have_text("How to order")
        expect(prose.locator("strong")).to_have_text("who")
        assert prose.locator("td").all_inner_texts() == ["name", "the person"]
        assert prose.locator("ol li").all_inner_texts() == ["Choose.", "Send."]
        expect(prose.locator("pre")).to_have_text('{"name": "Ada"}')
        expect(prose.locator("a")).to_have_attribute("href", "https://example.org/guide")

    def test_search_narrows_the_list_and_says_so(self, visit: Any, on_disk: Any) -> None:
        page = visit().open(on_disk(SHOP))
        page.get_by_label("Search tools").fill("ORDERS e")
        expect(page.locator("#count")).to_have_text("3 of 5 tools")
        page.get_by_label("Search tools").fill("erase sentence")
        assert page.locator("#list a:visible .tool-name").all_inner_texts() == ["erase\ndestructive"]
        page.get_by_label("Search tools").fill("zebra")
        expect(page.locator("#count")).to_contain_text("No tool matches")
        page.keyboard.press("Escape")
        expect(page.locator("#count")).to_have_text("5 tools")

    def test_a_link_leads_to_a_tool_and_back(self, visit: Any, on_disk: Any) -> None:
        page = visit().open(on_disk(SHOP), "reports.sales")
        expect(page.locator("h2", has_text="reports.sales")).to_be_visible()
        expect(page).to_have_title("reports.sales · Order desk")
        page.locator("#list a", has_text="find").click()
        assert page.url.endswith("#tool=orders.find")
        expect(page.locator("#list a[aria-current]")).to_contain_text("find")
        page.go_back()
        expect(page.locator("main h2")).to_have_text("reports.sales")

    def test_a_link_to_nowhere_says_so(self, visit: Any, on_disk: Any) -> None:
        page = visit().open(on_disk(SHOP), "orders.burn")
        expect(page.locator("main")).to_contain_text("There is no tool named orders.burn here.")

    def test_no_tools_is_a_state_of_its_own(self, visit: Any, on_disk: Any) -> None:
        page = visit().open(on_disk({"name": "Empty", "version": "", "tools": []}))
        expect(page.locator("#list")).to_contain_text("There are no tools here.")
        expect(page.locator("main h2")).to_have_text("No tools")

    def test_the_theme_follows_the_system_until_told_otherwise(self, visit: Any, on_disk: Any) -> None:
        background = "getComputedStyle(document.body).backgroundColor"
        seen = visit(color_scheme="dark")
        address = on_disk(SHOP)
        page = seen.open(address)
        dark = page.evaluate(background)
        page.get_by_role("button", name="Theme: system").click()
        light = page.evaluate(background)
        assert light == "rgb(255, 255, 255)" != dark
        page = seen.open(address)
        assert page.evaluate(background) == light
        page.get_by_role("button", name="Theme: light").click()
        assert page.evaluate(background) == dark


class TestForm:
    def test_every_kind_of_field_reaches_the_arguments(self, visit: Any, on_disk: Any) -> None:
        page = visit().open(on_disk(SHOP), "orders.create")
        fill_required(page)
        assert arguments(page) == REQUIRED

        field(page, "weight").fill("2.25")
        field(page, "urgent").check()
        field(page, "gift").select_option("true")
        field(page, "colour").select_option("7")
        field(page, "size").select_option("s")
        field(page, "day").fill("2026-03-14")
        field(page, "note").fill("By hand\nplease")
        page.get_by_role("button", name="Add to tags").click()
        field(page, "tags 1").fill("new")
        page.get_by_role("button", name="Add to tags").click()
        field(page, "tags 2").fill("late")
        page.get_by_role("button", name="Remove tags 1").click()
        page.get_by_role("button", name="Add to lines").click()
        page.get_by_label("sku").fill("ABC")
        page.get_by_label("copies").fill("2")
        page.get_by_label("period: include").check()
        page.get_by_label("start").fill("Monday")
        page.get_by_label("delivery: which kind").select_option("Courier")
        page.get_by_label("town").fill("Whitby")
        page.get_by_label("amount: which kind").select_option("integer")
        page.get_by_label("amount: integer").fill("12")
        page.get_by_role("button", name="Add to labels").click()
        page.get_by_label("key", exact=True).fill("shelf")
        field(page, "value").fill("4")
        page.get_by_label("parent: include").check()
        field(page, "label").fill("root")
        field(page, "anything").fill('[1, {"a": null}]')
        assert arguments(page) == {
            "name": "Ada",
            "quantity": 3,
            "weight": 2.25,
            "urgent": True,
            "gift": True,
            "colour": 7,
            "size": "s",
            "day": "2026-03-14",
            "note": "By hand\nplease",
            "tags": ["late"],
            "lines": [{"sku": "ABC", "copies": 2}],
            "period": {"start": "Monday"},
            "delivery": {"kind": "courier", "town": "Whitby"},
            "amount": 12,
            "labels": {"shelf": 4},
            "parent": {"label": "root"},
            "anything": [1, {"a": None}],
        }

    def test_names_that_every_object_answers_to_are_fields_like_others(self, visit: Any, on_disk: Any) -> None:
        names = ["constructor", "toString", "__proto__"]
        schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
        page = visit().open(on_disk(SHOP | {"tools": [tool("constructor", schema)]}), "constructor")
        assert arguments(page) == {}
        for name in names:
            field(page, name).fill(name)
        assert arguments(page) == {name: name for name in names}

    def test_null_is_not_the_same_as_left_out(self, visit: Any, on_disk: Any) -> None:
        page = visit().open(on_disk(SHOP), "orders.create")
        assert "note" not in arguments(page)
        page.get_by_label("note: send null").check()
        assert arguments(page)["note"] is None

    def test_a_sensitive_value_is_sent_but_neither_shown_nor_copied(self, visit: Any, page_server: Any) -> None:
        server = page_server(SHOP)
        page = visit().open(server.url, "orders.create")
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        expect(field(page, "pin")).to_have_attribute("type", "password")
        field(page, "pin").fill("4711")
        for kind in ("MCP", "curl"):
            page.get_by_role("button", name=kind, exact=True).click()
            assert "4711" not in page.locator(".snippets pre").inner_text()
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_text("Succeeded")).to_be_visible()
        assert server.calls[0][1]["pin"] == "4711"

    def test_what_is_no_number_is_left_to_the_server_to_refuse(self, visit: Any, on_disk: Any) -> None:
        page = visit().open(on_disk(SHOP), "orders.create")
        field(page, "quantity").fill("many")
        expect(field(page, "quantity")).to_have_attribute("aria-invalid", "true")
        assert arguments(page)["quantity"] == "many"

    def test_form_and_json_stay_in_step(self, visit: Any, on_disk: Any) -> None:
        page = visit().open(on_disk(SHOP), "orders.create")
        fill_required(page)
        page.get_by_role("button", name="JSON", exact=True).click()
        raw = page.get_by_label("Arguments as JSON")
        assert json.loads(raw.input_value()) == REQUIRED

        edited = REQUIRED | {
            "name": "Grace",
            "quantity": "a few",
            "note": None,
            "tags": [],
            "lines": [{"copies": 2}],
            "delivery": {"kind": "courier"},
            "amount": "ten",
            "parent": {"child": {"label": "leaf"}},
            "unknown": {"kept": True},
        }
        raw.fill(json.dumps(edited))
        assert arguments(page) == edited
        page.get_by_role("button", name="Form", exact=True).click()
        expect(field(page, "name")).to_have_value("Grace")
        expect(page.get_by_label("note: send null")).to_be_checked()
        expect(page.get_by_label("amount: string")).to_have_value("ten")
        expect(page.get_by_text("Also sent, from JSON: unknown")).to_be_visible()
        field(page, "name").fill("Hopper")
        page.get_by_role("button", name="JSON", exact=True).click()
        # Only what was typed has changed; `town` is required and therefore sent empty.
        after = edited | {"name": "Hopper", "delivery": {"kind": "courier", "town": ""}}
        assert json.loads(raw.input_value()) | {"lines": []} == after | {"lines": []}
        assert json.loads(raw.input_value())["lines"] == [{"sku": "", "copies": 2}]

    def test_broken_json_stays_in_the_editor(self, visit: Any, on_disk: Any) -> None:
        page = visit().open(on_disk(SHOP), "orders.create")
        page.get_by_role("button", name="JSON", exact=True).click()
        raw = page.get_by_label("Arguments as JSON")
        for text in ('{"name": ', "[]"):
            raw.fill(text)
            page.get_by_role("button", name="Form", exact=True).click()
            expect(page.get_by_role("alert")).to_contain_text("Not valid JSON")
            expect(raw).to_have_value(text)

    def test_what_was_typed_is_still_there_after_a_look_elsewhere(self, visit: Any, on_disk: Any) -> None:
        page = visit().open(on_disk(SHOP), "orders.create")
        field(page, "name").fill("Ada")
        page.locator("#list a", has_text="erase").click()
        page.locator("#list a", has_text="create").click()
        expect(field(page, "name")).to_have_value("Ada")

    def test_snippets_can_be_copied(self, visit: Any, page_server: Any) -> None:
        server = page_server(SHOP)
        seen = visit(permissions=["clipboard-read", "clipboard-write"])
        page = seen.open(server.url, "orders.create")
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        field(page, "name").fill("O'Brien")
        copied = {}
        for kind in ("MCP", "OpenAI", "curl"):
            page.get_by_role("button", name=kind, exact=True).click()
            page.get_by_role("button", name=f"Copy: {kind} snippet").click()
            expect(page.get_by_role("button", name=f"Copy: {kind} snippet")).to_have_text("Copied")
            copied[kind] = page.evaluate("navigator.clipboard.readText()")
        assert json.loads(copied["MCP"])["method"] == "tools/call"
        assert json.loads(copied["OpenAI"]) == SHOP["openai"]["orders.create"]
        _, _, address, _, header, _, body = shlex.split(copied["curl"].replace("\\\n", ""))
        assert address == f"{server.url}tools/orders.create/call"
        assert header == "Content-Type: application/json"
        assert json.loads(body)["name"] == "O'Brien"


class TestRunning:
    def run(self, page: Page) -> Any:
        expect(page.get_by_role("button", name="Run")).to_be_enabled()
        page.get_by_role("button", name="Run").click()
        return page.locator(".result")

    def test_a_result_is_shown_with_its_duration(self, visit: Any, page_server: Any) -> None:
        server = page_server(SHOP)
        page = visit().open(server.url, "orders.create")
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        fill_required(page)
        result = self.run(page)
        expect(result).to_contain_text(re.compile(r"Succeeded\s*200 · \d+ ms"))
        assert json.loads(result.locator("pre").inner_text()) == {"tool": "orders.create", "arguments": REQUIRED}
        assert server.calls == [("orders.create", REQUIRED)]

    @pytest.mark.parametrize(
        ("status", "error", "advice"),
        [
            (400, "Input validation failed:\n- text: Field required (missing)", ""),
            (403, "Tool execution is disabled", "may execute tools"),
            (404, "Tool 'ping' not found", "reload"),
            (500, "Internal error occurred", ""),
        ],
    )
    def test_a_refusal_is_shown_as_the_server_put_it(
        self, status: int, error: str, advice: str, visit: Any, page_server: Any
    ) -> None:
        server = page_server(SHOP, answer=lambda name, arguments: (status, {"error": error}))
        result = self.run(visit().open(server.url, "ping"))
        expect(result).to_contain_text(f"{status} ·")
        expect(result.locator(".error")).to_have_text(error, use_inner_text=True)
        expect(result).to_contain_text(advice)

    def test_an_answer_that_is_not_json_is_shown_as_it_came(self, visit: Any, page_server: Any) -> None:
        server = page_server(SHOP, answer=lambda name, arguments: (502, b"<h1>Bad gateway</h1>"))
        expect(self.run(visit().open(server.url, "ping"))).to_contain_text("<h1>Bad gateway</h1>")

    def test_a_server_that_went_away_is_named_as_the_cause(self, visit: Any, page_server: Any) -> None:
        server = page_server(SHOP)
        page = visit().open(server.url, "ping")
        expect(page.get_by_role("button", name="Run")).to_be_enabled()
        server.http.shutdown()
        server.http.socket.close()
        expect(self.run(page)).to_contain_text("The server could not be reached.")

    def test_a_long_run_can_be_cancelled(self, visit: Any, page_server: Any) -> None:
        server = page_server(SHOP)
        page = visit().open(server.url, "ping")
        expect(page.get_by_role("button", name="Run")).to_be_enabled()
        page.route("**/call", lambda route: None)
        page.get_by_role("button", name="Run").click()
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator(".result")).to_contain_text("Cancelled")
        expect(page.get_by_role("button", name="Run")).to_be_enabled()

    def test_the_live_list_wins_over_the_built_one(self, visit: Any, page_server: Any) -> None:
        server = page_server(SHOP, tools=[tool("orders.create", EVERY_KIND), tool("orders.archive", readOnlyHint=True)])
        page = visit().open(server.url, "orders.archive")
        expect(page.locator(".badges")).to_have_text("read-only")
        expect(page.locator("#count")).to_have_text("2 tools")
        expect(page.get_by_label(re.compile("^text"))).to_be_visible()

    def test_the_address_may_lack_its_last_slash(self, visit: Any, page_server: Any) -> None:
        server = page_server(SHOP)
        expect(self.run(visit().open(server.url.removesuffix("/"), "ping"))).to_contain_text("Succeeded")
        assert server.calls == [("ping", {})]

    def test_a_page_without_data_works_from_the_server_alone(self, visit: Any, page_server: Any) -> None:
        server = page_server({"name": "Live", "version": "", "tools": []}, tools=SHOP["tools"])
        page = visit().open(server.url, "orders.create")
        expect(page.locator("#count")).to_have_text("5 tools")
        fill_required(page)
        expect(self.run(page)).to_contain_text("Succeeded")

    def test_a_static_host_shows_the_build(self, visit: Any, page_server: Any) -> None:
        seen = visit()
        seen.page.route("**/explorer/tools", lambda route: route.fulfill(status=404, body="nothing"))
        page = seen.open(page_server(SHOP).url, "ping")
        expect(page.locator("#status")).to_have_text("Server silent: showing the build")
        expect(page.get_by_role("button", name="Run")).to_be_disabled()

    def test_names_with_odd_characters_reach_the_server_unchanged(self, visit: Any, page_server: Any) -> None:
        odd = "a/b?c#d &é"
        server = page_server(SHOP, tools=[tool(odd)])
        page = visit().open(server.url)
        page.locator("#list a").click()
        expect(self.run(page)).to_contain_text("Succeeded")
        assert server.calls == [(odd, {})]


EVIL = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\u2028alert(1)\u2029",
    "{{7*7}}{% raw %}${alert(1)}",
    "\"'><svg onload=alert(1)>",
    "<!--<script>",
    "__proto__",
    "javascript:alert(1)",
]


def evil_surface(text: str) -> Json:
    schema = {
        "type": "object",
        "title": text,
        "required": [text],
        "properties": {
            text: {"type": "string", "description": text, "default": text, "pattern": text, "format": text},
            "choice": {"enum": [text], "description": text},
            "union": {"anyOf": [{"title": text, "type": "string"}, {"const": text}]},
            "list": {"type": "array", "items": {"$ref": f"#/$defs/{text}"}},
        },
        "$defs": {text: {"type": "object", "properties": {text: {"type": "integer"}}}},
    }
    name = f"evil.{text}"
    made = tool(name, schema, {"apcore/streaming": text}) | {"title": text, "description": text, "outputSchema": schema}
    docs = f"# {text}\n\n{text} `{text}` **{text}** [{text}]({text})\n\n| {text} |\n|---|\n| {text} |\n\n- {text}"
    return {
        "name": text,
        "version": text,
        "tools": [made],
        "openai": {name: {"description": text}},
        "sources": {name: text},
        "docs": {name: docs},
    }


class TestHostileStrings:
    @pytest.mark.parametrize("text", EVIL)
    def test_stay_text_wherever_they_appear(self, text: str, visit: Any, page_server: Any) -> None:
        server = page_server(evil_surface(text), answer=lambda name, arguments: (500, {"error": text}))
        seen = visit()
        page = seen.open(server.url)
        page.locator("#list a").click()
        expect(page.get_by_role("button", name="Run")).to_be_enabled()
        page.get_by_role("button", name="Add to list").click()
        page.get_by_role("button", name="Run").click()
        expect(page.locator(".result .error")).to_be_visible()
        for mode in ("JSON", "Form", "OpenAI", "curl"):
            page.get_by_role("button", name=mode, exact=True).click()
        assert seen.trouble == []
        assert page.locator("script").count() == 2
        assert page.locator("img, svg, iframe, object, embed, base").count() == 0
        attributes = page.evaluate("[...document.querySelectorAll('*')].flatMap((node) => node.getAttributeNames())")
        assert [name for name in attributes if name.startswith("on")] == []
        links = page.evaluate("[...document.querySelectorAll('a')].map((link) => link.getAttribute('href'))")
        assert [link for link in links if not link.startswith(("#", "https://", "http://"))] == []
        assert page.evaluate("document.querySelector('.lead').textContent") == text
        assert page.evaluate("document.querySelector('#server-name').textContent") == text

    def test_the_template_never_writes_markup_from_data(self) -> None:
        templates = Path(__file__).parents[2] / "templates" / "explorer"
        source = "".join(path.read_text(encoding="utf-8") for path in sorted(templates.glob("*.j2")))
        forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc"
        assert re.findall(forbidden, source) == []
        assert len(source.encode()) < 61_440


class TestKeyboard:
    def test_the_whole_way_from_search_to_result(self, visit: Any, page_server: Any) -> None:
        server = page_server(SHOP)
        page = visit().open(server.url)
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        press = page.keyboard.press
        press("/")
        expect(page.get_by_label("Search tools")).to_be_focused()
        page.keyboard.type("orders")
        press("ArrowDown")
        press("ArrowDown")
        press("ArrowDown")
        expect(page.locator("#list a:focus")).to_contain_text("find")
        press("ArrowUp")
        press("Home")
        expect(page.locator("#list a:focus")).to_contain_text("create")
        press("End")
        press("Enter")
        expect(page.locator("main h2")).to_have_text("orders.find")
        # The list is one stop: the next Tab is already in the tool.
        press("Tab")
        expect(page.get_by_role("button", name="Form", exact=True)).to_be_focused()
        press("Tab")
        press("Tab")
        expect(page.get_by_role("button", name="Run")).to_be_focused()
        press("Enter")
        expect(page.get_by_text("Succeeded")).to_be_visible()

    def test_control_enter_runs_from_inside_the_form(self, visit: Any, page_server: Any) -> None:
        page = visit().open(page_server(SHOP).url, "ping")
        expect(page.get_by_role("button", name="Run")).to_be_enabled()
        page.get_by_label(re.compile("^text")).press("Enter")
        expect(page.locator(".result")).to_be_empty()
        page.get_by_label(re.compile("^text")).press("Control+Enter")
        expect(page.get_by_text("Succeeded")).to_be_visible()

    def test_the_first_stop_skips_the_list(self, visit: Any, on_disk: Any) -> None:
        page = visit().open(on_disk(SHOP), "ping")
        page.keyboard.press("Tab")
        expect(page.get_by_text("Skip to the tool")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("main h2")).to_be_focused()
        assert page.url.endswith("#tool=ping")

    def test_a_slash_in_a_field_is_a_slash(self, visit: Any, on_disk: Any) -> None:
        page = visit().open(on_disk(SHOP), "ping")
        page.get_by_label(re.compile("^text")).press_sequentially("a/b")
        expect(page.get_by_label(re.compile("^text"))).to_have_value("a/b")

    def test_tab_passes_every_stop_and_leaves(self, visit: Any, on_disk: Any) -> None:
        page = visit().open(on_disk(SHOP), "orders.create")
        page.evaluate("document.activeElement.blur()")
        stops: list[str] = []
        for _ in range(80):
            page.keyboard.press("Tab")
            stops.append(page.evaluate("document.querySelector(':focus')?.outerHTML ?? ''"))
            if stops.count(stops[0]) > 1:
                break
        assert len(stops) < 80
        assert len(stops) > 20
        outlined = "getComputedStyle(document.activeElement).outlineStyle"
        page.get_by_role("button", name="JSON", exact=True).focus()
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Tab")
        assert page.evaluate(outlined) == "solid"


class TestAccessibility:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("width", [1280, 375])
    def test_axe_finds_nothing_serious(self, scheme: str, width: int, visit: Any, page_server: Any) -> None:
        server = page_server(SHOP, answer=lambda name, arguments: (500, {"error": "Internal error occurred"}))
        page = visit(width, 900, color_scheme=scheme).open(server.url)
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        found = {"the list": _serious(page)}
        page.locator("#list a", has_text="create").click()
        expect(page.locator("main h2")).to_be_visible()
        for name in ("Add to tags", "Add to lines", "Add to labels"):
            page.get_by_role("button", name=name).click()
        page.get_by_label("period: include").check()
        page.get_by_label("parent: include").check()
        page.get_by_label("delivery: which kind").select_option("Courier")
        page.get_by_label("amount: which kind").select_option("string")
        page.get_by_role("button", name="Run").click()
        expect(page.get_by_text("Failed")).to_be_visible()
        found["a form and an error"] = _serious(page)
        page.get_by_role("button", name="JSON", exact=True).click()
        page.get_by_label("Arguments as JSON").fill("{")
        found["broken JSON"] = _serious(page)
        for name in ("orders.erase", "orders.nowhere"):
            page.goto(f"{server.url}#tool={name}")
            found[name] = _serious(page)
        assert {state: findings for state, findings in found.items() if findings} == {}

    def test_nothing_is_wider_than_a_phone(self, visit: Any, on_disk: Any) -> None:
        page = visit(375, 800).open(on_disk(SHOP), "orders.create")
        page.get_by_role("button", name="Add to lines").click()
        assert page.evaluate("document.documentElement.scrollWidth") == 375
        assert page.evaluate("document.querySelector('main').scrollWidth") == 375

    def test_a_phone_shows_one_thing_at_a_time(self, visit: Any, on_disk: Any) -> None:
        page = visit(375, 800).open(on_disk(SHOP))
        expect(page.locator("main")).to_be_hidden()
        page.locator("#list a", has_text="create").click()
        expect(page.get_by_label("Search tools")).to_be_hidden()
        expect(page.locator("main h2")).to_be_focused()
        page.get_by_role("link", name="All tools").click()
        expect(page.get_by_label("Search tools")).to_be_visible()
        expect(page.locator("#list a:focus")).to_contain_text("create")


def _serious(page: Page) -> list[str]:
    violations = Axe().run(page).response["violations"]
    return [
        f"{finding['id']}: {node['html']}"
        for finding in violations
        if finding["impact"] in ("serious", "critical")
        for node in finding["nodes"]
    ]


class TestScale:
    def test_a_thousand_tools_are_listed_and_filtered(self, visit: Any, on_disk: Any) -> None:
        many = [tool(f"area{number % 25}.tool_{number}", EVERY_KIND) for number in range(1000)]
        page = visit().open(on_disk({"name": "Many", "version": "", "tools": many}))
        expect(page.locator("#count")).to_have_text("1000 tools")
        page.get_by_label("Search tools").fill("tool_999")
        assert page.locator("#list a:visible").count() == 1

    def test_a_link_brings_its_entry_into_view(self, visit: Any, on_disk: Any) -> None:
        many = [tool(f"area.tool_{number}") for number in range(1000)]
        page = visit().open(on_disk({"name": "Many", "version": "", "tools": many}), "area.tool_777")
        expect(page.locator("#list a[aria-current]")).to_be_in_viewport()
