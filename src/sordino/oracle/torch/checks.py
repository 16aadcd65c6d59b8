"""What a model must be for its records to be clipped one by one."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.instancenorm import _InstanceNorm
from torch.nn.parameter import is_lazy

from sordino.oracle.torch.parameters import Place, places
from sordino.problem import NetworkProblem


def checked_places(model: nn.Module, problem: NetworkProblem) -> list[Place]:
    """The places of the trainable parameters, or a sentence about what is wrong with them."""
    if any(is_lazy(parameter) for parameter in model.parameters()):
        raise ValueError("the model has layers without a size yet: run it once on made-up input before training.")
    found = places(model)
    if not found:
        raise ValueError("the model has no trainable parameter: set requires_grad on those that are to be trained.")
    kinds = {(place.parameter.dtype, place.parameter.device) for place in found}
    if len(kinds) > 1:
        listed = ", ".join(sorted(f"{dtype} on {device}" for dtype, device in kinds))
        raise ValueError(f"the trainable parameters are of several kinds ({listed}): give them one dtype and device.")
    if not found[0].parameter.is_floating_point():
        raise ValueError(f"the parameters have dtype {found[0].parameter.dtype}: real floating point is needed.")
    if found[-1].stop != problem.dim:
        raise ValueError(
            f"the model has {found[-1].stop} trainable parameters, but the problem was stated with dim "
            f"{problem.dim}: state it with dim={found[-1].stop}."
        )
    return found


def refuse_wrapped(model: nn.Module) -> None:
    """Raise a sentence for a model in a wrapper that hides what it does, or sends records to other places."""
    scripted, spread = torch.jit.ScriptModule, nn.DataParallel | nn.parallel.DistributedDataParallel
    for name, layer in model.named_modules():
        if isinstance(layer, scripted):
            what, instead = "scripted", "the model from before torch.jit"
        elif isinstance(layer, spread):
            what, instead = "spread over devices", "the model inside (model.module)"
        elif layer._compiled_call_impl is not None or hasattr(layer, "_orig_mod"):
            what, instead = "compiled", "the model from before torch.compile"
        else:
            continue
        raise ValueError(
            f"{name or 'the model'} is {what} ({type(layer).__name__}), so that its operations cannot be written down "
            f"for one record: give {instead}."
        )


def refuse_mixing(model: nn.Module) -> None:
    """Raise a sentence for a layer in which one record's output depends on the others."""
    for name, layer in model.named_modules():
        if isinstance(layer, _BatchNorm) and (layer.training or layer.running_mean is None):
            raise ValueError(
                f"{name or 'the model'} is {type(layer).__name__}, which mixes the records of a batch, so that no "
                "record's influence can be bounded: use nn.GroupNorm (or nn.LayerNorm) instead, or put that layer "
                "into eval mode to keep the statistics it has."
            )
        if isinstance(layer, _InstanceNorm) and layer.track_running_stats and layer.training:
            raise ValueError(
                f"{name or 'the model'} is {type(layer).__name__} with running statistics, which are computed from "
                "the records without noise: set track_running_stats=False, or use nn.GroupNorm."
            )
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.max_norm is not None:
            raise ValueError(
                f"{name or 'the model'} is {type(layer).__name__} with max_norm, which changes its weights according "
                "to the records it sees, without noise: leave max_norm out."
            )
        if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.scale_grad_by_freq:
            raise ValueError(
                f"{name or 'the model'} is {type(layer).__name__} with scale_grad_by_freq, which scales a record's "
                "gradient by what the others hold: leave it out."
            )
