"""Where Arrow takes memory from while many files are read: put back by the last one out, the user's choice kept."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pyarrow as pa
import pytest

from txlog.core.versions.files._small_pages import small_pages

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or "mimalloc" not in pa.supported_memory_backends(),
    reason="NOT TESTED: only mimalloc on Linux asks for huge pages",
)
SMALL = "jemalloc" if "jemalloc" in pa.supported_memory_backends() else "system"


@pytest.fixture(autouse=True)
def mimalloc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = pa.default_memory_pool()
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    pa.set_memory_pool(pa.mimalloc_memory_pool())
    yield
    pa.set_memory_pool(before)


def backend() -> str:
    return str(pa.default_memory_pool().backend_name)


def test_leaving_the_outermost_small_pages_block_restores_the_allocator() -> None:
    with small_pages():
        with pytest.raises(KeyError), small_pages():
            raise KeyError
        assert backend() == SMALL
    assert backend() == "mimalloc"


def test_overlapping_threads_restore_the_allocator() -> None:
    both = Barrier(2)

    def overlap(_: int) -> str:
        with small_pages():
            both.wait(10)
            return backend()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(overlap, range(2))) == [SMALL, SMALL]
    assert backend() == "mimalloc"


def test_an_allocator_that_the_user_chose_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "mimalloc")
    with small_pages():
        assert backend() == "mimalloc"
