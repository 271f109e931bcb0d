"""Tool definitions for model providers, which live in a package of their own."""

from apcore_openai.tools import (
    anthropic_tool,
    gemini_tool,
    openai_responses_tool,
    openai_tool,
    to_openai_tools,
)

__all__ = ["anthropic_tool", "gemini_tool", "openai_responses_tool", "openai_tool", "to_openai_tools"]
