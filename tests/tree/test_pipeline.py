"""The modules in apcore: gates, middlewares, approvals, previews, and the lean way beside the usual one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from apcore import ACL, Context, ExecutionPolicy, Executor, Identity, Registry
from apcore.approval import AutoApproveHandler
from apcore.builtin_steps import BuiltinInputValidation
from apcore.cancel import ExecutionCancelledError
from apcore.errors import (
    ACLDeniedError,
    ApprovalDeniedError,
    CallFrequencyExceededError,
    InvalidInputError,
    ModuleDisabledError,
    ModuleError,
    ModuleNotFoundError,
    ModuleTimeoutError,
    SchemaValidationError,
)
from apcore.middleware import Middleware
from apcore.sys_modules.control import ToggleState
from pydantic import BaseModel
from tests.tree.conftest import House
from tests.tree.surfaces import make_service
from tests.tree.test_contract import example_arguments

from apcore_tree import (
    ERRORS,
    SESSION_KEY,
    AuditQuery,
    TreeError,
    TreeService,
    as_tree_error,
    install_tree,
    register_tree,
    tree_acl,
    tree_executor,
    tree_rules,
)
from apcore_tree.engine.history import Mark
from apcore_tree.tools.catalogue import TOOLS

ANN = Identity("ann", roles=("editor",))
BOB = Identity("bob", roles=("reader",))
NOBODY = Identity("eve", roles=("visitor",))


@pytest.fixture
def service() -> TreeService:
    return make_service()


def run(executor: Executor, tool: str, who: Identity | None = ANN, data: Any = None, **arguments: Any) -> Any:
    """The result, or the error's code."""
    context = Context.create(identity=who, data=data)
    try:
        return asyncio.run(executor.call_async(f"tree.{tool}", arguments, context))
    except Exception as error:
        return as_tree_error(error).code


@pytest.fixture
def executor(service: TreeService) -> Iterator[Executor]:
    with tree_executor(service, check_output=True) as made:
        yield made


def test_every_gate_of_apcore_is_still_there(executor: Executor) -> None:
    state = executor.governance_state()
    assert (state.acl_configured, state.builtin_acl_gate_wired, state.builtin_approval_gate_wired) == (True, True, True)
    assert [step.name for step in executor.current_strategy.steps] == [
        "context_creation",
        "call_chain_guard",
        "module_lookup",
        "tree_call_rate",
        "acl_check",
        "tree_replay",
        "approval_gate",
        "middleware_before",
        "input_validation",
        "execute",
        "output_validation",
        "middleware_after",
        "return_result",
    ]


@pytest.mark.parametrize("name", TOOLS)
def test_the_usual_pipeline_and_the_lean_one_give_the_same_verdicts(house: House, name: str) -> None:
    service, asked = house.call.service, example_arguments(house)[name]
    registry = Registry()
    register_tree(registry, service)
    usual, lean = Executor(registry, acl=tree_acl()), tree_executor(service, registry, check_output=True)
    for who in (ANN, BOB, NOBODY, None):
        for arguments in (asked, {}, {**asked, "surprise": 1}, {"nodeId": 5}):
            verdicts = []
            for executor in (usual, lean):
                service.tree.history.push(mark := Mark(service.tree.revision))
                answer = run(executor, name, who, **{**arguments, **_token(name, service, arguments)})
                verdicts.append(answer if isinstance(answer, str) else sorted(answer))
                service.tree.restore(mark)
                service.tree.history.fold(mark)
                _drop_snapshot(service, "another")
            assert verdicts[0] == verdicts[1]
    usual.close()
    lean.close()


def _token(name: str, service: TreeService, arguments: dict[str, Any]) -> dict[str, str]:
    return {} if TOOLS[name].reads or not arguments else {"versionToken": service.version()}


def _drop_snapshot(service: TreeService, label: str) -> None:
    for mark in service.tree.history.marks:
        if mark.label == label:
            service.drop_snapshot(mark.id)
    service.sessions.of("ann", "").bookmarks["mark"] = "root"


