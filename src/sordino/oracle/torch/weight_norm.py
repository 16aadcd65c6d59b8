r"""Linear layers and convolutions under `weight_norm`, W_r = g_r v_r / |v_r| for every output r, in layers with a rule.

    z = v a  (a linear layer or a convolution),      s_r = z_r / |v_r|,      y_r = g_r s_r + b_r.

v is used twice. To its gradient as a weight, sum_t e_t a_t' with the gradient e at z, comes that of the lengths, which
depends on the record by one number per output. With the gradient e at s,

    d/dv_r sum_t e_tr z_tr / |v_r|  =  u_r (-v_r / |v_r|^3),      u_r = sum_t e_tr z_tr.
"""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import _WeightNorm
from torch.nn.utils.parametrize import ParametrizationList, is_parametrized
from torch.nn.utils.weight_norm import WeightNorm

from sordino.oracle.torch.opened import Known, piece
from sordino.oracle.torch.parameters import Place

Inner = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d

_IMAGES = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")
_SETTINGS: dict[type[Inner], tuple[str, ...]] = {
    nn.Linear: ("in_features", "out_features"),
    nn.Conv1d: _IMAGES,
    nn.Conv2d: _IMAGES,
    nn.Conv3d: _IMAGES,
}


class Channels(nn.Module):
    """One number per output of a linear layer or a convolution. `axes` stand behind the outputs, of images."""

    def __init__(self, inner: Inner) -> None:
        super().__init__()
        self.axes = 0 if isinstance(inner, nn.Linear) else len(inner.kernel_size)

    def spread(self, numbers: Tensor) -> Tensor:
        return numbers.view(-1, *[1] * self.axes)


class Unit(Channels):
    """z_r / |v_r|."""

    def __init__(self, inner: Inner) -> None:
        super().__init__(inner)
        self.weight = inner.weight
        # not as a layer of this one
        self.inner = (inner,)

    def forward(self, z: Tensor) -> Tensor:
        return z / self.spread(_lengths(self.weight))

    def rows(self, dtype: torch.dtype) -> Tensor:
        """-v_r / |v_r|^3. Where v_r = 0 no record has a loss, and their sum must be zero all the same."""
        v = self.weight.detach().flatten(1).to(dtype)
        lengths = _lengths(v)[:, None]
        # one after the other: a third power may be too large, or too small
        return (v / lengths).div_(lengths).div_(lengths).neg_().nan_to_num_(0, 0, 0)


def _lengths(v: Tensor) -> Tensor:
    lengths: Tensor = torch.linalg.vector_norm(v, dim=tuple(range(1, v.ndim)))
    return lengths


class Affine(Channels):
    """g_r s_r + b_r."""

    weight: nn.Parameter
    bias: nn.Parameter | None

    def forward(self, s: Tensor) -> Tensor:
        scaled = s * self.spread(self.weight)
        return scaled if self.bias is None else scaled + self.spread(self.bias)


def opened(name: str, layer: Inner, known: Known) -> list[Place] | None:
    """None where lengths are not those of outputs (`dim`), or the layer computes something of its own."""
    found, inner = _parameters(layer), _like(layer)
    if found is None or inner is None:
        return None
    g, v = found
    inner.weight, places = piece(v, f"{name}.inner.weight", known)
    affine = Affine(inner)
    affine.weight, place = piece(g, f"{name}.affine.weight", known, shape=(len(v),))
    places += place
    affine.bias = None
    if layer.bias is not None:
        affine.bias, place = piece(layer.bias, f"{name}.affine.bias", known)
        places += place
    layer.inner, layer.unit, layer.affine = inner, Unit(inner), affine
    layer.forward = partial(_forward, layer)  # type: ignore[method-assign]
    return places


def is_normed(layer: nn.Module) -> bool:
    return _parameters(layer) is not None


def _parameters(layer: nn.Module) -> tuple[nn.Parameter, nn.Parameter] | None:
    """g and v of a weight that is computed from them alone, an output at a time, in a layer with no other addition."""
    owner, names = layer, ("weight_g", "weight_v")
    if is_parametrized(layer):
        found = cast(nn.ModuleDict, layer.parametrizations).items()
        lists = {name: cast(ParametrizationList, each) for name, each in found}
        how = [(name, type(each), getattr(each, "dim", None)) for name, all_of in lists.items() for each in all_of]
        owner, names = lists.get("weight", layer), ("original0", "original1")
    else:
        hooks = (hook for hook in layer._forward_pre_hooks.values() if isinstance(hook, WeightNorm))
        how = [(hook.name, _WeightNorm, hook.dim) for hook in hooks]
    if how != [("weight", _WeightNorm, 0)] or layer._parameters.keys() - {"bias", *names}:
        return None
    g, v = (owner._parameters.get(name) for name in names)
    return None if g is None or v is None else (g, v)


def _like(layer: nn.Module) -> Inner | None:
    """A layer that computes the same from another weight, without a bias."""
    for kind, names in _SETTINGS.items():
        given, methods = type(layer), ("forward", "_conv_forward")
        if isinstance(layer, kind) and all(getattr(given, m, None) is getattr(kind, m, None) for m in methods):
            settings: dict[str, Any] = {name: getattr(layer, name) for name in names}
            return kind(**settings, bias=False, device="meta")
    return None


def _forward(layer: nn.Module, x: Tensor) -> Tensor:
    inner, unit, affine = (cast(nn.Module, each) for each in (layer.inner, layer.unit, layer.affine))
    found: Tensor = affine(unit(inner(x)))
    return found
