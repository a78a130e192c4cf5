// LayerLoad: a load whose parts are layers. The first layer of all chunks comes first, so an engine
// can use a layer while the others are being copied.
//
// Each layer is verified alone. The digest table of a chunk is read once and verified against the
// root, and then verifies every layer. A layer that is done becomes void if the load fails later.
// Holds last until the load ends. Thread-safe.
#pragma once

#include <mutex>

#include "shim/client/load_job.h"

namespace larder::client {

class LayerLoad final : public LoadJob {
 public:
  // The bytes of a layer that a thread copies at once: enough to be worth a place in the queue of a
  // GPU, and few enough that several threads share a layer.
  static constexpr std::uint64_t kPartBytes = 8 << 20;

  LayerLoad(const LoadRoom& room, LoadOrder order);
  // Whether the whole layer is on the pages and verified. REQUIRES: layer < layers().
  bool done(std::uint32_t layer) const { return left_[layer] == 0; }
  std::uint32_t layers() const { return group().layers; }
  // `done` is called when a layer is done, on the thread of its last part; must not throw.
  void on_layer(std::function<void()> done) { done_ = std::move(done); }

 private:
  // A group of chunks of the load, shared by its parts for all layers.
  struct Batch {
    std::mutex mutex;
    bool prepared = false;
    Code failure = Code::kOk;
    std::size_t first = 0;
    std::vector<Source> sources;                      // by chunk
    std::vector<std::vector<std::byte*>> pieces;      // of all layers
    std::vector<std::vector<std::uint64_t>> digests;  // verified, of all layers
  };
  static std::size_t chunks_per_part(const Group& group, std::size_t chunks);
  static std::size_t part_count(const LoadRoom& room, const Transfer& transfer);
  Code copy_part(std::size_t part) override;
  void ending(bool well) override;
  Code prepare(Batch& batch);
  Code copy_layer(Batch& batch, std::uint32_t layer);

  std::vector<Batch> batches_;
  std::vector<std::atomic<std::size_t>> left_;  // parts, by layer
  std::function<void()> done_;
};

}  // namespace larder::client
