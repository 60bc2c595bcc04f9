"""Optimisers: how parameters move along their gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from palmkit.engine.ir import Array


class Optimiser(ABC):
    """Moves arrays in place, and keeps its state of each by name.

    rate: the learning rate; it may be changed between steps. weight_decay: the share of a
    parameter, times the rate, that each step takes off it (decoupled: Loshchilov and Hutter,
    Decoupled Weight Decay Regularization, 2019). clip: the largest L2 norm of the gradient over all
    parameters together; larger ones are scaled down; 0 leaves them.
    """

    def __init__(self, rate: float, weight_decay: float = 0.0, clip: float = 0.0) -> None:
        """Set the parameters; raise ValueError for one out of its range."""
        if not rate > 0 or not weight_decay >= 0 or not clip >= 0:
            raise ValueError(
                "expected rate above 0, weight_decay and clip of at least 0, got "
                f"{rate}, {weight_decay}, {clip}"
            )
        self.rate, self.weight_decay, self.clip = rate, weight_decay, clip
        self.steps = 0
        self.memory: dict[str, tuple[Array, ...]] = {}

    @abstractmethod
    def _move(self, name: str, parameter: Array, gradient: Array) -> None:
        """Move one parameter; self.steps counts this step already."""

    def step(self, parameters: Mapping[str, Array], gradients: Mapping[str, Array]) -> float:
        """Move every parameter in place, and return the gradients' L2 norm before clipping.

        A step whose gradients are not finite moves nothing.
        """
        length = float(np.sqrt(sum(np.vdot(g, g).real for g in gradients.values())))
        if not np.isfinite(length):
            return length
        self.steps += 1
        shorter = min(1.0, self.clip / length) if self.clip and length else 1.0
        for name, parameter in parameters.items():
            if self.weight_decay:
                parameter *= 1 - self.rate * self.weight_decay
            gradient = gradients[name]
            self._move(name, parameter, gradient * shorter if shorter < 1 else gradient)
        return length


class SGD(Optimiser):
    """Stochastic gradient descent with momentum, as in PyTorch (Sutskever et al., 2013)."""

    def __init__(
        self,
        rate: float,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        clip: float = 0.0,
    ) -> None:
        """Set the parameters of Optimiser and of momentum.

        momentum: 0 to below 1.
        """
        super().__init__(rate, weight_decay, clip)
        if not 0 <= momentum < 1 or nesterov and not momentum:
            raise ValueError(f"momentum: expected 0 to below 1, and some for nesterov: {momentum}")
        self.momentum, self.nesterov = momentum, nesterov

    def _move(self, name: str, parameter: Array, gradient: Array) -> None:
        if self.momentum:
            if name not in self.memory:
                self.memory[name] = (np.zeros_like(parameter),)
            (speed,) = self.memory[name]
            speed *= self.momentum
            speed += gradient
            gradient = gradient + self.momentum * speed if self.nesterov else speed
        parameter -= self.rate * gradient


class Adam(Optimiser):
    """Adam (Kingma and Ba, Adam: A Method for Stochastic Optimization, 2015)."""

    def __init__(
        self,
        rate: float,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        clip: float = 0.0,
    ) -> None:
        """Set the parameters of Optimiser and of Adam.

        betas: decay rates of the mean and of the mean square of gradients, 0 to below 1.
        """
        super().__init__(rate, weight_decay, clip)
        if not all(0 <= beta < 1 for beta in betas) or not epsilon > 0:
            raise ValueError(f"expected betas of 0 to below 1, epsilon above 0: {betas}, {epsilon}")
        self.betas, self.epsilon = betas, epsilon

    def _move(self, name: str, parameter: Array, gradient: Array) -> None:
        if name not in self.memory:
            self.memory[name] = (np.zeros_like(parameter), np.zeros_like(parameter))
        mean, square = self.memory[name]
        for kept, beta, new in zip(
            (mean, square), self.betas, (gradient, gradient * gradient), strict=True
        ):
            kept *= beta
            kept += (1 - beta) * new
        first, second = (1 - beta**self.steps for beta in self.betas)
        parameter -= self.rate / first * mean / (np.sqrt(square / second) + self.epsilon)
