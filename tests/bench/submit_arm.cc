#include "tests/bench/submit_arm.h"

#include <chrono>
#include <thread>

#include "tests/bench/report.h"

namespace larder::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUps = 20, kLoads = 200, kAttempts = 100;
constexpr auto kDeadline = std::chrono::seconds(10);

config::Config config_of(const std::string& directory) {
  config::Config config;
  config.socket = directory + "/submit.sock";
  config.memory.directory = directory;
  config.memory.shm_name = "submit";
  config.memory.size_bytes = 2 * SubmitArm::kPageBytes;
  return config;
}

}  // namespace

SubmitArm::SubmitArm(const std::string& directory)
    : socket_(config_of(directory).socket), sidecar_([&] { run_sidecar(config_of(directory)); }) {}

client::Transfer SubmitArm::transfer(std::uint32_t chunks) const {
  client::Transfer transfer;
  for (std::uint64_t i = 1; i <= chunks; ++i)
    transfer.hashes.push_back({i, i * 0x9e3779b97f4a7c15ULL});
  for (std::uint32_t i = 0; i < chunks * kBlocks; ++i)
    transfer.pages.push_back(i * 37 % (kMostChunks * kBlocks));
  return transfer;
}

// Again and again: larderd grants only touched memory.
bool SubmitArm::attach(std::byte* pages) {
  client_ = std::make_unique<client::Client>(client::Options{socket_, "bench submit", 2},
                                             copy::host_copy_engine());
  client::NamespaceSpec spec;
  spec.fingerprint = "engine: bench submit\n";
  spec.model = "bench";
  spec.shard_count = 1;
  spec.chunk_tokens = 256;
  spec.groups = {{kPieceBytes, kLayers, kBlocks}};
  client::GroupPages layers;
  constexpr std::uint64_t kLayerBytes = kPageBytes / kLayers;
  for (std::uint32_t i = 0; i < kLayers; ++i)
    layers.push_back(
        {pages + i * kLayerBytes, kPieceBytes, kPieceBytes, kLayerBytes / kPieceBytes});
  if (!client_->set_namespace(spec).ok() || !client_->register_pages(0, layers).ok() ||
      !client_->wait_attached(10'000).ok())
    return false;
  const client::Transfer all = transfer(kMostChunks);
  const client::Hashes hashes{reinterpret_cast<const std::uint8_t*>(all.hashes.data()),
                              sizeof(all.hashes[0]), kMostChunks};
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (!client_->after_stream(nullptr).ok() || !client_->store_begin(all).ok()) return false;
    client_->store_finish(5000);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (client_->lookups().present(hashes) == kMostChunks) return true;
  }
  return false;
}

// The next load is asked for when the one before has ended, like a request that comes alone. The
// list of pages is new, and is passed along.
std::optional<double> SubmitArm::median_us(std::uint32_t chunks) const {
  std::vector<double> times_us;
  for (int i = 0; i < kWarmUps + kLoads; ++i) {
    client::Transfer asked = transfer(chunks);
    const auto start = Clock::now();
    const Status ordered = client_->after_stream(nullptr);
    const Result<std::uint64_t> ticket = client_->load(std::move(asked), 5000);
    const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    if (!ordered.ok() || !ticket.ok()) return std::nullopt;
    const std::vector<client::Completion> done = client_->poll(1, kDeadline);
    if (done.size() != 1 || done.front().status != Code::kOk) return std::nullopt;
    if (i >= kWarmUps) times_us.push_back(us);
  }
  return median(std::move(times_us));
}

}  // namespace larder::bench
