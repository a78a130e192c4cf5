// A made-up inference engine: KV pages in the layouts of real engines, filled with bytes derived
// from the chunk's key alone.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shim/client/client.h"

namespace larder::client::testing_support {

struct PageLayout {
  std::string name;
  std::uint32_t layers = 2;
  std::uint32_t blocks_per_chunk = 4;
  std::uint64_t piece_bytes = 4096;
  std::uint64_t gap_bytes = 0;     // between two pages of a layer
  bool one_storage = false;        // all layers are views of one allocation, page by page
  std::uint64_t offset_bytes = 0;  // of the first page
};

inline const PageLayout kPlainLayout{"plain", 2, 4, 16384, 0, false, 0};
// Of two KV groups. The slots of the window are smaller and have extents of their own.
inline const PageLayout kFullLayout{"full", 2, 4, 8192, 0, false, 0};
inline const PageLayout kWindowLayout{"window", 3, 1, 4096, 0, false, 0};

// vLLM's layout on GPUs with blocks of 16 tokens, and vLLM's layout on CPUs.
inline std::vector<PageLayout> page_layouts() {
  // 16 tokens, 8 KV heads of 64 bf16, K or V
  return {{"contiguous", 3, 16, 16 * 1024, 0, false, 0},
          {"gaps", 3, 16, 16 * 1024, 16 * 1024, false, 0},  // K and V in one tensor, split by dim 0
          // hybrid allocation: every layer a view of one buffer
          {"one_storage", 4, 16, 8192, 0, true, 0},
          {"mla", 3, 16, 18432, 0, false, 0},  // 16 tokens of 576 bf16: 4.5 units
          {"odd", 2, 3, 1001, 7, false, 5},    // no alignment
          {"cpu", 2, 2, 131072, 0, true, 64}};
}

constexpr std::uint32_t kPages = 64;

// Memory that is not this process's own, such as a device's: the place for pages, and the place
// where the test finds their content.
struct PageMemory {
  std::byte* (*allocate)(std::size_t bytes) = nullptr;
  std::byte* (*view)(std::byte* page) = nullptr;
};

class Engine {
 public:
  // Without `memory`, pages are vectors of the engine's own.
  explicit Engine(const PageLayout& layout, PageMemory memory = {})
      : layout_(layout), elsewhere_(memory) {
    const std::uint64_t step = layout.piece_bytes + layout.gap_bytes;
    const std::uint64_t per_layer = step * kPages + layout.offset_bytes;
    const std::uint64_t each = per_layer * (layout.one_storage ? layout.layers : 1);
    for (std::uint32_t i = 0; i < (layout.one_storage ? 1 : layout.layers); ++i) {
      if (memory.allocate == nullptr) own_.emplace_back(each);
      storages_.emplace_back(
          memory.allocate == nullptr ? own_.back().data() : memory.allocate(each), each);
      std::fill_n(seen(storages_.back().data()), each, std::byte{0xcd});
    }
    for (std::uint32_t layer = 0; layer < layout.layers; ++layer) {
      LayerPages pages;
      pages.page_bytes = layout.piece_bytes;
      pages.page_count = kPages;
      pages.stride_bytes = layout.one_storage ? step * layout.layers : step;
      pages.base = storages_[layout.one_storage ? 0 : layer].data() + layout.offset_bytes +
                   (layout.one_storage ? step * layer : 0);
      pages_.push_back(pages);
    }
  }

  Group group() const { return {layout_.piece_bytes, layout_.layers, layout_.blocks_per_chunk}; }
  const GroupPages& pages() const { return pages_; }
  std::uint32_t chunks() const { return kPages / layout_.blocks_per_chunk; }

  // The pages of the i-th place for a chunk, scattered on purpose.
  std::vector<std::uint32_t> chunk_pages(std::uint32_t place) const {
    std::vector<std::uint32_t> pages;
    for (std::uint32_t b = 0; b < layout_.blocks_per_chunk; ++b)
      pages.push_back((place * layout_.blocks_per_chunk + b) * 37 % kPages);
    return pages;
  }

  void fill(std::uint32_t place, const protocol::BlockHash& hash) {
    each_byte(place, [&](std::byte& byte, std::uint64_t at) { byte = expected(hash, at); });
  }
  void wipe() {
    for (std::uint32_t place = 0; place < chunks(); ++place)
      each_byte(place, [](std::byte& byte, std::uint64_t) { byte = std::byte{0}; });
  }
  bool holds(std::uint32_t place, const protocol::BlockHash& hash) {
    bool equal = true;
    each_byte(place, [&](std::byte& byte, std::uint64_t at) {
      equal = equal && byte == expected(hash, at);
    });
    return equal;
  }
  bool gaps_untouched() const {
    std::uint64_t gaps = 0, untouched = 0;
    for (const std::span<std::byte> storage : storages_) {
      gaps += storage.size();
      const std::byte* const bytes = seen(storage.data());
      untouched +=
          static_cast<std::uint64_t>(std::count(bytes, bytes + storage.size(), std::byte{0xcd}));
    }
    gaps -= layout_.piece_bytes * kPages * layout_.layers;
    return untouched >= gaps;
  }

