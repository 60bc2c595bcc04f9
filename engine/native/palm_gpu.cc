// A GPU through webgpu.h: the calls of palm_engine.h that hand work to it again and again.
#include "palm_calls.h"
// Before palm_engine.h, which includes palm.h.
#include "palm_engine.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

namespace {

using palm::bad;
using palm::guarded;

// What is called of webgpu.h and wgpu.h.
struct Text {
  const char* data;
  size_t size;
};
struct Future {
  uint64_t id;
};
template <class Function>
struct Callback {
  const void* next;
  uint32_t mode;
  Function* call;
  void *one, *two;
};
using OnScope = void(uint32_t status, uint32_t kind, Text text, void* one, void* two);
using OnMap = void(uint32_t status, Text text, void* one, void* two);
using PushErrorScope = void(void* device, uint32_t filter);
using PopErrorScope = Future(void* device, Callback<OnScope>);
using CreateCommandEncoder = void*(void* device, const void* described);
using Poll = uint32_t(void* device, uint32_t wait, const uint64_t* submit);
using WriteBuffer = void(void* queue, void* buffer, uint64_t offset, const void* data, size_t size);
using Submit = uint64_t(void* queue, size_t count, void* const* commands);
using CopyBuffer = void(void* encoder, void* from, uint64_t from_offset, void* to,
                        uint64_t to_offset, uint64_t size);
using BeginOrFinish = void*(void* encoder, const void* described);
using SetPipeline = void(void* pass, void* pipeline);
using SetBindGroup = void(void* pass, uint32_t index, void* group, size_t count,
                          const uint32_t* offsets);
using Dispatch = void(void* pass, uint32_t x, uint32_t y, uint32_t z);
using Take = void(void* object);
using MapAsync = Future(void* buffer, uint64_t mode, size_t offset, size_t size, Callback<OnMap>);
using MappedRange = void*(void* buffer, size_t offset, size_t size);

constexpr uint32_t kAllowProcessEvents = 2;       // WGPUCallbackMode
constexpr uint32_t kValidation = 1, kMemory = 2;  // WGPUErrorFilter
constexpr uint32_t kNoError = 1;                  // WGPUErrorType
constexpr uint32_t kMapped = 1;                   // WGPUMapAsyncStatus
constexpr uint64_t kRead = 1, kWrite = 2;         // WGPUMapMode

template <class Function>
Function* as(palm_engine_gpu_function function) {
  return reinterpret_cast<Function*>(function);
}

// What the library says is wrong, one message behind the other.
class Said {
 public:
  void add(Text text) noexcept {
    const bool is_known = text.data && text.size;
    if (!is_known) text = {"an error without a reason", SIZE_MAX};
    const size_t size = text.size == SIZE_MAX ? std::strlen(text.data) : text.size;
    if (size_ && size_ < kMost) text_[size_++] = ' ';
    const size_t taken = std::min(size, kMost - size_);
    std::memcpy(text_ + size_, text.data, taken);
    size_ += taken;
  }
  bool empty() const { return size_ == 0; }
  // Throws Bad if there is something.
  void check() const {
    if (!empty()) bad(PALM_ERROR_BACKEND, "%.*s", static_cast<int>(size_), text_);
  }

 private:
  // As much as `bad` takes.
  static constexpr size_t kMost = 511;
  char text_[kMost];
  size_t size_ = 0;
};

void on_scope(uint32_t, uint32_t kind, Text text, void* said, void*) noexcept {
  if (kind != kNoError) static_cast<Said*>(said)->add(text);
}

// Throws Bad if the library says that something in `body`, which does not throw, is wrong.
template <class Body>
void checked(const palm_engine_gpu& gpu, Body body) {
  Said said;
  for (const uint32_t filter : {kValidation, kMemory})
    as<PushErrorScope>(gpu.device_push_error_scope)(gpu.device, filter);
  body();
  for (int i = 0; i < 2; ++i) {
    as<PopErrorScope>(gpu.device_pop_error_scope)(
        gpu.device, {nullptr, kAllowProcessEvents, on_scope, &said, nullptr});
  }
  said.check();
}

// Puts the host's writes into an upload that is mapped, as far as they fit into it, and has them
// copied from there; false: they do not, or it is not mapped.
bool upload_all(const palm_engine_gpu& gpu, const palm_engine_gpu_work& work, void* encoder,
                palm_engine_gpu_upload* upload) {
  if (!upload || !upload->mapped) return false;
  size_t size = 0;
  for (size_t i = 0; i < work.write_count; ++i) size += work.writes[i].size;
  if (!size || size > upload->size) return false;
  size_t at = 0;
  for (size_t i = 0; i < work.write_count; ++i) {
    const palm_engine_gpu_write& each = work.writes[i];
    if (!each.size) continue;
    std::memcpy(static_cast<char*>(upload->mapped) + at, each.data, each.size);
    as<CopyBuffer>(gpu.command_encoder_copy_buffer_to_buffer)(encoder, upload->buffer, at,
                                                              each.buffer, each.offset, each.size);
    at += each.size;
  }
  upload->mapped = nullptr;
  as<Take>(gpu.buffer_unmap)(upload->buffer);
  return true;
}

void write(const palm_engine_gpu& gpu, const palm_engine_gpu_work& work) {
  for (size_t i = 0; i < work.write_count; ++i) {
    const palm_engine_gpu_write& each = work.writes[i];
    if (!each.size) continue;
    as<WriteBuffer>(gpu.queue_write_buffer)(gpu.queue, each.buffer, each.offset, each.data,
                                            each.size);
  }
}

void copy(const palm_engine_gpu& gpu, void* encoder, const palm_engine_gpu_copy* copies,
          size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const palm_engine_gpu_copy& each = copies[i];
    as<CopyBuffer>(gpu.command_encoder_copy_buffer_to_buffer)(
        encoder, each.from, each.from_offset, each.to, each.to_offset, each.size);
  }
}

