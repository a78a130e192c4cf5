// LayerLoad: a load whose parts are layers, the first layer of all chunks first, so that a layer can be used while the rest is on its way.
//
// A layer is verified by itself: each chunk's digest table is read once and verified against its root, and speaks for all that is copied
// after. Holds stand until the load ends. Thread-safe.
#pragma once

#include <mutex>

#include "shim/client/load_job.h"

namespace larder::client {

class LayerLoad final : public LoadJob {
 public:
  // What a thread copies at once of a layer: enough that a GPU's queue is worth it, and little enough that several threads share a layer.
  static constexpr std::uint64_t kPartBytes = 8 << 20;

  LayerLoad(const LoadRoom& room, LoadOrder order);
  // All of that layer is on the pages and verified. REQUIRES: layer < layers().
  bool done(std::uint32_t layer) const { return left_[layer] == 0; }
  std::uint32_t layers() const { return group().layers; }
  // Called when a layer is done, by the thread that did it; must not throw.
  void on_layer(std::function<void()> told) { told_ = std::move(told); }

 private:
  // Some chunks of the load, which its parts for all layers have in common.
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
  std::function<void()> told_;
};

}  // namespace larder::client
