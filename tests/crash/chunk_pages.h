// ChunkPages: the KV pages of chunks of a fake engine. The first word of a chunk is the generation
// of the content, a number that the writer drew. Every other word derives from (key, generation). A
// checker that knows the key finds bytes of another key, of an earlier store of the same key, and
// of two mixed stores.
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
  // Four layers, two blocks a chunk; a page of two units, the second one short.
  static constexpr client::Group kGroup{4096 + 8, 4, 2};

  // REQUIRES: pages of whole words.
  explicit ChunkPages(std::uint32_t chunks, const client::Group& group = kGroup)
      : chunks_(chunks),
        group_(group),
        page_words_(group.piece_bytes / 8),
        words_(chunks * group.pieces() * page_words_) {}

  client::GroupPages layers() {
    client::GroupPages all(group_.layers);
    for (std::uint32_t layer = 0; layer < group_.layers; ++layer) {
      all[layer].base = reinterpret_cast<std::byte*>(word(layer, 0));
      all[layer].stride_bytes = all[layer].page_bytes = group_.piece_bytes;
      all[layer].page_count = static_cast<std::uint64_t>(chunks_) * group_.blocks_per_chunk;
    }
    return all;
  }
  // Sets the client's namespace of the next chunks.
  void work_in(std::uint32_t space) { space_ = space; }
  // Chunks of these keys, on the places from 0 on.
  client::Transfer transfer(const std::vector<std::uint64_t>& keys) const {
    client::Transfer transfer;
    transfer.ns = space_;
    for (const std::uint64_t key : keys) {
      transfer.hashes.push_back(hash_of(key));
      for (std::uint32_t block = 0; block < group_.blocks_per_chunk; ++block)
        transfer.pages.push_back(static_cast<std::uint32_t>(transfer.pages.size()));
    }
    return transfer;
  }

  void fill(std::uint32_t place, std::uint64_t key, std::uint64_t generation) {
    visit(place, [&](std::uint64_t& at, std::uint64_t i) { at = expected(key, generation, i); });
  }
  bool holds(std::uint32_t place, std::uint64_t key) {
    const std::uint64_t generation = *word(0, place * group_.blocks_per_chunk);
    return holds(place, key, generation);
  }
  bool holds(std::uint32_t place, std::uint64_t key, std::uint64_t generation) {
    bool all = true;
    visit(place, [&](std::uint64_t& at, std::uint64_t i) {
      all = all && at == expected(key, generation, i);
    });
    return all;
  }
  bool all_zero() const {
    for (const std::uint64_t value : words_)
      if (value != 0) return false;
    return true;
  }
  void wipe() { std::fill(words_.begin(), words_.end(), 0); }

 private:
  static std::uint64_t expected(std::uint64_t key, std::uint64_t generation, std::uint64_t i) {
    return i == 0 ? generation : mix(mix(key ^ mix(generation)) + i);
  }
  std::uint64_t* word(std::uint32_t layer, std::uint32_t page) {
    return words_.data() +
           (static_cast<std::size_t>(layer) * chunks_ * group_.blocks_per_chunk + page) *
               page_words_;
  }
  template <typename Visit>
  void visit(std::uint32_t place, const Visit& each) {
    std::uint64_t i = 0;
    for (std::uint32_t layer = 0; layer < group_.layers; ++layer)
      for (std::uint64_t at = 0; at < group_.blocks_per_chunk * page_words_; ++at)
        each(word(layer, place * group_.blocks_per_chunk)[at], i++);
  }

  const std::uint32_t chunks_;
  const client::Group group_;
  const std::uint64_t page_words_;
  std::vector<std::uint64_t> words_;
  std::uint32_t space_ = 0;
};

}  // namespace larder::crash
