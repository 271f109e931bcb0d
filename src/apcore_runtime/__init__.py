"""The slim runtime that generated code imports."""

from apcore_runtime.spec import Caller, ToolSpec
from apcore_runtime.surface import NotASurface, Surface, load

__all__ = ["Caller", "NotASurface", "Surface", "ToolSpec", "load"]
