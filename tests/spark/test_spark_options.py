"""Options of a Spark write: typed, spelled as Delta spells them, and never ignored."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from txlog.core.store import RetryPolicy
from txlog.core.writing.commit_options import CommitOptions
from txlog.core.writing.write_intent import MismatchPolicy
from txlog.errors import InvalidInputError, UnsupportedFeatureError
from txlog.spark.options import KNOWN, KNOWN_OF_STREAMS, SparkWriteOptions, parse_stream_options, parse_write_options
from txlog.spark.settings import SessionSettings


def parsed(**options: str) -> SparkWriteOptions:
    return parse_write_options({"path": "/t", **{key.replace("__", "."): value for key, value in options.items()}})


def test_a_path_alone_is_a_plain_write() -> None:
    assert parsed() == SparkWriteOptions("/t")


def test_every_option_arrives_in_lower_case_and_is_understood() -> None:
    options = {
        "path": "s3://bucket/table",
        "txnAppId": "orders",
        "txnVersion": "17",
        "mergeSchema": "TRUE",
        "partitionBy": "day, hour",
        "clusterBy": "id, place.city",
        "partitionOverwriteMode": "STATIC",
        "userMetadata": "by me",
        "maxRecordsPerFile": "1000",
        "targetFileSize": "64mb",
        "compression": "ZSTD",
        "isolationLevel": "serializable",
        "commit.retry.num-retries": "3",
        "commit.retry.min-wait-ms": "50",
        "commit.retry.max-wait-ms": "500",
        "commit.retry.total-timeout-ms": "2500",
        "delta.appendOnly": "true",
        "delta.dataSkippingNumIndexedCols": "5",
        "storage.AWS_Region": "eu-west-1",
        "overwriteSchema": "false",
        "rowMode": "Copy-on-Write",
        "onConflict": "Rerun",
        "readVersion": "4",
        "dataChange": "true",
    }
    found = parse_write_options({key.lower(): value for key, value in options.items()})
    assert found == SparkWriteOptions(
        path="s3://bucket/table",
        commit=CommitOptions(
            "orders", 17, None, "by me", read_version=4, on_conflict="rerun", isolation="Serializable"
        ),
        merge_schema=True,
        partition_by=("day", "hour"),
        cluster_by=("id", "place.city"),
        partition_overwrite_mode="static",
        row_mode="copy-on-write",
        max_records_per_file=1000,
        target_file_size_bytes=64 << 20,
        parquet={"parquet.compression": "zstd"},
        retry=RetryPolicy(max_attempts=4, min_wait=0.05, max_wait=0.5, total_timeout=2.5),
        properties={"delta.appendOnly": "true", "delta.dataSkippingNumIndexedCols": "5"},
        storage_options={"aws_region": "eu-west-1"},
    )


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("Quarantine", MismatchPolicy("quarantine", "quarantine", "quarantine")),
        ("fail", MismatchPolicy("fail", "fail", "fail")),
        (" missing = fail, Unfit=IGNORE ", MismatchPolicy(missing="fail", unfit="ignore")),
    ],
)
def test_a_mismatch_has_one_action_for_all_cases_or_one_for_each_and_needs_keys(
    value: str, meant: MismatchPolicy
) -> None:
    assert parsed(upsertkeys="id", onmismatch=value).mismatch == meant
    assert parse_stream_options({"path": "/t", "upsertKeys": "id", "onMismatch": value}).write.mismatch == meant
    with pytest.raises(InvalidInputError, match="option onMismatch is for row changes: also set upsertKeys"):
        parsed(onmismatch=value)


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("mergeshema", "mergeSchema"),
        ("partitioncolumns", "partitionBy"),
        ("txnid", "txnAppId"),
        ("commit.retry.numretries", "commit.retry.num-retries"),
        ("max_records_per_file", "maxRecordsPerFile"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_known_one(wrong: str, meant: str) -> None:
    with pytest.raises(InvalidInputError, match=f"unknown option '{wrong}' .*did you mean '{meant}'"):
        parse_write_options({"path": "/t", wrong: "1"})


def test_an_unknown_table_property_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(InvalidInputError, match=r"delta\.appendOnly"):
        parse_write_options({"path": "/t", "delta.appendonli": "true"})
    with pytest.raises(InvalidInputError, match=r"unknown option 'txlog\.merge-engin'"):
        parse_write_options({"path": "/t", "txlog.merge-engin": "deduplicate"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("replaceOn", "day = 1"),
        ("replaceUsing", "day"),
        ("versionAsOf", "3"),
        ("timestampAsOf", "2026-01-01"),
        ("dataChange", "false"),
        ("checkpointLocation", "/c"),
        ("optimizeWrite", "true"),
    ],
)
def test_options_that_this_release_lacks_are_refused_and_named(name: str, value: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=name) as caught:
        parse_write_options({"path": "/t", name.lower(): value})
    assert caught.value.features == (name,)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("txnVersion", "-1"),
        ("txnVersion", "1.5"),
        ("txnVersion", str(2**63)),
        ("mergeSchema", "yes"),
        ("overwriteSchema", "maybe"),
        ("partitionOverwriteMode", "both"),
        ("rowMode", "fast"),
        ("onConflict", "retry"),
        ("onMismatch", "skip"),
        ("onMismatch", "late=fail"),
        ("onMismatch", "missing=skip"),
        ("onMismatch", "missing=fail,missing=ignore"),
        ("onMismatch", "missing=fail,"),
        ("readVersion", "-1"),
        ("maxRecordsPerFile", "0"),
        ("targetFileSize", "big"),
        ("targetFileSize", "0"),
        ("isolationLevel", "SnapshotIsolation"),
        ("partitionBy", "a,,b"),
        ("partitionBy", '["a", 1]'),
        ("commit.retry.num-retries", "-1"),
        ("commit.retry.min-wait-ms", "1s"),
    ],
)
def test_a_bad_value_is_refused_with_the_name_of_its_option(name: str, value: str) -> None:
    with pytest.raises(InvalidInputError, match=name):
        parse_write_options({"path": "/t", "txnappid": "a", "txnversion": "1", name.lower(): value})


@pytest.mark.parametrize("given", ["txnAppId", "txnVersion"])
def test_one_half_of_a_transaction_is_refused(given: str) -> None:
    with pytest.raises(InvalidInputError, match="txnAppId and txnVersion"):
        parse_write_options({"path": "/t", given: "1"})


def test_a_missing_path_is_refused_and_a_relative_one_made_absolute() -> None:
    with pytest.raises(InvalidInputError, match="no path"):
        parse_write_options({})
    assert parse_write_options({"path": "a/b"}).path == os.path.join(os.getcwd(), "a", "b")
    assert parse_write_options({"path": "file:/a/b"}).path == "file:/a/b"


def test_a_column_name_with_a_comma_goes_into_a_json_list() -> None:
    assert parsed(partitionby='["a,b", "c"]').partition_by == ("a,b", "c")
    assert parsed(partitionby="").partition_by == ()


def test_storage_options_are_not_shown() -> None:
    options = parse_write_options({"path": "/t", "storage.secret_access_key": "hush"})
    assert options.storage_options == {"secret_access_key": "hush"}
    assert "hush" not in repr(options)


# --- session settings ---------------------------------------------------------------------------------------

DYNAMIC = {"spark.sql.sources.partitionOverwriteMode": "DYNAMIC", "spark.app.name": "x"}
TRANSACTION = {"spark.databricks.delta.write.txnAppId": "etl", "spark.databricks.delta.write.txnVersion": "8"}


def settings(values: dict[str, str]) -> SessionSettings:
    return SessionSettings.seen_by(values.get)


def test_only_relevant_settings_are_sent_to_the_driver() -> None:
    assert settings(DYNAMIC).values == {"spark.sql.sources.partitionOverwriteMode": "DYNAMIC"}


@pytest.mark.parametrize(
    ("session", "given", "by_partition"),
    [
        ({}, {}, False),
        (DYNAMIC, {}, True),
        (DYNAMIC, {"partitionoverwritemode": "static"}, False),
        ({}, {"partitionoverwritemode": "Dynamic"}, True),
        (DYNAMIC, {"replacewhere": "day = 1"}, False),
    ],
)
def test_the_option_takes_precedence_over_the_session_for_dynamic_overwrite(
    session: dict[str, str], given: dict[str, str], by_partition: bool
) -> None:
    assert settings(session).overwrites_partitions(parsed(**given)) is by_partition


def test_a_dynamic_session_refuses_to_replace_the_schema_unless_the_write_says_static() -> None:
    with pytest.raises(InvalidInputError, match="partitionOverwriteMode"):
        settings(DYNAMIC).refuse(parsed(overwriteschema="true"), overwrite=True, creating=False)
    static = parsed(overwriteschema="true", partitionoverwritemode="static")
    settings(DYNAMIC).refuse(static, overwrite=True, creating=False)
    settings(DYNAMIC).refuse(parsed(overwriteschema="true"), overwrite=False, creating=False)


@pytest.mark.parametrize("overwrite", [False, True], ids=["an append", "an overwrite"])
def test_a_write_in_dynamic_mode_is_refused_in_a_session_that_disables_the_mode(overwrite: bool) -> None:
    disabled = {"spark.databricks.delta.dynamicPartitionOverwrite.enabled": "false"}
    by_session, by_option = settings(DYNAMIC | disabled), parsed(partitionoverwritemode="dynamic")
    for session, options in ((by_session, parsed()), (settings(disabled), by_option)):
        with pytest.raises(UnsupportedFeatureError, match=r"dynamicPartitionOverwrite\.enabled=false"):
            session.refuse(options, overwrite=overwrite, creating=False, obeys_overwrite_mode=True)
    for options in (parsed(partitionoverwritemode="static"), parsed(replacewhere="a = 1")):
        by_session.refuse(options, overwrite=overwrite, creating=False, obeys_overwrite_mode=True)
    by_session.refuse(parsed(), overwrite=overwrite, creating=False, obeys_overwrite_mode=False)


def test_options_that_define_two_overwrite_regions_are_refused() -> None:
    for given in (
        {"replacewhere": "a = 1", "partitionoverwritemode": "dynamic"},
        {"replacewhere": "a = 1", "overwriteschema": "true"},
        {"partitionoverwritemode": "dynamic", "overwriteschema": "true"},
        {"readversion": "3", "overwriteschema": "true"},
    ):
        with pytest.raises(InvalidInputError, match="set only one"):
            parsed(**given)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("replaceWhere", "a = 1"),
        ("partitionOverwriteMode", "dynamic"),
        ("overwriteSchema", "true"),
        ("rowMode", "copy-on-write"),
        ("onConflict", "rerun"),
        ("readVersion", "3"),
    ],
)
def test_a_stream_refuses_options_that_define_an_overwrite_region(name: str, value: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{name} is not for streams"):
        parse_stream_options({"path": "/t", name.lower(): value})


def test_the_sessions_transaction_is_used_if_the_write_names_none() -> None:
    assert settings(TRANSACTION).transaction(parsed()) == ("etl", 8)
    assert settings(TRANSACTION).transaction(parsed(txnappid="mine", txnversion="1")) == ("mine", 1)
    assert settings({}).transaction(parsed()) is None


@pytest.mark.parametrize("left_out", TRANSACTION)
def test_an_incomplete_transaction_in_the_session_is_refused(left_out: str) -> None:
    half = {key: value for key, value in TRANSACTION.items() if key != left_out}
    with pytest.raises(InvalidInputError, match="txnVersion"):
        settings(half).refuse(parsed(), overwrite=False, creating=False)


def test_a_setting_that_needs_to_change_the_session_is_refused() -> None:
    resetting = {**TRANSACTION, "spark.databricks.delta.write.txnVersion.autoReset.enabled": "true"}
    with pytest.raises(UnsupportedFeatureError, match="autoReset"):
        settings(resetting).refuse(parsed(), overwrite=False, creating=False)


def test_defaults_for_new_tables_are_refused_only_where_a_table_is_created() -> None:
    defaults = {"spark.databricks.delta.properties.defaults.appendOnly": "true"}
    with pytest.raises(UnsupportedFeatureError, match=r"defaults\.appendOnly"):
        settings(defaults).refuse(parsed(), overwrite=False, creating=True)
    settings(defaults).refuse(parsed(), overwrite=False, creating=False)


def test_options_take_precedence_over_the_sessions_user_metadata_and_file_limits() -> None:
    session = settings(
        {"spark.databricks.delta.commitInfo.userMetadata": "session", "spark.sql.files.maxRecordsPerFile": "10"}
    )
    assert session.user_metadata(parsed()) == "session"
    assert session.user_metadata(parsed(usermetadata="write")) == "write"
    assert session.max_records_per_file(parsed()) == 10
    assert session.max_records_per_file(parsed(maxrecordsperfile="3")) == 3
    assert settings({"spark.sql.files.maxRecordsPerFile": "0"}).max_records_per_file(parsed()) is None


def test_a_setting_that_nothing_acts_on_is_refused_where_delta_would_do_otherwise() -> None:
    name = "spark.databricks.delta.vacuum.logging.enabled"
    with pytest.raises(UnsupportedFeatureError, match=f"{name}=false.*spark.conf.unset") as caught:
        settings({name: "false"}).require("vacuum")
    assert caught.value.features == (name,)
    settings({name: "false"}).require("optimize")
    settings({name: "true"}).require("vacuum")
    unchecked = settings({"spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false"})
    unchecked.refuse(parsed(), overwrite=True, creating=False)
    with pytest.raises(UnsupportedFeatureError, match="must match its condition"):
        unchecked.refuse(parsed(replacewhere="a = 1"), overwrite=True, creating=False)


def test_a_write_says_that_its_rows_need_no_shuffle_or_is_refused_where_the_session_wants_one() -> None:
    spread = settings({"spark.databricks.delta.optimizeWrite.enabled": "true"})
    with pytest.raises(UnsupportedFeatureError, match=r"repartition .*'optimizeWrite', 'false'"):
        spread.refuse(parsed(), overwrite=False, creating=False)
    spread.refuse(parsed(optimizewrite="false"), overwrite=False, creating=False)


@pytest.mark.parametrize(("value", "table", "is_refused"), [("true", "false", True), ("auto", "true", False)])
def test_the_session_and_the_table_must_agree_on_compaction_after_commits(
    value: str, table: str, is_refused: bool
) -> None:
    found = settings({"spark.databricks.delta.autoCompact.enabled": value})
    configuration = {"delta.autoOptimize.autoCompact": table}
    with pytest.raises(UnsupportedFeatureError) if is_refused else contextlib.nullcontext():
        found.require_compaction(configuration)


def test_defaults_for_new_tables_are_all_that_delta_reads() -> None:
    given = {
        "spark.databricks.delta.properties.defaults.appendOnly": "true",
        "spark.databricks.delta.properties.defaults.feature.deletionVectors": "supported",
    }
    assert settings(given).defaults() == {"delta.appendOnly": "true", "delta.feature.deletionVectors": "supported"}
    explicit = {"delta.appendonly": "false", "delta.feature.deletionvectors": "supported"}
    settings(given).refuse(parsed(**explicit), overwrite=False, creating=True)


def test_commands_take_their_arguments_from_the_session() -> None:
    found = settings(
        {
            "spark.databricks.delta.optimize.maxFileSize": "64m",
            "spark.databricks.delta.retentionDurationCheck.enabled": "false",
            "spark.databricks.delta.vacuum.lite.enabled": "true",
            "spark.databricks.delta.update.deletionVectors.persistent": "false",
        }
    )
    assert found.optimizing() == {"target_file_size": 64 << 20}
    assert found.vacuuming() == {"force": True, "lite": True}
    assert (found.row_mode("update"), found.row_mode("delete")) == ("copy-on-write", None)
    with pytest.raises(InvalidInputError, match=r"optimize\.maxFileSize=huge"):
        settings({"spark.databricks.delta.optimize.maxFileSize": "huge"}).optimizing()


# --- streams ------------------------------------------------------------------------------------------------------


def test_a_stream_is_named_by_its_query_unless_an_option_names_it() -> None:
    assert parse_stream_options({"path": "/t", "checkpointlocation": "/c", "queryname": "q"}).app_id is None
    named = parse_stream_options({"path": "/t", "txnappid": "orders", "skipcommittedbatches": "true"})
    assert (named.app_id, named.skip_committed_batches, named.write.commit.transaction) == ("orders", True, None)


def test_a_stream_refuses_versions_and_unknown_options() -> None:
    with pytest.raises(InvalidInputError, match="batch id"):
        parse_stream_options({"path": "/t", "txnversion": "1"})
    with pytest.raises(InvalidInputError, match="its query and offsets"):
        parse_stream_options({"path": "/t", "txnfingerprint": "0-10"})
    with pytest.raises(InvalidInputError, match="mergeSchema"):
        parse_stream_options({"path": "/t", "mergeschma": "true"})


def test_a_fingerprint_belongs_to_a_named_batch() -> None:
    named = parsed(txnappid="orders", txnversion="4", txnfingerprint="offsets 0-10")
    assert named.commit == CommitOptions("orders", 4, "offsets 0-10")
    with pytest.raises(InvalidInputError, match="txnFingerprint also needs"):
        parsed(txnfingerprint="offsets 0-10")


@pytest.mark.parametrize("name", [*KNOWN, *KNOWN_OF_STREAMS])
def test_every_option_is_on_the_documentation_page(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    assert f"`{name}`" in page[page.index("## Every option") :]
