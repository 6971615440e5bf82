"""SGD and AdamW, in C++, on the memory of the parameters themselves. Names, defaults and meaning are torch.optim's."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from executorch_py import _arguments, _core
from executorch_py.errors import InvalidArgumentError, InvalidTypeError

#: A dict of named parameters, or several groups: ``{"params": {name: tensor}, "lr": …}``.
Params = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class Optimizer:
    """What SGD and AdamW have in common.

    Attributes:
        param_groups: A dict for each group: ``"params"``, its parameters by name, and its options, which may be changed
            between steps (``optimizer.param_groups[0]["lr"] *= 0.5``).
    """

    _CORE: ClassVar[type]

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        self._core = self._CORE()
        self._defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        if not isinstance(params, (Mapping, list, tuple)):
            raise InvalidTypeError(
                f"params is a {type(params).__name__}, must be a dict of named parameters "
                "(TrainingModule.named_parameters()) or a list of groups"
            )
        for group in [{"params": params}] if isinstance(params, Mapping) else params:
            self.add_param_group(group)

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Adds parameters with options of their own.

        Args:
            param_group: ``"params"``, a dict of named parameters, and the options that differ from the defaults.

        Raises:
            InvalidArgumentError: An option is unknown or out of range; a parameter is in another group already.
            InvalidTypeError: Something is no tensor, or a tensor is not of a floating dtype.
        """
        if not isinstance(param_group, Mapping) or not isinstance(param_group.get("params"), Mapping):
            raise InvalidTypeError("a group of parameters is a dict whose 'params' is a dict of named parameters")
        if unknown := sorted(set(param_group) - {"params", *self._defaults}):
            raise InvalidArgumentError(
                f"{type(self).__name__} has no option '{unknown[0]}'; it has {', '.join(self._defaults)}"
            )
        group = {**self._defaults, **param_group, "params": dict(param_group["params"])}
        self._core.add_param_group(group["params"], self._options(group))
        self.param_groups.append(group)

    def step(self, gradients: Mapping[str, Any]) -> None:
        """Changes every parameter that has a gradient, in place.

        Args:
            gradients: Name -> gradient, as :meth:`TrainingModule.named_gradients` gives them.

        Raises:
            InvalidArgumentError: A gradient is of another shape or dtype than its parameter, or names do not fit.
        """
        if not isinstance(gradients, Mapping):
            raise InvalidTypeError(f"gradients is a {type(gradients).__name__}, must be a dict of named gradients")
        self._core.step(dict(gradients), self._all_options())

    def named_state(self) -> dict[str, Any]:
        """``"optimizer.<parameter>.<what>"`` -> a live view of what the optimizer remembers."""
        return self._core.state(self._all_options())

    def state_dict(self) -> dict[str, Any]:
        """Copies of what the optimizer remembers, by parameter, and the options of the groups."""
        state: dict[str, dict[str, Any]] = {}
        for name, value in self.named_state().items():
            parameter, _, what = name.removeprefix("optimizer.").rpartition(".")
            state.setdefault(parameter, {})[what] = _copy(value)
        groups = [{**group, "params": list(group["params"])} for group in self.param_groups]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Puts back what :meth:`state_dict` gave.

        Raises:
            InvalidArgumentError: The groups or what is remembered of a parameter differ.
        """
        groups = state_dict["param_groups"]
        here = [list(group["params"]) for group in self.param_groups]
        if (given := [list(group["params"]) for group in groups]) != here:
            raise InvalidArgumentError(f"the state's groups hold the parameters {given}, the optimizer's {here}")
        options = [{key: value for key, value in group.items() if key != "params"} for group in groups]
        checked = [self._options({**self._defaults, **group}) for group in options]
        views = self._core.state(checked)
        known = {
            f"optimizer.{p}.{what}": value for p, items in state_dict["state"].items() for what, value in items.items()
        }
        if set(known) != set(views):
            name = min(set(known) ^ set(views))
            raise InvalidArgumentError(
                f"'{name}' is in the {'state' if name in known else 'optimizer'} only, so the state is another "
                "optimizer's"
            )
        for name, view in views.items():
            if tuple(known[name].shape) != tuple(view.shape):
                raise InvalidArgumentError(
                    f"'{name}' has shape {tuple(known[name].shape)} in the state, {tuple(view.shape)} in the optimizer"
                )
        for name, view in views.items():
            view[...] = known[name]
        for group, new in zip(self.param_groups, options, strict=True):
            group.update(new)

    def _all_options(self) -> list[dict[str, Any]]:
        return [self._options(group) for group in self.param_groups]

    def _options(self, group: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a group, of the types that the core takes."""
        return {name: self._option(name, group[name]) for name in self._defaults}

    def _option(self, name: str, value: Any) -> Any:
        what = f"{type(self).__name__}: {name}"
        if name in ("nesterov", "amsgrad"):
            return _arguments.flag(what, value)
        if name == "betas":
            if not isinstance(value, (tuple, list)) or len(value) != 2:
                raise InvalidTypeError(f"{what} is {value!r:.80}, must be two numbers")
            return tuple(_number(what, item) for item in value)
        return _number(what, value)

    def __repr__(self) -> str:
        groups = "; ".join(
            f"{len(group['params'])} parameters, " + ", ".join(f"{name}={group[name]!r}" for name in self._defaults)
            for group in self.param_groups
        )
        return f"{type(self).__name__}({groups})"


class SGD(Optimizer):
    """Stochastic gradient descent, as ``torch.optim.SGD``."""

    _CORE = _core.SGD

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        """Args:
        params: Named parameters, or several groups of them with options of their own.
        lr: Learning rate.
        momentum: How much of the last movement is kept.
        dampening: How much less than the whole gradient is added to the movement.
        weight_decay: How much of the parameter is added to its gradient.
        nesterov: Looks ahead along the movement; needs a momentum, and no dampening.
        """
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
            },
        )


class AdamW(Optimizer):
    """Adam with decoupled weight decay, as ``torch.optim.AdamW``."""

    _CORE = _core.AdamW

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
    ) -> None:
        """Args:
        params: Named parameters, or several groups of them with options of their own.
        lr: Learning rate.
        betas: How much is kept of the averages of gradients and of their squares.
        eps: Added to the denominator.
        weight_decay: How much of a parameter goes at each step, times the learning rate.
        amsgrad: Divides by the largest average of squares so far.
        """
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        )


def get_sgd_optimizer(
    named_parameters: Mapping[str, Any],
    learning_rate: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> SGD:
    """The published name for making an SGD optimizer."""
    return SGD(named_parameters, learning_rate, momentum, dampening, weight_decay, nesterov)


def _number(what: str, value: Any) -> float:
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not math.isfinite(value):
        raise InvalidTypeError(f"{what} is {value!r:.80}, must be a number")
    return float(value)


def _copy(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value.copy()
