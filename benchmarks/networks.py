"""A private step of a network next to the plain step of PyTorch and to those of Opacus: time, and memory.

A plain step draws a batch, computes its gradients and moves; a private step draws, clips, adds noise and moves. Both
processes whose memory is compared have imported the same libraries, and hold the same data. Times are the least of
several rounds, in which all steps take turns with the same number of threads: on the clock, and of the cores.

python benchmarks/networks.py        about six minutes. Opacus is measured where `make peers` has made its environment
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
RECORDS, SECONDS, ROUND = 8_192, 3.0, 0.1
BESIDE: list[tuple[str, int, float | None, tuple[int, ...]]] = [
    ("mlp", 128, 1.4, (1, 2)),
    ("mlp", 512, 1.15, (1, 2)),
    ("cnn", 256, 1.6, (1, 2)),
    ("resnet", 32, 1.25, (1, 2)),
    ("transformer", 32, 1.35, (1, 2)),
    ("lstm", 64, 3.0, (1, 2)),
    ("gru", 64, 3.0, (1,)),
    ("rnn", 64, 3.0, (1,)),
    ("transformer, bare parameter", 32, 1.35, (1,)),
    ("weight norm", 256, None, (1,)),
    ("conv3d", 64, None, (1,)),
    ("conv transpose 1d", 64, None, (1,)),
    ("conv transpose 2d", 64, None, (1,)),
    ("conv transpose 3d", 64, None, (1,)),
    ("rms norm", 256, None, (1,)),
    ("instance norm", 64, None, (1,)),
    ("prelu", 256, None, (1,)),
    ("embedding bag", 256, None, (1,)),
    ("bilinear", 256, None, (1,)),
]
"""Networks beside Opacus, with these numbers of threads; where no goal is named it is Opacus' best mode."""

RECURSIONS = [("mlp", 128, 1.2), ("mlp", 512, 1.2), ("cnn", 256, 1.3)]
ADAPTIVE = [("mlp", 128, 1.4), ("mlp", 512, 1.15)]
PARTS = [("mlp", 128), ("mlp", 512), ("resnet", 32), ("transformer", 32)]
MEMORY = [("mlp", 128, 1.15), ("cnn", 256, 1.15), ("resnet", 32, 1.25), ("transformer", 32, 1.25)]


def plain_step(model: Any, X: Any, y: Any, size: int, gradients: int, kind: str = "SGD") -> Callable[[], None]:
    """A random batch, as any training takes one, its gradients, and a step."""
    import torch

    optimiser, loss = getattr(torch.optim, kind)(model.parameters(), 0.01), torch.nn.CrossEntropyLoss()

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


def private_parts(model: Any, X: Any, y: Any, size: int) -> dict[str, Callable[[], Any]]:
    """What a private step consists of, each by itself: then caches hold what in a step they do not."""
    from torch import nn

    from sordino.oracle.query import Gradient
    from sordino.oracle.sampling import FixedSize
    from sordino.oracle.torch import TorchOracle, network_problem, parameter_vector
    from sordino.privacy import ledger_context
    from sordino.privacy.noise import GaussianNoise
    from sordino.privacy.randomness import Randomness

    warnings.simplefilter("ignore")
    problem = network_problem(model, len(X))
    oracle = TorchOracle(model, nn.CrossEntropyLoss(reduction="none"), (X, y), problem, chunk=size)
    noise, randomness, at = GaussianNoise.at(1.0, 2.0, problem.dim), Randomness.system(), parameter_vector(model)
    total, moved = parameter_vector(model), parameter_vector(model)

    def draw() -> Any:
        return oracle.draw(FixedSize(size), randomness)

    def add_noise() -> None:
        with ledger_context.releasing():
            noise.perturb(total, randomness)

    def move() -> None:
        nonlocal moved
        moved *= -0.01 / size
        moved += at

    batch = draw()
    return {
        "batch": draw,
        "clipped sum": lambda: oracle._answer(Gradient(at, 1.0, batch)),
        "noise": add_noise,
        "move": move,
    }


def private_run(model: Any, X: Any, y: Any, size: int, steps: int) -> Callable[[], None]:
    """So many steps of DP-Adam, as a run takes them."""
    from torch import nn

    from sordino import Budget, DPAdam
    from sordino.methods.descend import descend
    from sordino.oracle.torch import TorchOracle, network_problem, parameter_vector
    from sordino.privacy import ledger_context
    from sordino.privacy.randomness import Randomness

    warnings.simplefilter("ignore")
    problem = network_problem(model, len(X))
    oracle = TorchOracle(model, nn.CrossEntropyLoss(reduction="none"), (X, y), problem, chunk=size)
    method = DPAdam(steps, size, step_size=0.001, clip=1.0, sampling="fixed_size")
    plan, start, randomness = method.plan(problem, Budget(3.0, 1e-6)), parameter_vector(model), Randomness.system()

    def run_once() -> None:
        with ledger_context.releasing():
            descend(plan, problem, oracle, randomness, start)

    return run_once


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


def parts(name: str, size: int, threads: int) -> dict[str, Any]:
    """A plain step, a private one, and what that consists of."""
    import torch
    from _networks import NETWORKS

    torch.set_num_threads(threads)
    model, (X, y) = NETWORKS[name].build(), NETWORKS[name].data(RECORDS)
    steps = {
        "plain": plain_step(copy.deepcopy(model), X, y, size, 1),
        "private": private_step(copy.deepcopy(model), X, y, size, "gradient"),
    }
    return interleaved({**steps, **private_parts(model, X, y, size)})


