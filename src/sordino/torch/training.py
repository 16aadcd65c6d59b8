r"""`fit`: a model, a loss and a data set to private weights and their certificate.

    result = fit(model, nn.CrossEntropyLoss(reduction="none"), dataset, budget=Budget(3.0, 1e-5))

Clip, steps, their size and the batches follow from the number of records, the number of weights and the budget; `plan`
tells them beforehand. Or they are given:

    fit(.., method=DPAdam(step_size=1e-3, clip=1.0), budget=Budget(3.0, 1e-5), epochs=20, batch_size=512)

Batches are drawn by the library, because the guarantee rests on how they are drawn: there is no data loader. The noise
is the least that keeps all steps within the budget. Where the method brings a noise multiplier of its own, the run ends
at the last step that the budget allows, which is known before it begins.

A record whose gradient is not a number contributes nothing to its batch.
"""

from __future__ import annotations

import math
import operator
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import NDArray
from torch import Tensor, bfloat16, nn, uint8
from torch.utils.data import DataLoader

from sordino import checkpoint as recording, wire
from sordino.budget import Budget
from sordino.certificate import Certificate
from sordino.checkpoint import Checkpoint, Resume, RunRecorder
from sordino.ledger.ledger import Reservation
from sordino.methods import DPSGD, Cosine, DescentPlan, NoisyGradientDescent
from sordino.methods.plan import Batches
from sordino.methods.protocol import AnyMethod, Batched, Method, planned, require_settings
from sordino.oracle.persons import Persons
from sordino.oracle.protocol import Oracle
from sordino.oracle.sampling import CyclicPoisson, Poisson
from sordino.oracle.torch import TorchOracle
from sordino.oracle.torch.parameters import load_parameters, parameter_count, parameter_vector, places
from sordino.penalties import Ridge
from sordino.privacy.accountants import guarantee
from sordino.privacy.randomness import Randomness
from sordino.problem import Contribution, NetworkProblem, PersonUnit, refuse_network_sum
from sordino.sentences import FEWER_STEPS
from sordino.torch.augmentation import Copies, WithCopies, mean_loss
from sordino.torch.callbacks import Callback, Moment
from sordino.train import PrivacyWarning, public_count, train

