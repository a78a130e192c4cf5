// The C ABI over client::Client: checks pointers, converts, and lets no exception out.
#include "shim/capi/larder.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>

#include "shim/capi/calls.h"
#include "shim/capi/engine.h"
#include "shim/protocol/version.h"

using larder::Code;
using larder::Status;
using larder::capi::answered;
using larder::capi::guarded;
using larder::capi::looked_up;
using larder::capi::read_hashes;
using larder::capi::read_struct;
using larder::capi::to_c;
using larder::capi::write_struct;
namespace client = larder::client;

namespace {

// Failure row F-045: a load that cannot start within this time fails before its first byte.
constexpr std::uint32_t kDefaultStartWithinMs = 5000;

Status bad_transfer() {
  return {Code::kInvalidArgument,
          "needs struct_bytes, pages, and hashes of a stride of at least 16"};
}

// Copies hashes and pages: the caller may free its arrays when the call returns, and the copy runs
// later on another thread.
bool read_transfer(const larder_transfer* from, client::Transfer& to,
                   std::uint32_t& start_within_ms) {
  // A copy of the caller's struct, as long as the caller says. Missing fields of an older caller
  // are 0, the default of every field.
  larder_transfer transfer;
  client::Hashes hashes;
  if (!read_struct(from, transfer) || !read_hashes(&transfer.hashes, hashes)) return false;
  // A null pointer with a count is a mistake of the caller; without a count there are no pages.
  if (transfer.pages == nullptr && transfer.page_count != 0) return false;
  to.ns = hashes.ns;
  to.shard = transfer.shard;
  to.group = transfer.group;
  to.hashes.reserve(hashes.count);
  for (std::size_t i = 0; i < hashes.count; ++i) to.hashes.push_back(hashes.at(i));
  if (transfer.parents != nullptr) {
    const client::Hashes parents{transfer.parents, hashes.stride_bytes, hashes.count, hashes.ns};
    to.parents.reserve(hashes.count);
    for (std::size_t i = 0; i < hashes.count; ++i) to.parents.push_back(parents.at(i));
  }
  if (transfer.page_count != 0)
    to.pages.assign(transfer.pages, transfer.pages + transfer.page_count);
  start_within_ms =
      transfer.start_within_ms != 0 ? transfer.start_within_ms : kDefaultStartWithinMs;
  return true;
}

std::string default_socket() {
  // An empty variable counts as unset, as from a manifest with an empty value.
  const char* socket = std::getenv("LARDER_SOCKET");
  return socket != nullptr && *socket != '\0' ? socket : "/run/larder/larder.sock";
}

larder_status load(larder_client* client, const char* function, const larder_transfer* transfer,
                   uint64_t* ticket, bool by_layer) {
  return guarded(client, [&] {
    client::Transfer given;
    std::uint32_t start_within_ms = 0;
    if (ticket == nullptr || !read_transfer(transfer, given, start_within_ms))
      return answered(client, function, bad_transfer());
    const larder::Result<std::uint64_t> started =
        client->impl.load(std::move(given), start_within_ms, by_layer);
    // 0 is no ticket: a caller without a look at the status never polls for another load.
    *ticket = started.ok() ? *started : 0;
    return answered(client, function, started.status());
  });
}

// One argument for two texts, so a call cannot exchange them.
struct NamespaceText {
  const char *fingerprint, *model;
};

larder_status add_namespace(larder_client* client, const char* function, NamespaceText text,
                            client::NamespaceKind kind, uint32_t* ns) {
  return guarded(client, [&] {
    if (text.fingerprint == nullptr || ns == nullptr)
      return answered(client, function,
                      {Code::kInvalidArgument, "needs a fingerprint and where to put the number"});
    const std::string model = text.model != nullptr ? text.model : "";
    // The same text gives the same number, so a caller may call again.
    const larder::Result<std::uint32_t> added =
        client->impl.add_namespace(text.fingerprint, model, kind);
    if (added.ok()) *ns = *added;
    return answered(client, function, added.status());
  });
}

}  // namespace

