"""What a server needs of its process and of apcore, with no word of MCP: streams, signals, options, approvals."""
