// larder.h from outside: every function with wrong, absent and old arguments, and without any
// larderd.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "shim/capi/larder.h"

namespace {

class CapiTest : public testing::Test {
 protected:
  CapiTest() {
    larder_options options{};
    options.struct_bytes = sizeof(options);
    options.copy_threads = 1;
    options.socket = "/nonexistent/larder.sock";
    EXPECT_EQ(larder_open(&options, &client_), LARDER_OK);
  }
  ~CapiTest() override { larder_close(client_); }

  larder_status set_namespace() {
    const larder_group group{4096, 2, 1};
    larder_namespace ns{};
    ns.struct_bytes = sizeof(ns);
    ns.shard_count = 1;
    ns.fingerprint = "engine: capi test\n";
    ns.groups = &group;
    ns.group_count = 1;
    ns.chunk_tokens = 16;
    return larder_set_namespace(client_, &ns);
  }
  larder_status register_pages() {
    const larder_pages layers[] = {{pages_.data(), 4096, 4096, 4},
                                   {pages_.data() + 16384, 4096, 4096, 4}};
    return larder_register_pages(client_, 0, layers, 2);
  }
  larder_transfer transfer() {
    larder_transfer t{};
    t.struct_bytes = sizeof(t);
    t.hashes = {hash_, 16, 1, 0, 0};
    t.pages = &page_;
    t.page_count = 1;
    return t;
  }

  larder_client* client_ = nullptr;
  std::vector<char> pages_ = std::vector<char>(32768);
  const std::uint8_t hash_[16] = {1, 2, 3};
  const std::uint32_t page_ = 1;
};

TEST(Capi, NamesAndIds) {
  EXPECT_STREQ(larder_status_text(LARDER_DATA_LOSS), "data loss");
  EXPECT_STREQ(larder_status_text(static_cast<larder_status>(15)), "unknown code");
  EXPECT_NE(std::string(larder_version()).find("protocol 1.11"), std::string::npos);
  char hex[33];
  ASSERT_EQ(larder_namespace_id("engine: vllm\n", hex, sizeof(hex)), LARDER_OK);
  EXPECT_STREQ(hex, "258dc23d19688895675f4994de3a1b65");
  EXPECT_EQ(larder_namespace_id("x", hex, 32), LARDER_INVALID_ARGUMENT);
}

TEST(Capi, NullIsRefusedEverywhere) {
  larder_client* client = nullptr;
  EXPECT_EQ(larder_open(nullptr, &client), LARDER_INVALID_ARGUMENT);
  larder_options options{};
  EXPECT_EQ(larder_open(&options, &client), LARDER_INVALID_ARGUMENT) << "no struct_bytes";
  larder_close(nullptr);
  EXPECT_EQ(larder_lookup(nullptr, nullptr), 0U);
  EXPECT_EQ(larder_poll(nullptr, nullptr, 1, 0), 0U);
  EXPECT_EQ(larder_next_log(nullptr, nullptr, 0), 0U);
  EXPECT_EQ(larder_drop_namespace(nullptr), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_close_namespace(nullptr, 1, LARDER_CLOSE_DROP), LARDER_INVALID_ARGUMENT);
  larder_release(nullptr, 1);
  EXPECT_EQ(larder_get_lower_tiers(nullptr, nullptr), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_reachable(nullptr, nullptr), 0U);
  EXPECT_EQ(larder_last_reachable(nullptr, nullptr), 0U);
  EXPECT_EQ(larder_fetch(nullptr, nullptr, 1, nullptr), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_fetch_poll(nullptr, 1, 0, nullptr), LARDER_INVALID_ARGUMENT);
  larder_fetch_end(nullptr, 1);
  EXPECT_EQ(larder_probe(nullptr, nullptr, 1, nullptr), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_probe_each(nullptr, nullptr, 1, nullptr), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_probe_poll(nullptr, 1, 0, nullptr), LARDER_INVALID_ARGUMENT);
  larder_probe_end(nullptr, 1);
  EXPECT_EQ(larder_after_stream(nullptr, nullptr), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_pages_leave(nullptr, 0), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_pages_are_back(nullptr), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_load_by_layer(nullptr, nullptr, nullptr), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_wait_layer(nullptr, 1, 0, 0), LARDER_INVALID_ARGUMENT);
}

TEST(Capi, FileHashNeedsNoClient) {
  char path[] = "/tmp/larder-capi-XXXXXX";
  const int fd = ::mkstemp(path);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::write(fd, "abc", 3), 3);
  ::close(fd);
  larder_file_hash file{};
  char why[16];
  EXPECT_EQ(larder_hash_file(path, nullptr, &file, why, sizeof(why)), LARDER_INVALID_ARGUMENT)
      << "no struct_bytes";
  file.struct_bytes = sizeof(file);
  ASSERT_EQ(larder_hash_file(path, nullptr, &file, nullptr, 0), LARDER_OK);
  EXPECT_EQ(file.digest[0], 0x06);  // printf abc | xxh128sum
  EXPECT_EQ(file.digest[15], 0x50);
  EXPECT_EQ(file.size_bytes, 3U);
  const std::int32_t stop = 1;
  EXPECT_EQ(larder_hash_file(path, &stop, &file, why, sizeof(why)), LARDER_DEADLINE_EXCEEDED);
  EXPECT_EQ(std::string(why), "reading /tmp/la") << "cut to its room";
  ::unlink(path);
  EXPECT_EQ(larder_hash_file(path, nullptr, &file, why, sizeof(why)), LARDER_NOT_FOUND);
  EXPECT_EQ(larder_hash_file(nullptr, nullptr, &file, why, sizeof(why)), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_hash_file(path, nullptr, nullptr, why, sizeof(why)), LARDER_INVALID_ARGUMENT);
}

