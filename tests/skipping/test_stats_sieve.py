"""The sieve beside the rule for one file: what it drops, the rule drops; and what writers write, it drops at once.

Random texts are nearly JSON, so that those which are come in all their forms.
"""

from __future__ import annotations

import datetime
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from txlog.expressions.sql import parse_predicate
from txlog.protocol.schema import parse_schema
from txlog.skipping.many_files import FilePruner, prune_files
from txlog.skipping.one_file import Pruner
from txlog.skipping.stats_sieve import TextSieve

KINDS = {"l": "long", "i": "integer", "d": "double", "s": "string", "dt": "date", "ts": "timestamp"}
KINDS |= {"nz": "timestamp_ntz", "x": "decimal(9,2)"}
SCHEMA = parse_schema(
    json.dumps(
        {
            "type": "struct",
            "fields": [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in KINDS.items()],
        }
    )
)
NUMBERS = ["0", "-0", "1", "5", "9", "10", "-7", "01", "1.0", "1e1", "+5", "12345678901234567890", "null", '"5"', "NaN"]
DATES = ["2024-01-02", "2023-02-28", "2023-02-29", "2024-02-29", "2024-13-01", "2024-1-2", "0999-01-01", "20240102"]
CLOCKS = ["", "T00:00:00Z", "T23:59:59.999Z", "T24:00:00Z", "T01:02:03.123456Z", "T01:02:03+01:00", "T01:02:03", " Z"]
CONDITIONS = [
    *("l < 5", "l <= 5", "l > 5", "l >= 0", "l = 5", "l IN (5, 9)", "l <> 5", "l BETWEEN -3 AND 4", "NOT (l < 5)"),
    *("l < 5 AND i > 7", "l < 5 OR i > 7", "l < 5 OR l > 9", "(l = 1 OR l = 9) AND i < 3", "s = 'm'", "d > 3"),
    *("dt < DATE '2024-01-02'", "dt >= DATE '2024-02-29'", "dt = DATE '2023-03-01'", "x < 3"),
    *("ts < TIMESTAMP '2024-01-02 00:00:00'", "ts >= TIMESTAMP '2024-01-03 00:00:00'", "nz = '2024-01-02 12:00:00'"),
]


def text_of(low: dict[str, str], high: dict[str, str], rest: str = '"nullCount":{"l":0}') -> str:
    trees = (",".join(f'"{name}":{value}' for name, value in tree.items()) for tree in (low, high))
    return f'{{"numRecords":10,"minValues":{{{next(trees)}}},"maxValues":{{{next(trees)}}},{rest}}}'


@st.composite
def values(draw: st.DrawFn) -> dict[str, str]:
    number = st.sampled_from(NUMBERS[: draw(st.sampled_from([8, 8, 20]))])
    moment = st.builds("{}{}".format, st.sampled_from(DATES), st.sampled_from(CLOCKS[1:]))
    return {
        **{name: draw(number) for name in ("l", "i", "d")},
        "s": draw(st.sampled_from(['"a"', '"z\\n"', '"\\ud800"', "null", '"é"', "7"])),
        "dt": f'"{draw(st.sampled_from(DATES))}"',
        **{name: f'"{draw(moment)}"' for name in ("ts", "nz")},
    }


NULLS = ['"nullCount":{"l":0}', '"nullCount":{"l":10}', '"nullCount":{"l":01}']
NULLS += ['"minValues":{"l":1}', '"a":[1]', '"a":{']
TEXT = st.builds(text_of, values(), values(), st.sampled_from([NULLS[0], NULLS[0], *NULLS]))


@given(st.lists(TEXT, min_size=1, max_size=10), st.sampled_from(CONDITIONS))
def test_what_the_sieve_drops_cannot_match(texts: list[str], condition: str) -> None:
    left = left_of(condition, texts)
    assert [row for row in wanted(condition, texts) if row not in left and is_plain(texts[row])] == []


@pytest.mark.parametrize("condition", ["l < 5", "l > 90", "l = 5", "(l < 5 OR i > 90) AND dt < DATE '2024-01-01'"])
def test_a_text_that_was_cut_off_is_left(condition: str) -> None:
    whole = text_of({"l": "17", "i": "17", "dt": '"2024-01-02"'}, {"l": "27", "i": "27", "dt": '"2024-01-02"'})
    assert left_of(condition, [whole]) == []
    pieces = [whole[:size] for size in range(len(whole)) if whole[:size][-1:] != "}"]
    assert left_of(condition, pieces) == [*range(len(pieces))]


ODD_NAMES = ["l", "lo", "", " a", 'a"b', "a/b", "\n", "\u00e9]^-\\", "minValues", "\U0001f600x", "\x7f.*"]
ODD_FIELDS = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ODD_NAMES]
NESTED = {"name": "o", "type": {"type": "struct", "fields": ODD_FIELDS}, "nullable": True, "metadata": {}}
ODD_SCHEMA = parse_schema(json.dumps({"type": "struct", "fields": [*ODD_FIELDS, NESTED]}))
KEYS = [json.dumps(name, ensure_ascii=False) for name in ODD_NAMES]
KEYS += ['"\\u006c"', '"l ', '"l\x01"', "l", '"o"', '"maxValues"', '"nullCount"', '"numRecords"', '"m\\u0069nValues"']


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> str:
    """Nearly JSON: keys twice, escaped and broken, values of any kind."""
    scalars = ["9", "9", "1", "0", "-0", "09", "9.0", "9e1", "null", "true", '"a"', '"\\""', "[9]", "", "9" * 4400]
    if not depth or draw(st.integers(0, 2)) == 0:
        return draw(st.sampled_from(scalars))
    keys = draw(st.lists(st.sampled_from(['"minValues"', '"l"', '"o"', *KEYS]), max_size=4))
    comma, colon = draw(st.sampled_from([(",", ":"), (", ", ": "), (", ", ":"), (",,", ":"), (",  ", ":")]))
    return (
        "{"
        + comma.join(f"{key}{colon}{draw(trees(depth - 1))}" for key in keys)
        + draw(st.sampled_from(["}"] * 9 + [""]))
    )


