// In liblarder_test.so only, never in the product:
// - LARDER_TEST_SKIP_VERIFY=1, or =/PATH once the file PATH exists: loads accept any bytes of the slot.
//   This is the negative control of the tests: a zeroed chunk must change the answer, or the tests
//   would pass without a verification.
// - LARDER_TEST_SLOW_STORES_MS=N: a store waits N ms before reading the pages of a chunk.
// - LARDER_TEST_SLOW_LAYERS_MS=N: a load by layers waits N ms before each part.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "shim/capi/engine.h"

namespace larder::capi {
namespace {

bool skip_verify() {
  static const char* const value = std::getenv("LARDER_TEST_SKIP_VERIFY");
  return value != nullptr && (std::strcmp(value, "1") == 0 || (value[0] == '/' && ::access(value, F_OK) == 0));
}

// Sleeps for the milliseconds in the variable.
void delay(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value != nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(std::strtoul(value, nullptr, 10)));
}

class GullibleEngine final : public copy::CopyEngine {
 public:
  const char* name() const override { return "gullible"; }
  Result<std::uint64_t> store(const copy::PieceList& from, std::span<std::byte> slot) const override {
    delay("LARDER_TEST_SLOW_STORES_MS");
    return copy::host_copy_engine().store(from, slot);
  }
  Status load(std::span<const std::byte> slot, std::uint64_t root, const copy::PieceList& to) const override {
    if (!skip_verify()) return copy::host_copy_engine().load(slot, root, to);
    for (std::size_t i = 0; i < to.pieces.size(); ++i)
      if (to.pieces[i] != nullptr) std::memcpy(to.pieces[i], slot.data() + i * to.piece_bytes, to.piece_bytes);
    return {};
  }
  Status load_parts(std::span<const copy::ChunkPart> parts, std::uint64_t piece_bytes, const copy::Fence* after) const override {
    delay("LARDER_TEST_SLOW_LAYERS_MS");
    return copy::host_copy_engine().load_parts(parts, piece_bytes, after);
  }
};

}  // namespace

const copy::CopyEngine& copy_engine() {
  static const GullibleEngine gullible;
  return gullible;
}

}  // namespace larder::capi
