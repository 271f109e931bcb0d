"""The tools that ask the user, with the forms that the suite prescribes."""

from typing import Any

from apcore import Context, module

from apcore_mcp import elicit

PERSON = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    },
    "required": ["username", "email"],
}

DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "required": [],
}

UNTITLED = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{n}", "title": f"{nth} Option"} for n, nth in enumerate(["First", "Second", "Third"], 1)]

ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": UNTITLED},
        "titledSingle": {"type": "string", "oneOf": TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": UNTITLED}},
        "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
    },
    "required": [],
}


def form(name: str, kind: str = "string") -> dict[str, Any]:
    return {"type": "object", "properties": {name: {"type": kind}}, "required": [name]}


async def ask(context: Context, message: str, schema: dict[str, Any]) -> dict[str, str]:
    return {"text": f"User response: {await elicit(context, message, schema)}"}


@module(id="test_elicitation", description="Asks who is there.")
async def person(message: str, context: Context) -> dict[str, str]:
    return await ask(context, message, PERSON)


@module(id="test_elicitation_sep1034_defaults", description="Asks with a default for every primitive type.")
async def defaults(context: Context) -> dict[str, str]:
    return await ask(context, "Please review the defaults", DEFAULTS)


@module(id="test_elicitation_sep1330_enums", description="Asks with every kind of choice.")
async def enums(context: Context) -> dict[str, str]:
    return await ask(context, "Please choose", ENUMS)


@module(id="test_input_required_result_elicitation", description="Asks one question.")
async def name(context: Context) -> dict[str, str]:
    return await ask(context, "What is your name?", form("name"))


@module(id="test_input_required_result_request_state", description="Asks for a confirmation.")
async def confirm(context: Context) -> dict[str, str]:
    return {"text": f"state-ok {await elicit(context, 'Please confirm', form('ok', 'boolean'))}"}


@module(id="test_input_required_result_tampered_state", description="Asks for a confirmation.")
async def confirm_untampered(context: Context) -> dict[str, str]:
    return await ask(context, "Please confirm", form("ok", "boolean"))


@module(id="test_input_required_result_capabilities", description="Asks what the client can be asked.")
async def capabilities(context: Context) -> dict[str, str]:
    return await ask(context, "What is your name?", form("name"))


@module(id="test_input_required_result_multi_round", description="Asks two questions, one after the other.")
async def multi_round(context: Context) -> dict[str, str]:
    first = await elicit(context, "Step 1: What is your name?", form("name"))
    second = await elicit(context, "Step 2: What is your favorite color?", form("color"))
    return {"text": f"User responses: {first}, {second}"}


@module(id="test_streaming_elicitation", description="Asks one question while it streams.")
async def streaming(context: Context) -> dict[str, str]:
    return await ask(context, "Please confirm", form("ok", "boolean"))
