"""Which data files may have been written by programs other than Delta writers, with their own column ids.

In: paths of data files. Out: the files whose footers an export must read. Iceberg spec, "Column Projection".
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["may_be_taken_over", "taken_over_files"]

_DELTA_NAME = r"(^|/)part-[0-9]{5,}-[^/]*$"
"""The names of files that txlog, Spark and deltalake write, which have the table's column ids or none."""
_is_delta_name = re.compile(_DELTA_NAME).search


def may_be_taken_over(uri_text: str) -> bool:
    return _is_delta_name(uri_text) is None


def taken_over_files(files: pa.Table) -> pa.Table:
    """The live files (``FILES_SCHEMA``) that may come from another program."""
    return files.filter(pc.invert(pc.match_substring_regex(files.column("path"), _DELTA_NAME)))
