"""Keys and certificates of a consortium (elliptic curve P-256), and the reasons why one is refused.

Each party has a folder with three files: `ca.pem` (the authority's certificate, public), `certificate.pem` (public) and
`key.pem` (secret, readable by its owner alone). A party makes its key itself (`make_key`, which keeps the key's SHA-256 in
`own-key.txt`) and sends a signing request; the coordinator, who made the authority (`make_authority`), certifies it
(`certify`). To try things out, the coordinator can make a key and its certificate at once (`issue`).

Whoever has the authority's key can certify any key under any name. The agreement therefore names the keys that the owners
made (SHA-256 of the public key), and a certificate of another key is refused even if the authority issued it.

A certificate names a party and its role: only the learner's can serve, only an owner's can dial.
"""

import hashlib
import os
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from copriv.errors import InvalidInput
from copriv.privacy.ledger.disk import OneWriter

Role = Literal["owner", "learner"]
AUTHORITY, CERTIFICATE, KEY = "ca.pem", "certificate.pem", "key.pem"
AUTHORITY_KEY, REQUEST, OWN_KEY = "ca-key.pem", "request.pem", "own-key.txt"
_PEM = serialization.Encoding.PEM
_NONE_OF_OURS = (
    ValueError, TypeError, IndexError, InvalidSignature, UnsupportedAlgorithm, x509.InvalidVersion,
    x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType,
)  # fmt: skip
"""Errors that reading another party's certificate can raise, whatever it contains."""


class KeysRefused(InvalidInput):
    """A certificate or key that is missing, expired, foreign or another party's."""


@dataclass(frozen=True)
class Keys:
    """The key and certificates of one party, in PEM. `key` is secret."""

    authority: bytes
    certificate: bytes
    key: bytes = field(repr=False)
    own: bool = False
    """Whether the party made the key itself, as `own-key.txt` in its folder states."""

    @classmethod
    def load(cls, folder: str | Path) -> "Keys":
        """Read a party's folder and check it. Raises KeysRefused."""
        folder = Path(folder)
        parts = []
        for name in (AUTHORITY, CERTIFICATE, KEY):
            try:
                parts.append((folder / name).read_bytes())
            except OSError as error:
                raise KeysRefused(
                    f"{folder / name}: cannot be read ({error.strerror}); ask the coordinator for this party's files "
                    "(copriv owner keys makes a key and a request for them, copriv init --network the files)"
                ) from None
        authority, certificate, key = parts
        if os.name == "posix" and (folder / KEY).stat().st_mode & 0o077:
            raise KeysRefused(
                f"{folder / KEY}: other accounts of this machine may read or replace it, and so answer or sign in this party's "
                f"name; take that away (chmod 600 {folder / KEY}), and make a new key if somebody may have read it"
            )
        home = Path(os.path.realpath(folder / KEY)).parent
        if os.name == "posix" and home.stat().st_mode & 0o002:
            raise KeysRefused(
                f"{home}: any account of this machine may replace what is in it, {KEY} and the list of its ledgers too; take "
                f"that away (chmod o-w {home})"
            )
        own = (folder / OWN_KEY).exists()
        keys = cls(authority, certificate, key, own)
        if own and (folder / OWN_KEY).read_bytes().strip() != key_fingerprint(keys._private).encode():
            raise KeysRefused(
                f"{folder / KEY}: is not the key that {OWN_KEY} names; put back the one that copriv owner keys wrote, and take "
                "a secret key from nobody"
            )
        keys.check()
        return keys

    def check(self) -> None:
        """Raise KeysRefused for a certificate that is expired, of another authority, or of another key."""
        now = datetime.now(UTC)
        for what, certificate in (("authority", self._authority), ("certificate", self.party.certificate)):
            if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
                begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
                raise KeysRefused(
                    f"keys of {self.name}: the {what} is valid from {begins:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M} "
                    f"UTC, and now is {now:%Y-%m-%d %H:%M}; ask the coordinator for a new one"
                )
        try:
            self.party.certificate.verify_directly_issued_by(self._authority)
        except (ValueError, TypeError, InvalidSignature):
            raise KeysRefused(
                f"keys of {self.name}: the certificate is not of this consortium's authority; ask the coordinator"
            ) from None
        if self._private.public_key() != self.party.certificate.public_key():
            raise KeysRefused(
                f"keys of {self.name}: key.pem does not belong to certificate.pem; give the two that were made together"
            )

    def check_agreed(self, agreed: str | None) -> None:
        """Raise KeysRefused where the agreement names another key for this party, or does not name one that it made.

        agreed: SHA-256 of the party's public key in the agreement; None where it names none.
        """
        if agreed is None and self.own:
            raise KeysRefused(
                f"keys of {self.name}: the agreement does not name the key that this party made (key = "
                f'"{self.party.key_fingerprint}"), so a run without it could bear its name; ask the coordinator to give its '
                "request.pem to copriv init --network"
            )
        if agreed not in (None, self.party.key_fingerprint):
            raise KeysRefused(
                f"keys of {self.name}: the agreement names another key for it ({agreed}, and this one is "
                f"{self.party.key_fingerprint}); do not take part under it, and ask the coordinator whose key that is"
            )

    @property
    def name(self) -> str:
        """The party that the certificate names."""
        return self.party.name

    @property
    def ends(self) -> datetime:
        """The end of the validity, in UTC, of this party's certificate or its authority's, whichever is first."""
        return min(self.party.valid[1], self._authority.not_valid_after_utc)

    @cached_property
    def party(self) -> "Certified":
        """The party that the certificate certifies. Raises KeysRefused where it is not a party's certificate."""
        certificate = _certificate(self.certificate)
        try:
            return Certified(certificate)
        except _NONE_OF_OURS:
            raise KeysRefused("keys: certificate.pem is no party's; ask the coordinator for it again") from None

    def certified(self, certificate: str) -> "Certified":
        """The party of a certificate (PEM) by this party's authority. Raises KeysRefused for any other certificate."""
        return Certified.by(self.authority, certificate)

    def sign(self, content: bytes) -> str:
        """A signature over `content`, hex."""
        return self._private.sign(content, ec.ECDSA(hashes.SHA256())).hex()

    @cached_property
    def _authority(self) -> x509.Certificate:
        return _certificate(self.authority)

    @cached_property
    def _private(self) -> ec.EllipticCurvePrivateKey:
        return _private_key(self.key)


