// The calls of palm.h that say what is there, and cannot fail.
#include <vector>

#include "base/isas.h"
#include "palm_handles.h"

namespace {

template <class T>
const T* at(const std::vector<T>& list, size_t i) {
  return i < list.size() ? &list[i] : nullptr;
}

const char* text_at(const std::vector<std::string>& list, size_t i) {
  return i < list.size() ? list[i].c_str() : nullptr;
}

}  // namespace

extern "C" {

size_t palm_isa_count(void) { return palm::host_isas().size(); }
const char* palm_isa_name(size_t index) { return text_at(palm::host_isas(), index); }

const char* palm_dtype_name(palm_dtype dtype) {
  return dtype < PALM_FLOAT32 || dtype > PALM_BFLOAT16 ? nullptr
                                                       : name_of(static_cast<palm::DType>(dtype));
}

size_t palm_dtype_size(palm_dtype dtype) {
  return palm_dtype_name(dtype) ? size_of(static_cast<palm::DType>(dtype)) : 0;
}

size_t palm_model_input_count(const palm_model* model) {
  return model ? model->file->inputs.size() : 0;
}
size_t palm_model_output_count(const palm_model* model) {
  return model ? model->file->outputs.size() : 0;
}
const palm_value* palm_model_input(const palm_model* model, size_t index) {
  return model ? at(model->file->inputs, index) : nullptr;
}
const palm_value* palm_model_output(const palm_model* model, size_t index) {
  return model ? at(model->file->outputs, index) : nullptr;
}

size_t palm_model_metadata_count(const palm_model* model) {
  return model ? model->file->plans.metadata().size() : 0;
}
const char* palm_model_metadata_key(const palm_model* model, size_t index) {
  const auto* const entry = model ? at(model->file->plans.metadata(), index) : nullptr;
  return entry ? entry->first.c_str() : nullptr;
}
const char* palm_model_metadata_value(const palm_model* model, size_t index) {
  const auto* const entry = model ? at(model->file->plans.metadata(), index) : nullptr;
  return entry ? entry->second.c_str() : nullptr;
}
const char* palm_model_metadata(const palm_model* model, const char* key) {
  if (!model || !key) return nullptr;
  for (const auto& [name, value] : model->file->plans.metadata())
    if (name == key) return value.c_str();
  return nullptr;
}

size_t palm_model_plan_count(const palm_model* model) {
  return model ? model->file->own.size() : 0;
}
const int64_t* palm_model_plan_dims(const palm_model* model, size_t plan, size_t input) {
  if (plan >= palm_model_plan_count(model)) return nullptr;
  const palm::OpenFile& file = *model->file;
  const palm::Ints* const dims = at(file.plans.shapes(file.own[plan]), input);
  return dims ? dims->data() : nullptr;
}

const char* palm_value_name(const palm_value* value) {
  return value ? value->name.c_str() : nullptr;
}
palm_dtype palm_value_dtype(const palm_value* value) {
  return value ? static_cast<palm_dtype>(value->dtype) : -1;
}
size_t palm_value_rank(const palm_value* value) { return value ? value->dims.size() : 0; }
const int64_t* palm_value_dims(const palm_value* value) {
  return value ? value->dims.data() : nullptr;
}
const char* palm_value_dim_name(const palm_value* value, size_t axis) {
  return value && axis < value->dims.size() && value->dims[axis] < 0 ? value->names[axis].c_str()
                                                                     : nullptr;
}
size_t palm_value_size(const palm_value* value) { return value ? value->bytes : 0; }

size_t palm_program_input_count(const palm_program* program) {
  return program ? program->ready->inputs.size() : 0;
}
size_t palm_program_output_count(const palm_program* program) {
  return program ? program->ready->outputs.size() : 0;
}
const palm_value* palm_program_input(const palm_program* program, size_t index) {
  return program ? at(program->ready->inputs, index) : nullptr;
}
const palm_value* palm_program_output(const palm_program* program, size_t index) {
  return program ? at(program->ready->outputs, index) : nullptr;
}

size_t palm_program_step_count(const palm_program* program) {
  return program ? program->ready->kernels.size() : 0;
}
const char* palm_program_step_node(const palm_program* program, size_t index) {
  return program ? text_at(program->ready->nodes, index) : nullptr;
}
const char* palm_program_step_kernel(const palm_program* program, size_t index) {
  return program ? text_at(program->ready->kernels, index) : nullptr;
}

}  // extern "C"
