"""Other writers' tables: verification raises no false alarm, and names what is really wrong with some of them."""

from __future__ import annotations

from pathlib import Path

import golden
import pytest

from txlog.audit.verify import verify_table
from txlog.core.store._local_store import local_table_store
from txlog.errors import TableNotFoundError

WITHOUT_A_LOG = {"crc-malformed", "no-delta-log-folder"}
BROKEN = {
    "crc-full": {"checksum-differs"},  # made by hand: applications and domains that the only commit does not have
    "data-reader-absolute-paths-escaped-chars": {"incomplete-start", "missing-file", "unsafe-path"},
    "deltalog-commit-info": {"incomplete-start", "missing-file"},
    "deltalog-state-reconstruction-from-checkpoint-missing-protocol": {
        *("checkpoint-differs", "incomplete-start", "missing-file"),
    },
    "deltalog-state-reconstruction-without-metadata": {"incomplete-start", "missing-file"},
    "versions-not-contiguous": {"incomplete-start", "missing-version"},
}
# Logs of which only the actions matter: their data files never were.
LOG_ONLY = {
    "app-txn-with-last-updated",
    "checkpoint",
    "delete-re-add-same-file-different-transactions",
    "deltalog-invalid-protocol-version",
    "with_checkpoint_no_last_checkpoint",
}

pytestmark = golden.needed


@pytest.mark.parametrize("name", [name for name in golden.NAMES if name not in WITHOUT_A_LOG])
def test_verify_finds_the_known_errors_of_each_golden_table_and_no_others(name: str, tmp_path: Path) -> None:
    tables = sorted(log.parent for log in golden.unpack(name, tmp_path).rglob("_delta_log"))
    assert tables
    for table in tables:
        verification = verify_table(local_table_store(str(table)))
        errors = {finding.rule for finding in verification.findings if finding.severity == "error"}
        assert errors == BROKEN.get(name, {"missing-file"} if name in LOG_ONLY else set())


@pytest.mark.parametrize("name", [name for name in golden.NAMES if name in WITHOUT_A_LOG])
def test_verify_refuses_a_folder_without_a_log(name: str, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        verify_table(local_table_store(str(golden.unpack(name, tmp_path))))