class Certified:
    """A party, as a certificate of the consortium's authority names it."""

    def __init__(self, certificate: x509.Certificate) -> None:
        key = certificate.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise TypeError
        self.certificate, self.key = certificate, key
        self.name, self.fingerprint = _common_name(certificate), certificate.fingerprint(hashes.SHA256()).hex()
        """SHA-256 of the certificate, by which a policy names it."""
        self.key_fingerprint = key_fingerprint(certificate)
        usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        self.role: Role = "learner" if ExtendedKeyUsageOID.SERVER_AUTH in usage else "owner"
        """The use that the certificate allows."""

    @classmethod
    @lru_cache(maxsize=256)
    def by(cls, authority: bytes, certificate: str) -> "Certified":
        """The party of a certificate, both in PEM. Raises KeysRefused where the authority did not issue it."""
        try:
            held = x509.load_pem_x509_certificate(certificate.encode())
            held.verify_directly_issued_by(_certificate(authority))
            return cls(held)
        except _NONE_OF_OURS:
            raise KeysRefused("a certificate is not of this consortium's authority") from None

    def signed(self, signature: str, content: bytes) -> bool:
        """Whether this is this party's signature of the content."""
        try:
            self.key.verify(bytes.fromhex(signature), content, ec.ECDSA(hashes.SHA256()))
        except (ValueError, InvalidSignature, UnsupportedAlgorithm):
            return False
        return True

    @property
    def valid(self) -> tuple[datetime, datetime]:
        """First and last time of the certificate's validity, in UTC."""
        return self.certificate.not_valid_before_utc, self.certificate.not_valid_after_utc

    def valid_at(self, when: datetime) -> bool:
        """Whether the certificate is valid at a time."""
        first, last = self.valid
        return first <= when <= last


def make_authority(folder: str | Path, consortium: str, days: int = 365) -> None:
    """Write a new authority's `ca.pem` and `ca-key.pem`. Raises KeysRefused where there is one already."""
    folder = Path(folder)
    if (folder / AUTHORITY_KEY).exists():
        raise KeysRefused(f"{folder}: already holds an authority; a new one would make every certificate foreign")
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    _write(folder / AUTHORITY, _self_signed(key, _subject(f"copriv authority of {consortium}"[:64]), days))
    _write_key(folder / AUTHORITY_KEY, key)


def renew_authority(folder: str | Path, days: int = 365) -> None:
    """Write a new `ca.pem` of the same authority and key. Whatever it has certified stays certified by the old one and the new.

    Raises KeysRefused where the folder has no authority.
    """
    folder = Path(folder)
    try:
        key, name = (folder / AUTHORITY_KEY).read_bytes(), _certificate((folder / AUTHORITY).read_bytes()).subject
    except OSError as error:
        raise KeysRefused(
            f"{folder}: has no authority ({error.strerror}); give the folder that it was made in"
        ) from None
    _write(folder / AUTHORITY, _self_signed(_private_key(key), name, days))


