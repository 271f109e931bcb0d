"""Count code as cloc does: without blank lines, comments and docstrings."""

import ast
from pathlib import Path


def code_lines(path: Path) -> int:
    source = path.read_text(encoding="utf-8")
    strings = {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(source.splitlines(), 1)
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") and n not in strings for n, line in lines)


def package_lines(package: Path) -> int:
    return sum(code_lines(path) for path in package.rglob("*.py"))
