#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/one_step.h"

namespace {

using namespace palm;

enum Mode : uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember };

// Random trees as the step has them.
struct Forest {
  std::vector<int32_t> features, yes, no, targets, roots;
  std::vector<uint8_t> modes, yes_leaf, no_leaf, missing;
  Vector splits, weights, members;
  std::vector<Vector> sets;
  size_t votes;

  Forest(Random& random, size_t trees, size_t most_nodes, size_t width, size_t count, size_t votes_)
      : votes(votes_) {
    for (size_t tree = 0; tree < trees; ++tree) {
      const size_t first = features.size(), nodes = random.between(1, most_nodes);
      roots.push_back(static_cast<int32_t>(first));
      for (size_t i = 0; i < nodes; ++i) {
        features.push_back(static_cast<int32_t>(random.between(0, width - 1)));
        modes.push_back(static_cast<uint8_t>(random.between(kLeq, kMember)));
        missing.push_back(random.bits() % 2);
        splits.push_back(number(random));
        yes.push_back(-1), no.push_back(-1), yes_leaf.push_back(1), no_leaf.push_back(1);
        while (i) {  // below a node that has a free side
          const size_t parent = first + random.between(0, i - 1);
          const bool is_yes = random.bits() % 2;
          if (!(is_yes ? yes_leaf : no_leaf)[parent]) continue;
          (is_yes ? yes_leaf : no_leaf)[parent] = 0;
          (is_yes ? yes : no)[parent] = static_cast<int32_t>(first + i);
          break;
        }
        sets.emplace_back();
        if (modes.back() != kMember) continue;
        for (size_t k = random.between(0, 4); k > 0; --k) sets.back().push_back(member(random));
        members.insert(members.end(), sets.back().begin(), sets.back().end());
        members.push_back(NAN);
      }
    }
    for (size_t i = 0; i < yes.size(); ++i) {
      if (yes_leaf[i]) yes[i] = leaf(random, count);
      if (no_leaf[i]) no[i] = leaf(random, count);
    }
  }

  int32_t leaf(Random& random, size_t count) {
    targets.push_back(static_cast<int32_t>(random.between(0, count - votes)));
    for (size_t i = 0; i < votes; ++i) weights.push_back(random.next());
    return static_cast<int32_t>(targets.size() - 1);
  }

  // Few numbers, so that many are equal.
  static float number(Random& random) {
    const size_t kind = random.between(0, 11);
    if (kind == 0) return NAN;
    if (kind == 1) return -std::numeric_limits<float>::infinity();
    if (kind == 2) return -0.f;
    return static_cast<float>(random.between(0, 6)) - 3.f;
  }

  static float member(Random& random) {
    const float x = number(random);
    return std::isnan(x) ? 1.f : x;
  }

  bool holds(size_t i, float x) const {
    if (missing[i] && std::isnan(x)) return true;
    switch (modes[i]) {
      case kLeq: return x <= splits[i];
      case kLt: return x < splits[i];
      case kGte: return x >= splits[i];
      case kGt: return x > splits[i];
      case kEq: return x == splits[i];
      case kNeq: return x != splits[i];
      default: return std::find(sets[i].begin(), sets[i].end(), x) != sets[i].end();
    }
  }

  OneStep step(const Vector& x, std::vector<size_t> shape, size_t count, int64_t aggregate) const {
    OneStep step("tree_ensemble");
    const size_t n = features.size(), leaves = targets.size();
    step.input(shape, x).input(DType::kInt32, {n}, features, true);
    step.input(DType::kUint8, {n}, modes, true).input({n}, splits, true);
    step.input(DType::kInt32, {n}, yes, true).input(DType::kInt32, {n}, no, true);
    step.input(DType::kUint8, {n}, yes_leaf, true).input(DType::kUint8, {n}, no_leaf, true);
    step.input(DType::kInt32, {leaves}, targets, true).input({leaves, votes}, weights, true);
    step.input(DType::kInt32, {roots.size()}, roots, true);
    step.input(DType::kUint8, {n}, missing, true).input({members.size()}, members, true);
    shape.back() = count;
    step.output(shape).attr("n_targets", static_cast<int64_t>(count));
    step.attr("aggregate_function", aggregate);
    return step;
  }
};

