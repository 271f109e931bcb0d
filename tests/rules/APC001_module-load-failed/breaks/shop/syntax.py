"""A syntax error."""

def broken(:
    pass
