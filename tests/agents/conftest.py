from pathlib import Path

import pytest
from tests.agents.support import ProjectFiles


@pytest.fixture
def project(tmp_path: Path) -> ProjectFiles:
    return ProjectFiles(tmp_path)
