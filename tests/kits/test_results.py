import dataclasses
import json
import pickle
import pydoc

import numpy as np
import pytest

from palmkit.kits import Face, Faces, results


def faces(ids: bool = False) -> Faces:
    return Faces(
        640,
        480,
        np.array([[10.1, 20.256, 30, 40], [1, 2, 3, 4]], np.float32),
        np.array([0.91236, 0.5], np.float32),
        np.arange(20, dtype=np.float32).reshape(2, 5, 2),
        np.array([7, 3]) if ids else None,
    )


def test_results_are_names_of_one_module() -> None:
    assert set(results.__all__) <= set(dir(results))
    assert all(getattr(results, name) is not None for name in results.__all__)
    assert pickle.loads(pickle.dumps(faces()[0])).score == faces()[0].score
    assert not hasattr(results, "Feet")
    text = pydoc.plain(pydoc.render_doc(results))
    assert "class Faces(palmkit.kits.results.things.Things)" in text


def test_to_dict_is_the_documented_json() -> None:
    assert json.loads(json.dumps(faces(True).to_dict(), allow_nan=False)) == {
        "width": 640,
        "height": 480,
        "faces": [
            {
                "box": [10.1, 20.26, 30.0, 40.0],
                "score": 0.9124,
                "id": 7,
                "keypoints": {
                    "left_eye": [0.0, 1.0],
                    "right_eye": [2.0, 3.0],
                    "nose": [4.0, 5.0],
                    "mouth_left": [6.0, 7.0],
                    "mouth_right": [8.0, 9.0],
                },
            },
            {
                "box": [1.0, 2.0, 3.0, 4.0],
                "score": 0.5,
                "id": 3,
                "keypoints": {
                    "left_eye": [10.0, 11.0],
                    "right_eye": [12.0, 13.0],
                    "nose": [14.0, 15.0],
                    "mouth_left": [16.0, 17.0],
                    "mouth_right": [18.0, 19.0],
                },
            },
        ],
    }
    assert "id" not in faces().to_dict()["faces"][0]


def test_all_fields_have_their_names_in_json() -> None:
    whole = dataclasses.replace(
        faces(),
        mesh=np.zeros((2, 478, 3), np.float32),
        visibility=np.ones((2, 478), np.float32),
        pose=np.array([[1, 2, 3], [4, 5, 6]], np.float32),
        actions=np.array([[True, False, False, False, True]] * 2),
    )
    face = json.loads(json.dumps(whole.to_dict()))["faces"][1]
    assert len(face["mesh"]) == len(face["visibility"]) == 478
    assert face["pose"] == {"yaw": 4, "pitch": 5, "roll": 6}
    assert face["actions"] == {
        "eye_blink": True,
        "mouth_open": False,
        "head_yaw": False,
        "head_pitch": False,
        "brow_jump": True,
    }


def test_faces_are_a_sequence() -> None:
    assert len(faces()) == 2
    assert [face.id for face in faces(True)] == [7, 3]
    assert faces()[-1].score == 0.5
    assert isinstance(faces()[0], Face)
    with pytest.raises(IndexError):
        faces()[2]


def test_results_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        faces().width = 3  # type: ignore[misc]
