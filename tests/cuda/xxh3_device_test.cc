// Compares the device's XXH3-64, compiled for the host, with protocol/checksum.h at every length of
// a unit.
#include "cuda/xxh3_device.cuh"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "shim/protocol/checksum.h"

namespace larder::copy {
namespace {

TEST(Xxh3DeviceTest, EveryUnitLengthMatchesXxh3) {
  std::mt19937_64 random(7);
  for (const std::size_t misalign : {0, 1, 3}) {
    std::vector<unsigned char> bytes(protocol::kDigestUnitBytes + misalign);
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
    const unsigned char* const unit = bytes.data() + misalign;
    for (std::uint32_t length = 1; length <= protocol::kDigestUnitBytes; ++length)
      ASSERT_EQ(xxh3::unit_digest(unit, length), protocol::unit_digest(unit, length))
          << length << " bytes";
  }
}

TEST(Xxh3DeviceTest, EveryBitCounts) {
  for (const std::uint32_t length : {1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 1024, 1025, 4096}) {
    std::vector<unsigned char> unit(length);
    const std::uint64_t zeros = xxh3::unit_digest(unit.data(), length);
    EXPECT_EQ(zeros, protocol::unit_digest(unit.data(), length));
    for (std::uint32_t bit = 0; bit < 8 * length; ++bit) {
      unit[bit / 8] = static_cast<unsigned char>(1U << bit % 8);
      ASSERT_NE(xxh3::unit_digest(unit.data(), length), zeros)
          << "bit " << bit << " of " << length << " bytes";
      unit[bit / 8] = 0;
    }
  }
}

}  // namespace
}  // namespace larder::copy
