"""Typed errors across Spark: whatever Spark makes of the text, the error comes back whole or not at all."""

from __future__ import annotations

import traceback

import pytest

from txlog import errors
from txlog.errors import (
    CommitStateUnknownError,
    ConcurrentAppendError,
    ConflictReason,
    CorruptLogError,
    InvalidInputError,
    TxlogError,
    UnsupportedFeatureError,
)
from txlog.spark import error_from
from txlog.spark.errors import TxlogErrorInSpark, crossing, encode

CONFLICT = ConcurrentAppendError(
    "v12 (WRITE) added files matching day='2026-11-20'",
    table="s3://b/flights",
    version=11,
    reasons=(
        ConflictReason("ConcurrentAppendError", 12, "WRITE", "added files"),
        ConflictReason("MetadataChangedError", 13, "SET TBLPROPERTIES", "changed the properties"),
    ),
)


class SparkLike(Exception):
    """Like pyspark's exceptions, it returns its parameters from a method."""

    def __init__(self, text: str, parameters: dict[str, str] | None = None) -> None:
        super().__init__(text)
        self.parameters = parameters

    def getMessageParameters(self) -> dict[str, str] | None:
        return self.parameters


def crossed(error: TxlogError) -> str:
    with pytest.raises(TxlogErrorInSpark) as caught, crossing():
        raise error
    return str(caught.value)


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name not in ("ConflictReason",)])
def test_every_kind_of_error_comes_back_as_itself(name: str) -> None:
    kind = getattr(errors, name)
    found = error_from(RuntimeError(crossed(kind("what happened", table="/t", version=3, path="x"))))
    assert type(found) is kind
    assert (found.message, found.table, found.version, found.path) == ("what happened", "/t", 3, "x")


def test_the_shown_text_begins_with_kind_and_message() -> None:
    first_line = crossed(CONFLICT).splitlines()[0]
    assert first_line == "ConcurrentAppendError: s3://b/flights v11: v12 (WRITE) added files matching day='2026-11-20'"


@pytest.mark.parametrize("is_short", [False, True], ids=["whole", "shortened by Spark"])
def test_the_message_comes_before_the_traceback(is_short: bool) -> None:
    try:
        with crossing():
            try:
                raise KeyError("inside")
            except KeyError as cause:
                raise CONFLICT from cause
    except TxlogErrorInSpark as error:
        if is_short:
            error.__cause__ = None
        shown = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    assert shown.startswith(f"txlog.errors.ConcurrentAppendError: {CONFLICT}\n")
    assert "Traceback" in shown
    assert "inside" not in shown
    assert isinstance(error_from(RuntimeError(shown)), ConcurrentAppendError)


@pytest.mark.parametrize(
    ("spark_says", "advice"),
    [
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: {}. Make sure", "initializer=txlog.spark.register"),
        ("{} is not a valid Spark SQL Data Source.", "df.write.format('txlog').save(path)"),
        ("ModuleNotFoundError: No module named '{}'", "PYSPARK_PYTHON"),
        ("ModuleNotFoundError: No module named '{}.tasks'", "PYSPARK_PYTHON"),
        ('[UNSUPPORTED_DATA_SOURCE_SAVE_MODE] The data source "{}" cannot be written in', ".mode('append')"),
    ],
)
def test_spark_errors_about_the_data_source_become_errors_that_say_what_to_do(spark_says: str, advice: str) -> None:
    found = error_from(RuntimeError(spark_says.format("txlog")))
    assert isinstance(found, InvalidInputError)
    assert advice in found.message
    assert error_from(RuntimeError(spark_says.format("delta"))) is None


def test_the_error_about_partition_by_names_the_option() -> None:
    spark_says = "columns do not match the existing table's.\n - provided: identity(day)\n - table: "
    found = error_from(RuntimeError(f"requirement failed: The provided partitioning or clustering {spark_says}"))
    assert found is not None
    assert ".option('partitionBy'" in found.message
    assert error_from(RuntimeError(f"The provided partitioning or clustering {spark_says}identity(id)")) is None


def test_an_executor_without_a_package_and_a_driver_without_pandas_become_errors_that_say_what_to_install() -> None:
    lacking = error_from(RuntimeError("ModuleNotFoundError: No module named 'msgspec'"))
    assert isinstance(lacking, InvalidInputError)
    assert "PYSPARK_PYTHON" in lacking.message
    no_pandas = error_from(
        RuntimeError("[PACKAGE_NOT_INSTALLED] Pandas >= 2.2.0 must be installed; however, it was not found.")
    )
    assert isinstance(no_pandas, InvalidInputError)
    assert ".[spark]" in no_pandas.message


