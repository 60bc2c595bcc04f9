// What decision trees say of each row of features; as ONNX-ML's TreeEnsemble.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/arena.h"
#include "base/step.h"

namespace palm {
namespace {

constexpr Operands kOperands{
    "x nodes_featureids nodes_modes nodes_splits nodes_truenodeids nodes_falsenodeids "
    "nodes_trueleafs nodes_falseleafs leaf_targetids leaf_weights tree_roots "
    "nodes_missing_value_tracks_true membership_values",
    "y"};
constexpr size_t kX = kOperands.input("x"), kFeatures = kOperands.input("nodes_featureids"),
                 kModes = kOperands.input("nodes_modes"), kSplits = kOperands.input("nodes_splits"),
                 kTrueNodes = kOperands.input("nodes_truenodeids"),
                 kFalseNodes = kOperands.input("nodes_falsenodeids"),
                 kTrueLeaves = kOperands.input("nodes_trueleafs"),
                 kFalseLeaves = kOperands.input("nodes_falseleafs"),
                 kTargets = kOperands.input("leaf_targetids"),
                 kWeights = kOperands.input("leaf_weights"), kRoots = kOperands.input("tree_roots"),
                 kMissing = kOperands.input("nodes_missing_value_tracks_true"),
                 kMembers = kOperands.input("membership_values");
enum Mode : uint8_t { kLeq, kLt, kGte, kGt, kEq, kNeq, kMember };
enum Aggregate { kAverage, kSum, kMin, kMax };

// Numbers are compared as integers in the same order: nothing lies between a key and the next one,
// so that "less" is "at most the key before". All modes become that one question; a NaN has the
// least key or the greatest, as the node wants it.
using Key = int32_t;
constexpr Key kLeast = std::numeric_limits<Key>::min(), kGreatest = std::numeric_limits<Key>::max();

Key key_of(float number, Key of_nan) {
  Key bits;
  std::memcpy(&bits, &number, sizeof bits);
  const Key size = bits & kGreatest;
  if (size > 0x7f800000) return of_nan;
  return bits < 0 ? -size : size;
}

// Rows that go down a tree side by side, so that none waits for the memory of its own next node.
constexpr size_t kBeside = 8;
// A row goes to child[1] where the key of its feature is at most the split; a leaf is its own child.
// feature: where that of the first of the rows beside one another is. Behind all features they stand
// once more, with NaN as the least.
struct TreeNode {
  Key split;
  uint32_t feature, child[2];
};

class TreeEnsemble : public Step {
 public:
  explicit TreeEnsemble(const Node& node)
      : targets_(node.attrs.size("n_targets", 1)),
        aggregate_(node.attrs.size("aggregate_function")) {
    const Tensor &x = node.in(kX), &y = node.out();
    nodes_ = node.any_in(kFeatures).count, leaves_ = node.any_in(kTargets).count;
    width_ = x.shape.empty() ? 0 : x.shape.back();
    const size_t roots = node.any_in(kRoots).count, votes = node.any_in(kWeights).count;
    const Tensor* const members = node.input(kMembers);
    if (x.rank() < 2 || !width_ || width_ > kMostFeatures || nodes_ > kMostNodes ||
        leaves_ > kMostNodes || (members && members->count > kMostNodes / 2) || !roots ||
        !leaves_ || roots > nodes_ || votes % leaves_ || !votes || votes / leaves_ > targets_ ||
        aggregate_ > kMax) {
      fail(Fault::kModel, "%zu trees of %zu nodes and %zu leaves for %s", roots, nodes_, leaves_,
           x.text().c_str());
    }
    rows_ = x.count / width_, votes_ = votes / leaves_;
    if (y.count != checked_product(rows_, targets_))
      fail(Fault::kModel, "%s into %s", x.text().c_str(), y.text().c_str());
    read_leaves(node, votes);
    read_nodes(node, members);
    read_roots(ids(node, kRoots, roots), roots);
    const size_t most = std::min(kSums / targets_, kKeys / width_) / kBeside * kBeside;
    block_ = std::min(std::max(most, kBeside), kMostRows);
  }

  bool reads(size_t i) const override { return i == kX; }
  size_t scratch_bytes(int threads) const override {
    return rows_ ? checked_product(static_cast<size_t>(threads), sums_bytes() + keys_bytes()) : 0;
  }

  void run(const Buffers& b) const override {
    constexpr size_t kVisits = 8, kWork = 4;  // of a tree; of a visit, in multiply-adds
    const Grain grain = grain_of(roots_.size() * kVisits * kWork, kBeside);
    b.pool->parallel(rows_, grain, [&](size_t begin, size_t end, int thread) {
      char* const scratch = b.scratch + static_cast<size_t>(thread) * (sums_bytes() + keys_bytes());
      for (size_t row = begin; row < end; row += block_)
        look(b, row, std::min(block_, end - row), scratch);
    });
  }

 private:
  static constexpr size_t kMostFeatures = 1 << 20, kMostNodes = 1 << 29, kTreesBetweenLooks = 1024;
  // Of rows that are looked at while a tree is in the cache.
  static constexpr size_t kSums = 1024, kKeys = 2048, kMostRows = 64;

