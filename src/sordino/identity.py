"""Who somebody is: one Ed25519 key, which signs certificates of models, and opens a federation member's connections.

The identity's own certificate is signed by the key itself; there is no authority that could issue another one. Members
of a federation trust each other's because the plan they accepted holds them, word by word; whoever verifies a model
compares the fingerprint with the one that its sender has made known.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sordino import outputs

KEY, CERTIFICATE = "key.pem", "certificate.pem"
PEM = outputs.Kind("a certificate in PEM form", rb"-----BEGIN CERTIFICATE-----")
_CONTEXT = b"sordino 1\0"


def common_name(member: int) -> str:
    """The DNS name in a member's certificate; MPyC uses the same, so one set of certificates serves both."""
    return f"MPyC party {member}"


@dataclass(frozen=True)
class Face:
    """What the others know of somebody: the certificate."""

    pem: str

    def __post_init__(self) -> None:
        try:
            key = x509.load_pem_x509_certificate(self.pem.encode()).public_key()
        except (ValueError, x509.InvalidVersion):
            raise ValueError("this is not a certificate in PEM form: send certificate.pem as it was written.") from None
        except UnsupportedAlgorithm:
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise ValueError("this certificate has no Ed25519 key: make one with sordino identity.")

    @cached_property
    def certificate(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.pem.encode())

    @cached_property
    def _key(self) -> Ed25519PublicKey:
        key = self.certificate.public_key()
        assert isinstance(key, Ed25519PublicKey)
        return key

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate."""
        return self.certificate.fingerprint(hashes.SHA256()).hex()

    @property
    def name(self) -> str:
        """What it calls itself, in letters that a terminal shows as they are."""
        named = self.certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return ascii(str(named[0].value))[1:-1] if named else "somebody without a name"

    @property
    def names(self) -> tuple[str, ...]:
        """Its places in a federation."""
        try:
            extension = self.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound:
            return ()
        return tuple(extension.value.get_values_for_type(x509.DNSName))

    @property
    def expires(self) -> datetime:
        return self.certificate.not_valid_after_utc

    def is_valid_at(self, moment: datetime) -> bool:
        return self.certificate.not_valid_before_utc <= moment <= self.expires

    def signed(self, purpose: str, content: bytes, signature: str) -> bool:
        """Whether this key signed `content` for `purpose`."""
        try:
            self._key.verify(bytes.fromhex(signature), _message(purpose, content))
        except (InvalidSignature, ValueError, TypeError):
            return False
        return True


@dataclass(frozen=True)
class Identity:
    """One's own side: the folder with the key and the certificate."""

    folder: Path
    key: Ed25519PrivateKey
    face: Face

    @staticmethod
    def create(folder: Path, name: str, number: int | None = None, days: int = 365) -> Identity:
        """A new key and certificate; in a federation, for the member that is `number` in the list, counted from 1."""
        if not 1 <= len(name) <= 64:
            raise ValueError(f"the name has {len(name)} letters: a certificate holds one of 1 to 64.")
        if number is not None and number < 1:
            raise ValueError(f"number is {number}: members are counted from 1, in the order of the list they agree on.")
        if days < 1:
            raise ValueError(f"days is {days}: a certificate is valid for at least one day.")
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / KEY).exists():
            raise FileExistsError(
                f"{folder / KEY} exists already, and a key that is lost cannot be replaced: use another folder."
            )
        key = Ed25519PrivateKey.generate()
        face = Face(_self_signed(key, name, number, days))
        content = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        # never readable by others, not even for a moment
        descriptor = os.open(folder / KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        outputs.write(folder / CERTIFICATE, face.pem.encode(), PEM)
        return Identity(folder, key, face)

    @staticmethod
    def load(folder: Path) -> Identity:
        path = folder / KEY
        if not path.is_file():
            raise FileNotFoundError(f"{path} does not exist: sordino identity makes a key and certificate.")
        mode = stat.S_IMODE(path.stat().st_mode)
        if mode & 0o077:
            raise PermissionError(
                f"{path} can be read by others (mode {mode:o}): whoever has the key can sign in its owner's place. "
                f"Run chmod 600 {path}, and make a new identity if somebody else had access."
            )
        key = read_key(path)
        face = Face((folder / CERTIFICATE).read_text())
        if face.certificate.public_key() != key.public_key():
            raise ValueError(f"{folder / CERTIFICATE} belongs to another key than {path}: restore the pair.")
        return Identity(folder, key, face)

    def sign(self, purpose: str, content: bytes) -> str:
        return self.key.sign(_message(purpose, content)).hex()


def read_key(path: Path) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError):
        raise ValueError(f"{path} is not a private key as sordino identity writes it.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{path} holds another kind of key: an Ed25519 key is needed.")
    return key


def _message(purpose: str, content: bytes) -> bytes:
    # a signature for one purpose never passes for another
    return _CONTEXT + purpose.encode() + b"\0" + content


def _self_signed(key: Ed25519PrivateKey, name: str, number: int | None, days: int) -> str:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # clocks differ
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
    )
    if number is not None:
        place = x509.SubjectAlternativeName([x509.DNSName(common_name(number - 1))])
        builder = builder.add_extension(place, critical=False)
    certificate = builder.sign(key, None)
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
