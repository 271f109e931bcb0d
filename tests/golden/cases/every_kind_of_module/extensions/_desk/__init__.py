"""A helper: its name begins with _, so no module is looked for in it."""


def greet(name: str, loud: bool = False) -> dict[str, str]:
    return {"greeting": f"Hello, {name}{'!' if loud else '.'}"}
