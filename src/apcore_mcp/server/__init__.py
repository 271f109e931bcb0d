"""The MCP server: tools, calls, errors and transports."""
