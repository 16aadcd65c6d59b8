"""Certificates and ports for members that are processes of this machine, for one run."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from sordino import outputs
from sordino.identity import common_name

_PASS = outputs.Kind("a certificate", b"-----BEGIN CERTIFICATE")
_KEY = outputs.Kind("a key", b"-----BEGIN PRIVATE KEY", secret=True)


def issue(folder: Path, members: int) -> None:
    """An authority for one run, and a certificate for every member."""
    now = datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())

    def named(name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])

    def builder(name: str, public: Any) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named("authority"))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=6))
        )

    root = (
        builder("authority", key.public_key())
        .add_extension(x509.BasicConstraints(True, None), True)
        .sign(key, hashes.SHA256())
    )
    outputs.write(folder / "authority.crt", root.public_bytes(serialization.Encoding.PEM), _PASS)
    for member in range(members):
        own = Ed25519PrivateKey.generate()
        names = x509.SubjectAlternativeName([x509.DNSName(common_name(member))])
        signed = builder(f"member {member}", own.public_key()).add_extension(names, False).sign(key, hashes.SHA256())
        outputs.write(folder / f"{member}.crt", signed.public_bytes(serialization.Encoding.PEM), _PASS)
        secret = own.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        outputs.write(folder / f"{member}.key", secret, _KEY)


def addresses(count: int) -> list[str]:
    lines = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [f"127.0.0.1:{line.getsockname()[1]}" for line in lines]
    for line in lines:
        line.close()
    return found