  static std::byte expected(const protocol::BlockHash& hash, std::uint64_t at) {
    return static_cast<std::byte>(((hash.lo + at / 8 + 1) * 0x9e3779b97f4a7c15ULL) >>
                                  (8 * (at % 8)));
  }

 private:
  std::byte* seen(std::byte* page) const {
    return elsewhere_.view != nullptr ? elsewhere_.view(page) : page;
  }
  template <typename Visit>
  void each_byte(std::uint32_t place, const Visit& visit) {
    std::uint64_t at = 0;
    const std::vector<std::uint32_t> pages = chunk_pages(place);
    for (const LayerPages& layer : pages_)
      for (const std::uint32_t page : pages)
        for (std::uint64_t i = 0; i < layout_.piece_bytes; ++i)
          visit(seen(layer.base + page * layer.stride_bytes)[i], at++);
  }

  const PageLayout layout_;
  const PageMemory elsewhere_;
  std::vector<std::vector<std::byte>> own_;
  std::vector<std::span<std::byte>> storages_;
  GroupPages pages_;
};

inline protocol::BlockHash hash_of(std::uint64_t number) {
  return {(number + 1) * 0xd6e8feb86659fd93ULL, (number + 1) * 0xa0761d6478bd642fULL};
}

inline std::vector<protocol::BlockHash> some_hashes(std::uint64_t count) {
  std::vector<protocol::BlockHash> hashes;
  for (std::uint64_t n = 0; n < count; ++n) hashes.push_back(hash_of(n));
  return hashes;
}

inline Hashes hashes_of(const std::vector<protocol::BlockHash>& hashes) {
  return {reinterpret_cast<const std::uint8_t*>(hashes.data()), sizeof(protocol::BlockHash),
          hashes.size()};
}

// A client of a made-up engine, set up as an engine would.
class EngineClient {
 public:
  EngineClient(const std::string& socket, const PageLayout& layout,
               const copy::CopyEngine& copies = copy::host_copy_engine(),
               const std::string& fingerprint = "engine: made-up\n", PageMemory memory = {})
      : engine(layout, memory),
        client(std::make_unique<Client>(Options{socket, "made-up " + layout.name, 2}, copies)) {
    NamespaceSpec spec;
    spec.fingerprint = fingerprint + "layout: " + layout.name + "\n";
    spec.model = "made-up";
    spec.shard_count = 1;
    spec.chunk_tokens = 16 * layout.blocks_per_chunk;
    spec.groups = {engine.group()};
    status = client->set_namespace(spec);
    if (status.ok()) status = client->register_pages(0, engine.pages());
  }

  // A transfer of chunks first.. on places 0...
  Transfer transfer(std::uint64_t first, std::uint32_t count) const {
    Transfer t;
    for (std::uint32_t i = 0; i < count; ++i) {
      t.hashes.push_back(hash_of(first + i));
      const auto pages = engine.chunk_pages(i);
      t.pages.insert(t.pages.end(), pages.begin(), pages.end());
    }
    return t;
  }

  StoreResult store(std::uint64_t first, std::uint32_t count, std::uint32_t wait_ms = 2000) {
    for (std::uint32_t i = 0; i < count; ++i) engine.fill(i, hash_of(first + i));
    status = client->store_begin(transfer(first, count));
    return client->store_finish(wait_ms);
  }

  // The completion, or kDeadlineExceeded after 10 s.
  Completion load(std::uint64_t first, std::uint32_t count) {
    const Result<std::uint64_t> ticket = client->load(transfer(first, count), 5000);
    Completion done;
    done.status = ticket.status().code();
    return ticket.ok() ? await(*ticket) : done;
  }
  Completion await(std::uint64_t ticket) {
    for (int i = 0; i < 10; ++i) {
      for (const Completion& done : client->poll(16, std::chrono::seconds(1)))
        if (done.ticket == ticket) return done;
    }
    Completion late;
    late.status = Code::kDeadlineExceeded;
    return late;
  }

  bool present(std::uint64_t first, std::uint32_t count) const {
    const Transfer t = transfer(first, count);
    return client->lookups().present(hashes_of(t.hashes)) == count;
  }
  bool await_present(std::uint64_t first, std::uint32_t count) const {
    for (int i = 0; i < 10000 && !present(first, count); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return present(first, count);
  }
  bool holds(std::uint64_t first, std::uint32_t count) {
    bool equal = true;
    for (std::uint32_t i = 0; i < count; ++i) equal = equal && engine.holds(i, hash_of(first + i));
    return equal;
  }

  Engine engine;
  std::unique_ptr<Client> client;
  Status status;
};

}  // namespace larder::client::testing_support
