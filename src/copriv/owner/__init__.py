"""A data owner, the only reader of private records, and the messages that it exchanges with a learner."""

from copriv.owner.owner import Owner
from copriv.owner.protocol import Answer, Query

__all__ = ["Answer", "Owner", "Query"]
