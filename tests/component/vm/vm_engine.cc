// vm_engine store|load COUNT: an engine of larder.h alone, without Python. Stores chunks of 64 MiB
// of known bytes, or loads the chunks and compares every byte. Prints the moved bytes and the nodes
// of its own mapping of the arena.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fstream>
#include <string>
#include <vector>

#include "shim/capi/larder.h"

namespace {

constexpr uint64_t kPieceBytes = 4 << 20;
constexpr uint32_t kLayers = 16;
constexpr uint32_t kWaitMs = 60'000;

[[noreturn]] void fail(const char* what, larder_status status) {
  fprintf(stderr, "%s: %s\n", what, larder_status_text(status));
  exit(1);
}

uint64_t word_of(uint64_t chunk, uint64_t at) {
  return (chunk + 1) * 0xd6e8feb86659fd93ULL + at * 0xa0761d6478bd642fULL;
}

// One block of all layers, one after the other.
class Engine {
 public:
  Engine() : memory_(kLayers * kPieceBytes / sizeof(uint64_t)) {
    const larder_options options{sizeof(options), 2, nullptr, "vm engine"};
    check("larder_open", larder_open(&options, &client_));
    const larder_group group{kPieceBytes, kLayers, 1};
    larder_namespace space{};
    space.struct_bytes = sizeof(space);
    space.shard_count = 1;
    space.fingerprint = "engine: vm\n";
    space.model = "vm";
    space.groups = &group;
    space.group_count = 1;
    space.chunk_tokens = 256;
    check("larder_set_namespace", larder_set_namespace(client_, &space));
    std::vector<larder_pages> layers;
    for (uint32_t i = 0; i < kLayers; ++i)
      layers.push_back(
          {memory_.data() + i * kPieceBytes / sizeof(uint64_t), kPieceBytes, kPieceBytes, 1});
    check("larder_register_pages", larder_register_pages(client_, 0, layers.data(), kLayers));
    check("larder_wait_attached", larder_wait_attached(client_, kWaitMs));
  }
  Engine(const Engine&) = delete;
  ~Engine() { larder_close(client_); }

  void store(uint64_t chunk) {
    for (uint64_t i = 0; i < memory_.size(); ++i) memory_[i] = word_of(chunk, i);
    const larder_transfer transfer = transfer_of(chunk);
    check("larder_store_begin", larder_store_begin(client_, &transfer));
    larder_store_result result{};
    result.struct_bytes = sizeof(result);
    check("larder_store_finish", larder_store_finish(client_, kWaitMs, &result));
    if (result.stored != 1) fail("a chunk was not stored", LARDER_RESOURCE_EXHAUSTED);
  }

  void load(uint64_t chunk) {
    memset(memory_.data(), 0, memory_.size() * sizeof(uint64_t));
    const larder_transfer transfer = transfer_of(chunk);
    uint64_t ticket = 0;
    check("larder_load", larder_load(client_, &transfer, &ticket));
    larder_completion done{};
    if (larder_poll(client_, &done, 1, kWaitMs) != 1) fail("larder_poll", LARDER_DEADLINE_EXCEEDED);
    check("the load", static_cast<larder_status>(done.status));
    for (uint64_t i = 0; i < memory_.size(); ++i)
      if (memory_[i] != word_of(chunk, i)) fail("other bytes than were stored", LARDER_DATA_LOSS);
  }

 private:
  void check(const char* what, larder_status status) {
    if (status == LARDER_OK) return;
    char line[256];
    while (client_ != nullptr && larder_next_log(client_, line, sizeof(line)) != 0)
      fprintf(stderr, "%s\n", line);
    fail(what, status);
  }

  larder_transfer transfer_of(uint64_t chunk) {
    hash_[0] = word_of(chunk, UINT64_MAX);
    hash_[1] = chunk;
    larder_transfer transfer{};
    transfer.struct_bytes = sizeof(transfer);
    transfer.hashes = {reinterpret_cast<const uint8_t*>(hash_), sizeof(hash_), 1, 0, 0};
    transfer.pages = &page_;
    transfer.page_count = 1;
    transfer.start_within_ms = kWaitMs;
    return transfer;
  }

  larder_client* client_ = nullptr;
  std::vector<uint64_t> memory_;
  uint64_t hash_[2] = {};
  const uint32_t page_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc == 3 ? argv[1] : "";
  if (verb != "store" && verb != "load") return 2;
  const uint64_t count = strtoull(argv[2], nullptr, 10);
  Engine engine;
  for (uint64_t chunk = 0; chunk < count; ++chunk)
    verb == "store" ? engine.store(chunk) : engine.load(chunk);
  printf("        %s %s of %llu bytes, the arena in this engine:\n", argv[2],
         verb == "store" ? "stores" : "verified loads",
         static_cast<unsigned long long>(kLayers * kPieceBytes));
  std::ifstream maps("/proc/self/numa_maps");
  for (std::string line; std::getline(maps, line);)
    if (line.find("larder.arena") != std::string::npos) printf("        %s\n", line.c_str());
  return 0;
}
