#include "shim/client/layer_load.h"

#include <algorithm>
#include <ranges>

#include "shim/protocol/checksum.h"

namespace larder::client {

std::size_t LayerLoad::chunks_per_part(const Group& group, std::size_t chunks) {
  const std::uint64_t layer_bytes = group.payload_bytes() / group.layers;
  // At least one chunk, of any size.
  return std::clamp<std::size_t>(kPartBytes / layer_bytes, 1, chunks);
}

std::size_t LayerLoad::part_count(const LoadRoom& room, const Transfer& transfer) {
  const Group& group = room.spec.groups[transfer.group];
  const std::size_t chunks = transfer.hashes.size(), each = chunks_per_part(group, chunks);
  return (chunks + each - 1) / each * group.layers;
}

LayerLoad::LayerLoad(const LoadRoom& room, LoadOrder order)
    : LoadJob(room, std::move(order), part_count(room, order.transfer)),
      batches_(part_count(room, transfer()) / group().layers),
      left_(group().layers) {
  const std::size_t chunks = transfer().hashes.size(), each = chunks_per_part(group(), chunks);
  for (std::size_t i = 0; i < batches_.size(); ++i) {
    Batch& batch = batches_[i];
    batch.first = i * each;
    const std::size_t count = std::min(each, chunks - batch.first);
    batch.sources = std::vector<Source>(count);
    batch.pieces.resize(count);
    batch.digests.resize(count);
  }
  for (std::atomic<std::size_t>& left : left_) left = batches_.size();
}

// Threads take parts in order, so part numbers go layer by layer.
Code LayerLoad::copy_part(std::size_t part) {
  const auto layer = static_cast<std::uint32_t>(part / batches_.size());
  Batch& batch = batches_[part % batches_.size()];
  if (const Code code = prepare(batch); code != Code::kOk) return code;
  if (const Code code = copy_layer(batch, layer); code != Code::kOk) return code;
  // The layers of a batch may end out of order; a layer is done with its last part, whoever copies
  // it.
  if (--left_[layer] == 0 && done_) done_();
  return Code::kOk;
}

// The first thread prepares the batch; a thread with the same chunks for the next layer waits.
Code LayerLoad::prepare(Batch& batch) {
  const std::lock_guard lock(batch.mutex);
  if (batch.prepared) return batch.failure;
  batch.prepared = true;
  batch.failure = Code::kInternal;  // stays if a call below throws
  Code code = Code::kOk;
  for (std::size_t i = 0; i < batch.sources.size() && code == Code::kOk; ++i) {
    Source& source = batch.sources[i];
    code = find(batch.first + i, source);
    // The holds of the chunks found so far stay until ending(): other threads may read their
    // slots.
    if (code != Code::kOk) break;
    pieces_of(batch.first + i, batch.pieces[i]);
    batch.digests[i].resize(protocol::digest_count(group().payload_bytes(), group().piece_bytes));
    const Status verified = copy::verified_digests(source.slot, group().payload_bytes(),
                                                   source.view.root, batch.digests[i]);
    code = ended_as(verified, source, still_there(source));
  }
  return batch.failure = code;
}

Code LayerLoad::copy_layer(Batch& batch, std::uint32_t layer) {
  const std::uint64_t blocks = group().blocks_per_chunk, bytes = blocks * group().piece_bytes;
  const std::uint64_t units = blocks * protocol::units_per_piece(group().piece_bytes);
  // Pieces, digests and slot have the order of layers, so a layer of a chunk is one run in each.
  std::vector<copy::ChunkPart> parts;
  for (std::size_t i = 0; i < batch.sources.size(); ++i)
    parts.push_back({batch.sources[i].slot.subspan(layer * bytes, bytes),
                     std::span(batch.pieces[i]).subspan(layer * blocks, blocks),
                     std::span(batch.digests[i]).subspan(layer * units, units)});
  const Status copied = engine().load_parts(parts, group().piece_bytes, after());
  if (copied.ok()) {
    bytes_ += parts.size() * bytes;
    return Code::kOk;
  }
  // Each chunk is copied alone to find the damaged one, since a reported chunk is hidden until
  // larderd has checked the chunk.
  Code code = copied.code();
  for (std::size_t i = 0; i < parts.size() && copied.code() == Code::kDataLoss; ++i) {
    const Source& source = batch.sources[i];
    const Status alone = parts.size() == 1 ? copied
                                           : engine().load_parts(std::span(parts).subspan(i, 1),
                                                                 group().piece_bytes, after());
    if (ended_as(alone, source, still_there(source)) == Code::kNotFound) code = Code::kNotFound;
  }
  return code;
}

// All threads have stopped reading the slots.
void LayerLoad::ending(bool well) {
  for (Batch& batch : std::views::reverse(batches_))
    for (Source& source : std::views::reverse(batch.sources)) {
      if (well) touch(source.view);
      source.held.reset();
    }
}

}  // namespace larder::client
