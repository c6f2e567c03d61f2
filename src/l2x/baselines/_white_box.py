"""Methods that look inside the model: gradients of torch modules (captum), and trees (shap).

Gradient methods differentiate the module's own output for the predicted class, be it a logit or a
probability; a single output is used as it is. The module reads a table's raw numbers as float32.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import KW_ONLY, dataclass, field
from types import ModuleType
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
import torch
from torch import Tensor, nn

from l2x._base.arrays import Array, batches
from l2x.baselines._method import Method, predicted_class
from l2x.errors import InputError, require
from l2x.features import View, as_tensor, check_table
from l2x.model import as_black_box, evaluating

# DeepLIFT attributions are summed for this many rows of each batch: the sum is wrong if captum cannot follow
# the network.
CHECKED_ROWS = 64


@dataclass(eq=False, repr=False)
class GradientMethod(Method):
    """The base class of the gradient methods.

    Parameters
    ----------
    model : torch.nn.Module
        Maps raw inputs to (n, classes) or (n,).
    magnitude : bool
        Rank by the absolute value of the attribution; False ranks by the signed value. The paper mentions
        absolute values for Saliency and not for Taylor. But it finds all methods near optimal on orange skin,
        where signed scores rank the relevant features of the inner class last (mean median rank 5.9 signed,
        2.9 absolute, optimum 2.5).
    """

    additive: ClassVar[bool] = True
    model_agnostic: ClassVar[bool] = False
    # Whether captum leaves hooks and activations on the layers; a copy of the module is explained then.
    modifies_module: ClassVar[bool] = False
    # Copies of each input that the module evaluates together.
    copies: ClassVar[int] = 1

    model: nn.Module
    _: KW_ONLY
    features: View | None = None
    magnitude: bool = True

    def _scores(self, view: View, X: Any, k: int) -> Array:
        if not isinstance(self.model, nn.Module):
            raise InputError(
                f"{self.name} needs the gradient of a torch module, not of a {type(self.model).__name__}; "
                "for other models use l2x.Explainer, KernelShap, Lime or Parzen."
            )
        captum = require("captum.attr", extra="baselines")
        module = copy.deepcopy(self.model) if self.modifies_module else self.model
        scores = np.empty((len(X), view.d), dtype=np.float32)
        device = next((p.device for p in module.parameters()), torch.device("cpu"))
        with evaluating(module):
            reads_ids = not module_input(view, view.take(X, slice(0, 1))).is_floating_point()
            network = FromEmbeddings(module) if reads_ids else module
            attribution = self._attribution(captum, network)
            for rows in batches(len(X), max(1, view.rows_at_once // self.copies)):
                x = module_input(view, view.take(X, rows), first_row=rows.start).to(device)
                x = network.embed(x) if isinstance(network, FromEmbeddings) else x
                parts = attribution(x.requires_grad_(), target=selected_class(network, x))
                scores[rows] = view.units(parts.detach()).cpu().numpy()
        return scores

    def _attribution(self, captum: ModuleType, module: nn.Module) -> Any:
        """Return a function from inputs and captum's `target` to attributions, which `View.units` sums."""
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class Saliency(GradientMethod):
    """Rank by the absolute gradient of the predicted class (Simonyan et al. 2013), summed over a unit.

    >>> net = nn.Linear(3, 1, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, -3.0, 2.0]]))
    >>> Saliency(net).explain(np.ones((1, 3)), k=2).indices.tolist()
    [[1, 2]]
    """

    name: ClassVar[str] = "Saliency"

    magnitude: bool = field(default=True, init=False)

    def _attribution(self, captum: ModuleType, module: nn.Module) -> Any:
        return captum.Saliency(module).attribute


class Taylor(GradientMethod):
    """Rank by input times gradient of the predicted class (section 4), summed over the parts of a unit.

    >>> net = nn.Linear(3, 1, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, -3.0, 2.0]]))
    >>> Taylor(net).explain(np.ones((1, 3)), k=1).indices.tolist()
    [[1]]
    """

    name = "Taylor"

    def _attribution(self, captum: ModuleType, module: nn.Module) -> Any:
        return captum.InputXGradient(module).attribute


