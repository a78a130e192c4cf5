// A plug-in tier with its loop, for a plug-in that the test plays.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "sidecar/tiers/plugin/plugin_tier.h"
#include "sidecar/tiers/plugin/record.h"
#include "tests/conformance/tier_chunks.h"
#include "tests/eventually.h"
#include "tests/unit/tiers/plugin/fake_plugin.h"

namespace larder::plugin::testing_support {

using tiers::Ticket;
using tiers::testing_support::fill;
using tiers::testing_support::holds;
using tiers::testing_support::key_of;
using tiers::testing_support::Loop;
using tiers::testing_support::Slot;

class PluginFixture : public testing::Test {
 protected:
  static constexpr std::uint64_t kPayload = 64 << 10, kPiece = 16 << 10;

  void SetUp() override {
    char name[] = "/tmp/larder-plugin-XXXXXX";
    folder_ = ::mkdtemp(name);
    options.socket = folder_ + "/tier.plugin";
    options.url = "plugin://somewhere";
    options.region_bytes = 32 << 20;
  }
  void TearDown() override {
    loop.reset();
    tier.reset();
    std::filesystem::remove_all(folder_);
  }
  void open() {
    Result<std::unique_ptr<tiers::Tier>> opened = open_plugin_tier(clock, options);
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    tier = *std::move(opened);
    loop = std::make_unique<Loop>(*tier, clock);
  }
  std::unique_ptr<FakePlugin> connect() {
    auto fake = std::make_unique<FakePlugin>(options.socket);
    EXPECT_TRUE(well());
    return fake;
  }
  bool well() const {
    return test::eventually([this] { return !tier->state().degraded(); });
  }
  bool away() const {
    return test::eventually([this] { return !tier->state().takes_gets; });
  }

  // Begins a put or get of the chunk; the slot stays until the end of the test.
  Ticket put(std::uint64_t number, std::uint64_t generation = 1, std::uint64_t ms = 20'000) {
    slots_.push_back(std::make_unique<Slot>(protocol::slot_bytes(kPayload, kPiece)));
    facts = fill(slots_.back()->span(), number, generation, kPayload, kPiece);
    const Ticket ticket = loop->next();
    EXPECT_TRUE(
        tier->put(ticket, key_of(number), facts, slots_.back()->span(), loop->in_ms(ms)).ok());
    return ticket;
  }
  Ticket get(std::uint64_t number, std::uint64_t ms = 20'000) {
    slots_.push_back(std::make_unique<Slot>(protocol::slot_bytes(kPayload, kPiece)));
    const Ticket ticket = loop->next();
    EXPECT_TRUE(tier->get(ticket, key_of(number), slots_.back()->span(), loop->in_ms(ms)).ok());
    return ticket;
  }
  std::span<std::byte> last_slot() { return slots_.back()->span(); }
  Code ended(Ticket ticket) { return loop->ended(ticket).code(); }
  // The object of a chunk as another larderd would store it.
  std::string object_of(std::uint64_t number, std::uint64_t generation = 1) {
    Slot slot(protocol::slot_bytes(kPayload, kPiece));
    const tiers::ChunkFacts its = fill(slot.span(), number, generation, kPayload, kPiece);
    std::string object(kRecordBytes + slot.span().size(), '\0');
    const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(object.data()), object.size());
    encode_record({key_of(number), its}, bytes.first(kRecordBytes));
    std::ranges::copy(slot.span(), bytes.subspan(kRecordBytes).begin());
    return object;
  }
  std::string key(std::uint64_t number) { return object_key(options.prefix, key_of(number)); }

  base::MonotonicClock clock;
  PluginOptions options;
  std::unique_ptr<tiers::Tier> tier;
  std::unique_ptr<Loop> loop;
  tiers::ChunkFacts facts;  // of the last put

 private:
  std::string folder_;
  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace larder::plugin::testing_support
