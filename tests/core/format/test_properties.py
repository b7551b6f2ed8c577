"""Table properties: what may be written, judged key by key, and what is made of what others wrote."""

from __future__ import annotations

import pytest

from txlog.core.format.properties import KNOWN_KEYS, TableProperties, means_same, parse_interval_ms, stored, validate
from txlog.errors import InvalidInputError

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.checkpointInterval", "abc"),
        ("delta.checkpointInterval", "0"),
        ("delta.checkpointInterval", "-3"),
        ("delta.checkpointInterval", "1.5"),
        ("delta.checkpointInterval", "99999999999"),
        ("delta.checkpointInterval", "٣"),
        ("delta.appendOnly", "yes"),
        ("delta.appendOnly", ""),
        ("delta.isolationLevel", "SnapshotIsolation"),
        ("delta.logRetentionDuration", "30"),
        ("delta.logRetentionDuration", "interval 1 month"),
        ("delta.logRetentionDuration", "interval -3 days"),
        ("delta.dataSkippingNumIndexedCols", "-2"),
        ("delta.dataSkippingStatsColumns", "a,,b"),
        ("delta.dataSkippingStatsColumns", "`a"),
        ("delta.parquet.compression.codec", "zip"),
        ("delta.checkpointPolicy", "v3"),
        ("delta.targetFileSize", "0"),
        ("delta.targetFileSize", "big"),
        ("delta.minWriterVersion", "8"),
        ("delta.feature.deletionVectors", "on"),
        ("delta.constraints.positive", " "),
    ],
)
def test_a_value_of_the_wrong_form_is_refused_naming_key_value_and_what_is_expected(key: str, value: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        validate({key: value})
    message = str(caught.value)
    assert message.startswith(f"Invalid table property {key} {value!r}: expected ")


def test_an_unknown_delta_key_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(InvalidInputError, match=r"checkpointIntervall.*did you mean 'delta\.checkpointInterval'"):
        validate({"delta.checkpointIntervall": "10"})


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("txlog.merge-engin", "txlog.merge-engine"),
        ("txlog.mergeEngine", "txlog.merge-engine"),
        ("txlog.groupcommits", "txlog.groupCommit"),
        ("txlog.parquet.encodings#v", "txlog.parquet.encoding"),
        ("txlog.sequence.fields", "txlog.sequence.field"),
    ],
)
def test_an_unknown_key_of_txlog_is_refused_with_the_nearest_known_one(key: str, meant: str) -> None:
    with pytest.raises(InvalidInputError, match=f"unknown table property '{key}'.*{meant}"):
        validate({key: "x"})


def test_an_unknown_key_of_txlog_that_resembles_none_is_refused_too() -> None:
    for key in ("txlog.x", "txlog.", "txlog.parquet.x", "TXLOG.new"):
        with pytest.raises(InvalidInputError, match=r"unknown table property.*must not start with 'txlog\.'"):
            validate({key: "x"})


def test_a_known_key_without_its_prefix_is_refused_since_it_would_do_nothing() -> None:
    with pytest.raises(InvalidInputError, match=r"'AppendOnly' is called 'delta\.appendOnly'"):
        validate({"AppendOnly": "true"})
    with pytest.raises(InvalidInputError, match=r"'merge-engine' is called 'txlog\.merge-engine'"):
        validate({"merge-engine": "first-row"})


def test_a_custom_property_is_accepted_and_its_value_kept_unchanged() -> None:
    own = {"flink.high-watermark": " 17 ", "owner": "", "Delta": "x"}
    assert validate(own) == own


def test_a_key_lower_cased_by_spark_gets_its_known_spelling_back() -> None:
    given = {"delta.appendonly": "TRUE", "DELTA.checkpointinterval": "25", "delta.constraints.Positive": "x > 0"}
    assert validate(given) == {
        "delta.appendOnly": "true",
        "delta.checkpointInterval": "25",
        "delta.constraints.Positive": "x > 0",
    }


def test_the_same_key_in_two_spellings_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="twice"):
        validate({"delta.appendOnly": "true", "delta.appendonly": "false"})


def test_python_booleans_and_integers_are_taken_and_other_objects_refused() -> None:
    assert validate({"delta.appendOnly": True, "delta.checkpointInterval": 7}) == {
        "delta.appendOnly": "true",
        "delta.checkpointInterval": "7",
    }
    for value in (None, 1.5, ["a"]):
        with pytest.raises(InvalidInputError):
            validate({"delta.appendOnly": value})
        with pytest.raises(InvalidInputError):
            validate({"mine": value})


def test_choices_are_stored_in_the_one_spelling_that_every_reader_knows() -> None:
    given = {"delta.isolationLevel": "serializable", "delta.parquet.compression.codec": "ZSTD"}
    assert validate(given) == {"delta.isolationLevel": "Serializable", "delta.parquet.compression.codec": "zstd"}