extern "C" {

const char* larder_status_text(larder_status status) {
  return larder::code_name(static_cast<Code>(status))
      .data();  // views of literals, so zero-terminated
}

const char* larder_version(void) {
  // The text is a literal, because the function returns a pointer without an owner.
  static_assert(larder::protocol::kVersionMajor == 1 && larder::protocol::kVersionMinor == 11,
                "change the text");
  return LARDER_VERSION " protocol 1.11";
}

larder_status larder_open(const larder_options* options, larder_client** client) {
  larder_options given{};
  if (client == nullptr || !read_struct(options, given)) return LARDER_INVALID_ARGUMENT;
  *client = nullptr;
  try {
    // Half of the processors, at most four: the engine needs the rest.
    const unsigned by_processors = std::clamp(std::thread::hardware_concurrency() / 2, 1U, 4U);
    client::Options chosen;
    chosen.socket = given.socket != nullptr ? given.socket : default_socket();
    chosen.engine = given.engine != nullptr ? given.engine : "";
    // A bound for a mistaken option: each thread has a stack and, with a GPU, a stream with
    // pinned memory.
    chosen.copy_threads =
        given.copy_threads != 0 ? std::min(given.copy_threads, 64U) : by_processors;
    *client = new larder_client{{std::move(chosen), larder::capi::copy_engines()}};
    return LARDER_OK;
  } catch (const std::system_error&) {  // of std::thread: no thread can be started
    // No exception leaves the library: the caller may be C, or Python's ctypes.
    return LARDER_RESOURCE_EXHAUSTED;
  } catch (...) {
    return LARDER_INTERNAL;
  }
}

// A forked child has no threads of the client, and a join would hang: the memory stays until exit.
void larder_close(larder_client* client) {
  if (client == nullptr || client->impl.in_child()) return;
  delete client;
}

larder_status larder_set_namespace(larder_client* client, const larder_namespace* ns) {
  return guarded(client, [&] {
    larder_namespace given{};
    if (!read_struct(ns, given) || given.fingerprint == nullptr ||
        (given.groups == nullptr && given.group_count != 0))
      return answered(client, "larder_set_namespace",
                      {Code::kInvalidArgument, "needs struct_bytes, a fingerprint and groups"});
    // Before the loop: the count comes from the caller, and the loop reads as many structs.
    if (given.group_count > larder::protocol::kMaxGroups)
      return answered(client, "larder_set_namespace",
                      {Code::kOutOfRange, "too many groups: " + std::to_string(given.group_count)});
    client::NamespaceSpec spec;
    spec.fingerprint = given.fingerprint;
    spec.model = given.model != nullptr ? given.model : "";
    spec.shard_count = given.shard_count;
    spec.chunk_tokens = given.chunk_tokens;
    spec.layout_shard = given.layout_of_shard;
    spec.state_groups = given.state_group_count;
    spec.tail_groups = given.tail_group_count;
    spec.tail_tokens = given.tail_tokens;
    for (std::uint32_t i = 0; i < given.group_count; ++i)
      spec.groups.push_back(
          {given.groups[i].piece_bytes, given.groups[i].layers, given.groups[i].blocks_per_chunk});
    return answered(client, "larder_set_namespace", client->impl.set_namespace(std::move(spec)));
  });
}

larder_status larder_set_parts(larder_client* client, const uint8_t* kept, size_t part_count) {
  return guarded(client, [&] {
    if (kept == nullptr)
      return answered(client, "larder_set_parts", {Code::kInvalidArgument, "needs parts"});
    return answered(client, "larder_set_parts", client->impl.set_parts({kept, part_count}));
  });
}

larder_status larder_add_namespace(larder_client* client, const char* fingerprint,
                                   const char* model, uint32_t* ns) {
  return add_namespace(client, "larder_add_namespace", {fingerprint, model},
                       client::NamespaceKind::kTokens, ns);
}

larder_status larder_add_state_namespace(larder_client* client, const char* fingerprint,
                                         const char* model, uint32_t* ns) {
  return add_namespace(client, "larder_add_state_namespace", {fingerprint, model},
                       client::NamespaceKind::kStates, ns);
}

larder_status larder_add_tail_namespace(larder_client* client, const char* fingerprint,
                                        const char* model, uint32_t* ns) {
  return add_namespace(client, "larder_add_tail_namespace", {fingerprint, model},
                       client::NamespaceKind::kTails, ns);
}

larder_status larder_close_namespace(larder_client* client, uint32_t ns, uint32_t flags) {
  return guarded(client, [&] {
    return answered(client, "larder_close_namespace",
                    client->impl.close_namespace(ns, (flags & LARDER_CLOSE_DROP) != 0));
  });
}

larder_status larder_wait_namespace(larder_client* client, uint32_t ns, uint32_t timeout_ms) {
  return guarded(client, [&] { return to_c(client->impl.wait_namespace(ns, timeout_ms).code()); });
}

larder_status larder_namespace_id(const char* fingerprint, char* hex, size_t hex_bytes) {
  // 32 digits and the terminating zero.
  if (fingerprint == nullptr || hex == nullptr || hex_bytes < 33) return LARDER_INVALID_ARGUMENT;
  try {
    const std::string text = larder::protocol::namespace_id(fingerprint).to_hex();
    std::memcpy(hex, text.c_str(), 33);
    return LARDER_OK;
  } catch (...) {
    return LARDER_INTERNAL;
  }
}

larder_status larder_register_pages(larder_client* client, uint32_t group,
                                    const larder_pages* layers, uint32_t layer_count) {
  return guarded(client, [&] {
    if (layers == nullptr)
      return answered(client, "larder_register_pages", {Code::kInvalidArgument, "needs layers"});
    client::GroupPages pages;
    for (std::uint32_t i = 0; i < layer_count; ++i)
      // The addresses are not read here. A wrong one shows at the first copy, as a fault of the
      // engine.
      pages.push_back({static_cast<std::byte*>(layers[i].base), layers[i].stride_bytes,
                       layers[i].page_bytes, layers[i].page_count});
    const larder::Status registered = client->impl.register_pages(group, std::move(pages));
    // answered() does not log kUnsupported. The engine registers once and then runs without the
    // cache, so this line is the only trace of the reason.
    if (registered.code() == Code::kUnsupported)
      client->impl.log("error", "larder_register_pages: " + registered.text());
    return answered(client, "larder_register_pages", registered);
  });
}

larder_status larder_after_stream(larder_client* client, void* stream) {
  return guarded(client, [&] { return to_c(client->impl.after_stream(stream).code()); });
}

larder_status larder_pages_leave(larder_client* client, uint32_t wait_ms) {
  return guarded(client, [&] { return to_c(client->impl.pages_leave(wait_ms).code()); });
}

larder_status larder_pages_are_back(larder_client* client) {
  return guarded(client, [&] {
    client->impl.pages_are_back();
    return LARDER_OK;
  });
}

larder_status larder_get_state(larder_client* client, larder_state* state) {
  return guarded(client, [&] {
    larder_state value{};
    if (!read_struct(state, value)) return LARDER_INVALID_ARGUMENT;
    const client::State now = client->impl.state();
    value.attached = now.attached ? 1 : 0;
    value.usable = now.usable ? 1 : 0;
    value.attachments = now.attachments;
    value.epoch = now.epoch;
    value.loads_running = now.loads_running;
    value.stores_running = now.stores_running;
    // Written only as far as the caller's struct goes: an engine built with an older larder.h has
    // a shorter one.
    write_struct(value, state);
    return LARDER_OK;
  });
}

larder_status larder_wait_attached(larder_client* client, uint32_t timeout_ms) {
  return guarded(client, [&] { return to_c(client->impl.wait_attached(timeout_ms).code()); });
}

size_t larder_next_log(larder_client* client, char* line, size_t line_bytes) {
  size_t length = 0;
  guarded(client, [&] {
    // One byte must hold the terminating zero.
    if (line == nullptr || line_bytes == 0) return LARDER_INVALID_ARGUMENT;
    const std::optional<std::string> text = client->impl.next_log();
    if (!text) return LARDER_NOT_FOUND;
    // A longer line is cut. The line has left the ring, so a second call would give the next one.
    length = std::min(text->size(), line_bytes - 1);
    std::memcpy(line, text->data(), length);
    line[length] = '\0';
    return LARDER_OK;
  });
  return length;
}

size_t larder_lookup(larder_client* client, const larder_hashes* hashes) {
  return looked_up(client, hashes, &client::Lookups::present);
}

size_t larder_last(larder_client* client, const larder_hashes* hashes) {
  return looked_up(client, hashes, &client::Lookups::last);
}

larder_status larder_hold(larder_client* client, const larder_hashes* hashes, uint64_t* hold,
                          size_t* held) {
  return guarded(client, [&] {
    client::Hashes given;
    if (hold == nullptr || held == nullptr || !read_hashes(hashes, given))
      return LARDER_INVALID_ARGUMENT;
    // A hold of fewer chunks is no error: the caller uses the prefix.
    std::tie(*hold, *held) = client->impl.hold(given);
    return LARDER_OK;
  });
}

void larder_release(larder_client* client, uint64_t hold) {
  guarded(client, [&] {
    // No status either, because callers release in destructors and in error paths.
    client->impl.release(hold);
    return LARDER_OK;
  });
}

void larder_report_request(larder_client* client, const larder_request* request) {
  guarded(client, [&] {
    larder_request given{};
    client::Hashes hashes;
    if (!read_struct(request, given) || given.decision > LARDER_DECIDED_ABSENT)
      return LARDER_INVALID_ARGUMENT;
    // Without hashes the request counts for the hit rate alone, and not for its chunks.
    if (given.hashes != nullptr && !read_hashes(given.hashes, hashes))
      return LARDER_INVALID_ARGUMENT;
    client->impl.report_request(
        hashes, {given.tokens_asked, given.tokens_hit, given.lookup_ns,
                 static_cast<larder::protocol::Decision>(given.decision), given.salted != 0});
    return LARDER_OK;
  });
}

void larder_report_prefill(larder_client* client, uint64_t tokens, uint64_t compute_ns) {
  guarded(client, [&] {
    // Without an answer: events go into a ring in shared memory, and may be lost.
    client->impl.report(larder::protocol::EventKind::kPrefill, tokens, compute_ns, 0);
    return LARDER_OK;
  });
}

larder_status larder_load(larder_client* client, const larder_transfer* transfer,
                          uint64_t* ticket) {
  return load(client, "larder_load", transfer, ticket, false);
}

larder_status larder_load_by_layer(larder_client* client, const larder_transfer* transfer,
                                   uint64_t* ticket) {
  return load(client, "larder_load_by_layer", transfer, ticket, true);
}

larder_status larder_wait_layer(larder_client* client, uint64_t ticket, uint32_t layer,
                                uint32_t wait_ms) {
  return guarded(client, [&] {
    // The wait is for copies of this process. A stopped larderd does not prolong the wait.
    return answered(client, "larder_wait_layer", client->impl.wait_layer(ticket, layer, wait_ms));
  });
}

size_t larder_poll(larder_client* client, larder_completion* completions, size_t max,
                   uint32_t wait_ms) {
  size_t count = 0;
  guarded(client, [&] {
    if (completions == nullptr) return LARDER_INVALID_ARGUMENT;
    for (const client::Completion& done :
         client->impl.poll(max, std::chrono::milliseconds(wait_ms)))
      completions[count++] = {
          done.ticket, static_cast<std::uint32_t>(done.status), 0, done.bytes, done.wait_ns,
          done.copy_ns};
    return LARDER_OK;
  });
  return count;
}

larder_status larder_store_begin(larder_client* client, const larder_transfer* transfer) {
  return guarded(client, [&] {
    client::Transfer given;
    // A store has no time to start: finish() limits the wait for grants.
    std::uint32_t unused = 0;
    if (!read_transfer(transfer, given, unused))
      return answered(client, "larder_store_begin", bad_transfer());
    return answered(client, "larder_store_begin", client->impl.store_begin(given));
  });
}

larder_status larder_store_finish(larder_client* client, uint32_t wait_ms,
                                  larder_store_result* result) {
  return guarded(client, [&] {
    larder_store_result value{};
    if (!read_struct(result, value)) return LARDER_INVALID_ARGUMENT;
    const client::StoreResult done = client->impl.store_finish(wait_ms);
    value.stored = done.stored;
    value.present = done.present;
    value.refused = done.refused;
    value.bytes = done.bytes;
    value.copy_ns = done.copy_ns;
    write_struct(value, result);
    return LARDER_OK;
  });
}

larder_status larder_store_submit(larder_client* client, uint32_t wait_ms, uint64_t* ticket) {
  return guarded(client, [&] {
    if (ticket == nullptr)
      return answered(client, "larder_store_submit",
                      {Code::kInvalidArgument, "needs where to put the ticket"});
    const larder::Result<std::uint64_t> submitted = client->impl.store_submit(wait_ms);
    *ticket = submitted.ok() ? *submitted : 0;
    return answered(client, "larder_store_submit", submitted.status());
  });
}

size_t larder_store_poll(larder_client* client, larder_store_completion* completions, size_t max,
                         uint32_t wait_ms) {
  size_t count = 0;
  guarded(client, [&] {
    if (completions == nullptr) return LARDER_INVALID_ARGUMENT;
    for (const client::StoreCompletion& done :
         client->impl.store_poll(max, std::chrono::milliseconds(wait_ms))) {
      const client::StoreResult& result = done.result;
      completions[count++] = {done.ticket,    result.stored, result.present,
                              result.refused, result.bytes,  result.copy_ns};
    }
    return LARDER_OK;
  });
  return count;
}

void larder_store_overtake(larder_client* client, uint64_t ticket) {
  guarded(client, [&] {
    // No status: an unknown ticket has ended already, and its pages are free.
    client->impl.store_overtake(ticket);
    return LARDER_OK;
  });
}

larder_status larder_store_abandon(larder_client* client) {
  return guarded(client, [&] {
    client->impl.store_abandon();
    return LARDER_OK;
  });
}

larder_status larder_drop_namespace(larder_client* client) {
  return guarded(client, [&] {
    return answered(client, "larder_drop_namespace", client->impl.drop_namespace());
  });
}

}  // extern "C"
