"""What a declaration says: an operation, its arguments, and the doors that have it.

In: nothing. Out: values that the doors are made from and checked against. They are plain data, and import no room.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Door: TypeAlias = Literal["Table", "Transaction", "command line", "SQL", "Spark function", "Spark write", "stream"]


class Kind(msgspec.Struct, frozen=True):
    """How text, which the command line and Spark pass, becomes the value of an argument.

    Attributes:
        type: The type of one value: text, a time (ISO 8601, or ms since 1970), a whole number, a number, a switch, a
            size in bytes ("128mb"), or a file.
        shown: What help calls a value: ``NUMBER``. A switch has none.
        many: How there can be several: "names" in lists with commas, "pairs" as ``KEY=VALUE``, "each" as they are, or
            "" for one value.
        minimum: The least value of a number.
    """

    type: Literal["text", "time", "whole", "number", "switch", "size", "file"] = "text"
    shown: str = "TEXT"
    many: Literal["", "names", "pairs", "each"] = ""
    minimum: float | None = None


class Argument(msgspec.Struct, frozen=True):
    """One argument of an operation. Its type and default stand in the signature of the method.

    Attributes:
        name: The name in Python.
        about: What it is for, in a few words that every door can show.
        kind: How text becomes its value.
        option: The option of the command line; "" is the name with hyphens, a word in capitals a place of its own, and
            None means that the command line does not take it, or takes it in another form.
        write: The option of Spark's ``df.write``; "" if there is none. A name with ``*`` is a prefix.
        of_streams: Whether ``df.writeStream`` takes this option too.
        sql: The clause of the SQL statement, as an example, or a whole statement; "" if SQL cannot say it.
        in_transaction: Whether the method of `Transaction` takes it.
        in_spark: Whether the function of ``txlog.spark`` takes it.
    """

    name: str
    about: str
    kind: Kind = Kind()
    option: str | None = ""
    write: str = ""
    of_streams: bool = True
    sql: str = ""
    in_transaction: bool = True
    in_spark: bool = True

    @property
    def option_name(self) -> str | None:
        """The first name of the option, as ``--dry-run``; a place's word in capitals; None if it has none."""
        if self.option is None:
            return None
        return self.option.split("/")[0] or f"--{self.name.replace('_', '-')}"


class Operation(msgspec.Struct, frozen=True):
    """What a user can ask of a table, and at which doors.

    Attributes:
        name: The method of `Table`.
        about: What it does, in one sentence.
        arguments: In the order of the method's signature.
        in_transaction: Whether `Transaction` has the method.
        command: The command of the command line; "" if there is none.
        sql: The shortest statement on a table ``t``; "" if there is none.
        spark: The function of ``txlog.spark``; "" if there is none.
        write: The mode of Spark's ``df.write``; "" if there is none.
        stream: The mode of ``df.writeStream``; "" if there is none.
    """

    name: str
    about: str
    arguments: tuple[Argument, ...] = ()
    in_transaction: bool = False
    command: str = ""
    sql: str = ""
    spark: str = ""
    write: str = ""
    stream: str = ""

    @property
    def doors(self) -> tuple[Door, ...]:
        """Where the operation can be asked for."""
        others: dict[Door, object] = {
            "Transaction": self.in_transaction,
            "command line": self.command,
            "SQL": self.sql,
            "Spark function": self.spark,
            "Spark write": self.write,
            "stream": self.stream,
        }
        return ("Table", *(door for door, is_there in others.items() if is_there))

    def takes(self, argument: Argument) -> tuple[Door, ...]:
        """The doors of this operation that take one of its arguments."""
        by_door: dict[Door, object] = {
            "Table": True,
            "Transaction": argument.in_transaction,
            "command line": argument.option is not None,
            "SQL": argument.sql,
            "Spark function": argument.in_spark,
            "Spark write": argument.write,
            "stream": argument.write and argument.of_streams,
        }
        return tuple(door for door in self.doors if by_door[door])

    @property
    def has_preview(self) -> bool:
        """Whether ``dry_run`` says what would be done."""
        return any(argument.name == "dry_run" for argument in self.arguments)
