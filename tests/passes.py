"""Certificates for members, made for a test: an authority, and what it signs."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from sordino.federation.credentials import Credentials
from sordino.identity import common_name


def free_addresses(count):
    """Ports of this machine that nobody listens on just now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    return addresses


def _named(name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


@dataclass
class Authority:
    folder: Path
    name: str = "authority"

    def __post_init__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(self.name, self._key.public_key(), days=30)
        certificate = builder.add_extension(x509.BasicConstraints(True, None), True).sign(self._key, hashes.SHA256())
        self.path = self.folder / f"{self.name}.crt"
        self.path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def _builder(self, subject, key, days):
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(_named(subject))
            .issuer_name(_named(self.name))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=40))
            .not_valid_after(now + timedelta(days=days))
        )

    def credentials(self, member, days=10, file=None, trusts=None, pins=()):
        """A pass for `member`; one that has expired with negative `days`."""
        key = Ed25519PrivateKey.generate()
        names = x509.SubjectAlternativeName([x509.DNSName(common_name(member))])
        builder = self._builder(f"member {member}", key.public_key(), days).add_extension(names, False)
        certificate = builder.sign(self._key, hashes.SHA256())
        stem = self.folder / (file or f"{self.name} {member}")
        paths = stem.with_suffix(".crt"), stem.with_suffix(".key")
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return Credentials(*paths, (trusts or self).path, tuple(pins))


def fingerprint(credentials):
    certificate = x509.load_pem_x509_certificate(credentials.certificate.read_bytes())
    return sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()
