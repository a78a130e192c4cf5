// ReuseModel: learns for kinds of chunks how soon a chunk is used again.
//
// The worth of a chunk is the number of uses in a unit of time that the chunk can bring at most.
// Ages are in uses of all chunks, in steps of half an octave. The model counts the chunks that
// waited through a step, and the chunks that were used in the step. Old counts fade.
// Thread-compatible; bounded by kKinds * kSteps.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace larder::store {

class ReuseModel {
 public:
  static constexpr int kKinds = 13;
  static constexpr int kSteps = 64;

  ReuseModel();

  static int step_of(std::uint64_t age) { return static_cast<int>(place_of(age)); }
  // A chunk waited from step `from` until the end of step `to`, without a use.
  void waited(int kind, int from, int to);
  // A chunk waited from step `from`, and was used in step `to`.
  void used_again(int kind, int from, int to) {
    waited(kind, from, to);
    ++used_[static_cast<std::size_t>(kind)][static_cast<std::size_t>(to)];
  }
  // Computes worth() from the counts so far.
  void refresh();
  // Halves all counts.
  void fade();
  float worth(int kind, std::uint64_t age) const {
    const float place = place_of(age);
    const auto step = static_cast<std::size_t>(place);
    const float part = place - static_cast<float>(step);
    const auto& of_kind = worth_[static_cast<std::size_t>(kind)];
    return of_kind[step] * (1 - part) + of_kind[step + 1] * part;
  }

 private:
  template <typename T>
  using Steps = std::array<T, kSteps>;
  // The step of an age, and the part of the step that has passed.
  static float place_of(std::uint64_t age) {
    const int octave = static_cast<int>(std::bit_width(age + 1)) - 1;
    const float part = static_cast<float>(age + 1) / static_cast<float>(1ULL << octave) - 1;
    const float place = 2 * (static_cast<float>(octave) + part);
    return place < kSteps - 1 ? place : kSteps - 1;
  }
  void refresh_kind(std::size_t kind, const Steps<double>& common);

  std::array<Steps<double>, kKinds> used_{};
  std::array<std::array<double, kSteps + 1>, kKinds> waited_{};  // differences between steps
  std::array<std::array<float, kSteps + 1>, kKinds> worth_{};
};

}  // namespace larder::store