def test_nobody_without_an_identity_gets_in(executor: Executor, service: TreeService) -> None:
    assert run(executor, "get_status", None) == "forbidden"
    assert run(executor, "remove_node", None, nodeId="root") == "forbidden"
    assert [entry.agent for entry in service.audit()] == ["anonymous"]


def test_an_identity_marked_read_only_cannot_change(executor: Executor, service: TreeService) -> None:
    careful = Identity("ann", roles=("editor",), attrs={"readOnly": True})
    assert run(executor, "tag_node", careful, nodeId="root", tags=["x"], versionToken=service.version()) == "forbidden"


def test_sessions_are_told_apart_by_the_key_in_the_context(executor: Executor, service: TreeService) -> None:
    token = service.version()
    run(executor, "collapse_node", data={SESSION_KEY: "one"}, nodeId="root", versionToken=token)
    one = run(executor, "get_view", data={SESSION_KEY: "one"}, rootNodeId="root")
    two = run(executor, "get_view", data={SESSION_KEY: "two"}, rootNodeId="root")
    assert (one["view"]["isExpanded"], two["view"]["isExpanded"]) == (False, True)


def test_middlewares_added_later_see_the_calls(executor: Executor) -> None:
    seen: list[tuple[str, Any]] = []

    class Watch(Middleware):
        def before(self, module_id: str, inputs: dict[str, Any], context: Any) -> None:
            seen.append((module_id, context.redacted_inputs))

        def after(self, module_id: str, inputs: dict[str, Any], output: dict[str, Any], context: Any) -> None:
            seen.append((module_id, context.redacted_output))

    executor.use(Watch())
    run(
        executor,
        "add_child",
        parentNodeId="root",
        payloadType="object",
        payloadProps={"secret": 1},
        versionToken="t1.x.0",
    )
    result = run(executor, "get_node", nodeId="root")
    assert seen == [
        (
            "tree.add_child",
            {"parentNodeId": "root", "payloadType": "object", "payloadProps": "***", "versionToken": "t1.x.0"},
        ),
        ("tree.get_node", {"nodeId": "root"}),
        ("tree.get_node", {"version": result["version"]}),
    ]


class Greeting(BaseModel):
    name: str


class Greeted(BaseModel):
    text: str


class Greet:
    input_schema = Greeting
    output_schema = Greeted
    description = "Greets."

    def execute(self, inputs: dict[str, Any], context: Any) -> dict[str, Any]:
        return {"text": f"Hello, {inputs['name']}"}


def test_other_modules_of_the_executor_are_left_alone(service: TreeService) -> None:
    registry = Registry()
    register_tree(registry, service)
    registry.register("greet.hello", Greet())
    acl = ACL(tree_rules(), default_effect="allow")
    with Executor(registry, acl=acl) as executor:
        install_tree(executor, service)
        context = Context.create()
        assert executor.call("greet.hello", {"name": "Ann"}, context) == {"text": "Hello, Ann"}
        with pytest.raises(SchemaValidationError):
            executor.call("greet.hello", {"name": 5}, Context.create())
        with pytest.raises(ModuleNotFoundError):
            executor.call("greet.nobody", {}, Context.create())
        assert run(executor, "get_status", BOB)["nodeCount"] == 1
    assert service.audit() == []


def test_a_host_keeps_its_own_steps(service: TreeService) -> None:
    class OwnValidation(BuiltinInputValidation):
        """A step that the host has put in place of apcore's."""

    registry = Registry()
    register_tree(registry, service)
    with Executor(registry, strategy="internal") as executor:
        executor.current_strategy.replace("input_validation", OwnValidation())
        install_tree(executor, service)
        names = [step.name for step in executor.current_strategy.steps]
        assert names[2:5] == ["module_lookup", "tree_call_rate", "tree_replay"]
        assert any(type(step) is OwnValidation for step in executor.current_strategy.steps)
        assert run(executor, "get_status", None)["nodeCount"] == 1
        assert run(executor, "get_node", None, nodeId=5) == "invalid_argument"


def test_a_disabled_tool_is_forbidden(service: TreeService) -> None:
    toggles = ToggleState()
    toggles.disable("tree.get_status")
    with tree_executor(service, toggle_state=toggles) as executor:
        assert run(executor, "get_status") == "forbidden"
        assert run(executor, "get_node", nodeId="root")["node"]["nodeId"] == "root"


