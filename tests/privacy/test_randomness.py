"""Keys come from the operating system, never serve twice, and give uniform words and exact-looking normals."""

import copy
import os
import pickle
import subprocess
import sys
import threading
import time
from hashlib import blake2b

import mpmath
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from sordino.privacy import randomness as module
from sordino.privacy.noise_kernels import box_muller
from sordino.privacy.randomness import BLOCK, Randomness, Stream


def bits(words):
    return np.unpackbits(words.view(np.uint8))


# ---------------------------------------------------------------- where keys come from


def test_every_stream_takes_256_bits_from_the_operating_system(monkeypatch):
    asked = []

    def urandom(count):
        asked.append(count)
        return bytes([len(asked)]) * count

    monkeypatch.setattr(module.os, "urandom", urandom)
    randomness = Randomness.system()
    assert len(asked) == 2
    assert min(asked) >= 32
    assert not randomness.is_seeded
    assert randomness.noise.words(4).tolist() != randomness.sampling.words(4).tolist()


@pytest.mark.parametrize("position", [0, 13, 31])
def test_every_byte_of_the_key_counts(position):
    key = bytes(range(32))
    other = bytearray(key)
    other[position] ^= 1
    streams = [Stream(k, module._renew_from_system) for k in (key, bytes(other))]
    assert not set(streams[0].words(8).tolist()) & set(streams[1].words(8).tolist())
    assert streams[0].generator.random() != streams[1].generator.random()


def test_a_short_key_is_refused():
    with pytest.raises(ValueError, match="128 bits: AES-256 needs 256"):
        Stream(bytes(16), module._renew_from_system)


def test_two_runs_without_a_seed_differ():
    one, two = Randomness.system(), Randomness.system()
    drawn = [stream.words(64).tolist() for run in (one, two) for stream in (run.noise, run.sampling)]
    assert len({word for words in drawn for word in words}) == 4 * 64
    assert one.noise.generator.random() != two.noise.generator.random()


def test_a_seed_gives_the_same_values_and_says_so():
    one, two, other = Randomness.seeded(7), Randomness.seeded(7), Randomness.seeded(8)
    assert one.noise.words(9).tolist() == two.noise.words(9).tolist() != other.noise.words(9).tolist()
    assert one.noise.generator.random() == two.noise.generator.random() != other.noise.generator.random()
    assert one.noise.normals(3).tolist() == two.noise.normals(3).tolist()
    assert one.is_seeded
    assert one.describe() == "seeded: not private"
    assert Randomness.system().describe() == "operating system, AES-256-CTR"


@pytest.mark.parametrize(
    ("seed", "error", "sentence"), [(-1, ValueError, "must not be negative"), (0.5, TypeError, "whole number")]
)
def test_seeds_are_whole_and_not_negative(seed, error, sentence):
    with pytest.raises(error, match=sentence):
        Randomness.seeded(seed)


def test_words_are_the_aes_256_keystream():
    # the block cipher applied to 0, 1, 2, ... is counter mode, computed here without it
    key = blake2b(bytes(range(32)), digest_size=32, person=b"words").digest()
    ecb = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    expected = np.frombuffer(b"".join(ecb.update(i.to_bytes(16, "big")) for i in range(600)), dtype="<u8")
    assert Stream(bytes(range(32)), module._renew_from_system).words(1200).tolist() == expected.tolist()


def test_the_keystream_goes_on_where_a_counter_of_32_bits_ends(monkeypatch):
    monkeypatch.setattr(module, "_NUMBERED", 300)
    key = blake2b(bytes(range(32)), digest_size=32, person=b"words").digest()
    ecb = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    numbers = [(upper << 32) + lower for upper in range(4) for lower in range(300)]
    expected = np.frombuffer(b"".join(ecb.update(i.to_bytes(16, "big")) for i in numbers), dtype="<u8")
    stream = Stream(bytes(range(32)), module._renew_from_system)
    assert np.concatenate([stream.words(size) for size in (1, 700, 3, 1696)]).tolist() == expected.tolist()


