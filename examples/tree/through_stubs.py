"""The story through the generated stubs, in one process and without a transport.

Run: pip install -e '.[tree]' && python examples/tree/through_stubs.py
"""

import asyncio
import tempfile
from pathlib import Path

from apcore import Identity
from bill_of_materials import TreeTools, show, tell

from apcore_tree import AuditQuery, build_service, tree_executor


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        service = build_service(f"sqlite:{Path(folder) / 'bicycle.db'}")
        # The roles are checked by apcore's ACL: every call of a stub passes the Executor.
        with tree_executor(service) as executor:
            pricing = TreeTools(executor, Identity("pricing", roles=("editor",)))
            design = TreeTools(executor, Identity("design", roles=("editor",)))
            visitor = TreeTools(executor, Identity("visitor", roles=("reader",)))
            show(asyncio.run(tell(pricing, design, visitor)))
        for agent in ("pricing", "design", "visitor"):
            entries = service.audit(AuditQuery(agent=agent, limit=1000))
            done = sum(entry.outcome == "success" for entry in entries)
            print(f"audited: {agent}, {done} changes made, {len(entries) - done} refused")
        service.close()


main()
