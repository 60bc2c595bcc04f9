"""Make models.npz.xz: LightGBM's texts of small models, with what LightGBM predicts.

Run in an environment of its own with lightgbm (4.7 made the file); the tests do not need it. All
numbers are random. Each model has its text (model/text), features (model/x) and predictions
(model/y), float64[rows, outputs].
"""

# LightGBM is not there where this is linted.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import importlib
import io
import lzma
from pathlib import Path
from typing import Any

import numpy as np

lightgbm: Any = importlib.import_module("lightgbm")

FEATURES, CODES = 6, 3
OF_CODES = {"min_data_per_group": 5, "cat_smooth": 1, "cat_l2": 1}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "regression": {},
    "codes": {"categorical_feature": [CODES], **OF_CODES},
    "binary": {"objective": "binary", "sigmoid": 0.7, "categorical_feature": [CODES], **OF_CODES},
    "classes": {"objective": "multiclass", "num_class": 3},
    "chances": {"objective": "multiclassova", "num_class": 3},
    "poisson": {"objective": "poisson"},
    "roots": {"reg_sqrt": True},
    "ranking": {"objective": "lambdarank"},
    "forest": {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
    "forest_classes": {
        **{"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5},
        **{"objective": "multiclass", "num_class": 3},
    },
    "zero_as_missing": {"zero_as_missing": True},
    "without_missing": {"use_missing": False},
    "dart": {"boosting": "dart"},
    "one_leaf": {"min_data_in_leaf": 500},
}


def features(seed: int, rows: int) -> Any:
    """Return numbers with gaps, the codes among them up to 59."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((rows, FEATURES)).astype(np.float32)
    x[:, CODES] = random.integers(0, 60, rows)
    x[:, 4] = np.round(2 * x[:, 4]) / 2
    x[random.random(x.shape) < 0.1] = np.nan
    return x


def target(x: Any, objective: str) -> Any:
    """Return what is to be learned."""
    noise = np.random.default_rng(1).standard_normal(len(x))
    y = np.nan_to_num(x[:, 0] + 2 * (x[:, CODES] % 3 == 1) + x[:, 4]) + 0.3 * noise
    if objective == "binary":
        return y > 0
    if objective == "poisson":
        return np.exp(y).round()
    if objective.startswith(("multiclass", "lambdarank")):
        return (y > 0).astype(int) + (y > 1)
    return y


def asked(text: str) -> Any:
    """Return features to predict, among them thresholds, their neighbours and odd numbers."""
    x = features(2, 240)
    found = [
        float(word)
        for line in text.splitlines()
        if line.startswith("threshold=")
        for word in line[10:].split()
    ]
    near = np.array([*found, 0.0], np.float32)
    up, down = np.float32(np.inf), np.float32(-np.inf)
    around = np.concatenate([near, np.nextafter(near, up), np.nextafter(near, down)])
    x[:, 0] = np.resize(np.random.default_rng(3).permutation(around), len(x))
    x[::7, 1], x[::11, 2], x[1::11, 2], x[2::11, 2] = 0, 1e-36, -1e-35, 1e-35
    x[3::7, CODES], x[6::17, CODES], x[7::17, CODES] = -0.5, 1e9, -3
    x[5::9, CODES] += np.float32(0.4)
    return x


def main() -> None:
    """Write the archive beside this file."""
    found: dict[str, Any] = {}
    for name, options in OBJECTIVES.items():
        x = features(1, 800)
        categorical = options.get("categorical_feature", "auto")
        parameters = {k: v for k, v in options.items() if k != "categorical_feature"}
        data = lightgbm.Dataset(
            x,
            target(x, options.get("objective", "")),
            categorical_feature=categorical,
            group=[40] * 20 if name == "ranking" else None,
        )
        always = {"num_leaves": 8, "num_threads": 1, "verbose": -1}
        booster = lightgbm.train({**always, **parameters}, data, 9)
        text = booster.model_to_string()
        rows = asked(text)
        found[f"{name}/text"] = np.frombuffer(text.encode(), np.uint8)
        found[f"{name}/x"] = rows
        found[f"{name}/y"] = booster.predict(rows.astype(np.float64)).reshape(len(rows), -1)
    data = io.BytesIO()
    np.savez(data, **found)
    path = Path(__file__).with_name("models.npz.xz")
    path.write_bytes(lzma.compress(data.getvalue(), preset=9))
    print(f"{len(OBJECTIVES)} models, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
