"""Flower starts three owners, watches them and collects their model: SuperLink with TLS, SuperNodes with keys.

Needs Flower in an environment of its own: make flower.
"""

from __future__ import annotations

import os
import subprocess
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sordino.certificate import verify
from sordino.methods import NoisyGradientDescent
from sordino.model_file import read_model
from three_owners import NAMES, found, free_ports

pytestmark = pytest.mark.flower

APP = Path(__file__).parents[2] / "examples" / "federation" / "flower"
METHOD = NoisyGradientDescent(steps=4, step_size=1.0, release="average")
PEM = serialization.Encoding.PEM


def bin_of(name):
    folder = os.environ.get("SORDINO_FLOWER")
    assert folder, "SORDINO_FLOWER must name the folder of Flower's commands: use make flower."
    return str(Path(folder) / name)


def server_certificate(folder):
    """A certificate for this machine, which is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "superlink")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    (folder / "link.pem").write_bytes(certificate.public_bytes(PEM))
    private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "link.key").write_bytes(private)


def node_key(folder, name):
    """Flower's key of a node, which has nothing to do with the member's own."""
    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
    (folder / f"{name}.key").write_bytes(private)
    (folder / f"{name}.key").chmod(0o600)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    (folder / f"{name}.pub").write_bytes(public + b"\n")


@pytest.fixture
def flower(tmp_path):
    """`start(name, *arguments)` for what keeps running, `call(*arguments)` for what ends."""
    home = tmp_path / "flwr"
    home.mkdir()
    environment = {**os.environ, "FLWR_HOME": str(home), "FLWR_TELEMETRY_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    environment["PATH"] = f"{os.environ.get('SORDINO_FLOWER', '')}{os.pathsep}{os.environ['PATH']}"
    started = []

    class Flower:
        folder, log = home, tmp_path / "flower.log"

        def start(self, *arguments):
            with self.log.open("ab") as log:
                command = [bin_of(arguments[0]), *map(str, arguments[1:])]
                started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=home))
            return started[-1]

        def call(self, *arguments):
            command = [bin_of("flwr"), *map(str, arguments)]
            return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=home, timeout=120)

    yield Flower()
    for process in reversed(started):
        process.terminate()
    for process in reversed(started):
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def test_flower_starts_the_parties_and_collects_the_model(tmp_path, flower):
    federation = found(tmp_path / "members", METHOD)
    out = tmp_path / "out"
    out.mkdir()
    server_certificate(tmp_path)
    port, *node_ports = free_ports(4)
    link = flower.start(
        *("flower-superlink", "--host", "127.0.0.1", "--port", port, "--enable-supernode-auth"),
        *("--ssl-certfile", tmp_path / "link.pem", "--ssl-keyfile", tmp_path / "link.key"),
        *("--ssl-ca-certfile", tmp_path / "link.pem", "--disable-runtime-dependency-installation"),
    )
    (flower.folder / "config.toml").write_text(
        f'[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "127.0.0.1:{port}"\n'
        f'root-certificates = "{tmp_path / "link.pem"}"\n'
    )
    for name, node_port in zip(NAMES, node_ports, strict=True):
        node_key(tmp_path, name)
        deadline = time.monotonic() + 90
        while (told := flower.call("supernode", "register", tmp_path / f"{name}.pub", "here")).returncode:
            assert time.monotonic() < deadline, told.stdout + told.stderr
            assert link.poll() is None, flower.log.read_text()
            time.sleep(1)
        home = federation.home(name)
        flower.start(
            *("flower-supernode", "--superlink", f"127.0.0.1:{port}", "--root-certificates", tmp_path / "link.pem"),
            *("--auth-supernode-private-key", tmp_path / f"{name}.key", "--port", node_port),
            *("--node-config", f'folder="{home}" data="{home / "records.csv"}"'),
        )
    settings = f'plan="{federation.folder / "plan.json"}" out="{out}" patience=300.0 interval=2.0'
    told = flower.call("run", APP, "here", "--run-config", settings)
    assert told.returncode == 0, told.stdout + told.stderr
    deadline = time.monotonic() + 360
    while len(list(out.iterdir())) < 3:
        assert time.monotonic() < deadline, flower.log.read_text()[-6000:]
        assert "ERROR" not in flower.log.read_text(), flower.log.read_text()[-6000:]
        time.sleep(1)
    models = [read_model(path) for path in sorted(out.iterdir())]
    assert len({model.coef.tobytes() for model in models}) == 1
    for model in models:
        assert all(finding.holds for finding in verify(model.certificate))
    assert all(federation.summary(name).finished for name in NAMES)
