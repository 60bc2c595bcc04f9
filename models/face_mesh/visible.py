"""Which points of a mesh can be seen: those that no other part of the face lies before."""

from __future__ import annotations

import torch
from torch import Tensor

from palmkit.models.face_mesh.indexes import EYE_CONTOUR, LEFT_EYE, LEFT_IRIS, RIGHT_EYE, RIGHT_IRIS

FACE_POINTS = 468
# In units of the crop: nearer than this, a surface is the point's own.
DEPTH_MARGIN = 0.025
EYELIDS = ((159, 145, 33, 133, RIGHT_IRIS, RIGHT_EYE), (386, 374, 362, 263, LEFT_IRIS, LEFT_EYE))
# Openings of the lids over the width of the eye between which an iris goes from hidden to seen.
SHUT, OPEN = 0.06, 0.16


def visible(points: Tensor, triangles: Tensor) -> Tensor:
    """Return float32[n, 478], 1 for a visible point, 0 for one behind another part of the face.

    points: float32[n, 478, 3] in units of the crop; smaller z is nearer. triangles: int64[m, 3] of
    the face's surface. Irises hide with their eye and behind closed lids.
    """
    face = points[:, :FACE_POINTS]
    corners = face[:, triangles]
    first = corners[:, :, 0]
    one, other = corners[:, :, 1] - first, corners[:, :, 2] - first
    area = one[..., 0] * other[..., 1] - one[..., 1] * other[..., 0]
    flat = area.abs() < 1e-7
    area = torch.where(flat, torch.ones_like(area), area)
    away = face[:, :, None, :2] - first[:, None, :, :2]
    u = (away[..., 0] * other[:, None, :, 1] - away[..., 1] * other[:, None, :, 0]) / area[:, None]
    v = (away[..., 1] * one[:, None, :, 0] - away[..., 0] * one[:, None, :, 1]) / area[:, None]
    depth = first[:, None, :, 2] + u * one[:, None, :, 2] + v * other[:, None, :, 2]
    covers = (u >= 0) & (v >= 0) & (u + v <= 1) & ~flat[:, None]
    before = depth < face[:, :, None, 2] - DEPTH_MARGIN
    seen = torch.ones(points.shape[:2], device=points.device)
    seen[:, :FACE_POINTS] = (~(covers & before).any(dim=2)).float()
    for upper, lower, outer, inner, iris, eye in EYELIDS:
        opening = points[:, lower, 1] - points[:, upper, 1]
        width = (points[:, outer] - points[:, inner]).norm(dim=-1).clamp(min=1e-6)
        lid = ((opening / width - SHUT) / (OPEN - SHUT)).clamp(0, 1)
        contour = seen[:, list(eye[:EYE_CONTOUR])].mean(dim=1)
        seen[:, list(iris)] = (lid * contour)[:, None]
    return seen
