"""A private step of a network next to the plain step of PyTorch: time on one and on two threads, memory, and peers.

A plain step draws a batch, computes its gradients and moves; a private step draws, clips, adds noise and moves. Both
processes whose memory is compared have imported the same libraries, and hold the same data. Times are the least of
several rounds, in which all steps take turns with the same number of threads.

python benchmarks/networks.py        Opacus is measured beside it where `make peers` has made an environment with it
"""

from __future__ import annotations

import copy
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

PEERS = Path(__file__).parent.parent / ".venv-peers" / "bin" / "python"
RECORDS, SECONDS, ROUND = 8_192, 4.0, 0.1
CASES = [
    ("mlp", "gradient", 128, 1.4),
    ("mlp", "gradient", 512, 1.15),
    ("mlp", "gradient", 1024, 1.3),
    ("cnn", "gradient", 256, 1.6),
    ("cnn", "gradient", 512, 1.1),
    ("resnet", "gradient", 32, 1.25),
    ("transformer", "gradient", 32, 1.35),
    ("mlp", "recursion", 128, 1.2),
    ("mlp", "recursion", 512, 1.2),
    ("cnn", "recursion", 256, 1.3),
]
MEMORY = {"mlp": 1.15, "cnn": 1.15, "resnet": 1.25, "transformer": 1.25}
BESIDE = [
    ("mlp", 128, 1.4),
    ("cnn", 256, 1.6),
    ("resnet", 32, 1.25),
    ("transformer", 32, 1.35),
    ("transformer, bare parameter", 32, 1.35),
    ("lstm", 64, 3.0),
    ("gru", 64, 3.0),
    ("rnn", 64, 3.0),
    ("conv3d", 64, None),
    ("conv transpose 1d", 64, None),
    ("conv transpose 2d", 64, None),
    ("conv transpose 3d", 64, None),
    ("rms norm", 256, None),
    ("instance norm", 64, None),
    ("prelu", 256, None),
    ("embedding bag", 256, None),
    ("bilinear", 256, None),
    ("weight norm", 256, None),
]
"""Networks beside Opacus; where no goal is named it is Opacus' best mode."""


def plain_step(model: Any, X: Any, y: Any, size: int, gradients: int) -> Callable[[], None]:
    """A random batch, as any training takes one, its gradients, and a step."""
    import torch

    optimiser, loss = torch.optim.SGD(model.parameters(), 0.01), torch.nn.CrossEntropyLoss()

    def step() -> None:
        batch = torch.randint(len(X), (size,))
        x, target = X[batch], y[batch]
        for _ in range(gradients):
            optimiser.zero_grad()
            loss(model(x), target).backward()
        optimiser.step()

    return step


def private_step(model: Any, X: Any, y: Any, size: int, kind: str) -> Callable[[], None]:
    from torch import nn

    from sordino.oracle.query import Difference, Gradient, Recursion
    from sordino.oracle.sampling import FixedSize
    from sordino.oracle.torch import TorchOracle, network_problem, parameter_vector
    from sordino.privacy import ledger_context
    from sordino.privacy.noise import GaussianNoise
    from sordino.privacy.randomness import Randomness

    warnings.simplefilter("ignore")
    problem = network_problem(model, len(X))
    oracle = TorchOracle(model, nn.CrossEntropyLoss(reduction="none"), (X, y), problem, chunk=size)
    noise, randomness = GaussianNoise.at(1.0, 2.0, problem.dim), Randomness.system()
    points = [parameter_vector(model), parameter_vector(model)]

    def step() -> None:
        # as a run does, which has looked once whether a ledger is to be charged
        with ledger_context.releasing():
            one_step()

    def one_step() -> None:
        at, since = points
        batch = oracle.draw(FixedSize(size), randomness)
        gradient = Gradient(at, 1.0, batch)
        query = gradient if kind == "gradient" else Recursion(Difference(at, since, 1.0, batch), gradient, 0.1)
        moved = oracle.release(query, noise, randomness)
        moved *= -0.01 / size
        moved += at
        points[:] = [moved, at]

    return step


def interleaved(steps: dict[str, Callable[[], None]]) -> dict[str, Any]:
    """The least seconds of a step in any round, and their ratio to the first's: on the clock, and of the cores."""
    clocks = {"": time.perf_counter, "cpu_": time.process_time}
    times: dict[str, dict[str, list[float]]] = {name: {clock: [] for clock in clocks} for name in steps}
    counts = {}
    for name, step in steps.items():
        for _ in range(3):
            start = time.perf_counter()
            step()
            counts[name] = max(1, int(ROUND / (time.perf_counter() - start)))
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times[next(iter(times))][""]) < 3:
        for name, step in steps.items():
            starts = [now() for now in clocks.values()]
            for _ in range(counts[name]):
                step()
            for (clock, now), start in zip(clocks.items(), starts, strict=True):
                times[name][clock].append((now() - start) / counts[name])
    least = {name: {clock: min(each) for clock, each in found.items()} for name, found in times.items()}
    first = least[next(iter(least))]
    return {
        name: {"seconds": each[""]} | {f"{clock}ratio": each[clock] / first[clock] for clock in clocks}
        for name, each in least.items()
    }


def timed(name: str, kind: str, size: int, threads: int) -> dict[str, Any]:
    import torch
    from _networks import NETWORKS

    torch.set_num_threads(threads)
    model, (X, y) = NETWORKS[name].build(), NETWORKS[name].data(RECORDS)
    plain = plain_step(copy.deepcopy(model), X, y, size, 1 if kind == "gradient" else 2)
    return interleaved({"plain": plain, "private": private_step(model, X, y, size, kind)})


