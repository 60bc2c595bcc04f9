#include <cmath>
#include <functional>

#include "base/check.h"
#include "kernels/unary/unary.h"

namespace {

using namespace palm;

struct Case {
  UnaryOp op;
  float alpha, beta;
  double tolerance;  // of the value, in units of the last place
  std::function<double(double)> exact;
};

double clip(double v, double low, double high) { return v < low ? low : v > high ? high : v; }

const std::vector<Case> kCases = {
    {UnaryOp::kAbs, 0, 0, 0, [](double v) { return std::fabs(v); }},
    {UnaryOp::kCeil, 0, 0, 0, [](double v) { return std::ceil(v); }},
    {UnaryOp::kClip, -1, 2, 0, [](double v) { return clip(v, -1, 2); }},
    {UnaryOp::kAcos, 0, 0, 2, [](double v) { return std::acos(v); }},
    {UnaryOp::kAcosh, 0, 0, 3, [](double v) { return v < 1 ? NAN : std::acosh(v); }},
    {UnaryOp::kAsin, 0, 0, 2, [](double v) { return std::asin(v); }},
    {UnaryOp::kAsinh, 0, 0, 3, [](double v) { return std::asinh(v); }},
    {UnaryOp::kAtan, 0, 0, 2, [](double v) { return std::atan(v); }},
    {UnaryOp::kAtanh, 0, 0, 3, [](double v) { return std::atanh(v); }},
    {UnaryOp::kCos, 0, 0, 2, [](double v) { return std::cos(v); }},
    {UnaryOp::kCosh, 0, 0, 3, [](double v) { return std::cosh(v); }},
    {UnaryOp::kErf, 0, 0, 2, [](double v) { return std::erf(v); }},
    {UnaryOp::kExp, 0, 0, 2, [](double v) { return std::exp(v); }},
    {UnaryOp::kFloor, 0, 0, 0, [](double v) { return std::floor(v); }},
    {UnaryOp::kLeakyRelu, 0.125f, 0, 0, [](double v) { return v < 0 ? v * 0.125 : v; }},
    {UnaryOp::kLog, 0, 0, 2, [](double v) { return std::log(v); }},
    {UnaryOp::kNeg, 0, 0, 0, [](double v) { return -v; }},
    {UnaryOp::kReciprocal, 0, 0, 1, [](double v) { return 1 / v; }},
    {UnaryOp::kRound, 0, 0, 0, [](double v) { return std::nearbyint(v); }},
    {UnaryOp::kSigmoid, 0, 0, 4, [](double v) { return 1 / (1 + std::exp(-v)); }},
    {UnaryOp::kSign, 0, 0, 0,
     [](double v) {
       return v > 0 ? 1.0 : v < 0 ? -1.0 : std::isnan(v) ? v : 0.0;
     }},
    {UnaryOp::kSin, 0, 0, 2, [](double v) { return std::sin(v); }},
    {UnaryOp::kSinh, 0, 0, 3, [](double v) { return std::sinh(v); }},
    {UnaryOp::kSoftsign, 0, 0, 2, [](double v) { return v / (1 + std::fabs(v)); }},
    {UnaryOp::kTan, 0, 0, 2, [](double v) { return std::tan(v); }},
    {UnaryOp::kThresholdedRelu, 0.5f, 0, 0, [](double v) { return v > 0.5 ? v : 0.0; }},
    {UnaryOp::kSoftplus, 0, 0, 4,
     [](double v) { return (v < 0 ? 0.0 : v) + std::log1p(std::exp(-std::fabs(v))); }},
    {UnaryOp::kSqrt, 0, 0, 1, [](double v) { return std::sqrt(v); }},
    {UnaryOp::kTanh, 0, 0, 3, [](double v) { return std::tanh(v); }},
};

// These lose digits where two terms cancel, so they are held to an error of the largest term.
const std::vector<Case> kCancelling = {
    {UnaryOp::kElu, 0.5f, 0, 0, [](double v) { return v < 0 ? 0.5 * std::expm1(v) : v; }},
    {UnaryOp::kGelu, 0, 0, 0,
     [](double v) { return 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))); }},
    {UnaryOp::kCelu, 0.5f, 0, 0, [](double v) { return v < 0 ? 0.5 * std::expm1(v / 0.5) : v; }},
    {UnaryOp::kGeluTanh, 0, 0, 0,
     [](double v) {
       const double inner = std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v);
       return 0.5 * v * (1 + std::tanh(inner));
     }},
    {UnaryOp::kMish, 0, 0, 0,
     [](double v) { return v * std::tanh(v > 50 ? v : std::log1p(std::exp(v))); }},
    {UnaryOp::kSelu, 1.5f, 1.25f, 0,
     [](double v) { return 1.25 * (v < 0 ? 1.5 * std::expm1(v) : v); }},
    {UnaryOp::kSwish, 1.5f, 0, 0, [](double v) { return v / (1 + std::exp(-1.5 * v)); }},
    {UnaryOp::kHardSigmoid, 0.2f, 0.5f, 0, [](double v) { return clip(0.2 * v + 0.5, 0, 1); }},
    {UnaryOp::kHardSwish, 0, 0, 0, [](double v) { return v * clip(v / 6 + 0.5, 0, 1); }},
};

