#include "operator/kubectl/namespace_diagnostics.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "operator/reconcile/conditions.h"
#include "sidecar/base/text.h"
#include "sidecar/store/fingerprint_diff.h"

namespace larder::kubectl {
namespace {

using ctl::NamespaceState;
using ctl::Snapshot;
using Weight = Diagnostic::Weight;

constexpr std::string_view kOtherFlags = "give all pods the same flags of vLLM";
constexpr std::string_view kOtherKernel =
    "vLLM chose another attention kernel for the machine: keep the pods on nodes of one kind "
    "(nodeSelector), or give each kind a pool";

struct FieldRemedy {
  std::string_view field, remedy;  // `field`: a beginning of its name
};
// Lines of the connector's facts, and parts of vLLM's configuration by their paths. The first field
// that begins the name counts: "engine_version" stands before "engine".
constexpr std::array<FieldRemedy, 28> kRemedies{{
    {"none_hash",
     "give all pods the same PYTHONHASHSEED, or remove the variable from all: vLLM's block hashes "
     "start from the seed"},
    {"hash_algorithm", "give all pods the same --prefix-caching-hash-algo"},
    {"engine_version", "run the same vLLM in all pods"},
    {"engine", "one pool for each kind of engine"},
    {"layout", "the shims are of different versions of Larder: restart the older pods"},
    {"weights",
     "the weights differ: give all pods the same --revision or the same files; or, for weights "
     "that you know to be equal, set weights_id in the connector's extra config"},
    {"kv_cache_dtype", "give all pods the same --kv-cache-dtype"},
    {"dtype", "give all pods the same --dtype"},
    {"model_config.dtype", "give all pods the same --dtype"},
    {"model_config.quantization", "give all pods the same --quantization"},
    {"model_config.hf_overrides", "give all pods the same --hf-overrides"},
    {"model_config.multimodal_config",
     "give all pods the same --mm-processor-kwargs and --media-io-kwargs"},
    {"model_config.hf_config",
     "another model, or other --hf-overrides: give each model a pool, for separate figures"},
    {"compilation_config", "give all pods the same --compilation-config, --enforce-eager and -O"},
    {"VLLM_", "give all pods the same value of this environment variable"},
    {"adapter", "the pods serve other adapters, or have other --lora settings"},
    {"attention_config", kOtherFlags},
    {"attention_backend", kOtherKernel},
    {"attention_kernel", kOtherKernel},
    {"kernel_block_size", kOtherKernel},
    {"kv_cache_layout", "give all pods the same VLLM_KV_CACHE_LAYOUT"},
    {"parallel_config", kOtherFlags},
    {"parallel", "give all pods the same --tensor-parallel-size and --pipeline-parallel-size"},
    {"block_size", "give all pods the same --block-size"},
    {"hash_block_size", "give all pods the same --block-size"},
    {"chunk_tokens", "give all pods the same chunk_tokens (spec.chunkTokens of the pool)"},
    {"rope_max_model_len", "give all pods the same --max-model-len"},
    {"private",
     "the engine's cache was reset, or weights may have changed in place (sleep, reload_weights): "
     "restart the engine to share again"},
}};

constexpr std::size_t kMostCompared = 32;  // bounds the time in a pool with many namespaces

// A namespace without sessions belongs to engines of the past.
std::vector<NamespaceState> in_use(const Snapshot& larderd) {
  std::vector<NamespaceState> used;
  for (const NamespaceState& space : larderd.namespaces)
    if (space.sessions > 0) used.push_back(space);
  return used;
}

// The pair of namespaces with the fewest different fields: the user most likely meant that pair to
// be equal.
struct Nearest {
  store::FingerprintDifference difference;
  std::string id, pod, other_id;
};

// By id: pods of one Deployment mostly have the same namespace.
std::optional<Nearest> nearest(const std::vector<NamespaceState>& own, const Snapshots& others) {
  std::optional<Nearest> best;
  std::set<std::string> compared;  // a thousand pods have few namespaces
  for (const auto& [pod, larderd] : others)
    for (const NamespaceState& other : in_use(*larderd)) {
      if (compared.size() >= kMostCompared || !compared.insert(other.id).second) continue;
      for (const NamespaceState& mine : own) {
        store::FingerprintDifference difference =
            store::diff_fingerprints(other.fingerprint, mine.fingerprint);
        if (!best || difference.fields < best->difference.fields)
          best = {std::move(difference), mine.id, pod, other.id};
      }
    }
  return best;
}

Diagnostic differs(const Nearest& nearest, std::size_t others) {
  const std::vector<std::string>& names = nearest.difference.names;
  std::string fields, remedies;
  for (const std::string& name : names) {
    fields += (fields.empty() ? "" : ", ") + base::printable(name);
    const std::string remedy = remedy_of_field(name);
    // Several fields may have the same remedy; each remedy is given once.
    if (!remedy.empty() && remedies.find(remedy) == std::string::npos)
      remedies += (remedies.empty() ? "" : "; ") + remedy;
  }
  if (nearest.difference.fields > names.size())
    fields += " and " + std::to_string(nearest.difference.fields - names.size()) + " more";
  // A random hash seed has a reason of its own, since one variable is the whole remedy.
  const bool seed_alone = names.size() == 1 && names.front() == "none_hash";
  return {Weight::kProblem, seed_alone ? "OtherHashSeed" : "OtherNamespace",
          "the pod's engines store under a namespace (" + nearest.id.substr(0, 8) +
              ") that is absent in the " + base::plural(others, "other pod") +
              " of the pool with an answer; against " + nearest.pod + " (" +
              nearest.other_id.substr(0, 8) + ") these fields differ: " + fields +
              " (the other's -> this pod's: " + base::printable(nearest.difference.text) + ")",
          remedies};
}

}  // namespace

// A field of vLLM's configuration without an entry gets the general advice.
std::string remedy_of_field(const std::string& field) {
  for (const FieldRemedy& one : kRemedies)
    if (field.starts_with(one.field)) return std::string(one.remedy);
  return std::string(field.find("_config") != std::string::npos ? kOtherFlags : "");
}

// A note about equal namespaces rules this cause out for the reader.
Findings namespace_findings(const Snapshot& own, const Snapshots& others) {
  const std::vector<NamespaceState> mine = in_use(own);
  std::vector<std::string> same;
  std::size_t with_engines = 0;
  for (const auto& [pod, larderd] : others) {
    if (larderd == &own) continue;
    const std::vector<NamespaceState> theirs = in_use(*larderd);
    with_engines += theirs.empty() ? 0 : 1;
    const auto is_mine = [&](const NamespaceState& space) {
      return std::ranges::find(mine, space.id, &NamespaceState::id) != mine.end();
    };
    if (std::ranges::any_of(theirs, is_mine)) same.push_back(pod);
  }
  if (mine.empty() || with_engines == 0) return {};
  if (!same.empty())
    return {{Weight::kNote, "SameNamespace",
             "the pod's engines have the namespace of " + reconcile::some_of(same), ""}};
  const std::optional<Nearest> found = nearest(mine, others);
  if (!found) return {};
  return {differs(*found, with_engines)};
}

}  // namespace larder::kubectl
