"""One-line changes that would make a guarantee false, each of which some test must notice.

    python tools/mutants.py                 every row
    python tools/mutants.py noise ledger    the rows whose name or file has one of these words

A row is (what goes wrong, file, old text, new text, tests). The script copies the project, once for every processor,
and in a copy, for row after row, puts the new text in the place of the old one, runs the tests, and takes it back. It
fails where the tests pass all the same, where they do not run, and where the old text is not in the file exactly once.

Whoever writes a wall adds a row for it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue

PROJECT = Path(__file__).resolve().parents[1]
SECONDS = 600

Row = tuple[str, str, str, str, str]

ROWS: list[Row] = [
    (
        "relation: replacing a record moves a sum as far as adding one",
        "budget.py",
        "return 2 if self is Relation.REPLACE_ONE else 1",
        "return 1",
        "tests/test_budget.py tests/test_problem.py",
    ),
    (
        "noise: a tenth too small",
        "privacy/noise.py",
        "return discrete_gaussian(self.std / self.step, shape",
        "return discrete_gaussian(0.9 * self.std / self.step, shape",
        "tests/privacy/test_noise.py",
    ),
    (
        "noise: the last piece has none",
        "privacy/noise_kernels.py",
        "noted = np.empty((stop - start + PIECE - 1) // PIECE, dtype=np.int64)",
        "noted = np.empty((stop - start) // PIECE, dtype=np.int64)",
        "tests/privacy/test_pieces.py",
    ),
    (
        "noise: threads leave a piece out",
        "privacy/pieces.py",
        'builder.icmp_signed("<", share, threads)',
        'builder.icmp_signed("<", builder.add(share, one), threads)',
        "tests/privacy/test_pieces.py",
    ),
    (
        "noise: threads take the same piece",
        "privacy/pieces.py",
        'share = builder.atomic_rmw("add", taken, one, "monotonic")',
        'share = builder.sdiv(builder.atomic_rmw("add", taken, one, "monotonic"), one.type(2))',
        "tests/privacy/test_pieces.py",
    ),
    (
        "noise: draws of a piece that need more words are taken for those of another",
        "privacy/noise_kernels.py",
        "others[count + k] = others[start + piece * PIECE + k]",
        "others[count + k] = others[start + k]",
        "tests/privacy/test_pieces.py",
    ),
    (
        "noise: a value beyond the lattice is looked for in the first piece alone",
        "privacy/noise_kernels.py",
        "return bool(fit.all())",
        "return bool(fit[:1].all())",
        "tests/privacy/test_pieces.py",
    ),
    (
        "noise: stated larger than it is",
        "privacy/noise.py",
        "return self.std / (self.sensitivity + 2 * self.step * math.sqrt(self.dim)) * _DOWN",
        "return 1.01 * self.std / (self.sensitivity + 2 * self.step * math.sqrt(self.dim)) * _DOWN",
        "tests/privacy/test_noise.py",
    ),
    (
        "noise: l2-Laplace a tenth too small",
        "privacy/noise.py",
        "scales = np.hypot(self.scale / self.step * a, _ROUNDING)",
        "scales = np.hypot(0.9 * self.scale / self.step * a, _ROUNDING)",
        "tests/privacy/test_noise.py",
    ),
    (
        "noise: l2-Laplace without its tails",
        "privacy/scale_mixture.py",
        "_UNIT_BITS, _BITS = 1200, 1280",
        "_UNIT_BITS, _BITS = 60, 1280",
        "tests/privacy/test_scale_mixture.py",
    ),
    (
        "lattice: rounding is free",
        "privacy/noise.py",
        "return self.std / (self.sensitivity + 2 * self.step * math.sqrt(self.dim)) * _DOWN",
        "return self.std / self.sensitivity * _DOWN",
        "tests/privacy/test_noise.py",
    ),
    (
        "lattice: rounding counts for one of two contributions",
        "privacy/noise.py",
        "return self.std / (self.sensitivity + 2 * self.step * math.sqrt(self.dim)) * _DOWN",
        "return self.std / (self.sensitivity + self.step * math.sqrt(self.dim)) * _DOWN",
        "tests/privacy/test_noise.py",
    ),
    (
        "lattice: the distance of one coordinate for all",
        "privacy/noise.py",
        "self.dim * rounding_distance(self.std / self.step) * _UP",
        "rounding_distance(self.std / self.step) * _UP",
        "tests/privacy/test_noise.py",
    ),
    (
        "rate: drawn a tenth higher",
        "oracle/sampling.py",
        "counts.binomial(records, self.rate, stream)",
        "counts.binomial(records, min(1.0, 1.1 * self.rate), stream)",
        "tests/oracle/test_sampling.py",
    ),
    (
        "rate: some records are drawn more often than others",
        "oracle/kernels/subsets.py",
        "if lower >= bound or lower >= (np.uint64(1 << 32) - bound) % bound:",
        "if True:",
        "tests/oracle/test_subsets.py",
    ),
    (
        "rate: coins of many records are drawn a tenth higher",
        "oracle/kernels/coins.py",
        "Fraction(rate).as_integer_ratio()",
        "Fraction(min(0.9999, 1.1 * rate)).as_integer_ratio()",
        "tests/oracle/test_coins.py",
    ),
    (
        "rate: a word that leaves a coin open decides it",
        "oracle/kernels/coins.py",
        "        if _pass_over(words, law.entries, law.low, passed):",
        "        if _pass_over(words, law.entries, law.low, passed) > words.size:",
        "tests/oracle/test_coins.py",
    ),
    (
        "rate: a record has one coin in two steps that are drawn together",
        "oracle/kernels/coins.py",
        "            place -= all_",
        "            place -= all_ - np.uint64(1)",
        "tests/oracle/test_predrawn.py",
    ),
    (
        "rate: a batch is drawn for two steps",
        "oracle/predrawn.py",
        "steps, batches[:0:-1]",
        "steps, batches[::-1]",
        "tests/oracle/test_predrawn.py -k handed_out_twice",
    ),
    (
        "rate: a child has the batches of its parent",
        "privacy/randomness.py",
        "        self.predrawn = {}",
        '        self.predrawn = getattr(self, "predrawn", {})',
        "tests/oracle/test_predrawn.py -k child",
    ),
    (
        "rate: stated a tenth lower",
        "oracle/sampling.py",
        "return _sampled(PoissonSampled, release, self.rate)",
        "return _sampled(PoissonSampled, release, 0.9 * self.rate)",
        "tests/oracle/test_sampling.py",
    ),
    (
        "rate: what the draw leaves open is not in the event",
        "oracle/sampling.py",
        "return Approximate(kind(inner, rate), distance + counts.DISTANCE)",
        "return Approximate(kind(inner, rate), distance)",
        "tests/oracle/test_sampling.py",
    ),
    (
        "correlated noise: a record's later participations are not counted",
        "privacy/correlation.py",
        "own = 1 + s * q ** (apart - 1) * earlier[:-1]",
        "own = np.ones(times)",
        "tests/privacy/test_correlation.py",
    ),
    (
        "correlated noise: participations are rounded down",
        "privacy/correlation.py",
        "return -(-steps // apart)",
        "return max(1, steps // apart)",
        "tests/privacy/test_correlation.py",
    ),
    (
        "correlated noise: bands may reach beyond a participation",
        "privacy/correlation.py",
        "if self.bands > apart:",
        "if False:",
        "tests/privacy/test_correlation.py",
    ),
    (
        "correlated noise: the memory is rounded faster than it forgets",
        "privacy/correlation.py",
        "if self.decay > SLOWEST_DECAY:",
        "if False:",
        "tests/privacy/test_correlation.py -k refused",
    ),
    (
        "correlated noise among owners: however coarsely doubles remember it",
        "federation/noise.py",
        "if not self.correlation.remembers(self.scale):",
        "if False:",
        "tests/federation/test_correlated.py -k cannot_be_covered",
    ),
    (
        "correlated noise: stated larger than it is",
        "privacy/correlated_noise.py",
        "return self.std / (self.sensitivity + self.lattice) * _DOWN",
        "return 1.01 * self.std / (self.sensitivity + self.lattice) * _DOWN",
        "tests/privacy/test_correlated_noise.py",
    ),
    (
        "correlated noise: the lattice's share is left out",
        "privacy/correlated_noise.py",
        "return 2 * self.step * math.sqrt(self.dim) * (1 + 2 * math.sqrt(rows) / self.reach) * _UP",
        "return 0.0 * rows",
        "tests/privacy/test_correlated_noise.py",
    ),
    (
        "correlated noise: a whole run is stated as one step",
        "privacy/correlated_noise.py",
        "Approximate(GaussianDP(self.reach / self.multiplier * _UP)",
        "Approximate(GaussianDP(1 / self.multiplier * _UP)",
        "tests/privacy/test_correlated_noise.py",
    ),
    (
        "correlated noise: more is taken back than was added",
        "privacy/correlated_noise.py",
        "W -= np.rint(self._memory.feedback()).astype(np.int64)",
        "W -= np.rint(1.5 * self._memory.feedback()).astype(np.int64)",
        "tests/privacy/test_correlated_noise.py",
    ),
    (
        "correlated noise: a run goes on beyond its plan",
        "privacy/correlated_noise.py",
        "if not self._left:",
        "if False:",
        "tests/privacy/test_correlated_noise.py",
    ),
    (
        "correlated noise: a child goes on with its parent's run",
        "privacy/correlated_noise.py",
        "if self._process != os.getpid():",
        "if False:",
        "tests/privacy/test_correlated_noise.py",
    ),
    (
        "correlated noise: a memory without end is sampled",
        "privacy/correlated_noise.py",
        "if not isinstance(self.correlation, BandedToeplitz) or self.correlation.bands > self.apart:",
        "if False:",
        "tests/privacy/test_correlated_noise.py",
    ),
    (
        "correlated noise: batches come back sooner",
        "oracle/sampling.py",
        "if noise.apart > self.batches:",
        "if False:",
        "tests/privacy/test_correlated_noise.py",
    ),
    (
        "correlated noise: groups come back sooner",
        "oracle/sampling.py",
        "if noise.apart > self.period:",
        "if False:",
        "tests/privacy/test_correlated_noise.py",
    ),
    (
        "correlated noise: groups do not have turns",
        "oracle/sampling.py",
        "return replace(self, turn=t % self.period)",
        "return replace(self, turn=t // 2 % self.period)",
        "tests/methods/test_correlated.py",
    ),
    (
        "correlated noise: batches of an epoch overlap",
        "oracle/sampling.py",
        "for turn in (self.turn, self.turn + 1))",
        "for turn in (self.turn, min(self.turn + 2, self.batches)))",
        "tests/methods/test_correlated.py",
    ),
    (
        "correlated noise: places where a record moves others",
        "oracle/allowed.py",
        "if relation is not Relation.REPLACE_ONE:",
        "if False:",
        "tests/methods/test_correlated.py",
    ),
    (
        "correlated noise: persons in their order",
        "oracle/allowed.py",
        'if unit != "record":',
        "if False:",
        "tests/methods/test_correlated.py",
    ),
    (
        "correlated noise: a state without its noise is kept",
        "methods/descend.py",
        "None if isinstance(begun, NoiseOfRun) else state",
        "state",
        "tests/methods/test_correlated.py",
    ),
    (
        "correlated noise: steps between which a run may be kept",
        "methods/plan.py",
        "if self.amplification is not None or isinstance(self.noise, CorrelatedNoise):",
        "if self.amplification is not None:",
        "tests/methods/test_correlated.py",
    ),
    (
        "correlated noise: a longer run than the noise was planned for",
        "methods/plan.py",
        "or plan.steps > noise.steps:",
        "or False:",
        "tests/methods/test_correlated.py",
    ),
    (
        "rate: the odds of a coin are those of another",
        "privacy/counts.py",
        "lambda k: ((n - k) * heads, (k + 1) * tails)",
        "lambda k: ((n - k) * heads, (k + 1) * all_)",
        "tests/privacy/test_counts.py",
    ),
    (
        "evaluation: a replaced record leaves one cell and enters none",
        "evaluation/outcomes.py",
        "return math.sqrt(relation.distance + (0 if self.loss_bound is None else 0.5))",
        "return math.sqrt(1 + (0 if self.loss_bound is None else 0.5))",
        "tests/evaluation/test_outcomes.py",
    ),
    (
        "evaluation: losses are free",
        "evaluation/outcomes.py",
        "return math.sqrt(relation.distance + (0 if self.loss_bound is None else 0.5))",
        "return math.sqrt(relation.distance)",
        "tests/evaluation/test_outcomes.py",
    ),
    (
        "evaluation: losses are not cut",
        "evaluation/outcomes.py",
        "u = np.clip(np.nan_to_num(some.losses / self.loss_bound, nan=1.0), 0.0, 1.0)",
        "u = np.nan_to_num(some.losses / self.loss_bound, nan=1.0)",
        "tests/evaluation/test_outcomes.py",
    ),
    (
        "evaluation: a person's records count one each",
        "evaluation/outcomes.py",
        "_ONE // np.bincount(owners, minlength=persons.count)[owners]",
        "_ONE",
        "tests/evaluation/test_outcomes.py",
    ),
    (
        "evaluation: questions of a search are paid for once",
        "evaluation/statistic.py",
        "return repeat(self.noise.event, self.times)",
        "return self.noise.event",
        "tests/evaluation/test_outcomes.py",
    ),
    (
        "evaluation: noise for less is accepted",
        "evaluation/outcomes.py",
        "        allow(query, noise, self.relation)\n",
        "",
        "tests/evaluation/test_outcomes.py",
    ),
    (
        "evaluation: measures are not looked for in what was released",
        "evaluation_file.py",
        "same = same and wire.close(wire.to_plain(found.measures), wire.to_plain(evaluation.measures))",
        "same = True",
        "tests/evaluation/test_score.py",
    ),
    (
        "clip: half of the sensitivity is enough noise",
        "oracle/allowed.py",
        "if not needed <= noise.sensitivity * (1 + 1e-12):",
        "if not needed <= noise.sensitivity * 2.0:",
        "tests/contracts/test_oracles.py -k noise",
    ),
    (
        "clip: gradients side by side have one clip",
        "oracle/query.py",
        "return np.repeat([one.clip for one in self.gradients],",
        "return np.repeat([self.gradients[-1].clip for one in self.gradients],",
        "tests/contracts/test_oracles.py -k side_by_side",
    ),
    (
        "clip: gradients side by side need the noise of the first alone",
        "oracle/allowed.py",
        "for gradient, own in zip(points, noises, strict=False):",
        "for gradient, own in zip(points[:1], noises, strict=False):",
        "tests/contracts/test_oracles.py -k side_by_side",
    ),
    (
        "clip: logistic slopes 5 % looser",
        "oracle/kernels/slopes.py",
        "s = weights[i] * bounded(s, clip * inverses[i])\n            total += s\n            dots[i] = s * scales[i]\n"
        "    else:",
        "s = weights[i] * bounded(s, 1.05 * clip * inverses[i])\n            total += s\n"
        "            dots[i] = s * scales[i]\n    else:",
        "tests/oracle/test_edges.py",
    ),
    (
        "clip: exact gradients of any length",
        "oracle/linear.py",
        "self.model.asked(Gradient(at, problem.constants.L))",
        "self.model.asked(Gradient(at, 1e9 * problem.constants.L))",
        "tests/oracle/test_edges.py -k lipschitz",
    ),
    (
        "clip: rows a tenth longer than their bound",
        "oracle/rows.py",
        "scale = self.factor * np.minimum(1.0, self.bound / norms)",
        "scale = self.factor * np.minimum(1.0, 1.1 * self.bound / norms)",
        "tests/oracle/test_rows.py",
    ),
    (
        "clip: rows in columns longer than their bound",
        "oracle/kernels/columns.py",
        "scale = factor * (scale if scale < 1.0 else 1.0)",
        "scale = factor",
        "tests/oracle/files/test_column_sums.py",
    ),
    (
        "clip: a count of gradients comes for nothing",
        "oracle/query.py",
        "return math.sqrt(1 - self.count_weight**2 / 4)",
        "return 1.0",
        "tests/methods/test_adaptive_clip.py",
    ),
    (
        "clip: a count in which a record has a whole one",
        "oracle/torch/oracle.py",
        "within = self._unclipped - count / 2",
        "within = float(self._unclipped)",
        "tests/methods/test_adaptive_clip.py",
    ),
    (
        "clip: the weights of a recursion exchanged",
        "oracle/query.py",
        "return (1 - self.mix) * self.difference.clip + self.mix * self.gradient.clip",
        "return self.mix * self.difference.clip + (1 - self.mix) * self.gradient.clip",
        "tests/oracle/test_edges.py",
    ),
    (
        "weights: above one",
        "oracle/block.py",
        "posinf=1.0, neginf=0.0), 0.0, 1.0)",
        "posinf=1.0, neginf=0.0), 0.0, 1.5)",
        "tests/oracle/test_weights.py",
    ),
    (
        "weights: of another block of a file",
        "oracle/files/partition.py",
        "weights = self.weights[start - first : stop - first]",
        "weights = self.weights[: stop - start]",
        "tests/contracts/test_oracles.py -k weighted",
    ),
    (
        "weights: a column of weights that is a feature",
        "estimators/weights.py",
        "if schema is not None and given in (*schema.columns, schema.target.column):",
        "if schema is not None and given == schema.target.column:",
        "tests/estimators/test_weights.py",
    ),
    (
        "weights: classes weighed by more than one",
        "losses/weighted.py",
        "not all(0 <= weight <= 1 for weight in self.weights)",
        "not all(0 <= weight <= 9 for weight in self.weights)",
        "tests/test_losses.py -k wrong",
    ),
    (
        "weights: a class that changes moves one count of three",
        "oracle/statistics.py",
        "return _SQRT2 if relation is Relation.REPLACE_ONE and self.loss.outputs > 1 else 1.0",
        "return 1.0",
        "tests/oracle/test_statistics.py -k neighbour",
    ),
    (
        "losses: slopes of counts beyond their clip",
        "losses/log_link.py",
        "return clip(largest * exp(clip(a - log_largest, -_FAR, 0.0)) - y, -c, c)",
        "return clip(largest * exp(clip(a - log_largest, -_FAR, 0.0)) - y, -c, 1.1 * c)",
        "tests/contracts/test_losses.py -k lipschitz",
    ),
    (
        "targets: labels of any size",
        "losses/scalar.py",
        "return np.where(np.abs(y) == 1, y, np.nan)",
        "return np.where(np.isfinite(y), y, np.nan)",
        "tests/oracle/test_targets.py",
    ),
    (
        "targets: not held to what the loss admits",
        "oracle/block.py",
        "targets = loss.admit(self.targets)",
        "targets = self.targets",
        "tests/oracle/test_targets.py",
    ),
    (
        "last iterate: factor 5 % too small",
        "privacy/last_iterate.py",
        "return math.sqrt(_one_minus_power(c, steps) / (1 + power) * (1 + c) / (1 - c))",
        "return 0.95 * math.sqrt(_one_minus_power(c, steps) / (1 + power) * (1 + c) / (1 - c))",
        "tests/privacy/test_last_iterate.py",
    ),
    (
        "last iterate: bounded domain 5 % too small",
        "privacy/last_iterate.py",
        "return np.asarray((np.exp(K * log_c) * reach + S1) / np.sqrt(S2))",
        "return np.asarray(0.95 * (np.exp(K * log_c) * reach + S1) / np.sqrt(S2))",
        "tests/privacy/test_last_iterate.py",
    ),
    (
        "periods: a gradient's own sum is counted once",
        "methods/plan.py",
        "begun = math.ceil(self.steps / (self.first.every or self.steps))",
        "begun = 1",
        "tests/methods/test_spider_boost.py",
    ),
    (
        "periods: the last one is not counted",
        "methods/plan.py",
        "begun = math.ceil(self.steps / (self.first.every or self.steps))",
        "begun = max(1, self.steps // (self.first.every or self.steps))",
        "tests/methods/test_spider_boost.py",
    ),
    (
        "periods: a difference where a gradient is counted",
        "methods/updates.py",
        "return t == 0 if self.period is None else t % self.period == 0",
        "return t == 0",
        "tests/methods/test_spider_boost.py",
    ),
    (
        "newton: one Hessian is counted for all",
        "methods/noisy_newton.py",
        "(self.curvature_noise.event, self.steps)",
        "(self.curvature_noise.event, 1)",
        "tests/methods/test_noisy_newton.py",
    ),
    (
        "newton: one gradient is counted for all",
        "methods/noisy_newton.py",
        "Composed(((self.noise.event, self.steps)",
        "Composed(((self.noise.event, 1)",
        "tests/methods/test_noisy_newton.py",
    ),
    (
        "newton: a replaced record counts as an added one",
        "methods/noisy_newton.py",
        "Delta_g, Delta_h = budget.relation.distance * C,",
        "Delta_g, Delta_h = C,",
        "tests/methods/test_noisy_newton.py",
    ),
    (
        "phases: the best of them is counted",
        "methods/phased_sgd.py",
        "Gaussian(min(phase.noise.multiplier",
        "Gaussian(2 * max(phase.noise.multiplier",
        "tests/methods/test_phased_sgd.py",
    ),
    (
        "phases: the largest batch stands for all",
        "methods/phased_sgd.py",
        "Delta = 2 * L * eta_i / (length // T)",
        "Delta = 2 * L * eta_i / (length // T + 1)",
        "tests/methods/test_phased_sgd.py",
    ),
    (
        "phases: weights from further away than rounding is reckoned for",
        "methods/phased_sgd.py",
        "            w = Ball(phase.begins).project(w)",
        "            w = Ball(1e300).project(w)",
        "tests/methods/test_phased_sgd.py",
    ),
    (
        "phases: noise that does not fit beside weights is refused in view of them",
        "methods/phased_sgd.py",
        "if all(map(fits, plan.phases)):",
        "if True:",
        "tests/methods/test_phased_sgd.py",
    ),
    (
        "phases: steps that take points apart",
        "methods/phased_sgd.py",
        "if not eta <= 2 / beta:",
        "if False:",
        "tests/methods/test_phased_sgd.py",
    ),
    (
        "last iterate: used where records are added and removed",
        "methods/schedule.py",
        "counted = relation is Relation.REPLACE_ONE",
        "counted = True",
        "tests/methods/test_schedule.py tests/methods/test_noisy_gradient_descent.py",
    ),
    (
        "sensitivity: output perturbation a tenth too small",
        "methods/output_perturbation.py",
        "return min(eta * problem.gradient_sensitivity(Relation.REPLACE_ONE) * powers",
        "return min(0.9 * eta * problem.gradient_sensitivity(Relation.REPLACE_ONE) * powers",
        "tests/methods/test_output_perturbation.py",
    ),
    (
        "events: a distance counts once",
        "privacy/events.py",
        "yield None, 0, count * distance\n            yield from",
        "yield None, 0, distance\n            yield from",
        "tests/contracts/test_accountants.py",
    ),
    (
        "accountants: replaced records closer than they are",
        "privacy/accountants/pld.py",
        "return Replaced(event.rate, distance / 2)",
        "return Replaced(event.rate, distance / 2.1)",
        "tests/privacy/test_pld.py",
    ),
    (
        "accountants: an event that nobody knows is free",
        "privacy/accountants/__init__.py",
        "    if not _supporting(event, relation):",
        "    if False:",
        "tests/contracts/test_events.py -k raises_everywhere",
    ),
    (
        "accountants: the first answer counts, finite or not",
        "privacy/accountants/__init__.py",
        "        if least < enough:",
        "        if True:",
        "tests/contracts/test_events.py -k out_of_range",
    ),
    (
        "objective: one line instead of two",
        "privacy/accountants/objective.py",
        "return min(1.0, float((one + other).max()))",
        "return min(1.0, float(one[0]))",
        "tests/privacy/test_objective.py",
    ),
    (
        "objective: Gaussian releases beside it are free",
        "privacy/accountants/objective.py",
        "m_out = math.hypot(1 / happened.output_multiplier, leaves.mu)",
        "m_out = 1 / happened.output_multiplier",
        "tests/privacy/test_objective.py",
    ),
    (
        "objective: a minimiser on the sphere is released uncertified",
        "methods/solvers.py",
        "if norm_within(on_sphere, gradient(on_sphere), radius) <= tolerance:",
        "if True:",
        "tests/methods/test_objective_perturbation.py -k sphere",
    ),
    (
        "objective: what pulls inwards on the sphere counts for nothing",
        "methods/solvers.py",
        "nu = max(0.0, -float(g @ w) / radius**2)",
        "nu = -float(g @ w) / radius**2",
        "tests/methods/test_objective_perturbation.py -k inwards",
    ),
    (
        "calibrate: 1 % less noise than found",
        "privacy/calibrate.py",
        "safe <= unsafe * (1 + 1e-3 * _SLACK):\n            return safe",
        "safe <= unsafe * (1 + 1e-3 * _SLACK):\n            return safe * 0.99",
        "tests/privacy/test_calibrate.py",
    ),
    (
        "filter: leaks and distances are free",
        "privacy/charges.py",
        "if cap.pure or math.isinf(taken.mu) or not within_reserve(taken, cap, reserve):",
        "if cap.pure or math.isinf(taken.mu):",
        "tests/privacy/test_filter.py",
    ),
    (
        "filter: other releases as one point of their profile",
        "privacy/filter.py",
        "            mu = max(mu, gdp_mu(high, needed))",
        "            mu = gdp_mu(high, needed)",
        "tests/privacy/test_filter.py -k profile",
    ),
    (
        "filter: other releases are free",
        "privacy/filter.py",
        "if not (leaves.sampled or leaves.special):",
        "if not leaves.sampled:",
        "tests/privacy/test_filter.py -k 'admitted or profile'",
    ),
    (
        "filter: what is spent is forgotten",
        "privacy/filter.py",
        "        self._taken = taken\n",
        "",
        "tests/privacy/test_filter.py -k pure_budgets_add_up",
    ),
    (
        "filter: the Renyi rule without its limit",
        "privacy/filter.py",
        "return taken.mu <= largest and within_reserve",
        "return taken.mu <= 1.1 * largest and within_reserve",
        "tests/privacy/test_filter.py -k sampled_releases",
    ),
    (
        "networks: inner products of single precision are taken for exact",
        "oracle/torch/matrix.py",
        "value=slack(n + m + positions, dtype))",
        "value=0.0)",
        "tests/oracle/torch/test_matrix.py",
    ),
    (
        "networks: products that cancel at infinity are summed",
        "oracle/torch/matrix.py",
        "            squares.masked_fill_(too_long(lengths, dtype), torch.inf)\n",
        "",
        "tests/oracle/torch/test_matrix.py",
    ),
    (
        "networks: what shared rows add to a norm is left out",
        "oracle/torch/matrix.py",
        "alpha=1 if other is u else 2)",
        "alpha=0)",
        "tests/oracle/torch/test_matrix.py -k share",
    ),
    (
        "networks: the state behind a gate of a GRU has the gradient before it",
        "oracle/torch/layers.py",
        "e[..., 2 * width :] * r], -1)",
        "e[..., 2 * width :]], -1)",
        "tests/oracle/torch/test_gradients.py -k gru",
    ),
    (
        "stepwise: lost steps are free",
        "privacy/stepwise.py",
        "        left.subtract(used)\n",
        "",
        "tests/privacy/test_stepwise.py",
    ),
    (
        "ledger: a clock that was set back gives a year again",
        "ledger/ledger.py",
        "return max(before, transaction.now()",
        "return max('', transaction.now()",
        "tests/ledger/test_office.py -k set_back",
    ),
    (
        "ledger: 2 % overdraft",
        "ledger/book.py",
        "if needed > cap.epsilon:",
        "if needed > 1.02 * cap.epsilon:",
        "tests/ledger/test_ledger.py",
    ),
    (
        "ledger: open reservations do not count",
        "ledger/book.py",
        "return self.state is not State.UNUSED",
        "return self.state is State.SPENT",
        "tests/ledger/test_ledger.py",
    ),
    (
        "verify: planned again always holds",
        "certificate.py",
        "    if same:\n        return Finding(True",
        "    if True:\n        return Finding(True",
        "tests/test_certificate.py",
    ),
    (
        "verify: the second opinion is ignored",
        "certificate.py",
        "    return [*found, _covers(second, certificate, slack=_SLACK)]",
        "    return found",
        "tests/test_certificate.py",
    ),
    (
        "verify: numbers within 1 % are the same",
        "wire.py",
        "rel_tol=1e-6",
        "rel_tol=1e-2",
        "tests/test_certificate.py",
    ),
    (
        "verify: any weights",
        "certificate.py",
        "return weights_digest(weights) == self.weights",
        "return True",
        "tests/test_certificate.py",
    ),
    (
        "release: what cost more than was planned is returned",
        "release.py",
        "    if not earned.epsilon <= allowed.epsilon * (1 + _ROUNDING):",
        "    if False:",
        "tests/test_release.py -k withheld",
    ),
    (
        "ledger: nobody's signature is checked",
        "ledger/book.py",
        "if not member.face.signed(_PURPOSE, _signed(line, previous), signature):",
        "if False:",
        "tests/ledger/test_office.py",
    ),
    (
        "ledger: everybody may do everything",
        "ledger/book.py",
        "if self.managed and (signer not in self.members or role not in self.members[signer].roles):",
        "if False:",
        "tests/ledger/test_office.py",
    ),
    (
        "ledger: an altered line passes",
        "ledger/ledger.py",
        "fits = line.check == check_of(previous, line.body)",
        "fits = True",
        "tests/ledger/test_ledger.py -k changed",
    ),
    (
        "ledger: a forged book passes a check",
        "ledger/ledger.py",
        "self._kept.require_same(all(one == book for one in believed if one.lines == book.lines))",
        "pass",
        "tests/ledger/test_overview.py -k forged",
    ),
    (
        "ledger: a book that somebody else signed is believed",
        "ledger/kept_heads.py",
        "if not signed:",
        "if False:",
        "tests/ledger/test_overview.py -k forged",
    ),
    (
        "profile: a part of the integral is left out",
        "privacy/gaussian_profile.py",
        "_NEGLIGIBLE = 45.0",
        "_NEGLIGIBLE = 20.0",
        "tests/privacy/test_gdp.py",
    ),
    (
        "profile: rounded to the nearest, and not up",
        "privacy/gaussian_profile.py",
        "rounding = 2e-13 + 5e-16 * v * v",
        "rounding = -2e-13 - 5e-16 * v * v",
        "tests/privacy/test_gdp.py",
    ),
    (
        "ledger: a year has no limit",
        "ledger/book.py",
        "self.terms.per_year, year, None)",
        "None, year, None)",
        "tests/ledger/test_office.py",
    ),
    (
        "ledger: child processes do not see an open block",
        "privacy/ledger_context.py",
        "return here or open_blocks.of_ancestors() or {",
        "return here or {",
        "tests/privacy/test_ledger_context.py",
    ),
    (
        "networks: rounding of sums is free",
        "oracle/torch/oracle.py",
        "return 1 + sum_error(",
        "return 1 + 0 * sum_error(",
        "tests/oracle/torch/test_isolation.py",
    ),
    (
        "networks: records are clipped a tenth too late",
        "oracle/torch/oracle.py",
        'return [Share("gradient", clip / room, 1.0, softening)]',
        'return [Share("gradient", 1.1 * clip / room, 1.0, softening)]',
        "tests/oracle/torch/test_gradients.py tests/oracle/torch/test_isolation.py",
    ),
    (
        "networks: records stand in blocks in the order of their numbers",
        "oracle/torch/oracle.py",
        "order = permutation(count, stream)",
        "order = np.arange(count)",
        "tests/oracle/torch/test_isolation.py",
    ),
    (
        "train: a plan over its budget is run",
        "train.py",
        "if earned > budget.epsilon * (1 + 1e-9):",
        "if earned > budget.epsilon * 1e9:",
        "tests/test_release.py tests/test_certificate.py",
    ),
    (
        "federation: the colluders' noise counts",
        "federation/noise.py",
        "scale = noise.std / noise.step / math.sqrt(makers - colluders) * _MARGIN",
        "scale = noise.std / noise.step / math.sqrt(makers) * _MARGIN",
        "tests/federation/test_noise.py",
    ),
    (
        "federation: batch sizes rounded up",
        "federation/plan.py",
        "sizes = tuple(sampling.size * owner.records // n for owner in self.owners)",
        "sizes = tuple(-(-sampling.size * owner.records // n) for owner in self.owners)",
        "tests/federation/test_plan.py",
    ),
    (
        "federation: releases are not counted",
        "federation/secure_oracle.py",
        "        self._left[leaf] -= not of_run\n",
        "",
        "tests/federation/test_secure_oracle.py",
    ),
    (
        "federation: sums with correlated noise are opened in any order",
        "federation/secure_oracle.py",
        "        if self._left[leaf] < 1 or not in_turn:\n",
        "        if self._left[leaf] < 1:\n",
        "tests/federation/test_correlated.py",
    ),
    (
        "federation: shares of correlated noise are accounted for in too few coordinates",
        "federation/noise.py",
        "math.sqrt(self.honest * self.dim) * (1 + 2",
        "math.sqrt(self.dim / self.honest) * (1 + 2",
        "tests/federation/test_correlated.py",
    ),
    (
        "federation: correlated noise goes on without what was added before",
        "federation/lockstep.py",
        "        if recorded.begun and not self._plan.goes_on:\n",
        "        if False:\n",
        "tests/federation/test_faults.py",
    ),
    (
        "randomness: a child keeps its parent's key",
        "privacy/randomness.py",
        "        stream._restart_in_child()",
        "        pass",
        "tests/privacy/test_randomness.py",
    ),
    (
        "networks: automatic clipping beyond the clip",
        "oracle/torch/kernels.py",
        "length = norm + softening if softening > 0.0 else max(norm, clip)",
        "length = 0.9 * norm if softening > 0.0 else max(norm, clip)",
        "tests/oracle/torch/test_oracle.py -k no_record_counts",
    ),
    (
        "curves: a row depends on the records beside it",
        "tabular/expansion.py",
        "return np.hstack([*blocks.values(), *products])",
        "return np.hstack([*blocks.values(), *products]) + 1e-9 * given.mean()",
        "tests/tabular/test_curves.py",
    ),
    (
        "curves: rows longer than the schema states",
        "tabular/curves.py",
        "return math.sqrt(len(columns) + INTERACTION**2 * len(self.interactions))",
        "return math.sqrt(len(columns))",
        "tests/tabular/test_curves.py",
    ),
    (
        "categories: a replaced record moves one count of two",
        "oracle/statistics.py",
        "return math.sqrt(relation.distance * self.columns)",
        "return math.sqrt(self.columns)",
        "tests/prepare/test_categories.py",
    ),
    (
        "categories: the threshold forgets the record itself",
        "prepare/categories.py",
        "return 1 - noise.std * float(ndtri(single))",
        "return 0 - noise.std * float(ndtri(single))",
        "tests/prepare/test_categories.py",
    ),
    (
        "categories: one leak for all columns",
        "prepare/categories.py",
        "(self.leak, self.columns), (self.inner.event, 1)",
        "(self.leak, 1), (self.inner.event, 1)",
        "tests/prepare/test_categories.py",
    ),
    (
        "categories: the threshold is not kept",
        "oracle/uncoded.py",
        "above = np.flatnonzero(noisy > threshold)",
        "above = np.flatnonzero(noisy > 0)",
        "tests/prepare/test_categories.py",
    ),
    (
        "leaks cost nothing",
        "privacy/accountants/event_leaves.py",
        "found = found if leak == 0 else leak + (1 - leak) * found",
        "found = found",
        "tests/contracts/test_events.py",
    ),
    (
        "leaks: a search ignores them",
        "privacy/accountants/repeated.py",
        "return any(leaves_of(one, relation).leak > 0 for one in (rest, *runs))",
        "return False",
        "tests/contracts/test_events.py",
    ),
    (
        "leaks: a ledger ignores them",
        "privacy/filter.py",
        "return Charge(math.sqrt(math.fsum(squares)) * _UP, epsilon, leaves.leak, leaves.total_variation)",
        "return Charge(math.sqrt(math.fsum(squares)) * _UP, epsilon, 0.0, leaves.total_variation)",
        "tests/contracts/test_events.py",
    ),
    (
        "files: a changed file is not noticed",
        "tabular/stamp.py",
        "        if now != self:",
        "        if False:",
        "tests/oracle/files/test_bad_files.py",
    ),
    (
        "ledger: what is promised of persons and of records is added up",
        "ledger/book.py",
        '        for other in {group.unit for group in self.counted} - {"", unit}:',
        "        for other in set[str]():",
        "tests/ledger/test_ledger.py",
    ),
    (
        "networks: norms with the digits of autocast",
        "oracle/torch/oracle.py",
        "        cast = torch.is_autocast_enabled(self._passes.device.type)",
        "        cast = False",
        "tests/oracle/torch/test_isolation.py",
    ),
    (
        "networks: two masks of random numbers are tried out, not four",
        "oracle/torch/oracle.py",
        "TRIALS = 4",
        "TRIALS = 2",
        "tests/oracle/torch/test_isolation.py -k tried_out",
    ),
    (
        "networks: a library may cut the factors of products short",
        "oracle/torch/oracle.py",
        "        if not multiplies_in_full(self._passes.dtype, self._passes.device):",
        "        if False:",
        "tests/oracle/torch/test_isolation.py",
    ),
    (
        "ledger: one file under two names",
        "ledger/sqlite.py",
        "        if self.path.stat().st_nlink > 1:",
        "        if False:",
        "tests/ledger/test_ledger.py",
    ),
    (
        "networks: a record of a data set counts as often as its index",
        "oracle/torch/records.py",
        "if len(np.unique(origins)) < len(origins):",
        "if False:",
        "tests/oracle/torch/test_records.py",
    ),
    (
        "federation: what is spent buys more once all records were put back",
        "release.py",
        "isinstance(self._records, KeptAnswers) and self._records.knows_next)",
        "isinstance(self._records, KeptAnswers))",
        "tests/federation/test_faults.py",
    ),
    (
        "networks: items of a data set draw from one stream",
        "oracle/torch/records.py",
        "        _seed(seeds, place)",
        "        _seed(seeds, place) if place == 0 else None",
        "tests/oracle/torch/test_records.py",
    ),
    (
        "networks: a data set may draw from a generator of its own",
        "oracle/torch/records.py",
        "        if not all(_is_same(one, other)",
        "        if False and not all(_is_same(one, other)",
        "tests/oracle/torch/test_records.py",
    ),
    (
        "networks: places that follow from a record may be a neighbour's",
        "oracle/torch/reach.py",
        'if _name(node) in ("index_fill", "index_fill_") and node.args[2] in of_records:',
        "if False:",
        "tests/oracle/torch/test_isolation.py -k beyond_a_record",
    ),
    (
        "networks: memory that nobody wrote to may be shown",
        "oracle/torch/reach.py",
        "if _name(node) in _OTHER_MEMORY or",
        "if",
        "tests/oracle/torch/test_isolation.py -k resized",
    ),
    (
        "networks: numbers of a sparse tensor are written where a record says",
        "oracle/torch/reach.py",
        ' or _name(node).startswith("_sparse_coo_tensor"):',
        ":",
        "tests/oracle/torch/test_isolation.py -k sparse",
    ),
    (
        "networks: a record says where a bag of words begins",
        "oracle/torch/reach.py",
        "if _name(node) in _BAGS and",
        "if False and",
        "tests/oracle/torch/test_isolation.py -k bags",
    ),
    (
        "networks: what says where bags begin may be written to",
        "oracle/torch/reach.py",
        'all(_name(user).startswith("_embedding_bag") for user in offsets.users)',
        "True",
        "tests/oracle/torch/test_isolation.py -k bags",
    ),
    (
        "networks: a point outside of a picture is no number in the end",
        "oracle/torch/reach.py",
        "_put_before(node, place, aten.clamp.default, -furthest, furthest)",
        "pass",
        "tests/oracle/torch/test_isolation.py -k point_outside",
    ),
    (
        "networks: a point in a picture may be no number",
        "oracle/torch/reach.py",
        "_put_before(node, place, aten.nan_to_num.default, 0.0)",
        "pass",
        "tests/oracle/torch/test_isolation.py -k no_numbers",
    ),
    (
        "networks: a class beyond the last points into other memory",
        "oracle/torch/reach.py",
        "_value(node, place - 1).shape[-1] - 1)",
        "_value(node, place - 1).shape[-1])",
        "tests/oracle/torch/test_isolation.py -k class_beyond",
    ),
    (
        "networks: a word is looked up only where its row is needed",
        "oracle/torch/reach.py",
        "graph.eliminate_dead_code(lambda node: node.is_impure() or node.target is aten.embedding.default)",
        "graph.eliminate_dead_code()",
        "tests/oracle/torch/test_isolation.py -k beyond_the_table",
    ),
    (
        "networks: a record alone writes where the one before has written",
        "oracle/torch/results.py",
        "copies=inputs is None",
        "copies=False",
        "tests/oracle/torch/test_isolation.py -k another_shape",
    ),
    (
        "networks: a recursion's small share is rounded up",
        "oracle/torch/norms.py",
        "return self.factor * self.clip or self.clip",
        "return self.clip",
        "tests/oracle/torch/test_isolation.py -k little_weight",
    ),
    (
        "networks: what a data set says of a record is passed on",
        "oracle/torch/records.py",
        "failed = type(error).__name__",
        "failed = str(error)",
        "tests/oracle/torch/test_records.py",
    ),
    (
        "networks: the first record's dtype is made everybody's",
        "oracle/torch/records.py",
        "if part.dtype != dtype:",
        "part = part.to(dtype)\n                if False:",
        "tests/oracle/torch/test_records.py",
    ),
    (
        "files: records count once for every name of their file",
        "tabular/stamp.py",
        "if mark in known:",
        "if False:",
        "tests/oracle/files/test_bad_files.py",
    ),
    (
        "tables: a missing cell makes everybody's whole numbers floats, with other texts",
        "tabular/encode.py",
        "whole = pc.and_(finite, pc.equal(numbers, pc.floor(numbers)))",
        "whole = pc.and_(finite, pc.equal(numbers, pc.add(numbers, 1.0)))",
        "tests/tabular/test_encode.py",
    ),
    (
        "tables: the longest decimal of a column rounds the others",
        "tabular/cells.py",
        "if pa.types.is_decimal(cells.type):",
        "if False:",
        "tests/tabular/test_encode.py",
    ),
    (
        "tables: one record's kind of cell decides how those of all others are read",
        "tabular/frames.py",
        "if kind.__name__ not in _MISSING}) > 1:",
        "if kind.__name__ not in _MISSING}) > 2:",
        "tests/tabular/test_encode.py",
    ),
    (
        "tables: a number that is none makes numbers of everybody's truth values",
        "tabular/frames.py",
        "pa.array(column, from_pandas=True)",
        "pa.array(column)",
        "tests/tabular/test_encode.py",
    ),
    (
        "pictures: one that is not of bytes decides what the bytes of all others mean",
        "estimators/pictures.py",
        "if pictures.dtype != np.uint8 and any(",
        "if False and any(",
        "tests/estimators/test_pictures.py",
    ),
    (
        "pipelines: whether rows are sparse follows from all records",
        "estimators/before.py",
        "or (sparse and step.sparse_threshold > 0)",
        "or False",
        "tests/estimators/test_before.py",
    ),
    (
        "pipelines: the types of columns, which follow from all records, choose some",
        "estimators/before.py",
        "return columns.dtype_include is not None or columns.dtype_exclude is not None",
        "return columns.dtype_include is not None",
        "tests/estimators/test_before.py",
    ),
    (
        "ensembles: one that draws records twice may train on them",
        "estimators/before.py",
        "return repeated or (",
        "return (",
        "tests/estimators/test_before.py",
    ),
    (
        "ensembles: errors of all records weigh every one of them",
        "estimators/before.py",
        '("AdaBoostClassifier", "AdaBoostRegressor"),',
        '("AdaBoostRegressor",),',
        "tests/estimators/test_before.py",
    ),
    (
        "ensembles: given classes are numbered by those that occur",
        "estimators/before.py",
        '"BaggingClassifier", "StackingClassifier", "VotingClassifier")',
        '"BaggingClassifier", "StackingClassifier")',
        "tests/estimators/test_before.py",
    ),
    (
        "pipelines: what pictures are trained by does not know what is before them",
        "estimators/pictures.py",
        "model._as_part_of(self).fit(rows, y)",
        "model.fit(rows, y)",
        "tests/estimators/test_before.py",
    ),
    (
        "pipelines: nobody expects sparse rows of a function",
        "estimators/before.py",
        "(FeatureHasher, FrozenEstimator, FunctionTransformer, HashingVectorizer, SchemaEncoder)",
        "(FeatureHasher, FrozenEstimator, HashingVectorizer, SchemaEncoder)",
        "tests/estimators/test_before.py",
    ),
    (
        "training: as many models as there are starts, paid for as one",
        "train.py",
        "if start is not None and np.ndim(start) > 1:",
        "if False:",
        "tests/test_release.py",
    ),
    (
        "preparation: a long row counts for all of its length",
        "oracle/statistics.py",
        "return np.asarray(abs(some.u).sum(axis=0))",
        "return np.asarray(abs(some.x).sum(axis=0))",
        "tests/oracle/test_statistics.py",
    ),
    (
        "preparation: a long sparse row counts for all of its length",
        "oracle/sparse.py",
        "u = sparse.diags_array(given.scales / self.rows.length) @ x",
        "u = x / self.rows.bound",
        "tests/oracle/test_statistics.py",
    ),
    (
        "intervals: a record's curvature counts for more than its bound",
        "oracle/statistics.py",
        "v = np.clip(np.where(np.isfinite(v), v, 0.0), 0.0, 1.0)",
        "v = 1.5 * np.where(np.isfinite(v), v, 0.0)",
        "tests/oracle/test_statistics.py",
    ),
    (
        "intervals: replacing a record moves a curvature as far as adding one",
        "oracle/statistics.py",
        """        \"\"\"The sensitivity, wherever it is asked.\"\"\"
        return _SQRT2 if relation is Relation.REPLACE_ONE else 1.0""",
        "        return 1.0",
        "tests/oracle/test_statistics.py",
    ),
    (
        "intervals: squares of targets are not in the price",
        "oracle/statistics.py",
        "2 + b2 + self.squares))",
        "2 + b2))",
        "tests/oracle/test_statistics.py",
    ),
    (
        "intervals: the last sum is not in the event",
        "inference/with_intervals.py",
        "for noise in (self.gradient, self.curvature, self.slopes) if noise is not None)",
        "for noise in (self.gradient, self.curvature) if noise is not None)",
        "tests/inference/test_with_intervals.py",
    ),
    (
        "intervals: objective perturbation is planned as if nothing were beside it",
        "inference/with_intervals.py",
        "others = tuple((noise.event, 1) for step in newton for noise in step.sums)",
        "others = ()",
        "tests/inference/test_with_intervals.py",
    ),
    (
        "intervals: those that nobody paid for verify",
        "model_file.py",
        "paid = model.asked_for_intervals",
        "paid = True",
        "tests/estimators/test_intervals.py",
    ),
    (
        "intervals: an inverse that is mostly noise is believed",
        "inference/with_intervals.py",
        "            if not here.clear:",
        "            if False:",
        "tests/inference/test_with_intervals.py",
    ),
    (
        "persons: every record counts as much as a person",
        "oracle/person_blocks.py",
        "total.total(()) / share.divisor)",
        "total.total(()))",
        "tests/contracts/test_persons.py",
    ),
    (
        "persons: a sum that is not clipped",
        "oracle/person_blocks.py",
        "clip / np.maximum(norms, clip), vectors)",
        "np.ones_like(norms), vectors)",
        "tests/contracts/test_persons.py",
    ),
    (
        "persons: a clipped sum passes for a gradient",
        "problem.py",
        "self.penalty.convexity >= 0 and not self.summed",
        "self.penalty.convexity >= 0",
        "tests/contracts/test_persons.py",
    ),
    (
        "persons in networks: every record counts as much as a person",
        "oracle/torch/bundles.py",
        "np.where(there, share * _SHY, 0.0)",
        "np.where(there, _SHY, 0.0)",
        "tests/oracle/torch/test_persons.py",
    ),
    (
        "persons in networks: places that are left over count",
        "oracle/torch/bundles.py",
        "np.where(there, share * _SHY, 0.0)",
        "share * _SHY + 0.0 * there",
        "tests/oracle/torch/test_persons.py",
    ),
    (
        "persons in networks: batches draw records",
        "oracle/torch/oracle.py",
        "return records if self._bundles is None else len(self._bundles)",
        "return records",
        "tests/oracle/torch/test_persons.py",
    ),
    (
        "persons among owners: whoever brings no identifiers is trusted",
        "federation/agreement.py",
        "if plan.problem.person is not None and silent and",
        "if plan.problem.person is None and silent and",
        "tests/federation/test_agreement.py",
    ),
    (
        "kinks: matrix products score records at a jump of the slope",
        "oracle/dense.py",
        "jumps = has_jumps(asked, self.rows.norm)",
        "jumps = False",
        "tests/oracle/test_kinks.py",
    ),
    (
        "kinks: a slope may be as steep as it likes",
        "oracle/block.py",
        "return not asked.loss.smoothness(row_norm) * longest * sys.float_info.epsilon <= _NOTHING * clip",
        "return asked.loss.smoothness(row_norm) == math.inf",
        "tests/oracle/test_kinks.py",
    ),
    (
        "rows: scores may overflow",
        "oracle/block.py",
        "return max(_SMALLEST_SCALE, rows.factor / _LONGEST)",
        "return _SMALLEST_SCALE",
        "tests/oracle/test_edges.py",
    ),
    (
        "kinks: one row's duplicates decide the order of all",
        "oracle/kernels/sparse.py",
        "if column <= before:",
        "if column == before:",
        "tests/oracle/test_kinks.py",
    ),
    (
        "kinks: matrix products score the classes of a record",
        "oracle/dense.py",
        "_scores_alone if jumps else _scores",
        "_scores",
        "tests/oracle/test_kinks.py",
    ),
    (
        "persons: matrix products score their records",
        "oracle/block.py",
        "np.ascontiguousarray(row_by_row(r, asked.table.T).T)",
        "np.ascontiguousarray((r @ asked.table.T).T)",
        "tests/oracle/test_kinks.py",
    ),
    (
        "rows: one that is alone is measured in another order",
        "row_by_row.py",
        "_BUFFER = 4096",
        "_BUFFER = 1 << 20",
        "tests/test_row_by_row.py",
    ),
    (
        "curvature: a record counts for more than its bound",
        "curvature.py",
        "np.clip(records.traces(), 0.0, c).sum()",
        "records.traces().sum()",
        "tests/test_curvature.py",
    ),
    (
        "curvature: matrix products score records at a jump",
        "curvature.py",
        "dots = row_by_row(X, features.T)",
        "dots = np.asarray(X @ features.T)",
        "tests/test_curvature.py",
    ),
    (
        "evaluation: matrix products score records that lie at an edge",
        "model_file.py",
        "return self._scores(X, row_by_row)",
        "return self._scores(X)",
        "tests/evaluation/test_score.py",
    ),
    (
        "intervals: matrix products score records at a jump of the curvature",
        "oracle/statistics.py",
        "row_by_row(some.r, self.at)",
        "(some.r @ self.at)",
        "tests/test_row_by_row.py",
    ),
]


def main(words: list[str]) -> int:
    chosen = [row for row in ROWS if not words or any(word in f"{row[0]} {row[1]}" for word in words)]
    free: SimpleQueue[Path] = SimpleQueue()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        for number in range(os.cpu_count() or 1):
            free.put(_copied(Path(folder) / str(number)))
        unnoticed = sum(pool.map(partial(_survives, free), chosen))
    print(f"{len(chosen)} changes, {unnoticed} of them not noticed.")
    return 1 if unnoticed else 0


def _copied(copy: Path) -> Path:
    for name in ("src", "tests", "examples", "docs"):
        shutil.copytree(PROJECT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(PROJECT / name, copy)
    return copy


def _survives(free: SimpleQueue[Path], row: Row) -> bool:
    name, file, old, new, tests = row
    start, copy = time.monotonic(), free.get()
    try:
        verdict = _verdict(copy, file, old, new, tests)
    finally:
        free.put(copy)
    print(f"{verdict:>24}  {name}  ({file}, {time.monotonic() - start:.0f} s)", flush=True)
    return verdict != "noticed"


def _verdict(copy: Path, name: str, old: str, new: str, tests: str) -> str:
    file = copy / "src/sordino" / name
    text = file.read_text() if file.exists() else ""
    if text.count(old) != 1:
        return f"OLD TEXT {text.count(old)} TIMES"
    file.write_text(text.replace(old, new))
    # compiled kernels are kept, except where the change is in them: Numba does not follow what they call
    own = name.startswith(("losses/", "oracle/kernels/", "oracle/torch/", "privacy/noise_kernels", "privacy/pieces"))
    compiled = copy / ("compiled anew" if own else "compiled")
    shutil.rmtree(copy / "compiled anew", ignore_errors=True)
    try:
        code = _run(copy, compiled, tests)
    finally:
        file.write_text(text)
    # 1: tests ran and one failed; nothing else shows that the change was noticed
    return {0: "SURVIVED", 1: "noticed"}.get(code, f"TESTS DID NOT RUN ({code})")


def _run(copy: Path, compiled: Path, tests: str) -> int:
    one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    paths = os.pathsep.join(str(copy / name) for name in ("src", "tests"))
    environment = os.environ | one_thread
    environment |= {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": str(compiled)}
    fast = "not audit and not slow"
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", "-m", fast]
    command += shlex.split(tests)
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return -1
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
