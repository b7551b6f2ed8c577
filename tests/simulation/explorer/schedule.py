"""Schedules as sequences of choices: how they are generated, shortened, and written as text.

In: a run, a function that calls `Choices.choose` whenever more than one thing could happen next. Out: every sequence of
a small run (`every_schedule`), a random one for each seed, the shortest that still fails (`shortened`), and a line of
text that repeats the same run (`to_line`, `from_line`). This is the only source of chance of an exploration.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from txlog.errors import InvalidInputError

__all__ = ["Choices", "every_schedule", "from_line", "shortened", "to_line"]


class Choices:
    """Makes the choices of one run: the first ones are ``given``, the others random, or 0 without ``chance``.

    Args:
        given: The first choices.
        chance: The source of all further choices.

    Attributes:
        taken: The choices so far.
        widths: For each of them, the number of possibilities.
    """

    def __init__(self, given: Sequence[int] = (), chance: random.Random | None = None) -> None:
        self.taken: list[int] = []
        self.widths: list[int] = []
        self._given = given
        self._chance = chance

    @classmethod
    def seeded(cls, seed: int | str) -> Choices:
        return cls(chance=random.Random(seed))

    @property
    def is_past_given(self) -> bool:
        """Whether all choices of ``given`` were made."""
        return len(self.taken) >= len(self._given)

    def choose(self, width: int, *, calm: float = 0.0) -> int:
        """Choose one of ``range(width)``.

        Args:
            width: The number of possibilities; 0 stands for the uneventful one.
            calm: The least probability of 0 in a random choice.
        """
        if width <= 1:
            return 0
        place = len(self.taken)
        if place < len(self._given):
            choice = self._given[place] if self._given[place] < width else 0
        elif self._chance is None or self._chance.random() < calm:
            choice = 0
        else:
            choice = self._chance.randrange(width)
        self.taken.append(choice)
        self.widths.append(width)
        return choice


def every_schedule(run: Callable[[Choices], None]) -> Iterator[Choices]:
    """Run every sequence of choices, depth first, and yield each after its run. ``run`` may end a sequence early."""
    given: list[int] = []
    while True:
        choices = Choices(given)
        run(choices)
        yield choices
        given, widths = choices.taken, choices.widths
        while given and given[-1] + 1 >= widths[len(given) - 1]:
            given.pop()
        if not given:
            return
        given[-1] += 1


def shortened(choices: Sequence[int], still_fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """Search a shorter sequence that still fails, with as many zeros as possible.

    Args:
        choices: A sequence that fails.
        still_fails: Whether a sequence fails. It may return False to end the search early.
    """
    best = _trimmed(choices)
    improved = True
    while improved:
        improved = False
        for candidate in _simpler(best):
            if still_fails(candidate):
                best, improved = _trimmed(candidate), True
                break
    return best


def _simpler(choices: list[int]) -> Iterator[list[int]]:
    """Yield simpler sequences: first without large parts, then without one choice, or with it 0 or smaller."""
    length = len(choices) // 2
    while length:
        for start in range(0, len(choices), length):
            yield choices[:start] + choices[start + length :]
        length //= 2
    for place, choice in enumerate(choices):
        if choice:
            yield [*choices[:place], 0, *choices[place + 1 :]]
        if choice > 1:
            yield [*choices[:place], choice - 1, *choices[place + 1 :]]


def to_line(choices: Sequence[int]) -> str:
    """The choices as one line, such as ``"0*5,2,0,1"``, without the zeros at the end, which are the default."""
    runs = [(choice, len(list(run))) for choice, run in groupby(_trimmed(choices))]
    return ",".join(f"{choice}*{length}" if length > 1 else str(choice) for choice, length in runs) or "0"


def from_line(line: str) -> list[int]:
    """Parse a line of `to_line`.

    Raises:
        InvalidInputError: The line has another form.
    """
    choices: list[int] = []
    for word in line.strip().split(","):
        match = re.fullmatch(r"(\d+)(?:\*(\d+))?", word)
        if match is None:
            raise InvalidInputError(f"{word!r} is not a choice: a schedule looks like 0*5,2,0,1")
        choices += [int(match[1])] * int(match[2] or 1)
    return choices


def _trimmed(choices: Sequence[int]) -> list[int]:
    trimmed = list(choices)
    while trimmed and trimmed[-1] == 0:
        trimmed.pop()
    return trimmed
