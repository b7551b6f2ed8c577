"""Merge engines: equal to plain Python on generated changelogs, however they are cut, and on Paimon's examples."""

from __future__ import annotations

import datetime
import decimal
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import merge_model
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.changelog.merge_engines.engines import engine_for
from txlog.changelog.merge_engines.keyed_rows import KeyedRows
from txlog.changelog.row_kinds import KINDS
from txlog.core.format.schema import from_arrow
from txlog.errors import InvalidInputError, UnsupportedFeatureError

Row = dict[str, Any]
Changelog = Sequence[tuple[str, Row]]


def applied(
    options: Mapping[str, str], schema: pa.Schema, table: Mapping[Any, Row], changelog: Changelog
) -> dict[Any, Row]:
    """The table after a changelog, by `merge`."""
    engine = engine_for(options, from_arrow(schema), ["k"])
    keys = list(dict.fromkeys(row["k"] for _, row in changelog))
    number = {key: at for at, key in enumerate(keys)}
    new = KeyedRows(
        pa.Table.from_pylist([row for _, row in changelog], schema),
        np.array([number[row["k"]] for _, row in changelog], dtype=np.int64),
        np.array([KINDS.index(kind) for kind, _ in changelog], dtype=np.int8),
    )
    there = [table[key] for key in keys if key in table]
    needed = engine.needed_columns(schema.names)
    old = None
    if needed or not engine.replaces_rows:
        rows = pa.Table.from_pylist(there, schema).select(list(needed))
        old = KeyedRows(rows, np.array([number[row["k"]] for row in there], dtype=np.int64))
    merged = engine.merge(len(keys), new, old)
    assert not (merged.has_row & merged.is_dead).any()
    result = dict(table)
    for at in np.flatnonzero(merged.is_dead):
        result.pop(keys[at], None)
    rows_left = merged.rows.to_pylist()
    for at, row in zip(np.flatnonzero(merged.has_row), rows_left, strict=True):
        assert row["k"] == keys[at]
        result[keys[at]] = row
    return result


SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("s", pa.int32()),
        ("n", pa.int64()),
        ("d", pa.decimal128(9, 2)),
        ("t", pa.string()),
        ("b", pa.bool_()),
        ("l", pa.list_(pa.int32())),
    ]
)
ROWS = st.fixed_dictionaries(
    {
        "k": st.integers(0, 3),
        "s": st.one_of(st.none(), st.integers(0, 4)),
        "n": st.one_of(st.none(), st.integers(-9, 9)),
        "d": st.one_of(st.none(), st.decimals(-9, 9, places=2)),
        "t": st.one_of(st.none(), st.sampled_from(["", "a", "b,c", "ü"])),
        "b": st.one_of(st.none(), st.booleans()),
        "l": st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(0, 2)), max_size=3)),
    }
)
KIND = st.sampled_from(KINDS)
ADDS = st.sampled_from(("+I", "+U"))


def cut(changelog: Changelog, at: Sequence[int]) -> list[Changelog]:
    ends = sorted({min(each, len(changelog)) for each in at} | {0, len(changelog)})
    return [changelog[start:end] for start, end in itertools.pairwise(ends)]


def agree(options: Mapping[str, str], changelog: Changelog, at: Sequence[int], schema: pa.Schema = SCHEMA) -> None:
    """Cut anywhere, the merges leave what plain Python makes of the whole changelog at once."""
    table: dict[Any, Row] = {}
    for part in cut(changelog, at):
        table = applied(options, schema, table, part)
    assert table == merge_model.apply(options, schema.names, {}, changelog)


CUTS = st.lists(st.integers(0, 12), max_size=4)


@given(st.lists(st.tuples(st.sampled_from(("+I", "+U", "-D")), ROWS), max_size=12), CUTS, st.booleans())
def test_deduplicate_keeps_the_last_row_of_a_key_however_a_changelog_is_cut(
    changelog: Changelog, at: list[int], ignores: bool
) -> None:
    agree({"merge-engine": "deduplicate", "ignore-delete": str(ignores).lower()}, changelog, at)


