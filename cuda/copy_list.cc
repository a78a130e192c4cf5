#include "cuda/copy_list.h"

#include <string>

namespace larder::copy::cuda {
namespace {

// An error of the device itself. Another kind of copy would fail too, or must not be tried.
bool is_of_the_device(ResultCode result) {
  return result == kOutOfMemory || is_capture_error(result) ||
         (result >= kIllegalAddress && result < kNotPermitted);
}

Status copy_one_by_one(const Driver& driver, const CopyList& list, Handle stream) {
  for (std::size_t i = 0; i < list.bytes.size(); ++i)
    if (Status status = driver.status(
            driver->memcpy_async(list.to[i], list.from[i], list.bytes[i], stream), "cuMemcpyAsync");
        !status.ok())
      return status;
  return {};
}

}  // namespace

void CopyList::add(DevicePtr to_address, DevicePtr from_address, std::size_t count) {
  to.push_back(to_address);
  from.push_back(from_address);
  bytes.push_back(count);
}

void CopyList::add_pieces(bool gather, const PieceList& list, const DeviceRange& packed) {
  for (std::size_t i = 0; i < list.pieces.size(); ++i) {
    // A null piece is left out, for example a block outside of a sliding window.
    if (list.pieces[i] == nullptr) continue;
    auto piece = reinterpret_cast<DevicePtr>(list.pieces[i]);
    packed.for_each(i * list.piece_bytes, list.piece_bytes,
                    [&](DevicePtr in_packed, std::size_t count) {
                      gather ? add(in_packed, piece, count) : add(piece, in_packed, count);
                      piece += count;
                    });
  }
}

Status BatchUse::copy(const Driver& driver, CopyList& list, Handle stream) {
  if (list.bytes.empty()) return {};
  // A driver before CUDA 12.8 has no batches. One copy gains nothing from a batch.
  if (!driver.has_batch() || !wanted_ || list.bytes.size() == 1)
    return copy_one_by_one(driver, list, stream);
  CopyAttributes attributes;
  // The driver may read sources early under the other orders, before the engine has written its
  // page.
  attributes.source_access_order = kAccessOrderStream;  // mutation: batch-source-order
  // A hint to the driver: leave the multiprocessors to the model.
  attributes.flags = kBesideCompute;
  std::size_t start = 0, failed = 0;
  const ResultCode result =
      driver->memcpy_batch(list.to.data(), list.from.data(), list.bytes.data(), list.bytes.size(),
                           &attributes, &start, 1, &failed, stream);
  if (result == kSuccess) return {};
  const Status status = driver.status(result, "cuMemcpyBatchAsync");
  if (is_of_the_device(result)) return status;  // mutation: batch-device-error
  stop(result, status.text() + ", copy " + std::to_string(failed) + " of " +
                   std::to_string(list.bytes.size()));
  // Some copies may run twice, with the same bytes to the same place.
  return copy_one_by_one(driver, list, stream);  // mutation: batch-fallback
}

void BatchUse::stop(ResultCode result, std::string_view why) {
  if (wanted_.exchange(false) && result != kNotSupported)
    log_("warning", "copies of a GPU are made one by one from here on, and not in batches: " +
                        std::string(why));
}

}  // namespace larder::copy::cuda