@pytest.mark.parametrize(
    ("key", "given", "kept"),
    [
        ("delta.checkpointInterval", " 10 ", "10"),
        ("delta.dataSkippingNumIndexedCols", " -1", "-1"),
        ("parquet.page.size", "1024 ", "1024"),
        ("delta.targetFileSize", " 128 mb", "128mb"),
        ("delta.targetFileSize", "1G", "1G"),
        ("delta.deletedFileRetentionDuration", "7days", "7 days"),
        ("delta.deletedFileRetentionDuration", "interval 7days", "interval 7 days"),
        ("delta.logRetentionDuration", "interval\t1 week2\thours ", "interval 1 week 2 hours"),
        ("delta.logRetentionDuration", "INTERVAL 30 DAYS", "INTERVAL 30 DAYS"),
        ("delta.autoOptimize.autoCompact", " AUTO ", "true"),
        ("delta.dataSkippingStatsColumns", "a , s.x,a-b,`c`,é", "a,s.x,`a-b`,c,`é`"),
        ("parquet.bloom.filter.fpp#id", "0.0_1", "0.01"),
    ],
)
def test_a_value_is_stored_in_a_spelling_that_sparks_delta_reads(key: str, given: str, kept: str) -> None:
    assert validate({key: given}) == {key: kept}


@pytest.mark.parametrize(
    ("key", "known", "asked", "is_same"),
    [
        ("delta.dataSkippingStatsColumns", "x, y", "x,y", True),
        ("delta.dataSkippingStatsColumns", "x, y", "y,x", False),
        ("delta.deletedFileRetentionDuration", "interval 7days", "interval 7 days", True),
        ("delta.targetFileSize", "128 mb", "128mb", True),
        ("delta.targetFileSize", "many", "128mb", False),
        ("delta.appendOnly", "TRUE", "true", True),
        ("delta.appendOnly", None, "true", False),
        ("mine", "A", "a", False),
    ],
)
def test_values_are_the_same_however_they_were_stored(key: str, known: str | None, asked: str, is_same: bool) -> None:
    (value,) = validate({key: asked}).values()
    assert means_same(key, known, value) is is_same


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("interval 30 days", 30 * DAY_MS),
        ("30 days", 30 * DAY_MS),
        ("INTERVAL 1 WEEK 2 DAYS", 9 * DAY_MS),
        ("interval 1 week", 7 * DAY_MS),
        ("interval 168 hours", 7 * DAY_MS),
        ("interval 90 seconds 500 milliseconds", 90_500),
        ("interval 2500 microseconds", 2),
        ("interval 0 hours", 0),
        ("  interval 5 minutes ", 300_000),
        ("7 days1 hours", 7 * DAY_MS + 3_600_000),
    ],
)
def test_intervals_of_fixed_length_are_read_with_all_their_parts(text: str, milliseconds: int) -> None:
    assert parse_interval_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "interval", "days 3", "3 fortnights", "1 year", "interval 1 day, 2 hours", "1e3 days"]
)
def test_text_that_is_no_interval_of_fixed_length_is_no_interval(text: str) -> None:
    with pytest.raises(ValueError, match="interval"):
        parse_interval_ms(text)


def test_absent_properties_have_deltas_defaults() -> None:
    found = TableProperties.of({})
    assert found.isolation_level == "WriteSerializable"
    assert found.log_retention_ms == 30 * DAY_MS
    assert found.deleted_file_retention_ms == 7 * DAY_MS
    assert found.data_skipping_num_indexed_cols == 32
    assert found.write_stats_as_json
    assert found.write_stats_as_struct
    assert found.enable_expired_log_cleanup
    assert not found.append_only
    assert found.checkpoint_interval is None
    assert found.set_transaction_retention_ms is None
    assert found.unreadable == {}


def test_what_another_writer_set_is_read_typed() -> None:
    found = TableProperties.of(
        {
            "delta.appendOnly": "True",
            "delta.checkpointInterval": "100",
            "delta.logRetentionDuration": "interval 2 days",
            "delta.setTransactionRetentionDuration": "interval 1 hour",
            "delta.targetFileSize": "128mb",
            "delta.dataSkippingStatsColumns": "id, `a.b`.c,`tick``ed`, plain name . x",
            "delta.columnMapping.mode": "name",
            "delta.enableInCommitTimestamps": "true",
            "delta.inCommitTimestampEnablementVersion": "12",
        }
    )
    assert found.append_only
    assert found.checkpoint_interval == 100
    assert found.log_retention_ms == 2 * DAY_MS
    assert found.set_transaction_retention_ms == 3_600_000
    assert found.target_file_size_bytes == 128 * 1024 * 1024
    assert found.data_skipping_stats_columns == (("id",), ("a.b", "c"), ("tick`ed",), ("plain name", "x"))
    assert found.column_mapping_mode == "name"
    assert found.in_commit_timestamps
    assert found.in_commit_timestamp_enablement_version == 12


def test_a_value_that_cannot_be_read_counts_as_absent_and_stays_known() -> None:
    found = TableProperties.of({"delta.checkpointInterval": "abc", "delta.appendOnly": "perhaps"})
    assert found.checkpoint_interval is None
    assert not found.append_only
    assert found.unreadable == {"delta.checkpointInterval": "abc", "delta.appendOnly": "perhaps"}


def test_properties_that_only_steer_the_protocol_are_not_stored() -> None:
    given = validate({"delta.minReaderVersion": 3, "delta.feature.timestampNtz": "supported", "delta.appendOnly": True})
    assert stored(given) == {"delta.appendOnly": "true"}


def test_every_property_of_the_golden_tables_is_known_and_readable(golden_lines: list[tuple[str, dict]]) -> None:
    configurations = [line["metaData"]["configuration"] for _, line in golden_lines if "metaData" in line]
    seen = {key for configuration in configurations for key in configuration if key.startswith("delta.")}
    assert seen
    assert seen <= KNOWN_KEYS
    for configuration in configurations:
        assert TableProperties.of(configuration).unreadable == {}
        assert set(validate(configuration)) == set(configuration)