TEST_F(CapiTest, SetupOrderIsEnforced) {
  std::uint64_t ticket = 0;
  larder_transfer t = transfer();
  EXPECT_EQ(larder_load(client_, &t, &ticket), LARDER_FAILED_PRECONDITION);
  EXPECT_EQ(register_pages(), LARDER_FAILED_PRECONDITION);
  EXPECT_EQ(set_namespace(), LARDER_OK);
  EXPECT_EQ(set_namespace(), LARDER_FAILED_PRECONDITION);
  EXPECT_EQ(larder_load(client_, &t, &ticket), LARDER_FAILED_PRECONDITION);
  EXPECT_EQ(register_pages(), LARDER_OK);
  EXPECT_EQ(larder_after_stream(client_, nullptr), LARDER_OK)
      << "pages in host memory have no stream";
  EXPECT_EQ(larder_pages_leave(client_, 0), LARDER_OK) << "no larderd has the namespaces open";
  EXPECT_EQ(larder_pages_are_back(client_), LARDER_OK);
  EXPECT_EQ(larder_load(client_, &t, &ticket), LARDER_UNAVAILABLE);
  EXPECT_EQ(larder_load_by_layer(client_, &t, &ticket), LARDER_UNAVAILABLE);
  EXPECT_EQ(larder_wait_layer(client_, 1, 0, 60'000), LARDER_NOT_FOUND) << "and does not wait";
}

// The first line of the log that is of a refused call.
std::string refusal(larder_client* client) {
  char line[200];
  while (larder_next_log(client, line, sizeof(line)) != 0)
    if (std::string_view(line).starts_with("error larder_")) return line;
  return "";
}

TEST_F(CapiTest, RefusedCallIsLogged) {
  EXPECT_EQ(larder_register_pages(client_, 0, nullptr, 0), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(refusal(client_), "error larder_register_pages: needs layers");
  EXPECT_EQ(register_pages(), LARDER_FAILED_PRECONDITION);
  EXPECT_EQ(refusal(client_), "error larder_register_pages: set the namespace first");
  ASSERT_EQ(set_namespace(), LARDER_OK);
  const larder_pages layer{pages_.data(), 4096, 4096, 4};
  EXPECT_EQ(larder_register_pages(client_, 0, &layer, 1), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(refusal(client_), "error larder_register_pages: the namespace has 2 layers, got 1");
  EXPECT_EQ(set_namespace(), LARDER_FAILED_PRECONDITION);
  EXPECT_EQ(refusal(client_), "error larder_set_namespace: the namespace is already set");
  EXPECT_EQ(larder_store_submit(client_, 0, nullptr), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(refusal(client_), "error larder_store_submit: needs where to put the ticket");
  ASSERT_EQ(register_pages(), LARDER_OK);
  larder_transfer t = transfer();
  t.hashes.count = 0;
  t.page_count = 0;
  std::uint64_t ticket = 0;
  EXPECT_EQ(larder_load(client_, &t, &ticket), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(refusal(client_), "error larder_load: a transfer of no chunks");
  t.struct_bytes = 0;
  EXPECT_EQ(larder_store_begin(client_, &t), LARDER_INVALID_ARGUMENT);
  EXPECT_NE(refusal(client_).find("larder_store_begin: needs struct_bytes"), std::string::npos);
  const larder_transfer good = transfer();
  EXPECT_EQ(larder_load(client_, &good, &ticket), LARDER_UNAVAILABLE);
  EXPECT_EQ(refusal(client_), "") << "an absent larderd is no mistake of the caller";
}

TEST_F(CapiTest, WithoutLarderdLookupsMissWithoutWaiting) {
  ASSERT_EQ(set_namespace(), LARDER_OK);
  ASSERT_EQ(register_pages(), LARDER_OK);
  const larder_hashes hashes{hash_, 16, 1, 0, 0};
  EXPECT_EQ(larder_lookup(client_, &hashes), 0U);
  std::uint64_t hold = 7;
  std::size_t held = 7;
  EXPECT_EQ(larder_hold(client_, &hashes, &hold, &held), LARDER_OK);
  EXPECT_EQ(hold, 0U);
  EXPECT_EQ(held, 0U);
  const larder_transfer t = transfer();
  EXPECT_EQ(larder_store_begin(client_, &t), LARDER_OK);
  larder_store_result result{};
  result.struct_bytes = sizeof(result);
  EXPECT_EQ(larder_store_finish(client_, 1000, &result), LARDER_OK);
  EXPECT_EQ(result.refused, 1U);
  EXPECT_EQ(larder_store_begin(client_, &t), LARDER_OK);
  std::uint64_t ticket = 0;
  EXPECT_EQ(larder_store_submit(client_, 1000, &ticket), LARDER_OK);
  larder_store_overtake(client_, ticket);
  larder_store_completion ended[2]{};
  EXPECT_EQ(larder_store_poll(client_, nullptr, 2, 1000), 0U);
  ASSERT_EQ(larder_store_poll(client_, ended, 2, 1000), 1U);
  EXPECT_EQ(ended[0].ticket, ticket);
  EXPECT_EQ(ended[0].refused, 1U);
  const larder_request request{
      sizeof(larder_request), LARDER_DECIDED_ABSENT, 16, 0, 100, nullptr, 1, 0};
  larder_report_request(client_, &request);
  larder_report_prefill(client_, 16, 100);
  EXPECT_EQ(larder_wait_attached(client_, 1), LARDER_DEADLINE_EXCEEDED);
  char line[200];
  std::size_t length = 0;
  // the native thread's first attempt may take its time
  for (int i = 0; i < 5000 && length == 0; ++i) {
    length = larder_next_log(client_, line, sizeof(line));
    if (length == 0) ::usleep(1000);
  }
  EXPECT_EQ(length, std::strlen(line));
  EXPECT_NE(std::string(line).find("/nonexistent/larder.sock"), std::string::npos) << line;
  ::usleep(200'000);  // two more attempts
  EXPECT_EQ(larder_next_log(client_, line, sizeof(line)), 0U) << "said once, not at every attempt";
}

TEST_F(CapiTest, WithoutLarderdFetchesAreRefused) {
  const larder_hashes hashes{hash_, 16, 1, 0, 0};
  std::uint64_t ticket = 7;
  EXPECT_EQ(larder_fetch(client_, &hashes, 100, &ticket), LARDER_FAILED_PRECONDITION)
      << "no namespace yet";
  ASSERT_EQ(set_namespace(), LARDER_OK);
  larder_lower_tiers below{};
  EXPECT_EQ(larder_get_lower_tiers(client_, &below), LARDER_INVALID_ARGUMENT) << "no struct_bytes";
  below.struct_bytes = sizeof(below);
  below.present = 7;
  EXPECT_EQ(larder_get_lower_tiers(client_, &below), LARDER_OK);
  EXPECT_EQ(below.present, 0U);
  EXPECT_EQ(below.shared, 0U);
  EXPECT_EQ(larder_reachable(client_, &hashes), 0U);
  EXPECT_EQ(larder_last_reachable(client_, &hashes), 0U);
  EXPECT_EQ(larder_fetch(client_, &hashes, 100, nullptr), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_fetch(client_, nullptr, 100, &ticket), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_fetch(client_, &hashes, 100, &ticket), LARDER_UNAVAILABLE);
  EXPECT_EQ(ticket, 0U);
  larder_fetch_result result{};
  EXPECT_EQ(larder_fetch_poll(client_, 1, 1000, &result), LARDER_INVALID_ARGUMENT)
      << "no struct_bytes";
  result.struct_bytes = sizeof(result);
  EXPECT_EQ(larder_fetch_poll(client_, 1, 1000, &result), LARDER_NOT_FOUND);
  larder_fetch_end(client_, 1);
}

TEST_F(CapiTest, WithoutLarderdProbesAreRefused) {
  const larder_hashes hashes{hash_, 16, 1, 0, 0};
  std::uint64_t ticket = 7;
  EXPECT_EQ(larder_probe(client_, &hashes, 100, &ticket), LARDER_FAILED_PRECONDITION)
      << "no namespace yet";
  ASSERT_EQ(set_namespace(), LARDER_OK);
  EXPECT_EQ(larder_probe(client_, &hashes, 100, nullptr), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_probe(client_, nullptr, 100, &ticket), LARDER_INVALID_ARGUMENT);
  EXPECT_EQ(larder_probe(client_, &hashes, 100, &ticket), LARDER_UNAVAILABLE);
  EXPECT_EQ(larder_probe_each(client_, &hashes, 100, &ticket), LARDER_UNAVAILABLE);
  EXPECT_EQ(ticket, 0U);
  larder_probe_result result{};
  EXPECT_EQ(larder_probe_poll(client_, 1, 1000, &result), LARDER_INVALID_ARGUMENT)
      << "no struct_bytes";
  result.struct_bytes = sizeof(result);
  EXPECT_EQ(larder_probe_poll(client_, 1, 1000, &result), LARDER_NOT_FOUND);
  larder_probe_end(client_, 1);
}

// A caller that was compiled with a shorter struct gets the fields that fit.
TEST_F(CapiTest, ShorterStructsOfOlderCallersAreAccepted) {
  struct {
    larder_state state;
  } box;
  std::memset(&box, 0x5a, sizeof(box));
  box.state.struct_bytes = 8;
  EXPECT_EQ(larder_get_state(client_, &box.state), LARDER_OK);
  EXPECT_EQ(box.state.attached, 0U);
  EXPECT_EQ(box.state.usable, 0x5a5a5a5aU) << "behind the caller's end";
}

TEST_F(CapiTest, AForkedChildIsRefusedAndMayClose) {
  ASSERT_EQ(set_namespace(), LARDER_OK);
  const pid_t child = ::fork();
  if (child == 0) {
    const larder_hashes hashes{hash_, 16, 1, 0, 0};
    larder_state state{};
    state.struct_bytes = sizeof(state);
    std::uint64_t ticket = 0;
    const bool refused =
        larder_get_state(client_, &state) == LARDER_FAILED_PRECONDITION &&
        larder_lookup(client_, &hashes) == 0 && larder_reachable(client_, &hashes) == 0 &&
        larder_fetch(client_, &hashes, 100, &ticket) == LARDER_FAILED_PRECONDITION &&
        larder_probe(client_, &hashes, 100, &ticket) == LARDER_FAILED_PRECONDITION;
    larder_close(client_);
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
