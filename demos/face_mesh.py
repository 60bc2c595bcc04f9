"""478 points of each face, where the head turns, and what the face does, live.

python demos/face_mesh.py --source 0
python demos/face_mesh.py --source me.jpg -o mesh.png
"""

from palmkit import kits
from palmkit.kits import live
from palmkit.kits.results import ACTIONS


def main() -> None:
    options = live.parser(__doc__).parse_args()
    done: list[str] = []
    with kits.FaceMesh("video") as mesh, live.start(options) as frames:
        for frame, timestamp_ms in frames:
            faces = mesh.detect(frame, timestamp_ms)
            frames.show(kits.draw.mesh(frame, faces))
            for face in faces:
                assert face.pose is not None and face.actions is not None
                does = [name for name, now in zip(ACTIONS, face.actions, strict=True) if now]
                if does != done:
                    yaw, pitch, roll = face.pose
                    print(
                        f"face {face.id}: yaw {yaw:.0f}, pitch {pitch:.0f}, roll {roll:.0f}, {does}"
                    )
                    done = does


if __name__ == "__main__":
    live.run(main)
