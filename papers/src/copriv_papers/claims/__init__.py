"""Every quantitative sentence of both papers beside our number: `copriv reproduce claims`.

    from copriv_papers.claims import CLAIMS, check

A claim is one line of `synchronous.py` or `asynchronous.py`: the sentence, its place, what it says as a number, and a
function that reads ours from finished figures, from trials of its own (`runs.py`) or from a formula of the library.
Nothing here is typed that can be computed. A sentence without a number in it is no claim of this table.
"""

from copriv_papers.claims.asynchronous import ASYNCHRONOUS
from copriv_papers.claims.checked import answered, check
from copriv_papers.claims.claim import Answer, Claim, Found
from copriv_papers.claims.synchronous import SYNCHRONOUS

CLAIMS: tuple[Claim, ...] = (*SYNCHRONOUS, *ASYNCHRONOUS)
"""In the papers' order, S first."""

__all__ = ["CLAIMS", "Answer", "Claim", "Found", "answered", "check"]
