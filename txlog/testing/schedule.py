"""One schedule is one sequence of choices: where it comes from, how it is written on a line, how it is made short.

In: a run, a function that asks `Choices.choose` whenever more than one thing could happen next. Out: every sequence
of a small run (`every_schedule`), a random one per seed, the shortest that still fails (`shrunk`), and the text that
makes the same run happen again (`written`, `parsed`). This is the only source of chance of an exploration.
"""

from __future__ import annotations

import random  # noqa: TID251 -- the seed is given, so that the same choices come again
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from txlog.errors import InvalidInputError

__all__ = ["Choices", "every_schedule", "parsed", "shrunk", "written"]


class Choices:
    """Answers ``choose``: first from ``given``, then by ``chance``, without which it is always 0.

    ``taken`` and ``widths`` are the answers so far and how many there were to choose from.
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
        """Whether the next choice is no longer one of ``given``."""
        return len(self.taken) >= len(self._given)

    def choose(self, width: int, *, calm: float = 0.0) -> int:
        """One of ``range(width)``. 0 is the uneventful one: chance takes it with probability ``calm`` at least."""
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
    """Run every sequence of choices, depth first; each is yielded after its run. ``run`` may end one early."""
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


def shrunk(choices: Sequence[int], still_fails: Callable[[Sequence[int]], bool]) -> list[int]:
    """A short sequence for which ``still_fails``: fewer choices, and as many of them 0 as can be.

    ``still_fails`` may answer False to end the search early, such as when its time is up.
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
    """Large cuts first, then single choices left out, made 0 or made smaller."""
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


def written(choices: Sequence[int]) -> str:
    """The choices on one line: ``"0*5,2,0,1"``. Zeros at the end are left out, since 0 is what follows anyway."""
    runs = [(choice, len(list(run))) for choice, run in groupby(_trimmed(choices))]
    return ",".join(f"{choice}*{length}" if length > 1 else str(choice) for choice, length in runs) or "0"


def parsed(line: str) -> list[int]:
    """What `written` wrote. Raises InvalidInputError for another text."""
    choices: list[int] = []
    for word in line.strip().split(","):
        match = re.fullmatch(r"(\d+)(?:\*(\d+))?", word)
        if match is None:
            raise InvalidInputError(f"{word!r} is no choice: a schedule is written as 0*5,2,0,1")
        choices += [int(match[1])] * int(match[2] or 1)
    return choices


def _trimmed(choices: Sequence[int]) -> list[int]:
    trimmed = list(choices)
    while trimmed and trimmed[-1] == 0:
        trimmed.pop()
    return trimmed
