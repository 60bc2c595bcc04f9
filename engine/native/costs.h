#pragma once
#include <string>
#include <vector>

#include "base/step.h"

namespace palm {

// A way of doing a step: a value of its attribute `algorithm`, "" where there is one way alone; what
// one run is expected to take with one thread, on the machine that kernels/conv/cost.cc is of; and
// what is done how often, see there.
struct Candidate {
  std::string algorithm;
  double seconds;
  std::vector<double> terms;
};

// Those of a step, the kernel's own choice first; none of a kernel without a cost model, nor of a
// step that its kernel is not made for.
std::vector<Candidate> candidates(const std::string& kernel, const Node& node);

// What numbers take that are written once, after what is read for them.
double touching_seconds(size_t bytes);

// What a step that two threads share takes beside half its time: fork and join, and lines that the
// other core has written.
double sharing_seconds();

// Constants of one model that runs may read where the file has them, in bytes: more of them in
// small pages, as files have them, is read more slowly than what is packed into huge ones.
size_t most_bytes_in_place();

}  // namespace palm
