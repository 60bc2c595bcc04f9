"""Layers of detectors: SSD's default boxes and their decoding."""

from palmkit.engine.converters.caffe.graph import Copy, Draft
from palmkit.engine.converters.caffe.rules import rule
from palmkit.engine.ir import Attr, Type
from palmkit.engine.ops.detection_output import CODE_TYPES


@rule("PriorBox", bottoms=2)
def _prior_box(draft: Draft, cells: str, picture: str) -> str:
    options = draft.layer.message.prior_box_param
    if draft.rank(cells) != 4 or draft.rank(picture) != 4:
        raise draft.bad("expected bottoms of 4 axes")
    attrs: dict[str, Attr] = {
        "aspect_ratios": tuple(options.aspect_ratio),
        "clip": int(options.clip),
        "flip": int(options.flip),
        "max_sizes": tuple(options.max_size),
        "min_sizes": tuple(options.min_size),
        "offset": options.offset,
        "variances": tuple(options.variance) or (0.1,),
    }
    if options.HasField("img_h") or options.HasField("img_w"):
        attrs["image_size"] = (options.img_h, options.img_w)
    elif options.HasField("img_size"):
        attrs["image_size"] = (options.img_size,) * 2
    if options.HasField("step_h") or options.HasField("step_w"):
        attrs["steps"] = (options.step_h, options.step_w)
    elif options.HasField("step"):
        attrs["steps"] = (options.step,) * 2
    return draft.emit("prior_box", draft.shape(cells, 2), draft.shape(picture, 2), **attrs)


@rule("DetectionOutput", bottoms=(3, 5))
def _detection_output(draft: Draft, *bottoms: str) -> str:
    options = draft.layer.message.detection_output_param
    boxes, scores, priors, *first_stage = bottoms
    if first_stage:
        scores = _of_objects(draft, scores, first_stage[0])
    attrs: dict[str, Attr] = {
        "background_label_id": options.background_label_id,
        "code_type": CODE_TYPES[options.code_type - 1],
        "eta": options.nms_param.eta,
        "keep_top_k": options.keep_top_k,
        "nms_threshold": options.nms_param.nms_threshold,
        "num_classes": options.num_classes,
        "share_location": int(options.share_location),
        "variance_encoded_in_target": int(options.variance_encoded_in_target),
    }
    if options.HasField("confidence_threshold"):
        attrs["confidence_threshold"] = options.confidence_threshold
    if options.nms_param.HasField("top_k"):
        attrs["top_k"] = options.nms_param.top_k
    inputs = (boxes, scores, priors, *first_stage[1:])
    result = draft.emit("detection_output", *inputs, **attrs)
    draft.types[result] = Type("float32", (1, 1, f"{draft.layer.name}.detections", 7))
    return result


def _of_objects(draft: Draft, scores: str, first_stage: str) -> str:
    """Make boxes that RefineDet's first stage takes for background certain background."""
    options = draft.layer.message.detection_output_param
    classes = int(options.num_classes)
    if not 0 < classes <= draft.type(scores).elements:
        raise draft.bad(f"expected num_classes above 0 that {draft.type(scores)} has room for")
    pairs = draft.reshape(first_stage, [Copy(0), -1, 2])
    second = (draft.int64(1), draft.int64(2), draft.int64(2))
    objectness = draft.emit("slice", pairs, *second)
    is_none = draft.emit("less", objectness, draft.constant(options.objectness_score))
    background = draft.constant([1.0] + [0.0] * (classes - 1))
    rows = draft.reshape(scores, [Copy(0), -1, classes])
    return draft.emit("where", is_none, background, rows)


@rule("ROIPooling", bottoms=2)
def _roi_pooling(draft: Draft, x: str, rois: str) -> str:
    options = draft.layer.message.roi_pooling_param
    pooled = (int(options.pooled_h), int(options.pooled_w))
    scale = options.spatial_scale
    flat = _flat_rois(draft, rois)
    return draft.emit("max_roi_pool", x, flat, pooled_shape=pooled, spatial_scale=scale)


@rule("PSROIPooling", bottoms=2)
def _psroi_pooling(draft: Draft, x: str, rois: str) -> str:
    options = draft.layer.message.psroi_pooling_param
    return draft.emit(
        "psroi_pooling",
        x,
        _flat_rois(draft, rois),
        group_size=options.group_size,
        output_dim=options.output_dim,
        spatial_scale=options.spatial_scale,
    )


def _flat_rois(draft: Draft, rois: str) -> str:
    """Return regions as [n, 5]; Caffe also accepts blobs of [n, 5, 1, 1]."""
    return rois if draft.rank(rois) == 2 else draft.reshape(rois, [-1, 5])
