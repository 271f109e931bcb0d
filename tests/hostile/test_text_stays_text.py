"""No string in the input changes the shape of generated Python, HTML or JSON."""

import ast
import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jinja2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jinja2 import nodes
from tests.hostile.strings import EVIL

from apcore_compiler.artifacts import Artifact
from apcore_compiler.compile import analyse, compile_snapshot
from apcore_compiler.emit import EMITTERS
from apcore_compiler.emit.quoting import TEMPLATES, quote_docstring, quote_python
from apcore_compiler.settings import Settings
from apcore_compiler.snapshot import ModuleRecord, Snapshot
from apcore_runtime import load

PLAIN = "plain"


def snapshot_saying(text: str) -> Snapshot:
    """A module with `text` wherever a module may have text."""
    schema = {
        "type": "object",
        "title": text,
        "description": text,
        "properties": {
            # Never a Python name, so that the type is written in the same way whatever the text is.
            f"-{text}": {"type": "string", "title": text, "description": text, "default": text, "examples": [text]},
            "one": {"enum": [text, f"{text}2"], "type": "string"},
            "only": {"const": text, "type": "string"},
            "nested": {"type": "object", "title": text, "description": text, "properties": {"x": {"type": "string"}}},
            "described": {"type": "string", "description": text, "pattern": "^a$"},
        },
        "required": [f"-{text}"],
        "additionalProperties": False,
    }
    record = ModuleRecord(
        module_id="desk.say",
        description=text,
        input_schema=schema,
        output_schema=schema,
        name=text,
        documentation=text,
        version=text,
        tags=[text],
        annotations={"extra": {text: text}},
        examples=[{"title": text, "inputs": {text: text}, "output": {}, "description": text}],
        metadata={text: {text: [text]}},
        dependencies=[{"module_id": text}],
        display={"alias": text},
        resources={text: text},
        file=f"{text}.py",
        line=3,
        entry=text,
    )
    return Snapshot((record,), sources={f"{text}.py": text})


def settings_saying(text: str) -> Settings:
    # Off, since the rule would withhold just what is to be looked at.
    return Settings(name=text[:255], version=text, rules={"hidden-characters": "off"})


def emitted(text: str) -> dict[str, Artifact]:
    program, findings = analyse(snapshot_saying(text), settings_saying(text), Path("out"))
    assert len(program.tools) == 1, findings.render("text")
    return {artifact.path: artifact for emit in EMITTERS for artifact in emit(program)}


def shape(source: str) -> str:
    """The syntax tree without the texts in it: names come from titles, constants from everything else."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if isinstance(value, str) and not isinstance(node, ast.alias):
                setattr(node, field, "")
    return ast.dump(tree)


class Elements(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, ...]] = []
        self.data = ""
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, *(f"{name}={value}" for name, value in attrs)))
        self._inside = dict(attrs).get("id") or ""

    def handle_endtag(self, tag: str) -> None:
        self.found.append((f"/{tag}",))
        self._inside = ""

    def handle_comment(self, data: str) -> None:
        self.found.append(("comment", data))

    def handle_data(self, data: str) -> None:
        if self._inside == "surface":
            self.data += data


def replaced(value: Any, text: str) -> Any:
    """Harmless data with `text` in place of the harmless word."""
    if isinstance(value, str):
        return value.replace(PLAIN, text)
    if isinstance(value, list):
        return [replaced(item, text) for item in value]
    if isinstance(value, dict):
        return {replaced(key, text): replaced(item, text) for key, item in value.items()}
    return value


HARMLESS = emitted(PLAIN)


def check(text: str) -> None:
    artifacts = emitted(text)
    assert artifacts.keys() == HARMLESS.keys()
    for path, artifact in artifacts.items():
        written = artifact.data.decode()
        if path.endswith(".py"):
            assert shape(written) == shape(HARMLESS[path].text)
        if path.endswith(".json"):
            assert json.loads(written) == replaced(json.loads(HARMLESS[path].text), text)
    page, harmless = (Elements(one["explorer.html"].data.decode()) for one in (artifacts, HARMLESS))
    assert page.found == harmless.found
    assert json.loads(page.data)["tools"] == replaced(json.loads(harmless.data)["tools"], text)


@pytest.mark.parametrize("text", EVIL, ids=[repr(text)[1:25] for text in EVIL])
def test_hand_picked_text_stays_text(text: str) -> None:
    check(text)


any_text = st.text(st.characters(), min_size=1, max_size=60)
awkward_text = st.lists(st.sampled_from([*EVIL[:-2], *"'\"\\\n{}<>%#`;x"]), min_size=1, max_size=6).map("".join)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(any_text | awkward_text)
def test_any_text_stays_text(text: str) -> None:
    # Through JSON, as all text of a snapshot goes: it joins surrogates that make a pair.
    check(json.loads(json.dumps(text)))


@pytest.mark.parametrize("text", EVIL, ids=[repr(text)[1:25] for text in EVIL])
def test_generated_code_imports_without_side_effects(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    compilation = compile_snapshot(snapshot_saying(text), settings_saying(text), tmp_path / "out")
    compilation.artifacts.write(tmp_path / "out")
    surface = load(tmp_path / "out")
    spec = surface.spec("desk.say")
    assert (surface.name, surface.version, spec.version) == (text[:255], text, text)
    assert (spec.tags, spec.entry, spec.details["metadata"]) == ((text,), text, {text: {text: [text]}})
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert capfd.readouterr() == ("", "")


def test_characters_that_only_some_versions_of_python_know_are_written_by_all_alike() -> None:
    """U+1FAE8 came with Python 3.12 and U+1C89 with 3.14; `repr` escapes them before."""
    assert quote_python(["\U0001fae8 \u1c89", 1, None]) == '["\U0001fae8 \u1c89", 1, None]'
    assert quote_docstring("\U0001fae8 \u1c89") == '"""\U0001fae8 \u1c89"""'


scalars = st.text(st.characters()) | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
values = st.recursive(
    scalars | st.none(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.tuples(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_a_quoted_value_reads_as_the_value(value: Any) -> None:
    assert ast.literal_eval(quote_python(value)) == value


QUOTING = {"annotation", "docstring", "html", "name", "py", "script_json"}
TEMPLATE_FILES = sorted(path.relative_to(TEMPLATES).as_posix() for path in TEMPLATES.rglob("*.j2"))


def unquoted(template: nodes.Template) -> Iterator[str]:
    for output in template.find_all(nodes.Output):
        for node in output.nodes:
            if isinstance(node, nodes.TemplateData):
                continue
            if not (isinstance(node, nodes.Filter) and node.name in QUOTING):
                yield f"line {node.lineno}: {node}"


@pytest.mark.parametrize("name", TEMPLATE_FILES)
def test_every_value_enters_a_template_through_a_quoting_filter(name: str) -> None:
    source = (TEMPLATES / name).read_text(encoding="utf-8")
    assert list(unquoted(jinja2.Environment().parse(source))) == []


def test_an_unquoted_value_would_be_noticed() -> None:
    assert list(unquoted(jinja2.Environment().parse("{{ a | py }}{{ b }}{{ c | upper }}"))) != []