void dispatch(const palm_engine_gpu& gpu, const palm_engine_gpu_work& work, void* encoder) {
  const auto set_pipeline = as<SetPipeline>(gpu.compute_pass_encoder_set_pipeline);
  const auto set_group = as<SetBindGroup>(gpu.compute_pass_encoder_set_bind_group);
  const auto launch = as<Dispatch>(gpu.compute_pass_encoder_dispatch_workgroups);
  void* const pass = as<BeginOrFinish>(gpu.command_encoder_begin_compute_pass)(encoder, nullptr);
  const void *pipeline = nullptr, *group = nullptr;
  for (size_t i = 0; i < work.dispatch_count; ++i) {
    const palm_engine_gpu_dispatch& each = work.dispatches[i];
    if (each.pipeline != pipeline) set_pipeline(pass, each.pipeline);
    if (each.group != group) set_group(pass, 0, each.group, 0, nullptr);
    pipeline = each.pipeline;
    group = each.group;
    launch(pass, each.x, each.y, 1);
  }
  as<Take>(gpu.compute_pass_encoder_end)(pass);
  as<Take>(gpu.compute_pass_encoder_release)(pass);
}

void* encoded(const palm_engine_gpu& gpu, const palm_engine_gpu_work& work,
              palm_engine_gpu_upload* upload) {
  void* const encoder =
      as<CreateCommandEncoder>(gpu.device_create_command_encoder)(gpu.device, nullptr);
  if (!upload_all(gpu, work, encoder, upload)) write(gpu, work);
  copy(gpu, encoder, work.before, work.before_count);
  if (work.dispatch_count) dispatch(gpu, work, encoder);
  copy(gpu, encoder, work.behind, work.behind_count);
  void* const commands = as<BeginOrFinish>(gpu.command_encoder_finish)(encoder, nullptr);
  as<Take>(gpu.command_encoder_release)(encoder);
  return commands;
}

// Commands that are released, submitted or not.
struct Commands {
  explicit Commands(const palm_engine_gpu& gpu_) : gpu(gpu_) {}
  ~Commands() {
    if (made) as<Take>(gpu.command_buffer_release)(made);
  }
  Commands(const Commands&) = delete;
  Commands& operator=(const Commands&) = delete;

  const palm_engine_gpu& gpu;
  void* made = nullptr;
};

// A buffer on its way to the host. Whichever thread waits for the device may be told of it, so its
// caller stays until it is over.
class Mapping {
 public:
  void begin(const palm_engine_gpu& gpu, void* buffer, uint64_t mode, size_t size) {
    is_over_ = false;
    as<MapAsync>(gpu.buffer_map_async)(
        buffer, mode, 0, size, {nullptr, kAllowProcessEvents, on_map, this, nullptr});
  }
  bool is_over() const { return is_over_.load(std::memory_order_acquire); }
  bool failed() const { return !said_.empty(); }
  // Throws Bad if it failed.
  void check() const { said_.check(); }

 private:
  static void on_map(uint32_t status, Text text, void* one, void*) noexcept {
    Mapping& mapping = *static_cast<Mapping*>(one);
    if (status != kMapped) mapping.said_.add(text);
    mapping.is_over_.store(true, std::memory_order_release);
  }

  Said said_;
  std::atomic<bool> is_over_{true};
};

}  // namespace

palm_status palm_engine_gpu_submit(const palm_engine_gpu* gpu, const palm_engine_gpu_work* work,
                                   palm_engine_gpu_upload* upload, uint64_t* submit) {
  return guarded([&] {
    Commands commands(*gpu);
    // The library ends the process where a submit finds something wrong, or no device: here it says
    // so before.
    checked(*gpu, [&] { commands.made = encoded(*gpu, *work, upload); });
    *submit = as<Submit>(gpu->queue_submit_for_index)(gpu->queue, 1, &commands.made);
  });
}

palm_status palm_engine_gpu_wait(const palm_engine_gpu* gpu, uint64_t submit) {
  return guarded([&] { as<Poll>(gpu->device_poll)(gpu->device, 1, &submit); });
}

palm_status palm_engine_gpu_fetch(const palm_engine_gpu* gpu, uint64_t submit, void* buffer,
                                  void* to, size_t size, palm_engine_gpu_upload* upload) {
  return guarded([&] {
    using Clock = std::chrono::steady_clock;
    const auto asleep = Clock::now() + std::chrono::duration<double>(gpu->awake_s);
    Mapping read, write;
    read.begin(*gpu, buffer, kRead, size);
    const bool maps = upload && !upload->mapped;
    if (maps) write.begin(*gpu, upload->buffer, kWrite, upload->size);
    while (!read.is_over() || !write.is_over()) {
      const bool sleeps = Clock::now() >= asleep;
      as<Poll>(gpu->device_poll)(gpu->device, sleeps, sleeps ? &submit : nullptr);
      if (!sleeps) std::this_thread::yield();
    }
    if (maps && !write.failed()) {
      const auto range = as<MappedRange>(gpu->buffer_get_mapped_range);
      upload->mapped = range(upload->buffer, 0, upload->size);
    }
    if (!read.failed()) {
      const auto range = as<MappedRange>(gpu->buffer_get_const_mapped_range);
      std::memcpy(to, range(buffer, 0, size), size);
      as<Take>(gpu->buffer_unmap)(buffer);
    }
    read.check();
    write.check();
  });
}
