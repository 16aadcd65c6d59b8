"""Who is at the other end of a connection: certificates that name a member, signed by an agreed authority or pinned."""

from __future__ import annotations

import hashlib
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sordino.identity import Face, Identity, common_name, read_key


@dataclass(frozen=True)
class Credentials:
    """PEM files: this member's certificate and key, and the authority that signed everybody's.

    `pins`, where given, are the SHA-256 fingerprints of all members' certificates: a certificate of the same authority
    in the same name then does not get in either.
    """

    certificate: Path
    key: Path
    authority: Path
    pins: tuple[str, ...] = ()

    def identity(self) -> Identity:
        """Who signs with the key of the connections."""
        return Identity(self.key.parent, read_key(self.key), Face(self.certificate.read_text()))

    def context(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        """TLS 1.3, with a certificate required of both sides."""
        server = purpose is ssl.Purpose.CLIENT_AUTH
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # names are members, not hosts: `member_of` compares them once the connection stands
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cafile=str(self.authority))
        context.load_cert_chain(str(self.certificate), str(self.key))
        return context

    def member_of(self, connection: Any, members: int) -> int | None:
        """Which member a verified certificate names; None if it names none, or another one is pinned."""
        certificate = connection.getpeercert()
        names = {value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"}
        named = [member for member in range(members) if common_name(member) in names]
        if len(named) != 1:
            return None
        (member,) = named
        if self.pins and self.pins[member] != hashlib.sha256(connection.getpeercert(True)).hexdigest():
            return None
        return member
