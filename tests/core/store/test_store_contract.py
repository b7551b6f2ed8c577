from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from txlog.core.store._base import FileStore, LogStore
from txlog.core.store._open import open_store
from txlog.core.store._table_store import TableStore
from txlog.core.store._versions import VersionLog
from txlog.testing.contract import FILE_STORE_CONTRACT, LOG_STORE_CONTRACT, VERSION_LOG_CONTRACT
from txlog.testing.memory_store import memory_table_store


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> TableStore:
    return memory_table_store() if request.param == "memory" else open_store(tmp_path / "new" / "table")


@pytest.mark.parametrize("check", LOG_STORE_CONTRACT, ids=lambda check: check.__name__)
def test_a_store_keeps_the_contract_of_log_stores(store: TableStore, check: Callable[[LogStore], None]) -> None:
    check(store.log)


@pytest.mark.parametrize("check", FILE_STORE_CONTRACT, ids=lambda check: check.__name__)
def test_a_store_keeps_the_contract_of_file_stores(store: TableStore, check: Callable[[FileStore], None]) -> None:
    check(store.files)


@pytest.mark.parametrize("check", VERSION_LOG_CONTRACT, ids=lambda check: check.__name__)
def test_version_log_contract_of_the_folder(store: TableStore, check: Callable[[VersionLog], None]) -> None:
    check(store.versions)
