import numpy as np
import pytest
from numpy.typing import NDArray

from palmkit.kits.face import topology
from palmkit.kits.face.actions import ActionTracker, Ratios, ratios, swing
from palmkit.kits.face.pose import rotation_of
from palmkit.kits.results import ACTIONS

REST = Ratios(eye=0.3, mouth=0.05, brow=0.33, yaw=0, pitch=0)


def changed(**values: float) -> Ratios:
    return Ratios(**{**vars(REST), **values})


def names(actions: NDArray[np.bool_]) -> set[str]:
    return {name for name, done in zip(ACTIONS, actions, strict=True) if done}


def test_ratios_do_not_change_with_pose_and_size() -> None:
    straight = ratios(topology.canonical_face() * [1, -1, -1], np.zeros(3))
    turned = topology.canonical_face() @ rotation_of(35, -20, 50).T * 7 + 100
    other = ratios(turned, np.array([35.0, -20, 50]))
    assert (other.eye, other.mouth, other.brow) == pytest.approx(
        (straight.eye, straight.mouth, straight.brow), rel=1e-4
    )
    assert names(straight.actions()) == set()
    assert names(other.actions()) == {"head_yaw"}


def test_one_picture() -> None:
    face = topology.canonical_face().astype(np.float64)
    shut = face.copy()
    for upper, lower in ((160, 144), (159, 145), (158, 153), (387, 373), (386, 374), (385, 380)):
        shut[upper] = shut[lower] = (face[upper] + face[lower]) / 2
    assert names(ratios(shut, np.zeros(3)).actions()) == {"eye_blink"}
    wide = face.copy()
    wide[14, 1] -= 3
    assert names(ratios(wide, np.zeros(3)).actions()) == {"mouth_open"}
    raised = face.copy()
    raised[[63, 105, 66, 293, 334, 296], 1] += 1.5
    assert names(ratios(raised, np.zeros(3)).actions()) == {"brow_jump"}


def test_the_near_eye_alone_counts_in_profile() -> None:
    face = topology.canonical_face().astype(np.float64)
    for upper, lower in ((160, 144), (159, 145), (158, 153)):
        face[upper] = face[lower]
    # Looking to its left, the right eye is the near one.
    assert "eye_blink" in names(ratios(face, np.array([-50.0, 0, 0])).actions())
    assert "eye_blink" not in names(ratios(face, np.array([50.0, 0, 0])).actions())


def run(frames: list[Ratios]) -> list[set[str]]:
    tracker = ActionTracker()
    return [names(tracker.update(each, index / 30)) for index, each in enumerate(frames)]


def test_a_blink_is_measured_by_this_faces_own_eyes() -> None:
    for usual in (0.17, 0.4):
        eyes = [usual] * 30 + [0.3 * usual] * 4 + [usual] * 30
        seen = run([changed(eye=eye) for eye in eyes])
        assert [index for index, each in enumerate(seen) if "eye_blink" in each] == [30, 31, 32, 33]
    assert not any("eye_blink" in each for each in run([changed(eye=0.13)] * 60))
    assert "eye_blink" in run([changed(eye=0.05)])[0]


def test_hysteresis() -> None:
    mouths = [0.2, 0.3, 0.34, 0.28, 0.33, 0.26, 0.24, 0.3]
    seen = ["mouth_open" in each for each in run([changed(mouth=mouth) for mouth in mouths])]
    assert seen == [False, False, True, True, True, True, False, False]


def test_a_shake_goes_there_and_back() -> None:
    there = list(np.linspace(0, 30, 10))
    turn = [changed(yaw=yaw) for yaw in there + [30.0] * 60]
    assert not any("head_yaw" in each for each in run(turn))
    shake = [changed(yaw=yaw) for yaw in there + there[::-1]]
    seen = run(shake + [REST] * 60)
    assert "head_yaw" in seen[19] and "head_yaw" not in seen[70]
    nod = run([changed(pitch=pitch / 2) for pitch in there + there[::-1]])
    assert nod[-1] == {"head_pitch"}
    slow = np.concatenate([np.linspace(0, 30, 90), np.linspace(30, 0, 90)])
    assert not any("head_yaw" in each for each in run([changed(yaw=yaw) for yaw in slow]))


def test_swing() -> None:
    assert swing(np.array([3.0])) == 0
    assert swing(np.array([0.0, 5, 20])) == 0
    assert swing(np.array([0.0, 20, 5])) == 15
    assert swing(np.array([0.0, -20, -8])) == 12
    assert swing(np.array([0.0, 9, -4, 3])) == 9


def test_brows_jump_from_their_own_rest() -> None:
    for usual in (0.28, 0.38):
        brows = [usual] * 45 + [usual * 1.18] * 15 + [usual] * 15
        seen = ["brow_jump" in each for each in run([changed(brow=brow) for brow in brows])]
        assert seen == [False] * 45 + [True] * 15 + [False] * 15
    # What comes at once may be how this face is.
    assert not any("brow_jump" in each for each in run([changed(brow=0.45)] * 10))