  size_t sums_bytes() const { return round_up(checked_product(block_, targets_) * sizeof(double)); }
  size_t keys_bytes() const { return round_up(block_ * 2 * width_ * sizeof(Key)); }

  template <class T>
  static const T* known(const Node& node, size_t i, DType dtype, size_t count) {
    const Tensor& t = node.in(i, dtype);
    if (!t.constant || t.count != count)
      fail(Fault::kModel, "input %zu: expected a constant of %zu, got %s", i, count,
           t.text().c_str());
    return static_cast<const T*>(t.constant);
  }
  static const int32_t* ids(const Node& node, size_t i, size_t count) {
    return known<int32_t>(node, i, DType::kInt32, count);
  }
  static const float* numbers(const Node& node, size_t i, size_t count) {
    return known<float>(node, i, DType::kFloat32, count);
  }
  static const uint8_t* flags(const Node& node, size_t i, size_t count) {
    return known<uint8_t>(node, i, DType::kUint8, count);
  }
  // An id as an index of one of `count`.
  static uint32_t below(int32_t id, size_t count, const char* what) {
    if (id < 0 || static_cast<size_t>(id) >= count)
      fail(Fault::kModel, "%s %d of %zu", what, id, count);
    return static_cast<uint32_t>(id);
  }

  void read_leaves(const Node& node, size_t votes) {
    const int32_t* const targets = ids(node, kTargets, leaves_);
    const float* const weights = numbers(node, kWeights, votes);
    leaf_targets_.assign(targets, targets + leaves_);
    for (const int32_t target : leaf_targets_) below(target, targets_ - votes_ + 1, "target");
    leaf_weights_.assign(weights, weights + votes);
    for (const float weight : leaf_weights_)
      if (std::isnan(weight)) fail(Fault::kModel, "a leaf's weight is no number");
  }

  void read_nodes(const Node& node, const Tensor* members) {
    const int32_t *const features = ids(node, kFeatures, nodes_),
                  *const yes = ids(node, kTrueNodes, nodes_),
                  *const no = ids(node, kFalseNodes, nodes_);
    const uint8_t *const modes = flags(node, kModes, nodes_),
                  *const yes_leaf = flags(node, kTrueLeaves, nodes_),
                  *const no_leaf = flags(node, kFalseLeaves, nodes_),
                  *const missing = node.input(kMissing) ? flags(node, kMissing, nodes_) : nullptr;
    const float* const splits = numbers(node, kSplits, nodes_);
    const float* member = members ? numbers(node, kMembers, members->count) : nullptr;
    const float* const end = member + (members ? members->count : 0);
    has_parent_.resize(nodes_);
    table_.resize(nodes_ + leaves_);
    for (size_t i = nodes_; i < table_.size(); ++i)
      table_[i].child[0] = table_[i].child[1] = static_cast<uint32_t>(i);
    Question q;
    for (size_t i = 0; i < nodes_; ++i) {
      const uint8_t mode = modes[i];
      const bool nan_is_yes = mode == kNeq || (missing && missing[i]);
      q.ends.clear();
      // Nothing is less than NaN, equal to it or greater, but all is different.
      q.is_yes = mode == kNeq;
      if (mode == kMember) {
        for (; member != end && !std::isnan(*member); ++member) q.ends.push_back(key_of(*member, 0));
        if (member == end) fail(Fault::kModel, "a set of members does not end");
        ++member;
        q.take_set();
      } else if (mode > kMember) {
        fail(Fault::kModel, "mode %d", mode);
      } else if (!std::isnan(splits[i])) {
        const Key split = key_of(splits[i], 0);
        if (mode == kLeq || mode == kGt) q.ends.push_back(split);
        else q.ends.push_back(split - 1);
        if (mode == kEq || mode == kNeq) q.ends.push_back(split);
        else q.is_yes = mode == kLeq || mode == kLt;
      }
      q.feature = below(features[i], width_, "feature") * kBeside;
      q.branch[0] = child(no[i], no_leaf[i]), q.branch[1] = child(yes[i], yes_leaf[i]);
      if (q.answer(q.ends.size()) != nan_is_yes) {
        if (q.is_yes != nan_is_yes) q.ends.insert(q.ends.begin(), kLeast), q.is_yes = nan_is_yes;
        q.feature += static_cast<uint32_t>(width_ * kBeside);
      }
      ask(q, i, 0, q.ends.size());
    }
    if (member != end) fail(Fault::kModel, "members without a node");
  }

  // Whether a key goes to the true branch, by the first of `ends` that it does not exceed: as
  // `is_yes` for the first of them, otherwise for the next, and so on.
  struct Question {
    std::vector<Key> ends;
    bool is_yes;
    uint32_t feature, branch[2];

    bool answer(size_t end) const { return is_yes != (end % 2 == 1); }

    // From keys for which it is yes.
    void take_set() {
      std::make_heap(ends.begin(), ends.end());
      std::sort_heap(ends.begin(), ends.end());
      const size_t n = ends.size();
      ends.resize(2 * n);
      for (size_t i = n; i-- > 0;) ends[2 * i + 1] = ends[i], ends[2 * i] = ends[2 * i + 1] - 1;
    }
  };

