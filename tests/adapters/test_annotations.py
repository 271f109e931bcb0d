from dataclasses import asdict
from typing import Any

import pytest
from apcore import ModuleAnnotations
from tests.requirements import requirement

from apcore_mcp.adapters.annotations import AnnotationMapper, ToolAnnotations

mapper = AnnotationMapper()


@requirement("FR-ANNOT-001", "FR-ANNOT-002", "FR-ANNOT-003", "FR-ANNOT-004")
@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize(
    ("field", "hint", "wire"),
    [
        ("destructive", "destructive_hint", "destructiveHint"),
        ("readonly", "read_only_hint", "readOnlyHint"),
        ("idempotent", "idempotent_hint", "idempotentHint"),
        ("open_world", "open_world_hint", "openWorldHint"),
    ],
)
def test_each_annotation_sets_its_own_hint_and_no_other(field: str, hint: str, wire: str, value: bool) -> None:
    annotations = ModuleAnnotations(**{field: value})
    expected = ToolAnnotations(**{hint: value})

    assert mapper.to_mcp_annotations(annotations) == expected
    assert mapper.to_mcp_annotations(asdict(annotations)) == expected
    assert mapper.to_mcp_annotations({field: value}) == expected
    assert expected.to_wire()[wire] is value


@requirement("FR-ANNOT-005")
def test_a_module_without_annotations_gets_the_defaults() -> None:
    assert mapper.to_mcp_annotations(None) == ToolAnnotations(
        read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True
    )
    assert mapper.to_mcp_annotations(None).to_wire() == {
        "readOnlyHint": False,
        "destructiveHint": False,
        "idempotentHint": False,
        "openWorldHint": True,
    }


@requirement("FR-ANNOT-006")
@pytest.mark.parametrize(
    ("annotations", "required"),
    [
        (None, False),
        (ModuleAnnotations(), False),
        (ModuleAnnotations(requires_approval=True), True),
        ({"requires_approval": True}, True),
        ({}, False),
    ],
)
def test_the_need_for_approval_is_known_to_the_server(annotations: Any, required: bool) -> None:
    assert mapper.has_requires_approval(annotations) is required


@requirement("FR-ANNOT-007")
@pytest.mark.parametrize(
    ("annotations", "suffix"),
    [
        (None, ""),
        (ModuleAnnotations(), ""),
        (ModuleAnnotations(streaming=True, cacheable=True), ""),
        (ModuleAnnotations(destructive=True), "\n\n[Annotations: destructive=true]"),
        (ModuleAnnotations(readonly=True, idempotent=True), "\n\n[Annotations: readonly=true, idempotent=true]"),
        ({"open_world": False}, "\n\n[Annotations: open_world=false]"),
        (
            ModuleAnnotations(True, True, True, True, False),
            "\n\n[Annotations: readonly=true, destructive=true, idempotent=true,"
            " requires_approval=true, open_world=false]",
        ),
    ],
)
def test_the_suffix_states_only_what_differs_from_the_defaults(annotations: Any, suffix: str) -> None:
    assert mapper.to_description_suffix(annotations) == suffix