def peak(name: str, kind: str, size: int, which: str) -> dict[str, float]:
    """Megabytes at most, after a few steps of one kind alone."""
    from _networks import NETWORKS

    import sordino.oracle.torch  # noqa: F401

    model, (X, y) = NETWORKS[name].build(), NETWORKS[name].data(RECORDS)
    if which == "plain":
        step = plain_step(model, X, y, size, 1 if kind == "gradient" else 2)
    else:
        step = private_step(model, X, y, size, kind)
    for _ in range(5):
        step()
    return {"megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def beside(name: str, size: int, threads: int) -> dict[str, Any]:
    """Plain and private steps, and those of Opacus in every mode that takes the network, in turn."""
    import torch
    from _networks import NETWORKS

    torch.set_num_threads(threads)
    model, (X, y) = NETWORKS[name].build(), NETWORKS[name].data(RECORDS)
    steps = {
        "plain": plain_step(copy.deepcopy(model), X, y, size, 1),
        "private": private_step(copy.deepcopy(model), X, y, size, "gradient"),
    }
    refused = {}
    for mode in ("hooks", "functorch", "ghost"):
        try:
            step = opacus_step(copy.deepcopy(model), X, y, size, mode)
            step()
        except Exception as error:  # whatever it says, it does not take the network
            refused[f"opacus, {mode}"] = {"refused": f"{type(error).__name__}: {str(error).strip()[:120]}"}
        else:
            steps[f"opacus, {mode}"] = step
    return {**interleaved(steps), **refused}


def opacus_step(model: Any, X: Any, y: Any, size: int, mode: str) -> Callable[[], None]:
    import torch
    from opacus import PrivacyEngine
    from opacus.validators import ModuleValidator
    from torch.utils.data import DataLoader, TensorDataset

    # its own layers in the place of PyTorch's, where it has some (recurrent layers, attention)
    model = model if ModuleValidator.is_valid(model) else ModuleValidator.fix(model)
    loss: Any = torch.nn.CrossEntropyLoss()
    found = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), 0.01),
        data_loader=DataLoader(TensorDataset(X, y), batch_size=size),
        criterion=loss,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        grad_sample_mode=mode,
        poisson_sampling=False,
    )
    private, optimiser = found[0], found[1]
    loss = found[2] if mode == "ghost" else loss

    def step() -> None:
        batch = torch.randint(len(X), (size,))
        optimiser.zero_grad()
        loss(private(X[batch]), y[batch]).backward()
        optimiser.step()

    return step


def run(*arguments: str, python: Path = Path(sys.executable), threads: int = 1) -> dict[str, Any]:
    """The figures of one part in a fresh process, which alone decides how many threads there are."""
    count = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "SORDINO_THREADS")}
    done = subprocess.run(
        [str(python), __file__, *arguments], check=True, capture_output=True, text=True, env={**os.environ, **count}
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def best_mode(found: dict[str, Any]) -> float | None:
    """The least time of the cores of any mode of Opacus, of a plain step's."""
    modes = [each["cpu_ratio"] for name, each in found.items() if name.startswith("opacus") and "refused" not in each]
    return min(modes, default=None)


def main() -> None:
    from _results import keep, table

    rows = [("figure", "measured (time of the cores)", "goal")]
    figures: dict[str, Any] = {}

    def note(what: str, found: dict[str, Any], row: tuple[str, str, str]) -> None:
        figures[what] = found
        rows.append(row)
        # after every figure: a run that is cut off has what it measured
        keep("networks", figures, "torch")

    if not PEERS.exists():
        print("No .venv-peers (make peers): Opacus is left out.")
    for name, size, goal in BESIDE if PEERS.exists() else []:
        found = run("beside", name, str(size), "1", python=PEERS)
        theirs = best_mode(found)
        opacus = "Opacus refuses it" if theirs is None else f"Opacus ({theirs:.2f})"
        row = f"{name} B={size}, of a plain step", f"{_told(found)}, {opacus}", f"<= {goal or 'Opacus'}"
        note(f"{name}, B={size}, 1 thread, beside Opacus", found, row)
    for name, kind, size, goal in CASES:
        for threads in (1, 2):
            found = run("time", name, kind, str(size), str(threads), threads=threads)
            row = f"{name} {kind} B={size}, {threads} threads, of a plain step", _told(found), f"<= {goal}"
            note(f"{name}, {kind}, B={size}, {threads} threads", found, row)
        memory = {which: run("peak", name, kind, str(size), which)["megabytes"] for which in ("plain", "private")}
        ratio = memory["private"] / memory["plain"]
        row = f"{name} {kind} B={size}, peak memory", f"{ratio:.2f}", f"<= {MEMORY[name]}"
        note(f"{name}, {kind}, B={size}, peak megabytes", memory, row)
    table(rows)


def _told(found: dict[str, Any]) -> str:
    return f"{found['private']['ratio']:.2f} ({found['private']['cpu_ratio']:.2f})"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["time", name, kind, size, threads]:
            print(json.dumps(timed(name, kind, int(size), int(threads))))
        case ["peak", name, kind, size, which]:
            print(json.dumps(peak(name, kind, int(size), which)))
        case ["beside", name, size, threads]:
            print(json.dumps(beside(name, int(size), int(threads))))
        case _:
            main()
