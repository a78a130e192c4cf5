// Loads of parts of chunks, for example one layer of many chunks.
#include <algorithm>

#include "cuda/cuda_copy_engine.h"
#include "shim/protocol/checksum.h"

namespace larder::copy::cuda {
namespace {

// Compares the digests of the written pieces with the expected digests. Null pieces were not
// written.
Status compared(const ChunkPart& part, std::uint64_t units, const std::uint64_t* digests) {
  for (std::size_t i = 0; i < part.pieces.size(); ++i)
    if (part.pieces[i] != nullptr &&  // mutation: device-parts
        !std::equal(digests + i * units, digests + (i + 1) * units,
                    part.digests.data() + i * units))
      return {Code::kDataLoss, "the bytes do not match the digests of their chunk"};
  return {};
}

}  // namespace

// After the copy engines a kernel digests pages only, so one run of kernels covers all parts.
Status CudaCopyEngine::load_parts_pinned(CopyStream& stream, std::span<const DirectPart> parts,
                                         std::uint64_t piece_bytes) const {
  const std::uint64_t units = protocol::units_per_piece(piece_bytes);
  std::size_t pieces = 0;
  bool kernel = by_kernel(Direction::kLoad, piece_bytes);
  for (const DirectPart& part : parts) {
    pieces += part.part->pieces.size();
    // One way for all parts: a mixture would need two waits.
    kernel = kernel && part.device.in_one_piece() != 0;
  }
  if (Status status = make_tables(stream, pieces, piece_bytes); !status.ok()) return status;
  CopyList copies;
  if (!kernel)
    for (const DirectPart& part : parts)
      copies.add_pieces(false, {part.part->pieces, piece_bytes}, part.device);
  if (Status status = stream.copy(Direction::kLoad, copies); !status.ok()) return status;
  std::size_t first = 0;
  for (const DirectPart& part : parts) {
    const NamedPieces named =
        name_pieces(stream, Direction::kLoad, {part.part->pieces, piece_bytes}, first);
    // The addresses of all parts stand one behind the other, so one digest kernel covers them.
    first += named.count;
    if (!kernel) continue;
    if (Status status = run_kernels(stream, Move::kScatter, CopyStream::Behind::kCopies, named,
                                    part.device.in_one_piece());
        !status.ok())
      return status;
  }
  if (!kernel)
    if (Status status = run_kernels(stream, Move::kDigest, CopyStream::Behind::kCopies,
                                    {Direction::kLoad, 0, pieces, piece_bytes}, 0);
        !status.ok())
      return status;
  if (Status status = stream.finish(); !status.ok()) return status;
  const std::uint64_t* digests = stream.digests.data<std::uint64_t>();
  for (const DirectPart& part : parts) {
    if (Status status = compared(*part.part, units, digests); !status.ok()) return status;
    digests += part.part->pieces.size() * units;
  }
  return {};
}

Status CudaCopyEngine::load_part_staged(CopyStream& stream, const ChunkPart& part,
                                        std::uint64_t piece_bytes) const {
  const std::uint64_t units = protocol::units_per_piece(piece_bytes);
  std::vector<std::uint64_t> table(part.pieces.size() * units);
  if (Status status = load_staged(stream, part.packed, {part.pieces, piece_bytes}, table);
      !status.ok())
    return status;
  return compared(part, units, table.data());
}

// Joins as many parts as fit in kJoinedBytes; prepare() has made tables of this size.
Status CudaCopyEngine::load_parts(std::span<const ChunkPart> parts, std::uint64_t piece_bytes,
                                  const Fence* after) const {
  if (ended_) return {Code::kUnavailable, "copies from and to the GPU have ended in this engine"};
  const ContextScope scope(context_->driver(), context_->handle());
  if (!scope.status().ok()) return noted(scope.status());
  Result<CopyStreams::Lease> stream = streams_->take(after);
  if (!stream.ok()) return noted(stream.status());
  const std::size_t most = kJoinedBytes / piece_bytes;
  std::vector<DirectPart> direct;
  std::size_t pieces = 0;
  for (const ChunkPart& part : parts) {
    DeviceRange device = kernels_ != nullptr ? pinned(part.packed) : DeviceRange();  // see load()
    if (device.empty()) {
      if (Status status = load_part_staged(**stream, part, piece_bytes); !status.ok())
        return noted(status);
      continue;
    }
    // The tables have the size that prepare() has made. Growing them now would allocate pinned
    // memory in the middle of a request.
    if (!direct.empty() && pieces + part.pieces.size() > most) {
      if (Status status = load_parts_pinned(**stream, direct, piece_bytes); !status.ok())
        return noted(status);
      direct.clear();
      pieces = 0;
    }
    pieces += part.pieces.size();
    direct.push_back({&part, std::move(device)});
  }
  return direct.empty() ? Status() : noted(load_parts_pinned(**stream, direct, piece_bytes));
}

}  // namespace larder::copy::cuda
