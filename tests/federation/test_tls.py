from __future__ import annotations

import socket
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from passes import Authority, fingerprint, free_addresses
from sordino.federation.joint import JointSampler
from sordino.federation.mesh import MemberLost, together
from sordino.federation.mpyc_engine import MpycAggregation
from sordino.federation.tls import TlsMesh


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def attempt(passes, patience=1.5, task=lambda mesh: None):
    """Every member tries to connect and to do its task; its error in place of a result."""
    addresses = free_addresses(len(passes))

    def member(me):
        try:
            mesh = TlsMesh(me, addresses, passes[me], patience)
        except (OSError, ValueError) as error:
            return error
        try:
            return task(mesh)
        finally:
            mesh.close()

    return together([lambda me=me: member(me) for me in range(len(passes))])


def meet(mesh):
    """Nobody leaves before everybody has come."""
    others = [i for i in range(mesh.members) if i != mesh.me]
    mesh.exchange(dict.fromkeys(others, b"here"), others)


def add(mesh):
    return MpycAggregation(mesh, 1).open_sum(np.array([[mesh.me, -1, 1 << 40]])).tolist()


@pytest.mark.parametrize("members", [2, 3, 5])
def test_members_with_certificates_add_up(authority, members):
    passes = [authority.credentials(i) for i in range(members)]
    total = [members * (members - 1) // 2, -members, members << 40]
    assert attempt(passes, patience=20, task=add) == [total] * members


def test_without_certificates_on_this_machine_only():
    assert attempt([None] * 3, patience=20, task=add) == [[3, -3, 3 << 40]] * 3
    with pytest.raises(ValueError, match="members on other machines need certificates"):
        TlsMesh(0, ["127.0.0.1:5000", "192.0.2.1:5000"])


def test_large_messages_arrive_whole(authority):
    content = np.random.default_rng(0).bytes(5_000_000)

    def task(mesh):
        other = 1 - mesh.me
        return mesh.exchange({other: content[mesh.me :]}, [other])[other] == content[other:]

    assert attempt([authority.credentials(i) for i in range(2)], patience=20, task=task) == [True, True]


def test_messages_that_come_early_wait(authority):
    def task(mesh):
        other = 1 - mesh.me
        if mesh.me:
            time.sleep(0.2)
        return [mesh.exchange({other: b"%d" % i}, [other])[other] for i in range(20)]

    sent = [b"%d" % i for i in range(20)]
    assert attempt([authority.credentials(i) for i in range(2)], patience=20, task=task) == [sent, sent]


def refused(results, *members):
    for member in members:
        assert isinstance(results[member], MemberLost | PermissionError), results


def test_a_stranger_who_listens_is_not_called_upon(authority, tmp_path):
    stranger = Authority(tmp_path, "stranger").credentials(1, trusts=authority)
    results = attempt([authority.credentials(0), stranger])
    refused(results, 0, 1)
    assert "certificate that is not accepted" in str(results[0])


def test_a_stranger_who_calls_does_not_get_in(authority, tmp_path):
    stranger = Authority(tmp_path, "stranger").credentials(0, trusts=authority)
    results = attempt([stranger, authority.credentials(1)])
    refused(results, 0, 1)
    assert "signed by the agreed authority" in str(results[1])


def test_an_expired_certificate_does_not_get_in(authority):
    expired = authority.credentials(0, days=-1, file="expired")
    refused(attempt([expired, authority.credentials(1)]), 0, 1)
    results = attempt([authority.credentials(0), authority.credentials(1, days=-1, file="expired one")])
    refused(results, 0, 1)
    assert "expired" in str(results[0])


def test_a_member_cannot_come_in_anothers_name(authority):
    # member 2's own, valid certificate where member 1 is expected
    passes = [authority.credentials(0), authority.credentials(2, file="posing as 1"), authority.credentials(2)]
    refused(attempt(passes), 0, 1, 2)


def test_no_certificate_is_not_enough(authority):
    refused(attempt([None, authority.credentials(1)]), 0, 1)


def test_with_pins_another_certificate_in_the_same_name_does_not_get_in(authority):
    passes = [authority.credentials(i) for i in range(2)]
    pins = tuple(map(fingerprint, passes))
    pinned = [replace(one, pins=pins) for one in passes]
    assert attempt(pinned, patience=20, task=add) == [[1, -2, 2 << 40]] * 2
    renewed = replace(authority.credentials(1, file="renewed"), pins=pins)
    refused(attempt([pinned[0], renewed]), 0, 1)


def test_pins_are_for_all_or_none(authority):
    credentials = replace(authority.credentials(0), pins=("abc",))
    with pytest.raises(ValueError, match="pin all or none"):
        TlsMesh(0, ["127.0.0.1:1", "127.0.0.1:2"], credentials)


def test_noise_on_the_line_disturbs_nobody(authority):
    addresses = free_addresses(2)
    passes = [authority.credentials(i) for i in range(2)]
    results = {}

    def late():
        results[1] = TlsMesh(1, addresses, passes[1], 20)

    thread = threading.Thread(target=late)
    thread.start()
    host, port = addresses[1].split(":")
    for content in (b"GET / HTTP/1.0\r\n\r\n", bytes(100), b""):
        for _ in range(200):
            try:
                with socket.create_connection((host, int(port)), timeout=1) as line:
                    line.sendall(content)
                break
            except OSError:
                time.sleep(0.02)
    mesh = TlsMesh(0, addresses, passes[0], 20)
    thread.join()
    try:
        one, other = together([lambda: add(mesh), lambda: add(results[1])])
        assert one == other == [1, -2, 2 << 40]
    finally:
        together([mesh.close, results[1].close])


def test_a_lost_member_is_told_at_once(authority):
    def task(mesh):
        meet(mesh)
        if mesh.me == 2:
            return None
        start = time.monotonic()
        try:
            mesh.exchange({}, [2])
        except MemberLost as error:
            assert time.monotonic() - start < 10
            return str(error)

    results = attempt([authority.credentials(i) for i in range(3)], patience=20, task=task)
    assert all("member 2 was lost" in said for said in results[:2])


def test_a_silent_member_is_given_up(authority):
    def task(mesh):
        if mesh.me == 1:
            time.sleep(2.5)
            return None
        with pytest.raises(MemberLost, match="no answer from member 1 within"):
            mesh.exchange({}, [1])
        return "given up"

    assert attempt([authority.credentials(i) for i in range(2)], task=task)[0] == "given up"


def test_a_member_who_leaves_ends_the_sum_at_once(authority):
    def task(mesh):
        meet(mesh)
        if mesh.me == 2:
            return None
        start = time.monotonic()
        # the first to notice leaves as well, and the other may notice that first
        with pytest.raises(MemberLost, match=r"member \d was lost"):
            add(mesh)
        return time.monotonic() - start < 10

    assert attempt([authority.credentials(i) for i in range(3)], patience=20, task=task)[:2] == [True, True]


def test_a_member_who_keeps_silent_ends_the_sum(authority):
    def task(mesh):
        if mesh.me == 1:
            time.sleep(2.5)
            return None
        with pytest.raises(MemberLost, match="no answer from member 1 within"):
            add(mesh)
        return "given up"

    assert attempt([authority.credentials(i) for i in range(2)], task=task)[0] == "given up"


class Meddling:
    """A link that sends something else than MPyC asks for."""

    def __init__(self, link, spoil):
        self._link, self._spoil = link, spoil

    def send(self, tag, content):
        self._link.send(tag, self._spoil(content))

    def receive(self, tag):
        return self._link.receive(tag)


class MeddlingMesh:
    def __init__(self, mesh, spoil):
        self._mesh = mesh
        self.links = {peer: Meddling(link, spoil) for peer, link in mesh.links.items()}

    def __getattr__(self, name):
        return getattr(self._mesh, name)


@pytest.mark.parametrize("spoil", [lambda content: content[:-9], lambda content: b"", lambda content: content * 3])
def test_messages_of_the_wrong_length_end_the_sum(authority, spoil):
    with_noise = JointSampler(1)

    def task(mesh):
        if mesh.me == 1:
            with pytest.raises((MemberLost, ValueError)):
                MpycAggregation(MeddlingMesh(mesh, spoil), 1).open_sum(np.zeros((1, 5), dtype=np.int64), with_noise)
            return None
        with pytest.raises((MemberLost, ValueError), match=r"another plan or version|was lost"):
            MpycAggregation(mesh, 1).open_sum(np.zeros((1, 5), dtype=np.int64), with_noise)
        return "refused"

    results = attempt([authority.credentials(i) for i in range(3)], patience=8, task=task)
    assert results[0] == results[2] == "refused"


def test_nobody_there_is_a_sentence(authority):
    with pytest.raises(MemberLost, match="cannot be reached"):
        TlsMesh(0, free_addresses(2), authority.credentials(0), 0.5)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.1:x", ":80"])
def test_addresses_are_host_and_port(address):
    with pytest.raises(ValueError, match="is not host:port"):
        TlsMesh(0, [address, "127.0.0.1:1"])
