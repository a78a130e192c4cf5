// A MemoryImporter without a device: memory of memfds, copied by the host's engine. A test can make
// it refuse, hold a copy, and fail a copy.
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <memory>
#include <new>
#include <system_error>

#include "cuda/memory_import.h"
#include "tests/unit/client/copies.h"

namespace larder::transfer::testing_support {

inline Fd memory_file(std::size_t bytes) {
  Fd file(::memfd_create("exported", MFD_CLOEXEC));
  [[maybe_unused]] const int sized = ::ftruncate(file.get(), static_cast<off_t>(bytes));
  return file;
}

inline copy::MemoryHandle handle_of(Fd file, std::uint64_t bytes) {
  copy::MemoryHandle handle;
  handle.kind = protocol::MemoryKind::kDescriptor;
  handle.fd = std::move(file);
  handle.size_bytes = bytes;
  return handle;
}

// Shared by a test and its importers. All thread-safe.
struct HostDevice {
  std::atomic<int> open{0};  // allocations that are open by now
  std::atomic<int> opened{0};
  std::atomic<int> engines{0};  // made of this memory
  std::atomic<bool> gated{false};
  std::atomic<bool> failing{false};
  std::atomic<bool> without_memory{false};  // for an engine
  // calls throw std::bad_alloc and std::system_error by turns
  std::atomic<bool> throws{false};
  std::atomic<int> thrown{0};
  std::atomic<bool> without_threads{false};  // for the preparation of the arena
  client::testing_support::Gate gate;
  std::atomic<bool> opens_slowly{false};
  // of the first that is opened slowly; later ones are opened at once
  client::testing_support::Gate opening;
  std::atomic<bool> closes_slowly{false};
  client::testing_support::Gate closing;
  copy::TransferRefusal refusal;  // of look()

  void throw_if_told() {
    if (!throws) return;
    if (thrown++ % 2 == 0) throw std::bad_alloc();
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  }
};

class HostMemory final : public copy::ImportedMemory {
 public:
  HostMemory(std::shared_ptr<HostDevice> device, Mapping mapping)
      : device_(std::move(device)), mapping_(std::move(mapping)) {
    ++device_->open;
    ++device_->opened;
  }
  ~HostMemory() override {
    if (device_->closes_slowly) {
      device_->closing.enter();
      device_->closing.pass();
    }
    --device_->open;
  }
  std::span<std::byte> bytes() const override { return {mapping_.data(), mapping_.size()}; }

 private:
  const std::shared_ptr<HostDevice> device_;
  const Mapping mapping_;
};

class GatedCopies final : public client::testing_support::HostCopies {
 public:
  explicit GatedCopies(std::shared_ptr<HostDevice> device) : device_(std::move(device)) {}
  Result<std::uint64_t> store(const copy::PieceList& from,
                              std::span<std::byte> slot) const override {
    if (Status status = pass(); !status.ok()) return status;
    return HostCopies::store(from, slot);
  }
  Status load(std::span<const std::byte> slot, std::uint64_t root,
              const copy::PieceList& to) const override {
    if (Status status = pass(); !status.ok()) return status;
    return HostCopies::load(slot, root, to);
  }
  std::unique_ptr<copy::ReadyMemory> make_ready(std::span<std::byte> memory,
                                                int file) const override {
    if (device_->without_threads)
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    return HostCopies::make_ready(memory, file);
  }

 private:
  Status pass() const {
    device_->throw_if_told();
    device_->gate.enter();
    if (device_->gated) device_->gate.pass();
    return device_->failing ? Status(Code::kUnavailable, "cuMemcpyAsync: made up") : Status();
  }
  const std::shared_ptr<HostDevice> device_;
};

class HostImporter final : public copy::MemoryImporter {
 public:
  explicit HostImporter(std::shared_ptr<HostDevice> device) : device_(std::move(device)) {}
  void prepare() override { device_->throw_if_told(); }
  copy::TransferRefusal look(const copy::DeviceId&) override {
    device_->throw_if_told();
    return device_->refusal;
  }
  copy::TransferRefusal open(const copy::DeviceId&, copy::MemoryHandle handle,
                             std::unique_ptr<copy::ImportedMemory>& opened) override {
    if (device_->opens_slowly && device_->opening.enter() == 0) device_->opening.pass();
    struct stat file {};
    if (handle.kind != protocol::MemoryKind::kDescriptor || ::fstat(handle.fd.get(), &file) != 0)
      return {protocol::TransferReason::kNotOpened, "no descriptor"};
    if (static_cast<std::uint64_t>(file.st_size) < handle.size_bytes)
      return {protocol::TransferReason::kSize, "smaller than said"};
    Result<Mapping> mapping = Mapping::map_shared(handle.fd, handle.size_bytes,
                                                  PROT_READ | PROT_WRITE, "exported memory");
    if (!mapping.ok()) return {protocol::TransferReason::kNotOpened, mapping.status().text()};
    opened = std::make_unique<HostMemory>(device_, std::move(*mapping));
    return {};
  }
  Result<std::unique_ptr<copy::CopyEngine>> engine(const copy::ImportedMemory&,
                                                   copy::Log) override {
    if (device_->without_memory) throw std::bad_alloc();
    ++device_->engines;
    return std::unique_ptr<copy::CopyEngine>(std::make_unique<GatedCopies>(device_));
  }

 private:
  const std::shared_ptr<HostDevice> device_;
};

}  // namespace larder::transfer::testing_support
