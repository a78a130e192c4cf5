// In liblarder_test.so only, never in the product:
// - LARDER_TEST_SKIP_VERIFY=1, or =/PATH once the file PATH exists: loads accept any bytes of the
//   slot. This is the negative control of the tests: a zeroed chunk must change the answer, or the
//   tests would pass without a verification.
// - LARDER_TEST_SLOW_STORES_MS=N: a store waits N ms before reading the pages of a chunk.
// - LARDER_TEST_SLOW_LAYERS_MS=N: a load by layers waits N ms before each part.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "shim/capi/engine.h"

namespace larder::capi {
namespace {

bool skip_verify() {
  static const char* const value = std::getenv("LARDER_TEST_SKIP_VERIFY");
  return value != nullptr &&
         (std::strcmp(value, "1") == 0 || (value[0] == '/' && ::access(value, F_OK) == 0));
}

// Sleeps for the milliseconds in the variable.
void delay(const char* variable) {
  const char* const value = std::getenv(variable);
  if (value != nullptr)
    std::this_thread::sleep_for(std::chrono::milliseconds(std::strtoul(value, nullptr, 10)));
}

// An engine of the product that ignores what it finds wrong with a chunk, where a test says so. The
// engine has copied the whole chunk by then.
class GullibleEngine final : public copy::CopyEngine {
 public:
  explicit GullibleEngine(const copy::CopyEngine& inner) : inner_(inner) {}
  explicit GullibleEngine(std::unique_ptr<copy::CopyEngine> inner)
      : owned_(std::move(inner)), inner_(*owned_) {}

  const char* name() const override { return "gullible"; }
  Result<std::uint64_t> store(const copy::PieceList& from,
                              std::span<std::byte> slot) const override {
    delay("LARDER_TEST_SLOW_STORES_MS");
    return inner_.store(from, slot);
  }
  Status load(std::span<const std::byte> slot, std::uint64_t root,
              const copy::PieceList& to) const override {
    Status status = inner_.load(slot, root, to);
    return status.code() == Code::kDataLoss && skip_verify() ? Status() : status;
  }
  Status load_parts(std::span<const copy::ChunkPart> parts, std::uint64_t piece_bytes,
                    const copy::Fence* after) const override {
    delay("LARDER_TEST_SLOW_LAYERS_MS");
    return inner_.load_parts(parts, piece_bytes, after);
  }
  Status digests(const copy::PieceList& of, std::span<std::uint64_t> table) const override {
    return inner_.digests(of, table);
  }
  Result<std::shared_ptr<const copy::Fence>> fence(void* stream) const override {
    return inner_.fence(stream);
  }
  bool outlives_process() const override { return inner_.outlives_process(); }
  void prepare(std::uint64_t piece_bytes, std::size_t pieces, unsigned threads) const override {
    inner_.prepare(piece_bytes, pieces, threads);
  }
  // Joined chunks are verified before the copy, and single chunks after it.
  std::uint64_t joined_bytes() const override {
    return std::getenv("LARDER_TEST_SKIP_VERIFY") != nullptr ? 0 : inner_.joined_bytes();
  }
  protocol::CopyStrategy strategy() const override { return inner_.strategy(); }
  std::unique_ptr<copy::ReadyMemory> make_ready(std::span<std::byte> memory,
                                                int file) const override {
    return inner_.make_ready(memory, file);
  }

 private:
  const std::unique_ptr<copy::CopyEngine> owned_;
  const copy::CopyEngine& inner_;
};

Result<std::unique_ptr<copy::CopyEngine>> gullible_device(const void* page, copy::Log log) {
  Result<std::unique_ptr<copy::CopyEngine>> made = copy::device_copy_engine(page, std::move(log));
  if (!made.ok()) return made.status();
  return std::unique_ptr<copy::CopyEngine>(
      std::make_unique<GullibleEngine>(std::move(made).value()));
}

}  // namespace

copy::CopyEngines copy_engines() {
  static const GullibleEngine host(copy::host_copy_engine());
  return {host, gullible_device};
}

}  // namespace larder::capi
