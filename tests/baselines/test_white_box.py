"""Gradient methods and TreeSHAP: what each must satisfy on models whose explanation is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from torch import nn
from toy_models import people

import l2x
from l2x.baselines import (
    LRP,
    DeepLift,
    IntegratedGradients,
    KernelShap,
    Lime,
    Saliency,
    Taylor,
    TreeShap,
)
from l2x.features import Columns

METHODS = [Saliency, Taylor, DeepLift, IntegratedGradients, LRP]
SIGNED = [Taylor, DeepLift, IntegratedGradients, LRP]


def network(*, bias: bool = True, d: int = 5, seed: int = 0) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        first, second, last = (nn.Linear(m, n, bias=bias) for m, n in ((d, 16), (16, 12), (12, 3)))
        return nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)


def rows(n: int = 40, d: int = 5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def outputs(net: nn.Module, X: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        output: np.ndarray = net(torch.from_numpy(X)).numpy()
    return output


def linear(weights: Any) -> nn.Linear:
    """One output, w·x."""
    net = nn.Linear(len(weights), 1, bias=False)
    net.weight.data[:] = torch.tensor(weights, dtype=torch.float32)
    return net


def test_saliency_of_a_linear_module_is_the_absolute_weight() -> None:
    weights = [1.0, -3.0, 2.0, 0.0]
    scores = Saliency(linear(weights)).explain(rows(d=4), k=2).scores
    assert scores == pytest.approx(np.tile(np.abs(weights), (40, 1)))


@pytest.mark.parametrize("method", SIGNED)
def test_signed_attributions_of_a_linear_module_are_input_times_weight(method: Any) -> None:
    weights, X = [1.0, -3.0, 2.0, 0.0], rows(d=4)
    scores = method(linear(weights), magnitude=False).explain(X, k=2).scores
    assert scores == pytest.approx(X * np.array(weights), abs=1e-5)


def test_saliency_is_the_gradient_of_the_predicted_class() -> None:
    net, X = network(), rows()
    x = torch.from_numpy(X).requires_grad_()
    output = net(x)
    output[torch.arange(len(X)), output.argmax(dim=1)].sum().backward()
    assert Saliency(net).explain(X, k=2).scores == pytest.approx(x.grad.abs().numpy(), abs=1e-6)


@pytest.mark.parametrize(("method", "precision"), [(DeepLift, 1e-4), (IntegratedGradients, 2e-2)])
def test_attributions_sum_to_the_difference_from_the_reference(method: Any, precision: float) -> None:
    net, X, reference = network(), rows(), rows(1, seed=9)[0]
    scores = method(net, magnitude=False, reference=reference).explain(X, k=2).scores
    own, classes = outputs(net, X), outputs(net, X).argmax(axis=1)
    difference = own.max(axis=1) - outputs(net, reference[None])[0, classes]
    assert scores.sum(axis=1) == pytest.approx(difference, abs=precision)


class Hidden(nn.Module):
    """A network whose activations captum cannot see, or sees twice."""

    def __init__(self, *, shared: bool) -> None:
        super().__init__()
        self.layers = network()
        self.relu = nn.ReLU() if shared else torch.relu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, _, second, _, last = self.layers
        output: torch.Tensor = last(self.relu(second(self.relu(first(x)))))
        return output


def test_deeplift_warns_if_it_cannot_follow_the_module() -> None:
    with pytest.warns(UserWarning, match="miss the difference"):
        DeepLift(Hidden(shared=False)).explain(rows(), k=2)
    with pytest.raises(l2x.errors.InputError, match="cannot follow this module"):
        DeepLift(Hidden(shared=True)).explain(rows(), k=2)


@pytest.mark.parametrize("bias", [False, True])
def test_lrp_is_input_times_gradient_on_a_relu_network(bias: bool) -> None:
    net, X = network(bias=bias), rows()
    relevance = LRP(net, magnitude=False).explain(X, k=2).scores
    assert relevance == pytest.approx(Taylor(net, magnitude=False).explain(X, k=2).scores, abs=1e-4)


def test_lrp_conserves_the_output_where_there_are_no_biases() -> None:
    net, X = network(bias=False), rows()
    assert LRP(net, magnitude=False).explain(X, k=2).scores.sum(axis=1) == pytest.approx(
        outputs(net, X).max(axis=1), abs=1e-4
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("flatten", [False, True])
def test_a_single_output_is_taken_as_it_stands(method: Any, flatten: bool) -> None:
    net: nn.Module = linear([1.0, -3.0, 1.0])
    if flatten:
        net = nn.Sequential(net, nn.Flatten(start_dim=0)) if method is not LRP else net
    assert method(net).explain(np.ones((2, 3)), k=1).indices.tolist() == [[1], [1]]


@pytest.mark.parametrize("method", METHODS)
def test_the_module_is_left_as_it_was(method: Any) -> None:
    net = network()
    net.train()
    net[1].eval()  # mixed modes, as with frozen normalisation
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    attributes = [set(vars(part)) for part in net.modules()]
    method(net).explain(rows(), k=2)
    assert [part.training for part in net] == [True, False, True, True, True]
    assert all(p.grad is None and p.requires_grad for p in net.parameters())
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert [set(vars(part)) for part in net.modules()] == attributes
    assert not any(
        part._forward_hooks or part._backward_hooks or part._forward_pre_hooks for part in net.modules()
    )


def test_dropout_is_off_while_explaining() -> None:
    net = nn.Sequential(nn.Dropout(0.9), network()).train()
    assert (Saliency(net).explain(rows(), k=2).scores == Saliency(net[1]).explain(rows(), k=2).scores).all()


def test_the_module_reads_raw_numbers_whatever_the_view_standardises() -> None:
    X = rows() * 10 + 100
    scores = (
        Taylor(linear([1.0, -1.0, 0.5, 2.0, 0.0]), magnitude=False, features=l2x.Columns().fit(X))
        .explain(X, k=1)
        .scores
    )
    assert scores[:, 3] == pytest.approx(2 * X[:, 3], rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=10, deadline=None)
@given(order=st.permutations(range(5)), seed=st.integers(0, 100))
def test_permuting_columns_permutes_the_explanation(method: Any, order: list[int], seed: int) -> None:
    net, X = network(seed=seed), rows(8, seed=seed)
    shuffled = network(seed=seed)
    shuffled[0].weight.data = net[0].weight.data[:, order]
    theirs = method(shuffled).explain(X[:, order], k=2)
    assert theirs.scores == pytest.approx(method(net).explain(X, k=2).scores[:, order], abs=1e-4)


@pytest.mark.parametrize("method", METHODS)
def test_exactly_k_on_ties_and_metrics_work(method: Any) -> None:
    net = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    for parameter in net.parameters():
        nn.init.zeros_(parameter)
    X = rows(d=4)
    explanation = method(net).explain(X, k=3)
    assert (explanation.mask.sum(axis=1) == 3).all()
    probabilities = l2x.as_black_box(net, logits=True, task="classification")
    assert l2x.evaluation.posthoc_accuracy(probabilities, X, explanation) == 1.0


def test_batches_give_what_one_batch_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    net, X = network(), rows(25)
    whole = DeepLift(net).explain(X, k=2).scores
    monkeypatch.setattr(l2x.Columns, "rows_at_once", 10)
    assert DeepLift(net).explain(X, k=2).scores == pytest.approx(whole, abs=1e-6)


def test_units_of_several_dimensions_are_summed() -> None:
    view = l2x.Columns().fit(np.zeros((1, 2)))
    parts = torch.tensor([[[1.0, 2.0], [3.0, -5.0]]])
    assert view.units(parts).tolist() == [[3.0, -2.0]]
    assert view.units(parts.abs()).tolist() == [[3.0, 8.0]]
    with pytest.raises(l2x.errors.InputError, match="do not fit a view of 2 features"):
        view.units(torch.zeros(3, 5))


def test_a_data_frame_is_explained_like_its_array() -> None:
    import pandas as pd

    net, X = network(), rows()
    frame = pd.DataFrame(X, columns=list("abcde"))
    explanation = Saliency(net).explain(frame, k=2)
    assert (explanation.scores == Saliency(net).explain(X, k=2).scores).all()
    assert set(explanation.names[0]) <= set("abcde")


def test_wrong_use_is_refused() -> None:
    net, X = network(), rows()
    with pytest.raises(l2x.errors.InputError, match=r"Taylor needs .* not of a function"):
        Taylor(lambda X: X).explain(X, k=2)  # type: ignore[arg-type]
    with pytest.raises(l2x.errors.InputError, match="k = 6"):
        Taylor(net).explain(X, k=6)
    with pytest.raises(l2x.errors.InputError, match="reference has the shape"):
        DeepLift(net, reference=np.zeros(3)).explain(X, k=2)
    with pytest.raises(l2x.errors.InputError, match="LRP has no rule"):
        LRP(nn.Sequential(net, nn.Softmax(dim=1))).explain(X, k=2)
    X[3, 1] = np.nan
    with pytest.raises(l2x.errors.InputError, match="Row 3, column 'x1'"):
        Saliency(net, features=l2x.Columns().fit(rows())).explain(X, k=2)


class Reader(nn.Module):
    """Scores of two classes from the sum of the words' vectors, whatever shape the ids have."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 4, padding_idx=0)
        self.hidden, self.relu, self.output = nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        words = self.embedding(ids.flatten(1)).sum(dim=1)
        return self.output(self.relu(self.hidden(words)))


