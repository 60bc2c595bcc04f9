"""The part of the Caffe format that is read here, in the protobuf language.

Names, numbers, types and defaults are those of caffe.proto of BVLC/caffe, of its SSD branch
(weiliu89/caffe: the fields from 200 on), and of NVIDIA/caffe for 16-bit blobs. Fields that only
other forks have are numbered from 1000000 on: forks give one number to different things, only names
mean the same everywhere, so those are read from a .prototxt alone.

Numbers of a blob are declared as bytes: the encoding of a packed list is the same, and no Python
object is made for each number.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any

from palmkit.engine.converters.protobuf import message_types

_BLOBS = """
message BlobShape { repeated int64 dim = 1 [packed = true]; }
message BlobProto {
  optional BlobShape shape = 7;
  repeated bytes data = 5;
  repeated bytes double_data = 8;
  optional int32 raw_data_type = 10;
  optional bytes raw_data = 12;
  optional int32 num = 1;
  optional int32 channels = 2;
  optional int32 height = 3;
  optional int32 width = 4;
}
"""

WEIGHTS = (
    _BLOBS
    + """
message V0Layer { optional string name = 1; repeated BlobProto blobs = 50; }
message V1Layer {
  optional string name = 4;
  repeated BlobProto blobs = 6;
  optional V0Layer layer = 1;
}
message Layer { optional string name = 1; repeated BlobProto blobs = 7; }
message Net { repeated Layer layer = 100; repeated V1Layer layers = 2; }
"""
)

UNPACKED_BLOB = """
message BlobProto { repeated float data = 5; repeated double double_data = 8; }
"""

_PARAMETERS = """
message ArgMaxParameter {
  optional bool out_max_val = 1;
  optional uint32 top_k = 2 [default = 1];
  optional int32 axis = 3;
}
message BatchNormParameter {
  optional bool use_global_stats = 1;
  optional float moving_average_fraction = 2;
  optional float eps = 3 [default = 1e-5];
  optional bool scale_bias = 1000000;
}
message BiasParameter {
  optional int32 axis = 1 [default = 1];
  optional int32 num_axes = 2 [default = 1];
}
message BNParameter {
  enum Mode { LEARN = 0; INFERENCE = 1; }
  optional float eps = 1000000 [default = 1e-5];
  optional float var_eps = 1000001;
  optional bool frozen = 1000002;
  optional bool moving_average = 1000003 [default = true];
  optional Mode bn_mode = 1000004;
  optional int32 axis = 1000005 [default = 1];
}
message ClipParameter { optional float min = 1; optional float max = 2; }
message ConcatParameter {
  optional int32 axis = 2 [default = 1];
  optional uint32 concat_dim = 1 [default = 1];
}
message ConvolutionParameter {
  optional uint32 num_output = 1;
  optional bool bias_term = 2 [default = true];
  repeated uint32 pad = 3;
  repeated uint32 kernel_size = 4;
  repeated uint32 stride = 6;
  repeated uint32 dilation = 18;
  optional uint32 pad_h = 9;
  optional uint32 pad_w = 10;
  optional uint32 kernel_h = 11;
  optional uint32 kernel_w = 12;
  optional uint32 stride_h = 13;
  optional uint32 stride_w = 14;
  optional uint32 group = 5 [default = 1];
  optional int32 axis = 16 [default = 1];
  repeated uint32 hole = 1000000;
  optional uint32 hole_h = 1000001;
  optional uint32 hole_w = 1000002;
}
message CropParameter {
  optional int32 axis = 1 [default = 2];
  repeated uint32 offset = 2;
}
message DropoutParameter {
  optional float dropout_ratio = 1 [default = 0.5];
  optional bool sample_weights_test = 2;
  optional bool scale_train = 3 [default = true];
}
message FillerParameter {
  optional string type = 1 [default = "constant"];
  optional float value = 2;
}
message DummyDataParameter {
  repeated FillerParameter data_filler = 1;
  repeated uint32 num = 2;
  repeated uint32 channels = 3;
  repeated uint32 height = 4;
  repeated uint32 width = 5;
  repeated BlobShape shape = 6;
}
message EltwiseParameter {
  enum EltwiseOp { PROD = 0; SUM = 1; MAX = 2; }
  optional EltwiseOp operation = 1 [default = SUM];
  repeated float coeff = 2;
}
message ELUParameter { optional float alpha = 1 [default = 1]; }
message EmbedParameter {
  optional uint32 num_output = 1;
  optional uint32 input_dim = 2;
  optional bool bias_term = 3 [default = true];
}
message ExpParameter {
  optional float base = 1 [default = -1.0];
  optional float scale = 2 [default = 1.0];
  optional float shift = 3;
}
message FlattenParameter {
  optional int32 axis = 1 [default = 1];
  optional int32 end_axis = 2 [default = -1];
}
message InnerProductParameter {
  optional uint32 num_output = 1;
  optional bool bias_term = 2 [default = true];
  optional int32 axis = 5 [default = 1];
  optional bool transpose = 6;
}
message InputParameter { repeated BlobShape shape = 1; }
message InterpParameter {
  optional int32 height = 1000000;
  optional int32 width = 1000001;
  optional int32 zoom_factor = 1000002 [default = 1];
  optional int32 shrink_factor = 1000003 [default = 1];
  optional int32 pad_beg = 1000004;
  optional int32 pad_end = 1000005;
}
message LRNParameter {
  enum NormRegion { ACROSS_CHANNELS = 0; WITHIN_CHANNEL = 1; }
  optional uint32 local_size = 1 [default = 5];
  optional float alpha = 2 [default = 1];
  optional float beta = 3 [default = 0.75];
  optional NormRegion norm_region = 4;
  optional float k = 5 [default = 1];
}
message MemoryDataParameter {
  optional uint32 batch_size = 1;
  optional uint32 channels = 2;
  optional uint32 height = 3;
  optional uint32 width = 4;
}
message MVNParameter {
  optional bool normalize_variance = 1 [default = true];
  optional bool across_channels = 2;
  optional float eps = 3 [default = 1e-9];
}
message ParameterParameter { optional BlobShape shape = 1; }
message PoolingParameter {
  enum PoolMethod { MAX = 0; AVE = 1; STOCHASTIC = 2; }
  enum RoundMode { CEIL = 0; FLOOR = 1; }
  optional PoolMethod pool = 1;
  optional uint32 pad = 4;
  optional uint32 pad_h = 9;
  optional uint32 pad_w = 10;
  optional uint32 kernel_size = 2;
  optional uint32 kernel_h = 5;
  optional uint32 kernel_w = 6;
  optional uint32 stride = 3 [default = 1];
  optional uint32 stride_h = 7;
  optional uint32 stride_w = 8;
  optional bool global_pooling = 12;
  optional RoundMode round_mode = 13;
  optional bool ceil_mode = 1000000 [default = true];
}
message PowerParameter {
  optional float power = 1 [default = 1.0];
  optional float scale = 2 [default = 1.0];
  optional float shift = 3;
}
message PReLUParameter { optional bool channel_shared = 2; }
message PSROIPoolingParameter {
  optional float spatial_scale = 1000000;
  optional int32 output_dim = 1000001;
  optional int32 group_size = 1000002;
}
message RecurrentParameter {
  optional uint32 num_output = 1;
  optional bool expose_hidden = 5;
}
message ReductionParameter {
  enum ReductionOp { SUM = 1; ASUM = 2; SUMSQ = 3; MEAN = 4; }
  optional ReductionOp operation = 1 [default = SUM];
  optional int32 axis = 2;
  optional float coeff = 3 [default = 1.0];
}
message ReLUParameter { optional float negative_slope = 1; }
message ReorgParameter {
  optional uint32 stride = 1000000 [default = 2];
  optional bool reverse = 1000001;
}
message ReshapeParameter {
  optional BlobShape shape = 1;
  optional int32 axis = 2;
  optional int32 num_axes = 3 [default = -1];
}
message ROIPoolingParameter {
  optional uint32 pooled_h = 1000000;
  optional uint32 pooled_w = 1000001;
  optional float spatial_scale = 1000002 [default = 1];
}
message ScaleParameter {
  optional int32 axis = 1 [default = 1];
  optional int32 num_axes = 2 [default = 1];
  optional bool bias_term = 4;
}
message ShuffleChannelParameter { optional uint32 group = 1000000 [default = 1]; }
message SliceParameter {
  optional int32 axis = 3 [default = 1];
  repeated uint32 slice_point = 2;
  optional uint32 slice_dim = 1 [default = 1];
}
message SoftmaxParameter { optional int32 axis = 2 [default = 1]; }
message SwishParameter { optional float beta = 1 [default = 1]; }
message ThresholdParameter { optional float threshold = 1; }
message TileParameter { optional int32 axis = 1 [default = 1]; optional int32 tiles = 2; }
message UpsampleParameter {
  optional int32 scale = 1000000 [default = 2];
  optional int32 scale_h = 1000001;
  optional int32 scale_w = 1000002;
  optional bool pad_out_h = 1000003;
  optional bool pad_out_w = 1000004;
  optional int32 upsample_h = 1000005;
  optional int32 upsample_w = 1000006;
}
message NormalizeParameter {
  optional bool across_spatial = 1 [default = true];
  optional bool channel_shared = 3 [default = true];
  optional float eps = 4 [default = 1e-10];
}
message PermuteParameter { repeated uint32 order = 1; }
message PriorBoxParameter {
  enum CodeType { CORNER = 1; CENTER_SIZE = 2; CORNER_SIZE = 3; }
  repeated float min_size = 1;
  repeated float max_size = 2;
  repeated float aspect_ratio = 3;
  optional bool flip = 4 [default = true];
  optional bool clip = 5;
  repeated float variance = 6;
  optional uint32 img_size = 7;
  optional uint32 img_h = 8;
  optional uint32 img_w = 9;
  optional float step = 10;
  optional float step_h = 11;
  optional float step_w = 12;
  optional float offset = 13 [default = 0.5];
}
message NonMaximumSuppressionParameter {
  optional float nms_threshold = 1 [default = 0.3];
  optional int32 top_k = 2;
  optional float eta = 3 [default = 1.0];
}
message DetectionOutputParameter {
  optional uint32 num_classes = 1;
  optional bool share_location = 2 [default = true];
  optional int32 background_label_id = 3;
  optional NonMaximumSuppressionParameter nms_param = 4;
  optional PriorBoxParameter.CodeType code_type = 6 [default = CORNER];
  optional bool variance_encoded_in_target = 8;
  optional int32 keep_top_k = 7 [default = -1];
  optional float confidence_threshold = 9;
  optional float objectness_score = 24 [default = 0.01];
}
"""

_LAYERS = """
enum Phase { TRAIN = 0; TEST = 1; }
message NetState { optional Phase phase = 1; optional int32 level = 2; repeated string stage = 3; }
message NetStateRule {
  optional Phase phase = 1;
  optional int32 min_level = 2;
  optional int32 max_level = 3;
  repeated string stage = 4;
  repeated string not_stage = 5;
}
message Layer {
  optional string name = 1;
  optional string type = 2;
  repeated string bottom = 3;
  repeated string top = 4;
  repeated BlobProto blobs = 7;
  repeated NetStateRule include = 8;
  repeated NetStateRule exclude = 9;
  optional ArgMaxParameter argmax_param = 103;
  optional BatchNormParameter batch_norm_param = 139;
  optional BiasParameter bias_param = 141;
  optional ClipParameter clip_param = 148;
  optional ConcatParameter concat_param = 104;
  optional ConvolutionParameter convolution_param = 106;
  optional CropParameter crop_param = 144;
  optional DropoutParameter dropout_param = 108;
  optional DummyDataParameter dummy_data_param = 109;
  optional EltwiseParameter eltwise_param = 110;
  optional ELUParameter elu_param = 140;
  optional EmbedParameter embed_param = 137;
  optional ExpParameter exp_param = 111;
  optional FlattenParameter flatten_param = 135;
  optional InnerProductParameter inner_product_param = 117;
  optional InputParameter input_param = 143;
  optional ExpParameter log_param = 134;
  optional LRNParameter lrn_param = 118;
  optional MemoryDataParameter memory_data_param = 119;
  optional MVNParameter mvn_param = 120;
  optional ParameterParameter parameter_param = 145;
  optional PoolingParameter pooling_param = 121;
  optional PowerParameter power_param = 122;
  optional PReLUParameter prelu_param = 131;
  optional RecurrentParameter recurrent_param = 146;
  optional ReductionParameter reduction_param = 136;
  optional ReLUParameter relu_param = 123;
  optional ReshapeParameter reshape_param = 133;
  optional ScaleParameter scale_param = 142;
  optional SliceParameter slice_param = 126;
  optional SoftmaxParameter softmax_param = 125;
  optional SwishParameter swish_param = 147;
  optional ThresholdParameter threshold_param = 128;
  optional TileParameter tile_param = 138;
  optional PermuteParameter permute_param = 202;
  optional PriorBoxParameter prior_box_param = 203;
  optional DetectionOutputParameter detection_output_param = 204;
  optional NormalizeParameter norm_param = 206;
  optional BNParameter bn_param = 1000000;
  optional InterpParameter interp_param = 1000001;
  optional PSROIPoolingParameter psroi_pooling_param = 1000002;
  optional ROIPoolingParameter roi_pooling_param = 1000003;
  optional ShuffleChannelParameter shuffle_channel_param = 1000004;
  optional UpsampleParameter upsample_param = 1000005;
  optional NormalizeParameter normalize_bbox_param = 1000006;
  optional ReorgParameter reorg_param = 1000007;
}
message V0Layer {
  enum PoolMethod { MAX = 0; AVE = 1; STOCHASTIC = 2; }
  optional string name = 1;
  optional string type = 2;
  optional uint32 num_output = 3;
  optional bool biasterm = 4 [default = true];
  optional uint32 pad = 7;
  optional uint32 kernelsize = 8;
  optional uint32 group = 9 [default = 1];
  optional uint32 stride = 10 [default = 1];
  optional PoolMethod pool = 11;
  optional uint32 local_size = 13 [default = 5];
  optional float alpha = 14 [default = 1];
  optional float beta = 15 [default = 0.75];
  optional float k = 22 [default = 1];
  optional uint32 concat_dim = 65 [default = 1];
  repeated BlobProto blobs = 50;
}
message V1Layer {
  enum Type {
    NONE = 0; ABSVAL = 35; ACCURACY = 1; ARGMAX = 30; BNLL = 2; CONCAT = 3; CONTRASTIVE_LOSS = 37;
    CONVOLUTION = 4; CROP = 40; DATA = 5; DECONVOLUTION = 39; DROPOUT = 6; DUMMY_DATA = 32;
    EUCLIDEAN_LOSS = 7; ELTWISE = 25; EXP = 38; FLATTEN = 8; HDF5_DATA = 9; HDF5_OUTPUT = 10;
    HINGE_LOSS = 28; IM2COL = 11; IMAGE_DATA = 12; INFOGAIN_LOSS = 13; INNER_PRODUCT = 14; LRN = 15;
    MEMORY_DATA = 29; MULTINOMIAL_LOGISTIC_LOSS = 16; MVN = 34; POOLING = 17; POWER = 26; RELU = 18;
    SIGMOID = 19; SIGMOID_CROSS_ENTROPY_LOSS = 27; SILENCE = 36; SOFTMAX = 20; SOFTMAX_LOSS = 21;
    SPLIT = 22; SLICE = 33; TANH = 23; WINDOW_DATA = 24; THRESHOLD = 31;
    BN = 1000000; INTERP = 1000001; PRELU = 1000002; RESHAPE = 1000003; UPSAMPLE = 1000004;
  }
  repeated string bottom = 2;
  repeated string top = 3;
  optional string name = 4;
  repeated NetStateRule include = 32;
  repeated NetStateRule exclude = 33;
  optional Type type = 5;
  repeated BlobProto blobs = 6;
  optional ArgMaxParameter argmax_param = 23;
  optional ConcatParameter concat_param = 9;
  optional ConvolutionParameter convolution_param = 10;
  optional DropoutParameter dropout_param = 12;
  optional DummyDataParameter dummy_data_param = 26;
  optional EltwiseParameter eltwise_param = 24;
  optional ExpParameter exp_param = 41;
  optional InnerProductParameter inner_product_param = 17;
  optional LRNParameter lrn_param = 18;
  optional MemoryDataParameter memory_data_param = 22;
  optional MVNParameter mvn_param = 34;
  optional PoolingParameter pooling_param = 19;
  optional PowerParameter power_param = 21;
  optional ReLUParameter relu_param = 30;
  optional SoftmaxParameter softmax_param = 39;
  optional SliceParameter slice_param = 31;
  optional ThresholdParameter threshold_param = 25;
  optional BNParameter bn_param = 1000000;
  optional CropParameter crop_param = 1000001;
  optional FlattenParameter flatten_param = 1000002;
  optional InterpParameter interp_param = 1000003;
  optional PReLUParameter prelu_param = 1000004;
  optional ReshapeParameter reshape_param = 1000005;
  optional UpsampleParameter upsample_param = 1000006;
  optional V0Layer layer = 1;
}
message Net {
  optional string name = 1;
  repeated string input = 3;
  repeated BlobShape input_shape = 8;
  repeated int32 input_dim = 4;
  optional NetState state = 6;
  repeated Layer layer = 100;
  repeated V1Layer layers = 2;
}
"""

DEFINITION = _BLOBS + _PARAMETERS + _LAYERS


@cache
def messages(schema: str) -> Mapping[str, Any]:
    """Return the message classes of one of the schemas above, by name."""
    return message_types(schema, "caffe", "caffe", syntax="proto2")
