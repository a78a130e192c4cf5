// The calls of larder.h about lower tiers and the shared backend, and the verbs on chunks
// (prefetch, pin, unpin, evict, demote, keep).
#include <algorithm>
#include <optional>

#include "shim/capi/calls.h"

using larder::Code;
using larder::capi::answered;
using larder::capi::guarded;
using larder::capi::looked_up;
using larder::capi::read_hashes;
using larder::capi::read_struct;
using larder::capi::to_c;
using larder::capi::write_struct;
namespace client = larder::client;

namespace {

// One verb on chunks. `result` may be NULL: the caller then gets only the status.
larder_status act(larder_client* client, std::string_view function, larder::protocol::Verb verb,
                  const larder_hashes* hashes, std::uint32_t wait_ms, larder_act_result* result,
                  std::uint32_t keep_s = 0) noexcept {
  return guarded(client, [&] {
    client::Hashes given;
    larder_act_result value{};
    if (!read_hashes(hashes, given) || (result != nullptr && !read_struct(result, value)))
      return answered(
          client, function,
          {Code::kInvalidArgument, "needs hashes of a stride of at least 16, and struct_bytes"});
    // With `wait_ms` 0 the counts are 0, and larderd does the work all the same.
    const larder::Result<larder::protocol::ActCounts> done =
        client->impl.lower_tiers().act(verb, given, wait_ms, keep_s);
    // After an error all counts are 0: the caller's struct must not keep earlier counts.
    const larder::protocol::ActCounts counts = done.ok() ? *done : larder::protocol::ActCounts{};
    value.found = counts.found;
    value.absent = counts.absent;
    value.refused = counts.refused;
    if (result != nullptr) write_struct(value, result);
    return answered(client, function, done.status());
  });
}

// Begins a fetch or a tier probe. The ticket is 0 after an error.
template <typename Begin>
larder_status ask(larder_client* client, std::string_view function, const larder_hashes* hashes,
                  std::uint64_t* ticket, const Begin& begin) noexcept {
  return guarded(client, [&] {
    client::Hashes given;
    if (ticket == nullptr || !read_hashes(hashes, given))
      return answered(
          client, function,
          {Code::kInvalidArgument, "needs hashes of a stride of at least 16, and a ticket"});
    // The hashes are read during this call only. The message to larderd has its own copy.
    const larder::Result<std::uint64_t> started = begin(given);
    *ticket = started.ok() ? *started : 0;
    return answered(client, function, started.status());
  });
}

}  // namespace

