"""The networks whose steps are measured, and data of their shape: random numbers or words, ten classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm


class Case(NamedTuple):
    """A network, the shape of a record, and the number of words where its records are words."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    words: int = 0

    def data(self, records: int) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(0)
        shape = (records, *self.shape)
        given = {"generator": generator}
        X = torch.randint(self.words, shape, **given) if self.words else torch.randn(shape, **given)
        return X, torch.randint(10, (records,), generator=generator)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(1000, 64), nn.Linear(64, 10)
        self.recurrent = kind(64, 64, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(self.recurrent(self.words(x))[0][:, -1])
        return found


class Transformer(nn.Module):
    """Four layers of width 128 over 64 positions; their places in a table, or in a parameter of no layer."""

    def __init__(self, bare: bool = False) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.words, self.norm, self.out = nn.Embedding(5000, 128), nn.LayerNorm(128), nn.Linear(128, 10)
        self.table = None if bare else nn.Embedding(64, 128)
        self.bare = nn.Parameter(0.02 * torch.randn(64, 128)) if bare else None

    def forward(self, x: Tensor) -> Tensor:
        places = self.bare if self.table is None else self.table(torch.arange(64).expand(len(x), -1))
        found: Tensor = self.out(self.norm(self.encoder(self.words(x) + places)).mean(1))
        return found


class Residual(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.GroupNorm(8, out), nn.GroupNorm(8, out)])
        same = channels == out and stride == 1
        self.short = nn.Identity() if same else nn.Conv2d(channels, out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(h)) + self.short(x))


class Products(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.out = nn.Linear(64, 64), nn.Bilinear(64, 64, 32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(torch.relu(self.second(torch.tanh(self.first(x)), x)))
        return found


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))


def _cnn() -> nn.Module:
    layers = [nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU()]
    layers += [nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10)]
    return nn.Sequential(*layers)


def _resnet() -> nn.Module:
    blocks = [(16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1)]
    start = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.GroupNorm(8, 16), nn.ReLU()]
    end = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(*start, *(Residual(*block) for block in blocks), *end)


def _images(first: nn.Module, second: nn.Module, size: int) -> nn.Module:
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), nn.Linear(size, 10))


def _instances() -> nn.Module:
    layers = [nn.Conv2d(1, 16, 3), nn.InstanceNorm2d(16, affine=True), nn.ReLU()]
    layers += [nn.Conv2d(16, 16, 3, 2), nn.InstanceNorm2d(16, affine=True), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2304, 10))


def _wide(*between: Callable[[], nn.Module]) -> nn.Module:
    layers = [layer for build in between for layer in (nn.Linear(256, 256), build())]
    return nn.Sequential(*layers, nn.Linear(256, 10))


NETWORKS = {
    "mlp": Case(_mlp, (784,)),
    "cnn": Case(_cnn, (1, 28, 28)),
    "resnet": Case(_resnet, (3, 32, 32)),
    "transformer": Case(Transformer, (64,), 5000),
    "transformer, bare parameter": Case(partial(Transformer, True), (64,), 5000),
    "lstm": Case(partial(Recurrent, nn.LSTM), (32,), 1000),
    "gru": Case(partial(Recurrent, nn.GRU), (32,), 1000),
    "rnn": Case(partial(Recurrent, nn.RNN), (32,), 1000),
    "conv3d": Case(lambda: _images(nn.Conv3d(1, 8, 3, 2), nn.Conv3d(8, 16, 3), 2000), (1, 16, 16, 16)),
    "conv transpose 1d": Case(
        lambda: _images(nn.ConvTranspose1d(4, 16, 4, 2, 1), nn.ConvTranspose1d(16, 16, 4, 2, 1), 2048), (4, 32)
    ),
    "conv transpose 2d": Case(
        lambda: _images(nn.ConvTranspose2d(4, 16, 4, 2, 1), nn.ConvTranspose2d(16, 16, 4, 2, 1), 16384), (4, 8, 8)
    ),
    "conv transpose 3d": Case(
        lambda: _images(nn.ConvTranspose3d(2, 8, 4, 2, 1), nn.ConvTranspose3d(8, 8, 4, 2, 1), 32768), (2, 4, 4, 4)
    ),
    "rms norm": Case(lambda: _wide(lambda: nn.RMSNorm(256)), (256,)),
    "instance norm": Case(_instances, (1, 28, 28)),
    "prelu": Case(lambda: _wide(lambda: nn.PReLU(256), nn.PReLU), (256,)),
    "embedding bag": Case(
        lambda: nn.Sequential(nn.EmbeddingBag(1000, 64), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), (32,), 1000
    ),
    "bilinear": Case(Products, (64,)),
    "weight norm": Case(lambda: nn.Sequential(weight_norm(nn.Linear(256, 256)), nn.ReLU(), nn.Linear(256, 10)), (256,)),
}
