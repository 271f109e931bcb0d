"""A slim package is the real one, with its `__init__` put off."""

import subprocess
import sys
import textwrap

import pytest

PREAMBLE = """
import sys
from apcore_runtime.slim import slim_package
for name in ("mcp", "mcp.server", "httpx", "jsonschema"):
    slim_package(name)
"""


def run(program: str) -> str:
    """Run in a fresh interpreter, where nothing is imported yet."""
    command = [sys.executable, "-W", "error", "-c", PREAMBLE + textwrap.dedent(program)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_a_submodule_is_imported_without_the_rest_of_its_package() -> None:
    loaded = run(
        """
        import mcp.server.lowlevel.server
        print("mcp.client.session" in sys.modules, "mcp.server.lowlevel.server" in sys.modules)
        """
    )
    assert loaded == "False True"


@pytest.mark.parametrize(
    "statement",
    [
        "import mcp; mcp.ClientSession",
        "from mcp import ClientSession",
        "from mcp import *; ClientSession",
        "import mcp; assert 'ClientSession' in dir(mcp)",
        "import mcp; assert 'ClientSession' in mcp.__all__",
        "from mcp.server import Server",
        "import httpx; httpx.AsyncClient, httpx.codes.OK, httpx.__version__",
        "import jsonschema; jsonschema.validate(1, {'type': 'integer'})",
        "import importlib, mcp; importlib.reload(mcp); mcp.ClientSession",
    ],
)
def test_users_of_a_slim_package_find_it_as_usual(statement: str) -> None:
    assert run(f"import mcp.server.lowlevel.server\n{statement}\nprint('found')") == "found"


def test_a_class_is_the_same_whichever_way_it_is_reached() -> None:
    same = run(
        """
        import mcp.server.lowlevel.server
        import mcp, mcp.client.session
        print(mcp.ClientSession is mcp.client.session.ClientSession)
        """
    )
    assert same == "True"


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    answer = run(
        """
        import mcp
        try:
            mcp.no_such_name
        except AttributeError as error:
            print(error)
        """
    )
    assert "no_such_name" in answer


def test_threads_that_look_at_once_all_find_the_package_whole() -> None:
    found = run(
        """
        import threading, mcp
        found = []
        threads = [threading.Thread(target=lambda: found.append(mcp.ClientSession)) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(len(found), len(set(found)))
        """
    )
    assert found == "8 1"


def test_a_package_that_is_imported_already_is_left_alone() -> None:
    untouched = run(
        """
        import json
        before = json.__dict__.copy()
        slim_package("json")
        slim_package("no_such_package_anywhere")
        print(json.__dict__ == before)
        """
    )
    assert untouched == "True"