def recursion(name: str, size: int, threads: int) -> dict[str, Any]:
    """A step of DP-SRM beside a plain one with two gradients."""
    import torch
    from _networks import NETWORKS

    torch.set_num_threads(threads)
    model, (X, y) = NETWORKS[name].build(), NETWORKS[name].data(RECORDS)
    plain = plain_step(copy.deepcopy(model), X, y, size, 2)
    return interleaved({"plain": plain, "private": private_step(model, X, y, size, "recursion")})


def adaptive(name: str, size: int, threads: int) -> dict[str, Any]:
    """Twenty steps of DP-Adam beside as many of Adam."""
    import torch
    from _networks import NETWORKS

    torch.set_num_threads(threads)
    model, (X, y) = NETWORKS[name].build(), NETWORKS[name].data(RECORDS)
    step = plain_step(copy.deepcopy(model), X, y, size, 1, "Adam")

    def plain() -> None:
        for _ in range(20):
            step()

    return interleaved({"plain": plain, "private": private_run(model, X, y, size, 20)})


def peak(name: str, size: int, which: str) -> dict[str, float]:
    """Megabytes at most, after a few steps of one kind alone."""
    from _networks import NETWORKS

    import sordino.oracle.torch  # noqa: F401

    model, (X, y) = NETWORKS[name].build(), NETWORKS[name].data(RECORDS)
    step = plain_step(model, X, y, size, 1) if which == "plain" else private_step(model, X, y, size, "gradient")
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


def best_mode(found: dict[str, Any]) -> dict[str, float] | None:
    """The mode of Opacus that takes the least time of the cores."""
    modes = [each for name, each in found.items() if name.startswith("opacus") and "refused" not in each]
    return min(modes, key=lambda each: each["cpu_ratio"], default=None)


def main() -> None:
    from _results import keep, table

    rows = [("figure, of a plain step", "measured (time of the cores)", "goal")]
    figures: dict[str, Any] = {}

    def note(what: str, found: dict[str, Any], row: tuple[str, str, str]) -> None:
        figures[what] = found
        rows.append(row)
        # after every figure: a run that is cut off has what it measured
        keep("networks", figures, "torch")

    python = PEERS if PEERS.exists() else Path(sys.executable)
    if python is not PEERS:
        print("No .venv-peers (make peers): Opacus is left out.")
    for name, size, goal, numbers in BESIDE:
        for threads in numbers:
            found = run("beside", name, str(size), str(threads), python=python, threads=threads)
            theirs = best_mode(found)
            opacus = "Opacus not" if theirs is None else f"Opacus {theirs['ratio']:.2f} ({theirs['cpu_ratio']:.2f})"
            row = f"{name} B={size}, {_threads(threads)}", f"{_told(found)}, {opacus}", f"<= {goal or 'Opacus'}"
            note(f"{name}, B={size}, {_threads(threads)}", found, row)
    for name, size, limit in RECURSIONS:
        for threads in (1, 2):
            found = run("recursion", name, str(size), str(threads), threads=threads)
            row = f"{name} DP-SRM B={size}, {_threads(threads)}", _told(found), f"<= {limit}"
            note(f"{name}, DP-SRM, B={size}, {_threads(threads)}", found, row)
    for name, size, limit in ADAPTIVE:
        for threads in (1, 2):
            found = run("adaptive", name, str(size), str(threads), threads=threads)
            row = f"{name} DP-Adam B={size}, {_threads(threads)}", _told(found), f"<= {limit}"
            note(f"{name}, DP-Adam, B={size}, {_threads(threads)}", found, row)
    for name, size in PARTS:
        found = run("parts", name, str(size), "1")
        told = ", ".join(f"{part} {each['cpu_ratio']:.2f}" for part, each in list(found.items())[2:])
        note(f"{name}, parts, B={size}, 1 thread", found, (f"{name} B={size}, parts, 1 thread", told, "-"))
    for name, size, limit in MEMORY:
        memory = {which: run("peak", name, str(size), which)["megabytes"] for which in ("plain", "private")}
        row = f"{name} B={size}, peak memory", f"{memory['private'] / memory['plain']:.2f}", f"<= {limit}"
        note(f"{name}, B={size}, peak megabytes", memory, row)
    table(rows)


def _threads(number: int) -> str:
    return "1 thread" if number == 1 else f"{number} threads"


def _told(found: dict[str, Any]) -> str:
    return f"{found['private']['ratio']:.2f} ({found['private']['cpu_ratio']:.2f})"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["beside", name, size, threads]:
            print(json.dumps(beside(name, int(size), int(threads))))
        case ["recursion", name, size, threads]:
            print(json.dumps(recursion(name, int(size), int(threads))))
        case ["adaptive", name, size, threads]:
            print(json.dumps(adaptive(name, int(size), int(threads))))
        case ["parts", name, size, threads]:
            print(json.dumps(parts(name, int(size), int(threads))))
        case ["peak", name, size, which]:
            print(json.dumps(peak(name, int(size), which)))
        case _:
            main()
