"""Table properties: the keys of ``metaData.configuration``, their valid values, and their defaults.

In: a map of strings to strings, either to check before we write it or as another writer wrote it. Out: the same map
with known spellings (``validate``), or typed values (``TableProperties``). Values to *write* are checked strictly.
Values that others wrote are read leniently: an unreadable one counts as absent and is kept in
``TableProperties.unreadable``, so ``features`` can refuse to write if the default might be unsafe. PROTOCOL.md,
"Table Properties".
"""

from __future__ import annotations

import contextlib
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec

from txlog.core.format.schema import DataType, backquoted
from txlog.core.util import invalid, one_of, pattern
from txlog.errors import InvalidInputError, UnsupportedFeatureError

if TYPE_CHECKING:
    from txlog.core.points import Point

# The table properties that define how rows with one key become one row. The names are Apache Paimon's options with the
# prefix ``txlog.``, so every txlog writer merges a table's rows alike. Other Delta writers ignore them.

PREFIX: Final = "txlog."

MERGE_ENGINE: Final = "txlog.merge-engine"
MERGE_ENGINES: Final = "txlog.merge_engines"
"""The group of entry points in which packages offer engines, by name. `DEFAULT_MERGE_ENGINE` is built in."""
DEFAULT_MERGE_ENGINE: Final = "deduplicate"

AGGREGATE_FUNCTIONS: Final = (
    "sum",
    "product",
    "count",
    "min",
    "max",
    "first_value",
    "last_value",
    "first_non_null_value",
    "last_non_null_value",
    "listagg",
    "bool_and",
    "bool_or",
    "collect",
)

MERGE_FLAGS: Final = (
    "ignore-delete",
    "partial-update.remove-record-on-delete",
    "aggregation.remove-record-on-delete",
)
"""Options that are true or false."""

FIELDS: Final = "fields."
DEFAULT_FUNCTION: Final = "fields.default-aggregate-function"

FIELD_OPTIONS: Final = (
    "aggregate-function",
    "ignore-retract",
    "list-agg-delimiter",
    "distinct",
    "sequence-group",
)
"""The parts after `fields.<column>.`; the sequence group has several columns, separated by commas."""

CHANGELOG_PRODUCER: Final = "txlog.changelog-producer"
CHANGELOG_PRODUCERS: Final = ("none", "input", "lookup")
ROW_DEDUPLICATE: Final = "txlog.changelog-producer.row-deduplicate"
"""Whether the change data feed leaves out updates that change nothing."""

CODEC_KEY: Final = "delta.parquet.compression.codec"
PARQUET: Final = "parquet."
CODEC: Final = f"{PARQUET}compression"
CODECS: Final = ("zstd", "snappy", "gzip", "lz4", "lz4_raw", "brotli", "uncompressed", "none")
ENCODINGS: Final = ("PLAIN", "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT")

TOMBSTONE_RETENTION: Final = "txlog.tombstone-retention"
"""How long the key of a deleted row is kept with its sequence; an interval."""

_NAMES: Final = frozenset(("merge-engine", "sequence.field", DEFAULT_FUNCTION, *MERGE_FLAGS))

# --- all properties ------------------------------------------------------------------------------------------------


CONSTRAINT_PREFIX = "delta.constraints."
FEATURE_PREFIX = "delta.feature."
SYMLINK_MANIFESTS = "delta.compatibility.symlinkFormatManifest.enabled"
"""If true, each commit updates the manifests of `core.versions.upkeep._symlink_manifests`."""
OTHER_FORMATS = "delta.universalFormat.enabledFormats"
"""Formats whose metadata each commit of Spark's Delta updates: iceberg, hudi."""

ICEBERG_COMPAT = {version: f"delta.enableIcebergCompatV{version}" for version in (1, 2, 3)}
"""For each version of the rules by which Iceberg can read the files, the property that turns it on."""

PARTITION_COLUMNS_IN_FILES = "delta.writePartitionColumnsToParquet"
"""If true, writers should put partition columns into data files too."""

PARTITION_COLUMNS_FEATURE = "delta.enableMaterializePartitionColumnsFeature"
"""If true, the table gets the feature materializePartitionColumns, by which writers must put them there."""
BRANCH: Final = "txlog.branch"
"""The property that says of which table a branch is. Each branch has another value."""
SHORT_LOG_RETENTION = "txlog.allowShortLogRetention"
"""If true, a log retention below a day is intended."""
GROUP_COMMIT = "txlog.groupCommit"
"""If true, changes of several machines may become one version: see `core.versions.decisions.intents`."""