def test_the_fields_of_an_error_come_back_with_their_types() -> None:
    found = error_from(RuntimeError(crossed(CONFLICT)))
    assert isinstance(found, ConcurrentAppendError)
    assert found.reasons == CONFLICT.reasons
    assert found.winner_version == 12

    unknown = error_from(RuntimeError(encode(CommitStateUnknownError("?", version=4, txn_id="abc"))))
    assert isinstance(unknown, CommitStateUnknownError)
    assert (unknown.version, unknown.txn_id) == (4, "abc")

    unsupported = error_from(RuntimeError(encode(UnsupportedFeatureError("x", features=("a", "b")))))
    assert isinstance(unsupported, UnsupportedFeatureError)
    assert unsupported.features == ("a", "b")

    corrupt = error_from(RuntimeError(encode(CorruptLogError("x", path="3.json", line=7))))
    assert isinstance(corrupt, CorruptLogError)
    assert corrupt.line == 7


@pytest.mark.parametrize(
    "wrap",
    [
        lambda text: RuntimeError(f"Job aborted: stage 3 failed:\n  at x.y(Z.scala:1)\n{text}\n SQLSTATE: 38000"),
        lambda text: SparkLike("[PYTHON_DATA_SOURCE_ERROR] failed", {"action": "write", "msg": f"Traceback\n{text}"}),
        lambda text: RuntimeError(repr(text)),  # its newlines escaped, as some logs do
    ],
)
def test_the_error_is_found_wherever_spark_puts_its_text(wrap: object) -> None:
    found = error_from(wrap(crossed(CONFLICT)))  # type: ignore[operator]
    assert isinstance(found, ConcurrentAppendError)


def test_the_error_is_found_in_the_cause_of_an_exception_and_as_itself() -> None:
    outer = ValueError("mine")
    outer.__cause__ = RuntimeError(encode(CONFLICT))
    assert isinstance(error_from(outer), ConcurrentAppendError)
    assert error_from(CONFLICT) is CONFLICT
    loop = ValueError("a")
    loop.__context__ = loop
    assert error_from(loop) is None


def test_characters_that_spark_or_json_could_change_survive() -> None:
    message = "column 'ä\u2028\x00\"\\' {a:1} <b> %s $1 [txlog-error {} 00000000] 🦆\n second line"
    found = error_from(RuntimeError(crossed(InvalidInputError(message))))
    assert found is not None
    assert found.message == message


def test_fields_that_were_cut_or_altered_are_ignored() -> None:
    text = encode(CONFLICT)
    assert error_from(RuntimeError(text[:-10] + "]")) is None
    altered = text.replace('"version":11', '"version":12')
    assert altered != text
    assert error_from(RuntimeError(altered)) is None
    assert error_from(RuntimeError(f"{altered}\n{text}")) is not None


def test_all_that_people_read_of_an_error_is_readable() -> None:
    first, second = crossed(CONFLICT).splitlines()
    assert second.startswith('[txlog-error {"kind":"ConcurrentAppendError","table":"s3://b/flights","version":11,')
    assert "v12 (WRITE) added files matching" in first
    assert "matching" not in second, "the message is not repeated"


@pytest.mark.parametrize("altered", ["matching", "s3://b/flights v11: "])
def test_an_error_whose_text_spark_changed_keeps_its_type_and_fields(altered: str) -> None:
    found = error_from(RuntimeError(crossed(CONFLICT).replace(altered, altered + " ", 1)))
    assert isinstance(found, ConcurrentAppendError)
    assert found.reasons == CONFLICT.reasons
    assert "added files" in found.message


def test_an_error_whose_text_was_cut_off_keeps_its_type_and_fields() -> None:
    found = error_from(RuntimeError(crossed(CONFLICT).splitlines()[1]))
    assert isinstance(found, ConcurrentAppendError)
    assert (found.table, found.version) == (CONFLICT.table, CONFLICT.version)


def test_the_text_of_an_error_is_found_among_others_of_its_kind() -> None:
    other = ConcurrentAppendError("another", table="/t", version=1)
    text = f"{other.kind}: {other}\n{crossed(CONFLICT)}\n{other.kind}: {other}"
    found = error_from(RuntimeError(text))
    assert found is not None
    assert found.message == CONFLICT.message


def test_an_error_that_txlog_did_not_raise_gives_none() -> None:
    assert error_from(ValueError("no such column")) is None


def test_errors_that_are_not_txlogs_pass_a_crossing_unchanged() -> None:
    with pytest.raises(ZeroDivisionError), crossing():
        _ = 1 / 0


@pytest.mark.parametrize("letter", ["a", "ä"])
def test_the_fields_of_an_error_with_a_very_long_message_stay_short(letter: str) -> None:
    message = letter * 100_000
    text = encode(InvalidInputError(message))
    assert len(text.splitlines()[1]) < 10_000
    found = error_from(RuntimeError(text))
    assert found is not None
    assert message.startswith(found.message.removesuffix(" ..."))
