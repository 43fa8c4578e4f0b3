"""Keys of a consortium: a small authority that certifies each party under its own name, and why one is refused.

`make_authority` and `issue` are run once, by the coordinator. Each party gets a folder with three files: `ca.pem` (the
authority, public), `certificate.pem` (public) and `key.pem` (secret, readable by its owner alone). The authority's own
key stays with the coordinator: whoever has it can certify anybody.

A certificate names a party and its role: only the learner's can serve, only an owner's can dial. Elliptic curve P-256.
"""

import socket
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from copriv.errors import InvalidInput
from copriv.formatting.sanitize import reason

Role = Literal["owner", "learner"]
AUTHORITY, CERTIFICATE, KEY = "ca.pem", "certificate.pem", "key.pem"
AUTHORITY_KEY = "ca-key.pem"


_NONE_OF_OURS = (
    ValueError, TypeError, IndexError, InvalidSignature, UnsupportedAlgorithm, x509.InvalidVersion,
    x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType,
)  # fmt: skip
"""What a certificate of others may be met with while it is read: it never ends a party."""


class KeysRefused(InvalidInput):
    """A certificate or key that is missing, expired, foreign or another party's."""


@dataclass(frozen=True)
class Keys:
    """What one party needs to speak: PEM texts. `key` is secret."""

    authority: bytes
    certificate: bytes
    key: bytes

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
                    f"{folder / name}: cannot be read ({error.strerror}); ask the coordinator for this party's keys "
                    "(copriv init --network makes them)"
                ) from None
        keys = cls(*parts)
        keys.check()
        return keys

    def check(self, now: datetime | None = None) -> None:
        """Raise KeysRefused if these cannot be used: expired, foreign, or a key that belongs to another certificate."""
        now = now or datetime.now(UTC)
        for what, certificate in (("authority", self._authority), ("certificate", self._holder)):
            if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
                begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
                raise KeysRefused(
                    f"keys of {self.name}: the {what} is valid from {begins:%Y-%m-%d %H:%M} to {ends:%Y-%m-%d %H:%M} "
                    f"UTC, and now is {now:%Y-%m-%d %H:%M}; ask the coordinator for a new one"
                )
        try:
            self._holder.verify_directly_issued_by(self._authority)
        except (ValueError, TypeError, InvalidSignature):
            raise KeysRefused(
                f"keys of {self.name}: the certificate is not of this consortium's authority; ask the coordinator"
            ) from None
        if self._private.public_key() != self._holder.public_key():
            raise KeysRefused(f"keys of {self.name}: key.pem does not belong to certificate.pem")

    @property
    def name(self) -> str:
        """The party that the certificate names."""
        return _common_name(self._holder)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate: how a policy names it."""
        return fingerprint(self._holder)

    @property
    def role(self) -> Role:
        """What the certificate may be used for."""
        return _role(self._holder)

    def sign(self, content: bytes) -> str:
        """A signature over `content`, hex."""
        return self._private.sign(content, ec.ECDSA(hashes.SHA256())).hex()

    @cached_property
    def _holder(self) -> x509.Certificate:
        return _certificate(self.certificate)

    @cached_property
    def _authority(self) -> x509.Certificate:
        return _certificate(self.authority)

    @cached_property
    def _private(self) -> ec.EllipticCurvePrivateKey:
        return _private_key(self.key)


class Certified:
    """A party as others know it: by a certificate of the consortium's authority."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePublicKey) -> None:
        self._certificate, self._key = certificate, key
        self.name, self.role, self.fingerprint = _common_name(certificate), _role(certificate), fingerprint(certificate)

    @classmethod
    @lru_cache(maxsize=256)
    def by(cls, authority: bytes, certificate: str) -> "Certified":
        """Who a certificate names, both as PEM. Raises KeysRefused where the authority did not issue it."""
        try:
            held = x509.load_pem_x509_certificate(certificate.encode())
            held.verify_directly_issued_by(_certificate(authority))
            key = held.public_key()
            if not isinstance(key, ec.EllipticCurvePublicKey):
                raise TypeError
            return cls(held, key)
        except _NONE_OF_OURS:
            raise KeysRefused("a certificate is not of this consortium's authority") from None

    def signed(self, signature: str, content: bytes) -> bool:
        """Whether this party signed this."""
        try:
            self._key.verify(bytes.fromhex(signature), content, ec.ECDSA(hashes.SHA256()))
        except (ValueError, InvalidSignature, UnsupportedAlgorithm):
            return False
        return True

    @property
    def valid(self) -> tuple[datetime, datetime]:
        """From when and until when, in UTC."""
        return self._certificate.not_valid_before_utc, self._certificate.not_valid_after_utc

    def valid_at(self, when: datetime) -> bool:
        """Whether the certificate was valid then."""
        first, last = self.valid
        return first <= when <= last


