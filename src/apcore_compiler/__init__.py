"""Compile an apcore registry into static, typed, reviewable files."""
