"""Small networks of every kind of layer, and their gradients record by record from torch.func in double precision."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils.parametrizations import weight_norm

from sordino.oracle.torch import load_parameters, network_problem, parameter_vector

RECORDS, CLASSES = 13, 3
CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")


@dataclass(frozen=True)
class Network:
    """A model, inputs for it, and whether the oracle knows all its layers."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    words: int = 0
    known: bool = True

    def model(self, dtype: torch.dtype = torch.float64) -> nn.Module:
        torch.manual_seed(5)
        model = self.build().to(dtype)
        with torch.no_grad():
            for parameter in model.parameters():
                # zeros and ones at the start would hide a factor that is left out
                parameter.add_(0.2 * torch.randn(parameter.shape).to(dtype))
        return model

    def data(self, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(7)
        shape = (RECORDS, *self.shape)
        if self.words:
            X = torch.randint(self.words, shape, generator=generator)
        else:
            # in single precision, so that both dtypes see the same numbers; of very different lengths
            lengths = torch.logspace(-1, 0.7, RECORDS).view(-1, *[1] * len(self.shape))
            X = (torch.randn(shape, generator=generator) * lengths).to(dtype)
        return X, torch.randint(CLASSES, (RECORDS,), generator=generator)


class Lambda(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Twice(nn.Module):
    """One layer called twice."""

    def __init__(self, layer: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.layer, self.head = layer, head

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.layer(torch.tanh(self.layer(x)))))


class Tied(nn.Module):
    """Words in, words out through the same table, then classes."""

    def __init__(self, functional: bool = False) -> None:
        super().__init__()
        self.words, self.inner = nn.Embedding(11, 4), nn.Linear(4, 4)
        self.out = nn.Linear(4, 11, bias=False)
        self.out.weight = self.words.weight
        self.functional = functional

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.inner(self.words(x)))
        scores = F.linear(h, self.words.weight) if self.functional else self.out(h)
        return torch.tanh(scores).mean(1)[:, :CLASSES]


class OwnAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(9, 6), nn.Embedding(5, 6)
        self.q, self.k, self.v, self.out = (nn.Linear(6, 6) for _ in range(4))
        self.norm, self.head = nn.LayerNorm(6), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.words(x) + self.places(torch.arange(x.shape[1]))
        a = torch.softmax(self.q(h) @ self.k(h).transpose(1, 2) / math.sqrt(6), -1) @ self.v(h)
        return self.head(self.norm(h + self.out(a)).mean(1))


class Attention(nn.Module):
    """Self-attention, then attention from one place to all; records on either axis."""

    def __init__(self, batch_first: bool, **settings: object) -> None:
        super().__init__()
        self.first = nn.MultiheadAttention(4, 2, batch_first=batch_first)
        self.second = nn.MultiheadAttention(4, 2, batch_first=batch_first, **settings)
        self.head, self.batch_first = nn.Linear(4, CLASSES), batch_first

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.batch_first else x.transpose(0, 1)
        mask = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
        h, _ = self.first(x, x, x, attn_mask=mask, need_weights=False)
        one = h[:, :1] if self.batch_first else h[:1]
        h, weights = self.second(one, x, x, need_weights=True)
        return self.head(h[:, 0] if self.batch_first else h[0]) + weights.mean((1, 2))[:, None]


class Padded(nn.Module):
    """A transformer of words, with padding."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(9, 4, padding_idx=0)
        layer = nn.TransformerEncoderLayer(4, 2, 6, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        padding = x == 0
        padding[:, 0] = False
        return self.head(self.encoder(self.words(x), src_key_padding_mask=padding).mean(1))


class Sequences(nn.Module):
    """A recurrent layer of PyTorch: all that comes out of it, and its last state."""

    def __init__(self, kind: type[nn.RNNBase], batch_first: bool = True, **settings: object) -> None:
        super().__init__()
        self.rnn = kind(3, 4, batch_first=batch_first, **settings)
        self.head, self.time = nn.Linear(4 * (1 + self.rnn.bidirectional), CLASSES), 1 if batch_first else 0

    def forward(self, x: Tensor) -> Tensor:
        out, state = self.rnn(x if self.time else x.transpose(0, 1))
        last = state[0] + state[1] if isinstance(state, tuple) else state
        return self.head(torch.tanh(out).mean(self.time)) + last.mean((0, 2))[:, None]


class Recurrent(nn.Module):
    """The parameters of a recurrent layer, without the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        # of a batch given by torch.func as of any other
        h = torch.zeros(len(x), 4, dtype=x.dtype)
        c = torch.zeros_like(h)
        for t in range(x.shape[1]):
            gates = x[:, t] @ self.rnn.weight_ih_l0.T + self.rnn.bias_ih_l0
            gates = gates + h @ self.rnn.weight_hh_l0.T + self.rnn.bias_hh_l0
            i, f, g, o = gates.chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return self.head(h)


