#include "sidecar/tiers/remote/chunks/server_commands.h"

#include <algorithm>
#include <utility>

#include "sidecar/tiers/remote/chunks/record_age.h"

namespace larder::remote {

using tiers::Operation;

Request ServerCommands::request_of(const OpPtr& op, const std::vector<std::string_view>& words,
                                   const char* types, Then then) const {
  Request request;
  request.around.before = format_command(words);
  request.expect.types = types;
  // Maintenance has no deadline of a caller: owner 0 is never cancelled.
  request.owner = op == nullptr ? 0 : op->serial;
  if (op != nullptr)
    request.tells = op->command.operation == Operation::kPut ? Lane::kWrites : Lane::kReads;
  request.then = std::move(then);
  return request;
}

Status ServerCommands::ask(Lane lane, const OpPtr& op, const std::vector<std::string_view>& words,
                           const char* types, Then then) {
  return backend_.ask(lane, words[1], request_of(op, words, types, std::move(then)));
}

void ServerCommands::unlink(const std::vector<std::string>& keys, std::size_t writers, Then then) {
  struct Sum {
    // `then` is called once, even if all replies come before the end of this function.
    std::size_t waiting = 1;  // this function
    Status lost;
    Reply reply;
    Then then;
  };
  // Shared by the callbacks of all commands; the last one calls `then`.
  const auto sum = std::make_shared<Sum>();
  sum->reply.kind = Reply::Kind::kInteger;
  sum->then = std::move(then);
  const auto came = [sum](const Status& lost, const Reply& reply) {
    if (sum->lost.ok()) sum->lost = lost;
    if (lost.ok() && reply.kind == Reply::Kind::kError && sum->reply.kind != Reply::Kind::kError)
      sum->reply = reply;
    if (lost.ok() && sum->reply.kind == Reply::Kind::kInteger)
      sum->reply.integer += std::max<std::int64_t>(reply.integer, 0);
    if (--sum->waiting == 0 && sum->then) sum->then(sum->lost, sum->reply);
  };
  for (const std::vector<std::string_view>& together : backend_.together(keys)) {
    std::vector<std::string_view> words{"UNLINK"};
    words.insert(words.end(), together.begin(), together.end());
    // A part in flight may be on any write connection, and only one connection keeps the order.
    // The command goes behind all writes.
    for (std::size_t writer = 0; writer < writers; ++writer) {
      ++sum->waiting;
      Request request = request_of(nullptr, words, ":", came);
      request.writer = writer;
      if (const Status asked = backend_.ask(Lane::kWrites, words[1], std::move(request));
          !asked.ok())
        came(asked, {});
    }
  }
  Reply none;
  none.kind = Reply::Kind::kInteger;
  came({}, none);
}

bool ServerCommands::answered(const OpPtr& op, const Status& lost, const Reply& reply) {
  Status status = lost;
  if (lost.ok() && reply.kind == Reply::Kind::kError) status = status_of(meaning_of(reply.text));
  if (status.ok()) return true;
  // The first failure is the cause; later ones often follow from the first.
  if (op->failed.ok()) op->failed = std::move(status);
  return false;
}

Status ServerCommands::read_record(const OpPtr& op, const tiers::ChunkKey& key, Then then) {
  const std::string name = record_key(options_.prefix, key);
  if (Status refused = backend_.refusal(name, Lane::kReads); !refused.ok()) return refused;
  // GETRANGE and not GET: a foreign value under the key may have 512 MB.
  return ask(Lane::kReads, op, {"GETRANGE", name, "0", kRecordEnd}, "$", std::move(then));
}

Status ServerCommands::refusal_of(const Record& record, Lane lane) const {
  // A single server has one health for all keys, which the tier has checked already.
  if (options_.mode != Mode::kCluster) return {};
  Status refused = backend_.refusal(record_key(options_.prefix, record.key), lane);
  for (std::uint32_t number = 0; refused.ok() && number < record.parts(); ++number)
    refused = backend_.refusal(part_key(options_.prefix, record, number), lane);
  return refused;
}

void ServerCommands::know(const Record& record, std::uint64_t left_ms) {
  known_.insert(record, options_.ttl_ms == 0 ? UINT64_MAX : clock_.now_ns() + left_ms * 1'000'000);
}

std::uint64_t ServerCommands::left_ms(const Record& record) const {
  const std::uint64_t age_ms = record.facts.since_s == 0 ? 0 : age_ms_of(record.facts.since_s);
  // The record has whole seconds. An upper bound may cause one miss; a lower bound would hide an
  // existing chunk.
  const std::uint64_t least_age_ms = age_ms < 1000 ? 0 : age_ms - 1000;
  return options_.ttl_ms - std::min(least_age_ms, options_.ttl_ms);
}

}  // namespace larder::remote