@given(st.lists(st.tuples(ADDS, ROWS), max_size=12), CUTS)
def test_deduplicate_with_a_sequence_keeps_the_greatest_however_a_changelog_is_cut(
    changelog: Changelog, at: list[int]
) -> None:
    agree({"merge-engine": "deduplicate", "sequence.field": "s"}, changelog, at)
    agree({"merge-engine": "deduplicate", "sequence.field": "s,n"}, changelog, at)


@given(st.lists(st.tuples(st.sampled_from(("+I", "+U", "-D")), ROWS), max_size=12))
def test_deletes_have_a_place_in_the_sequence_of_a_changelog(changelog: Changelog) -> None:
    agree({"merge-engine": "deduplicate", "sequence.field": "s"}, changelog, [])


@given(st.lists(st.tuples(KIND, ROWS), max_size=12), CUTS)
def test_first_row_keeps_the_first_row_of_a_key_however_a_changelog_is_cut(changelog: Changelog, at: list[int]) -> None:
    agree({"merge-engine": "first-row", "ignore-delete": "true"}, changelog, at)


@given(st.lists(st.tuples(KIND, ROWS), max_size=12), CUTS, st.booleans())
def test_partial_update_keeps_the_last_values_however_a_changelog_is_cut(
    changelog: Changelog, at: list[int], removes: bool
) -> None:
    option = "partial-update.remove-record-on-delete" if removes else "ignore-delete"
    changelog = [each for each in changelog if not (removes and each[0] == "-U")]
    agree({"merge-engine": "partial-update", option: "true"}, changelog, at)


@given(st.lists(st.tuples(ADDS, ROWS), max_size=12), CUTS)
def test_sequence_groups_are_updated_each_by_its_own_order_however_a_changelog_is_cut(
    changelog: Changelog, at: list[int]
) -> None:
    groups = {
        "merge-engine": "partial-update",
        "fields.s.sequence-group": "t,l",
        "fields.n,d.sequence-group": "b",
    }
    agree(groups, changelog, at)


@given(st.lists(st.tuples(KIND, ROWS), max_size=12))
def test_sequence_groups_take_back_their_columns(changelog: Changelog) -> None:
    groups = {"merge-engine": "partial-update", "fields.s.sequence-group": "n,t", "fields.n.aggregate-function": "sum"}
    agree(groups, changelog, [])


ADDING = {
    "merge-engine": "aggregation",
    "fields.s.aggregate-function": "count",
    "fields.n.aggregate-function": "sum",
    "fields.d.aggregate-function": "max",
    "fields.t.aggregate-function": "listagg",
    "fields.b.aggregate-function": "bool_and",
    "fields.l.aggregate-function": "collect",
}
CHOOSING = {
    "merge-engine": "aggregation",
    "fields.s.aggregate-function": "first_value",
    "fields.n.aggregate-function": "first_non_null_value",
    "fields.d.aggregate-function": "min",
    "fields.t.aggregate-function": "last_value",
    "fields.b.aggregate-function": "bool_or",
    "fields.l.aggregate-function": "collect",
    "fields.l.distinct": "true",
}
RETRACTING = {
    "merge-engine": "aggregation",
    "fields.s.aggregate-function": "count",
    "fields.n.aggregate-function": "sum",
    "fields.d.aggregate-function": "sum",
    "fields.t.aggregate-function": "last_value",
    "fields.l.aggregate-function": "collect",
}


@given(st.lists(st.tuples(ADDS, ROWS), max_size=12), CUTS, st.sampled_from((ADDING, CHOOSING)))
def test_aggregates_cover_all_rows_however_a_changelog_is_cut(
    changelog: Changelog, at: list[int], options: dict[str, str]
) -> None:
    agree({**options, "fields.t.list-agg-delimiter": "; "} if options is ADDING else options, changelog, at)


