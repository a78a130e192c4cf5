#include "sidecar/store/reuse_model.h"

#include <algorithm>
#include <cmath>

namespace larder::store {
namespace {
// Before there are counts, this share of the chunks is used in each step: the older, the colder.
constexpr double kPriorShare = 0.03, kPriorChunks = 4;
// A kind with few counts is taken to be as all kinds. The chunks of a prompt are used together, so
// this many of them are only a few independent counts.
constexpr double kCommonChunks = 100;
// A young chunk is worth less than an older one only if the counts say so clearly, as with prompts
// that return in a loop. A small difference is noise, and then the older chunk leaves.
constexpr double kClearly = 3;
constexpr double kOlderIsColder = 0.2;
constexpr double kYoung = 64;

// The first age of a step.
double start_of(std::size_t step) {
  return std::ldexp(step % 2 == 0 ? 1 : 1.5, static_cast<int>(step / 2)) - 1;
}
}  // namespace

ReuseModel::ReuseModel() {
  refresh();
}

void ReuseModel::waited(int kind, int from, int to) {
  auto& of_kind = waited_[static_cast<std::size_t>(kind)];
  ++of_kind[static_cast<std::size_t>(from)];
  --of_kind[static_cast<std::size_t>(std::max(from, to)) + 1];
}

void ReuseModel::fade() {
  for (auto& of_kind : used_)
    for (double& count : of_kind) count /= 2;
  for (auto& of_kind : waited_)
    for (double& count : of_kind) count /= 2;
}

void ReuseModel::refresh() {
  Steps<double> common{};
  double waiting = 0;
  for (std::size_t step = 0; step < kSteps; ++step) {
    double used = 0;
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      used += used_[kind][step];
      waiting += waited_[kind][step];
    }
    common[step] = (used + kPriorChunks * kPriorShare) / (waiting + kPriorChunks);
  }
  for (std::size_t kind = 0; kind < kKinds; ++kind) refresh_kind(kind, common);
}

// `common`: the share of all chunks that is used in each step, of those that reach the step.
void ReuseModel::refresh_kind(std::size_t kind, const Steps<double>& common) {
  Steps<double> used, time;  // in each step, of one chunk of age 0
  double waiting = 0, left = 1;
  for (std::size_t step = 0; step < kSteps; ++step) {
    waiting += waited_[kind][step];
    const double share = std::min(
        0.999, (used_[kind][step] + kCommonChunks * common[step]) / (waiting + kCommonChunks));
    used[step] = left * share;
    time[step] = (start_of(step + 1) - start_of(step)) * (left - used[step] / 2);
    left -= used[step];
  }
  double least = 0;
  for (std::size_t step = 0; step < kSteps; ++step) {
    double best = 0, uses = 0, cost = 0;
    for (std::size_t end = step; end < kSteps; ++end) {  // keep the chunk until the best moment
      uses += used[end];
      cost += time[end];
      if (cost <= 0) break;
      best = std::max(best, uses / cost);
    }
    least = step == 0 ? best : std::min(least, best);
    if (best < kClearly * least) best = least;
    worth_[kind][step] =
        static_cast<float>(best * std::pow(start_of(step) + kYoung, -kOlderIsColder));
  }
  worth_[kind][kSteps] = worth_[kind][kSteps - 1];
}

}  // namespace larder::store
