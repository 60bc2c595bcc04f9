#include "base/placement.h"

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/error.h"

#if defined(_WIN32)
#include <windows.h>
#elif defined(__APPLE__)
#include <pthread.h>
#include <pthread/qos.h>
#elif defined(__linux__)
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace palm {
namespace {

[[noreturn]] void no_priority(Priority priority, const char* why) {
  fail(Fault::kBackend, "priority: the system does not give \"%s\": %s",
       priority == Priority::kLow ? "low" : "high", why);
}

[[noreturn]] void no_core(int core, const char* why = "is none that this process may use") {
  fail(Fault::kBackend, "cores: %d %s", core, why);
}

#if defined(_WIN32)

void prioritise(Priority priority) {
  const int level = priority == Priority::kLow ? THREAD_PRIORITY_BELOW_NORMAL
                                               : THREAD_PRIORITY_ABOVE_NORMAL;
  if (!SetThreadPriority(GetCurrentThread(), level)) no_priority(priority, "it refuses");
}

void pin(const std::vector<int>& cores) {
  DWORD_PTR ours = 0, systems = 0, mask = 0;
  GetProcessAffinityMask(GetCurrentProcess(), &ours, &systems);
  for (int core : cores) {
    const bool fits = core >= 0 && static_cast<size_t>(core) < 8 * sizeof mask;
    if (!fits || !(ours >> core & 1)) no_core(core);
    mask |= DWORD_PTR{1} << core;
  }
  if (!SetThreadAffinityMask(GetCurrentThread(), mask)) no_core(cores[0]);
}

#elif defined(__APPLE__)

void prioritise(Priority priority) {
  const qos_class_t level = priority == Priority::kLow ? QOS_CLASS_UTILITY
                                                       : QOS_CLASS_USER_INTERACTIVE;
  const int error = pthread_set_qos_class_self_np(level, 0);
  if (error) no_priority(priority, std::strerror(error));
}

void pin(const std::vector<int>& cores) {
  no_core(cores[0], "cannot be asked for: this system has no way to choose");
}

#elif defined(__linux__)

// As far as a nice program goes, and as far before the others.
constexpr int kNice = 10;

void prioritise(Priority priority) {
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  const int nice = priority == Priority::kLow ? kNice : -kNice;
  if (setpriority(PRIO_PROCESS, thread, nice)) no_priority(priority, std::strerror(errno));
}

void pin(const std::vector<int>& cores) {
  cpu_set_t ours, set;
  CPU_ZERO(&ours);
  CPU_ZERO(&set);
  // Where there are more cores than in such a set, it says of none that it may be used.
  static_cast<void>(sched_getaffinity(0, sizeof ours, &ours));
  for (int core : cores) {
    if (core < 0 || core >= CPU_SETSIZE || !CPU_ISSET(core, &ours)) no_core(core);
    CPU_SET(core, &set);
  }
  if (sched_setaffinity(0, sizeof set, &set)) no_core(cores[0]);
}

#else

void prioritise(Priority priority) { no_priority(priority, "it has none"); }
void pin(const std::vector<int>& cores) { no_core(cores[0], "cannot be asked for here"); }

#endif

}  // namespace

void Placement::apply() const {
  if (priority != Priority::kNormal) prioritise(priority);
  if (!cores.empty()) pin(cores);
}

}  // namespace palm
