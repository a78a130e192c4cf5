// liblarder_test.so only: with LARDER_TEST_SKIP_VERIFY=1 in the environment loads believe whatever stands in the slot. It is the
// negative control of the tests: with a zeroed chunk the answer must change, else they prove nothing. Never in the product.
#include <cstdlib>
#include <cstring>

#include "shim/capi/engine.h"

namespace larder::capi {
namespace {

class UnverifiedEngine final : public copy::CopyEngine {
 public:
  const char* name() const override { return "unverified"; }
  std::uint64_t store(const copy::PieceList& from, std::span<std::byte> slot) const override {
    return copy::host_copy_engine().store(from, slot);
  }
  Status load(std::span<const std::byte> slot, std::uint64_t, const copy::PieceList& to) const override {
    for (std::size_t i = 0; i < to.pieces.size(); ++i)
      if (to.pieces[i] != nullptr) std::memcpy(to.pieces[i], slot.data() + i * to.piece_bytes, to.piece_bytes);
    return {};
  }
};

bool skip_verify() {
  const char* value = std::getenv("LARDER_TEST_SKIP_VERIFY");
  return value != nullptr && std::strcmp(value, "1") == 0;
}

}  // namespace

const copy::CopyEngine& copy_engine() {
  static const UnverifiedEngine unverified;
  static const bool skip = skip_verify();
  return skip ? static_cast<const copy::CopyEngine&>(unverified) : copy::host_copy_engine();
}

}  // namespace larder::capi