KEY_INDEX: Final = "txlog.keyIndex"
"""The key columns of upserts whose keys are kept beside the table: see `core.reading._key_folder`."""

COLUMN_MARK = "#"
"""Between the name of a setting for data files and a column: ``parquet.enable.dictionary#id``, as in parquet-java."""

SECOND_MS = 1_000
DAY_MS = 86_400 * SECOND_MS
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

ColumnPath = tuple[str, ...]
T = TypeVar("T")


class TableProperties(msgspec.Struct, frozen=True):
    """The properties txlog acts on, typed, with Delta's defaults where they are absent or unreadable.

    Durations are in milliseconds, sizes in bytes. None means "not set": the code that uses it decides what to do.
    """

    append_only: bool = False
    auto_compact: bool = False
    isolation_level: str = "WriteSerializable"
    checkpoint_interval: int | None = None
    checkpoint_policy: str = "classic"
    write_stats_as_json: bool = True
    write_stats_as_struct: bool = True
    log_retention_ms: int = 30 * DAY_MS
    deleted_file_retention_ms: int = 7 * DAY_MS
    set_transaction_retention_ms: int | None = None
    enable_expired_log_cleanup: bool = True
    data_skipping_num_indexed_cols: int = 32
    data_skipping_stats_columns: tuple[ColumnPath, ...] | None = None
    data_skipping_string_prefix_length: int = 32
    randomize_file_prefixes: bool = False
    random_prefix_length: int = 2
    target_file_size_bytes: int | None = None
    enable_change_data_feed: bool = False
    enable_deletion_vectors: bool = False
    enable_row_tracking: bool = False
    enable_type_widening: bool = False
    enable_variant_shredding: bool = False
    in_commit_timestamps: bool = False
    in_commit_timestamp_enablement_version: int | None = None
    in_commit_timestamp_enablement_timestamp: int | None = None
    column_mapping_mode: str = "none"
    max_column_id: int = 0
    group_commit: bool = False
    key_index: tuple[ColumnPath, ...] = ()
    symlink_manifests: bool = False
    unreadable: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Known keys whose value could not be read, with the text found."""

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in self.__struct_fields__ if name != "unreadable"))

    @classmethod
    def of(cls, configuration: Mapping[str, str]) -> TableProperties:
        """Read ``metaData.configuration`` of any writer. Never raises."""
        found: dict[str, Any] = {}
        unreadable: dict[str, str] = {}
        for key, text in configuration.items():  # far fewer than there are attributes
            name = _ATTRIBUTE_OF.get(key)
            if name is None:
                continue
            try:
                found[name] = (_FORMS.get(key) or _OWN[key]).parse(text)
            except ValueError:
                unreadable[key] = text
        return cls(**found, unreadable=unreadable)


def validate(properties: Mapping[str, object]) -> dict[str, str]:
    """Check properties that a caller wants to set. Returns them as strings, in Delta's spelling.

    Keys under ``delta.`` and ``txlog.`` are matched whatever their case (Spark lower-cases options) and must be known;
    all other keys are the user's own. Values may be strings, booleans or integers. Raises InvalidInputError naming the
    key, the value and what was expected, and UnsupportedFeatureError for a key of an extension that is not installed.
    """
    if not isinstance(properties, Mapping):
        raise invalid("properties", properties, "a mapping of strings")
    checked: dict[str, str] = {}
    for given, value in properties.items():
        key = _known_spelling(given)
        if key in checked:
            raise InvalidInputError(f"table property {key} is given twice, with different case")
        checked[key] = _checked_value(key, value)
    return checked


def unknown_own_keys(configuration: Mapping[str, str]) -> dict[str, str]:
    """The ``txlog.`` keys of a table that do nothing here, each with what is wrong with it and what to do."""
    found: dict[str, str] = {}
    for key in configuration:
        if key.startswith(PREFIX):
            try:
                known = _known_spelling(key)
            except UnsupportedFeatureError as error:
                found[key] = error.message
            except InvalidInputError as error:
                found[key] = f"{error.message}: {_DOES_NOTHING}"
            else:
                if known != key:
                    found[key] = f"the table property {key!r} is called {known!r}: {_DOES_NOTHING}"
    return found


def means_same(key: str, stored: str | None, value: str) -> bool:
    """Whether a table has this value of `validate`, in whatever spelling it was stored."""
    form = _form_of(key)
    if stored is None or stored == value or form is None:
        return stored == value
    try:
        return bool(form.parse(stored) == form.parse(value))
    except ValueError:
        return False


def parquet_values(configuration: Mapping[str, str]) -> dict[tuple[str, str], Any]:
    """The settings for data files, typed, by name and column; column "" stands for all columns.

    Names and values that txlog does not know are left out: other engines know more. Never raises.
    """
    found: dict[tuple[str, str], Any] = {}
    for key, text in configuration.items():
        name, _, column = key.partition(COLUMN_MARK)
        form = (_BY_COLUMN if column else _PARQUET).get(name)
        if form is not None:
            with contextlib.suppress(ValueError):
                found[name, column] = form.parse(text)
    return found


def with_parquet_settings(configuration: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The properties with the settings of one write, which win. Delta's property for the codec is one of them."""
    codec = given.get(CODEC)
    return {**configuration, **given, **({} if codec is None else {CODEC_KEY: codec})}


