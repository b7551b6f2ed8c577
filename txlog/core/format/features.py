"""Table features: what a table requires of readers and writers, by name, and what this release supports.

In: the ``protocol`` action, and the metadata, which shows whether a feature is in use (`FeatureUsage`). Out: nothing,
or an UnsupportedFeatureError naming every unsupported feature before anything is written; and the protocol that a new
or changed table needs. PROTOCOL.md, "Table Features", "Valid Feature Names in Table Features", "Reader/Writer Version
Requirements".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Literal, TypeAlias

import msgspec

from txlog.core.format.actions import Metadata, Protocol
from txlog.core.format.column_mapping import MODE_KEY, mapping_mode, schema_of, without_metadata
from txlog.core.format.properties import (
    CONSTRAINT_PREFIX,
    FEATURE_PREFIX,
    ICEBERG_COMPAT,
    OTHER_FORMATS,
    PARTITION_COLUMNS_FEATURE,
    PARTITION_COLUMNS_IN_FILES,
    SYMLINK_MANIFESTS,
    TableProperties,
    require_extensions,
)
from txlog.core.format.schema import PRIMITIVES, Array, DataType, Map, Primitive, Struct, parse_schema, types_in
from txlog.core.util import invalid
from txlog.errors import CorruptLogError, UnsupportedFeatureError

CATALOG_MANAGED = "catalogManaged"
DELETED_BRANCH = "txlogBranchWasDeleted"
"""No writer has it: it keeps every engine from writing to a branch (`txlog.branch`) that a vacuum deletes."""

_GENERATED = "delta.generationExpression"

READER_FEATURES_VERSION = 3
WRITER_FEATURES_VERSION = 7


def table_schema(protocol: Protocol, metadata: Metadata) -> Struct:
    """The table's columns. Under a protocol that knows no generated columns they are plain columns, as in Spark.

    Raises what `schema_of` raises.
    """
    schema = schema_of(metadata)
    if _GENERATED in metadata.schema_string and "generatedColumns" not in _writer_features(protocol):
        return without_metadata(schema, _GENERATED)
    return schema


def check_can_read(protocol: Protocol, metadata: Metadata) -> None:
    """Raise UnsupportedFeatureError naming the features that readers of this table need and txlog lacks.

    Raises CorruptLogError if the protocol action contradicts itself.
    """
    _check_can_read(protocol, FeatureUsage.of(metadata))


def check_can_write(protocol: Protocol, metadata: Metadata) -> None:
    """Raise UnsupportedFeatureError naming the features that writers of this table need and txlog lacks.

    A writer must also read. A feature that is only listed, or implied by a legacy writer version, is accepted if the
    protocol requires something only of tables that use it, and the metadata shows no use. Whether constraints can be
    checked and generated columns computed shows when rows are planned (``core.row_rules._constraints``,
    ``core.row_rules._generated_columns``).
    """
    _check_can_change(protocol, metadata, "write", set())


def check_can_maintain(protocol: Protocol, metadata: Metadata) -> None:
    """The same for a commit that makes no new data file, such as a vacuum: rules for new files do not apply to it."""
    _check_can_change(protocol, metadata, "maintain", _RULES_OF_NEW_FILES)


def check_owner(
    protocol: Protocol, *, is_owned: bool, before: Protocol | None = None, known_as: str | None = None
) -> None:
    """Raise UnsupportedFeatureError if a catalog decides the commits of the table, and it was not opened through one,
    or if a change from the protocol ``before`` would take the table away from its catalog.

    The log's own features say who decides. A catalog that says otherwise of the table that it is ``known_as`` does not
    fit to its log, and neither is believed.
    """
    is_managed = CATALOG_MANAGED in _writer_features(protocol)
    if is_managed and not is_owned and known_as is not None:
        message = (
            "the table's log says that a catalog decides its commits (catalogManaged), and the catalog that has the"
            " name does not say so: whichever of them is wrong, a commit could be lost. Ask the catalog's administrator"
            " which table this is"
        )
    elif is_owned and not is_managed and before is None:
        message = (
            "the catalog says that it decides the table's commits, and the table's log does not (it lacks"
            " catalogManaged), so that other writers commit by its files: whichever of them is wrong, a commit could be"
            " lost. Ask the catalog's administrator which table this is"
        )
    elif is_managed and not is_owned:
        message = (
            "a catalog decides the commits of this table (catalogManaged), so its location alone cannot be used: open"
            ' it by its name, as txlog.Catalog(address).table("catalog.schema.table") or uc://catalog.schema.table'
        )
    elif before is not None and CATALOG_MANAGED in _writer_features(before) and not is_managed:
        message = "a catalog manages the table (catalogManaged), and nobody can take this feature away"
    else:
        return
    raise UnsupportedFeatureError(message, features=(CATALOG_MANAGED,))


def _check_can_change(protocol: Protocol, metadata: Metadata, what: str, kept: Set[str]) -> None:
    """``kept`` are features whose requirements the change meets by itself."""
    usage = FeatureUsage.of(metadata)
    _check_can_read(protocol, usage)
    if protocol.min_writer_version > WRITER_FEATURES_VERSION:
        raise _version_error("writer", protocol.min_writer_version, WRITER_FEATURES_VERSION)
    present = (feature.name for feature in _FEATURES if feature.write == _UNLESS_USED and feature.used(usage))
    names = dict.fromkeys((*_writer_features(protocol), *present))
    refused = [name for name in names if name not in kept and not _allowed(name, usage, reading=False)]
    if refused:
        raise _feature_error(what, refused, usage)
    _check_properties(metadata.configuration)
    require_extensions(metadata.configuration)
    if what == "write":
        check_promises(metadata.configuration)
        if any(map(usage.enabled, ICEBERG_COMPAT.values())):
            from txlog.core.format.iceberg_compat import check_compatible

            check_compatible(_writer_features(protocol), metadata)


def check_promises(configuration: Mapping[str, str]) -> None:
    """Raise UnsupportedFeatureError if programs that do not read the log rely on files which a commit of txlog would
    not keep up to date: they would miss its rows."""
    formats = configuration.get(OTHER_FORMATS, "").strip()
    if formats:
        to_do = ", and set txlog.iceberg = v2, which keeps Iceberg metadata up to date" if "iceberg" in formats else ""
        raise UnsupportedFeatureError(
            f"{OTHER_FORMATS} = {formats} is not supported by this release: no write of txlog updates that metadata,"
            f" and programs that read it would miss its rows. Unset the property{to_do}",
            features=(OTHER_FORMATS,),
        )
    properties = TableProperties.of(configuration)
    if properties.symlink_manifests and (properties.enable_deletion_vectors or mapping_mode(configuration) != "none"):
        other = MODE_KEY if mapping_mode(configuration) != "none" else "delta.enableDeletionVectors"
        raise UnsupportedFeatureError(
            f"{SYMLINK_MANIFESTS} = true does not go with {other}: readers by manifest know neither deletion vectors"
            " nor the names of mapped columns. Unset one of the two",
            features=(SYMLINK_MANIFESTS,),
        )


def stores_partition_columns(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether new data files have the partition columns in them, after the others: a rule of the Iceberg
    compatibility, of a feature of its own, and what a property wishes. Readers take the values from the log anyway."""
    if not metadata.partition_columns:
        return False
    usage = FeatureUsage(Struct(()), metadata.configuration)
    features = _writer_features(protocol)
    if usage.enabled(PARTITION_COLUMNS_IN_FILES) or "materializePartitionColumns" in features:
        return True
    if not any(map(usage.enabled, ICEBERG_COMPAT.values())):
        return False
    from txlog.core.format.iceberg_compat import versions_in_use

    return bool(versions_in_use(features, metadata.configuration))