@given(st.lists(st.tuples(KIND, ROWS), max_size=14), CUTS, st.booleans(), st.booleans())
def test_aggregates_take_rows_back_however_a_changelog_is_cut(
    changelog: Changelog, at: list[int], distinct: bool, removes: bool
) -> None:
    options = {**RETRACTING, "fields.l.distinct": str(distinct).lower()}
    agree({**options, "aggregation.remove-record-on-delete": str(removes).lower()}, changelog, at)


@given(st.lists(st.tuples(KIND, ROWS), max_size=12), CUTS)
def test_functions_that_ignore_retractions_keep_values(changelog: Changelog, at: list[int]) -> None:
    columns = [name for name in SCHEMA.names if name != "k"]
    agree({**ADDING, **{f"fields.{name}.ignore-retract": "true" for name in columns}}, changelog, at)


@given(st.lists(st.tuples(ADDS, ROWS), max_size=10), st.permutations(range(10)), CUTS)
def test_sums_and_extremes_do_not_depend_on_the_order_of_a_changelog(
    changelog: Changelog, order: list[int], at: list[int]
) -> None:
    options = {**ADDING, "fields.t.aggregate-function": "min", "fields.l.ignore-retract": "true"}
    del options["fields.l.aggregate-function"], options["fields.l.ignore-retract"]
    changelog = [(kind, {**row, "l": None}) for kind, row in changelog]
    shuffled = [changelog[each] for each in order if each < len(changelog)]
    table: dict[Any, Row] = {}
    for part in cut(shuffled, at):
        table = applied(options, SCHEMA, table, part)
    assert table == merge_model.apply(options, SCHEMA.names, {}, changelog)


# --- what Paimon's documentation shows --------------------------------------------------------------------------


def reported(
    options: Mapping[str, str], columns: Mapping[str, pa.DataType], *given: tuple[Any, ...]
) -> list[tuple[Any, ...]]:
    """The row of key 1 after each of the given rows, each a commit of its own; and after all of them in one."""
    schema = pa.schema(list(columns.items()))
    rows = [dict(zip(schema.names, values, strict=True)) for values in given]
    table: dict[Any, Row] = {}
    found = []
    for row in rows:
        table = applied(options, schema, table, [("+I", row)])
        found.append(tuple(table[1].values()))
    at_once = applied(options, schema, {}, [("+I", row) for row in rows])
    assert tuple(at_once[1].values()) == found[-1]
    return found


INT = pa.int32()
EIGHT = dict.fromkeys(("k", "a", "b", "g_1", "c", "d", "g_2", "g_3"), INT)


def test_partial_update_puts_a_row_together_from_its_parts() -> None:
    columns = {"k": INT, "price": pa.float64(), "stock": INT, "text": pa.string()}
    found = reported(
        {"merge-engine": "partial-update"},
        columns,
        (1, 23.0, 10, None),
        (1, None, None, "This is a book"),
        (1, 25.2, None, None),
    )
    assert found[-1] == (1, 25.2, 10, "This is a book")


def test_two_sequence_groups_let_two_streams_update_one_row_out_of_order() -> None:
    columns = {name: INT for name in EIGHT if name != "g_3"}
    options = {
        "merge-engine": "partial-update",
        "fields.g_1.sequence-group": "a,b",
        "fields.g_2.sequence-group": "c,d",
    }
    found = reported(options, columns, (1, 1, 1, 1, 1, 1, 1), (1, 2, 2, 2, 2, 2, None), (1, 3, 3, 1, 3, 3, 3))
    assert found[1:] == [(1, 2, 2, 2, 1, 1, 1), (1, 2, 2, 2, 3, 3, 3)]


