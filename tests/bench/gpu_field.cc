#include "tests/bench/gpu_field.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "shim/protocol/checksum.h"

namespace larder::bench {
namespace {

constexpr std::uint64_t kAtOnceBytes = 64 << 20;  // of bytes that the host makes or reads

constexpr std::uint64_t kMostWords = std::uint64_t{1} << 40;  // of a field
std::uint64_t fields_made = 0;

void make_words(std::vector<std::uint64_t>& words, std::uint64_t first) {
  for (std::uint64_t i = 0; i < words.size(); ++i)
    words[i] = (first + i + 1) * 0x9e3779b97f4a7c15ULL;
}

}  // namespace

GpuField::GpuField(copy::testing_support::RealDevice& device, std::uint64_t bytes,
                   std::uint64_t piece_bytes, std::uint64_t chunk_bytes)
    : device_(device),
      bytes_(bytes),
      piece_bytes_(piece_bytes),
      chunk_bytes_(chunk_bytes),
      slot_bytes_(protocol::slot_bytes(chunk_bytes, piece_bytes)),
      first_word_(fields_made++ * kMostWords) {}

GpuField::~GpuField() {
  if (!arena_.empty()) ::munmap(arena_.data(), arena_.size());
  if (allocated_ != nullptr) device_.release(allocated_);
}

Result<std::unique_ptr<GpuField>> GpuField::make(copy::testing_support::RealDevice& device,
                                                 std::uint64_t bytes, std::uint64_t piece_bytes,
                                                 std::uint64_t chunk_bytes, int arena,
                                                 bool by_hand) {
  std::unique_ptr<GpuField> field(new GpuField(device, bytes, piece_bytes, chunk_bytes));
  if (Status status = field->allocate(by_hand); !status.ok()) return status;
  if (arena >= 0) {
    const std::uint64_t all = arena_bytes(bytes, piece_bytes, chunk_bytes);
    void* const memory = ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_SHARED, arena, 0);
    if (memory == MAP_FAILED) return Status::from_errno(errno, "mmap of the arena");
    field->arena_ = std::span(static_cast<std::byte*>(memory), all);
  }
  // 4099 is a prime that divides no number of pieces in use: each page comes once.
  const std::uint64_t pieces = bytes / piece_bytes;
  for (std::uint64_t i = 0; i < pieces; ++i)
    field->pieces_.push_back(field->pages_ + (i * 4099 + 17) % pieces * piece_bytes);
  return field;
}

Status GpuField::allocate(bool by_hand) {
  if (by_hand) {
    Result<std::unique_ptr<copy::testing_support::ExportableMemory>> memory =
        copy::testing_support::ExportableMemory::make(device_, bytes_);
    if (!memory.ok()) return memory.status();
    by_hand_ = std::move(memory).value();
    pages_ = by_hand_->first();
    return {};
  }
  pages_ = allocated_ = device_.allocate(bytes_);
  return pages_ != nullptr ? Status()
                           : Status(Code::kResourceExhausted,
                                    "the GPU has no " + std::to_string(bytes_ >> 20) + " MiB left");
}

std::uint64_t GpuField::arena_bytes(std::uint64_t bytes, std::uint64_t piece_bytes,
                                    std::uint64_t chunk_bytes) {
  return protocol::slot_bytes(chunk_bytes, piece_bytes) * (bytes / chunk_bytes);
}

copy::PieceList GpuField::chunk(std::size_t number) const {
  const std::size_t each = chunk_bytes_ / piece_bytes_;
  return {std::span(pieces_).subspan(number * each, each), piece_bytes_};
}

Status GpuField::write(std::uint64_t at, std::uint64_t bytes, const void* from) {
  if (device_.write(pages_ + at, from, bytes)) return {};
  return {Code::kUnavailable, "the pages cannot be written"};
}

Status GpuField::fill() {
  std::vector<std::uint64_t> words;
  for (std::uint64_t at = 0; at < bytes_; at += kAtOnceBytes) {
    words.resize(std::min(kAtOnceBytes, bytes_ - at) / 8);
    make_words(words, first_word_ + at / 8);
    if (Status status = write(at, words.size() * 8, words.data()); !status.ok()) return status;
  }
  return {};
}

Status GpuField::scribble() {
  const std::vector<std::uint64_t> nothing(std::min(kAtOnceBytes, bytes_) / 8);
  for (std::uint64_t at = 0; at < bytes_; at += kAtOnceBytes)
    if (Status status = write(at, std::min(kAtOnceBytes, bytes_ - at), nothing.data());
        !status.ok())
      return status;
  return {};
}

Status GpuField::check() {
  std::vector<std::uint64_t> words, wanted;
  for (std::uint64_t at = 0; at < bytes_; at += kAtOnceBytes) {
    words.resize(std::min(kAtOnceBytes, bytes_ - at) / 8);
    wanted.resize(words.size());
    make_words(wanted, first_word_ + at / 8);
    if (!device_.read(words.data(), pages_ + at, words.size() * 8))
      return {Code::kUnavailable, "the pages cannot be read"};
    if (words != wanted) return {Code::kDataLoss, "a byte on the pages is wrong"};
  }
  return {};
}

}  // namespace larder::bench
