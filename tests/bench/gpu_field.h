// GpuField: the two ends of a benchmark's copies: pages on a GPU in the order of a shuffled block
// table, and slots in an arena. The arena is another process's memory, like larderd's. Every byte
// of the pages is known, and the bytes of two fields of a process differ.
//
// Owned by one thread; others may use chunk() and slot() meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda/copy_engine.h"
#include "tests/cuda/exportable_memory.h"
#include "tests/cuda/real_device.h"

namespace larder::bench {

class GpuField {
 public:
  // `bytes` of pages in pieces, with this number of pieces in a chunk. kResourceExhausted: too
  // little memory on one side. `device` outlives the field. `arena` is a file of arena_bytes() that
  // another process made and keeps; the field has a mapping of its own. Below 0: no slots, and no
  // slot may be used. `by_hand`: the pages lie in memory that is mapped by hand and can be shared.
  // REQUIRES: chunk_bytes a multiple of piece_bytes, bytes one of chunk_bytes.
  static Result<std::unique_ptr<GpuField>> make(copy::testing_support::RealDevice& device,
                                                std::uint64_t bytes, std::uint64_t piece_bytes,
                                                std::uint64_t chunk_bytes, int arena,
                                                bool by_hand = false);
  static std::uint64_t arena_bytes(std::uint64_t bytes, std::uint64_t piece_bytes,
                                   std::uint64_t chunk_bytes);
  ~GpuField();
  GpuField(const GpuField&) = delete;
  GpuField& operator=(const GpuField&) = delete;

  // The pages get unique bytes, which no other address has, here or in another field.
  Status fill();
  // The pages lose these bytes: check() then proves a load.
  Status scribble();
  // kDataLoss: the bytes of a page differ from those of fill().
  Status check();

  std::size_t chunks() const { return bytes_ / chunk_bytes_; }
  copy::PieceList chunk(std::size_t number) const;
  std::span<std::byte> slot(std::size_t number) const {
    return arena_.subspan(number * slot_bytes_, slot_bytes_);
  }
  std::span<std::byte> arena() const { return arena_; }
  std::byte* pages() const { return pages_; }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t chunk_bytes() const { return chunk_bytes_; }
  copy::testing_support::RealDevice& device() const { return device_; }

 private:
  GpuField(copy::testing_support::RealDevice& device, std::uint64_t bytes,
           std::uint64_t piece_bytes, std::uint64_t chunk_bytes);
  Status allocate(bool by_hand);
  Status write(std::uint64_t at, std::uint64_t bytes, const void* from);

  copy::testing_support::RealDevice& device_;
  const std::uint64_t bytes_, piece_bytes_, chunk_bytes_, slot_bytes_;
  const std::uint64_t first_word_;
  std::unique_ptr<copy::testing_support::ExportableMemory> by_hand_;  // or
  std::byte* allocated_ = nullptr;
  std::byte* pages_ = nullptr;  // in one of these
  std::span<std::byte> arena_;
  std::vector<std::byte*> pieces_;
};

}  // namespace larder::bench
