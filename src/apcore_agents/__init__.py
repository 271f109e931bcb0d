"""Agents: which of them may use which tool, decided at build time, pinned, and enforced where the call happens."""
