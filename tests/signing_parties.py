"""Parties without certificates whose signatures can be told from forged ones, and cost a hash."""

import hashlib

from copriv.network.keys import Certified, Keys


class Party(Certified):
    """A party whose signatures nobody else can make."""

    def __init__(self, name: str) -> None:
        self.name = self.key_fingerprint = self.fingerprint = name
        self.role = "owner"

    def signed(self, signature: str, content: bytes) -> bool:
        return signature == hashlib.sha256(self.name.encode() + content).hexdigest()


class Signs(Keys):
    """The keys of such a party."""

    def __init__(self, name: str) -> None:
        super().__init__(b"", name.encode(), b"")

    @property
    def party(self) -> Certified:
        return Party(self.certificate.decode())

    def sign(self, content: bytes) -> str:
        return hashlib.sha256(self.certificate + content).hexdigest()
