"""Where random bits come from: the operating system, stretched by AES-256 in counter mode.

Noise that an adversary can predict protects nobody, so a run draws a fresh 256-bit key for each of its two streams:
one for the noise, one for choosing batches. A seed replaces the keys in tests, and the certificate then says so.

A key must never serve twice, or the difference of two releases would be free of noise: streams refuse to be copied or
pickled, and a forked child takes new keys before it draws anything.
"""

from __future__ import annotations

import math
import operator
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext

BLOCK = 1 << 16
"""Words per pass: small enough for the second-level cache, large enough to hide the calls."""

SPARE = 2
"""Words that the cipher wants free behind its output."""

_KEY_BYTES = 32
_BUFFER = 2048
_ZEROS = bytes(1 << 17)  # encrypted over and over, so few that they stay in the cache beside what is written
_NUMBERED = 1 << 32  # blocks of 16 bytes that a counter of 32 bits tells apart

SYSTEM, SEEDED = "operating system, AES-256-CTR", "seeded: not private"
"""Where bits come from, as certificates state it."""


class Stream:
    """An endless sequence of 64-bit words under one 256-bit key. Safe to share between threads."""

    __slots__ = (
        "__weakref__",
        "_buffer",
        "_cipher",
        "_ciphers",
        "_forks",
        "_generator",
        "_key",
        "_left",
        "_lock",
        "_renew",
        "_room",
        "predrawn",
    )

    _key: bytes
    _ciphers: Iterator[tuple[CipherContext, int]]
    _cipher: CipherContext
    _room: int
    _generator: np.random.Generator | None
    _lock: threading.Lock
    _left: int
    predrawn: dict[Any, Any]
    """What was made of its words for later, and is as secret: no copy has it, and no child process."""

    def __init__(self, key: bytes, renew: Callable[[bytes, int], bytes]) -> None:
        """`renew(key, forks)` is the key of a child process, `forks` counting the children so far."""
        if len(key) != _KEY_BYTES:
            raise ValueError(f"the key has {8 * len(key)} bits: AES-256 needs 256.")
        self._renew = renew
        self._buffer = np.empty(_BUFFER + SPARE, dtype=np.uint64)
        self._generator = None
        self._forks = 0
        self._start(key)
        _streams.add(self)

    def words(self, count: int) -> NDArray[np.uint64]:
        """The next `count` uniform words. Cutting a request in two does not change what comes."""
        words = np.empty(count + SPARE, dtype=np.uint64)
        self.fill(words, 0, count)
        return words[:count]

    def fill(self, words: NDArray[np.uint64], start: int = 0, stop: int | None = None) -> None:
        """Overwrite words[start:stop] of a contiguous array with the next ones; room behind them makes it faster."""
        stop = words.size if stop is None else stop
        with self._lock:
            start = self._take(words, start, stop)
            # large requests are written in place, small ones come through the buffer
            end = min(stop, words.size - SPARE)
            if end - start >= _BUFFER:
                start = self._encrypt(words, start, end)
            while start < stop:
                self._encrypt(self._buffer, 0, _BUFFER)
                self._left = _BUFFER
                start = self._take(words, start, stop)

    def normals(self, shape: int | tuple[int, ...]) -> NDArray[np.float64]:
        """Independent N(0, 1) in double precision, up to 8.57 standard deviations (Box and Muller 1958)."""
        from sordino.privacy.noise_kernels import box_muller

        count = math.prod((shape,) if isinstance(shape, int) else shape)
        normals = np.empty(count + count % 2)
        for first in range(0, normals.size, BLOCK):
            block = normals[first : first + BLOCK]
            self.fill(block.view(np.uint64))
            half = block.size // 2
            box_muller(block[:half], block[half:])
        return normals[:count].reshape(shape)

    @property
    def generator(self) -> np.random.Generator:
        """NumPy's distributions on ChaCha20, under a 256-bit key of its own derived from this stream's."""
        if self._generator is None:
            with self._lock:
                if self._generator is None:
                    self._generator = np.random.Generator(_chacha(self._key))
        return self._generator

    def _start(self, key: bytes) -> None:
        self._key = key
        self._ciphers = _counter_mode(_derive(key, b"words"))
        self._room = 0
        self._left = 0
        self._lock = threading.Lock()
        self.predrawn = {}
        if self._generator is not None:
            # whoever already holds the generator must get the new key too
            self._generator.bit_generator.state = _chacha(key).state

    def _restart_in_child(self) -> None:
        self._start(self._renew(self._key, self._forks))

    def _take(self, words: NDArray[np.uint64], start: int, stop: int) -> int:
        count = min(self._left, stop - start)
        if count:
            first = _BUFFER - self._left
            words[start : start + count] = self._buffer[first : first + count]
            self._left -= count
        return start + count

    def _encrypt(self, words: NDArray[np.uint64], start: int, end: int) -> int:
        target, first = words.view(np.uint8).data, 8 * start
        while first < 8 * end:
            if not self._room:
                self._cipher, self._room = next(self._ciphers)
            length = min(len(_ZEROS), 8 * end - first, self._room)
            self._cipher.update_into(memoryview(_ZEROS)[:length], target[first : first + length + 8 * SPARE])
            self._room -= length
            first += length
        return end

    def __copy__(self) -> NoReturn:
        raise TypeError(
            "a random stream cannot be copied or pickled: the copy would draw the same noise again, and the "
            "difference of two releases would show the records. Pass the Randomness itself, or make a new one."
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        self.__copy__()


@dataclass(frozen=True)
class Randomness:
    """Two independent streams: `noise` for what is added to answers, `sampling` for which records are asked."""

    noise: Stream
    sampling: Stream
    is_seeded: bool

    @staticmethod
    def system() -> Randomness:
        """256 bits from the operating system for each stream."""
        noise, sampling = (Stream(os.urandom(_KEY_BYTES), _renew_from_system) for _ in range(2))
        return Randomness(noise, sampling, is_seeded=False)

    @staticmethod
    def seeded(seed: int) -> Randomness:
        """The same values every time, for tests: whoever knows the seed can subtract the noise."""
        try:
            number = operator.index(seed)
        except TypeError:
            raise TypeError(f"seed is {seed!r}: a whole number is needed.") from None
        if number < 0:
            raise ValueError(f"seed is {number}: it must not be negative.")
        key = str(number).encode()
        noise, sampling = (Stream(_derive(key, purpose), _renew_from_seed) for purpose in (b"noise", b"sampling"))
        return Randomness(noise, sampling, is_seeded=True)

    def describe(self) -> str:
        """As the certificate states it."""
        return SEEDED if self.is_seeded else SYSTEM


def _derive(key: bytes, purpose: bytes) -> bytes:
    return blake2b(key, digest_size=_KEY_BYTES, person=purpose).digest()


def _renew_from_system(key: bytes, forks: int) -> bytes:
    return os.urandom(_KEY_BYTES)


def _renew_from_seed(key: bytes, forks: int) -> bytes:
    return _derive(key, b"fork %d" % forks)


def _counter_mode(key: bytes) -> Iterator[tuple[CipherContext, int]]:
    """AES-256 of the numbers 0, 1, 2, ..; the key is new, so they may begin at zero. Ciphers, each with its bytes.

    Of the 2^32 numbers with the same upper 96 bits, all but the first two are those that Galois counter mode uses, for
    which processors have wider code than for plain counter mode: what it also computes costs less than it saves.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    aes = algorithms.AES(key)
    for upper in count():
        prefix = upper.to_bytes(12, "big")
        yield Cipher(aes, modes.CTR(prefix + bytes(4))).encryptor(), 2 * 16
        yield Cipher(aes, modes.GCM(prefix)).encryptor(), (_NUMBERED - 2) * 16


def _chacha(key: bytes) -> Any:
    from randomgen import ChaCha

    return ChaCha(key=int.from_bytes(_derive(key, b"generator"), "little"), rounds=20)


_streams: weakref.WeakSet[Stream] = weakref.WeakSet()


def _count_fork() -> None:
    for stream in list(_streams):
        stream._forks += 1


def _restart_streams() -> None:
    for stream in list(_streams):
        stream._restart_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_count_fork, after_in_child=_restart_streams)
