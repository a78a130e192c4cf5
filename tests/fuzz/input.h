// The common parts of fuzz targets: the one function, the input's bytes, and the report of a broken
// promise.
//
// Pure; one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

// One input. Returns 0; a broken promise ends the process. Called by libFuzzer, and by replay.cc
// for every file of a corpus.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace larder::fuzz {

inline void must(bool held, const char* promise) {
  if (held) return;
  std::fprintf(stderr, "broken: %s\n", promise);
  std::abort();
}

// Reads an input from its start. Beyond the end every value is zero, so that every input has a
// meaning.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size)
      : rest_(reinterpret_cast<const std::byte*>(data), size) {}

  bool empty() const { return rest_.empty(); }

  template <typename T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    const std::span<const std::byte> bytes = take_bytes(sizeof(T));
    if (!bytes.empty()) std::memcpy(static_cast<void*>(&value), bytes.data(), bytes.size());
    return value;
  }
  std::uint8_t byte() { return take<std::uint8_t>(); }

  // At most `count` bytes: fewer at the end.
  std::span<const std::byte> take_bytes(std::size_t count) {
    const std::span<const std::byte> bytes = rest_.first(std::min(count, rest_.size()));
    rest_ = rest_.subspan(bytes.size());
    return bytes;
  }
  std::string take_text(std::size_t count) {
    const std::span<const std::byte> bytes = take_bytes(count);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::string rest() { return take_text(rest_.size()); }

 private:
  std::span<const std::byte> rest_;
};

// One input as operations: a World takes the operations one by one with step(input), checks its
// promises after each, check(), and after the last, finish().
template <typename World>
int run_steps(const std::uint8_t* data, std::size_t size) {
  constexpr int kMostSteps = 512;
  Input input(data, size);
  World world;
  for (int steps = 0; steps < kMostSteps && !input.empty(); ++steps) {
    world.step(input);
    world.check();
  }
  world.finish();
  return 0;
}

// A copy on the heap, of exactly this size: the sanitizer sees a read of one byte too many.
inline std::vector<std::byte> exact_copy(std::span<const std::byte> bytes) {
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  copy.shrink_to_fit();
  return copy;
}

}  // namespace larder::fuzz
