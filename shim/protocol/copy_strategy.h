// CopyStrategy: how an engine with pages on a GPU copies. The engine writes the value into its
// session region, for larderd's status. A plain value; any 64 bits are valid.
#pragma once

#include <cstdint>
#include <string>

namespace larder::protocol {

struct CopyStrategy {
  enum class Kind : std::uint8_t {
    kNone = 0,       // not reported, or no GPU
    kChosen = 1,     // by kernels below these sizes, by the copy engines above
    kNoKernels = 2,  // no kernels for this GPU: loads go through staging memory
    // Memory cannot be registered on this GPU or in this container: all copies go through staging
    // memory.
    kNotRegistered = 3,
  };
  Kind kind = Kind::kNone;
  std::uint64_t stores_below = 0,
                loads_below = 0;  // bytes of a piece, in whole KiB, less than 16 MiB

  std::uint64_t packed() const {
    return static_cast<std::uint64_t>(kind) | (stores_below >> 10 & kMostKib) << 8 |
           (loads_below >> 10 & kMostKib) << 32;
  }
  static CopyStrategy unpacked(std::uint64_t packed) {
    const std::uint64_t kind = packed & 0xff;
    return {kind > static_cast<std::uint64_t>(Kind::kNotRegistered) ? Kind::kNone
                                                                    : static_cast<Kind>(kind),
            (packed >> 8 & kMostKib) << 10, (packed >> 32 & kMostKib) << 10};
  }
  // Such as "stores by the copy engines, loads below 32 KiB a piece by kernels"; empty for kNone.
  std::string in_words() const {
    const auto one = [](const char* name, std::uint64_t below) {
      return below == 0 ? std::string(name) + " by the copy engines"
                        : std::string(name) + " below " + std::to_string(below >> 10) +
                              " KiB a piece by kernels";
    };
    switch (kind) {
      case Kind::kNone: return {};
      case Kind::kChosen: return one("stores", stores_below) + ", " + one("loads", loads_below);
      case Kind::kNoKernels:
        return "by the copy engines, loads through staging memory: no kernels for this GPU";
      case Kind::kNotRegistered:
        return "by the copy engines, through staging memory: memory cannot be registered here";
    }
    return {};
  }

 private:
  static constexpr std::uint64_t kMostKib = 0x3fff;
};

}  // namespace larder::protocol
