"""The tools that the suite calls to see how a server answers.

Only what the suite looks at is here: it wants some text, an error, and progress that increases.
"""

import logging

from apcore import Context, module

from apcore_mcp import report_progress


# With documentation, so that there is a resource.
@module(id="test_simple_text", description="Answers with a text.", documentation="Always the same text.")
def simple_text() -> dict[str, str]:
    return {"text": "This is a simple text response for testing."}


@module(id="test_error_handling", description="Always fails.")
def error_handling() -> dict[str, str]:
    raise RuntimeError("This tool intentionally returns an error for testing")


@module(id="test_tool_with_progress", description="Reports progress on the way.")
async def with_progress(context: Context) -> dict[str, str]:
    for done in (0, 50, 100):
        await report_progress(context, done, total=100)
    return {"text": "Done."}


@module(id="test_logging_tool", description="Logs, which is no business of the client's.")
def logging_tool() -> dict[str, str]:
    logging.getLogger(__name__).warning("Only stderr sees this.")
    return {"text": "Logged."}
