"""Everything copriv raises on purpose, and the exit code that the command line gives it.

    CoprivError                      1
    ├── UsageError                   2   a call that cannot mean anything
    ├── InvalidInput                 3   what was given breaks a stated rule
    │   ├── AgreementError           3   ... in the agreement; names the field path
    │   └── DataError                3   ... in a table; names the column and row
    ├── BudgetRefused                4   the ledger or the cap on answers says no
    ├── QueryRefused                 4   an owner will not answer this query; nothing was charged
    ├── Unreachable                  5   the other party is not there
    └── NotCertified                 1   a numerical result without the accuracy that it must have

A message says what is wrong, where, why it matters and what to do, on one line.
"""


class CoprivError(Exception):
    """The root: catch this to catch everything that copriv raises on purpose."""

    exit_code = 1


class UsageError(CoprivError):
    """The call itself makes no sense: unknown option, arguments that exclude each other."""

    exit_code = 2


class InvalidInput(CoprivError, ValueError):
    """A value breaks a rule; nothing was charged and nothing was written."""

    exit_code = 3


class AgreementError(InvalidInput):
    """The agreement is not valid; the message starts with the field path. `problems` has each, where there are several."""

    problems: tuple[str, ...] = ()


class DataError(InvalidInput):
    """A table does not keep to its schema; the message names the column and the row."""


class BudgetRefused(CoprivError):
    """Answering would spend more than was agreed. Nothing was computed or released."""

    exit_code = 4


class QueryRefused(CoprivError):
    """The query is not one that this owner agreed to answer. Nothing was charged."""

    exit_code = 4


class Unreachable(CoprivError):
    """An owner or the learner does not answer, or refuses the connection."""

    exit_code = 5


class NotCertified(CoprivError):
    """A solver stopped before its result was proved as accurate as it must be."""
