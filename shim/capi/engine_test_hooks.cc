// liblarder_test.so only, never in the product:
// - LARDER_TEST_SKIP_VERIFY=1 in the environment, or from the moment when the file is there that it names: loads believe whatever stands
//   in the slot. It is the negative control of the tests: with a zeroed chunk the answer must change, else they prove nothing.
// - LARDER_TEST_SLOW_STORES_MS=N: a store waits so long before it reads a chunk's pages;
//   LARDER_TEST_SLOW_LAYERS_MS=N: a load by layers before each of its parts.
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

// Sleeps as many milliseconds as the environment says.
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