def protocol_for(schema: Struct, properties: Mapping[str, str]) -> Protocol:
    """The protocol of a new table: reader 1, writer 2 unless schema or (validated) properties need more.

    ``delta.minReaderVersion``, ``delta.minWriterVersion`` and ``delta.feature.<name>`` = ``supported`` ask
    for more. Raises UnsupportedFeatureError naming a feature txlog could not write.
    """
    usage = FeatureUsage(schema, properties)
    return _minimal(("appendOnly", "invariants", *_needed(usage)), (), *_floor(usage))


def upgraded_for(protocol: Protocol, schema: Struct, properties: Mapping[str, str]) -> Protocol | None:
    """The protocol this table needs for a changed schema or properties; None if its own protocol suffices.

    Nothing is ever removed. Raises UnsupportedFeatureError naming a feature txlog could not write.
    """
    _check_shape(protocol)
    usage = FeatureUsage(schema, properties)
    for_readers = _reader_features(protocol)
    present = (*_writer_features(protocol), *for_readers)
    missing = [name for name in _needed(usage) if name not in present and f"{name}{_PREVIEW}" not in present]
    reader, writer = _floor(usage)
    if not missing and protocol.min_reader_version >= reader and protocol.min_writer_version >= writer:
        return None
    return _minimal(
        (*present, *missing),
        for_readers,
        max(reader, protocol.min_reader_version),
        max(writer, protocol.min_writer_version),
    )