@given(
    st.lists(trees(), min_size=1, max_size=20), st.sampled_from(["l", "lo", "``", "o.l", '`a"b`', "`a/b`", "minValues"])
)
def test_no_key_is_taken_for_another(texts: list[str], column: str) -> None:
    predicate = parse_predicate(f"{column} < 5", ODD_SCHEMA)
    rule = Pruner(predicate, ODD_SCHEMA, ())
    pruner = FilePruner(predicate, ODD_SCHEMA, ())
    left = TextSieve(pruner._pruner.predicate, pruner.leaves, 2).left(pa.array(texts)).tolist()
    dropped = [text for row, text in enumerate(texts) if row not in left and is_plain(text)]
    assert [text for text in dropped if rule.may_match({}, text)] == []


@pytest.mark.parametrize("within", [(), ("o",)])
@pytest.mark.parametrize("name", [name for name in ODD_NAMES if not {*name} & {*'"\\/\n'}])
def test_a_column_of_any_name_is_found(name: str, within: tuple[str, ...]) -> None:
    path = ".".join(f"`{each}`" for each in (*within, name))
    predicate = parse_predicate(f"{path} < 5", ODD_SCHEMA)
    pruner = FilePruner(predicate, ODD_SCHEMA, ())
    sieve = TextSieve(pruner._pruner.predicate, pruner.leaves, 2)
    plain = dict.fromkeys(ODD_NAMES, 7)
    trees = {tree: {**plain, "o": plain} for tree in ("minValues", "maxValues", "nullCount")}
    texts = [
        json.dumps({"numRecords": 8, **trees, "more": None}, ensure_ascii=False, separators=separators)
        for separators in ((",", ":"), (", ", ": "))
    ]
    assert sieve.left(pa.array(texts)).tolist() == []
    assert sieve.left(pa.array([text.replace("7", "3") for text in texts])).tolist() == [0, 1]


EDGES = sorted({sign * (10**power + step) for sign in (1, -1) for power in range(18) for step in (-1, 0, 1)})


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "="])
@pytest.mark.parametrize("bound", [0, 1, -1, 5, 10, -10, 99, 100, 640, -641, 10**9, -(10**17)])
def test_integers_are_told_apart_at_every_edge(operator: str, bound: int) -> None:
    texts = [text_of({"l": str(edge)}, {"l": str(edge)}) for edge in EDGES]
    assert left_of(f"l {operator} {bound}", texts) == wanted(f"l {operator} {bound}", texts)


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "="])
@pytest.mark.parametrize("day", ["2024-02-29", "2000-01-01", "1999-12-31", "2023-10-09"])
def test_dates_are_told_apart_at_every_edge(operator: str, day: str) -> None:
    near = [datetime.date.fromisoformat(day) + datetime.timedelta(days) for days in (-366, -31, -1, 0, 1, 2, 31, 400)]
    dates = [*near, datetime.date(1001, 1, 1), datetime.date(9998, 12, 31)]
    texts = [text_of({"dt": f'"{date}"'}, {"dt": f'"{date}"'}) for date in dates]
    assert left_of(f"dt {operator} DATE '{day}'", texts) == wanted(f"dt {operator} DATE '{day}'", texts)


def test_of_many_files_those_left_are_what_the_rule_leaves() -> None:
    """More than one slice, so that what the first one teaches is put to use."""
    plain = '{"numRecords":10,"minValues":{"l":%d,"s":"é"},"maxValues":{"l":%d,"s":null},"nullCount":{"l":0}}'
    texts = [plain % (n, n + 5) for n in range(40_000)]
    texts[30_000] = '{"numRecords":10,"minValues":{"l":1.0},"maxValues":{"l":7}}'
    no_values = pa.array([[]] * len(texts), pa.map_(pa.string(), pa.string()))
    files = pa.table({"partitionValues": no_values, "stats": texts})
    mask = prune_files(files, parse_predicate("l = 7", SCHEMA), SCHEMA, ())
    assert [row for row, kept in enumerate(mask.to_pylist()) if kept] == [2, 3, 4, 5, 6, 7, 30_000]


def is_plain(text: str) -> bool:
    """Whether it is JSON that names no member of an object twice: of others nobody can say what they mean."""

    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        if len({name for name, _ in pairs}) < len(pairs):
            raise ValueError
        return dict(pairs)

    try:
        json.loads(text, object_pairs_hook=members)
    except ValueError:
        return False
    return True


def sieve_of(condition: str) -> TextSieve:
    predicate = parse_predicate(condition, SCHEMA)
    return TextSieve(predicate, FilePruner(predicate, SCHEMA, ()).leaves)


def left_of(condition: str, texts: list[str]) -> list[int]:
    left: list[int] = sieve_of(condition).left(pa.array(texts)).tolist()
    return left


def wanted(condition: str, texts: list[str]) -> list[int]:
    rule = Pruner(parse_predicate(condition, SCHEMA), SCHEMA, ())
    return [row for row, text in enumerate(texts) if rule.may_match({}, text)]
