"""A syrupy extension that keeps each artifact of a case as the file it is."""

from pathlib import Path

from syrupy.data import Snapshot, SnapshotCollection
from syrupy.extensions.single_file import SingleFileSnapshotExtension
from syrupy.location import PyTestLocation
from syrupy.types import SnapshotIndex

CASES = Path(__file__).parent / "cases"


class RealFiles(SingleFileSnapshotExtension):
    """Stores `snapshot(name="server/notes.py")` of the test of a case in `cases/<case>/expected/server/notes.py`."""

    file_extension = ""

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        # syrupy also asks for tests that have no case, to look for unused files: there are none.
        callspec = getattr(test_location.item, "callspec", None)
        case = callspec.params.get("case") if callspec else None
        return str(CASES / (case if isinstance(case, str) else "no case") / "expected")

    @classmethod
    def discovery_dirname(cls, *, test_location: PyTestLocation) -> str:
        return cls.dirname(test_location=test_location)

    @classmethod
    def get_snapshot_name(cls, *, test_location: PyTestLocation, index: SnapshotIndex = 0) -> str:
        return str(index)

    def is_snapshot_location(self, *, location: str) -> bool:
        return "__pycache__" not in location

    def read_snapshot_collection(self, *, snapshot_location: str) -> SnapshotCollection:
        collection = SnapshotCollection(location=snapshot_location)
        case = Path(snapshot_location).relative_to(CASES).parts[0]
        collection.add(Snapshot(name=Path(snapshot_location).relative_to(CASES / case / "expected").as_posix()))
        return collection
