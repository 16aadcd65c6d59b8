"""Made-up threads for compiled loops: one after the other."""

import ctypes

from sordino.privacy.team import Team

_LOOP = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_PARALLEL = ctypes.CFUNCTYPE(None, _LOOP, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
_kept = []


def made_up(threads, come=None):
    """A team of `threads`, of which `come` come when they are called; by default all."""

    def parallel(loop, state, wanted, flags):
        assert (wanted, flags) == (threads, 0)
        for _ in range(come or threads):
            loop(state)

    _kept.append(_PARALLEL(parallel))
    return Team(ctypes.cast(_kept[-1], ctypes.c_void_p).value, threads)