def test_a_sequence_of_several_columns_is_compared_column_by_column() -> None:
    options = {
        "merge-engine": "partial-update",
        "fields.g_1.sequence-group": "a,b",
        "fields.g_2,g_3.sequence-group": "c,d",
    }
    found = reported(options, EIGHT, (1, 1, 1, 1, 1, 1, 1, 1), (1, 2, 2, 2, 2, 2, 1, None), (1, 3, 3, 1, 3, 3, 3, 1))
    assert found[1:] == [(1, 2, 2, 2, 1, 1, 1, 1), (1, 2, 2, 2, 3, 3, 3, 1)]


FIVE = dict.fromkeys(("k", "a", "b", "c", "d"), INT)
FIVE_ROWS = [(1, 1, 1, None, None), (1, None, None, 1, 1), (1, 2, 2, None, None), (1, None, None, 2, 2)]
FIVE_GROUPS = {
    "merge-engine": "partial-update",
    "fields.a.sequence-group": "b",
    "fields.c.sequence-group": "d",
    "fields.d.aggregate-function": "sum",
}


def test_the_columns_of_a_sequence_group_can_be_aggregated() -> None:
    found = reported({**FIVE_GROUPS, "fields.b.aggregate-function": "first_value"}, FIVE, *FIVE_ROWS)
    assert found[-1] == (1, 2, 1, 2, 3)


def test_a_default_function_is_for_the_columns_that_have_none() -> None:
    found = reported({**FIVE_GROUPS, "fields.default-aggregate-function": "last_non_null_value"}, FIVE, *FIVE_ROWS)
    assert found[-1] == (1, 2, 2, 2, 3)


def test_a_sum_in_a_sequence_group_takes_late_rows_and_the_sequence_does_not_go_back() -> None:
    columns = {"k": INT, "a": INT, "b": INT, "g_1": INT, "c": pa.string(), "g_2": INT, "g_3": INT}
    options = {
        "merge-engine": "partial-update",
        "fields.a.aggregate-function": "sum",
        "fields.g_1,g_3.sequence-group": "a",
        "fields.g_2.sequence-group": "c",
    }
    found = reported(options, columns, (1, 1, 1, 1, "1", 1, 1), (1, 2, 2, 2, "2", None, 2), (1, 3, 3, 2, "3", 3, 1))
    assert found[1:] == [(1, 3, 2, 2, "1", 1, 2), (1, 6, 3, 2, "3", 3, 2)]


def test_aggregation_takes_the_greatest_price_and_the_sum_of_sales() -> None:
    columns = {"k": pa.int64(), "price": pa.float64(), "sales": pa.int64()}
    options = {
        "merge-engine": "aggregation",
        "fields.price.aggregate-function": "max",
        "fields.sales.aggregate-function": "sum",
    }
    assert reported(options, columns, (1, 23.0, 15), (1, 30.2, 20))[-1] == (1, 30.2, 35)


@pytest.mark.parametrize(
    ("first", "then", "left"),
    [
        ((["A", "B"], "+I"), (["A"], "-U"), ["B"]),
        ((["A"], "-U"), (["A", "B"], "+I"), ["A", "B"]),  # what is taken back before it is there does nothing
        ((["A", "A"], "+I"), (["A"], "-D"), ["A"]),
        ((["A"], "+I"), (["A"], "-D"), []),
    ],
)
def test_collect_retracts_existing_elements(first: Any, then: Any, left: list[str]) -> None:
    schema = pa.schema([("k", INT), ("l", pa.list_(pa.string()))])
    options = {"merge-engine": "aggregation", "fields.l.aggregate-function": "collect"}
    changelog = [(kind, {"k": 1, "l": elements}) for elements, kind in (first, then)]
    agree(options, changelog, [], schema)
    agree(options, changelog, [1], schema)
    assert applied(options, schema, {}, changelog)[1]["l"] == left


# --- numbers and types ------------------------------------------------------------------------------------------

WIDE = {"k": pa.int64(), "n": pa.int64(), "d": pa.decimal128(38, 2), "i": pa.int8()}
SUMS = {"merge-engine": "aggregation", **{f"fields.{name}.aggregate-function": "sum" for name in "ndi"}}