@pytest.mark.parametrize("method", [Saliency, Taylor, DeepLift])
@pytest.mark.parametrize(
    "view", [l2x.Words(length=6, reads="ids"), l2x.Sentences(length=3, words=4, reads="ids")]
)
def test_texts_by_their_embeddings(method: Any, view: Any) -> None:
    texts = ["A good film. It ends.", "Bad!", ""]
    fitted = view.fit(texts)
    net = Reader(len(fitted.vocabulary_))
    explanation = method(net, features=fitted).explain(texts, k=2)
    assert [len(names) for names in explanation.names] == [2, 1, 0]
    assert not net.embedding._forward_hooks


def test_deeplift_shares_on_words_sum_up() -> None:
    view = l2x.Words(length=6, reads="ids").fit(["a good film", "bad"])
    net = Reader(len(view.vocabulary_))
    found = DeepLift(net, features=view, magnitude=False).explain(["a good film"], k=3)
    with torch.no_grad():
        output = net(view.ids(["a good film"]))[0]
        nothing = net(torch.zeros(1, 6, dtype=torch.long))[0]
    best = output.argmax()
    assert found.scores[0, :3].sum() == pytest.approx(float(output[best] - nothing[best]), abs=1e-5)


def test_lrp_has_no_rule_for_embeddings() -> None:
    view = l2x.Words(length=6, reads="ids").fit(["a good film", "bad"])
    with pytest.raises(l2x.errors.InputError, match="LRP has no rule"):
        LRP(Reader(len(view.vocabulary_)), features=view).explain(["good"], k=1)


