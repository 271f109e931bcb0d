"""Templates and the filters through which every value enters them.

Quoting is a property of the filter, not of each author's memory: no string in the input
can change the shape of what is generated.
"""

import functools
import hashlib
import json
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import escape

from apcore_compiler.pytypes import AnyOf, DictOf, ListOf, OneValueOf, PyType, RecordRef, Scalar

__all__ = ["TEMPLATES", "render", "templates_digest"]


def _find_templates() -> Path:
    # The wheel carries the templates inside the package; a checkout keeps them at its root.
    package = Path(__file__).parents[1]
    inside = package / "templates"
    return inside if inside.is_dir() else package.parents[1] / "templates"


TEMPLATES = _find_templates()


def quote_name(name: str) -> str:
    """Let a Python name through, and nothing else."""
    if not (name.isascii() and name.isidentifier()):
        raise ValueError(f"{name!r} is not a Python name")
    return name


def quote_annotation(kind: PyType) -> str:
    match kind:
        case Scalar(name):
            return quote_name(name)
        case OneValueOf(values):
            return f"Literal[{', '.join(map(repr, values))}]"
        case ListOf(item):
            return f"list[{quote_annotation(item)}]"
        case DictOf(value):
            return f"dict[str, {quote_annotation(value)}]"
        case AnyOf(options):
            return " | ".join(map(quote_annotation, options))
        case RecordRef(name):
            return quote_name(name)


def quote_docstring(text: str, indent: int = 4) -> str:
    """A docstring that reads as the text does where that is safe, and an escaped string where it is not."""
    # No class can have a lone surrogate in its docstring.
    text = text.encode(errors="backslashreplace").decode()
    lines = [line.strip() for line in text.strip().splitlines()]
    body = ("\n" + " " * indent).join(lines).replace(" " * indent + "\n", "\n")
    plain = all(line.isprintable() for line in lines) and "\\" not in text and '"""' not in text
    if not plain or body.endswith('"') or not body:
        return repr(text)
    return f'"""{body}\n{" " * indent}"""' if len(lines) > 1 else f'"""{body}"""'


def quote_script_json(value: Any) -> str:
    """JSON inside a <script> element: nothing in it can end the element or start a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters.update(
        annotation=quote_annotation,
        docstring=quote_docstring,
        html=escape,
        name=quote_name,
        py=repr,
        script_json=quote_script_json,
    )
    return environment


def render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(values)


@functools.cache
def templates_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(TEMPLATES.rglob("*.j2")):
        digest.update(path.relative_to(TEMPLATES).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