def features_of(protocol: Protocol) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The features that readers, and that writers, of a table must support, listed or implied by a version."""
    return _reader_features(protocol), _writer_features(protocol)


def known_feature(name: str, protocol: Protocol) -> str | None:
    """A feature of the table by its name in any case; None if the table does not have it."""
    present = (*_reader_features(protocol), *_writer_features(protocol))
    return next((each for each in present if each.lower() == name.lower()), None)


def needed_by(name: str, protocol: Protocol) -> list[str]:
    """The features of the table that need another one."""
    return [each.name for each in _FEATURES if name in each.requires and each.name in _writer_features(protocol)]


def use_of(name: str, metadata: Metadata) -> str | None:
    """What of the metadata uses a feature, in words; None if nothing does."""
    feature = _BY_NAME.get(name)
    return None if feature is None or not feature.used(FeatureUsage.of(metadata)) else feature.needed_by or name


def is_for_readers(name: str) -> bool:
    """Whether older versions of a table can only be read with this feature."""
    return _is_reader_feature(name) and name not in _NEEDS_NO_HISTORY


def without_feature(protocol: Protocol, name: str, *, protects_history: bool = True) -> Protocol:
    """The protocol without a feature. If the feature is for readers, it protects the history, which they could not
    read: they start at a checkpoint. As in Spark's Delta, versions stand for the features that are left only if they
    stand for no other one; else these are listed. PROTOCOL.md, "Checkpoint Protection"."""
    reader = [each for each in _reader_features(protocol) if each != name]
    writer = [each for each in _writer_features(protocol) if each != name]
    if protects_history and is_for_readers(name) and CHECKPOINT_PROTECTION not in writer:
        writer.append(CHECKPOINT_PROTECTION)
    found = _minimal((*writer, *reader), reader, 1, 1)
    if {*_writer_features(found)} != {*writer, *reader}:
        found = _minimal((*writer, *reader), reader, 1, WRITER_FEATURES_VERSION)
    return found


def features_in_use(metadata: Metadata) -> frozenset[str]:
    """The features whose use shows in the metadata, and what these require."""
    usage = FeatureUsage.of(metadata)
    used = [feature for feature in _FEATURES if feature.used(usage)]
    return frozenset([name for feature in used for name in (feature.name, *feature.requires)])


def merged(one: Protocol, other: Protocol) -> Protocol:
    """The lowest protocol that has every feature of both; ``one`` itself if it has them all."""
    writer = dict.fromkeys((*_writer_features(one), *_writer_features(other)))
    reader = dict.fromkeys((*_reader_features(one), *_reader_features(other)))
    least_reader = max(one.min_reader_version, other.min_reader_version)
    least_writer = max(one.min_writer_version, other.min_writer_version)
    has_all = {*writer} == {*_writer_features(one)} and {*reader} == {*_reader_features(one)}
    if has_all and (least_reader, least_writer) == (one.min_reader_version, one.min_writer_version):
        return one
    return _minimal((*writer, *reader), reader, least_reader, least_writer)


# --- the features ------------------------------------------------------------------------------


_Support: TypeAlias = Literal["yes", "unless used", "no"]
_YES: _Support = "yes"
_UNLESS_USED: _Support = "unless used"
_NO: _Support = "no"


class _Feature(msgspec.Struct, frozen=True):
    """``legacy``: the (reader, writer) versions that imply it. ``needed_by``: where its use is visible, for messages.

    ``requires``: other features that it needs. ``type``: the feature can also be read and written where a package is
    installed that makes the values of this type.
    """

    name: str
    write: _Support
    used: Callable[[FeatureUsage], bool]
    needed_by: str = ""
    read: _Support = _YES
    requires: tuple[str, ...] = ()
    is_reader_feature: bool = False
    legacy: tuple[int, int] | None = None
    type: str = ""


def _never(usage: FeatureUsage) -> bool:
    return False


def _property(key: str) -> Callable[[FeatureUsage], bool]:
    return lambda usage: usage.enabled(key)


def _mark(marker: str) -> Callable[[FeatureUsage], bool]:
    return lambda usage: usage.marked(marker)


def _has_constraints(usage: FeatureUsage) -> bool:
    return any(key.startswith(CONSTRAINT_PREFIX) for key in usage.configuration)


def _type_of(feature: str) -> Callable[[FeatureUsage], bool]:
    return lambda usage: usage.needs(feature)


def _uses_v2_checkpoints(usage: FeatureUsage) -> bool:
    return usage.configuration.get("delta.checkpointPolicy", "classic").strip().lower() == "v2"


def _maps_columns(usage: FeatureUsage) -> bool:
    return mapping_mode(usage.configuration) != "none"


_PREVIEW = "-preview"


def _of_type(name: str, feature: str) -> _Feature:
    """The feature that a column of this type needs. It is written where a package makes the values, if one does."""
    facts = PRIMITIVES[name]
    used = _type_of(facts.feature)
    if not facts.by_package:
        return _Feature(feature, _YES, used, is_reader_feature=True)
    return _Feature(feature, _UNLESS_USED, used, f"a column of type {name}", is_reader_feature=True, type=name)


def _iceberg_compat(version: int, *requires: str) -> _Feature:
    key = ICEBERG_COMPAT[version]
    needed = ("columnMapping", *requires)
    return _Feature(f"icebergCompatV{version}", _YES, _property(key), key, requires=needed)


_FEATURES: tuple[_Feature, ...] = (
    _Feature("appendOnly", _YES, _property("delta.appendOnly"), legacy=(1, 2)),
    _Feature("invariants", _YES, _mark("delta.invariants"), "column metadata delta.invariants", legacy=(1, 2)),
    _Feature("checkConstraints", _YES, _has_constraints, f"{CONSTRAINT_PREFIX}*", legacy=(1, 3)),
    _Feature("changeDataFeed", _YES, _property("delta.enableChangeDataFeed"), legacy=(1, 4)),
    _Feature(
        "generatedColumns",
        _YES,
        _mark("delta.generationExpression"),
        "column metadata delta.generationExpression",
        legacy=(1, 4),
    ),
    _Feature(
        "columnMapping",
        _YES,
        _maps_columns,
        "delta.columnMapping.mode",
        is_reader_feature=True,
        legacy=(2, 5),
    ),
    _Feature("identityColumns", _YES, _mark("delta.identity."), "column metadata delta.identity.*", legacy=(1, 6)),
    _Feature("allowColumnDefaults", _YES, _mark("CURRENT_DEFAULT"), "column metadata CURRENT_DEFAULT"),
    _Feature("deletionVectors", _YES, _property("delta.enableDeletionVectors"), is_reader_feature=True),
    *(_of_type(name, facts.feature) for name, facts in PRIMITIVES.items() if facts.feature),
    _Feature("v2Checkpoint", _YES, _uses_v2_checkpoints, is_reader_feature=True),
    _Feature("vacuumProtocolCheck", _YES, _never, is_reader_feature=True),
    _Feature(
        CATALOG_MANAGED, _YES, _never, is_reader_feature=True
    ),  # only through the catalog: `core.versions.files._state_loader`
    _Feature("domainMetadata", _YES, _never),
    _Feature("inCommitTimestamp", _YES, _property("delta.enableInCommitTimestamps")),
    _Feature("rowTracking", _YES, _property("delta.enableRowTracking"), requires=("domainMetadata",)),
    _Feature("clustering", _YES, _never, requires=("domainMetadata",)),
    # Supporting these obliges a writer even if they are not in use.
    _iceberg_compat(1),
    _iceberg_compat(2),
    _iceberg_compat(3, "rowTracking", "domainMetadata"),
    _Feature(
        "checkpointProtection",
        _YES,
        lambda usage: "delta.requireCheckpointProtectionBeforeVersion" in usage.configuration,
        "delta.requireCheckpointProtectionBeforeVersion",
    ),
    _Feature("materializePartitionColumns", _YES, _property(PARTITION_COLUMNS_FEATURE), PARTITION_COLUMNS_FEATURE),
    _Feature("typeWidening", _YES, _property("delta.enableTypeWidening"), is_reader_feature=True),
    _Feature("typeWidening-preview", _YES, _never, is_reader_feature=True),
    _of_type("variant", f"variantType{_PREVIEW}"),
    *(
        _Feature(
            name,
            _NO,
            _property("delta.enableVariantShredding"),
            "delta.enableVariantShredding",
            read=_NO,
            is_reader_feature=True,
            type="variant",
        )
        for name in ("variantShredding", f"variantShredding{_PREVIEW}")
    ),
)
"""Every other feature is refused, and the error names it, as the protocol requires for unknown ones."""

_RULES_OF_NEW_FILES = {feature.name for feature in _FEATURES if feature.type and feature.write == _UNLESS_USED}
"""Their requirements concern rows when they are written, or new data files."""

CHECKPOINT_PROTECTION = "checkpointProtection"
_NEEDS_NO_HISTORY = {"vacuumProtocolCheck"}
"""Reader features that say nothing about the log: older versions are read right without them."""

_BY_NAME = {feature.name: feature for feature in _FEATURES}
FEATURE_NAMES = tuple(_BY_NAME)
"""The table features that this release knows."""
_UNSAFE_TO_GUESS = ("delta.appendOnly", "delta.isolationLevel", "delta.enableChangeDataFeed", SYMLINK_MANIFESTS)


# --- what a protocol holds and what a table needs -----------------------------------------------------------------


def _check_can_read(protocol: Protocol, usage: FeatureUsage) -> None:
    _check_shape(protocol)
    if protocol.min_reader_version > READER_FEATURES_VERSION:
        raise _version_error("reader", protocol.min_reader_version, READER_FEATURES_VERSION)
    refused = [name for name in _reader_features(protocol) if not _allowed(name, usage, reading=True)]
    if refused:
        raise _feature_error("read", refused, usage)
    _check_packages(protocol, usage)
    mode = mapping_mode(usage.configuration)
    if mode not in ("none", "name", "id"):
        raise UnsupportedFeatureError(
            f"the table maps its columns by {mode!r} (delta.columnMapping.mode), which txlog does not know; use an "
            "engine that does",
            features=("columnMapping",),
        )
    if not usage.marked("delta.typeChanges"):
        return
    from txlog.core.format.type_widening import unknown_changes

    unknown = unknown_changes(usage.schema)
    if unknown:
        raise UnsupportedFeatureError(
            f"a column's type was changed in a way that txlog does not know, so older files cannot be read: "
            f"{', '.join(unknown)}; upgrade txlog, or use an engine that knows it",
            features=("typeWidening",),
        )


def _check_packages(protocol: Protocol, usage: FeatureUsage) -> None:
    """Raise UnsupportedFeatureError if an installed package makes a type that the table uses, and cannot do it here."""
    used = {_BY_NAME[name].type for name in _reader_features(protocol) if _BY_NAME[name].used(usage)} - {""}
    if used:
        from txlog.core.format.type_support import is_supported

        for name in used:
            is_supported(name)


def _check_properties(configuration: Mapping[str, str]) -> None:
    unreadable = TableProperties.of(configuration).unreadable
    for key in _UNSAFE_TO_GUESS:
        if key in unreadable:
            raise UnsupportedFeatureError(
                f"table property {key} is {unreadable[key]!r}, which txlog cannot read: it will not guess what is "
                f"safe to write; set {key} to a valid value",
                features=(key,),
            )


def _check_shape(protocol: Protocol) -> None:
    """PROTOCOL.md, "Table Features": feature lists exist exactly at reader version 3 and writer version 7."""
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    wrong = None
    if reader < 1 or writer < 1:
        wrong = "versions start at 1"
    elif writer == WRITER_FEATURES_VERSION and protocol.writer_features is None:
        wrong = "writer version 7 needs writerFeatures"
    elif reader == READER_FEATURES_VERSION and protocol.reader_features is None:
        wrong = "reader version 3 needs readerFeatures"
    elif reader == READER_FEATURES_VERSION and writer < WRITER_FEATURES_VERSION:
        wrong = "reader version 3 needs writer version 7"
    elif (writer < WRITER_FEATURES_VERSION and protocol.writer_features) or (
        reader < READER_FEATURES_VERSION and protocol.reader_features
    ):
        wrong = "features are listed below reader version 3 or writer version 7"
    if wrong:
        raise CorruptLogError(f"the protocol (reader {reader}, writer {writer}) contradicts itself: {wrong}")


def _reader_features(protocol: Protocol) -> tuple[str, ...]:
    if protocol.min_reader_version == READER_FEATURES_VERSION:
        return protocol.reader_features or ()
    return tuple(
        feature.name
        for feature in _FEATURES
        if feature.is_reader_feature and feature.legacy and feature.legacy[0] <= protocol.min_reader_version
    )


def _writer_features(protocol: Protocol) -> tuple[str, ...]:
    if protocol.min_writer_version == WRITER_FEATURES_VERSION:
        return protocol.writer_features or ()
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    return tuple(
        feature.name
        for feature in _FEATURES
        if feature.legacy and feature.legacy[0] <= reader and feature.legacy[1] <= writer
    )


def _allowed(name: str, usage: FeatureUsage, *, reading: bool) -> bool:
    feature = _BY_NAME.get(name)
    if feature is None:
        return False
    can = feature.read if reading else feature.write
    if can == _YES or (can == _UNLESS_USED and not feature.used(usage)):
        return True
    if not feature.type:
        return False
    from txlog.core.format.type_support import is_supported

    return is_supported(feature.type)


def _needed(usage: FeatureUsage) -> tuple[str, ...]:
    """The features in use or requested by ``delta.feature.*``; txlog must be able to write all of them."""
    requested = [key.removeprefix(FEATURE_PREFIX) for key in usage.configuration if key.startswith(FEATURE_PREFIX)]
    names = [each.name for each in _FEATURES if each.used(usage) and not each.name.endswith(_PREVIEW)]
    if requested:
        by_fold = {name.lower(): name for name in _BY_NAME}
        names += [by_fold.get(name.lower(), name) for name in requested]
    names += [required for name in names if name in _BY_NAME for required in _BY_NAME[name].requires]
    refused = [name for name in dict.fromkeys(names) if not _allowed(name, usage, reading=False)]
    if refused:
        raise _feature_error("write", refused, usage)
    return tuple(dict.fromkeys(names))


def _floor(usage: FeatureUsage) -> tuple[int, int]:
    """The versions that properties ask for.

    Raises InvalidInputError if they are not numbers; ``validate`` checks that.
    """
    found = []
    for key in ("delta.minReaderVersion", "delta.minWriterVersion"):
        text = usage.configuration.get(key, "1").strip()
        if not text.isdecimal():
            raise invalid(f"table property {key}", text, "an integer")
        found.append(int(text))
    reader, writer = found
    # A reader version exists for a feature that writers must know too, and the other way round.
    if reader >= READER_FEATURES_VERSION:
        writer = WRITER_FEATURES_VERSION
    elif reader == 2:
        writer = max(writer, 5)
    elif writer in (5, 6):
        reader = 2
    return reader, writer


def _minimal(names: Iterable[str], for_readers: Iterable[str], reader: int, writer: int) -> Protocol:
    """The lowest protocol at or above these versions that has these features: legacy versions if possible, else lists.

    ``for_readers`` are known reader features; this release may not know all of them.
    """
    features = dict.fromkeys(names)
    legacy = [feature.legacy for feature in map(_BY_NAME.get, features) if feature and feature.legacy]
    implied_reader = max((reader, *(pair[0] for pair in legacy)))
    implied_writer = max((writer, *(pair[1] for pair in legacy)))
    if len(legacy) == len(features) and implied_writer < WRITER_FEATURES_VERSION:
        return Protocol(implied_reader, implied_writer)
    if writer < WRITER_FEATURES_VERSION:
        # The lists must keep the features that the version number implied.
        features = dict.fromkeys((*_writer_features(Protocol(reader, writer)), *features))
    listed_for_readers = {*for_readers, *filter(_is_reader_feature, features)}
    if reader < READER_FEATURES_VERSION and all(_BY_NAME[name].legacy for name in listed_for_readers):
        return Protocol(implied_reader, WRITER_FEATURES_VERSION, None, tuple(sorted(features)))
    return Protocol(
        READER_FEATURES_VERSION, WRITER_FEATURES_VERSION, tuple(sorted(listed_for_readers)), tuple(sorted(features))
    )


def _is_reader_feature(name: str) -> bool:
    feature = _BY_NAME.get(name)
    return feature is not None and feature.is_reader_feature


def _feature_error(action: str, names: Sequence[str], usage: FeatureUsage) -> UnsupportedFeatureError:
    shown = []
    for name in names:
        feature = _BY_NAME.get(name)
        shown.append(f"{name} ({feature.needed_by})" if feature and feature.needed_by and feature.used(usage) else name)
    if DELETED_BRANCH in names:
        message = (
            "the branch was published or discarded, and a vacuum of its table deletes what is left: make a new one"
        )
        return UnsupportedFeatureError(message, features=(DELETED_BRANCH,))
    many = "features" if len(shown) > 1 else "feature"
    return UnsupportedFeatureError(
        f"txlog cannot {action} a table with the table {many} {', '.join(shown)}; use an engine that supports it, "
        "or drop the feature there first",
        features=tuple(names),
    )


def _version_error(side: str, found: int, newest: int) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"the table needs {side} version {found}; the newest this release supports is {newest}. Upgrade txlog, or use "
        "an engine that supports it",
        features=(f"{side} version {found}",),
    )


# --- which features the metadata shows -----------------------------------------------------------------------------


_SCHEMA_MARKERS = (
    "delta.invariants",
    "delta.generationExpression",
    "delta.identity.",
    "CURRENT_DEFAULT",
    *(name for name, facts in PRIMITIVES.items() if facts.feature),
    "delta.typeChanges",
)


class FeatureUsage(msgspec.Struct, frozen=True):
    """The metadata that shows which features are in use."""

    schema: Struct
    configuration: Mapping[str, str]

    @classmethod
    def of(cls, metadata: Metadata) -> FeatureUsage:
        """Parses the schema only if its text may contain something relevant: this runs at every commit."""
        matters = any(marker in metadata.schema_string for marker in _SCHEMA_MARKERS)
        schema = parse_schema(metadata.schema_string) if matters else Struct(())
        return cls(schema, metadata.configuration)

    def needs(self, feature: str) -> bool:
        """Whether a column, at any depth, has a type that needs the feature."""
        return any(isinstance(each, Primitive) and each.facts.feature == feature for each in types_in(self.schema))

    def marked(self, marker: str) -> bool:
        """Whether some column, at any depth, has field metadata whose key starts with ``marker``."""
        return any(key.startswith(marker) for _, metadata in _walk(self.schema) for key in metadata)

    def enabled(self, key: str) -> bool:
        """Whether a boolean property is on.

        A value that is not a boolean counts as on, since its writer may treat it like that.
        """
        return self.configuration.get(key, "false").strip().lower() != "false"


def _walk(data_type: DataType) -> Iterator[tuple[DataType, Mapping[str, object]]]:
    match data_type:
        case Struct(fields):
            for member in fields:
                yield member.type, member.metadata
                yield from _walk(member.type)
        case Array(element):
            yield element, {}
            yield from _walk(element)
        case Map(key, value):
            yield key, {}
            yield value, {}
            yield from _walk(key)
            yield from _walk(value)
