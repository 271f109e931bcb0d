"""Every built requirement has a test, and every requirement a test names exists."""

import ast
from pathlib import Path

from tests.requirements import NOT_BUILT_YET, SRS

TESTS = Path(__file__).parents[1]


def named_by_tests() -> set[str]:
    return {
        argument.value
        for path in TESTS.rglob("test_*.py")
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "requirement"
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    }


def test_every_built_requirement_has_a_test() -> None:
    assert sorted(SRS.keys() - NOT_BUILT_YET - named_by_tests()) == []


def test_a_requirement_with_a_test_is_not_called_unbuilt() -> None:
    assert sorted(NOT_BUILT_YET & named_by_tests()) == []


def test_tests_name_only_requirements_that_exist() -> None:
    assert sorted(named_by_tests() - SRS.keys()) == []
    assert SRS.keys() >= NOT_BUILT_YET
