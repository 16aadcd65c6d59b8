from __future__ import annotations

import enum
from types import SimpleNamespace


class ProtocolKind(enum.Enum):
    SEMI2K = 1


class FieldType(enum.Enum):
    FM64 = 1


class Visibility(enum.Enum):
    VIS_SECRET = 1


class SourceIRType(enum.Enum):
    STABLEHLO = 1


class RuntimeConfig:
    def __init__(self, protocol, field):
        self.protocol, self.field = protocol, field


class CompilationSource(SimpleNamespace):
    pass


class CompilerOptions(SimpleNamespace):
    pass


class Executable(SimpleNamespace):
    pass


class Share(SimpleNamespace):
    pass


def _options():
    return SimpleNamespace(cert=SimpleNamespace(), verify=SimpleNamespace())


class _Desc:
    def __init__(self):
        self.parties = []
        self.client_ssl_opts, self.server_ssl_opts = _options(), _options()

    def add_party(self, name, address):
        self.parties.append((name, address))


link = SimpleNamespace(Desc=_Desc, create_brpc=lambda description, rank: (description, rank))
