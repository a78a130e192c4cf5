// hiredis as in its README: one connection, a command and its reply, then the next; a chunk is one
// value.
#include <hiredis/hiredis.h>

#include <cstring>

#include "tests/bench/remote_arms.h"

namespace larder::bench {
namespace {

std::string key_of(std::uint64_t name) {
  return "hiredis:" + std::to_string(name);
}

class HiredisArm final : public RemoteArm {
 public:
  explicit HiredisArm(const Place& place)
      : RemoteArm("hiredis"),
        pid_(place.pid),
        context_(redisConnect("127.0.0.1", place.port), &redisFree) {
    must(context_ != nullptr && context_->err == 0, "hiredis: no connection");
  }

  Cost set(const Chunks& chunks, std::uint64_t first) override {
    Stopwatch watch(pid_);
    watch.start();
    for (std::size_t i = 0; i < chunks.count(); ++i) {
      const std::string key = key_of(first + i);
      const Reply reply =
          ask("SET %b %b", key.data(), key.size(), chunks.source(i).data(), chunks.payload());
      must(reply && reply->type == REDIS_REPLY_STATUS, "hiredis: SET");
    }
    watch.stop();
    return watch.cost();
  }

  Cost get(const Chunks& chunks, std::uint64_t first) override {
    Stopwatch watch(pid_);
    for (std::size_t i = 0; i < chunks.count(); ++i) {
      const std::string key = key_of(first + i);
      watch.start();
      Reply reply = ask("GET %b", key.data(), key.size());
      watch.stop();
      must(reply && reply->type == REDIS_REPLY_STRING && reply->len == chunks.payload(),
           "hiredis: GET");
      must(std::memcmp(reply->str, chunks.source(i).data(), chunks.payload()) == 0,
           "hiredis: wrong bytes");
      watch.start();
      reply.reset();
      watch.stop();
    }
    return watch.cost();
  }

 private:
  struct Free {
    void operator()(redisReply* reply) const { freeReplyObject(reply); }
  };
  using Reply = std::unique_ptr<redisReply, Free>;
  template <typename... Arguments>
  Reply ask(const char* format, Arguments... arguments) {
    return Reply(static_cast<redisReply*>(redisCommand(context_.get(), format, arguments...)));
  }

  const pid_t pid_;
  const std::unique_ptr<redisContext, void (*)(redisContext*)> context_;
};

}  // namespace

std::unique_ptr<RemoteArm> hiredis_arm(const Place& place) {
  return std::make_unique<HiredisArm>(place);
}

}  // namespace larder::bench
