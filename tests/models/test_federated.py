from typing import Any

import numpy as np
import pytest

from palmkit.kits.ranking.kit import Reranker
from palmkit.kits.ranking.taste import taste_width
from palmkit.models.reranker import federated
from palmkit.models.reranker.simulator import SCHEMA


def test_a_device_hands_over_layers_and_never_its_taste() -> None:
    kit = Reranker(None, SCHEMA)
    head = kit.scorer.head(taste_width(SCHEMA))
    (pages,) = federated.pages_of(1, 3, head, kit)
    handed = federated.fit(head, head.shipped, pages, 0)
    assert set(head.shipped) - set(handed) == {head.taste}
    assert any((handed[name] != head.shipped[name]).any() for name in handed)
    assert not head.shipped[head.taste].any()
    with pytest.raises(ValueError, match="way: expected one of average, private, got 'best'"):
        federated.strategy("best", 0.5, 2, [])


def test_flower_averages_and_clips_and_adds_noise() -> None:
    pytest.importorskip("flwr", reason="flwr is in the extra federated")
    shared: list[Any] = [np.zeros((3, 4), np.float32), np.ones(5, np.float32)]
    handed: list[list[Any]] = [[array + step for array in shared] for step in (1.0, 3.0)]
    plain = federated.strategy("average", 0.5, 2, shared)
    for found, start in zip(federated.average(plain, 1, shared, handed), shared, strict=True):
        np.testing.assert_allclose(found, start + 2)
    private = federated.strategy("private", 1e-6, 2, shared)
    near = federated.average(private, 1, shared, handed)
    moved = np.concatenate([(a - b).ravel() for a, b in zip(near, shared, strict=True)])
    # Both changes are shortened to the clip, and point the same way.
    assert np.linalg.norm(moved) == pytest.approx(federated.CLIP, rel=1e-3)
    loud = federated.strategy("private", 5.0, 2, shared)
    far = federated.average(loud, 1, shared, handed)
    moved = np.concatenate([(a - b).ravel() for a, b in zip(far, shared, strict=True)])
    assert np.linalg.norm(moved) > 2 * federated.CLIP
