// Objects and statuses as JSON of others: pods, pools, backends, and a pod's answer in the place of
// its larderd's.
//
// Promises: no field that is read is cut from a pod; an accepted pool gives whole objects and a
// configuration of keys that larderd knows, and no work is left after one round; the text from a
// pod's answer is bounded. Input: a byte that chooses, the JSON.
#include <algorithm>

#include "operator/desired/backend_objects.h"
#include "operator/desired/pool_objects.h"
#include "operator/reconcile/larderd_answer.h"
#include "operator/reconcile/plan.h"
#include "operator/reconcile/pod_view.h"
#include "sidecar/config/fields.h"
#include "sidecar/config/yaml_file.h"
#include "tests/fuzz/input.h"

namespace {

using namespace larder;
using namespace larder::fuzz;
using api::Object;

constexpr std::size_t kMostText = 512;

Object fields_of(const reconcile::PodView& view) {
  return {view.ns,          view.name,         view.uid,
          view.pool,        view.node,         view.ip,
          view.ready,       view.running,      view.over,
          view.config,      view.restart_hash, view.notice,
          view.waiting,     view.waiting_text, view.unscheduled,
          view.restarts,    view.completed,    view.killed_for_memory,
          view.has_larderd, view.host_network};
}

void check_pod(const Object& pod) {
  if (!pod.is_object()) return;  // lists and watches hand on no other
  Object trimmed = pod;
  reconcile::trim_pod(trimmed);
  must(fields_of(reconcile::view_of(trimmed)) == fields_of(reconcile::view_of(pod)),
       "no field that is read is cut from a pod");
  Object again = trimmed;
  reconcile::trim_pod(again);
  must(again == trimmed, "a cut pod is not cut again");
}

// With the metadata that the API server grants: names are names.
Object named(const Object& object, const char* kind) {
  Object whole = object.is_object() ? object : Object::object();
  whole["kind"] = kind;
  whole["metadata"] = {{"name", "a"}, {"namespace", "ml"}, {"uid", "u"}, {"generation", 1}};
  return whole;
}

void check_objects(const reconcile::Owner& owner, const std::vector<Object>& objects) {
  const reconcile::Plan first = reconcile::plan(owner, objects, {});
  must(first.apply.size() == objects.size() && first.remove.empty(), "all that is wanted is made");
  std::vector<k8s::ObjectPtr> there;
  for (const reconcile::Step& step : first.apply) {
    must(!api::name_of(step.object).empty() && api::namespace_of(step.object) == owner.ns,
         "an object is named");
    there.push_back(std::make_shared<const Object>(step.object));
  }
  must(reconcile::plan(owner, objects, there).empty(), "no work is done twice");
  const reconcile::Plan none = reconcile::plan(owner, {}, there);
  must(none.remove.size() == there.size() && none.apply.empty(), "an unwanted object goes");
}

void check_config(const std::string& text) {
  const auto entries = config::parse_yaml(text, "FILE");
  must(entries.ok(), "larderd can read the configuration");
  must(std::ranges::all_of(
           *entries, [](const auto& entry) { return config::find_field(entry.key) != nullptr; }),
       "larderd knows each key of the configuration");
}

void check_pool(const Object& object) {
  const auto pool = api::parse_pool(named(object, "CachePool"));
  if (!pool.ok())
    return must(pool.status().text().starts_with("spec"), "a refusal names the field");
  const desired::Defaults defaults{.image = "larder:1"};
  check_objects({"CachePool", "ml", "a", "u"},
                desired::pool_objects(*pool, std::nullopt, defaults));
  check_config(desired::larderd_config(*pool, std::nullopt));
  must(desired::restart_hash(*pool, std::nullopt, defaults) ==
           desired::restart_hash(*pool, std::nullopt, defaults),
       "the same is the same");
}

void check_backend(const Object& object) {
  const auto backend = api::parse_backend(named(object, "CacheBackend"));
  if (!backend.ok())
    return must(backend.status().text().starts_with("spec"), "a refusal names the field");
  const desired::Defaults defaults{.image = "larder:1"};
  check_objects({"CacheBackend", "ml", "a", "u"}, desired::backend_objects(*backend, defaults));
  api::CachePool pool{"ml", "a", "u", 1, {}};
  pool.spec.memory.size_bytes = 1U << 30;
  check_config(desired::larderd_config(pool, *backend));
}

void check_answers(const std::string& text) {
  if (const auto answer = reconcile::read_answer(text); answer.ok()) {
    must(answer->used_bytes <= answer->capacity_bytes, "no more is used than there is");
    must(answer->version.size() <= kMostText && answer->fallbacks.size() <= 16,
         "a pod's answer is bounded");
    for (const auto& one : answer->fallbacks)
      must(one.kind.size() <= kMostText && one.why.size() <= kMostText, "a pod's text is short");
  }
  if (const auto down = reconcile::read_supervisor(text); down.ok())
    must(down->why.size() <= kMostText, "a supervisor's text is short");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const std::uint8_t what = input.byte();
  const std::string text = input.rest();
  if (what % 4 == 3) {
    check_answers(text);
    return 0;
  }
  const auto object = api::parse_json(text);
  if (!object.ok()) return 0;
  if (what % 4 == 0) check_pod(*object);
  if (what % 4 == 1) check_pool(*object);
  if (what % 4 == 2) check_backend(*object);
  return 0;
}
