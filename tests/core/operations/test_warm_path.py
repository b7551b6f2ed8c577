"""How deep an append is when it puts its commit: whoever reads the path opens each of these functions."""

from __future__ import annotations

from pathlib import Path

from passed_functions import frames_at_put, warm_table

MAX = 10


def test_the_put_of_a_warm_append_is_at_most_ten_calls_deep(tmp_path: Path) -> None:
    table = warm_table(str(tmp_path))
    stack = [code.co_name for code in frames_at_put(table)]
    assert (stack[1], stack[-1]) == ("append", "put_if_absent"), stack
    assert len(stack) <= MAX, f"a function that only passes on is one too many: {stack}"
