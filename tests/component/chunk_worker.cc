// chunk_worker SOCKET SEED SECONDS: an engine in miniature, made to be killed.
//
// Stores and loads chunks of random keys through the C ABI. What stands in a chunk derives from its key alone, so that every worker can
// check what any other stored. Prints "stored N loaded M failed F" at the end. Exit status 0 fine, 1 no larderd, 3 a wrong byte.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "shim/capi/larder.h"

namespace {

constexpr std::uint64_t kKeys = 400;
constexpr std::uint32_t kLayers = 4;
constexpr std::uint32_t kBlocks = 2;
constexpr std::uint64_t kPageBytes = 9000;  // not a multiple of the digest's unit
constexpr std::uint64_t kStrideBytes = 9216;

std::uint64_t mix(std::uint64_t x) {  // splitmix64, Vigna
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// The pages of one chunk: kLayers layers of kBlocks pages each.
class Pages {
 public:
  Pages() : bytes_(kLayers * kBlocks * kStrideBytes) {}

  larder_pages layer(std::uint32_t layer) {
    return {bytes_.data() + layer * kBlocks * kStrideBytes, kStrideBytes, kPageBytes, kBlocks};
  }

  void fill(std::uint64_t key) {
    each_word(key, [](std::uint8_t* at, std::uint64_t expected) {
      std::memcpy(at, &expected, sizeof(expected));
      return true;
    });
  }
  bool holds(std::uint64_t key) {
    return each_word(
        key, [](const std::uint8_t* at, std::uint64_t expected) { return std::memcmp(at, &expected, sizeof(expected)) == 0; });
  }

 private:
  template <typename Visit>
  bool each_word(std::uint64_t key, Visit visit) {
    for (std::uint32_t page = 0; page < kLayers * kBlocks; ++page)
      for (std::uint64_t at = 0; at < kPageBytes; at += 8)
        if (!visit(bytes_.data() + page * kStrideBytes + at, mix(key * 1'000'003 + page * kPageBytes + at))) return false;
    return true;
  }

  std::vector<std::uint8_t> bytes_;
};

struct Counts {
  std::uint64_t stored = 0, loaded = 0, failed = 0;
};

larder_client* open_client(const char* socket) {
  larder_options options{};
  options.struct_bytes = sizeof(options);
  options.copy_threads = 1;
  options.socket = socket;
  options.engine = "chunk_worker";
  larder_client* client = nullptr;
  if (larder_open(&options, &client) != LARDER_OK) return nullptr;
  const larder_group group{kPageBytes, kLayers, kBlocks};
  larder_namespace ns{};
  ns.struct_bytes = sizeof(ns);
  ns.shard_count = 1;
  ns.fingerprint = "engine: chunk_worker\n";
  ns.model = "worker";
  ns.groups = &group;
  ns.group_count = 1;
  ns.chunk_tokens = 256;
  if (larder_set_namespace(client, &ns) != LARDER_OK) return nullptr;
  return client;
}

// False: a wrong byte.
bool load(larder_client* client, const larder_transfer& transfer, Pages& pages, std::uint64_t key, Counts& counts) {
  if (larder_lookup(client, &transfer.hashes) != 1) return true;
  std::uint64_t ticket = 0;
  if (larder_load(client, &transfer, &ticket) != LARDER_OK) return true;
  larder_completion completion{};
  while (larder_poll(client, &completion, 1) == 0) std::this_thread::yield();
  if (completion.status != LARDER_OK) {
    ++counts.failed;
    return true;
  }
  ++counts.loaded;
  return pages.holds(key);
}

void store(larder_client* client, const larder_transfer& transfer, Pages& pages, std::uint64_t key, Counts& counts) {
  pages.fill(key);
  if (larder_store_begin(client, &transfer) != LARDER_OK) return;
  larder_store_result result{};
  result.struct_bytes = sizeof(result);
  if (larder_store_finish(client, 50, &result) == LARDER_OK) counts.stored += result.stored;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  larder_client* client = open_client(argv[1]);
  Pages pages;
  std::vector<larder_pages> layers;
  for (std::uint32_t i = 0; i < kLayers; ++i) layers.push_back(pages.layer(i));
  if (client == nullptr || larder_register_pages(client, 0, layers.data(), kLayers) != LARDER_OK) return 2;
  if (larder_wait_attached(client, 5000) != LARDER_OK) return 1;

  std::mt19937_64 random(std::strtoull(argv[2], nullptr, 10));
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<int>(1000 * std::atof(argv[3])));
  Counts counts;
  const std::uint32_t page_ids[kBlocks] = {0, 1};
  while (std::chrono::steady_clock::now() < end) {
    const std::uint64_t key = random() % kKeys;
    const std::uint64_t hash[2] = {mix(key), mix(~key)};
    larder_transfer transfer{};
    transfer.struct_bytes = sizeof(transfer);
    transfer.hashes = {reinterpret_cast<const std::uint8_t*>(hash), sizeof(hash), 1, 0, 0};
    transfer.pages = page_ids;
    transfer.page_count = kBlocks;
    if (random() % 2 == 0) {
      store(client, transfer, pages, key, counts);
    } else if (!load(client, transfer, pages, key, counts)) {
      std::fprintf(stderr, "wrong byte in the chunk of key %llu\n", static_cast<unsigned long long>(key));
      return 3;
    }
  }
  larder_close(client);
  std::printf("stored %llu loaded %llu failed %llu\n", static_cast<unsigned long long>(counts.stored),
              static_cast<unsigned long long>(counts.loaded), static_cast<unsigned long long>(counts.failed));
  return 0;
}