void check(Random& random, size_t rows, size_t trees, size_t most_nodes, size_t width,
           size_t count, size_t votes) {
  const Forest forest(random, trees, most_nodes, width, count, votes);
  Vector x;
  for (size_t i = 0; i < rows * width; ++i) x.push_back(Forest::number(random));
  for (int64_t aggregate = 0; aggregate < 4; ++aggregate) {
    Vector y(rows * count + 1, 77.f);
    forest.step(x, {rows, width}, count, aggregate).make(kScalar, 2, true).run(y.data(), y.size() - 1);
    PALM_CHECK(y.back() == 77.f, "wrote past the end");
    for (size_t row = 0; row < rows; ++row) {
      std::vector<double> sums(count, 0.);
      std::vector<bool> has_vote(count, false);
      for (int32_t root : forest.roots) {
        int32_t at = root;
        for (bool is_leaf = false; !is_leaf;) {
          const auto i = static_cast<size_t>(at);
          const float value = x[row * width + static_cast<size_t>(forest.features[i])];
          const bool is_yes = forest.holds(i, value);
          at = (is_yes ? forest.yes : forest.no)[i];
          is_leaf = (is_yes ? forest.yes_leaf : forest.no_leaf)[i];
        }
        for (size_t vote = 0; vote < votes; ++vote) {
          const size_t target = static_cast<size_t>(forest.targets[static_cast<size_t>(at)]) + vote;
          const double weight = forest.weights[static_cast<size_t>(at) * votes + vote];
          double& sum = sums[target];
          if (aggregate < 2) sum += weight;
          else if (!has_vote[target]) sum = weight;
          else sum = aggregate == 2 ? std::fmin(sum, weight) : std::fmax(sum, weight);
          has_vote[target] = true;
        }
      }
      for (size_t k = 0; k < count; ++k) {
        if (aggregate == 0) sums[k] /= static_cast<double>(trees);
        PALM_CHECK(y[row * count + k] == static_cast<float>(sums[k]),
                   "%zu trees, aggregate %d, row %zu, target %zu: %g is %g", trees,
                   static_cast<int>(aggregate), row, k, sums[k], y[row * count + k]);
      }
    }
  }
}

template <class Damage>
void check_refused(const char* what, Damage damage) {
  Random random;
  Forest forest(random, 4, 9, 5, 3, 2);
  const Vector x(2 * 5, 0.f);
  Vector y(2 * 3);
  forest.step(x, {2, 5}, 3, 1).make(kScalar, 1).run(y.data(), y.size());
  damage(forest);
  const bool refused =
      refuses([&] { forest.step(x, {2, 5}, 3, 1).make(kScalar, 1).run(y.data(), y.size()); });
  PALM_CHECK(refused, "%s was taken", what);
}

size_t inner(const Forest& forest) {  // a node with a node below its true branch
  size_t i = 0;
  while (forest.yes_leaf[i]) ++i;
  return i;
}

}  // namespace

int main() {
  Random random;
  for (size_t rows : {0, 1, 2, 7, 8, 9, 63, 64, 65, 150}) check(random, rows, 5, 12, 6, 1, 1);
  for (size_t trees : {1, 2, 30}) check(random, 20, trees, 40, 3, 1, 1);
  check(random, 30, 10, 12, 6, 4, 1);
  check(random, 30, 10, 12, 6, 4, 3);
  check(random, 30, 10, 12, 6, 200, 200);
  check(random, 30, 10, 12, 6, 3000, 7);
  check(random, 20, 1100, 3, 6, 1, 1);

  check_refused("a feature", [](Forest& f) { f.features[3] = 5; });
  check_refused("a negative feature", [](Forest& f) { f.features[3] = -1; });
  check_refused("a mode", [](Forest& f) { f.modes[2] = 7; });
  check_refused("a node", [](Forest& f) { f.yes[inner(f)] = static_cast<int32_t>(f.yes.size()); });
  check_refused("a leaf", [](Forest& f) {
    f.yes_leaf[inner(f)] = 1;
    f.yes[inner(f)] = INT32_MIN;
  });
  check_refused("a circle", [](Forest& f) { f.yes[inner(f)] = static_cast<int32_t>(inner(f)); });
  check_refused("a root with a parent", [](Forest& f) { f.yes[inner(f)] = f.roots[0]; });
  check_refused("a root that is not there", [](Forest& f) { f.roots[0] = -1; });
  check_refused("a root twice", [](Forest& f) { f.roots[0] = f.roots[1]; });
  check_refused("a target", [](Forest& f) { f.targets[0] = 2; });
  check_refused("a weight", [](Forest& f) { f.weights[0] = NAN; });
  check_refused("a set without end", [](Forest& f) { f.members.pop_back(); });
  check_refused("a set without a node", [](Forest& f) { f.members.push_back(NAN); });
}