def is_parquet_setting(key: str) -> bool:
    """Whether the key names a setting for data files."""
    name, _, column = key.partition(COLUMN_MARK)
    return name in (_BY_COLUMN if column else _PARQUET)


def stored(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that belong in ``metaData``: those that only affect the protocol action are left out."""
    return {
        key: value
        for key, value in properties.items()
        if key not in _PROTOCOL_ONLY and not key.startswith(FEATURE_PREFIX)
    }


def parse_interval_ms(text: str) -> int:
    """Milliseconds of a Spark interval of fixed length: ``interval 30 days``, ``1 week 2 days``.

    Raises ValueError, also for months and years, which have no fixed length.
    """
    matched = _INTERVAL.fullmatch(text.strip())
    if matched is None:
        raise ValueError(f"not an interval: {text!r}")
    total_us = sum(int(count) * _UNIT_US[unit.lower()] for count, unit in _INTERVAL_PART.findall(matched[1]))
    if total_us > INT64_MAX:
        raise ValueError(f"interval is too long: {text!r}")
    return total_us // 1_000


def interval_ms(configuration: Mapping[str, str], key: str) -> int | None:
    """Milliseconds of a property that has no safe default; None if it is not set.

    Raises ``InvalidInputError`` if another writer set it to something that is no interval of fixed length.
    """
    text = configuration.get(key)
    try:
        return None if text is None else parse_interval_ms(text)
    except ValueError:
        raise invalid(f"table property {key}", text, _INTERVAL_FORM.expected) from None


# --- forms of values ---------------------------------------------------------------------------------


class _Form(msgspec.Struct, frozen=True):
    parse: Callable[[str], Any]
    """Raises ValueError if the text does not have this form."""
    expected: str
    spell: Callable[[str], str] = str
    """The text to store for a text of this form: one that Spark's Delta parses too, which is stricter than `parse`."""


class PropertyRule(_Form, frozen=True):
    """A table property of a package: an entry of the group ``txlog.properties`` that has the property's name.

    Its name begins with ``txlog.``. Whoever commits to a table that has it without the package is warned. ``parse``,
    ``expected`` and ``spell`` are the form of its values: ``parse`` raises ValueError for other texts, ``expected``
    says to users what is right, and ``spell`` is the text to store.

    ``retyped``: called with the property's value, a column, its type and the wider one that it is to have; raises
    InvalidInputError if that cannot be. ``is_of_one_table``: it is about one table's place or files, so a clone does
    not take it over. ``is_rule_of_rows``: a change of it changes what may be appended or how, so that an append which
    began before it is planned again.
    """

    retyped: Callable[[str, ColumnPath, DataType, DataType], None] | None = None
    is_of_one_table: bool = False
    is_rule_of_rows: bool = True


def _packages() -> Point[PropertyRule]:
    from txlog.core.points import Point  # most tables ask no package

    return Point("txlog.properties", "the table property")


def _boolean(text: str) -> bool:
    folded = text.strip().lower()
    if folded not in ("true", "false"):
        raise ValueError("not a boolean")
    return folded == "true"


def _engines() -> Point[object]:
    from txlog.core.points import Point

    return Point(MERGE_ENGINES, "the merge engine")


class NotOfferedError(ValueError):
    """No installed package offers a name. The message says what would be right."""


def merge_engine_name(text: str) -> str:
    """The name of an engine that is built in or installed, as it is spelled there; ``aggregate`` is Paimon's word.

    Raises NotOfferedError.
    """
    folded = text.strip().lower()
    if folded == DEFAULT_MERGE_ENGINE:
        return folded
    from txlog.core.points import forget

    offered = _engines()
    wanted = {"aggregate": "aggregation"}.get(folded, folded)
    if wanted not in map(str.lower, offered.names()):
        forget()  # people install what is missing and go on
    found = next((name for name in offered.names() if name.lower() == wanted), None)
    if found is None:
        engines = [DEFAULT_MERGE_ENGINE, *offered.names()]
        raise NotOfferedError(f"{one_of(engines)}, which are built in or offered by installed packages")
    return found


def _auto_compact(text: str) -> bool:
    """``auto`` and ``legacy`` are Databricks' words for kinds of auto compaction, which are on."""
    folded = text.strip().lower()
    if folded not in ("true", "false", "auto", "legacy"):
        raise ValueError("not a kind of auto compaction")
    return folded != "false"


def _integer(low: int, high: int = INT64_MAX) -> _Form:
    def parse(text: str) -> int:
        if _INTEGER.fullmatch(text.strip()) is None or not low <= int(text) <= high:
            raise ValueError("not an integer in range")
        return int(text)

    expected = f"an integer of at least {low}" if high == INT64_MAX else f"an integer from {low} to {high}"
    return _Form(parse, expected, lambda text: str(int(text)))


def choice(*names: str, **also: str) -> _Form:
    """The form of one of these names, whatever its case. ``also`` are other words for some of them."""
    by_fold = {**{name.lower(): name for name in names}, **also}

    def parse(text: str) -> str:
        name = by_fold.get(text.strip().lower())
        if name is None:
            raise ValueError("not one of the choices")
        return name

    return _Form(parse, one_of(names), parse)


def size_bytes(text: str) -> int:
    """A size in bytes, or with a binary unit as in ``128mb`` and ``1g``. Raises ValueError where the text is none."""
    matched = _SIZE.fullmatch(text.strip().lower())
    size = int(matched[1]) * 1024 ** "bkmgt".index(matched[2] or "b") if matched else 0
    if not 0 < size <= INT64_MAX:
        raise ValueError("not a size")
    return size


def column_paths(text: str) -> tuple[ColumnPath, ...]:
    """``a, b.c, `x.y`.z`` -> (("a",), ("b", "c"), ("x.y", "z")). Backticks quote; two of them stand for one."""
    if not text.strip():
        return ()
    paths: list[ColumnPath] = []
    parts: list[str] = []
    position = 0
    while True:
        matched = _NAME_PART.match(text, position)
        if matched is None:
            raise ValueError("not a list of column names")
        quoted, plain, separator = matched.groups()
        parts.append(quoted.replace("``", "`") if quoted is not None else plain.strip())
        position = matched.end()
        if separator != ".":
            paths.append(tuple(parts))
            parts = []
        if not separator:
            return tuple(paths)


def _some_columns(text: str) -> tuple[ColumnPath, ...]:
    found = column_paths(text)
    if not found:
        raise ValueError("no column")
    return found


def path_text(path: ColumnPath) -> str:
    """The path of one column as SQL and `column_paths` write it: ``a.b``, and other names in backticks."""
    return ".".join(name if name.isidentifier() else backquoted(name) for name in path)


def column_list(paths: Iterable[ColumnPath]) -> str:
    """The text of a property that lists columns, as Spark's Delta reads it too: ``é`` is in backticks there."""
    return ",".join(
        ".".join(name if name.isascii() and name.isidentifier() else backquoted(name) for name in path)
        for path in paths
    )


def _probability(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise ValueError("not a probability")
    return value


def _spelled_list(text: str) -> str:
    """The list as it is given, as Spark keeps it, unless Spark would not read a name without backticks."""
    unquoted = _QUOTED_NAME.sub("", text)
    return text if _READ_BY_SPARK.fullmatch(unquoted) else column_list(column_paths(text))


def _folded(text: str) -> str:
    return text.strip().lower()


def _unspaced(text: str) -> str:
    return "".join(text.split())


def _spaced(text: str) -> str:
    """The words and numbers of an interval with a space between them: Spark does not read ``7days``."""
    return " ".join(_WORD_OR_NUMBER.findall(text))


def _not_empty(text: str) -> str:
    if not text.strip():
        raise ValueError("empty")
    return text


_INTEGER = pattern(r"[+-]?\d{1,19}", re.ASCII)
_SIZE = pattern(r"(\d{1,19})\s*(?:([kmgt])b?|b)?", re.ASCII)
_NAME_PART = pattern(r"\s*(?:`((?:[^`]|``)+)`|([^`.,]*[^`.,\s]))\s*([.,]|$)")
_UNIT_US = {
    "week": 7 * DAY_MS * 1_000,
    "day": DAY_MS * 1_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_INTERVAL_PART = pattern(rf"(\d{{1,18}})\s*({'|'.join(_UNIT_US)})", re.IGNORECASE | re.ASCII)
_INTERVAL = pattern(rf"(?:interval\s+)?((?:\d{{1,18}}\s*(?:{'|'.join(_UNIT_US)})s?\s*)+)", re.IGNORECASE | re.ASCII)
_QUOTED_NAME = pattern(r"`(?:[^`]|``)*`")
_READ_BY_SPARK = pattern(r"[A-Za-z0-9_.,\s]*", re.ASCII)
_WORD_OR_NUMBER = pattern(r"[a-z]+|\d+", re.IGNORECASE | re.ASCII)

_BOOLEAN = _Form(_boolean, "true or false", _folded)
_INTERVAL_FORM = _Form(
    parse_interval_ms, "an interval of weeks, days, hours, minutes, seconds, as in 'interval 30 days'", _spaced
)
_TEXT = _Form(_not_empty, "text that is not empty")
_CODECS = choice(*CODECS)

# --- what is known ----------------------------------------------------------------------------------------------

_FORMS: dict[str, _Form] = {
    "delta.appendOnly": _BOOLEAN,
    "delta.autoOptimize.autoCompact": _Form(
        _auto_compact, "true, false, auto or legacy", lambda text: str(_auto_compact(text)).lower()
    ),
    "delta.autoOptimize.optimizeWrite": _TEXT,
    "delta.checkpoint.writeStatsAsJson": _BOOLEAN,
    "delta.checkpoint.writeStatsAsStruct": _BOOLEAN,
    "delta.checkpointInterval": _integer(1, INT32_MAX),
    "delta.checkpointPolicy": choice("classic", "v2"),
    "delta.columnMapping.maxColumnId": _integer(0),
    "delta.columnMapping.mode": choice("none", "name", "id"),
    SYMLINK_MANIFESTS: _BOOLEAN,
    "delta.dataSkippingNumIndexedCols": _integer(-1, INT32_MAX),
    "delta.dataSkippingStatsColumns": _Form(
        column_paths, "column names separated by commas, as in 'a, b.c'", _spelled_list
    ),
    "delta.dataSkippingStringPrefixLength": _integer(1, INT32_MAX),
    "delta.deletedFileRetentionDuration": _INTERVAL_FORM,
    "delta.dropFeatureTruncateHistory.retentionDuration": _INTERVAL_FORM,
    "delta.enableChangeDataFeed": _BOOLEAN,
    "delta.enableDeletionVectors": _BOOLEAN,
    "delta.enableExpiredLogCleanup": _BOOLEAN,
    "delta.enableFullRetentionRollback": _BOOLEAN,
    **dict.fromkeys(ICEBERG_COMPAT.values(), _BOOLEAN),
    "delta.enableInCommitTimestamps": _BOOLEAN,
    PARTITION_COLUMNS_FEATURE: _BOOLEAN,
    "delta.enableRowTracking": _BOOLEAN,
    "delta.enableTypeWidening": _BOOLEAN,
    "delta.enableVariantShredding": _BOOLEAN,
    "delta.inCommitTimestampEnablementTimestamp": _integer(0),
    "delta.inCommitTimestampEnablementVersion": _integer(0),
    "delta.isolationLevel": choice("WriteSerializable", "Serializable"),
    "delta.logRetentionDuration": _INTERVAL_FORM,
    "delta.minReaderVersion": _integer(1, 3),
    "delta.minWriterVersion": _integer(1, 7),
    CODEC_KEY: _CODECS,
    "delta.parquet.format.version": _TEXT,
    "delta.randomPrefixLength": _integer(1, 32),
    "delta.randomizeFilePrefixes": _BOOLEAN,
    "delta.requireCheckpointProtectionBeforeVersion": _integer(0),
    "delta.rowTracking.materializedRowCommitVersionColumnName": _TEXT,
    "delta.rowTracking.materializedRowIdColumnName": _TEXT,
    "delta.rowTrackingSuspended": _BOOLEAN,
    "delta.sampleRetentionDuration": _INTERVAL_FORM,
    "delta.setTransactionRetentionDuration": _INTERVAL_FORM,
    "delta.targetFileSize": _Form(size_bytes, "a size in bytes, or with a unit as in '128mb'", _unspaced),
    "delta.tuneFileSizesForRewrites": _BOOLEAN,
    OTHER_FORMATS: _TEXT,
    PARTITION_COLUMNS_IN_FILES: _BOOLEAN,
}

KNOWN_KEYS: frozenset[str] = frozenset(_FORMS)
"""The ``delta.`` keys with a fixed name; ``delta.constraints.*`` and ``delta.feature.*`` are families."""

_PARQUET: dict[str, _Form] = {
    CODEC: _CODECS,
    "parquet.compression.codec.brotli.level": _integer(0, 11),
    "parquet.compression.codec.gzip.level": _integer(1, 9),
    "parquet.compression.codec.zstd.level": _integer(1, 22),
    "parquet.block.size": _integer(1),
    "parquet.block.row.count.limit": _integer(1, INT32_MAX),
    "parquet.page.size": _integer(1, INT32_MAX),
    "parquet.page.row.count.limit": _integer(1, INT32_MAX),
    "parquet.dictionary.page.size": _integer(1, INT32_MAX),
    "parquet.enable.dictionary": _BOOLEAN,
    "parquet.bloom.filter.enabled": _BOOLEAN,
}
"""The settings for data files, named as parquet-java names them: Spark's Delta passes a table's properties to it."""

_BY_COLUMN: dict[str, _Form] = {
    "parquet.enable.dictionary": _BOOLEAN,
    "parquet.bloom.filter.enabled": _BOOLEAN,
    "parquet.bloom.filter.expected.ndv": _integer(1, INT32_MAX),
    "parquet.bloom.filter.fpp": _Form(_probability, "a number between 0 and 1", lambda text: str(float(text))),
    f"{PREFIX}parquet.encoding": choice(*ENCODINGS),
}
"""The settings that one column can have. parquet-java has no setting for an encoding, so that one is txlog's own."""

_PROTOCOL_ONLY = frozenset({"delta.minReaderVersion", "delta.minWriterVersion"})
_FAMILIES = {CONSTRAINT_PREFIX: _TEXT, FEATURE_PREFIX: choice("supported", "enabled")}
_FUNCTIONS = choice(*AGGREGATE_FUNCTIONS)
_OWN = {
    SHORT_LOG_RETENTION: _BOOLEAN,
    GROUP_COMMIT: _BOOLEAN,
    KEY_INDEX: _Form(_some_columns, "column names separated by commas, as in 'a, b.c'"),
    CHANGELOG_PRODUCER: choice(*CHANGELOG_PRODUCERS),
    ROW_DEDUPLICATE: _BOOLEAN,
    TOMBSTONE_RETENTION: _INTERVAL_FORM,
    MERGE_ENGINE: _Form(merge_engine_name, "the name of a merge engine", merge_engine_name),
    f"{PREFIX}sequence.field": _TEXT,
    f"{PREFIX}{DEFAULT_FUNCTION}": _FUNCTIONS,
    **{PREFIX + flag: _BOOLEAN for flag in MERGE_FLAGS},
}
_FIELD_FORMS = {
    "aggregate-function": _FUNCTIONS,
    "ignore-retract": _BOOLEAN,
    "list-agg-delimiter": _Form(str, "text"),
    "distinct": _BOOLEAN,
    "sequence-group": _TEXT,
}
OWN_KEYS: frozenset[str] = frozenset(_OWN)
"""The ``txlog.`` keys with a fixed name; ``txlog.fields.*`` is a family."""

_EXTENSIONS = {
    f"{PREFIX}iceberg": "iceberg",
    f"{PREFIX}iceberg.catalog": "iceberg",
    f"{PREFIX}variant.shredding": "variant",
}
"""The properties of txlog's own extensions, with the extension that a commit to a table with the property needs."""

_DOES_NOTHING = "this one does nothing here, so unset it or install the package that it belongs to"

_KNOWN = frozenset((*_FORMS, *_OWN, *_PARQUET, *_BY_COLUMN))
_BY_FOLD = {key.lower(): key for key in _KNOWN}

_ATTRIBUTES = {
    "append_only": "delta.appendOnly",
    "auto_compact": "delta.autoOptimize.autoCompact",
    "isolation_level": "delta.isolationLevel",
    "checkpoint_interval": "delta.checkpointInterval",
    "checkpoint_policy": "delta.checkpointPolicy",
    "write_stats_as_json": "delta.checkpoint.writeStatsAsJson",
    "write_stats_as_struct": "delta.checkpoint.writeStatsAsStruct",
    "log_retention_ms": "delta.logRetentionDuration",
    "deleted_file_retention_ms": "delta.deletedFileRetentionDuration",
    "set_transaction_retention_ms": "delta.setTransactionRetentionDuration",
    "enable_expired_log_cleanup": "delta.enableExpiredLogCleanup",
    "data_skipping_num_indexed_cols": "delta.dataSkippingNumIndexedCols",
    "data_skipping_stats_columns": "delta.dataSkippingStatsColumns",
    "data_skipping_string_prefix_length": "delta.dataSkippingStringPrefixLength",
    "randomize_file_prefixes": "delta.randomizeFilePrefixes",
    "random_prefix_length": "delta.randomPrefixLength",
    "target_file_size_bytes": "delta.targetFileSize",
    "enable_change_data_feed": "delta.enableChangeDataFeed",
    "enable_deletion_vectors": "delta.enableDeletionVectors",
    "enable_row_tracking": "delta.enableRowTracking",
    "enable_type_widening": "delta.enableTypeWidening",
    "enable_variant_shredding": "delta.enableVariantShredding",
    "in_commit_timestamps": "delta.enableInCommitTimestamps",
    "in_commit_timestamp_enablement_version": "delta.inCommitTimestampEnablementVersion",
    "in_commit_timestamp_enablement_timestamp": "delta.inCommitTimestampEnablementTimestamp",
    "column_mapping_mode": "delta.columnMapping.mode",
    "max_column_id": "delta.columnMapping.maxColumnId",
    "group_commit": GROUP_COMMIT,
    "key_index": KEY_INDEX,
    "symlink_manifests": SYMLINK_MANIFESTS,
}
_ATTRIBUTE_OF = {key: name for name, key in _ATTRIBUTES.items()}


def _known_spelling(given: str) -> str:
    if type(given) is not str or not given:
        raise invalid("name of a table property", given, "a non-empty string")
    folded = given.lower()
    if folded.startswith((PARQUET, PREFIX + PARQUET)):
        return _setting_spelling(given)
    if folded in _BY_FOLD:
        return _BY_FOLD[folded]
    if folded.startswith(PREFIX + FIELDS):
        return _field_spelling(given)
    if folded.startswith(PREFIX):
        return _spelling_of_packages(given, folded)
    if not folded.startswith("delta."):
        meant = _BY_FOLD.get(f"delta.{folded}") or _BY_FOLD.get(f"{PREFIX}{folded}")
        if meant is not None:  # otherwise the property would silently have no effect
            raise InvalidInputError(f"the table property {given!r} is called {meant!r}; as {given!r} it does nothing")
        return given
    for prefix in _FAMILIES:
        if folded.startswith(prefix) and len(given) > len(prefix):
            return prefix + given[len(prefix) :]
    raise _unknown(given, "delta.")


def _spelling_of_packages(given: str, folded: str) -> str:
    known = next((name for name in _packages().names() if name.lower() == folded), None)
    if known is None and folded in _EXTENSIONS:
        _require_extension(folded, "a table with it")
        return folded  # installed meanwhile
    if known is None:
        raise _unknown(given, PREFIX)
    return known


def _unknown(given: str, prefix: str) -> InvalidInputError:
    near = _nearest(given.lower())
    meant = f": did you mean {near!r}? Keys" if near else ": keys"
    return InvalidInputError(f"unknown table property {given!r}{meant} of your own must not start with {prefix!r}")


def _setting_spelling(given: str) -> str:
    """``parquet.<setting>`` or ``parquet.<setting>#<column>``, with the setting in lower case.

    parquet-java has more settings, which Spark's Delta acts on: they are kept as they are.
    """
    name, mark, column = given.partition(COLUMN_MARK)
    folded = name.lower()
    if mark and folded in _BY_COLUMN and column.strip():
        return f"{folded}{COLUMN_MARK}{column.strip()}"
    if not mark and folded in _PARQUET:
        return folded
    if folded in _BY_FOLD:
        key = _BY_FOLD[folded]
        takes = f"needs a column: {key}{COLUMN_MARK}<column>" if key in _BY_COLUMN else "is not for single columns"
        raise InvalidInputError(f"the table property {given!r} {takes}")
    import difflib

    meant = _BY_FOLD.get(f"delta.{folded}")
    near = difflib.get_close_matches(folded, [*_PARQUET, *_BY_COLUMN], n=1, cutoff=0.9)
    if meant is not None or near:
        raise InvalidInputError(f"unknown table property {given!r}: did you mean {meant or near[0]!r}?")
    if folded.startswith(PREFIX):
        raise _unknown(given, PREFIX)
    return given


def _field_spelling(given: str) -> str:
    """``txlog.fields.<column>.<option>``, with the option in lower case."""
    column, _, option = given[len(PREFIX + FIELDS) :].rpartition(".")
    if not column or option.lower() not in FIELD_OPTIONS:
        known = ", ".join(f"{PREFIX}{FIELDS}<column>.{name}" for name in FIELD_OPTIONS)
        raise InvalidInputError(f"unknown table property {given!r}: there are {PREFIX}{DEFAULT_FUNCTION}, {known}")
    return f"{PREFIX}{FIELDS}{column}.{option.lower()}"


def _nearest(folded: str) -> str | None:
    import difflib

    known = _BY_FOLD | {name.lower(): name for name in _packages().names()}
    near = difflib.get_close_matches(folded, known, n=1, cutoff=0.7)
    return known[near[0]] if near else None


def _checked_value(key: str, value: object) -> str:
    if isinstance(value, bool):
        value = "true" if value else "false"
    elif not isinstance(value, str):
        with contextlib.suppress(TypeError):  # a whole number of any library
            value = str(operator.index(cast(Any, value)))
    form = _form_of(key)
    expected = form.expected if form else "text"
    if type(value) is not str:
        raise invalid(f"table property {key}", value, expected)
    if form is None:
        return value
    try:
        form.parse(value)
    except NotOfferedError as error:
        raise invalid(f"table property {key}", value, str(error)) from None
    except ValueError:
        raise invalid(f"table property {key}", value, expected) from None
    return form.spell(value)


def _form_of(key: str) -> _Form | None:
    name, _, column = key.partition(COLUMN_MARK)
    form = _BY_COLUMN.get(name) if column else _FORMS.get(key) or _OWN.get(key) or _PARQUET.get(key)
    if form is None and key.startswith(PREFIX) and (option := field_option(key[len(PREFIX) :])) is not None:
        form = _FIELD_FORMS[option[1]]
    if form is None:
        form = next((family for prefix, family in _FAMILIES.items() if key.startswith(prefix)), None)
    return _packages().get(key) if form is None and is_of_a_package(key) else form


def is_of_a_package(key: str) -> bool:
    """Whether a key is of txlog, and this module does not know it."""
    if not key.startswith(PREFIX) or key in _KNOWN:
        return False
    return field_option(key[len(PREFIX) :]) is None and key.partition(COLUMN_MARK)[0] not in _BY_COLUMN


def of_packages(configuration: Mapping[str, str]) -> dict[str, PropertyRule | None]:
    """The rules of a table's properties that packages offer; None for a property of txlog that nobody offers here.

    A table without such properties asks for no package. Raises UnsupportedFeatureError if a package that offers one
    cannot be loaded.
    """
    return {key: _packages().get(key) for key in configuration if is_of_a_package(key)}


def require_extensions(configuration: Mapping[str, str]) -> None:
    """Raise UnsupportedFeatureError if a property of the table is one of an extension of txlog that is not installed: a
    commit without it would leave undone what the property promises."""
    for key, rule in of_packages(configuration).items():
        if rule is None and key in _EXTENSIONS:
            _require_extension(key, "a commit to this table")


def unknown_keys(configuration: Mapping[str, str]) -> list[str]:
    """The table's properties of txlog that neither txlog nor an installed package knows: a commit heeds none of
    them. Raises as `of_packages` does."""
    return [key for key, rule in of_packages(configuration).items() if rule is None and key not in _EXTENSIONS]


def _require_extension(key: str, needed_for: str) -> None:
    from txlog.core.points import Point

    kind = f"txlog's extension {_EXTENSIONS[key]} for the table property"
    Point[PropertyRule]("txlog.properties", kind).load(key, needed_for)


# --- merging --------------------------------------------------------------------------------------------------------


def field_option(option: str) -> tuple[str, str] | None:
    """``("price", "aggregate-function")`` of ``fields.price.aggregate-function``; None for any other option."""
    if not option.startswith(FIELDS) or option == DEFAULT_FUNCTION:
        return None
    for name in FIELD_OPTIONS:
        column = option[len(FIELDS) : -len(name) - 1]
        if column and option == f"{FIELDS}{column}.{name}":
            return column, name
    return None


def options_of_engines(configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties that are options of an engine that a package offers, with the engine of each."""
    found: dict[str, str] = {}
    for key in filter(is_of_a_package, configuration):
        engine = next((each for each in _engines().names() if key.startswith(f"{PREFIX}{each}.")), None)
        if engine is not None:
            found[key] = engine
    return found


def merge_options(configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties of a table that define merging, by Paimon's names; empty if there are none.

    An engine's own options begin with its name: ``partial-update.remove-record-on-delete``.
    """
    options = {key[len(PREFIX) :]: value for key, value in configuration.items() if key.startswith(PREFIX)}
    families = FIELDS, f"{configuration.get(MERGE_ENGINE, DEFAULT_MERGE_ENGINE)}."
    return {name: value for name, value in options.items() if name in _NAMES or name.startswith(families)}
