"""How much noise a budget buys: exact rational arithmetic, rounded so that privacy never loses.

Sequential composition: m answers that are each (ε/m)-private are together ε-private, however the questions were
chosen (A, Thm 1; S, Thm 1). The papers take m = T; an owner that refuses answer m + 1 needs only its own m (erratum 8).
"""

from fractions import Fraction

from copriv.validation import count, positive


def laplace_scale(gradient_bound: float, answers: int, records: int, epsilon: float, overlap: int = 1) -> float:
    """b = 2 Ξ m κ / (n ε), the scale of the noise on each coordinate of each answer.

    Replacing one of n records moves the mean of gradients of L1 norm at most Ξ by at most 2Ξ/n in L1, and each of m
    answers may spend ε/m; a record that κ owners hold is answered for κ times (A, Thm 1; S, Thm 1 and Assumption 1).
    Raises InvalidInput on anything that is not positive.
    """
    Ξ, ε = positive("gradient_bound", gradient_bound), positive("epsilon", epsilon)
    m, n, κ = count("answers", answers), count("records", records), count("overlap", overlap)
    return 2.0 * Ξ * m * κ / (n * ε)


def epsilon_per_answer(epsilon: float, answers: int, overlap: int = 1) -> Fraction:
    """ε/(mκ), exactly: what the ledger is charged for one answer."""
    return Fraction(positive("epsilon", epsilon)) / (count("answers", answers) * count("overlap", overlap))
