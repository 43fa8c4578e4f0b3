"""Every quantitative sentence of both papers beside our number: `copriv reproduce claims`.

    from copriv.experiments.claims import CLAIMS, check

A claim is one line of `synchronous.py` or `asynchronous.py`: the sentence, its place, what it says as a number, and a
function that reads ours from finished figures, from trials of its own (`runs.py`) or from a formula of the library.
Nothing here is typed that can be computed. A sentence without a number in it is no claim of this table.
"""

from copriv.experiments.claims.asynchronous import ASYNCHRONOUS
from copriv.experiments.claims.checked import answered, check
from copriv.experiments.claims.claim import Answer, Claim, Found
from copriv.experiments.claims.page import write_page
from copriv.experiments.claims.synchronous import SYNCHRONOUS

CLAIMS: tuple[Claim, ...] = (*SYNCHRONOUS, *ASYNCHRONOUS)
"""In the papers' order, S first."""

__all__ = ["CLAIMS", "Answer", "Claim", "Found", "answered", "check", "write_page"]
