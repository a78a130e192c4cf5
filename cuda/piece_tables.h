// The tables of a CopyStream for kernels: the address of each piece, and the digests that the
// kernels write. Owned by the thread that has the stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/copy_engine.h"
#include "cuda/copy_stream.h"

namespace larder::copy::cuda {

// Pieces with addresses in the tables of a stream, from number `first` on.
struct NamedPieces {
  Direction direction;
  std::size_t first, count;
  std::uint64_t piece_bytes;
};

// Makes tables for `pieces` pieces, with all digests 0. Errors as of PinnedBuffer::ensure().
Status make_tables(CopyStream& stream, std::size_t pieces, std::uint64_t piece_bytes);

// Writes the addresses of the list into the table. REQUIRES: make_tables() for all pieces.
NamedPieces name_pieces(CopyStream& stream, Direction direction, const PieceList& list,
                        std::size_t first = 0);

}  // namespace larder::copy::cuda
