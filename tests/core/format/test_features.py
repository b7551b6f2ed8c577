"""Table features: what is refused, by name, and which protocol a table needs. Judged by golden tables and deltalake."""

from __future__ import annotations

import itertools
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from tests.packages import hide
from txlog.core.format import features
from txlog.core.format.actions import Metadata, Protocol
from txlog.core.format.features import check_can_read, check_can_write, check_owner, protocol_for, upgraded_for
from txlog.core.format.schema import (
    LONG,
    PRIMITIVES,
    STRING,
    TIMESTAMP_NTZ,
    VARIANT,
    Array,
    Field,
    Map,
    Struct,
    from_arrow,
    schema_to_json,
)
from txlog.errors import CorruptLogError, UnsupportedFeatureError

PLAIN = Struct((Field("id", LONG), Field("name", STRING)))


def metadata(schema: Struct = PLAIN, **configuration: str) -> Metadata:
    """Underscores in keys stand for dots."""
    keys = {key.replace("__", "."): value for key, value in configuration.items()}
    return Metadata("m", schema_to_json(schema), (), keys, {"provider": "parquet", "options": {}})


def listed(*writer: str, reader: tuple[str, ...] = ()) -> Protocol:
    return Protocol(3, 7, reader, (*reader, *writer))


def column_with(**field_metadata: object) -> Struct:
    inner = Struct((Field("deep", LONG, True, {key.replace("__", "."): v for key, v in field_metadata.items()}),))
    return Struct((Field("id", LONG), Field("nested", Array(inner))))


VARIANTS = Struct((Field("v", VARIANT),))


@pytest.fixture
def without_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "txlog.types:variant")


def test_the_line_of_a_type_alone_says_which_feature_it_needs() -> None:
    needed = [facts.feature for facts in PRIMITIVES.values() if facts.feature]
    source = Path(features.__file__).read_text()
    assert needed
    assert [feature for feature in needed if f'"{feature}"' in source] == []


@pytest.mark.parametrize("versions", [(1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6)])
def test_a_legacy_table_without_its_implied_features_is_read_and_written(versions: tuple[int, int]) -> None:
    check_can_read(Protocol(*versions), metadata())
    check_can_write(Protocol(*versions), metadata())


