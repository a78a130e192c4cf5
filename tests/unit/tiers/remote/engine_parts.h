// The parts of a remote engine on a fake server, without the engine: the test calls each part.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "sidecar/tiers/remote/chunks/operation_table.h"
#include "sidecar/tiers/remote/chunks/server_commands.h"
#include "sidecar/tiers/remote/format.h"
#include "tests/conformance/tier_chunks.h"
#include "tests/unit/tiers/remote/fake_server.h"

namespace larder::remote::testing_support {

class EngineParts : public testing::Test {
 protected:
  EngineParts() {
    EXPECT_TRUE(backend_.open().ok());
    EXPECT_TRUE(until([&] { return backend_.ready(); }));
  }
  // Rounds of the servers, each with `step`, until the condition holds.
  bool until(const std::function<bool()>& happens, const std::function<void()>& step = {}) {
    for (const std::uint64_t end = clock_.now_ns() + 30'000'000'000;
         clock_.now_ns() < end && !happens();) {
      if (step) step();
      backend_.flush();
      backend_.turn(1'000'000);
    }
    return happens();
  }
  // Several rounds: the server has time to answer.
  void rounds(const std::function<void()>& step) {
    int count = 0;
    EXPECT_TRUE(until([&] { return count >= 20; },
                      [&] {
                        step();
                        ++count;
                      }));
  }
  static Record record_of(std::uint64_t number, std::uint64_t generation, std::uint64_t space = 1) {
    Record record{tiers::testing_support::key_of(number, space), {generation, 8192, 8192, number}};
    record.writing = generation + 100;
    return record;
  }
  // Stores the record and its part, like a put, and knows the chunk.
  void store(const Record& record) {
    const std::string part = part_key(options_.prefix, record, 0),
                      key = record_key(options_.prefix, record.key);
    int stored = 0;
    for (const auto& [name, value] :
         {std::pair(part, std::string("bytes")), std::pair(key, encode_record(record))})
      EXPECT_TRUE(commands_
                      .ask(Lane::kWrites, nullptr, {"SET", name, value}, "+",
                           [&](const Status& lost, const Reply& reply) {
                             stored += lost.ok() && reply.kind == Reply::Kind::kStatus ? 1 : 0;
                           })
                      .ok());
    ASSERT_TRUE(until([&] { return stored == 2; }));
    commands_.know(record, 0);
  }
  OpPtr add(tiers::Operation operation, const tiers::ChunkKey& key) {
    Command command;
    command.operation = operation;
    command.key = key;
    command.deadline_ns = UINT64_MAX;
    return operations_.add(command);
  }
  // The results of the operations that ended since the last call.
  std::vector<Code> answers() {
    std::vector<Outcome> outcomes;
    operations_.take_outcomes(outcomes);
    std::vector<Code> codes;
    for (const Outcome& outcome : outcomes) codes.push_back(outcome.message.status.code());
    return codes;
  }

  base::MonotonicClock clock_;
  FakeServer server_;
  RemoteOptions options_;
  KnownChunks known_{100, nullptr};
  Backend backend_{options_with_server(), clock_, {[] {}, [] {}}};
  EngineServices services_{clock_, options_, known_, backend_};
  ServerCommands commands_{services_};
  OperationTable operations_{clock_, [](const OpPtr&, const Status&) {}};

 private:
  const RemoteOptions& options_with_server() {
    options_.unix_path = server_.socket();
    return options_;
  }
};

}  // namespace larder::remote::testing_support