def make_authority(folder: str | Path, consortium: str, days: int = 365) -> None:
    """Write a new authority's `ca.pem` and `ca-key.pem`. Raises KeysRefused where there is one already."""
    folder = Path(folder)
    if (folder / AUTHORITY_KEY).exists():
        raise KeysRefused(f"{folder}: already holds an authority; a new one would make every certificate foreign")
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"copriv authority of {consortium}"[:64])])
    certificate = (
        _begun(name, name, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=False,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=True,
                crl_sign=True,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(key, hashes.SHA256())
    )
    _write(folder / AUTHORITY, _pem(certificate))
    _write_key(folder / AUTHORITY_KEY, key)


def issue(
    authority: str | Path, folder: str | Path, name: str, role: Role, days: float = 365, begins: datetime | None = None
) -> None:
    """Certify the party `name` and write its folder. `begins`: five minutes ago when not given."""
    authority, folder = Path(authority), Path(folder)
    if not 1 <= len(name) <= 64:
        raise KeysRefused(f"owner.name: {name!r} has {len(name)} characters; a certificate's name has 1 to 64")
    if (folder / KEY).exists():
        raise KeysRefused(f"{folder}: already holds a key; move it away to make a new one")
    issuer = _certificate((authority / AUTHORITY).read_bytes())
    signer = _private_key((authority / AUTHORITY_KEY).read_bytes())
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    usage = ExtendedKeyUsageOID.SERVER_AUTH if role == "learner" else ExtendedKeyUsageOID.CLIENT_AUTH
    begun = (
        _begun(subject, issuer.subject, key, days, begins)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
    )
    if role == "learner":
        begun = begun.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    _write(folder / AUTHORITY, _pem(issuer))
    _write(folder / CERTIFICATE, _pem(begun.sign(signer, hashes.SHA256())))
    _write_key(folder / KEY, key)


def fingerprint(certificate: x509.Certificate) -> str:
    """SHA-256 of a certificate, hex."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def fingerprint_of(pem: bytes) -> str:
    """SHA-256 of a certificate in PEM, hex. Raises KeysRefused for what is none."""
    return fingerprint(_certificate(pem))


def diagnose(address: str, keys: Keys, learner: str) -> str:
    """Why the learner at `address` cannot be reached with these keys, in a sentence: asked of TLS itself."""
    host, _, port = address.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=keys.authority.decode())
    context.set_alpn_protocols(["h2"])
    with tempfile.TemporaryDirectory() as folder:
        pair = Path(folder) / "pair.pem"
        _write(pair, b"", mode=0o600)
        pair.write_bytes(keys.key + b"\n" + keys.certificate)
        context.load_cert_chain(pair)
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), timeout=3) as plain,
            context.wrap_socket(plain, server_hostname=learner) as secure,
        ):
            # With TLS 1.3 the verdict on our certificate comes after the handshake: the learner speaks, or hangs up.
            if secure.recv(1):
                return f"the learner at {address} let {keys.name} in and then closed the connection"
            return f"the learner at {address} refused the certificate of {keys.name}: foreign, expired or no owner's"
    except ssl.SSLCertVerificationError as error:
        return f"the learner's certificate at {address} is refused: {error.verify_message}"
    except ssl.SSLError as error:
        alert = (error.reason or "no reason").lower().replace("_", " ")
        if "alert" in alert:
            return f"the learner at {address} refused the certificate of {keys.name}: {alert}"
        return f"{address} does not speak TLS as the learner does ({alert}); is this the right port?"
    except (OSError, ValueError) as error:
        return f"no learner at {address} ({reason(error)}); see that it runs, and that the address is right"


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    days: float,
    begins: datetime | None = None,
) -> x509.CertificateBuilder:
    begins = begins or datetime.now(UTC) - timedelta(minutes=5)  # other parties' clocks may be a little behind
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
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


def _common_name(certificate: x509.Certificate) -> str:
    return str(certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)


def _role(certificate: x509.Certificate) -> Role:
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    return "learner" if ExtendedKeyUsageOID.SERVER_AUTH in usage else "owner"


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.touch(mode=mode, exist_ok=True)
    path.write_bytes(content)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    _write(path, pem, mode=0o600)