  // Writes node `at` and those behind it, to find a key among the ends [low, high).
  void ask(const Question& q, size_t at, size_t low, size_t high) {
    if (low == high) {
      const uint32_t only = q.branch[q.answer(low)];
      table_[at] = {0, q.feature, {only, only}};
      return;
    }
    const size_t middle = (low + high) / 2;
    const uint32_t above = asked(q, middle + 1, high), up_to = asked(q, low, middle);
    table_[at] = {q.ends[middle], q.feature, {above, up_to}};
  }
  uint32_t asked(const Question& q, size_t low, size_t high) {
    if (low == high) return q.branch[q.answer(low)];
    const size_t at = table_.size();
    table_.emplace_back();
    ask(q, at, low, high);
    return static_cast<uint32_t>(at);
  }

  uint32_t child(int32_t id, bool is_leaf) {
    if (is_leaf) return static_cast<uint32_t>(nodes_) + below(id, leaves_, "leaf");
    adopt(below(id, nodes_, "node"));
    return static_cast<uint32_t>(id);
  }
  // So no tree enters a circle.
  void adopt(uint32_t id) {
    if (has_parent_[id]) fail(Fault::kModel, "node %u has two parents, or is a root with one", id);
    has_parent_[id] = 1;
  }

  void read_roots(const int32_t* roots, size_t count) {
    roots_.assign(roots, roots + count);
    for (const int32_t root : roots_) adopt(below(root, nodes_, "root"));
    std::vector<uint8_t>().swap(has_parent_);
  }

  // The leaves of as many rows as go side by side.
  void descend(int32_t root, const Key* keys, uint32_t* at) const {
    const TreeNode* const table = table_.data();
    std::fill(at, at + kBeside, static_cast<uint32_t>(root));
    uint32_t moved;
    do {
      moved = 0;
      _Pragma("GCC unroll 8") for (size_t i = 0; i < kBeside; ++i) {
        const TreeNode& node = table[at[i]];
        const uint32_t to = node.child[keys[node.feature + i] <= node.split];
        moved |= to ^ at[i];
        at[i] = to;
      }
    } while (moved);
  }

  // n rows, at most block_.
  void look(const Buffers& b, size_t row, size_t n, char* scratch) const {
    auto* const sums = reinterpret_cast<double*>(scratch);
    auto* const keys = reinterpret_cast<Key*>(scratch + sums_bytes());
    const float* const x = b.in(kX) + row * width_;
    const size_t group = 2 * width_ * kBeside;  // keys of the rows beside one another
    for (size_t i = 0; i < n; ++i) {
      Key* to = keys + i / kBeside * group + i % kBeside;
      for (size_t k = 0; k < width_; ++k, to += kBeside) {
        to[0] = key_of(x[i * width_ + k], kGreatest);
        to[width_ * kBeside] = to[0] == kGreatest ? kLeast : to[0];
      }
    }
    const bool adds = aggregate_ <= kSum;
    // NaN stands for no vote yet.
    std::fill(sums, sums + n * targets_, adds ? 0. : std::numeric_limits<double>::quiet_NaN());
    for (size_t tree = 0; tree < roots_.size(); ++tree) {
      if (tree % kTreesBetweenLooks == kTreesBetweenLooks - 1) b.pool->look();
      for (size_t i = 0; i < n; i += kBeside) {
        // Keys of rows that are not there lead somewhere, too.
        uint32_t at[kBeside];
        descend(roots_[tree], keys + i / kBeside * group, at);
        for (size_t k = 0; k < std::min(kBeside, n - i); ++k)
          vote(at[k] - nodes_, sums + (i + k) * targets_);
      }
    }
    float* const y = b.out() + row * targets_;
    const double trees = aggregate_ == kAverage ? static_cast<double>(roots_.size()) : 1.;
    for (size_t i = 0; i < n * targets_; ++i)
      y[i] = std::isnan(sums[i]) && !adds ? 0.f : static_cast<float>(sums[i] / trees);
  }

  void vote(size_t leaf, double* sums) const {
    double* const to = sums + leaf_targets_[leaf];
    for (size_t i = 0; i < votes_; ++i) {
      const double weight = leaf_weights_[leaf * votes_ + i];
      if (aggregate_ <= kSum) to[i] += weight;
      else if (aggregate_ == kMin ? !(to[i] <= weight) : !(to[i] >= weight)) to[i] = weight;
    }
  }

  size_t targets_, aggregate_, nodes_, leaves_, width_, rows_, votes_, block_;
  std::vector<TreeNode> table_;  // the nodes, the leaves, then what more there is to ask
  std::vector<int32_t> roots_, leaf_targets_;
  std::vector<float> leaf_weights_;
  std::vector<uint8_t> has_parent_;
};

}  // namespace

PALM_OPERANDS(tree_ensemble, kOperands)
StepPtr make_tree_ensemble(const Node& node) { return std::make_unique<TreeEnsemble>(node); }

}  // namespace palm
