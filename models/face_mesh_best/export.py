"""Turn a checkpoint of the larger network into the model that ships.

`python -m palmkit.models.face_mesh_best.export CHECKPOINT OUT` writes OUT/face_mesh_best.onnx and
OUT/face_mesh_best.palm; see palmkit.models.face_mesh.export.
"""

from __future__ import annotations

from palmkit.models.face_mesh.export import MeshFile

main = MeshFile("face_mesh_best", "palmkit best").main

if __name__ == "__main__":
    main()