def test_the_generator_is_chacha20_with_a_key_of_its_own():
    stream = Stream(bytes(range(32)), module._renew_from_system)
    state = stream.generator.bit_generator.state
    assert state["bit_generator"].endswith("ChaCha")
    assert state["state"]["rounds"] == 20
    key = state["state"]["keysetup"].tobytes()
    assert len(key) == 32
    assert key not in (bytes(range(32)), blake2b(bytes(range(32)), digest_size=32, person=b"words").digest())


# ---------------------------------------------------------------- what the words are like


def test_cutting_a_request_does_not_change_the_words():
    whole = Randomness.seeded(1).noise.words(3 * BLOCK)
    stream = Randomness.seeded(1).noise
    sizes = [1, 2, 2047, 2048, 2049, 2051, 3, 0, 5000, BLOCK + 7, 1, BLOCK - 1]
    sizes.append(3 * BLOCK - sum(sizes))
    pieces = np.concatenate([stream.words(size) for size in sizes])
    assert np.array_equal(pieces, whole)
    assert np.unique(whole).size == whole.size


def test_words_are_fair_coins():
    words = Randomness.seeded(2).noise.words(1 << 17)
    ones = bits(words).reshape(-1, 64).sum(axis=0)
    assert stats.chisquare(np.stack([ones, words.size - ones]), axis=0).pvalue.min() > 1e-4
    top = np.bincount((words >> np.uint64(52)).astype(int), minlength=4096)
    assert stats.chisquare(top).pvalue > 1e-3


def test_noise_and_sampling_are_independent():
    randomness = Randomness.seeded(3)
    n = 1 << 17
    agree = np.sum(bits(randomness.noise.words(n)) == bits(randomness.sampling.words(n)))
    assert abs(agree - 32 * n) < 4 * np.sqrt(16 * n)
    assert abs(np.corrcoef(randomness.noise.normals(n), randomness.sampling.normals(n))[0, 1]) < 4 / np.sqrt(n)
    # drawing from one does not move the other
    first, second = Randomness.seeded(4), Randomness.seeded(4)
    first.sampling.words(1000)
    first.sampling.generator.random(10)
    assert first.noise.words(5).tolist() == second.noise.words(5).tolist()


@pytest.mark.parametrize("spare", [0, 1, 2, 700])
def test_a_part_is_filled_and_nothing_else(spare):
    """Room behind a part lets the cipher write it in place; the words are the same."""
    expected = Randomness.seeded(6).noise.words(1403)
    stream = Randomness.seeded(6).noise
    words = np.zeros(5 + 1403 + spare, dtype=np.uint64)
    stream.fill(words, 5, 8)
    stream.fill(words, 8, 5 + 1403)
    assert words[5 : 5 + 1403].tolist() == expected.tolist()
    assert not words[:5].any()
    assert not words[5 + 1403 :].any()
    assert stream.words(1) == Randomness.seeded(6).noise.words(1404)[-1:]


def test_threads_never_share_a_word(monkeypatch):
    take = Stream._take

    def dawdling_take(self, *where):
        # long enough for another thread to step in, were the stream not locked
        left = self._left
        time.sleep(1e-5)
        self._left = left
        return take(self, *where)

    monkeypatch.setattr(Stream, "_take", dawdling_take)
    stream = Randomness.system().noise
    drawn = []

    def draw():
        drawn.extend(np.concatenate([stream.words(size) for size in (3, 700, 50) * 40]).tolist())

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == 4 * 40 * 753
    assert len(set(drawn)) == len(drawn)


# ---------------------------------------------------------------- normals


def normals_of(w, q):
    """Box and Muller with 40 digits, for the two words."""
    with mpmath.workdps(40):
        u = mpmath.mpf((w >> 12) * 2 + 1) / 2**53
        x = (mpmath.mpf((q >> 12) * 2 + 1) / 2**53 - mpmath.mpf(1) / 2) * mpmath.pi / 2
        r = mpmath.sqrt(-2 * mpmath.log(u))
        c = -mpmath.cos(x) if q & 1 else mpmath.cos(x)
        pair = (r * mpmath.sin(x), r * c)
        return [float(z) for z in (pair if not q & 2 else pair[::-1])]


