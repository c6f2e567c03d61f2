"""The training loop: which weights are chosen, how they are averaged, and which settings are valid."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from toy_models import first_column

import l2x
from l2x.errors import InputError, TrainingError
from l2x.learning._training import (
    Adam,
    BestWeights,
    Phase,
    Run,
    TrainingPlan,
    WeightAverage,
    _minibatches,
    optimise,
)
from l2x.learning.networks import recipes_of


def parabola(steps: int = 400, **options: object) -> tuple[nn.Linear, list[dict[str, float]]]:
    """Maximise -(w - 3)² over the single weight of a network."""
    network = nn.Linear(1, 1, bias=False)
    run = Run.begin(TrainingPlan(progress=False), seed=0)
    optimise(
        network,
        lambda index, progress: -(network.weight - 3).square().sum(),
        lambda candidate: -(candidate.weight.detach() - 3).square().flatten(),
        phase=Phase(steps, 0.1, **options),  # type: ignore[arg-type]
        n=10,
        label="test",
        run=run,
    )
    return network, run.history


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
@pytest.mark.parametrize("schedule", ["cosine", "constant"])
def test_finds_the_maximum(optimizer: str, schedule: str) -> None:
    network, history = parabola(optimizer=optimizer, schedule=schedule)
    assert network.weight.item() == pytest.approx(3, abs=0.1)
    assert len(history) == TrainingPlan().evaluations
    assert not network.training


@pytest.mark.parametrize(("n", "batches", "size"), [(7, 1, 7), (7, 3, 3), (100, 3, 10), (2, 5, 1)])
def test_an_epoch_has_at_least_so_many_batches(n: int, batches: int, size: int) -> None:
    phase = Phase(20, 1e-3, batch_size=10, batches=batches)
    drawn = list(_minibatches(n, phase, torch.Generator().manual_seed(0)))
    assert [len(index) for index in drawn] == [size] * 20
    assert len(set(torch.cat(drawn[: n // size]).tolist())) == n // size * size  # no row twice in an epoch


def test_adam_is_that_of_torch() -> None:
    """Including weight decay, and a parameter that gets no gradient."""
    mine = [nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(1))]
    theirs = [nn.Parameter(p.detach().clone()) for p in mine]
    adam = Adam([(mine[:1], 0.1), (mine[1:], 0.0)])
    reference = torch.optim.Adam([{"params": theirs[:1], "weight_decay": 0.1}, {"params": theirs[1:]}])
    for rate in (0.1, 0.05, 0.2):
        for parameters in (mine, theirs):
            for p in parameters:
                p.grad = None
            (parameters[0].square().sum() + (parameters[1] ** 3).sum()).backward()
        adam.update(rate)
        for group in reference.param_groups:
            group["lr"] = rate
        reference.step()
    assert all(torch.allclose(p, q) for p, q in zip(mine, theirs, strict=True))


def test_patience_stops_early() -> None:
    _, history = parabola(steps=4000, patience=2)
    assert len(history) < TrainingPlan().evaluations


def test_the_best_weights_are_kept() -> None:
    network = nn.Linear(1, 1, bias=False)
    choice = BestWeights(Phase(1, 1.0))
    for weight, value in ((1.0, 0.1), (2.0, 0.9), (3.0, 0.5)):
        network.weight.data.fill_(weight)
        choice.consider(network, torch.tensor([value]))
    assert choice.weights is not None
    assert choice.weights["weight"].item() == 2.0
    assert choice.stale == 1


def test_the_latest_weights_are_kept_only_if_not_noticeably_worse() -> None:
    """Within one standard error, and within a thousandth of a nat."""
    network = nn.Linear(1, 1, bias=False)
    noise = torch.randn(1000, generator=torch.Generator().manual_seed(0)) * 1e-3
    best = torch.zeros(1000)
    for lost, kept in (
        (noise - noise.mean(), 2.0),
        (torch.full((1000,), 0.01), 1.0),
        (20 * noise + 0.002, 1.0),
    ):
        choice = BestWeights(Phase(1, 1.0, choose="latest"))
        network.weight.data.fill_(1.0)
        choice.consider(network, best)
        network.weight.data.fill_(2.0)
        choice.consider(network, best - lost - 1e-9)
        assert choice.weights is not None
        assert choice.weights["weight"].item() == kept


def test_the_last_weights_are_kept_whatever_their_held_out_loss() -> None:
    network = nn.Linear(1, 1, bias=False)
    choice = BestWeights(Phase(1, 1.0, choose="last"))
    for weight, value in ((1.0, 0.9), (2.0, 0.1)):
        network.weight.data.fill_(weight)
        choice.consider(network, torch.tensor([value]))
    assert choice.weights is not None
    assert choice.weights["weight"].item() == 2.0
    assert choice.value == pytest.approx(0.9)  # the reported best value does not change


def evaluated_as(values: list[float], **options: object) -> nn.Linear:
    """Train for one step per evaluation, whose values are given; the weight is the number of steps."""
    network, left = nn.Linear(1, 1, bias=False), iter(values)
    nn.init.zeros_(network.weight)

    def validate(candidate: nn.Module) -> torch.Tensor:
        candidate.weight.fill_(len(values) - left.__length_hint__())  # type: ignore[operator, union-attr]
        return torch.tensor([next(left)])

    optimise(
        network,
        lambda index, progress: network.weight.sum(),
        validate,
        phase=Phase(len(values), 0.02, **options),  # type: ignore[arg-type]
        n=3,
        label="working",
        run=Run.begin(TrainingPlan(evaluations=len(values), progress=False), seed=0),
    )
    return network


@pytest.mark.parametrize("choose", ["best", "latest", "last"])
@pytest.mark.parametrize("patience", [None, 2])
def test_a_loss_that_is_never_finite_is_an_error(choose: str, patience: int | None) -> None:
    with pytest.raises(TrainingError, match=r"working.*\bnan\b.*learning_rate.* 0\.02;.* 0\.002"):
        evaluated_as([np.nan] * 4, choose=choose, patience=patience)


@pytest.mark.parametrize("choose", ["best", "latest", "last"])
def test_diverged_weights_are_never_kept(choose: str) -> None:
    assert evaluated_as([np.nan, -1.0, np.nan], choose=choose).weight.item() == 1


def test_training_that_diverges_late_stops_with_a_warning() -> None:
    """Even if held-out rows have a value; the weights from before are used."""
    network, run = nn.Linear(1, 1, bias=False), Run.begin(TrainingPlan(evaluations=8, progress=False), seed=0)
    with pytest.warns(UserWarning, match=r"diverged \(working, step 5\).*learning_rate .* 0\.1;"):
        optimise(
            network,
            lambda index, progress: network.weight.sum() * (math.nan if progress > 0.5 else 1),
            lambda candidate: torch.zeros(1),
            phase=Phase(8, 0.1, choose="last"),
            n=3,
            label="working",
            run=run,
        )
    assert [math.isnan(entry["loss"]) for entry in run.history] == [False] * 4 + [True]
    assert network.weight.isfinite().all()


def test_few_rows_are_evaluated_more_often() -> None:
    """At least every third epoch, or 20 times: 50 steps of 10 rows each."""
    phase = Phase(500, 1e-3, batch_size=10, look_every=3)
    assert [phase.steps_between(n, 20) for n in (10, 20, 81, 90, 1000)] == [3, 6, 25, 25, 25]
    assert replace(phase, look_every=None).steps_between(10, 20) == 25


def test_a_learning_rate_at_which_training_diverges_is_an_error() -> None:
    X = np.random.default_rng(0).normal(size=(100, 4))
    phase = Phase(5, 1e30, schedule="constant")
    plan = TrainingPlan(phase, phase, evaluations=2, progress=False)
    with pytest.raises(TrainingError, match=r"learning_rate .* 1e\+30"):
        l2x.Explainer(first_column, 1, training=plan).fit(X)


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_l2_is_part_of_what_is_minimised(optimizer: str) -> None:
    """(w - 3)² + w²/2 is least at 2; the bias, which has no penalty, at 3."""
    network, _ = parabola(optimizer=optimizer, l2=0.5, choose="last")
    assert network.weight.item() == pytest.approx(2, abs=0.1)
    bias = nn.Linear(1, 1)
    optimise(
        bias,
        lambda index, progress: -(bias.bias - 3).square().sum(),
        lambda candidate: -(candidate.bias.detach() - 3).square(),
        phase=Phase(400, 0.1, optimizer=optimizer, l2=0.5),  # type: ignore[arg-type]
        n=10,
        label="test",
        run=Run.begin(TrainingPlan(progress=False), seed=0),
    )
    assert bias.bias.item() == pytest.approx(3, abs=0.1)


def test_l2_excludes_parameters_that_a_module_lists() -> None:
    class Free(nn.Linear):
        @property
        def without_l2(self) -> list[nn.Parameter]:
            return [self.weight]

    network = Free(1, 1, bias=False)
    optimise(
        network,
        lambda index, progress: -(network.weight - 3).square().sum(),
        lambda candidate: -(candidate.weight.detach() - 3).square().flatten(),
        phase=Phase(400, 0.1, l2=0.5, choose="last"),
        n=10,
        label="test",
        run=Run.begin(TrainingPlan(progress=False), seed=0),
    )
    assert network.weight.item() == pytest.approx(3, abs=0.1)


def test_averages_include_buffers() -> None:
    network = nn.BatchNorm1d(2)
    average = WeightAverage(network, 0.5)
    network.running_mean.fill_(7.0)  # type: ignore[union-attr, operator]
    network.weight.data.fill_(3.0)
    for _ in range(200):
        average.update()
    assert average.network.running_mean.tolist() == [7.0, 7.0]  # type: ignore[union-attr, operator]
    assert average.network.weight.tolist() == pytest.approx([3.0, 3.0])


def test_the_number_of_threads_is_restored() -> None:
    before = torch.get_num_threads()
    parabola(steps=2)
    assert torch.get_num_threads() == before


def test_plans() -> None:
    assert l2x.TrainingPlan.quick().value.steps < l2x.TrainingPlan().value.steps
    assert l2x.TrainingPlan.paper().selector.choose == "last"
    assert l2x.TrainingPlan.paper(as_published=True).selector.optimizer == "rmsprop"


def test_concurrent_fits_give_the_same_result_as_consecutive_ones() -> None:
    X = np.random.default_rng(0).normal(size=(100, 4))
    plan = TrainingPlan(Phase(5, 1e-2), Phase(5, 1e-2), evaluations=2, progress=False)

    def scores(_: int) -> np.ndarray:
        return l2x.Explainer(first_column, 1, training=plan).fit(X).explain(X).scores

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(scores, range(6)))
    assert all(np.array_equal(one, scores(0)) for one in found)


@pytest.mark.parametrize("steps", [0, -1, 2.5, "a", True])
def test_invalid_steps_are_refused(steps: object) -> None:
    for phase in ("value", "selector"):
        with pytest.raises(InputError, match=rf"\bsteps is {steps!r}"):
            TrainingPlan().with_steps(**{phase: steps})


whole = st.integers(1, 40)
VALID_PHASE = {
    "steps": whole,
    "learning_rate": st.floats(1e-12, 10),
    "batch_size": whole | st.just(10**9),
    "batches": whole | st.just(10**9),
    "optimizer": st.sampled_from(["adam", "rmsprop"]),
    "schedule": st.sampled_from(["cosine", "constant"]),
    "averaging": st.floats(0, 1, exclude_max=True),
    "patience": st.none() | whole,
    "choose": st.sampled_from(["best", "latest", "last"]),
    "l2": st.floats(0, 10),
    "epochs": st.none() | st.integers(1, 10**6),
    "look_every": st.none() | st.integers(1, 10**6),
    "ahead": st.integers(1, 9),
}
PHASES = st.builds(Phase, **VALID_PHASE)
VALID_PLAN = {
    "value": PHASES,
    "selector": PHASES,
    "evaluations": whole | st.just(10**9),
    "validation_rows": whole,
    "progress": st.just(value=False),
    "threads": st.none() | st.integers(1, 2),
}
PLANS = st.builds(TrainingPlan, **VALID_PLAN)


@settings(max_examples=100, deadline=None)
@given(plan=PLANS, n=st.integers(1, 50), value=whole)
def test_any_valid_plan_trains(plan: TrainingPlan, n: int, value: int) -> None:
    network, run = nn.Linear(1, 1), Run.begin(plan.with_steps(value=value), seed=0)
    seen: list[int] = []

    def objective(index: torch.Tensor, progress: float) -> torch.Tensor:
        seen.append(len(index))
        assert 0 < progress <= 1
        return -(network.weight - 3).square().sum()

    phase = run.plan.value
    optimise(network, objective, lambda candidate: -(candidate.weight.detach() - 3).square().flatten(),
             phase=phase, n=n, label="test", run=run)  # fmt: skip
    assert set(seen) == {min(phase.batch_size, math.ceil(n / phase.batches))}
    assert len(seen) == phase.steps_for(n) or phase.patience is not None
    assert 1 <= len(run.history) <= phase.steps
    assert network.weight.isfinite().all()


STRANGE = st.sampled_from([None, True, "", "adamant", "1", [], 0.5 + 1j, np.zeros(2), object()])
NOT_WHOLE = st.integers(max_value=0) | st.floats() | STRANGE
NOT_NUMBERS = st.sampled_from([np.nan, np.inf, -np.inf, -1, -1e-9]) | STRANGE
NAMES = {"adam", "rmsprop", "cosine", "constant", "best", "latest", "last"}
NOT_NAMES = st.text().filter(lambda text: text not in NAMES) | st.integers() | STRANGE
INVALID_PHASE = {
    "steps": NOT_WHOLE,
    "learning_rate": NOT_NUMBERS | st.just(0),
    "batch_size": NOT_WHOLE,
    "batches": NOT_WHOLE,
    "optimizer": NOT_NAMES,
    "schedule": NOT_NAMES,
    "averaging": NOT_NUMBERS | st.floats(min_value=1),
    "patience": NOT_WHOLE.filter(lambda value: value is not None),
    "choose": NOT_NAMES,
    "l2": NOT_NUMBERS,
    "epochs": NOT_WHOLE.filter(lambda value: value is not None),
    "look_every": NOT_WHOLE.filter(lambda value: value is not None),
    "ahead": NOT_WHOLE,
}
INVALID_PLAN = {
    "value": NOT_NUMBERS,
    "selector": NOT_NUMBERS,
    "evaluations": NOT_WHOLE,
    "validation_rows": NOT_WHOLE,
    "progress": st.integers() | STRANGE.filter(lambda value: value is not True),
    "threads": NOT_WHOLE.filter(lambda value: value is not None),
}


@pytest.mark.parametrize(("rows", "steps"), [(1, 60), (10, 60), (100, 60), (400, 80), (10_000, 500)])
def test_few_rows_have_fewer_updates(rows: int, steps: int) -> None:
    """At most 20 epochs, each of at least three updates of at most 100 rows, if there are three rows."""
    phase = Phase(500, 1e-3, batch_size=100, batches=3, epochs=20)
    assert phase.steps_for(rows) == (20 if rows == 1 else steps)
    run = Run.begin(TrainingPlan(progress=False), seed=0)
    network = nn.Linear(1, 1)
    optimise(
        network,
        lambda index, _: network(torch.ones(len(index), 1)).mean(),
        lambda candidate: candidate(torch.ones(2, 1))[:, 0],
        phase=phase,
        n=rows,
        label="trained",
        run=run,
    )
    assert run.history[-1]["step"] == phase.steps_for(rows)


def test_every_field_has_invalid_values() -> None:
    assert list(INVALID_PHASE) == list(VALID_PHASE) == [field.name for field in fields(Phase)]
    assert list(INVALID_PLAN) == list(VALID_PLAN) == [field.name for field in fields(TrainingPlan)]


@pytest.mark.parametrize("name", INVALID_PHASE)
@settings(deadline=None)
@given(phase=PHASES, data=st.data())
def test_an_invalid_phase_is_refused_by_name(name: str, phase: Phase, data: st.DataObject) -> None:
    with pytest.raises(InputError, match=rf"^{name} is "):
        replace(phase, **{name: data.draw(INVALID_PHASE[name])})


@pytest.mark.parametrize("name", INVALID_PLAN)
@settings(deadline=None)
@given(data=st.data())
def test_an_invalid_plan_is_refused_by_name(name: str, data: st.DataObject) -> None:
    with pytest.raises(InputError, match=rf"^{name} is "):
        replace(TrainingPlan(), **{name: data.draw(INVALID_PLAN[name])})


def test_an_early_stop_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    network = nn.Linear(1, 1)
    phase = Phase(50, 1e-9, patience=2)
    run = Run.begin(TrainingPlan(evaluations=50, progress=True), seed=0)
    optimise(network, lambda index, _: network.weight.sum(), lambda _: torch.zeros(3), phase=phase, n=3,
             label="working", run=run)  # fmt: skip
    assert len(run.history) == 3
    assert "stopped early (best" in capsys.readouterr().err


def test_a_quick_plan_is_the_views_own_but_shorter() -> None:
    import l2x

    assert l2x.TrainingPlan.quick(l2x.Columns()) == l2x.TrainingPlan.quick()
    for view in (l2x.Words(), l2x.Sentences(), l2x.Patches(2)):
        plan, quick = recipes_of(view).ours.plan, l2x.TrainingPlan.quick(view)
        assert quick.value.batch_size == plan.value.batch_size
        assert quick.value.steps < plan.value.steps
        assert quick.selector.steps < plan.selector.steps
        assert not quick.progress


def test_the_average_follows_buffers_that_change() -> None:
    """Statistics of batch normalisation, and those that a module does not save."""
    network = nn.BatchNorm1d(2)
    network.count = nn.Buffer(torch.zeros(1), persistent=False)
    average = WeightAverage(network, 0.9)
    network(torch.randn(50, 2) + 3)
    network.count += 1
    average.update()
    assert network.running_mean is not None
    assert network.running_mean.any()
    assert all(torch.equal(*pair) for pair in zip(average.network.buffers(), network.buffers(), strict=True))