def test_sums_that_do_not_fit_their_column_are_refused_and_no_step_on_the_way_is() -> None:
    far = 2**63 - 1
    assert reported(SUMS, WIDE, (1, far, None, 100), (1, -far, None, 27))[-1] == (1, 0, None, 127)
    for row, name in (((1, far, None, None), "n"), ((1, None, None, 100), "i"), ((1, None, 10**36 - 1, None), "d")):
        row = tuple(decimal.Decimal(value) if name == "d" and value not in (1, None) else value for value in row)
        with pytest.raises(InvalidInputError, match=f"the sum of column {name} does not fit its type"):
            reported(SUMS, WIDE, row, row)


@given(st.lists(st.integers(-9, 9), max_size=30), st.lists(st.integers(2, 9), max_size=4), CUTS)
def test_products_of_integers_are_exact_and_take_back_their_factors(
    factors: list[int], taken: list[int], at: list[int]
) -> None:
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    options = {"merge-engine": "aggregation", "fields.n.aggregate-function": "product"}
    given = [*taken, *(factor for factor in factors if factor)][:18]
    steps = [("+I", n) for n in given] + [("-U", n) for n in taken]
    agree(options, [(kind, {"k": 1, "n": n}) for kind, n in steps], at, schema)


def test_a_product_is_exact_up_to_the_greatest_integer_and_refused_beyond() -> None:
    columns = {"k": INT, "n": pa.int64()}
    options = {"merge-engine": "aggregation", "fields.n.aggregate-function": "product"}
    assert reported(options, columns, (1, 7), (1, 1317624576693539401))[-1] == (1, 2**63 - 1)
    with pytest.raises(InvalidInputError, match="the product of column n does not fit its type, int64"):
        reported(options, columns, (1, 2**62), (1, 2))


def test_a_factor_that_a_product_lacks_cannot_be_retracted() -> None:
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    options = {"merge-engine": "aggregation", "fields.n.aggregate-function": "product"}
    for there, taken in ((7, 2), (0, 0)):
        changelog = [("+I", {"k": 1, "n": there}), ("-U", {"k": 1, "n": taken})]
        with pytest.raises(InvalidInputError, match="the product of column n cannot retract a factor"):
            applied(options, schema, {}, changelog)


@pytest.mark.parametrize(
    ("data_type", "low", "high"),
    [
        (pa.string(), "a", "b"),
        (pa.binary(), b"a", b"b"),
        (pa.date32(), datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)),
        (pa.timestamp("us"), datetime.datetime(2020, 1, 1), datetime.datetime(2021, 1, 1)),
        (pa.decimal128(5, 1), decimal.Decimal("1.5"), decimal.Decimal("10.0")),
        (pa.float64(), 1.0, float("inf")),
    ],
)
def test_least_and_greatest_values_of_every_type_with_an_order(data_type: pa.DataType, low: Any, high: Any) -> None:
    columns = {"k": INT, "x": data_type, "y": data_type}
    options = {
        "merge-engine": "aggregation",
        "fields.x.aggregate-function": "min",
        "fields.y.aggregate-function": "max",
    }
    assert reported(options, columns, (1, high, low), (1, None, None), (1, low, high))[-1] == (1, low, high)


def test_whole_rows_keep_columns_of_every_type() -> None:
    columns = {"k": INT, "m": pa.map_(pa.string(), INT), "s": pa.struct([("x", INT)]), "v": pa.int64()}
    for engine, wins in (("deduplicate", 1), ("partial-update", 1), ("aggregation", 1), ("first-row", 0)):
        rows = [(1, [("a", 1)], {"x": 1}, 5), (1, [("b", 2)], {"x": 2}, 6)]
        assert reported({"merge-engine": engine}, columns, *rows)[-1] == rows[wins]


