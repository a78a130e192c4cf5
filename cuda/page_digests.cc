// CudaCopyEngine::digests(): digests pages in place by a kernel, without a copy. The kernel always
// runs on the lane of loads, because a request waits for loads. In front of the kernels of a load
// there may be one digest kernel of each other thread.
#include <algorithm>

#include "cuda/cuda_copy_engine.h"
#include "shim/protocol/checksum.h"

namespace larder::copy::cuda {
namespace {

// Leaves the digests of null pieces alone.
void take_digests(const PieceList& of, const std::uint64_t* digests, std::uint64_t* table) {
  const std::uint64_t units = protocol::units_per_piece(of.piece_bytes);
  for (std::size_t i = 0; i < of.pieces.size(); ++i)
    if (of.pieces[i] != nullptr) std::copy_n(digests + i * units, units, table + i * units);
}

}  // namespace

Status CudaCopyEngine::digests(const PieceList& of, std::span<std::uint64_t> table) const {
  if (kernels_ == nullptr)
    return {Code::kUnsupported, "without the copy kernels pages cannot be digested in place"};
  if (ended_) return {Code::kUnavailable, "copies from and to the GPU have ended in this engine"};
  const ContextScope scope(context_->driver(), context_->handle());
  if (!scope.status().ok()) return noted(scope.status());
  Result<CopyStreams::Lease> stream = streams_->take(of.after);
  if (!stream.ok()) return noted(stream.status());
  if (Status status = make_tables(**stream, of.pieces.size(), of.piece_bytes); !status.ok())
    return noted(status);
  const NamedPieces named = name_pieces(**stream, Direction::kLoad, of);
  if (Status status = run_kernels(**stream, Move::kDigest, CopyStream::Behind::kCopies, named, 0);
      !status.ok())
    return noted(status);
  if (Status status = (*stream)->finish(); !status.ok()) return noted(status);
  // Copied out while the stream is leased: the next copy clears the table.
  take_digests(of, (*stream)->digests.data<std::uint64_t>(), table.data());
  return {};
}

}  // namespace larder::copy::cuda
