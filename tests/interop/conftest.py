from pathlib import Path

import pytest
from tests.interop import environments
from tests.interop.environments import PACKAGES, ROOT, Node, Python

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "interop: runs other people's software, which the first run installs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def node() -> Node:
    return environments.node()


@pytest.fixture(scope="session", params=sorted(PACKAGES))
def sdk(request: pytest.FixtureRequest) -> Python:
    """Either major of the MCP SDK, on the server's side."""
    return environments.python(request.param)


@pytest.fixture(scope="session")
def generated() -> Path:
    """The example, as the repository has it compiled."""
    return ROOT / "generated"