# --- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"merge-engine": "aggregation", "fields.x.aggregate-function": "sum"}, "'x', which is not a column"),
        (
            {"merge-engine": "aggregation", "fields.t.aggregate-function": "sum"},
            "sum needs a column of numbers; t is a",
        ),
        ({"merge-engine": "aggregation", "fields.n.aggregate-function": "listagg"}, "needs a column of strings"),
        ({"merge-engine": "aggregation", "fields.n.aggregate-function": "collect"}, "needs an array column"),
        ({"merge-engine": "aggregation", "fields.b.aggregate-function": "max"}, "whose values have an order"),
        ({"merge-engine": "aggregation", "fields.k.aggregate-function": "sum"}, "not a key column"),
        ({"merge-engine": "partial-update", "fields.n.aggregate-function": "sum"}, "in no sequence group"),
        ({"merge-engine": "partial-update", "fields.n.distinct": "true"}, "the column has none"),
        ({"merge-engine": "deduplicate", "fields.n.aggregate-function": "sum"}, "takes whole rows"),
        ({"merge-engine": "aggregation", "fields.s.sequence-group": "n"}, "is for merge-engine partial-update"),
        ({"merge-engine": "partial-update", "fields.l.sequence-group": "n"}, "have no order"),
        ({"merge-engine": "partial-update", "fields.s.sequence-group": "n,k"}, "k, which is a key column"),
        (
            {"merge-engine": "partial-update", "fields.s.sequence-group": "n", "fields.d.sequence-group": "n"},
            "names n, which txlog.fields.d.sequence-group has",
        ),
        ({"merge-engine": "first-row", "sequence.field": "s"}, "has no sequence.field"),
        ({"merge-engine": "deduplicate", "sequence.field": "k"}, "k is a key column"),
        ({"merge-engine": "deduplicate", "sequence.field": "s,S"}, "twice"),
        (
            {"merge-engine": "partial-update", "sequence.field": "d", "fields.s.sequence-group": "n"},
            "each defines which row",
        ),
        (
            {"merge-engine": "aggregation", "ignore-delete": "true", "aggregation.remove-record-on-delete": "true"},
            "left out, or they count",
        ),
        ({"merge-engine": "deduplicate", "aggregation.remove-record-on-delete": "true"}, "is for merge-engine aggreg"),
        (
            {"merge-engine": "aggregation", "sequence.field": "s", "fields.s.aggregate-function": "sum"},
            "s orders rows",
        ),
        (
            {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "fields.n.distinct": "true"},
            "distinct is for collect",
        ),
    ],
)
def test_options_that_do_not_fit_the_table_or_each_other_are_refused(options: dict[str, str], match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        engine_for(options, from_arrow(SCHEMA), ["k"])


def test_an_engine_that_no_package_offers_is_refused() -> None:
    with pytest.raises(UnsupportedFeatureError, match="there are aggregation, first-row, partial-update"):
        engine_for({"merge-engine": "merge"}, from_arrow(SCHEMA), ["k"])


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"merge-engine": "first-row"}, "first-row cannot retract: set txlog.ignore-delete = true$"),
        ({"merge-engine": "partial-update"}, "remove-record-on-delete, or sequence groups"),
        (ADDING, r"cannot do: d \(max\), t \(listagg\), b \(bool_and\)\. Set"),
        ({**FIVE_GROUPS, "fields.b.aggregate-function": "first_value"}, r"of b \(first_value\)"),
    ],
)
@pytest.mark.parametrize("kind", ["-U", "-D"])
def test_rows_that_an_engine_cannot_take_back_are_refused(options: dict[str, str], match: str, kind: str) -> None:
    schema = pa.schema(list(FIVE.items())) if "fields.a.sequence-group" in options else SCHEMA
    row = {**dict.fromkeys(schema.names), "k": 1}
    with pytest.raises(InvalidInputError, match=match):
        applied(options, schema, {}, [(kind, row)])
