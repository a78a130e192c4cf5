// Drops of namespaces alone: their steps on the server, and the operations that a drop ends or
// waits for.
#include "sidecar/tiers/remote/chunks/namespace_drops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/unit/tiers/remote/engine_parts.h"

namespace larder::remote::testing_support {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using tiers::Operation;
using tiers::testing_support::key_of;

class NamespaceDropsTest : public EngineParts {
 protected:
  OpPtr begin(Operation operation, std::uint64_t space) {
    const OpPtr op = add(operation, {key_of(0, space).namespace_id, {}, 0, 0});
    operation == Operation::kClear ? known_.hide_all() : known_.hide(op->command.key.namespace_id);
    drops_.begin(op);
    return op;
  }
  bool done() {
    return until([&] { return drops_.size() == 0; }, [&] { drops_.maintain(); });
  }
  NamespaceDrops drops_{services_, commands_, operations_};
};

TEST_F(NamespaceDropsTest, DropRemovesOnlyItsNamespace) {
  for (std::uint64_t i = 0; i < 3; ++i) store(record_of(i, 7, 1));
  store(record_of(9, 7, 2));
  const OpPtr drop = begin(Operation::kDrop, 1);
  EXPECT_FALSE(known_.find(key_of(1), 0).has_value());
  EXPECT_NE(drops_.of(key_of(0, 1).namespace_id), nullptr);
  EXPECT_EQ(drops_.of(key_of(0, 2).namespace_id), nullptr);
  EXPECT_TRUE(known_.hidden(key_of(0, 1).namespace_id));
  EXPECT_TRUE(done());
  EXPECT_EQ(drop->dropped, 3U);
  EXPECT_EQ(operations_.counters().chunks_dropped, 3U);
  EXPECT_THAT(answers(), ElementsAre(Code::kOk));
  EXPECT_FALSE(known_.hidden(key_of(0, 1).namespace_id)) << "shown again";
  EXPECT_TRUE(known_.find(key_of(9, 2), 0).has_value());
  EXPECT_EQ(server_.keys().size(), 2U);
}

TEST_F(NamespaceDropsTest, ClearRemovesAllNamespaces) {
  store(record_of(1, 7, 1));
  store(record_of(1, 7, 2));
  begin(Operation::kClear, 0);
  EXPECT_NE(drops_.of(key_of(0, 2).namespace_id), nullptr);
  EXPECT_TRUE(done());
  EXPECT_TRUE(server_.keys().empty());
}

TEST_F(NamespaceDropsTest, DropEndsUnstartedOperations) {
  const OpPtr put = add(Operation::kPut, key_of(1)), get = add(Operation::kGet, key_of(1)),
              probe = add(Operation::kProbe, {}), other = add(Operation::kPut, key_of(1, 2)),
              started = add(Operation::kGet, key_of(2));
  probe->command.keys = {key_of(3, 2), key_of(3, 1)};
  started->started = true;
  begin(Operation::kDrop, 1);
  EXPECT_TRUE(put->done && get->done && !probe->done && !other->done && !started->done);
  EXPECT_TRUE(probe->cancelled && started->cancelled && !other->cancelled);
}

TEST_F(NamespaceDropsTest, ADropWaitsForAStartedPutAndForItsRecord) {
  std::atomic<int> scans = 0;
  const HookScope hooked(server_,
                         [&](const FakeServer::Words& words) -> std::optional<std::string> {
                           scans += words[0] == "SCAN" ? 1 : 0;
                           return std::nullopt;
                         });
  const OpPtr put = add(Operation::kPut, key_of(1, 2));
  put->started = true;
  begin(Operation::kDrop, 1);
  rounds([&] { drops_.maintain(); });
  operations_.begin_record(put);
  operations_.finish(put, {Code::kDeadlineExceeded, "late"});
  rounds([&] { drops_.maintain(); });
  EXPECT_EQ(scans, 0);
  operations_.end_record(put);
  EXPECT_TRUE(done());
  EXPECT_EQ(scans, 1);
}

TEST_F(NamespaceDropsTest, RefusedDropFailsAndIsRetriedLater) {
  store(record_of(1, 7));
  const HookScope hooked(server_, [](const FakeServer::Words& words) -> std::optional<std::string> {
    return words[0] == "SCAN" ? std::optional<std::string>("-NOPERM this user has no right\r\n")
                              : std::nullopt;
  });
  const std::uint64_t before = clock_.now_ns();
  const OpPtr drop = begin(Operation::kDrop, 1);
  EXPECT_TRUE(until([&] { return drop->done; }, [&] { drops_.maintain(); }));
  EXPECT_THAT(answers(), ElementsAre(testing::Ne(Code::kOk)));
  ASSERT_NE(drops_.of(drop->command.key.namespace_id), nullptr);
  EXPECT_THAT(drops_.of(drop->command.key.namespace_id)->refused, HasSubstr("NOPERM"));
  EXPECT_GE(drops_.next_ns(0), before + 100'000'000) << "a pause";
  server_.set_hook({});
  drops_.scan_now();
  EXPECT_TRUE(done());
  EXPECT_TRUE(answers().empty()) << "one answer";
  EXPECT_TRUE(server_.keys().empty());
}

}  // namespace
}  // namespace larder::remote::testing_support
