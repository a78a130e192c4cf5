#include "cuda/piece_tables.h"

#include <cstring>

#include "shim/protocol/checksum.h"

namespace larder::copy::cuda {

Status make_tables(CopyStream& stream, std::size_t pieces, std::uint64_t piece_bytes) {
  const std::size_t digest_bytes =
      pieces * protocol::units_per_piece(piece_bytes) * sizeof(std::uint64_t);
  if (Status status = stream.pieces.ensure(pieces * sizeof(DevicePtr)); !status.ok()) return status;
  if (Status status = stream.digests.ensure(digest_bytes); !status.ok()) return status;
  // Clears the digests of an earlier copy.
  std::memset(stream.digests.data<std::byte>(), 0, digest_bytes);
  return {};
}

NamedPieces name_pieces(CopyStream& stream, Direction direction, const PieceList& list,
                        std::size_t first) {
  DevicePtr* const addresses = stream.pieces.data<DevicePtr>() + first;
  for (std::size_t i = 0; i < list.pieces.size(); ++i)
    // A null piece keeps the address 0, which the kernels skip; its digests stay 0.
    addresses[i] = reinterpret_cast<DevicePtr>(list.pieces[i]);
  return {direction, first, list.pieces.size(), list.piece_bytes};
}

}  // namespace larder::copy::cuda
