"""The tools: one function each, beside the contract that it keeps."""