pytest.importorskip("shap")
X = np.random.default_rng(0).normal(size=(300, 4))


def test_finds_the_column_that_a_forest_looks_at() -> None:
    forest = RandomForestClassifier(10, max_depth=3, random_state=0).fit(X, X[:, 2] > 0)
    explanation = TreeShap(forest).explain(X[:50], k=1)
    assert (explanation.indices == 2).mean() > 0.9
    signed = TreeShap(forest, magnitude=False).explain(X[:50], k=1)
    assert (signed.scores[:, 2] > 0).mean() > 0.9  # it speaks for the predicted class, whichever that is
    regression = RandomForestRegressor(10, max_depth=3, random_state=0).fit(X, X[:, 1])
    assert (TreeShap(regression).explain(X[:50], k=1).indices == 1).mean() > 0.9


def test_on_a_raw_frame_beside_the_others() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    data = people(800)
    model = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1).fit(data.X, data.y)
    view = Columns().fit(data.X)
    rows = data.X[:3]
    tree = TreeShap(model, features=view).explain(rows, k=2)
    kernel = KernelShap(model, features=view, background_rows=20, progress=False).explain(rows, k=2)
    for explanation in (tree, kernel):
        assert explanation.feature_names == list(data.X.columns)
        assert "gender" not in {name for names in explanation.names for name in names}
    with pytest.raises(l2x.errors.InputError, match="LIME does not accept missing values"):
        Lime(model, features=view, progress=False).explain(rows, k=2)
    whole = data.X.drop(columns="workclass")
    model = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1).fit(whole, data.y)
    lime = Lime(model, background=whole, samples=300, progress=False).explain(whole[:3], k=2)
    assert "gender" not in {name for names in lime.names for name in names}


def test_only_columns() -> None:
    with pytest.raises(l2x.errors.InputError, match="explains columns, not Patches"):
        TreeShap(None, features=l2x.Patches(2)).explain(np.zeros((2, 4, 4)), k=1)


def test_values_of_a_group_are_summed() -> None:
    forest = RandomForestClassifier(5, max_depth=3, random_state=0).fit(X, X[:, 2] > X[:, 0])
    columns = TreeShap(forest, magnitude=False).explain(X[:5], k=1).scores
    groups = TreeShap(forest, features=l2x.ColumnGroups({"pair": [0, 3]}), magnitude=False)
    assert np.allclose(groups.explain(X[:5], k=1).scores[:, 0], columns[:, 0] + columns[:, 3])
