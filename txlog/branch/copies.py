"""Which new files of a branch hold only rows that were in files of its table, as a delete without vectors leaves them.

In: what the branch's commits removed and added. Out: `RowCopies`. Where others change a file that the branch rewrote, a
rebase can begin anew with it: it leaves the copies out, takes the file as it is by now, and does the branch's deletes
again. That is right only while each row in the copies was the table's own: a file that may hold new rows of the branch
too cannot be left out. Files of both are named as the table names them. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec


class RowCopies(msgspec.Struct):
    """The copies of a branch.

    Attributes:
        of: By the new file: the table's files whose rows it has.
        tied: The table's files of which rows are in new files that may have rows of the branch's own.
    """

    of: dict[str, set[str]] = msgspec.field(default_factory=dict)
    tied: set[str] = msgspec.field(default_factory=set)

    def note(self, gone: Iterable[str], new: Collection[str], own: Collection[str], *, makes_rows: bool) -> None:
        """Go on with a commit that removed files and added others. ``own`` are the branch's new files before it;
        ``makes_rows``: some rows that it added may have been in none of the removed files."""
        sources = set[str]()
        for path in gone:
            if path in self.of:
                sources |= self.of.pop(path)
            elif path in own:
                makes_rows = True
            else:
                sources.add(path)
        if not new or not sources:
            return
        if makes_rows:
            self.tied |= sources
        else:
            self.of |= dict.fromkeys(new, sources)

    def anew(self, paths: Iterable[str]) -> tuple[set[str], set[str]]:
        """All of the table's files with which the branch begins anew if it does so with these, since copies have rows
        of several; and the copies that it leaves out."""
        begun, left_out = {*paths}, set[str]()
        while more := {path for path in self.of.keys() - left_out if not begun.isdisjoint(self.of[path])}:
            left_out |= more
            begun.update(*(self.of[path] for path in more))
        return begun, left_out

    def among(self, own: Collection[str]) -> RowCopies:
        """Of these new files alone."""
        return RowCopies({path: each for path, each in self.of.items() if path in own}, {*self.tied})
