"""A row of the table of bad input."""

from dataclasses import dataclass, field

import meshsolve as ms

Bad, Unsymmetric, Indefinite, Pattern = ms.InvalidInputError, ms.NotSymmetricError, ms.NotPositiveDefiniteError, ms.PatternMismatchError


@dataclass
class Row:
    """``call(tmp)`` returns (function, arguments, keywords). ``error`` is ``None`` for valid input."""

    function: str
    given: str
    error: type | None
    says: str                                       # part of the message; for valid input, the effect
    call: object
    where: dict = field(default_factory=dict)       # attributes of the exception, in the caller's numbering

    def line(self):
        attributes = "".join(f" `.{name}`" for name in self.where)
        answer = f"`{self.error.__name__}`{attributes}" if self.error else "fine"
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in (self.function, self.given, answer, self.says)) + " |"


def bad(function, given, says, call, error=Bad, **where):
    return Row(f"`{function}`", given, error, says, call, where)


def fine(function, given, what, call):
    return Row(f"`{function}`", given, None, what, call)