def test_the_kernel_is_box_muller_to_the_last_digits():
    words = Randomness.seeded(5).noise.words(2000)
    ends = np.array([0, 2**64 - 1, 2**63, 2**63 - 1, 2**63 + 2**62, 1, 2, 2**12], dtype=np.uint64)
    # u closest to 0 and to 1, the angle at both ends and at zero, every exchange and sign
    w = np.concatenate([words[:1000], np.repeat(ends, 8)])
    q = np.concatenate([words[1000:], np.tile(ends, 8)])
    a, b = w.view(np.float64).copy(), q.view(np.float64).copy()
    box_muller(a, b)
    expected = np.array([normals_of(int(x), int(y)) for x, y in zip(w, q, strict=True)])
    np.testing.assert_allclose(np.stack([a, b], axis=1), expected, rtol=4e-15)
    assert 8.5 < np.abs(expected).max() < 8.6


@pytest.mark.parametrize("shape", [5, (3, 4), (), (0,), (2, 3, 1), BLOCK + 3])
def test_normals_have_the_shape_asked_for(shape):
    assert Randomness.seeded(6).noise.normals(shape).shape == np.empty(shape).shape


def normal_pvalues(x):
    """KS, variance, fourth moment and the count beyond 4 standard deviations."""
    n = x.size
    beyond = np.sum(np.abs(x) > 4)
    return [
        stats.kstest(x[: 1 << 18], "norm").pvalue,
        2 * stats.norm.sf(abs(np.mean(x**2) - 1) / np.sqrt(2 / n)),
        2 * stats.norm.sf(abs(np.mean(x**4) - 3) / np.sqrt(96 / n)),
        stats.binomtest(int(beyond), n, 2 * stats.norm.sf(4)).pvalue,
    ]


@pytest.mark.slow
def test_normals_are_normal_and_the_test_sees_one_percent():
    x = Randomness.seeded(7).noise.normals(1 << 21)
    assert min(normal_pvalues(x)) > 1e-3
    assert min(normal_pvalues(1.01 * x)) < 1e-6
    # neighbours, and the two of a pair, which lie half a block apart
    for lag in (1, BLOCK // 2):
        assert abs(np.corrcoef(x[:-lag], x[lag:])[0, 1]) < 4 / np.sqrt(x.size)
        assert abs(np.corrcoef(x[:-lag] ** 2, x[lag:] ** 2)[0, 1]) < 4 / np.sqrt(x.size)


# ---------------------------------------------------------------- no key serves twice


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_streams_refuse_to_be_copied(duplicate):
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        duplicate(Randomness.system().noise)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickle.dumps])
def test_randomness_refuses_to_be_duplicated(duplicate):
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        duplicate(Randomness.seeded(1))


def drawn_in_child(randomness, generator):
    """Three words and a double, drawn after a fork."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        words = randomness.noise.words(3)
        os.write(writer, words.tobytes() + np.float64(generator.random()).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    data = os.read(reader, 32)
    os.close(reader)
    return data


@pytest.mark.parametrize("make", [Randomness.system, lambda: Randomness.seeded(9)])
def test_a_forked_child_does_not_repeat_its_parent(make):
    randomness = make()
    generator = randomness.noise.generator
    randomness.noise.words(10)  # leaves a full buffer behind
    children = [drawn_in_child(randomness, generator) for _ in range(3)]
    parent = randomness.noise.words(3).tobytes() + np.float64(generator.random()).tobytes()
    halves = [(data[:24], data[24:]) for data in [*children, parent]]
    assert all(len(data) == 32 for data in children)
    assert len({words for words, _ in halves}) == 4
    assert len({double for _, double in halves}) == 4


def test_a_fork_leaves_the_parent_alone_and_seeded_children_repeat():
    children = []
    for _ in range(2):
        randomness = Randomness.seeded(10)
        children.append([drawn_in_child(randomness, randomness.noise.generator) for _ in range(2)])
        assert randomness.noise.words(5).tolist() == Randomness.seeded(10).noise.words(5).tolist()
    assert children[0] == children[1]
    assert children[0][0] != children[0][1]


def test_importing_is_cheap():
    heavy = "{'numba', 'randomgen', 'cryptography'} & set(sys.modules)"
    program = f"import sys, sordino.privacy.noise; sys.exit(str({heavy}) if {heavy} else 0)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
