#include "operator/webhook/client_hello.h"

#include <gtest/gtest.h>

#include <string>

namespace larder::webhook {
namespace {

// A record that begins with a message, both with their announced lengths.
std::string first_bytes(int type, int version, std::size_t record, int message_type,
                        std::size_t message) {
  const auto byte = [](std::size_t value) { return static_cast<char>(value & 0xff); };
  std::string bytes{byte(static_cast<std::size_t>(type)),
                    byte(static_cast<std::size_t>(version)),
                    1,
                    byte(record >> 8),
                    byte(record),
                    byte(static_cast<std::size_t>(message_type)),
                    byte(message >> 16),
                    byte(message >> 8),
                    byte(message)};
  return bytes;
}

TEST(ClientHelloTest, FirstRecordMustBeComplete) {
  const std::string start = first_bytes(22, 3, 512, 1, 508);
  for (std::size_t count = 0; count < kHelloStart; ++count)
    EXPECT_EQ(hello_bytes(start.substr(0, count)), kHelloStart) << count;
  EXPECT_EQ(hello_bytes(start), 517U);
  EXPECT_EQ(hello_bytes(start + std::string(512, 'x')), 517U) << "whatever follows";
  EXPECT_EQ(hello_bytes(first_bytes(22, 3, 100, 1, 508)), 105U)
      << "the rest of it is in another record";
}

TEST(ClientHelloTest, OtherBytesAreNotAwaited) {
  EXPECT_EQ(hello_bytes("GET / HTTP/1.1"), 0U);
  EXPECT_EQ(hello_bytes("G"), 0U) << "at its first byte";
  EXPECT_EQ(hello_bytes(first_bytes(23, 3, 512, 1, 508)), 0U);
  EXPECT_EQ(hello_bytes(first_bytes(22, 2, 512, 1, 508)), 0U);
  EXPECT_EQ(hello_bytes(first_bytes(22, 3, 512, 2, 508)), 0U);
  EXPECT_EQ(hello_bytes(first_bytes(22, 3, 0, 1, 508)), 0U);
}

TEST(ClientHelloTest, OversizedHelloIsRefused) {
  EXPECT_EQ(hello_bytes(first_bytes(22, 3, kMostHello, 1, kMostHello - 4)), kMostHello + 5);
  EXPECT_EQ(hello_bytes(first_bytes(22, 3, kMostHello + 1, 1, 508)), 0U);
  EXPECT_EQ(hello_bytes(first_bytes(22, 3, 512, 1, kMostHello + 1)), 0U)
      << "OpenSSL would make room for all of it at once";
}

}  // namespace
}  // namespace larder::webhook
