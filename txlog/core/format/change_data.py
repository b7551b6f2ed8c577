"""The change data feed: the columns that describe a change, and their reserved names.

In: a table's schema. Out: the fields of its change files and of its feed. PROTOCOL.md, "Add CDC File", "Change Data
Files".
"""

from __future__ import annotations

from typing import Final

from txlog.core.format.schema import LONG, STRING, TIMESTAMP, Field, Struct

CHANGE_DATA_FOLDER: Final = "_change_data"
"""The folder below the table's root for change files."""

INSERT: Final = "insert"
DELETE: Final = "delete"
UPDATE_PREIMAGE: Final = "update_preimage"
UPDATE_POSTIMAGE: Final = "update_postimage"

CHANGE_TYPE: Final = Field("_change_type", STRING, False, {})
"""What happened to the row: one of the four words above. Change files have this column too."""
COMMIT_VERSION: Final = Field("_commit_version", LONG, False, {})
COMMIT_TIMESTAMP: Final = Field("_commit_timestamp", TIMESTAMP, False, {})

FEED_FIELDS: Final = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)
"""What the feed adds to the columns of the table, in this order."""


def reserved_columns(schema: Struct) -> list[str]:
    """The table columns with one of the feed's reserved names: such a table cannot turn the feed on."""
    found = (schema.find(field.name) for field in FEED_FIELDS)
    return [field.name for field in found if field is not None]
