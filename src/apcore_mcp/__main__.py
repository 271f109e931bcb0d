from apcore_mcp.cli import main

main()
