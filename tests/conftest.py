from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of its own: the repository has settings of the compiler, which are not the test's."""
    directory = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(directory)
    return directory
