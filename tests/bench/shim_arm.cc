#include "tests/bench/shim_arm.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/bench/processors.h"

namespace larder::bench {
namespace {

constexpr std::uint32_t kStoreWaitMs = 5000;
constexpr auto kDeadline = std::chrono::seconds(10);
constexpr auto kBetweenPolls = std::chrono::milliseconds(5);
constexpr int kAttempts = 100;

config::Config config_of(const std::string& directory, const std::string& name,
                         std::uint64_t arena_bytes) {
  config::Config config;
  config.socket = directory + "/" + name + ".sock";
  config.memory.directory = directory;
  config.memory.shm_name = name;
  config.memory.size_bytes = arena_bytes;
  return config;
}

// The complete file in `directory` with this begin of its name; larderd is alive and has made the
// file.
Mapping map_file(const std::string& directory, const std::string& beginning, int flags, int prot) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (!entry.path().filename().string().starts_with(beginning)) continue;
    const Fd fd(::open(entry.path().c_str(), flags | O_CLOEXEC));
    Result<Mapping> mapping = Mapping::map_shared(fd, entry.file_size(), prot, entry.path());
    if (mapping.ok()) return std::move(*mapping);
  }
  return {};
}

client::Transfer transfer_of(const ShimBatch& batch) {
  client::Transfer transfer;
  transfer.hashes.resize(batch.order.size() / batch.pieces_per_chunk);
  transfer.pages = batch.order;
  return transfer;
}

}  // namespace

ShimArm::ShimArm(const std::string& directory, const std::string& name, std::uint64_t arena_bytes,
                 const ShimBatch& batch)
    : directory_(directory), name_(name), transfer_(transfer_of(batch)), sidecar_([&] {
        stay_off(kCopyProcessor);
        run_sidecar(config_of(directory, name, arena_bytes));
      }) {
  const client::Options options{config_of(directory, name, arena_bytes).socket, "bench copy", 1};
  client_ = std::make_unique<client::Client>(options, copy::host_copy_engine());
  client::NamespaceSpec spec;
  spec.fingerprint = "engine: bench copy\n";
  spec.model = "bench";
  spec.shard_count = 1;
  spec.chunk_tokens = 256;
  spec.groups = {{batch.piece_bytes, 1, batch.pieces_per_chunk}};
  if (!client_->set_namespace(spec).ok() ||
      !client_
           ->register_pages(0,
                            {{batch.kv, batch.piece_bytes, batch.piece_bytes, batch.order.size()}})
           .ok())
    client_.reset();
}

// Again and again: larderd grants only touched memory.
bool ShimArm::warm_up() {
  if (!client_ || !client_->wait_attached(10'000).ok()) return false;
  arena_ = map_file(directory_, name_ + ".arena", O_RDWR, PROT_READ | PROT_WRITE);
  index_ = map_file(directory_, name_ + ".index.", O_RDONLY, PROT_READ);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    rename();
    if (store()) return await_commits();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

void ShimArm::rename() {
  for (protocol::BlockHash& hash : transfer_.hashes) {
    ++last_name_;
    hash = {last_name_, last_name_ * 0x9e3779b97f4a7c15ULL};
  }
}

bool ShimArm::store() {
  return client_->store_begin(transfer_).ok() &&
         client_->store_finish(kStoreWaitMs).stored == transfer_.hashes.size();
}

bool ShimArm::await_commits() const {
  const client::Hashes hashes{reinterpret_cast<const std::uint8_t*>(transfer_.hashes.data()),
                              sizeof(protocol::BlockHash), transfer_.hashes.size()};
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (client_->lookups().present(hashes) != hashes.count) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(kBetweenPolls);
  }
  return true;
}

std::vector<std::byte*> ShimArm::payloads() const {
  const Result<protocol::IndexReader> index =
      protocol::IndexReader::open(index_.data(), index_.size());
  std::vector<std::byte*> payloads;
  if (!index.ok()) return payloads;
  for (const protocol::BlockHash& hash : transfer_.hashes)
    if (const auto view = index->find({hash, 0, 0, 0}))
      payloads.push_back(arena_.data() + view->offset_bytes);
  return payloads;
}

bool ShimArm::load() {
  if (!client_->load(transfer_, kStoreWaitMs).ok()) return false;
  const std::vector<client::Completion> done = client_->poll(1, kDeadline);
  return !done.empty() && done.front().status == Code::kOk;
}

}  // namespace larder::bench
