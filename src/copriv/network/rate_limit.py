"""How fast a peer may go: what it was not asked for is taken at a certain rate, and no faster.

Nobody is let go for being quick. A session whose allowance is used up is read more slowly, and the network makes its
peer wait; the others do not notice.
"""

from copriv.validation import positive


class Allowance:
    """So many at once, and so many a second after that."""

    def __init__(self, at_once: float, per_second: float) -> None:
        positive("at_once", at_once)
        positive("per_second", per_second)
        self._most, self._rate, self._left, self._then = at_once, per_second, at_once, 0.0

    def take(self, now: float) -> float:
        """Use one; how many seconds to wait before going on."""
        self._left = min(self._most, self._left + max(now - self._then, 0.0) * self._rate) - 1.0
        self._then = now
        return max(-self._left / self._rate, 0.0)
