"""The fast ways to write an ``add`` or a ``remove``, and to make an ``add`` of columns, have the usual result."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from txlog.core.format.actions import AddFile, DeletionVectorDescriptor, RemoveFile, action_to_json, line_of
from txlog.core.format.file_columns import add_files_of, adds_to_batch
from txlog.core.format.wire import ActionError

pytestmark = pytest.mark.hypothesis

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
MAPS = st.dictionaries(TEXTS, st.none() | TEXTS, max_size=3)
COUNTS = st.integers(0, 2**63 - 1)
FEW = st.integers(0, 2)
VECTORS = st.builds(DeletionVectorDescriptor, st.just("u"), TEXTS, st.none() | FEW, FEW, FEW, st.none() | FEW)
ADDS = st.builds(
    AddFile,
    TEXTS,
    MAPS,
    COUNTS,
    COUNTS,
    st.booleans(),
    st.none() | TEXTS,
    st.none() | MAPS,
    st.none() | VECTORS,
    st.none() | COUNTS,
    st.none() | COUNTS,
    st.none() | TEXTS,
)


@given(add=ADDS, extra=st.dictionaries(st.just("new"), st.integers(0, 9)))
def test_the_line_of_an_add_or_a_remove_is_what_json_says(add: AddFile, extra: dict[str, Any]) -> None:
    removes = [add.removed(deletion_timestamp=1, data_change=flag) for flag in (True, False)]
    for each in (add, *removes, RemoveFile(add.path, add.data_change)):
        assert line_of(each) == orjson.dumps(action_to_json(each))
        assert line_of(with_extra := replace(each, extra=extra)) == orjson.dumps(action_to_json(with_extra))


@given(adds=st.lists(ADDS, max_size=3))
def test_columns_become_the_adds_that_they_were_made_of(adds: list[AddFile]) -> None:
    assert add_files_of(pa.Table.from_batches([adds_to_batch(adds)])) == adds


def test_a_text_that_json_cannot_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="UTF-8"):
        line_of(AddFile("\ud800", {}, 1, 1, True))


def test_a_value_that_no_add_has_is_named() -> None:
    files = pa.Table.from_batches([adds_to_batch([AddFile("a", {}, -1, 1, True)])])
    with pytest.raises(ActionError, match=r"add\.size"):
        add_files_of(files)