PLANNED = DPSGD(momentum=0.9, rate=Cosine())
"""What trains a network where no method is named: see `methods.network_schedule`."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """The model, its weights loaded in place, and what was guaranteed."""

    model: nn.Module
    certificate: Certificate
    reservation: Reservation | None = None
    """What has paid for it, where a ledger was charged."""


def fit(
    model: nn.Module,
    loss: Any,
    dataset: Any,
    *,
    budget: Budget,
    method: AnyMethod | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    weight_decay: float = 0.0,
    augment: Copies | None = None,
    records: int | None = None,
    person: Any = None,
    records_per_person: int | None = None,
    contribution: Contribution = "mean",
    callbacks: Sequence[Callback] = (),
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    resume: Resume = False,
    random_state: int | None = None,
) -> Fitted:
    """Train `model` on `dataset` within `budget`, and load the private weights into it.

    Parameters
    ----------
    model : its trainable parameters are trained, its device and dtype are kept, its initial weights must not come from
        the records.
    loss : of a batch of outputs and targets, one number per record (`reduction="none"`).
    dataset : a `torch.utils.data.Dataset` with a length, or a pair of arrays or tensors (inputs, targets).
    budget : epsilon, delta and the relation.
    method : `None` for `PLANNED`, DP-SGD whose settings follow from public facts; or `DPSGD`, `DPAdam`, `DPRMSProp`,
        `RecursiveMomentum`, `SpiderBoost`, `RandomRoundSGD`, `NoisySGD`, or on all records `NoisyGradientDescent`,
        with a clip and a step size.
    epochs, steps : how long to train; one of them, unless the method says it, or plans it. An epoch is n / batch_size
        steps.
    batch_size : the expected number of records in a step, likewise.
    weight_decay : strength of the penalty (weight_decay / 2) |w|^2.
    augment : `Copies(4, Shift(2), Mirror())`: the gradients of a record's copies are averaged, then clipped as one, so
        that they cost time alone.
    records : with "add_remove", a public stand-in for the number of records.
    person : whose each record is, an identifier for every one: what is protected is then a person with all their
        records, batches draw persons, and whatever counts records counts persons.
    records_per_person, contribution : at most so many records of each are used, a public number; they count as one, by
        the "mean" of their clipped gradients, or "capped", by their sum divided by that number.
    callbacks : each called after every step with a `Moment`.
    checkpoint : a folder, or a `Checkpoint` that also says how often; `resume` True goes on with the run in it, "auto"
        goes on if there is one.
    random_state : `None`, or a seed for tests, which marks the certificate as not private.

    Inside `charged_to(ledger, name)` the run is charged to that data set.
    """
    data = _records(dataset)
    # what the certificate will be about: found out before a budget is spent
    weights_of(model)
    place = _place(checkpoint, resume)
    randomness = _randomness(random_state, place)
    unit = _unit(person, records_per_person, contribution)
    persons = None if unit is None else Persons.of(person, unit, randomness)
    count = len(data[0] if isinstance(data, tuple) else data) if persons is None else len(persons)
    n = public_count(records, count, budget.relation, "record" if persons is None else "person")
    problem = _problem(model, loss, n, weight_decay, augment, unit)
    method, notes = _within(budget, problem, _complete(method, epochs, steps, batch_size, problem, budget))
    sampling = planned(method, problem, budget).sampling
    units = _units(sampling, n, unit, 1 if augment is None else augment.count)
    asked, of = (model, loss) if augment is None else (WithCopies(model, augment), mean_loss(loss))
    oracle = TorchOracle(asked, of, data, problem, budget.relation, units, persons)
    recorder = RunRecorder(place, [partial(_call, callback, model) for callback in callbacks])
    trained = train(
        problem,
        budget,
        method,
        oracle,
        randomness,
        notes=notes,
        start=parameter_vector(model),
        recorder=recorder if callbacks or place else None,
    )
    load_parameters(model, trained.weights)
    return Fitted(model, trained.about(weights_of(model)), trained.reservation)


def plan(
    model: nn.Module,
    loss: Any,
    records: int,
    *,
    budget: Budget,
    method: AnyMethod | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    batch_size: int | None = None,
    weight_decay: float = 0.0,
    augment: Copies | None = None,
    records_per_person: int | None = None,
    contribution: Contribution = "mean",
) -> DescentPlan:
    """What `fit` would do with so many records, or persons: every number of it, without a data set."""
    unit = None if records_per_person is None else _unit(True, records_per_person, contribution)
    problem = _problem(model, loss, records, weight_decay, augment, unit)
    found: DescentPlan = planned(
        _within(budget, problem, _complete(method, epochs, steps, batch_size, problem, budget))[0], problem, budget
    )
    return found


def weights_of(model: nn.Module) -> dict[str, NDArray[Any]]:
    """A model's state by its names, as its certificate is about it: `verify(certificate, weights_of(model))`.

    A tensor of a kind that NumPy does not have is taken as its bytes.
    """
    _require_module(model)
    state = model.state_dict()
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise ValueError(
                f"the model's state has {name!r}, which is no tensor, and a certificate is about tensors: leave "
                "get_extra_state out."
            )
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.items()}
    return {name: (t.view(uint8) if t.dtype == bfloat16 else t).numpy() for name, t in tensors.items()}


def describe(model: nn.Module, loss: Any) -> str:
    """An architecture in a line: its class, its size, a digest of its layers, and the loss. No weights are in it."""
    kind = type(model)
    layers = [str(model), [[place.name, list(place.parameter.shape)] for place in places(model)]]
    mark = wire.digest([kind.__module__, kind.__qualname__, layers])[:16]
    return f"{kind.__name__} of {parameter_count(model)} weights (layers {mark}), {_name(loss)}"


def _problem(
    model: nn.Module, loss: Any, n: int, weight_decay: float, augment: Copies | None, unit: PersonUnit | None
) -> NetworkProblem:
    _require_module(model)
    size = max(1, parameter_count(model))
    name = describe(model, loss) if augment is None else f"{describe(model, loss)}, mean of {augment}"
    return NetworkProblem(n, size, name, Ridge(weight_decay), person=unit)


def _require_module(model: object) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is {wire.shown(model)}: give a torch.nn.Module, such as nn.Sequential(..).")


def _name(loss: Any) -> str:
    return str(getattr(loss, "__name__", type(loss).__name__))


def _call(callback: Callback, model: nn.Module, moment: recording.RecordedMoment) -> None:
    callback(Moment(moment, model))


def _records(dataset: Any) -> Any:
    if isinstance(dataset, DataLoader):
        raise TypeError(
            "dataset is a DataLoader: pass the Dataset itself. Batches are drawn by the library, because the "
            "guarantee rests on how they are drawn; batch_size says how large they are."
        )
    if isinstance(dataset, tuple | list) and len(dataset) == 2:
        return tuple(dataset)
    if not hasattr(dataset, "__len__"):
        raise TypeError(
            f"dataset is a {type(dataset).__name__} without a length: records are drawn by their number, so give a "
            "map-style Dataset with __len__ and __getitem__, or a pair of arrays."
        )
    return dataset


def _unit(person: Any, records_per_person: int | None, contribution: Contribution) -> PersonUnit | None:
    refuse_network_sum(contribution)
    unit = PersonUnit(records_per_person, contribution)
    if person is not None:
        return unit
    if unit != PersonUnit():
        raise ValueError(
            "records_per_person or contribution was given, and nothing says whose the records are: give `person`, an "
            "identifier for every record, or leave them out, and what is protected is a record."
        )
    return None


def _units(sampling: Batches, n: int, unit: PersonUnit | None, copies: int) -> int:
    """How many a pass should hold: a batch as it is mostly drawn, in a few equal passes where it is large."""
    expected = sampling.expected_size(n)
    usual = expected + 2 * math.sqrt(expected) if isinstance(sampling, Poisson | CyclicPoisson) else expected
    rows = copies if unit is None else copies * (unit.most_records or 1)
    return math.ceil(usual / math.ceil(usual * rows / 1024))


def _complete(
    method: Any,
    epochs: float | None,
    steps: int | None,
    batch_size: int | None,
    problem: NetworkProblem,
    budget: Budget,
) -> Any:
    """The method with its batch size and number of steps filled in: fields of whatever dataclass it is.

    Those of a method that plans them are left out, unless a number of epochs is asked for.
    """
    method = PLANNED if method is None else method
    _require_sums_alone(method)
    n = problem.records
    plans = isinstance(method, DPSGD) and method.plans_networks
    # what does not draw batches takes all records
    drawn = isinstance(method, Batched)
    own_size = method.batch_size if drawn else n
    if epochs is not None and steps is not None:
        raise ValueError(f"epochs is {epochs} and steps is {steps}: give one of them.")
    length = steps if epochs is None else epochs
    for name, given, own in (("batch_size", batch_size, own_size), ("epochs or steps", length, method.steps)):
        if given is None and own is None and not plans:
            raise ValueError(f"{name} is missing: give it to fit, or to {type(method).__name__}.")
        if given is not None and own is not None:
            raise ValueError(f"{name} is given twice, to fit and to {type(method).__name__}: leave one out.")
    if epochs is not None and not (math.isfinite(epochs) and epochs > 0):
        raise ValueError(f"epochs is {epochs}: it must be positive.")
    b = own_size if batch_size is None else batch_size
    if b is None and epochs is not None:
        b = method.network_batches(problem, budget, epochs).batch_size
    if b is not None and not 1 <= b <= n:
        raise ValueError(f"batch_size is {b}: it must lie between 1 and the {n} records.")
    if epochs is not None:
        steps = math.ceil(epochs * n / b)
    method = replace(method, steps=method.steps if steps is None else steps)
    method = replace(method, batch_size=b) if drawn else method
    if plans and method.calibration == "given":
        # how many steps its own noise allows is a question of its own
        method = replace(method, **method.network_batches(problem, budget)._asdict())
    return method


def _require_sums_alone(method: object) -> None:
    require_settings(method)
    if not isinstance(method, Method) or method.needs is not Oracle:
        raise TypeError(
            f"method is {method!r}: a network is trained by noisy sums of gradients, with DPSGD, DPAdam, DPRMSProp, "
            "RecursiveMomentum, SpiderBoost, RandomRoundSGD, NoisySGD or NoisyGradientDescent."
        )
    if isinstance(method, NoisyGradientDescent) and method.release == "trajectory":
        raise ValueError("release is 'trajectory': fit loads one model, so release the last iterate or the average.")


def _within(budget: Budget, problem: NetworkProblem, method: Any) -> tuple[Any, tuple[str, ...]]:
    """The method, with fewer steps where its own noise allows no more within the budget."""
    if method.calibration != "given":
        return method, ()

    def fits(steps: int) -> bool:
        event = replace(method, steps=steps).plan(problem, budget).event
        return guarantee(event, budget.delta, budget.relation).epsilon <= budget.epsilon

    if fits(method.steps):
        return method, ()
    low, high = 0, method.steps
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    if low == 0:
        raise ValueError(
            f"noise_multiplier is {method.noise_multiplier:g}: a single step would cost more than epsilon "
            f"{budget.epsilon:g} at delta {budget.delta:g}; leave it out, and the noise is what the budget needs."
        )
    sentence = FEWER_STEPS(multiplier=method.noise_multiplier, steps=low, asked=method.steps)
    warnings.warn(sentence, PrivacyWarning, stacklevel=3)
    return replace(method, steps=low), (sentence,)


def _place(checkpoint: str | os.PathLike[str] | Checkpoint | None, resume: Resume) -> Checkpoint | None:
    if checkpoint is None:
        if resume is not False:
            raise ValueError(f"resume is {resume!r} without a checkpoint: name the folder of the run to go on with.")
        return None
    if isinstance(checkpoint, Checkpoint):
        return checkpoint if resume is False else replace(checkpoint, resume=resume)
    return Checkpoint(Path(checkpoint), resume=resume)


def _randomness(seed: int | None, place: Checkpoint | None) -> Randomness:
    if seed is None:
        return Randomness.system()
    # a part that goes on draws other noise than the parts before it
    before = 0 if place is None else place.resumes
    return Randomness.seeded(seed if before == 0 else int(wire.digest([operator.index(seed), before]), 16))
