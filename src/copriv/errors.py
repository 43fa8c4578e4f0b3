"""The exceptions that copriv raises, and the exit code of each on the command line.

    CoprivError                      1
    ├── UsageError                   2   a call with arguments that exclude each other, or are not known
    ├── InvalidInput                 3   a value breaks a stated rule
    │   ├── AgreementError           3   ... in the agreement; names the field path
    │   └── DataError                3   ... in a table; names the column and row
    ├── BudgetRefused                4   the ledger or the cap on answers says no
    ├── QueryRefused                 4   an owner will not answer this query; nothing was charged
    ├── Unreachable                  5   the other party does not answer
    └── NotCertified                 1   a numerical result of unproved accuracy

A message says what is wrong, where, why it matters and what to do, on one line.
"""

from collections.abc import Sequence


class CoprivError(Exception):
    """The root: catch this to catch everything that copriv raises on purpose.

    >>> try:
    ...     copriv.Agreement.load("nowhere.toml")
    ... except copriv.CoprivError as error:
    ...     print(error.exit_code)
    3
    """

    exit_code = 1


class UsageError(CoprivError):
    """The call itself makes no sense: unknown option, arguments that exclude each other.

    >>> issubclass(copriv.UsageError, copriv.CoprivError), copriv.UsageError.exit_code
    (True, 2)
    >>> result.to_frame("nothing")
    Traceback (most recent call last):
    copriv.errors.UsageError: to_frame: there is no table 'nothing' of this; there is series, owners
    """

    exit_code = 2


class InvalidInput(CoprivError, ValueError):
    """A value breaks a rule; nothing was charged and nothing was written.

    >>> copriv.Records.of([[float("nan")]], [1.0])
    Traceback (most recent call last):
    copriv.errors.InvalidInput: ...
    """

    exit_code = 3


class AgreementError(InvalidInput):
    """The agreement is not valid; the message starts with the field path. `problems` has each, where there are several.

    >>> try:
    ...     agreement.replace(owner={"epsilon": -1.0, "records": 0})
    ... except copriv.AgreementError as error:
    ...     print(len(error.problems) > 1)
    True
    """

    problems: tuple[str, ...] = ()
    SHOWN = 12
    """Most problems that are listed, so that they fit on a screen; further ones are counted."""

    @classmethod
    def of(cls, problems: Sequence[str]) -> "AgreementError":
        """One error for several problems, each once."""
        once = list(dict.fromkeys(problems))
        if len(once) > cls.SHOWN:
            once[cls.SHOWN :] = [f"and {len(once) - cls.SHOWN} more"]
        error = cls("; ".join(once))
        error.problems = tuple(once)
        return error


class DataError(InvalidInput):
    """A table does not keep to its schema; the message names the column and the row.

    >>> copriv.simulate(agreement, data[:2])
    Traceback (most recent call last):
    copriv.errors.DataError: ...
    """


class BudgetRefused(CoprivError):
    """Answering would spend more than was agreed. Nothing was computed or released.

    >>> problem = copriv.Problem.of(agreement, data)
    >>> north = copriv.Owner(agreement, "north", problem.owners[0], problem.loss)
    >>> for k in range(4):
    ...     answer = north.answer(copriv.Query(f"query {k}", agreement.fingerprint, "north", np.zeros(3)))
    Traceback (most recent call last):
    copriv.errors.BudgetRefused: ...
    """

    exit_code = 4


class QueryRefused(CoprivError):
    """The query is not one that this owner agreed to answer. Nothing was charged.

    >>> problem = copriv.Problem.of(agreement, data)
    >>> north = copriv.Owner(agreement, "north", problem.owners[0], problem.loss)
    >>> north.answer(copriv.Query("first", "another agreement", "north", np.zeros(3)))
    Traceback (most recent call last):
    copriv.errors.QueryRefused: ...
    >>> north.ledger.answers
    0
    """

    exit_code = 4


class Unreachable(CoprivError):
    """An owner or the learner does not answer, or refuses the connection.

    >>> copriv.Unreachable.exit_code
    5
    """

    exit_code = 5


class NotCertified(CoprivError):
    """A solver stopped before its result was proved as accurate as it must be.

    >>> apart = agreement.replace(model={"loss": "logistic", "regularization": 0.0})
    >>> copriv.Problem.of(apart, [(X, np.sign(X[:, 0])) for X, _ in data]).optimum
    Traceback (most recent call last):
    copriv.errors.NotCertified: optimum: the records' two classes can be separated, ...
    """
