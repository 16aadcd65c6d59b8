"""A private step of a network next to the plain step of PyTorch: time on one and on two threads, memory, and peers.

A plain step draws a batch, computes its gradients and moves; a private step draws, clips, adds noise and moves. Both
processes whose memory is compared have imported the same libraries, and hold the same data.

python benchmarks/networks.py        Opacus is measured beside it where `make peers` has made an environment with it
"""

from __future__ import annotations

import copy
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PEERS = Path(__file__).parent.parent / ".venv-peers" / "bin" / "python"
RECORDS, SECONDS, ROUND = 60_000, 8.0, 2560
CASES = [
    ("mlp", "gradient", 128, 1.4),
    ("mlp", "gradient", 512, 1.15),
    ("mlp", "gradient", 1024, 1.3),
    ("cnn", "gradient", 256, 1.6),
    ("cnn", "gradient", 512, 1.1),
    ("mlp", "recursion", 128, 1.2),
    ("mlp", "recursion", 512, 1.2),
    ("cnn", "recursion", 256, 1.3),
]


def network(name: str) -> tuple[Any, tuple[int, ...]]:
    from torch import nn

    if name == "mlp":
        layers = [nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)]
        return nn.Sequential(*layers), (784,)
    layers = [nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU()]
    layers += [nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10)]
    return nn.Sequential(*layers), (1, 28, 28)


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


def data(shape: tuple[int, ...]) -> tuple[Any, Any]:
    import torch

    generator = torch.Generator().manual_seed(0)
    X = torch.randn((RECORDS, *shape), generator=generator)
    return X, torch.randint(10, (RECORDS,), generator=generator)


def interleaved(steps: dict[str, Callable[[], None]], size: int) -> dict[str, Any]:
    """Median seconds of a step, and medians over rounds of its ratio to the first: on the clock, and of the cores."""
    count = max(1, ROUND // size)
    clocks = {"": time.perf_counter, "cpu_": time.process_time}
    times: dict[str, dict[str, list[float]]] = {name: {clock: [] for clock in clocks} for name in steps}
    for step in steps.values():
        for _ in range(5):
            step()
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        for name, step in steps.items():
            starts = [now() for now in clocks.values()]
            for _ in range(count):
                step()
            for (clock, now), start in zip(clocks.items(), starts, strict=True):
                times[name][clock].append((now() - start) / count)
    first = times[next(iter(times))]
    return {
        name: {"seconds": statistics.median(each[""])}
        | {
            f"{clock}ratio": statistics.median(a / b for a, b in zip(each[clock], first[clock], strict=True))
            for clock in clocks
        }
        for name, each in times.items()
    }


def timed(name: str, kind: str, size: int, threads: int) -> dict[str, Any]:
    import torch

    torch.set_num_threads(threads)
    model, shape = network(name)
    X, y = data(shape)
    plain = plain_step(copy.deepcopy(model), X, y, size, 1 if kind == "gradient" else 2)
    return interleaved({"plain": plain, "private": private_step(model, X, y, size, kind)}, size)


def peak(name: str, kind: str, size: int, which: str) -> dict[str, float]:
    """Megabytes at most, after a few steps of one kind alone."""
    import sordino.oracle.torch  # noqa: F401

    model, shape = network(name)
    X, y = data(shape)
    if which == "plain":
        step = plain_step(model, X, y, size, 1 if kind == "gradient" else 2)
    else:
        step = private_step(model, X, y, size, kind)
    for _ in range(20):
        step()
    return {"megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def peer(mode: str, size: int, threads: int) -> dict[str, Any]:
    """Plain, private and Opacus steps in turn; `mode` is "hooks" (its default) or "ghost"."""
    import torch
    from opacus import PrivacyEngine
    from torch.utils.data import DataLoader, TensorDataset

    torch.set_num_threads(threads)
    model, shape = network("mlp")
    X, y = data(shape)
    steps = {
        "plain": plain_step(copy.deepcopy(model), X, y, size, 1),
        "private": private_step(copy.deepcopy(model), X, y, size, "gradient"),
    }
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

    return interleaved({**steps, f"opacus, {mode}": step}, size)


def run(*arguments: str, python: Path = Path(sys.executable), threads: int = 1) -> dict[str, Any]:
    """The figures of one part in a fresh process, which alone decides how many threads there are."""
    count = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "SORDINO_THREADS")}
    done = subprocess.run(
        [str(python), __file__, *arguments], check=True, capture_output=True, text=True, env={**os.environ, **count}
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    from _results import keep, table

    rows = [("figure", "measured (time of the cores)", "goal")]
    figures: dict[str, Any] = {}
    for name, kind, size, goal in CASES:
        for threads in (1, 2):
            found = run("time", name, kind, str(size), str(threads), threads=threads)
            figures[f"{name}, {kind}, B={size}, {threads} threads"] = found
            label = f"{name} {kind} B={size}, {threads} threads, of a plain step"
            wall, cores = found["private"]["ratio"], found["private"]["cpu_ratio"]
            rows.append((label, f"{wall:.2f} ({cores:.2f})", f"<= {goal}"))
        memory = {which: run("peak", name, kind, str(size), which)["megabytes"] for which in ("plain", "private")}
        figures[f"{name}, {kind}, B={size}, peak megabytes"] = memory
        ratio = memory["private"] / memory["plain"]
        rows.append((f"{name} {kind} B={size}, peak memory", f"{ratio:.2f}", "<= 1.15"))
    if PEERS.exists():
        for threads in (1, 2):
            for mode, goal in (("hooks", 20.0), ("ghost", 1.3)):
                found = run("peer", mode, "128", str(threads), python=PEERS, threads=threads)
                figures[f"opacus, {mode}, B=128, {threads} threads"] = found
                times = found[f"opacus, {mode}"]["seconds"] / found["private"]["seconds"]
                label = f"opacus ({mode}) B=128, {threads} threads, of a private step"
                rows.append((label, f"{times:.1f}", f">= {goal}"))
    else:
        print("No .venv-peers (make peers): Opacus is left out.")
    keep("networks", figures, "torch")
    table(rows)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["time", name, kind, size, threads]:
            print(json.dumps(timed(name, kind, int(size), int(threads))))
        case ["peak", name, kind, size, which]:
            print(json.dumps(peak(name, kind, int(size), which)))
        case ["peer", mode, size, threads]:
            print(json.dumps(peer(mode, int(size), int(threads))))
        case _:
            main()
