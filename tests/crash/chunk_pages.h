// ChunkPages: the KV pages of one chunk of a made-up engine. Its first word is the generation of its content, a number that its
// writer drew; every other word derives from (key, generation). So a checker that knows the key alone finds a byte of anybody
// else's, of an earlier store of the same key, and of two stores mixed.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "shim/client/client.h"

namespace larder::crash {

inline std::uint64_t mix(std::uint64_t x) {  // splitmix64, Vigna
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

inline protocol::BlockHash hash_of(std::uint64_t key) {
  return {mix(key), mix(~key)};
}

class ChunkPages {
 public:
  static constexpr std::uint32_t kLayers = 4;
  static constexpr std::uint32_t kBlocks = 2;            // of one chunk
  static constexpr std::uint64_t kPageBytes = 4096 + 8;  // two units, the second one short
  static constexpr client::Group kGroup{kPageBytes, kLayers, kBlocks};

  explicit ChunkPages(std::uint32_t chunks)
      : chunks_(chunks), words_(static_cast<std::size_t>(chunks) * kBlocks * kLayers * kWords) {}

  client::GroupPages layers() {
    client::GroupPages all(kLayers);
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      all[layer].base = reinterpret_cast<std::byte*>(word(layer, 0));
      all[layer].stride_bytes = all[layer].page_bytes = kPageBytes;
      all[layer].page_count = static_cast<std::uint64_t>(chunks_) * kBlocks;
    }
    return all;
  }
  // Chunks of these keys, on places 0...
  static client::Transfer transfer(const std::vector<std::uint64_t>& keys) {
    client::Transfer transfer;
    for (std::uint32_t place = 0; place < keys.size(); ++place) {
      transfer.hashes.push_back(hash_of(keys[place]));
      for (std::uint32_t block = 0; block < kBlocks; ++block) transfer.pages.push_back(place * kBlocks + block);
    }
    return transfer;
  }

  void fill(std::uint32_t place, std::uint64_t key, std::uint64_t generation) {
    visit(place, [&](std::uint64_t& at, std::uint64_t i) { at = expected(key, generation, i); });
  }
  bool holds(std::uint32_t place, std::uint64_t key) {
    const std::uint64_t generation = *word(0, place * kBlocks);
    return holds(place, key, generation);
  }
  bool holds(std::uint32_t place, std::uint64_t key, std::uint64_t generation) {
    bool all = true;
    visit(place, [&](std::uint64_t& at, std::uint64_t i) { all = all && at == expected(key, generation, i); });
    return all;
  }
  bool all_zero() const {
    for (const std::uint64_t value : words_)
      if (value != 0) return false;
    return true;
  }
  void wipe() { std::fill(words_.begin(), words_.end(), 0); }

 private:
  static constexpr std::uint64_t kWords = kPageBytes / 8;

  static std::uint64_t expected(std::uint64_t key, std::uint64_t generation, std::uint64_t i) {
    return i == 0 ? generation : mix(mix(key ^ mix(generation)) + i);
  }
  std::uint64_t* word(std::uint32_t layer, std::uint32_t page) {
    return words_.data() + (static_cast<std::size_t>(layer) * chunks_ * kBlocks + page) * kWords;
  }
  template <typename Visit>
  void visit(std::uint32_t place, const Visit& each) {
    std::uint64_t i = 0;
    for (std::uint32_t layer = 0; layer < kLayers; ++layer)
      for (std::uint64_t at = 0; at < kBlocks * kWords; ++at) each(word(layer, place * kBlocks)[at], i++);
  }

  const std::uint32_t chunks_;
  std::vector<std::uint64_t> words_;
};

}  // namespace larder::crash