def _self_signed(key: ec.EllipticCurvePrivateKey, name: x509.Name, days: int) -> bytes:
    """An authority's certificate, PEM."""
    usage = x509.KeyUsage(
        digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
        key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = _builder(name, name, key.public_key(), days, None)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.add_extension(usage, critical=True).sign(key, hashes.SHA256()).public_bytes(_PEM)


def make_key(folder: str | Path, name: str) -> str:
    """Write a new key of the party `name` and its signing request for the coordinator; returns the key's fingerprint.

    Where a call was killed between the two, another call writes the request of the key that is there. Raises KeysRefused
    where the folder holds any other key, which somebody else may have made, InUse while another process makes one there.
    """
    folder, subject = Path(folder), _subject(name)  # raises before the folder is made
    folder.mkdir(parents=True, exist_ok=True)
    with closing(OneWriter.claim(folder / KEY, "key")):
        if (folder / REQUEST).exists() or (folder / CERTIFICATE).exists() or not _made_here(folder):
            _new_key(folder, name, own=True)
        key = _private_key((folder / KEY).read_bytes())
        request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
        _write(folder / REQUEST, request.public_bytes(_PEM))  # last: without it the call is repeated
        return key_fingerprint(key)


def _made_here(folder: Path) -> bool:
    """Whether the folder holds a key that `make_key` made: its fingerprint is written before the key."""
    if not ((folder / KEY).exists() and (folder / OWN_KEY).exists()):
        return False
    key = _private_key((folder / KEY).read_bytes())
    return (folder / OWN_KEY).read_bytes().strip() == key_fingerprint(key).encode()


def read_request(path: str | Path) -> tuple[str, ec.EllipticCurvePublicKey]:
    """The party and key of a signing request. Raises KeysRefused for any other file."""
    try:
        request = x509.load_pem_x509_csr(Path(path).read_bytes())
        key = request.public_key()
        if not request.is_signature_valid or not isinstance(key, ec.EllipticCurvePublicKey):
            raise ValueError
        return _common_name(request), key
    except OSError as error:
        raise KeysRefused(f"{path}: cannot be read ({error.strerror}); give the owner's request.pem") from None
    except _NONE_OF_OURS:
        raise KeysRefused(f"{path}: is no signing request; ask for the one that copriv owner keys wrote") from None


def certify(
    authority: str | Path,
    folder: str | Path,
    name: str,
    key: ec.EllipticCurvePublicKey,
    role: Role = "owner",
    days: float = 365,
    begins: datetime | None = None,
) -> None:
    """Certify the key of the party `name` and write its folder, without the secret key.

    begins: start of the validity; five minutes ago when None.
    """
    authority, folder = Path(authority), Path(folder)
    issuer = _certificate((authority / AUTHORITY).read_bytes())
    signer = _private_key((authority / AUTHORITY_KEY).read_bytes())
    usage = {"learner": ExtendedKeyUsageOID.SERVER_AUTH, "owner": ExtendedKeyUsageOID.CLIENT_AUTH}[role]
    builder = _builder(_subject(name), issuer.subject, key, days, begins)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
    if role == "learner":
        builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / AUTHORITY, issuer.public_bytes(_PEM))
    _write(folder / CERTIFICATE, builder.sign(signer, hashes.SHA256()).public_bytes(_PEM))


def issue(
    authority: str | Path, folder: str | Path, name: str, role: Role, days: float = 365, begins: datetime | None = None
) -> None:
    """Make a key for the party `name`, certify it and write its folder."""
    certify(authority, folder, name, _new_key(Path(folder), name).public_key(), role, days, begins)


def _new_key(folder: Path, name: str, own: bool = False) -> ec.EllipticCurvePrivateKey:
    _subject(name)  # raises before a key is made
    if (folder / KEY).exists():
        raise KeysRefused(f"{folder}: already holds a key; move it away to make a new one")
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    if own:
        _write(folder / OWN_KEY, f"{key_fingerprint(key)}\n".encode())
    _write_key(folder / KEY, key)
    return key


def key_fingerprint(holder: x509.Certificate | ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey) -> str:
    """SHA-256 of a public key, or of the public key of a certificate or a secret key, hex, as an agreement names it."""
    key: Any = holder
    if not isinstance(holder, ec.EllipticCurvePublicKey):
        key = holder.public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_bytes(serialization.Encoding.DER, form)).hexdigest()


def fingerprint_of(pem: bytes) -> str:
    """SHA-256 of a certificate in PEM, hex. Raises KeysRefused for any other content."""
    return _certificate(pem).fingerprint(hashes.SHA256()).hex()


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: float, begins: datetime | None
) -> x509.CertificateBuilder:
    begins = begins or datetime.now(UTC) - timedelta(minutes=5)  # other parties' clocks may be a little behind
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + timedelta(days=days))
    )


def _certificate(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except (ValueError, x509.InvalidVersion):
        raise KeysRefused("keys: a certificate file is no PEM certificate; ask the coordinator for it again") from None


def _private_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    refused = KeysRefused("keys: a key file is no PEM key of an elliptic curve; ask the coordinator for it again")
    try:
        key = serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError):
        raise refused from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise refused
    return key


def _subject(name: str) -> x509.Name:
    if not 1 <= len(name) <= 64:
        raise KeysRefused(f"owner.name: {name!r} has {len(name)} characters; a certificate's name has 1 to 64")
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _common_name(certificate: x509.Certificate | x509.CertificateSigningRequest) -> str:
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    made = path.with_name(f"{path.name}.new")
    made.unlink(missing_ok=True)
    made.touch(mode=mode, exist_ok=False)
    made.write_bytes(content)
    made.replace(path)  # atomic


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    pem = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    _write(path, pem, mode=0o600)