class Pictures(nn.Module):
    """Several pictures of one record, normalised twice by the same weights."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.GroupNorm(2, 4), nn.Linear(24, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        pictures = self.norm(torch.tanh(self.norm(x.flatten(0, 1))))
        return self.out(pictures.reshape(len(x), -1))


class Upwards(nn.Module):
    """A transposed convolution that is told how long its output is to be."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.ConvTranspose1d(2, 3, 3, stride=3), nn.Linear(51, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.layer(x, output_size=[17])).flatten(1))


class Products(nn.Module):
    """Products of a record with what a layer made of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(6, 4), nn.Bilinear(4, 6, 5), nn.Linear(5, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.second(torch.tanh(self.first(x)), x)))


class NormedAndUsed(nn.Module):
    """A weight under weight_norm that is looked at beside its layer."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = weight_norm(nn.Linear(6, 4)), nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.layer(x))) + (x @ self.layer.weight.T).square().mean(1, keepdim=True)


class Loose(nn.Module):
    """A parameter of no layer."""

    def __init__(self) -> None:
        super().__init__()
        self.shift, self.head = nn.Parameter(torch.zeros(1, 6)), nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(x + self.shift))


def _convolution(layer: nn.Module, size: int, *between: nn.Module) -> nn.Module:
    return nn.Sequential(layer, nn.Tanh(), *between, nn.Flatten(), nn.Linear(size, CLASSES))


def _positions(width: int) -> nn.Module:
    mean = Lambda(lambda h: h.mean(1))
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), mean, nn.Linear(width, 3))


def _frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, CLASSES))
    model[0].requires_grad_(False)
    model[2].bias.requires_grad_(False)
    return model


def _kept_statistics() -> nn.Module:
    norm = nn.InstanceNorm1d(2, affine=True, track_running_stats=True)
    norm.running_mean += 0.5
    return nn.Sequential(norm.eval(), nn.Flatten(), nn.Linear(8, CLASSES))


def _normed_and_frozen() -> nn.Module:
    layers = [weight_norm(nn.Linear(6, 4, bias=False)), nn.Tanh(), weight_norm(nn.Linear(4, 4)), nn.Tanh()]
    layers[0].parametrizations.weight.original0.requires_grad_(False)
    layers[2].parametrizations.weight.original1.requires_grad_(False)
    return nn.Sequential(*layers, nn.Linear(4, CLASSES))


def _normed_positions(width: int) -> nn.Module:
    mean = Lambda(lambda h: h.mean(1))
    return nn.Sequential(
        nn.Linear(3, 4), nn.Tanh(), weight_norm(nn.Linear(4, width)), nn.Tanh(), mean, nn.Linear(width, 3)
    )


