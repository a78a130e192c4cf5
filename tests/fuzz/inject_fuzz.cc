// The injector: any JSON as a pod, and any text as the script of a well-formed pod.
//
// Promises (tests/unit/operator/webhook/inject/promises.cc): the patch is valid, a second injection
// changes no field, a pod left alone keeps everything. Input: a byte that chooses, a byte for the
// pool, the text.
#include "operator/webhook/inject/script_engines.h"
#include "tests/fuzz/input.h"
#include "tests/unit/operator/webhook/inject/promises.h"

namespace {

using namespace larder;
using namespace larder::fuzz;

test::InjectionCase base_case(std::uint8_t pool) {
  static const test::InjectionCase kUsual = test::container_case("{command: [vllm, serve, m]}");
  test::InjectionCase one = kUsual;
  one.pool->spec.placement = (pool & 1) != 0 ? api::Placement::kNode : api::Placement::kSidecar;
  one.pool->spec.engine.container = (pool & 2) != 0 ? "engine" : "";
  one.pool->spec.engine.flags = (pool & 4) == 0;
  one.defaults.native_sidecars = (pool & 8) == 0;
  return one;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const bool script = (input.byte() & 1) != 0;
  test::InjectionCase one = base_case(input.byte());
  const std::string text = input.rest();
  if (script) {
    // JSON is UTF-8, and Kubernetes hands on no other.
    const api::Object checked = api::Object::parse(
        api::Object(text).dump(-1, ' ', false, api::Object::error_handler_t::replace));
    one.pod["spec"]["containers"][0]["command"] = {"bash", "-c", checked};
  } else {
    const auto pod = api::parse_json(text);
    if (!pod.ok()) return 0;
    one.pod = *pod;
  }
  const std::string broken = test::broken_promise(one);
  must(broken.empty(), broken.c_str());
  return 0;
}
