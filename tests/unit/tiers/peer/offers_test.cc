// The chunks that members offered: bounded, each until its time, and forgotten by name.
#include "sidecar/tiers/peer/offers.h"

#include <gtest/gtest.h>

namespace larder::peer {
namespace {

tiers::ChunkKey key_of(std::uint64_t n, std::uint64_t space = 1) {
  return {{space, 0}, {n, n}, 0, 0};
}
Offer offer(std::uint64_t until_ns, std::uint64_t generation = 1, std::uint64_t member = 1) {
  return {{generation, 4096, 4096, 7, 0}, member, until_ns};
}

// As peers.known_chunks of the tier bounds them.
TEST(PeerOffers, OldestOfferIsRemovedFirst) {
  Offers offers(3);
  for (std::uint64_t n = 1; n <= 5; ++n) offers.insert(key_of(n), offer(100), 0);
  EXPECT_EQ(offers.chunks(), 3U);
  EXPECT_EQ(offers.slot_bytes(), 3 * offer(100).facts.slot_bytes());
  for (std::uint64_t n = 1; n <= 5; ++n)
    EXPECT_EQ(offers.find(key_of(n), 0).has_value(), n > 2) << n;
  for (std::uint64_t i = 0; i < 100; ++i) offers.insert(key_of(5), offer(101 + i), 0);
  EXPECT_LE(offers.chunks(), 3U) << "one chunk over and over";
  EXPECT_TRUE(offers.find(key_of(5), 0).has_value());
}

TEST(PeerOffers, EachOfferExpires) {
  Offers offers(10);
  offers.insert(key_of(1), offer(100), 0);
  offers.insert(key_of(2), offer(200), 50);
  EXPECT_TRUE(offers.find(key_of(1), 99).has_value());
  EXPECT_FALSE(offers.find(key_of(1), 100).has_value());
  offers.insert(key_of(3), offer(300), 150);
  EXPECT_EQ(offers.chunks(), 2U) << "the ended one left";
}

TEST(PeerOffers, ALaterOfferReplacesAnEarlierOne) {
  Offers offers(10);
  offers.insert(key_of(1), offer(100, 1, 1), 0);
  offers.insert(key_of(1), offer(200, 2, 2), 0);
  EXPECT_EQ(offers.find(key_of(1), 150)->member, 2U);
  offers.erase(key_of(1), 1);
  EXPECT_TRUE(offers.find(key_of(1), 150).has_value()) << "of another generation";
  offers.erase(key_of(1), 2);
  EXPECT_FALSE(offers.find(key_of(1), 150).has_value());
}

// covers F-276
TEST(PeerOffers, OnlyTheGivenNamespaceIsForgotten) {
  Offers offers(10);
  offers.insert(key_of(1, 1), offer(100), 0);
  offers.insert(key_of(1, 2), offer(100), 0);
  EXPECT_EQ(offers.erase_namespace(protocol::NamespaceId{1, 0}), 1U);
  EXPECT_FALSE(offers.find(key_of(1, 1), 0).has_value());
  EXPECT_TRUE(offers.find(key_of(1, 2), 0).has_value());
  EXPECT_EQ(offers.erase_namespace({}), 1U);
  EXPECT_EQ(offers.chunks(), 0U);
}

}  // namespace
}  // namespace larder::peer
