// Namespaces and keys: fingerprint texts, chunk layouts and names of OPEN_NAMESPACE through the
// table, and out again to people.
//
// Promises: an id other than the hash of its text is refused; a layout is taken only if its slot
// fits the arena; opening again gives the same handle, another layout under the same id gives
// another one; words about a difference are bounded and cannot break a log line, a metric or JSON;
// no two scopes share a key.
#include <nlohmann/json.hpp>

#include "shim/protocol/checksum.h"
#include "shim/protocol/codec.h"
#include "shim/protocol/index_layout.h"
#include "sidecar/pages/metrics.h"
#include "sidecar/pages/status_json.h"
#include "sidecar/store/fingerprint_diff.h"
#include "sidecar/store/namespace_table.h"
#include "tests/fuzz/input.h"

namespace {

using namespace larder;
using namespace larder::fuzz;
using store::NamespaceSpec;

constexpr std::uint64_t kArenaBytes = 1ULL << 30;
constexpr std::size_t kMostDifference = 16 * 1024;

NamespaceSpec read_spec(Input& input) {
  NamespaceSpec spec;
  const std::uint8_t mode = input.byte();
  const std::size_t groups = input.byte() % (protocol::kMaxGroups + 2);
  for (std::size_t i = 0; i < groups; ++i) {
    protocol::GroupLayout group{};
    group.piece_bytes = (mode & 1) != 0 ? input.take<std::uint64_t>() : input.take<std::uint16_t>();
    group.pieces_per_chunk = (mode & 1) != 0 ? input.take<std::uint32_t>() : input.byte();
    spec.groups.push_back(group);
  }
  spec.shard_count = (mode & 1) != 0 ? input.take<std::uint32_t>() : input.byte();
  spec.chunk_tokens = input.take<std::uint16_t>();
  spec.model = protocol::short_text(protocol::make_short_text(input.take_text(input.byte())));
  spec.fingerprint =
      std::make_shared<const std::string>(input.take_text(input.take<std::uint16_t>() % 2048));
  spec.id = (mode & 2) != 0 ? input.take<protocol::NamespaceId>()
                            : protocol::namespace_id(*spec.fingerprint);
  return spec;
}

void check_taken(store::NamespaceTable& table, const NamespaceSpec& spec, std::uint32_t handle,
                 const std::string& difference) {
  must(table.is_open(handle), "a handle is one of the table");
  must(spec.id == protocol::namespace_id(*spec.fingerprint), "an id is the hash of its text");
  for (const protocol::GroupLayout& group : spec.groups) {
    const auto payload = static_cast<unsigned __int128>(group.piece_bytes) * group.pieces_per_chunk;
    must(payload != 0 && payload <= protocol::kMaxPayloadBytes, "a chunk is within its limit");
    must(
        protocol::slot_bytes(static_cast<std::uint64_t>(payload), group.piece_bytes) <= kArenaBytes,
        "a slot fits the arena");
  }
  must(difference.size() <= kMostDifference, "words about a difference are bounded");
  std::string again;
  const Result<std::uint32_t> same = table.open(spec, kArenaBytes, &again);
  must(same.ok() && *same == handle, "a namespace is opened twice under one handle");
  const Result<std::vector<std::uint32_t>> named = table.by_prefix(spec.id.to_hex());
  must(named.ok() && std::ranges::count(*named, handle) == 1, "an id in hex names its namespaces");
  NamespaceSpec other = spec;
  ++other.chunk_tokens;
  const Result<std::uint32_t> apart = table.open(other, kArenaBytes, &again);
  must(apart.ok() && *apart != handle, "another layout under the same id is another namespace");
  table.join(*apart);
  table.leave(*apart);
  must(table.give_back(*apart) && !table.is_open(*apart), "an unused namespace is given back");
}

// An engine's text about itself reaches people in status, metrics and log.
void check_shown(const store::NamespaceTable& table, const std::string& difference) {
  stats::Stats stats;
  for (const std::uint32_t handle : table.handles()) {
    const NamespaceSpec& spec = table.at(handle).spec;
    stats.namespaces.push_back({spec.id.to_hex(), spec.model, spec.fingerprint});
    stats.models.emplace_back();
    stats.models.back().model = spec.model;
  }
  stats.fallbacks.push_back({"x", difference});
  must(nlohmann::json::accept(pages::status_json(stats, true, true)), "/v1/status is JSON");
  const http::Counters counters;
  const std::string metrics = pages::metrics_text(stats, true, counters);
  for (std::size_t at = 0; at < metrics.size();) {
    const std::size_t end = metrics.find('\n', at);
    must(end != std::string::npos, "a metric's line ends");
    const std::string_view line(metrics.data() + at, end - at);
    must(line.empty() || line.starts_with("# ") || line.starts_with("larder_"),
         "every line of /metrics is ours");
    at = end + 1;
  }
}

void check_keys(Input& input) {
  const auto a = input.take<protocol::Key>();
  auto b = input.take<protocol::Key>();
  if ((input.byte() & 1) != 0) b.hash = a.hash;
  const bool same_scope =
      a.namespace_handle == b.namespace_handle && a.shard == b.shard && a.group == b.group;
  must((a.scope() == b.scope()) == same_scope, "no two scopes are one");
  const std::uint64_t buckets = 2ULL << (input.byte() % 30);
  const protocol::KeyPlace place = protocol::key_place(a, buckets);
  must(place.bucket[0] < buckets && place.bucket[1] < buckets && place.bucket[0] != place.bucket[1],
       "a key has two places");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  check_keys(input);
  store::NamespaceTable table;
  std::string last;
  for (int i = 0; i < 8 && !input.empty(); ++i) {
    const NamespaceSpec spec = read_spec(input);
    const std::uint32_t before = table.size();
    std::string difference;
    const Result<std::uint32_t> handle = table.open(spec, kArenaBytes, &difference);
    if (handle.ok()) {
      check_taken(table, spec, *handle, difference);
      last += difference;
    } else {
      must(table.size() == before && !handle.status().text().empty(),
           "a refusal has a name and leaves no namespace");
    }
  }
  for (const std::uint32_t handle : table.handles()) {
    const std::string& one = *table.at(handle).spec.fingerprint;
    must(store::diff_fingerprints(one, one).fields == 0, "a text does not differ from itself");
  }
  check_shown(table, last);
  return 0;
}