def test_destructive_tools_wait_for_approval_where_the_policy_says_so(service: TreeService) -> None:
    policy = ExecutionPolicy(gate_destructive=True, strict=True)
    with tree_executor(service, policy=policy) as executor:
        added = run(
            executor,
            "add_child",
            parentNodeId="root",
            payloadType="object",
            payloadProps={},
            versionToken=service.version(),
        )
        asked = {"nodeId": added["nodeId"], "versionToken": added["version"], "idempotencyKey": "k"}
        assert run(executor, "remove_node", **asked) == "forbidden"
        executor.set_approval_handler(AutoApproveHandler())
        removed = run(executor, "remove_node", **asked)
        executor.set_approval_handler(None)  # type: ignore[arg-type]
        assert run(executor, "remove_node", **asked) == removed
        outcomes = [entry.outcome for entry in service.audit(AuditQuery(operation="remove_node"))]
        assert outcomes == ["failure", "success"]


def test_a_dry_run_predicts_the_changes_and_is_free(house: House) -> None:
    service = house.call.service
    before = service.version()
    with tree_executor(service) as executor:
        context = Context.create(identity=ANN)
        verdict = executor.validate("tree.remove_node", {"nodeId": house.kitchen}, context)
        assert [change.summary for change in verdict.predicted_changes] == ["4 nodes would change"]
        reading = executor.validate("tree.get_node", {"nodeId": house.kitchen}, Context.create(identity=BOB))
        assert (reading.valid, reading.predicted_changes) == (True, [])
        assert not executor.validate("tree.remove_node", {"nodeId": "x"}, Context.create(identity=BOB)).valid
    assert service.version() == before


def test_a_fault_inside_tells_the_client_nothing(service: TreeService, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: Any) -> Any:
        raise RuntimeError("the password is 1234")

    monkeypatch.setattr(service.tree, "tag", break_down)
    with tree_executor(service) as executor:
        context = Context.create(identity=ANN)
        with pytest.raises(TreeError) as failed:
            executor.call(
                "tree.tag_node", {"nodeId": "root", "tags": ["x"], "versionToken": service.version()}, context
            )
    assert (failed.value.code, failed.value.message) == ("internal", "Internal error")
    assert [entry.code for entry in service.audit()] == ["internal"]


def test_a_result_that_breaks_its_schema_is_an_internal_error(
    service: TreeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "version", lambda *_: 5)
    with tree_executor(service, check_output=True) as executor:
        assert run(executor, "get_status") == "internal"


# -- the six codes


def test_there_are_six_codes_each_with_a_class() -> None:
    assert set(ERRORS) == {"invalid_argument", "not_found", "forbidden", "conflict", "rate_limited", "internal"}
    assert [kind("x").code for kind in ERRORS.values()] == list(ERRORS)
    assert [code for code, kind in ERRORS.items() if kind("x").retryable] == ["conflict", "rate_limited"]


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (SchemaValidationError(message="Input validation failed"), "invalid_argument", None),
        (SchemaValidationError(message="Output validation failed"), "internal", None),
        (InvalidInputError(message="x"), "invalid_argument", None),
        (ModuleNotFoundError(module_id="x"), "not_found", None),
        (ACLDeniedError(caller_id="a", target_id="b"), "forbidden", "role"),
        (ModuleDisabledError(module_id="x"), "forbidden", "disabled"),
        (ApprovalDeniedError(result=None, module_id="x"), "forbidden", "approval_denied"),
        (CallFrequencyExceededError(module_id="x", count=1, max_repeat=1, call_chain=[]), "rate_limited", None),
        (ModuleTimeoutError(module_id="x", timeout_ms=1), "internal", "timeout"),
        (ExecutionCancelledError(), "internal", "cancelled"),
        (ModuleError("WHATEVER", "secret"), "internal", None),
        (ValueError("secret"), "internal", None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_failure_is_one_of_the_six(error: Exception, code: str, reason: str | None) -> None:
    known = as_tree_error(error)
    assert (known.code, known.details.get("reason")) == (code, reason)
    assert "secret" not in known.message
