// An engine of one namespace that stores chunks with bytes of their own, and recognizes the bytes.
// A chunk has two pieces of 4 KiB.
#pragma once

#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "shim/protocol/checksum.h"
#include "tests/unit/loop/client.h"

namespace larder::loop::testing_support {

class ChunkEngine : public Client {
 public:
  static constexpr std::uint64_t kPayloadBytes = 8192, kPieceBytes = 4096, kSlotBytes = 12'288;

  // Attached, with the namespace open.
  ChunkEngine(const std::string& socket, const std::string& fingerprint,
              std::uint64_t told = protocol::kCapabilityResidency)
      : Client(socket), fingerprint_(fingerprint) {
    capabilities = told;
    attach();
    handle_ = open_namespace(fingerprint);
  }

  std::uint32_t handle() const { return handle_; }
  static protocol::BlockHash hash(std::uint64_t n) { return {n * 0x9e3779b97f4a7c15ULL, n}; }
  static std::vector<protocol::BlockHash> hashes(std::uint64_t from, std::uint64_t to) {
    std::vector<protocol::BlockHash> all;
    for (std::uint64_t n = from; n <= to; ++n) all.push_back(hash(n));
    return all;
  }
  static void fill(std::byte* payload, std::uint64_t n) {
    for (std::uint64_t at = 0; at < kPayloadBytes; at += 8) {
      const std::uint64_t word = n * 1'000'003 + at;
      std::memcpy(payload + at, &word, 8);
    }
  }

  void store(std::uint64_t n) {
    std::vector<protocol::Grant> grants;
    for (int tries = 0; tries < 1000; ++tries) {
      beat();
      grants = reserve(handle_, {hash(n)});
      if (grants.size() == 1 && grants[0].status == 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ASSERT_TRUE(grants.size() == 1 && grants[0].status == 0) << n;
    std::byte* slot = arena() + grants[0].offset_bytes;
    fill(slot, n);
    std::uint64_t digests[2];
    for (std::uint64_t piece = 0; piece < 2; ++piece)
      protocol::piece_digests(slot + piece * kPieceBytes, kPieceBytes, &digests[piece]);
    std::memcpy(slot + protocol::digest_table_offset(kPayloadBytes), digests, sizeof(digests));
    commit(grants[0], protocol::root_digest(digests, 2));
  }
  std::optional<protocol::EntryView> find(std::uint64_t n) {
    return index().find({hash(n), handle_, 0, 0});
  }
  // In memory, with the chunk's bytes.
  bool right(std::uint64_t n) {
    const auto view = find(n);
    if (!view) return false;
    std::vector<std::byte> expected(kPayloadBytes);
    fill(expected.data(), n);
    return std::memcmp(arena() + view->offset_bytes, expected.data(), kPayloadBytes) == 0;
  }
  // The residency filter has the chunk.
  bool shown_below(std::uint64_t n) {
    const protocol::ResidencyReader reader = below();
    return reader.has(reader.place(protocol::namespace_id(fingerprint_), hash(n), 0, 0));
  }
  protocol::Probed probe(std::uint64_t from, std::uint64_t to, std::uint32_t deadline_ms = 5000) {
    send_probe(kProbeRequest, handle_, hashes(from, to), deadline_ms);
    return receive_probed(kProbeRequest);
  }
  protocol::Fetched fetch(std::uint32_t request, std::uint64_t from, std::uint64_t to,
                          std::uint32_t deadline_ms = 5000) {
    send_fetch(request, handle_, hashes(from, to), deadline_ms);
    return receive_fetched(request);
  }

 private:
  static constexpr std::uint32_t kProbeRequest = 77;
  std::string fingerprint_;
  std::uint32_t handle_ = 0;
};

}  // namespace larder::loop::testing_support
