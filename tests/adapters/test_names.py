import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.requirements import requirement

from apcore_mcp.adapters import names
from apcore_mcp.adapters.names import ModuleIDNormalizer, name_table, openai_name, shorten

normalizer = ModuleIDNormalizer()
MODULE_IDS = st.from_regex(r"[a-z][a-z0-9_]{0,30}(\.[a-z][a-z0-9_]{0,30}){0,5}", fullmatch=True)


@requirement("FR-OPENAI-002")
@pytest.mark.parametrize(
    ("module_id", "name"),
    [
        ("image.resize", "image-resize"),
        ("simple", "simple"),
        ("comfyui.workflow.execute", "comfyui-workflow-execute"),
        ("my_module.resize", "my_module-resize"),
    ],
)
def test_dots_become_hyphens_and_hyphens_dots(module_id: str, name: str) -> None:
    assert normalizer.normalize(module_id) == name
    assert normalizer.denormalize(name) == module_id


@requirement("FR-OPENAI-002")
@pytest.mark.parametrize(
    ("module_id", "message"),
    [("my-module.resize", "contains a hyphen"), ("a b", "characters that no tool name may have"), ("", "characters")],
)
def test_a_module_id_that_has_no_unambiguous_name_is_refused(module_id: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        normalizer.normalize(module_id)


@requirement("FR-OPENAI-002")
@given(MODULE_IDS)
def test_every_name_fits_and_leads_back_to_its_module(module_id: str) -> None:
    name = openai_name(module_id)
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", name)
    assert name_table([module_id]) == {name: module_id}
    if len(module_id) <= 64:
        assert normalizer.denormalize(name) == module_id


def test_long_names_with_the_same_beginning_stay_distinct_and_the_same_in_every_run() -> None:
    first, second = "a" * 64 + "b", "a" * 64 + "c"
    assert shorten("a" * 64) == "a" * 64
    assert len(shorten(first)) == len(shorten(second)) == 64
    assert shorten(first) == "a" * 55 + "_3e63da2d"
    assert shorten(first) != shorten(second)
    assert len(shorten(first, limit=20)) == 20


def test_two_modules_with_one_name_are_both_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "shorten", lambda name: name[:3])
    with pytest.raises(ValueError, match=r"Modules 'abc\.d' and 'abc\.e' have the same tool name 'abc'"):
        name_table(["abc.d", "abc.e"])
    assert name_table(["abc.d", "abc.d"]) == {"abc": "abc.d"}