@dataclass(eq=False, repr=False)
class ReferenceMethod(GradientMethod):
    """The base class of methods whose attributions are shares of output(x) - output(reference).

    Parameters
    ----------
    reference : array, optional
        The reference input, one row; by default zeros. The paper does not name one; zero is captum's default,
        and the mean of the synthetic sets.
    """

    _: KW_ONLY
    reference: Any = None

    def _baseline(self, x: Tensor) -> Tensor:
        """Return the reference for each row of x."""
        if self.reference is None:
            return torch.zeros_like(x)
        reference = as_tensor(np.asarray(self.reference)).to(x.device)
        if reference.shape != x.shape[1:]:
            raise InputError(
                f"reference has the shape {tuple(reference.shape)}; expected {tuple(x.shape[1:])}."
            )
        return reference.expand_as(x)


@dataclass(eq=False, repr=False)
class IntegratedGradients(ReferenceMethod):
    """Rank by integrated gradients (Sundararajan et al. 2017) along the line from the reference to the input.

    Attributions are shares of output(x) - output(reference).

    Parameters
    ----------
    reference : array, optional
        The reference input, one row; by default zeros, which for texts is the embedding zero.

    Examples
    --------
    >>> net = nn.Linear(3, 1, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, -3.0, 2.0]]))
    >>> IntegratedGradients(net).explain(np.ones((1, 3)), k=1).indices.tolist()
    [[1]]
    """

    name: ClassVar[str] = "Integrated Gradients"
    copies: ClassVar[int] = 50  # points on the line, captum's default

    def _attribution(self, captum: ModuleType, module: nn.Module) -> Any:
        method = captum.IntegratedGradients(module)

        def attribute(x: Tensor, target: Tensor | None) -> Any:
            return method.attribute(x, self._baseline(x), target=target, n_steps=self.copies)

        return attribute


@dataclass(eq=False, repr=False)
class DeepLift(ReferenceMethod):
    """Rank by DeepLIFT with the rescale rule (Shrikumar et al. 2017).

    Attributions are shares of output(x) - output(reference).

    Activations have to be modules (`nn.ReLU()`), each used once: captum cannot see `torch.relu`. A warning is
    issued if the attributions do not sum to the difference.

    Parameters
    ----------
    reference : array, optional
        The reference input, one row; by default zeros. The paper does not name one; zero is captum's default,
        and the mean of the synthetic sets.

    Examples
    --------
    >>> net = nn.Linear(3, 1, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, -3.0, 2.0]]))
    >>> DeepLift(net).explain(np.ones((1, 3)), k=1).indices.tolist()
    [[1]]
    """

    name: ClassVar[str] = "DeepLIFT"
    modifies_module: ClassVar[bool] = True

    def _attribution(self, captum: ModuleType, module: nn.Module) -> Any:
        method = captum.DeepLift(module)

        def attribute(x: Tensor, target: Tensor | None) -> Any:
            baseline = self._baseline(x)
            with warnings.catch_warnings():
                # captum announces the hooks at every call.
                warnings.filterwarnings("ignore", message="Setting forward, backward hooks")
                try:
                    parts = method.attribute(x, baseline, target=target)
                except RuntimeError as error:
                    raise InputError(f"DeepLIFT cannot follow this module: {error}") from error
            few = slice(CHECKED_ROWS)
            classes = None if target is None else target[few]
            missing = method.compute_convergence_delta(parts[few], baseline[few], x[few], target=classes)
            _check_complete(parts[few].detach(), missing)
            return parts

        return attribute


class LRP(GradientMethod):
    """Rank by layer-wise relevance propagation (Bach et al. 2015) with captum's default, the epsilon rule.

    On ReLU networks this is input times gradient, up to epsilon = 1e-9 (Shrikumar et al. 2016), which is why
    section 4 uses Taylor instead. Allowed layers are linear, convolution, pooling, normalisation, ReLU, tanh
    and dropout; pass the network without its final softmax.

    >>> net = nn.Linear(3, 1, bias=False)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, -3.0, 1.0]]))
    >>> LRP(net).explain(np.ones((1, 3)), k=1).indices.tolist()
    [[1]]
    """

    name = "LRP"
    modifies_module = True

    def _attribution(self, captum: ModuleType, module: nn.Module) -> Any:
        method = captum.LRP(nn.Sequential(module))  # captum needs a module with children

        def attribute(x: Tensor, target: Tensor | None) -> Any:
            try:
                return method.attribute(x, target=target)
            except TypeError as error:
                raise InputError(f"LRP has no rule for a layer of this module: {error}") from error

        return attribute