NETWORKS = {
    "linear": Network(lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, CLASSES)), (6,)),
    "linear, no bias": Network(
        lambda: nn.Sequential(nn.Linear(6, 5, bias=False), nn.Tanh(), nn.Linear(5, CLASSES, bias=False)), (6,)
    ),
    "linear, in-place activation": Network(
        lambda: nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, CLASSES)), (6,)
    ),
    "linear, partly frozen": Network(_frozen, (6,)),
    "linear, few positions": Network(lambda: _positions(8), (2, 3)),
    "linear, many positions": Network(lambda: _positions(4), (9, 3)),
    "linear, wide positions": Network(lambda: _positions(48), (17, 3)),
    "linear, two axes of positions": Network(
        lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Flatten(), nn.Linear(24, CLASSES)), (2, 3, 3)
    ),
    "conv1d": Network(lambda: _convolution(nn.Conv1d(2, 4, 3, stride=2, padding=1), 16), (2, 8)),
    "conv1d, dilated": Network(lambda: _convolution(nn.Conv1d(2, 4, 3, dilation=2, padding=2), 32), (2, 8)),
    "conv2d": Network(lambda: _convolution(nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=(1, 0)), 45), (2, 6, 6)),
    "conv2d, groups": Network(
        lambda: _convolution(
            nn.Conv2d(4, 6, 3, groups=2), 96, nn.Conv2d(6, 6, 3, padding=1, groups=6, bias=False), nn.Tanh()
        ),
        (4, 6, 6),
    ),
    "conv2d, dilated": Network(lambda: _convolution(nn.Conv2d(1, 3, 3, dilation=2, padding=2), 75), (1, 5, 5)),
    "conv2d, same size": Network(lambda: _convolution(nn.Conv2d(2, 3, 4, padding="same"), 75), (2, 5, 5)),
    "conv2d, circular": Network(
        lambda: _convolution(nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), 75), (2, 5, 5)
    ),
    "conv2d, twice": Network(
        lambda: Twice(nn.Conv2d(2, 2, 3, padding=1), nn.Sequential(nn.Flatten(), nn.Linear(32, 3))), (2, 4, 4)
    ),
    "conv3d": Network(
        lambda: _convolution(nn.Conv3d(2, 3, (2, 3, 2), stride=(1, 2, 1), padding=(0, 1, 1)), 36), (2, 3, 4, 2)
    ),
    "conv1d, transposed": Network(
        lambda: _convolution(nn.ConvTranspose1d(2, 4, 3, stride=2, padding=1, output_padding=1), 40), (2, 5)
    ),
    "conv2d, transposed": Network(
        lambda: _convolution(nn.ConvTranspose2d(4, 6, (3, 2), stride=(2, 1), groups=2, bias=False), 168), (4, 3, 3)
    ),
    "conv2d, transposed, dilated": Network(
        lambda: _convolution(nn.ConvTranspose2d(2, 3, 2, stride=2, dilation=3, output_padding=2), 300), (2, 3, 3)
    ),
    "conv1d, transposed, given a size": Network(Upwards, (2, 5)),
    "conv3d, transposed": Network(lambda: _convolution(nn.ConvTranspose3d(2, 2, 2, padding=1), 16), (2, 3, 3, 3)),
    "embedding": Network(
        lambda: nn.Sequential(nn.Embedding(9, 4), nn.Tanh(), nn.Flatten(), nn.Linear(24, CLASSES)), (6,), words=9
    ),
    "embedding, padding": Network(
        lambda: nn.Sequential(nn.Embedding(4, 4, padding_idx=1), nn.Flatten(), nn.Linear(24, CLASSES)), (6,), words=4
    ),
    "layer norm": Network(lambda: nn.Sequential(nn.LayerNorm(6), nn.Linear(6, CLASSES)), (6,)),
    "layer norm, positions": Network(
        lambda: nn.Sequential(nn.LayerNorm((2, 3)), nn.Flatten(), nn.Linear(24, CLASSES)), (4, 2, 3)
    ),
    "group norm": Network(
        lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(36, 3)), (1, 5, 5)
    ),
    "group norm, no weights": Network(
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1),
            nn.GroupNorm(2, 4, affine=False),
            nn.ReLU(),
            nn.Conv2d(4, 4, 3),
            nn.Flatten(),
            nn.Linear(36, CLASSES),
        ),
        (1, 5, 5),
    ),
    "group norm, one channel": Network(
        lambda: nn.Sequential(nn.Conv2d(1, 1, 2), nn.GroupNorm(1, 1), nn.Tanh(), nn.Flatten(), nn.Linear(16, CLASSES)),
        (1, 5, 5),
    ),
    "group norm, flat": Network(lambda: nn.Sequential(nn.GroupNorm(2, 6), nn.Linear(6, CLASSES)), (6,)),
    "group norm, several pictures": Network(Pictures, (3, 4, 2)),
    "rms norm": Network(
        lambda: nn.Sequential(nn.Linear(3, 4), nn.RMSNorm(4), nn.Flatten(), nn.Linear(12, CLASSES)), (3, 3)
    ),
    "instance norm": Network(
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.Tanh(), nn.Flatten(), nn.Linear(36, CLASSES)
        ),
        (1, 5, 5),
    ),
    "instance norm, kept statistics": Network(_kept_statistics, (2, 4), known=False),
    "prelu": Network(
        lambda: nn.Sequential(nn.Linear(6, 4), nn.PReLU(4), nn.Linear(4, 4), nn.PReLU(), nn.Linear(4, CLASSES)), (6,)
    ),
    "prelu, channels": Network(
        lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.PReLU(4), nn.Flatten(), nn.Linear(16, CLASSES)), (2, 6)
    ),
    "bag of words": Network(
        lambda: nn.Sequential(nn.EmbeddingBag(9, 4), nn.Tanh(), nn.Linear(4, CLASSES)), (6,), words=9
    ),
    "bag of words, sum": Network(
        lambda: nn.Sequential(nn.EmbeddingBag(9, 4, mode="sum"), nn.Tanh(), nn.Linear(4, CLASSES)), (6,), words=9
    ),
    "bilinear": Network(Products, (6,)),
    "attention of linear layers": Network(OwnAttention, (5,), words=9),
    "multihead attention": Network(lambda: Attention(True), (5, 4)),
    "multihead attention, sequence first": Network(lambda: Attention(False, bias=False), (5, 4)),
    "multihead attention, other sizes": Network(lambda: Attention(True, kdim=4, vdim=4), (5, 4)),
    "transformer": Network(Padded, (6,), words=9),
    "one layer twice": Network(lambda: Twice(nn.Linear(6, 6), nn.Linear(6, CLASSES)), (6,)),
    "one layer twice, positions": Network(
        lambda: Twice(nn.Linear(4, 4), nn.Sequential(nn.Flatten(), nn.Linear(12, CLASSES))), (3, 4)
    ),
    "tied words": Network(Tied, (5,), words=11),
    "tied by a function": Network(lambda: Tied(functional=True), (5,), words=11, known=False),
    "lstm": Network(lambda: Sequences(nn.LSTM), (4, 3)),
    "gru": Network(lambda: Sequences(nn.GRU), (4, 3)),
    "rnn": Network(lambda: Sequences(nn.RNN), (4, 3)),
    "recurrent, two layers in both directions": Network(
        lambda: Sequences(nn.LSTM, num_layers=2, bidirectional=True), (3, 3)
    ),
    "recurrent, sequence first, no bias": Network(lambda: Sequences(nn.GRU, False, bias=False), (4, 3)),
    "recurrent by hand": Network(Recurrent, (4, 3), known=False),
    "loose parameter": Network(Loose, (6,), known=False),
    "weight norm": Network(lambda: nn.Sequential(weight_norm(nn.Linear(6, 4)), nn.Tanh(), nn.Linear(4, CLASSES)), (6,)),
    "weight norm, few positions": Network(lambda: _normed_positions(20), (2, 3)),
    "weight norm, many positions": Network(lambda: _normed_positions(5), (9, 3)),
    "weight norm, wide positions": Network(lambda: _normed_positions(48), (17, 3)),
    "weight norm, partly frozen": Network(_normed_and_frozen, (6,)),
    "weight norm, one layer twice": Network(lambda: Twice(weight_norm(nn.Linear(6, 6)), nn.Linear(6, CLASSES)), (6,)),
    "weight norm, used by itself": Network(NormedAndUsed, (6,), known=False),
    "conv2d, weight norm": Network(
        lambda: _convolution(
            weight_norm(nn.Conv2d(4, 6, 3, groups=2)), 96, weight_norm(nn.Conv2d(6, 6, 3, padding=1, bias=False))
        ),
        (4, 6, 6),
    ),
    "conv1d, circular, weight norm": Network(
        lambda: _convolution(weight_norm(nn.Conv1d(2, 4, 3, stride=2, padding=1, padding_mode="circular")), 16), (2, 8)
    ),
    "conv1d, transposed, weight norm": Network(
        lambda: _convolution(weight_norm(nn.ConvTranspose1d(2, 4, 3)), 28), (2, 5), known=False
    ),
}