extern "C" {

larder_status larder_get_lower_tiers(larder_client* client, larder_lower_tiers* below) {
  return guarded(client, [&] {
    larder_lower_tiers value{};
    if (!read_struct(below, value)) return LARDER_INVALID_ARGUMENT;
    // From shared memory: a scheduler asks before each decision, and must not wait for larderd.
    const std::optional<larder::protocol::ResidencySpeed> speed =
        client->impl.lower_tiers().speed();
    value = {0,
             speed ? 1U : 0U,
             speed && speed->serving ? 1U : 0U,
             speed && client->impl.lower_tiers().shares() ? 1U : 0U,
             speed ? speed->read_latency_ns : 0,
             speed ? speed->read_bytes_per_s : 0};
    write_struct(value, below);
    return LARDER_OK;
  });
}

size_t larder_reachable(larder_client* client, const larder_hashes* hashes) {
  // A hint: the filter may be wrong in both directions, and the fetch tells the truth.
  return looked_up(client, hashes, &client::Lookups::reachable);
}

size_t larder_last_reachable(larder_client* client, const larder_hashes* hashes) {
  return looked_up(client, hashes, &client::Lookups::last_reachable);
}

larder_status larder_fetch(larder_client* client, const larder_hashes* hashes, uint32_t deadline_ms,
                           uint64_t* ticket) {
  return ask(client, "larder_fetch", hashes, ticket, [&](const client::Hashes& given) {
    return client->impl.lower_tiers().fetch(given, deadline_ms);
  });
}

larder_status larder_fetch_poll(larder_client* client, uint64_t ticket, uint32_t wait_ms,
                                larder_fetch_result* result) {
  return guarded(client, [&] {
    larder_fetch_result value{};
    if (!read_struct(result, value)) return LARDER_INVALID_ARGUMENT;
    // The status goes back without a line in the log: an unknown ticket is normal after a fetch
    // has ended.
    const larder::Result<client::FetchState> state =
        client->impl.lower_tiers().fetches().poll(ticket, wait_ms);
    if (!state.ok()) return to_c(state.status().code());
    value = {0,
             state->running ? 1U : 0U,
             state->chunks,
             state->bytes,
             static_cast<std::uint32_t>(state->reason),
             state->elapsed_us};
    write_struct(value, result);
    return LARDER_OK;
  });
}

void larder_fetch_end(larder_client* client, uint64_t ticket) {
  guarded(client, [&] {
    // Necessary after each fetch: larderd keeps the fetched chunks for the request until then, a
    // minute at most.
    client->impl.lower_tiers().fetches().end(ticket);
    return LARDER_OK;
  });
}

larder_status larder_probe(larder_client* client, const larder_hashes* hashes, uint32_t deadline_ms,
                           uint64_t* ticket) {
  return ask(client, "larder_probe", hashes, ticket, [&](const client::Hashes& given) {
    return client->impl.lower_tiers().probe(given, deadline_ms);
  });
}

larder_status larder_probe_each(larder_client* client, const larder_hashes* hashes,
                                uint32_t deadline_ms, uint64_t* ticket) {
  return ask(client, "larder_probe_each", hashes, ticket, [&](const client::Hashes& given) {
    return client->impl.lower_tiers().probe(given, deadline_ms, larder::protocol::kProbeEach);
  });
}

larder_status larder_probe_poll(larder_client* client, uint64_t ticket, uint32_t wait_ms,
                                larder_probe_result* result) {
  return guarded(client, [&] {
    larder_probe_result value{};
    if (!read_struct(result, value)) return LARDER_INVALID_ARGUMENT;
    const larder::Result<client::ProbeState> state =
        client->impl.lower_tiers().tier_probes().poll(ticket, wait_ms);
    if (!state.ok()) return to_c(state.status().code());
    value = {0,
             state->running ? 1U : 0U,
             state->chunks,
             state->shared,
             state->read_latency_ns,
             state->read_bytes_per_s,
             static_cast<std::uint32_t>(state->reason),
             state->elapsed_us,
             {}};
    // The bits have a fixed size in the struct, and are 0 for a probe of a prefix.
    std::ranges::copy(state->there, value.there);
    write_struct(value, result);
    return LARDER_OK;
  });
}

void larder_probe_end(larder_client* client, uint64_t ticket) {
  guarded(client, [&] {
    // Frees the place in the client's table. larderd has no state of an answered probe.
    client->impl.lower_tiers().tier_probes().end(ticket);
    return LARDER_OK;
  });
}

larder_status larder_prefetch(larder_client* client, const larder_hashes* hashes, uint32_t wait_ms,
                              larder_act_result* result) {
  return act(client, "larder_prefetch", larder::protocol::Verb::kPrefetch, hashes, wait_ms, result);
}
larder_status larder_pin(larder_client* client, const larder_hashes* hashes, uint32_t wait_ms,
                         larder_act_result* result) {
  return act(client, "larder_pin", larder::protocol::Verb::kPin, hashes, wait_ms, result);
}
larder_status larder_unpin(larder_client* client, const larder_hashes* hashes, uint32_t wait_ms,
                           larder_act_result* result) {
  return act(client, "larder_unpin", larder::protocol::Verb::kUnpin, hashes, wait_ms, result);
}
larder_status larder_evict(larder_client* client, const larder_hashes* hashes, uint32_t wait_ms,
                           larder_act_result* result) {
  return act(client, "larder_evict", larder::protocol::Verb::kEvict, hashes, wait_ms, result);
}
larder_status larder_demote(larder_client* client, const larder_hashes* hashes, uint32_t wait_ms,
                            larder_act_result* result) {
  return act(client, "larder_demote", larder::protocol::Verb::kDemote, hashes, wait_ms, result);
}
larder_status larder_keep(larder_client* client, const larder_hashes* hashes, uint32_t keep_s,
                          uint32_t wait_ms, larder_act_result* result) {
  return act(client, "larder_keep", larder::protocol::Verb::kKeep, hashes, wait_ms, result, keep_s);
}

}  // extern "C"