@pytest.mark.usefixtures("without_variants")
@pytest.mark.parametrize(
    ("protocol", "used", "feature"),
    [
        (listed("variantType", reader=("variantType",)), metadata(VARIANTS), "variantType"),
        (listed(reader=("variantType-preview",)), metadata(VARIANTS), "variantType-preview"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_unsupported_feature_that_the_metadata_uses_is_refused_to_writers_only(
    protocol: Protocol, used: Metadata, feature: str
) -> None:
    check_can_read(protocol, used)
    with pytest.raises(UnsupportedFeatureError, match=feature) as caught:
        check_can_write(protocol, used)
    assert feature in caught.value.features


@pytest.mark.parametrize(
    "used", [{"delta__generationExpression": "id + 1"}, {"CURRENT_DEFAULT": "1"}, {"delta__identity__start": 1}]
)
def test_generated_and_identity_columns_and_defaults_are_written(used: dict[str, str]) -> None:
    check_can_write(Protocol(1, 4), metadata(column_with(**used)))
    check_can_write(listed("generatedColumns", "allowColumnDefaults"), metadata(column_with(**used)))


def test_a_new_table_with_generated_columns_or_defaults_has_the_lowest_protocol_with_them() -> None:
    assert protocol_for(column_with(delta__generationExpression="1"), {}) == Protocol(1, 4)
    needed = protocol_for(column_with(CURRENT_DEFAULT="1"), {})
    assert (needed.min_writer_version, "allowColumnDefaults" in (needed.writer_features or ())) == (7, True)


def test_a_column_comment_that_mentions_a_feature_does_not_use_it() -> None:
    schema = Struct((Field("id", LONG, True, {"comment": "delta.invariants CURRENT_DEFAULT variant"}),))
    check_can_write(Protocol(1, 2), metadata(schema))


def test_an_unknown_column_mapping_mode_is_refused_to_readers_and_writers() -> None:
    for protocol in (Protocol(2, 5), listed(reader=("columnMapping",))):
        for check in (check_can_read, check_can_write):
            check(protocol, metadata(delta__columnMapping__mode="id"))
            with pytest.raises(UnsupportedFeatureError, match="something new"):
                check(protocol, metadata(delta__columnMapping__mode="something new"))


def test_a_column_that_changed_its_type_in_an_unknown_way_is_refused() -> None:
    changes = {"fromType": "integer", "toType": "long"}, {"fromType": "integer", "toType": "string"}
    known, unknown = (column_with(delta__typeChanges=[change]) for change in changes)
    check_can_write(listed(reader=("typeWidening",)), metadata(known))
    with pytest.raises(UnsupportedFeatureError, match="deep: integer -> string"):
        check_can_read(listed(reader=("typeWidening",)), metadata(unknown))


@pytest.mark.usefixtures("without_variants")
def test_a_variant_is_read_and_not_written_where_no_package_makes_variants() -> None:
    protocol = listed(reader=("variantType",))
    check_can_read(protocol, metadata(Struct((Field("v", VARIANT),))))
    check_can_write(protocol, metadata())
    with pytest.raises(UnsupportedFeatureError, match="variantType"):
        check_can_write(protocol, metadata(Struct((Field("v", VARIANT),))))


@pytest.mark.parametrize(
    "feature",
    [
        "coordinatedCommits-preview",
        "redirectWriterOnly-preview",
        "a feature of the future",
    ],
)
def test_an_unsupported_listed_writer_feature_is_refused_to_writers_only(feature: str) -> None:
    check_can_read(listed(feature), metadata())
    with pytest.raises(UnsupportedFeatureError, match=feature) as caught:
        check_can_write(listed(feature), metadata())
    assert caught.value.features == (feature,)


@pytest.mark.usefixtures("without_variants")
@pytest.mark.parametrize(
    "feature",
    [
        "variantShredding",
        "catalogOwned-preview",
        "adaptiveMetadata-preview",
        "collations-preview",
        "a feature of the future",
    ],
)
def test_a_reader_feature_that_txlog_lacks_is_refused_and_named(feature: str) -> None:
    for check in (check_can_read, check_can_write):
        with pytest.raises(UnsupportedFeatureError, match=feature):
            check(listed(reader=(feature,)), metadata())


def test_the_features_txlog_has_are_read_and_written() -> None:
    protocol = listed(
        *("appendOnly", "invariants", "changeDataFeed", "domainMetadata", "checkConstraints", "inCommitTimestamp"),
        "rowTracking",
        reader=(
            *("timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors", "columnMapping"),
            *("typeWidening", "typeWidening-preview"),
        ),
    )
    used = metadata(
        delta__constraints__positive="id > 0",
        delta__enableChangeDataFeed="true",
        delta__enableDeletionVectors="true",
        delta__appendOnly="true",
        delta__columnMapping__mode="name",
        delta__enableRowTracking="true",
        delta__enableTypeWidening="true",
    )
    check_can_read(protocol, used)
    check_can_write(protocol, used)


@pytest.mark.usefixtures("without_variants")
def test_the_error_names_every_unsupported_feature() -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        check_can_write(
            listed("redirectWriterOnly-preview", "a feature of the future", "variantType", reader=("variantType",)),
            metadata(VARIANTS),
        )
    assert set(caught.value.features) >= {"redirectWriterOnly-preview", "a feature of the future", "variantType"}


@pytest.mark.parametrize(
    ("versions", "named"), [((4, 7), "reader version 4"), ((1, 8), "writer version 8"), ((99, 7), "reader version 99")]
)
def test_an_unknown_protocol_version_is_refused(versions: tuple[int, int], named: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=named):
        check_can_write(Protocol(*versions, None, ()), metadata())


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol(3, 7, None, ()),
        Protocol(1, 7, None, None),
        Protocol(3, 2, ()),
        Protocol(1, 2, None, ("appendOnly",)),
        Protocol(0, 2),
    ],
)
def test_a_protocol_that_contradicts_itself_is_corrupt(protocol: Protocol) -> None:
    with pytest.raises(CorruptLogError, match="contradicts itself"):
        check_can_read(protocol, metadata())


@pytest.mark.parametrize("key", ["delta.appendOnly", "delta.isolationLevel", "delta.enableChangeDataFeed"])
def test_an_unreadable_property_whose_default_may_be_unsafe_stops_writers_not_readers(key: str) -> None:
    odd = metadata(**{key.replace(".", "__"): "perhaps"})
    check_can_read(Protocol(1, 2), odd)
    with pytest.raises(UnsupportedFeatureError, match=key):
        check_can_write(Protocol(1, 2), odd)
    check_can_write(Protocol(1, 2), metadata(delta__checkpointInterval="perhaps"))


# --- which protocol a table needs -----------------------------------------------------------------------------------


def test_a_plain_new_table_can_be_read_by_everyone() -> None:
    assert protocol_for(PLAIN, {}) == Protocol(1, 2)
    assert protocol_for(PLAIN, {"delta.appendOnly": "true"}) == Protocol(1, 2)


def test_a_legacy_feature_raises_only_the_writer_version() -> None:
    assert protocol_for(PLAIN, {"delta.enableChangeDataFeed": "true"}) == Protocol(1, 4)


@pytest.mark.parametrize(
    "schema",
    [
        Struct((Field("at", TIMESTAMP_NTZ),)),
        Struct((Field("at", Array(Struct((Field("x", Map(STRING, TIMESTAMP_NTZ)),)))),)),
    ],
)
def test_a_timestamp_without_zone_at_any_depth_needs_its_feature(schema: Struct) -> None:
    needed = protocol_for(schema, {})
    assert (needed.min_reader_version, needed.min_writer_version) == (3, 7)
    assert needed.reader_features == ("timestampNtz",)
    assert needed.writer_features == ("appendOnly", "invariants", "timestampNtz")
    check_can_write(needed, metadata(schema))


def test_properties_ask_for_features_and_versions() -> None:
    asked = protocol_for(PLAIN, {"delta.enableDeletionVectors": "true", "delta.checkpointPolicy": "v2"})
    assert asked.reader_features == ("deletionVectors", "v2Checkpoint")
    by_name = protocol_for(PLAIN, {"delta.feature.VacuumProtocolCheck": "supported"})
    assert by_name.reader_features == ("vacuumProtocolCheck",)
    assert protocol_for(PLAIN, {"delta.minWriterVersion": "3"}) == Protocol(1, 3)
    assert protocol_for(PLAIN, {"delta.minReaderVersion": "2"}) == Protocol(2, 5)
    assert protocol_for(PLAIN, {"delta.minWriterVersion": "7"}) == Protocol(1, 7, None, ("appendOnly", "invariants"))
    assert protocol_for(PLAIN, {"delta.minReaderVersion": "3"}) == Protocol(3, 7, (), ("appendOnly", "invariants"))


def test_what_a_feature_requires_comes_with_it_and_no_preview_is_doubled() -> None:
    tracked = protocol_for(PLAIN, {"delta.enableRowTracking": "true"})
    assert tracked == Protocol(1, 7, None, ("appendOnly", "domainMetadata", "invariants", "rowTracking"))
    assert protocol_for(PLAIN, {"delta.columnMapping.mode": "name"}) == Protocol(2, 5)
    widened = listed(reader=("typeWidening-preview",))
    assert upgraded_for(widened, PLAIN, {"delta.enableTypeWidening": "true"}) is None


def test_a_raised_legacy_version_keeps_its_meaning_when_features_are_listed() -> None:
    needed = protocol_for(Struct((Field("at", TIMESTAMP_NTZ),)), {"delta.minWriterVersion": "4"})
    assert needed.writer_features is not None
    assert {"checkConstraints", "changeDataFeed", "generatedColumns", "timestampNtz"} <= set(needed.writer_features)


@pytest.mark.usefixtures("without_variants")
@pytest.mark.parametrize(
    ("schema", "properties", "feature"),
    [
        (PLAIN, {"delta.feature.collations-preview": "supported"}, "collations-preview"),
        (Struct((Field("v", VARIANT),)), {}, "variantType"),
    ],
)
def test_a_table_txlog_could_not_write_is_neither_created_nor_upgraded_to(
    schema: Struct, properties: dict[str, str], feature: str
) -> None:
    with pytest.raises(UnsupportedFeatureError, match=feature):
        protocol_for(schema, properties)
    with pytest.raises(UnsupportedFeatureError, match=feature):
        upgraded_for(Protocol(1, 2), schema, properties)


def test_no_upgrade_where_the_table_has_what_it_needs() -> None:
    assert upgraded_for(Protocol(1, 2), PLAIN, {"delta.appendOnly": "true"}) is None
    assert upgraded_for(Protocol(1, 4), PLAIN, {"delta.enableChangeDataFeed": "true"}) is None
    ntz = Struct((Field("at", TIMESTAMP_NTZ),))
    assert upgraded_for(listed(reader=("timestampNtz",)), ntz, {}) is None


def test_an_upgrade_stays_legacy_while_it_can() -> None:
    assert upgraded_for(Protocol(1, 2), PLAIN, {"delta.constraints.c": "id > 0"}) == Protocol(1, 3)
    assert upgraded_for(Protocol(1, 2), PLAIN, {"delta.enableChangeDataFeed": "true"}) == Protocol(1, 4)
    assert upgraded_for(Protocol(1, 1), PLAIN, {"delta.appendOnly": "true"}) == Protocol(1, 2)


def test_an_upgrade_to_lists_keeps_all_that_the_version_stood_for() -> None:
    upgraded = upgraded_for(Protocol(2, 5), Struct((Field("at", TIMESTAMP_NTZ),)), {})
    assert upgraded is not None
    assert upgraded.reader_features == ("columnMapping", "timestampNtz")
    assert set(upgraded.writer_features or ()) == {
        *("appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"),
        "timestampNtz",
    }


def test_a_writer_version_stands_for_no_feature_that_the_reader_version_lacks() -> None:
    upgraded = upgraded_for(Protocol(1, 6), PLAIN, {"delta.feature.domainMetadata": "supported"})
    assert upgraded is not None
    assert (upgraded.min_reader_version, upgraded.reader_features) == (1, None), "columnMapping needs a later reader"
    assert "columnMapping" not in (upgraded.writer_features or ())
    assert "identityColumns" in (upgraded.writer_features or ())


def test_an_upgrade_drops_no_feature_of_others() -> None:
    held = listed("their writer feature", reader=("their reader feature",))
    upgraded = upgraded_for(held, PLAIN, {"delta.appendOnly": "true"})
    assert upgraded is not None
    assert upgraded.reader_features == ("their reader feature",)
    assert set(upgraded.writer_features or ()) == {"appendOnly", "their writer feature", "their reader feature"}


def test_a_writer_feature_alone_leaves_old_readers_in() -> None:
    upgraded = upgraded_for(Protocol(1, 7, None, ("domainMetadata",)), PLAIN, {"delta.appendOnly": "true"})
    assert upgraded == Protocol(1, 7, None, ("appendOnly", "domainMetadata"))


# --- others as judges -----------------------------------------------------------------------------------------------


def test_deltalake_lists_the_same_reader_features_for_the_same_table(tmp_path: Path) -> None:
    rows = pa.table({"at": pa.array([0], pa.timestamp("us"))})
    deltalake.write_deltalake(tmp_path, rows)
    theirs = deltalake.DeltaTable(tmp_path).protocol()
    ours = protocol_for(from_arrow(rows.schema), {})
    assert (ours.min_reader_version, ours.min_writer_version) == (theirs.min_reader_version, theirs.min_writer_version)
    assert set(ours.reader_features or ()) == set(theirs.reader_features or ())
    assert set(theirs.writer_features or ()) <= set(ours.writer_features or ())


REFUSED_GOLDEN = {"deltalog-invalid-protocol-version": "reader version 99"}
if int(pa.__version__.partition(".")[0]) < 22:  # which reads no file with variants
    REFUSED_GOLDEN["unshredded-variant"] = "variantType"


def test_exactly_the_golden_tables_with_features_txlog_lacks_are_refused(
    golden_lines: list[tuple[str, dict]],
) -> None:
    protocols: dict[str, list[Protocol]] = {}
    definitions: dict[str, list[Metadata]] = {}
    for name, line in golden_lines:  # in no order of versions, so each protocol meets each metadata of its table
        if "protocol" in line:
            protocols.setdefault(name, []).append(Protocol.from_json(line["protocol"]))
        if "schemaString" in line.get("metaData", {}):  # some logs of test data go without
            definitions.setdefault(name, []).append(Metadata.from_json(line["metaData"]))
    refused: dict[str, str] = {}
    for name in protocols.keys() & definitions.keys():
        for protocol, definition in itertools.product(protocols[name], definitions[name]):
            try:
                check_can_read(protocol, definition)
            except UnsupportedFeatureError as error:
                refused[name] = ", ".join(error.features)
    assert refused == REFUSED_GOLDEN


def test_a_table_that_a_catalog_manages_is_opened_through_the_catalog_alone() -> None:
    managed, plain = listed(reader=("catalogManaged",)), listed("appendOnly")
    check_owner(managed, is_owned=True, before=managed)
    check_owner(plain, is_owned=False)
    with pytest.raises(UnsupportedFeatureError, match="by its name"):
        check_owner(managed, is_owned=False)
    with pytest.raises(UnsupportedFeatureError, match="nobody can take this feature away"):
        check_owner(plain, is_owned=True, before=managed)
