#include "base/placement.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

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

const char* name_of(Priority priority) {
  return priority == Priority::kLow ? "low" : priority == Priority::kHigh ? "high" : "normal";
}

std::string no_priority(Priority priority, const char* why) {
  return std::string("priority: the system does not give \"") + name_of(priority) + "\": " + why;
}

std::string no_core(int core, const char* why) {
  return "cores: " + std::to_string(core) + why;
}

constexpr char kNoSuchCore[] = " is none that this process may use";

#if defined(_WIN32)

std::string prioritise(Priority priority) {
  const int level = priority == Priority::kLow ? THREAD_PRIORITY_BELOW_NORMAL
                                               : THREAD_PRIORITY_ABOVE_NORMAL;
  return SetThreadPriority(GetCurrentThread(), level) ? "" : no_priority(priority, "it refuses");
}

std::string pin(const std::vector<int>& cores) {
  DWORD_PTR ours = 0, systems = 0, mask = 0;
  GetProcessAffinityMask(GetCurrentProcess(), &ours, &systems);
  for (int core : cores) {
    const bool fits = core >= 0 && static_cast<size_t>(core) < 8 * sizeof mask;
    if (!fits || !(ours >> core & 1)) return no_core(core, kNoSuchCore);
    mask |= DWORD_PTR{1} << core;
  }
  return SetThreadAffinityMask(GetCurrentThread(), mask) ? "" : no_core(cores[0], ": it refuses");
}

#elif defined(__APPLE__)

std::string prioritise(Priority priority) {
  const qos_class_t level = priority == Priority::kLow ? QOS_CLASS_UTILITY
                                                       : QOS_CLASS_USER_INTERACTIVE;
  const int error = pthread_set_qos_class_self_np(level, 0);
  return error ? no_priority(priority, std::strerror(error)) : "";
}

std::string pin(const std::vector<int>& cores) {
  return no_core(cores[0], ": this system has no way to choose cores");
}

#elif defined(__linux__)

// As far as a nice program goes, and as far before the others.
constexpr int kNice = 10;

std::string prioritise(Priority priority) {
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  const int nice = priority == Priority::kLow ? kNice : -kNice;
  return setpriority(PRIO_PROCESS, thread, nice) ? no_priority(priority, std::strerror(errno)) : "";
}

std::string pin(const std::vector<int>& cores) {
  cpu_set_t ours, set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof ours, &ours)) return no_core(cores[0], ": too many to choose from");
  for (int core : cores) {
    if (core < 0 || core >= CPU_SETSIZE || !CPU_ISSET(core, &ours)) return no_core(core, kNoSuchCore);
    CPU_SET(core, &set);
  }
  return sched_setaffinity(0, sizeof set, &set) ? no_core(cores[0], kNoSuchCore) : "";
}

#else

std::string prioritise(Priority priority) { return no_priority(priority, "it has none"); }
std::string pin(const std::vector<int>& cores) { return no_core(cores[0], ": it has no cores"); }

#endif

}  // namespace

std::string Placement::apply() const noexcept {
  std::string why;
  if (priority != Priority::kNormal) why = prioritise(priority);
  if (why.empty() && !cores.empty()) why = pin(cores);
  return why;
}

}  // namespace palm
