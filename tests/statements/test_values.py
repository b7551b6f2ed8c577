"""Values of queries against what Spark answered to the same texts: integration/spark_values.py recorded it.

A text has Spark's value, type and names, or is refused; or its rows raise. Nothing else may be.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from query_texts import ROWS, query, table, texts
from values_compared import Answer, answer_of, difference, read_recorded

import txlog
from txlog.core.predicates._functions import ALIASES as FUNCTION_ALIASES
from txlog.core.predicates._functions import FUNCTIONS
from txlog.core.predicates._lambdas import LAMBDA_FUNCTIONS
from txlog.errors import InvalidInputError
from txlog.statements.aggregates import AGGREGATES, ALIASES, OF_ANY_ORDER, RANKS, WINDOW_VALUES
from txlog.statements.duckdb_query import Duckdb
from txlog.statements.query import Query
from txlog.statements.query_binder import GENERATORS
from txlog.statements.script import STATEMENTS, read_statements

SILENT = ("value", "type", "name", "accepted")
ALWAYS = (
    *("-0.0", "INTERVAL 1 DAY + dt", "CASE WHEN NULL THEN 1 ELSE 2 END", "EXTRACT(UPPER FROM s)", "unix_timestamp(ts)"),
    "ts + INTERVAL '1 02:03:04' DAY TO SECOND",
    "count(*) OVER (ORDER BY dt RANGE BETWEEN INTERVAL 7 DAYS PRECEDING AND CURRENT ROW)",
    *(
        "ts - tu > INTERVAL 1 DAY",
        "ts + INTERVAL '1' HOUR * n",
        "dt + INTERVAL '1' DAY * n",
        "EXTRACT(SECOND FROM ts - tu)",
    ),
    *("percentile(d, 0.3)", "percentile(n, array(0.25, 0.5, 1))", "percentile_disc(0.25) WITHIN GROUP (ORDER BY d)"),
    *("mode(n, true)", "regr_slope(n, 1)", "max(struct(id, s)).s", "any_value(n) IGNORE NULLS"),
    "sum(p) OVER (PARTITION BY g ORDER BY id RANGE BETWEEN 2 PRECEDING AND CURRENT ROW)",
    *("CASE WHEN n > 0 THEN ts - tu ELSE INTERVAL 0 SECONDS END", "avg(dt - du)", "max(dt - du)", "str_to_map(s)"),
    'from_json(\'[{"a": 1}, {"a": "x"}, {}, null]\', \'ARRAY<STRUCT<a: INT>>\')',
    'from_json(\'{"a": 1, "a": "x"}\', \'a INT\')',
    "from_json('{\"x\": 1, \"y\": null}', 'MAP<STRING, INT>')",
    "parse_url('https://192.168.1.1:8080/x%20y?q=%C3%A9&q=2', 'QUERY', 'q')",
    "sequence(TIMESTAMP '2024-01-31 10:00:00', TIMESTAMP '2024-05-31', INTERVAL 1 MONTH)",
    *("to_timestamp('2/9/2024 12:07:09 am', 'M/d/yyyy hh:mm:ss a')", "to_date('FEB 29, 2024', 'MMM d, yyyy')"),
    f"to_timestamp('2024-02-29T10:20:30+02:30', \"yyyy-MM-dd'T'HH:mm:ss{'X' * 3}\")",
    *("'z' RLIKE '(?i)^[Z-a]$'", "(n, s) IN ((1, 'a'), (2, 'b'))", "current_timezone()"),
    *("f = 0.1", "f IN (0.1, 1.5)", "get_json_object(js, '$')"),
    "SELECT id, n IN (SELECT p FROM t) AS q FROM t ORDER BY id",
    *(
        "SELECT count(*) FROM t WHERE NULL",
        "SELECT count(*) FROM t GROUP BY ()",
        "SELECT g, count(*) FROM t GROUP BY (g, b)",
    ),
    *("SELECT a FROM (SELECT 1 AS a, 2 AS A)", "SELECT mp FROM t UNION SELECT mp FROM t"),
    *("decode(t2, 'a', 1, 'b', 2, 3)", "iff(b, 1, 2)"),
    *("SELECT DISTINCT n FROM t ORDER BY p", "SELECT DISTINCT n AS q FROM t ORDER BY n"),
    "SELECT (SELECT count(*) FROM t y0 WHERE y0.g = x0.g) AS q, count(*) FROM t x0 GROUP BY g ORDER BY g",
    "SELECT g, count(*) FROM t x0 GROUP BY g, (SELECT max(p) FROM t y0 WHERE y0.g = x0.g) ORDER BY g",
    "SELECT g FROM t x0 GROUP BY g ORDER BY (SELECT max(p) FROM t y0 WHERE y0.g = x0.g), g",
    "SELECT id, (SELECT max(p) + x0.n FROM t y0 WHERE y0.g = x0.g) AS q FROM t x0 ORDER BY id",
    "SELECT id, (SELECT sum(n) OVER (ORDER BY x0.id) FROM t y0 WHERE y0.id = x0.id) AS q FROM t x0 ORDER BY id",
    "SELECT (SELECT max(y0.p) FROM t y0 WHERE y0.g = max(x0.n)) AS q FROM t x0",
    "SELECT x0.id FROM t x0 JOIN t y0 ON y0.id = (SELECT max(z0.id) FROM t z0 WHERE z0.g = x0.g) ORDER BY 1 LIMIT 3",
    "SELECT 1e2BD, 1e-2BD, 1.5e3BD, -1e2BD",
    *("SELECT NOT b IS NULL FROM t WHERE id = 1", "SELECT b IS NOT NULL FROM t WHERE id = 1"),
    "SELECT b IS NOT NULL, count(*) FROM t GROUP BY NOT b IS NULL",
    "SELECT * EXCEPT (id) FROM (SELECT id FROM t) a JOIN (SELECT id, n FROM t) b ON a.id = b.id"
    " ORDER BY n, b.id LIMIT 2",
    "SELECT id FROM t ORDER BY id LIMIT 2 UNION ALL SELECT 99",
    "SELECT id, col FROM t LATERAL VIEW explode(array(n, p)) WHERE id < 4 ORDER BY id, col NULLS FIRST",
    "SELECT ts - tu AS q FROM t WHERE id < 3 UNION ALL SELECT dt - du FROM t WHERE id < 3",
    *("CASE WHEN b THEN a ELSE array(1.5) END", "CASE WHEN b THEN mp ELSE map('q', l) END", "array_contains(a, 1L)"),
    *("lag(ts - tu, 1, NULL) OVER (PARTITION BY g ORDER BY id)", "coalesce(st, struct(1L AS x, 'q' AS y))"),
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 100) SELECT count(*), max(n) FROM r",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 101) SELECT count(*), max(n) FROM r",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT max(n) + 1 FROM r WHERE n < 5) SELECT * FROM r ORDER BY n",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT r.n + 1 FROM t LEFT JOIN r ON t.id = r.n WHERE r.n < 5)"
    " SELECT * FROM r ORDER BY n",
)


class Engine:
    """txlog's queries of one table, without a catalog."""

    def __init__(self) -> None:
        self.duckdb, self.rows = Duckdb("UTC"), table()

    def answer(self, kind: str, text: str) -> Answer:
        try:
            return answer_of(kind, text, self.run(query(kind, text)))
        except InvalidInputError as error:
            if kind in ("query", "window"):
                return Answer(
                    kind,
                    text,
                    is_refused=not re.search("cannot run|cannot compute", str(error)),
                    raises=("0",),
                    why=str(error),
                )
            return self.by_row(kind, text, str(error))

    def run(self, text: str) -> pa.Table:
        (found,) = read_statements(text)
        assert isinstance(found, Query)
        return self.duckdb.run(found, [self.rows] * len(found.readings)).read_all()

    def by_row(self, kind: str, text: str, why: str) -> Answer:
        """The answer for the rows that do not raise."""
        found: list[pa.Table] = []
        raises: list[str] = []

        def search(ids: Sequence[int]) -> None:
            try:
                found.append(self.run(query(kind, text, ids)))
            except InvalidInputError:
                if len(ids) == 1:
                    raises.append(str(ids[0]))
                else:
                    search(ids[: len(ids) // 2])
                    search(ids[len(ids) // 2 :])

        try:
            self.run(query(kind, text, [-1]))
        except InvalidInputError:
            return Answer(kind, text, is_refused=True, why=why)
        search(range(ROWS if kind == "row" else ROWS // 6))
        if not found:
            return Answer(kind, text, raises=tuple(raises), why=why)
        return answer_of(kind, text, pa.concat_tables(found), tuple(raises))


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine()


def counts(engine: Engine, given: list[Answer]) -> Counter[str]:
    """How many texts have which difference from Spark. Fails for those that nobody is told of."""
    found: Counter[str] = Counter()
    silent = []
    for expected in given:
        answer = engine.answer(expected.kind, expected.text)
        kind = difference(expected, answer)
        found[kind] += 1
        if kind in SILENT:
            silent.append(f"{expected.kind} {expected.text}: {kind}, {expected} and here {answer}"[:700])
    assert not silent, "\n".join(silent)
    return found


def test_a_query_has_sparks_values_types_and_names_or_is_refused(engine: Engine) -> None:
    """Of each kind of text some: the hunt takes all of them."""
    recorded = read_recorded()
    queries = [each for each in recorded if each.kind == "query"]
    found = counts(engine, [*recorded[::60], *queries[::3]])
    assert found[""] > found["refused"]
    again = [each for each in recorded if each.text in ALWAYS]
    assert len(again) == len(ALWAYS)
    assert counts(engine, again) == {"": len(again)}


@pytest.mark.hunt(part="sql")
def test_all_texts_have_sparks_values_types_and_names_or_are_refused(engine: Engine) -> None:
    recorded = read_recorded()
    assert [(each.kind, each.text) for each in recorded] == texts(), "run integration/spark_values.py"
    found = counts(engine, recorded)
    assert len(recorded) >= 1800
    assert found[""] >= 1500


def test_the_pages_list_every_function_and_every_statement() -> None:
    docs = Path(txlog.__file__).parent.parent / "docs"
    names = set(re.findall(r"`([a-z_0-9]+)(?:\(|`)", (docs / "expressions.md").read_text()))
    assert not {*FUNCTIONS, *LAMBDA_FUNCTIONS, *FUNCTION_ALIASES} - names, "docs/expressions.md"
    page = (docs / "sql.md").read_text()
    statements = {word for word in STATEMENTS if word != "DESC"}  # which is DESCRIBE
    assert all(re.search(rf"^\|.*`+[^`]*\b{word}\b", page, re.MULTILINE) for word in statements), "docs/sql.md"


def test_the_page_lists_what_queries_may_have() -> None:
    page = (Path(txlog.__file__).parent.parent / "docs" / "sql.md").read_text()
    for part, names in {
        "rows from arrays and maps": GENERATORS,
        "aggregates": [*AGGREGATES, *ALIASES],
        "window functions": [*RANKS, *WINDOW_VALUES],
        "values that depend on the order of rows": [
            name for name in (*AGGREGATES, *ALIASES) if ALIASES.get(name, name) in OF_ANY_ORDER
        ],
    }.items():
        (row,) = [line for line in page.splitlines() if line.startswith(f"| {part} |")]
        listed = ", ".join(f"`{name}`" for name in sorted(names))
        assert row.split(" | ", 1)[1].startswith(listed), f"docs/sql.md, {part}: {listed}"
