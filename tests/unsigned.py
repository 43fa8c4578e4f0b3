"""Parties without keys, for tests that are not about signatures: a certificate is a name, and everything counts as signed."""

from datetime import datetime

from copriv.network.keys import Certified, Keys


class _Party(Certified):
    def __init__(self, name: str) -> None:
        self.name = self.key_fingerprint = self.fingerprint = name
        self.role = "learner" if name == "learner" else "owner"

    def signed(self, signature: str, content: bytes) -> bool:
        return True

    def valid_at(self, when: datetime) -> bool:
        return True


class _Unsigned(Keys):
    @property
    def party(self) -> Certified:
        return _Party(self.certificate.decode())

    def check_agreed(self, agreed: str | None) -> None:
        assert agreed is None

    def certified(self, certificate: str) -> Certified:
        return _Party(certificate)

    def sign(self, content: bytes) -> str:
        return ""


def unsigned(name: str = "learner") -> Keys:
    """In the place of the keys of the party called `name`."""
    return _Unsigned(b"", name.encode(), b"")