class FromEmbeddings(nn.Module):
    """A network that reads token ids, as a function of their embeddings, because ids have no gradient."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        embeddings = [part for part in module.modules() if isinstance(part, nn.Embedding)]
        if len(embeddings) != 1:
            raise InputError(
                f"Gradient methods on text need one nn.Embedding; this module has {len(embeddings)}."
            )
        self.module, self.embedding = module, embeddings[0]

    def embed(self, ids: Tensor) -> Tensor:
        """Store the ids for the next calls, and return their embeddings."""
        self.ids = ids
        vectors: Tensor = self.embedding(ids)
        return vectors.detach()

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the module's output for these embeddings of the stored ids."""
        # DeepLIFT passes inputs and references together; a module may flatten its ids before embedding them.
        copies = len(vectors) // len(self.ids)
        handle = self.embedding.register_forward_hook(lambda *call: vectors.reshape(call[-1].shape))
        try:
            output: Tensor = self.module(self.ids.repeat(copies, *[1] * (self.ids.ndim - 1)))
        finally:
            handle.remove()
        return output


def module_input(view: View, X: Any, *, first_row: int = 0) -> Tensor:
    """Return what the module reads: raw numbers as float32, or token ids."""
    encoded = view.encode(X, first_row=first_row)  # reports the row and column of a missing value
    if not encoded.is_floating_point():
        return encoded.long()
    raw = view.for_model(X)
    if isinstance(raw, Tensor):
        return raw.float()
    return as_tensor(raw if isinstance(raw, np.ndarray) else nw.from_native(raw).to_numpy())


def selected_class(module: nn.Module, x: Tensor) -> Tensor | None:
    """Return the predicted class of each row, captum's `target`; None if the module has a single output."""
    # Not in `no_grad`: some networks then split a batch into chunks, which FromEmbeddings cannot follow.
    output: Tensor = module(x)
    return None if output.ndim == 1 else output.argmax(dim=1)


def _check_complete(parts: Tensor, missing: Tensor) -> None:
    """Warn if the attributions do not sum to the difference, because captum did not see some activation."""
    miss, size = missing.abs().mean().item(), parts.abs().mean().item()
    # Rounding in float32 leaves about 1e-6 of the attributions' size.
    if miss > 1e-2 * size:
        message = f"DeepLIFT's attributions miss the difference from the reference by {miss:.3g} on average"
        warnings.warn(f"{message}; make every activation a module of its own, used once.", stacklevel=4)


@dataclass(eq=False, repr=False)
class TreeShap(Method):
    """TreeSHAP (Lundberg et al. 2020): exact Shapley values of a tree ensemble, by the package shap.

    Works for LightGBM, XGBoost, CatBoost and scikit-learn's forests. The values explain the ensemble's raw
    score (for classes, the log-odds), as is usual.

    Parameters
    ----------
    model : object
        The fitted ensemble; absent features are averaged along the paths of its own training rows.
    features : Columns or ColumnGroups, optional
        What one feature is, fitted or not; the Shapley values of a group are summed.
    magnitude : bool
        Rank by absolute values, as is usual; False ranks by the support for the predicted class.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> forest = RandomForestClassifier(10, random_state=0).fit(X, X[:, 1] > 0)
    >>> TreeShap(forest).explain(X[:2], k=1).names
    [['x1'], ['x1']]
    """

    name: ClassVar[str] = "TreeSHAP"
    additive: ClassVar[bool] = True
    model_agnostic: ClassVar[bool] = False

    model: Any
    _: KW_ONLY
    features: View | None = None
    magnitude: bool = True

    def _scores(self, view: View, X: Any, k: int) -> Array:
        shap = require("shap", extra="baselines")
        check_table(view, self.name)
        black_box = as_black_box(self.model)
        classes = predicted_class(black_box, view, X)
        values = np.asarray(shap.TreeExplainer(self.model)(X).values)  # (n, columns) or (n, columns, classes)
        return view.units(torch.from_numpy(_for_class(values, classes, black_box.task))).numpy()


def _for_class(values: Array, classes: Array, task: str | None) -> Array:
    """Return the (n, d) values for the predicted class; for two classes shap may have only the second's."""
    if values.ndim == 3:
        return np.asarray(np.take_along_axis(values, classes[:, None, None], axis=2)[:, :, 0])
    return values if task == "regression" else np.where(classes[:, None] == 1, values, -values)
