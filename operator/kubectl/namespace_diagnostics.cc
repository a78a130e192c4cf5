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

constexpr std::string_view kOtherFlags = "give all of them the same flags of vLLM";
constexpr std::string_view kOtherKernel =
    "vLLM chose another attention kernel, by the machine: keep the pods on nodes of one kind (nodeSelector), or give each "
    "kind a pool";

struct FieldCure {
  std::string_view field, remedy;  // `field`: a beginning of its name
};
// Lines of the connector's facts, and parts of vLLM's configuration by their paths.
constexpr std::array<FieldCure, 28> kCures{{
    {"none_hash",
     "give all of them the same PYTHONHASHSEED, or none of them any: it decides what vLLM's block hashes start from"},
    {"hash_algorithm", "give all of them the same --prefix-caching-hash-algo"},
    {"engine_version", "let all of them run the same vLLM"},
    {"engine", "one pool for each kind of engine"},
    {"layout", "their shims are of different versions of Larder: restart the older pods"},
    {"weights",
     "they have other weights: the same --revision or the same files; or weights_id in the connector's extra config, where "
     "you know that they are equal"},
    {"kv_cache_dtype", "give all of them the same --kv-cache-dtype"},
    {"dtype", "give all of them the same --dtype"},
    {"model_config.dtype", "give all of them the same --dtype"},
    {"model_config.quantization", "give all of them the same --quantization"},
    {"model_config.hf_overrides", "give all of them the same --hf-overrides"},
    {"model_config.multimodal_config", "give all of them the same --mm-processor-kwargs and --media-io-kwargs"},
    {"model_config.hf_config",
     "another model, or other --hf-overrides: give each model a pool, so that their figures stand apart"},
    {"compilation_config", "give all of them the same --compilation-config, --enforce-eager and -O"},
    {"VLLM_", "give all of them the same value of this environment variable"},
    {"adapter", "they serve other adapters, or apply them by other --lora settings"},
    {"attention_config", kOtherFlags},
    {"attention_backend", kOtherKernel},
    {"attention_kernel", kOtherKernel},
    {"kernel_block_size", kOtherKernel},
    {"kv_cache_layout", "give all of them the same VLLM_KV_CACHE_LAYOUT"},
    {"parallel_config", kOtherFlags},
    {"parallel", "give all of them the same --tensor-parallel-size and --pipeline-parallel-size"},
    {"block_size", "give all of them the same --block-size"},
    {"hash_block_size", "give all of them the same --block-size"},
    {"chunk_tokens", "give all of them the same chunk_tokens (spec.chunkTokens of the pool)"},
    {"rope_max_model_len", "give all of them the same --max-model-len"},
    {"private",
     "the engine's cache was reset, or its weights may have changed in place (sleep, reload_weights): it shares again when it "
     "is restarted"},
}};

constexpr std::size_t kMostCompared = 32;

std::vector<NamespaceState> in_use(const Snapshot& larderd) {
  std::vector<NamespaceState> used;
  for (const NamespaceState& space : larderd.namespaces)
    if (space.sessions > 0) used.push_back(space);
  return used;
}

// Of two namespaces the pair that differs least.
struct Nearest {
  store::FingerprintDifference difference;
  std::string id, pod, other_id;
};

std::optional<Nearest> nearest(const std::vector<NamespaceState>& own, const Snapshots& others) {
  std::optional<Nearest> best;
  std::set<std::string> compared;  // a thousand pods have few namespaces
  for (const auto& [pod, larderd] : others)
    for (const NamespaceState& other : in_use(*larderd)) {
      if (compared.size() >= kMostCompared || !compared.insert(other.id).second) continue;
      for (const NamespaceState& mine : own) {
        store::FingerprintDifference difference = store::diff_fingerprints(other.fingerprint, mine.fingerprint);
        if (!best || difference.fields < best->difference.fields) best = {std::move(difference), mine.id, pod, other.id};
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
    if (!remedy.empty() && remedies.find(remedy) == std::string::npos) remedies += (remedies.empty() ? "" : "; ") + remedy;
  }
  if (nearest.difference.fields > names.size())
    fields += " and " + std::to_string(nearest.difference.fields - names.size()) + " more";
  const bool seed_alone = names.size() == 1 && names.front() == "none_hash";
  return {Weight::kProblem, seed_alone ? "OtherHashSeed" : "OtherNamespace",
          "its engines store under a namespace of their own (" + nearest.id.substr(0, 8) + "), which none of the " +
              base::plural(others, "other pod") + " of the pool has that answered; against " + nearest.pod + " (" +
              nearest.other_id.substr(0, 8) + ") these fields differ: " + fields +
              " (theirs -> its own: " + base::printable(nearest.difference.text) + ")",
          remedies};
}

}  // namespace

std::string remedy_of_field(const std::string& field) {
  for (const FieldCure& one : kCures)
    if (field.starts_with(one.field)) return std::string(one.remedy);
  return std::string(field.find("_config") != std::string::npos ? kOtherFlags : "");
}

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
    return {{Weight::kNote, "SameNamespace", "its engines have the namespace of " + reconcile::some_of(same), ""}};
  const std::optional<Nearest> found = nearest(mine, others);
  if (!found) return {};
  return {differs(*found, with_engines)};
}

}  // namespace larder::kubectl
