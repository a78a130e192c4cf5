// Parts of chunks by themselves, one layer's of many chunks for example.
#include <algorithm>

#include "cuda/cuda_copy_engine.h"
#include "shim/protocol/checksum.h"

namespace larder::copy::cuda {
namespace {

// Whether digests of what was written are the ones that are expected. Nothing was written of pieces that are left out.
Status compared(const ChunkPart& part, std::uint64_t units, const std::uint64_t* digests) {
  for (std::size_t i = 0; i < part.pieces.size(); ++i)
    if (part.pieces[i] != nullptr && !std::equal(digests + i * units, digests + (i + 1) * units, part.digests.data() + i * units))
      return {Code::kDataLoss, "the bytes do not match the digests of their chunk"};
  return {};
}

}  // namespace

Status CudaCopyEngine::load_parts_pinned(CopyStream& stream, std::span<const ChunkPart* const> parts,
                                         std::span<const DevicePtr> devices, std::uint64_t piece_bytes) const {
  const bool kernel = by_kernel(Direction::kLoad, piece_bytes);
  const std::uint64_t units = protocol::units_per_piece(piece_bytes);
  std::size_t pieces = 0;
  CopyList copies;
  for (const ChunkPart* part : parts) {
    pieces += part->pieces.size();
    if (!kernel) copies.add_pieces(false, {part->pieces, piece_bytes}, part->packed.data());
  }
  if (Status status = make_tables(stream, pieces, piece_bytes); !status.ok()) return status;
  if (Status status = stream.copy(copies); !status.ok()) return status;
  std::size_t first = 0;
  for (std::size_t i = 0; i < parts.size(); first += parts[i++]->pieces.size())
    if (Status status = run_kernel(stream, Direction::kLoad, kernel ? Move::kScatter : Move::kDigest,
                                   {parts[i]->pieces, piece_bytes}, devices[i], first);
        !status.ok())
      return status;
  if (Status status = stream.finish(); !status.ok()) return status;
  first = 0;
  for (std::size_t i = 0; i < parts.size(); first += parts[i++]->pieces.size())
    if (Status status = compared(*parts[i], units, stream.digests.data<std::uint64_t>() + first * units); !status.ok())
      return status;
  return {};
}

Status CudaCopyEngine::load_part_staged(CopyStream& stream, const ChunkPart& part, std::uint64_t piece_bytes) const {
  const std::uint64_t units = protocol::units_per_piece(piece_bytes);
  std::vector<std::uint64_t> table(part.pieces.size() * units);
  if (Status status = load_staged(stream, part.packed, {part.pieces, piece_bytes}, table); !status.ok()) return status;
  return compared(part, units, table.data());
}

Status CudaCopyEngine::load_parts(std::span<const ChunkPart> parts, std::uint64_t piece_bytes, const Fence* after) const {
  if (ended_) return {Code::kUnavailable, "copies from and to the GPU have ended in this engine"};
  std::vector<const ChunkPart*> direct;
  std::vector<DevicePtr> devices;
  const ContextScope scope(context_->driver(), context_->handle());
  if (!scope.status().ok()) return noted(scope.status());
  Result<CopyStreams::Lease> stream = streams_.take(after);
  if (!stream.ok()) return noted(stream.status());
  for (const ChunkPart& part : parts) {
    const std::optional<DevicePtr> device = kernels_ != nullptr ? pinned(part.packed) : std::nullopt;  // see load()
    if (device) {
      direct.push_back(&part);
      devices.push_back(*device);
    } else if (Status status = load_part_staged(**stream, part, piece_bytes); !status.ok()) {
      return noted(status);
    }
  }
  return direct.empty() ? Status() : noted(load_parts_pinned(**stream, direct, devices, piece_bytes));
}

}  // namespace larder::copy::cuda
