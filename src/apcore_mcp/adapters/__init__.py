"""What a module looks like to others: its schemas, annotations, names and tool definitions.

Strict mode and the providers' formats are found in `adapters.strict` and `adapters.openai`.
"""

from apcore_mcp.adapters.annotations import AnnotationMapper, ToolAnnotations
from apcore_mcp.adapters.names import ModuleIDNormalizer, name_table
from apcore_mcp.adapters.schema import SchemaConverter, inline_refs
from apcore_mcp.adapters.tools import to_mcp_tool

__all__ = [
    "AnnotationMapper",
    "ModuleIDNormalizer",
    "SchemaConverter",
    "ToolAnnotations",
    "inline_refs",
    "name_table",
    "to_mcp_tool",
]