Vector samples() {
  Random random;
  Vector x;
  for (float scale : {1e-3f, 0.1f, 1.f, 4.f, 10.f, 87.f, 1e4f})
    for (int i = 0; i < 3000; ++i) x.push_back(random.next() * scale);
  for (float special : {0.f, -0.f, 0.5f, 1.5f, -2.5f, INFINITY, -INFINITY, NAN})
    x.push_back(special);
  return x;
}

void check_values(const char* name, UnaryFn run, const Case& c, bool cancels) {
  const Vector x = samples();
  Vector y(x.size());
  run(c.op, c.alpha, c.beta, 1, x.size(), x.data(), 0, y.data(), 0);
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = c.exact(x[i]);
    const auto rounded = static_cast<float>(exact);
    bool ok;
    if (!std::isfinite(rounded)) {
      ok = std::isnan(rounded) ? std::isnan(y[i]) : y[i] == rounded;
    } else if (cancels) {
      ok = std::fabs(y[i] - exact) <= 3e-7 * std::fmax(1.0, std::fabs(static_cast<double>(x[i])));
    } else {
      // Below 1e-37 sigmoid may become 0.
      const double unit =
          std::fmax(std::nextafter(std::fabs(rounded), INFINITY) - std::fabs(rounded),
                    c.op == UnaryOp::kSigmoid ? 1e-37 : 0.0);
      ok = std::fabs(y[i] - static_cast<double>(rounded)) <= c.tolerance * unit;
    }
    PALM_CHECK(ok, "%s: op %d of %.9g is %.9g, expected %.9g", name, static_cast<int>(c.op), x[i],
               y[i], exact);
  }
}

void check_sizes(const char* name, UnaryFn run, const Case& c) {
  Random random;
  for (size_t n = 0; n <= 70; ++n) {
    const size_t stride = n + 2;
    const Vector x = random.floats(3 * stride);
    Vector y(3 * stride, 77.f), whole(3 * stride);
    run(c.op, c.alpha, c.beta, 1, whole.size(), x.data(), 0, whole.data(), 0);
    run(c.op, c.alpha, c.beta, 3, n, x.data(), stride, y.data(), stride);
    for (size_t i = 0; i < y.size(); ++i) {
      const bool inside = i % stride < n;
      PALM_CHECK(inside ? y[i] == whole[i] || std::isnan(whole[i]) : y[i] == 77.f,
                 "%s: op %d, n=%zu: y[%zu] is %g", name, static_cast<int>(c.op), n, i, y[i]);
    }
    Vector in_place = x;
    run(c.op, c.alpha, c.beta, 3, n, in_place.data(), stride, in_place.data(), stride);
    for (size_t i = 0; i < y.size(); ++i) {
      if (i % stride < n)
        PALM_CHECK(in_place[i] == y[i] || std::isnan(y[i]), "%s: in place, n=%zu", name, n);
    }
  }
}

// Every function of ops.inc has a case.
void check_that_all_have_cases() {
  for (const char* name : unary_names()) {
    const UnaryOp op = unary_by_name(name);
    bool has = false;
    for (const auto* cases : {&kCases, &kCancelling})
      for (const Case& c : *cases) has = has || c.op == op;
    PALM_CHECK(has, "%s: no case in test.cc", name);
  }
}

void check(const char* name, UnaryFn run) {
  for (const auto* cases : {&kCases, &kCancelling}) {
    for (const Case& c : *cases) {
      check_values(name, run, c, cases == &kCancelling);
      check_sizes(name, run, c);
    }
  }
}

}  // namespace

int main() {
  check_that_all_have_cases();
#define PALM_KERNEL(need, name)            \
  if (runs_here(need)) check(#name, name); \
  else std::printf("skip %s\n", #name);
#include "kernels/unary/kernels.inc"
#undef PALM_KERNEL
}
