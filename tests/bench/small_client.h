// SmallClient: a client with chunks of one page of 64 bytes, so 100,000 chunks are stored quickly.
// Thread-compatible.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "shim/client/client.h"

namespace larder::bench {

// Hash i of the benchmark: two little-endian words, made alike by programs in other languages.
inline protocol::BlockHash bench_hash(std::uint64_t i) {
  return {(i + 1) * 0xd6e8feb86659fd93ULL, (i + 1) * 0xa0761d6478bd642fULL};
}

class SmallClient {
 public:
  SmallClient(const std::string& socket, const std::string& fingerprint)
      : client_({socket, "bench", 1}, copy::host_copy_engine()) {
    client::NamespaceSpec spec;
    spec.fingerprint = fingerprint;
    spec.model = "bench";
    spec.shard_count = 1;
    spec.chunk_tokens = 256;
    spec.groups = {{page_.size(), 1, 1}};
    ok_ = client_.set_namespace(spec).ok() &&
          client_.register_pages(0, {{page_.data(), page_.size(), page_.size(), 1}}).ok() &&
          client_.wait_attached(10'000).ok();
  }

  bool ok() const { return ok_; }
  client::Client& client() { return client_; }

  // Stores chunks first..first+count-1; returns the number of stored ones.
  std::uint64_t store(std::uint64_t first, std::uint64_t count) {
    client::Transfer transfer;
    for (std::uint64_t i = first; i < first + count; ++i) transfer.hashes.push_back(bench_hash(i));
    transfer.pages.assign(count, 0);
    if (!client_.store_begin(transfer).ok()) return 0;
    return client_.store_finish(5'000).stored;
  }

 private:
  alignas(64) std::array<std::byte, 64> page_{};
  client::Client client_;
  bool ok_ = false;
};

}  // namespace larder::bench
