"""Patterns of LIKE and regular expressions that mean the same in Java and in RE2, which Arrow uses.

In: a pattern as Spark's ``LIKE`` or ``rlike`` takes it. Out: the same for RE2, or ``ValueError`` with the construct
that the two engines read differently. Java's ``.`` excludes more line ends than RE2's, its ``\\s`` includes a
vertical tab, and its ``$`` also matches before a last line end: these are rewritten.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator

_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_ESCAPES = {
    "d": "[0-9]",
    "D": "[^0-9]",
    "w": "[0-9A-Za-z_]",
    "W": "[^0-9A-Za-z_]",
    "s": r"[\t\n\x0B\f\r ]",
    "S": r"[^\t\n\x0B\f\r ]",
    **{letter: f"\\{letter}" for letter in "tnrf"},
}
_IN_CLASS = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\x0B\f\r ", **{letter: f"\\{letter}" for letter in "tnrf"}}
_WILDCARDS = {"%": "(?s:.*)", "_": "(?s:.)"}
_ANY_CASE = "(?i)"
"""At the start: of ASCII letters, the case does not matter."""
_REPEAT = re.compile(r"\{\d{1,3}(,\d{0,3})?\}")
_AT_END = rf"(?:\r\n|[{_LINE_ENDS}])?\z"


def like_pattern(pattern: str) -> str:
    """The regular expression for RE2 of a LIKE pattern, in which each backslash escapes the letter after it."""
    parts = re.findall(r"\\?.", pattern, re.DOTALL)
    return rf"\A{''.join(_WILDCARDS.get(part) or _plain(part[-1]) for part in parts)}\z"


def java_pattern(pattern: str, *, is_test: bool = True, captures: bool = True) -> str:
    """The pattern for RE2.

    Args:
        pattern: What Java's ``Pattern.compile`` takes, without flags.
        is_test: Whether it only counts that there is a match. Otherwise the two must find the same match: ``$`` is
            refused, and so are repeats of a group that may match nothing, whose rounds the two end differently.
        captures: Whether groups capture; otherwise they only group.

    Raises:
        ValueError: The pattern is invalid, or has a construct that is not common to both.
    """
    return _PatternReader(pattern, is_test=is_test, captures=captures).read()


class _PatternReader:
    """Reads one pattern from left to right."""

    def __init__(self, pattern: str, *, is_test: bool, captures: bool) -> None:
        self._any_case = pattern.startswith(_ANY_CASE)
        self._pattern = pattern.removeprefix(_ANY_CASE)
        self._is_test = is_test
        self._captures = captures
        self._at = 0
        self._can_repeat = False
        self._found: list[str] = []
        self._open_groups: list[int] = []
        """Where in ``_found`` they begin."""
        self._last_group: str | None = None
        """The group that has just ended."""

    def read(self) -> str:
        while self._at < len(self._pattern):
            letter = self._pattern[self._at]
            self._at += 1
            if letter == "(":
                self._open()
            elif letter in "*+?" or (letter == "{" and _REPEAT.match(self._pattern, self._at - 1)):
                self._repeat(letter)
            elif letter in "^$|":
                self._edge(letter)
            else:
                self._last_group = None
                self._found.append(self._single(letter))
                self._can_repeat = True
        if self._open_groups:
            raise ValueError("a parenthesis is not closed")
        return "".join(self._found)

    def _single(self, letter: str) -> str:
        """What matches one letter, or ends a group."""
        if letter == "\\":
            text, self._at = _escaped(self._pattern, self._at, _ESCAPES)
            return text
        if letter == "[":
            text, self._at = _class(self._pattern, self._at, any_case=self._any_case)
            return text
        if letter == ".":
            return f"[^{_LINE_ENDS}]"
        if letter == ")":
            if not self._open_groups:
                raise ValueError("a closing parenthesis has no opening one")
            self._last_group = "".join(self._found[self._open_groups.pop() :]) + ")"
            return ")"
        if letter in "{}]":
            raise _refused(f"a lone {letter}")
        if self._any_case and letter.isascii() and letter.isalpha():
            return f"[{letter.lower()}{letter.upper()}]"
        return _plain(letter)

    def _open(self) -> None:
        is_plain = not self._pattern.startswith("?", self._at)
        if not is_plain and not self._pattern.startswith("?:", self._at):
            raise _refused(self._pattern[self._at - 1 : self._at + 2] + "...)")
        self._at += 0 if is_plain else 2
        self._open_groups.append(len(self._found))
        self._found.append("(" if is_plain and self._captures else "(?:")
        self._can_repeat = False

    def _repeat(self, letter: str) -> None:
        if not self._can_repeat:
            raise ValueError(f"{letter} repeats nothing")
        if letter == "{":
            repeat = _REPEAT.match(self._pattern, self._at - 1)
            assert repeat is not None
            letter, self._at = repeat[0], repeat.end()
        if self._pattern.startswith("+", self._at):
            raise _refused(f"the possessive {letter}+")
        if not self._is_test and letter != "?" and self._last_group is not None and matches_empty(self._last_group):
            raise _refused(f"{letter} after a group that may match nothing")
        if self._pattern.startswith("?", self._at):
            letter, self._at = letter + "?", self._at + 1
        self._found.append(letter)
        self._can_repeat = False

    def _edge(self, letter: str) -> None:
        if letter == "^" and self._at > 1:
            raise _refused("^ inside a pattern")
        if letter == "$" and (self._at < len(self._pattern) or not self._is_test):
            raise _refused("$ here")
        if letter == "|" and (self._pattern.startswith("^") or self._pattern.endswith("$")):
            raise _refused("| together with ^ or $")
        self._found.append({"^": r"\A", "$": _AT_END, "|": "|"}[letter])
        self._can_repeat = False


def matches_empty(pattern: str) -> bool:
    """Whether a pattern that `java_pattern` returned matches the empty string."""
    return re.fullmatch(re.sub(r"\\x\{([0-9a-fA-F]+)\}", _python_escape, pattern).replace(r"\z", r"\Z"), "") is not None


def java_replacement(text: str, groups: int) -> str:
    """The replacement for RE2: ``$1`` becomes ``\\1``. Raises ``ValueError`` for a group that the pattern lacks."""
    found: list[str] = []
    at = 0
    while at < len(text):
        letter = text[at]
        at += 1
        if letter == "\\":
            if at == len(text):
                raise ValueError("the replacement ends in a backslash")
            letter, at = text[at], at + 1
        elif letter == "$":
            number = text[at : at + 1]
            if not number.isascii() or not number.isdigit() or int(number) > groups:
                raise ValueError(f"the replacement names a group that the pattern lacks: ${number}")
            if text[at + 1 : at + 2].isdigit():
                raise ValueError("the replacement has a digit after the number of a group")
            found.append(f"\\{number}")
            at += 1
            continue
        found.append("\\\\" if letter == "\\" else letter)
    return "".join(found)


def _escaped(pattern: str, at: int, known: dict[str, str]) -> tuple[str, int]:
    """What an escape means, and where the pattern continues."""
    letter = pattern[at : at + 1]
    if not letter:
        raise ValueError("the pattern ends in a backslash")
    if letter in known:
        return known[letter], at + 1
    if letter.isalnum() or not letter.isascii():
        raise _refused(f"\\{letter}")
    return _plain(letter), at + 1


def _class(pattern: str, at: int, *, any_case: bool = False) -> tuple[str, int]:
    """A class of letters, without classes inside it."""
    found = ["["]
    if pattern.startswith("^", at):
        found.append("^")
        at += 1
    first = at
    while True:
        letter = pattern[at : at + 1]
        if not letter:
            raise ValueError("a [ is not closed")
        at += 1
        if letter == "]":
            if at - 1 == first:
                raise _refused("an empty class")
            return "".join([*found, *(_other_cases(found) if any_case else ()), "]"]), at
        if letter == "[" or pattern.startswith("&&", at - 1):
            raise _refused("a class inside a class")
        if letter == "\\":
            text, at = _escaped(pattern, at, _IN_CLASS)
            found.append(text)
        elif letter == "-":
            found.append("-" if first < at - 1 and pattern[at : at + 1] != "]" else r"\-")
        else:
            found.append(_plain(letter))


def _other_cases(parts: list[str]) -> Iterator[str]:
    """The ASCII letters that are in a class, of letters and ranges, in their other case, as Java takes them."""
    within: Callable[[str], object] = re.compile("".join([*(each for each in parts if each != "^"), "]"])).match
    yield from (each for each in string.ascii_letters if within(each.swapcase()) and not within(each))


def _plain(letter: str) -> str:
    return letter if letter.isalnum() or not letter.isascii() else f"\\x{ord(letter):02x}"


def _python_escape(found: re.Match[str]) -> str:
    return f"\\u{int(found[1], 16):04x}"


def _refused(what: str) -> ValueError:
    return ValueError(
        f"Java and Arrow may read {what} in a regular expression differently. Both read letters, escaped signs, .,"
        " (?i) at the start, [a-z], \\d, \\w, \\s, (...), |, *, +, ?, {m,n}, ^ at the start and $ at the end alike"
    )
