"""What a module looks like to others: its schemas, annotations, names and tool definitions.

`to_openai_tools` and its relatives stay in `adapters.openai`, so that importing the rest does not import apcore.
"""

from apcore_mcp.adapters.annotations import AnnotationMapper as AnnotationMapper
from apcore_mcp.adapters.annotations import ToolAnnotations as ToolAnnotations
from apcore_mcp.adapters.names import ModuleIDNormalizer as ModuleIDNormalizer
from apcore_mcp.adapters.names import name_table as name_table
from apcore_mcp.adapters.schema import SchemaConverter as SchemaConverter
from apcore_mcp.adapters.schema import inline_refs as inline_refs
from apcore_mcp.adapters.strict import StrictResult as StrictResult
from apcore_mcp.adapters.strict import to_strict as to_strict
from apcore_mcp.adapters.tools import to_mcp_tool as to_mcp_tool
