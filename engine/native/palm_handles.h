#pragma once
// What is behind the handles of palm.h.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "model_file.h"
#include "palm_calls.h"
#include "plans.h"
#include "program.h"

struct palm_value {
  // dims: -1 has its name in `names`. Throws Error for a dtype that is not known.
  palm_value(std::string name, const std::string& dtype, std::vector<int64_t> dims,
             std::vector<std::string> names = {});

  std::string name;
  palm::DType dtype;
  std::vector<int64_t> dims;
  std::vector<std::string> names;
  size_t count = 0, bytes = 0;  // 0 where a dim is -1
};

namespace palm {

// An open file.
struct OpenFile {
  explicit OpenFile(const char* path);
  OpenFile(Bytes bytes, bool borrow);

  Pages pages;
  Sections sections;
  PlansInFile stored;
  Plans plans;
  std::vector<size_t> own;  // the plans that are this backend's
  std::vector<palm_value> inputs, outputs;

 private:
  void describe();
};

// One of a file's plans, ready to run.
struct Ready {
  Ready(std::shared_ptr<const OpenFile> file, Plan plan, size_t number, uint32_t isa, int threads);

  std::shared_ptr<const OpenFile> file;  // the program reads some of it
  size_t inputs_read;                    // the inputs behind these are not looked at
  std::vector<palm_value> inputs, outputs;
  std::vector<std::string> nodes, kernels;
  std::unique_ptr<const Program> program;
};

// What options of a session say, checked as far as no system need be asked.
Placement placement_of(const palm_session_options& options);
Watch::Clock::duration slice_of(double slice_ms);

// A session, and what a run would else have to allocate.
struct Running {
  Running(std::shared_ptr<const Ready> ready, int threads, Placement placement,
          Watch::Clock::duration slice);

  std::shared_ptr<const Ready> ready;
  Session session;
  const Watch::Clock::duration slice;
  std::vector<Array> inputs, outputs;
  palm_ask ask = nullptr;
  void* user = nullptr;
  bool is_ended = false;
  std::atomic<bool> is_busy{false};
};

}  // namespace palm

struct palm_model {
  std::shared_ptr<const palm::OpenFile> file;
};
struct palm_program {
  std::shared_ptr<const palm::Ready> ready;
};
struct palm_session {
  std::unique_ptr<palm::Running> running;
};
