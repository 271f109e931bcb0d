"""The OpenAI side: strict mode, tool files for model providers, and the way back from a tool call to a module."""