LONG = (
    "attention",
    "transformer",
    "recurrent",
    "tied",
    "dilated",
    "circular",
    "other sizes",
    "weight norm, ",
    "group norm",
)
"""Networks whose operations are many or slow: in `make test` the others stand for them, `make slow` has them all."""


def named(*, where: Callable[[Network], bool] = lambda network: True) -> list:
    """Every network's name as a parameter of a test."""
    slow = {name: [pytest.mark.slow] for name in NETWORKS if any(word in name for word in LONG)}
    return [pytest.param(name, marks=slow.get(name, [])) for name, network in NETWORKS.items() if where(network)]


def gradients(model: nn.Module, data: tuple[Tensor, Tensor], at: np.ndarray, loss=CROSS_ENTROPY) -> np.ndarray:
    """Every record's gradient in double precision, records x parameters."""
    model = copy.deepcopy(model)
    load_parameters(model, at)
    model = model.double()
    X, y = (part.double() if part.is_floating_point() else part for part in data)
    trained = {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}

    def loss_of(parameters, x, target):
        return loss(torch.func.functional_call(model, parameters, (x[None],)), target[None]).sum()

    found = [torch.func.grad(loss_of)(trained, x, target) for x, target in zip(X, y, strict=True)]
    return np.stack([np.concatenate([g[name].reshape(-1).numpy() for name in trained]) for g in found])


def clipped(rows: np.ndarray, clip: float) -> np.ndarray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1, clip / np.maximum(norms, 1e-300))


def two_points(model: nn.Module, apart: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """The model's parameters and others near them, as this model's dtype can hold them."""
    since = parameter_vector(model)
    dtype = next(model.parameters()).dtype
    moved = torch.from_numpy(since + apart * np.random.default_rng(3).normal(size=since.size))
    return moved.to(dtype).double().numpy(), since


def problem_of(model: nn.Module, records: int = RECORDS):
    return network_problem(model, records)
