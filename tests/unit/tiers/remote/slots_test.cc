#include "sidecar/tiers/remote/topology/slots.h"

#include <gtest/gtest.h>

namespace larder::remote {
namespace {

Reply number(std::int64_t value) {
  Reply reply;
  reply.kind = Reply::Kind::kInteger;
  reply.integer = value;
  return reply;
}

Reply bulk(const std::string& text) {
  Reply reply;
  reply.kind = Reply::Kind::kBulk;
  reply.text = text;
  return reply;
}

Reply list(std::vector<Reply> elements) {
  Reply reply;
  reply.kind = Reply::Kind::kArray;
  reply.elements = std::move(elements);
  return reply;
}

Reply node(const std::string& host, std::int64_t port) {
  return list({bulk(host), number(port), bulk("id"), list({})});
}

TEST(SlotsTest, SentinelAnswerNamesTheMaster) {
  const auto named = [](const std::string& host, const std::string& port) {
    Reply reply;
    reply.kind = Reply::Kind::kArray;
    reply.elements.resize(2);
    reply.elements[0].text = host;
    reply.elements[1].text = port;
    return parse_named(reply);
  };
  EXPECT_EQ(named("10.0.0.7", "6379"), (Endpoint{"10.0.0.7", 6379}));
  EXPECT_EQ(named("fe80::1", "7000"), (Endpoint{"fe80::1", 7000}));
  EXPECT_EQ(named("redis-0.redis", "7000"), (Endpoint{"redis-0.redis", 7000}));
  for (const auto& [host, port] : {std::pair("", "1"),
                                   {"a", ""},
                                   {"a", "0"},
                                   {"a", "65536"},
                                   {"a", "1x"},
                                   {"a b", "1"},
                                   {"\n", "1"}})
    EXPECT_EQ(named(host, port), std::nullopt) << host << " " << port;
  EXPECT_EQ(named(std::string(256, 'a'), "1"), std::nullopt);
  EXPECT_EQ(parse_named({}), std::nullopt);
}

TEST(SlotsTest, ASlotIsTheCrcOfTheKey) {
  EXPECT_EQ(slot_of("123456789"), 0x31c3);  // of the Cluster's specification
  EXPECT_EQ(slot_of("foo"), 12182);
  EXPECT_EQ(slot_of(""), 0);
}

TEST(SlotsTest, MapListsTheMasterOfEachRange) {
  const Reply map =
      list({list({number(0), number(99), node("10.0.0.1", 7000), node("10.0.0.9", 7000)}),
            list({number(100), number(100), node("", 7001)}),
            list({number(101), number(16383), node("::1", 7002)}),
            list({number(5), number(6), node("?", 7000)})});
  const std::optional<std::vector<SlotRange>> ranges = parse_slots(map, "asked");
  ASSERT_TRUE(ranges && ranges->size() == 3);
  EXPECT_EQ((*ranges)[0].master, (Endpoint{"10.0.0.1", 7000}));
  EXPECT_EQ((*ranges)[0].last, 99);
  EXPECT_EQ((*ranges)[0].replicas, (std::vector<Endpoint>{{"10.0.0.9", 7000}}));
  EXPECT_EQ((*ranges)[1].master, (Endpoint{"asked", 7001}));
  EXPECT_EQ((*ranges)[2].master, (Endpoint{"::1", 7002}));
  EXPECT_TRUE(parse_slots(list({}), "asked")->empty());
}

TEST(SlotsTest, MalformedMapIsRefused) {
  EXPECT_FALSE(parse_slots(number(1), "a"));
  EXPECT_FALSE(parse_slots(list({number(1)}), "a"));
  EXPECT_FALSE(parse_slots(list({list({number(5), number(4), node("a", 1)})}), "a"));
  EXPECT_FALSE(parse_slots(list({list({number(-1), number(4), node("a", 1)})}), "a"));
  EXPECT_FALSE(parse_slots(list({list({number(0), number(16384), node("a", 1)})}), "a"));
  EXPECT_FALSE(parse_slots(list({list({bulk("0"), number(4), node("a", 1)})}), "a"));
  for (const Reply& bad : {node("a", 0), node("a", 65536), node("a b", 1),
                           node(std::string(300, 'a'), 1), number(1), list({})})
    EXPECT_TRUE(parse_slots(list({list({number(0), number(4), bad})}), "a")->empty());
}

TEST(SlotsTest, RedirectionsNameAServer) {
  using What = Redirection::What;
  EXPECT_EQ(parse_redirection("MOVED 3999 127.0.0.1:6381", "a").what, What::kMoved);
  EXPECT_EQ(parse_redirection("MOVED 3999 127.0.0.1:6381", "a").to, (Endpoint{"127.0.0.1", 6381}));
  EXPECT_EQ(parse_redirection("ASK 1 ::1:6381", "a").what, What::kAsk);
  EXPECT_EQ(parse_redirection("ASK 1 ::1:6381", "a").to, (Endpoint{"::1", 6381}));
  EXPECT_EQ(parse_redirection("MOVED 1 :6381", "a").to, (Endpoint{"a", 6381}));
  EXPECT_EQ(parse_redirection("TRYAGAIN Multiple keys", "a").what, What::kAgain);
  EXPECT_EQ(parse_redirection("ERR no", "a").what, What::kNone);
  for (const char* bad :
       {"MOVED", "MOVED ", "MOVED 1", "MOVED 1 ", "MOVED 1 a", "MOVED 1 a:", "MOVED 1 a:0",
        "MOVED 1 a:65536", "MOVED 1 a:1x", "MOVED 1 a/b:1", "MOVED a:1"}) {
    EXPECT_EQ(parse_redirection(bad, "a").what, What::kMoved) << bad;
    EXPECT_EQ(parse_redirection(bad, "a").to.port, 0) << bad;
  }
}

}  // namespace
}  // namespace larder::remote
