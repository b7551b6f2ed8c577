"""What a log compaction file says, line by line."""

from __future__ import annotations

import orjson

from txlog.core.format.actions import AddFile, RemoveFile
from txlog.core.format.commit_file import Commit
from txlog.core.versions.decisions.compaction import compacted_bytes


def test_the_files_of_a_compacted_log_change_no_data() -> None:
    """Otherwise a reader of changes would take them for new rows."""
    commits = [
        Commit(1, (AddFile("a", {}, 1, 1, True), AddFile("b", {}, 1, 1, True)), None, 1),
        Commit(2, (RemoveFile("a", True, 1),), None, 1),
    ]
    body, actions = compacted_bytes(commits)
    lines = [orjson.loads(line) for line in body.splitlines()]
    assert [(kind, fields["path"], fields["dataChange"]) for line in lines for kind, fields in line.items()] == [
        ("remove", "a", False),
        ("add", "b", False),
    ]
    assert actions == 2
