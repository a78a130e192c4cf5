#include "operator/api/names.h"
#include "operator/desired/backend_objects.h"
#include "operator/desired/image_name.h"
#include "operator/desired/object_head.h"
#include "operator/desired/quantity.h"
#include "operator/desired/set_if.h"
#include "operator/desired/short_hash.h"

namespace larder::desired {
namespace {

using api::CacheBackend;
using api::ManagedSpec;
using api::Object;

// Names with a host: a CRI-O with enforced short names refuses a name without one.
constexpr std::string_view kServerImage = "docker.io/valkey/valkey:8.1",
                           kRedisImage = "docker.io/library/redis:7.2";
constexpr std::string_view kConfigFolder = "/etc/server", kAuthFolder = "/etc/server-auth",
                           kDataFolder = "/data";
constexpr const char* kDataVolume = "data";
constexpr std::uint64_t kDataBytes = 64ULL << 20;  // the server keeps no snapshot and no log
constexpr int kReadableByGroup = 0440;             // the pod's fsGroup may read
constexpr int kServerGraceSeconds = 10, kRevisions = 3;

std::string config_path() {
  return std::string(kConfigFolder) + "/" + std::string(kServerFile);
}

// A password goes to the server on standard input, so that no argument and no environment shows it.
// The shell writes the password and becomes the server. A child of the shell stays and passes a
// changed password of the Secret to the server; larderd uses the new password with its next
// connection. Without the child, the server would refuse larderd until a restart of this pod. The
// script refuses an empty password, with which the server would serve every client.
Object command(const CacheBackend& backend) {
  const std::string& engine = backend.spec.managed->engine;
  const std::string server = engine + "-server";
  if (!backend.spec.password) return Object::array({server, config_path()});
  const std::string client = engine + "-cli -p " + std::to_string(api::kServerPort);
  const std::string script =
      "set -eu\n"
      "quoted() { sed 's/[\"\\\\]/\\\\&/g' " +
      std::string(kAuthFolder) +
      "/password; }\n"
      "password=$(quoted)\n"
      "[ -n \"$password\" ]\n"
      "follow() {\n"
      "  while sleep 5 && kill -0 $$; do\n"
      "    new=$(quoted) || continue\n"
      "    if [ -z \"$new\" ] || [ \"$new\" = \"$password\" ]; then continue; fi\n"
      "    said=$(printf 'AUTH \"%s\"\\nCONFIG SET requirepass \"%s\"\\n' \"$password\" \"$new\" "
      "| " +
      client +
      ") || continue\n"
      "    case $said in *OK*OK*) password=$new ;; esac\n"
      // Two OKs: one of AUTH and one of CONFIG SET. Otherwise the old password stays, and the next
      // round tries again.
      "  done\n"
      "}\n"
      "follow >/dev/null 2>&1 &\n"
      "exec " +
      server + " " + config_path() + " - <<END\nrequirepass \"$password\"\nEND\n";
  return Object::array({"sh", "-c", script});
}

// NOAUTH is an answer of a live server with a password.
// A loading or busy server must not be restarted: a restart would lose the content.
Object probe(const ManagedSpec& managed, int period_seconds, int tries) {
  const std::string script =
      managed.engine + "-cli ping 2>&1 | grep -qE 'PONG|NOAUTH|LOADING|BUSY'";
  return Object{{"exec", {{"command", Object::array({"sh", "-c", script})}}},
                {"periodSeconds", period_seconds},
                {"timeoutSeconds", 5},
                {"failureThreshold", tries}};
}

Object resources(const ManagedSpec& managed) {
  Object all = managed.resources.is_object() ? managed.resources : Object::object();
  Object& limits = all["limits"];
  Object& requests = all["requests"];
  if (!limits.is_object()) limits = Object::object();
  if (!requests.is_object()) requests = Object::object();
  // Request and limit of memory are equal, so the node keeps the room that maxmemory was computed
  // from.
  limits["memory"] = requests["memory"] = quantity(managed.memory_bytes);
  if (!requests.contains("cpu")) requests["cpu"] = limits.value("cpu", Object("500m"));
  return all;
}

Object mount(std::string_view name, std::string_view path, bool read_only) {
  Object mount{{"name", name}, {"mountPath", path}};
  if (read_only) mount["readOnly"] = true;
  return mount;
}

std::string image_of(const ManagedSpec& managed, const Defaults& defaults) {
  if (!managed.image.empty())
    return in_registry(managed.image, defaults.image_registry, Named::kByUser);
  return in_registry(managed.engine == "redis" ? kRedisImage : kServerImage,
                     defaults.image_registry, Named::kByUs);
}

Object container(const CacheBackend& backend, const Defaults& defaults) {
  const ManagedSpec& managed = *backend.spec.managed;
  Object mounts =
      Object::array({mount("config", kConfigFolder, true), mount(kDataVolume, kDataFolder, false)});
  if (backend.spec.password) mounts.push_back(mount("auth", kAuthFolder, true));
  Object one{
      {"name", "server"},
      {"image", image_of(managed, defaults)},
      {"command", command(backend)},
      {"ports", Object::array({Object{
                    {"name", "redis"}, {"containerPort", api::kServerPort}, {"protocol", "TCP"}}})},
      // A shell may need a file for a here document.
      {"env", Object::array({Object{{"name", "TMPDIR"}, {"value", kDataFolder}}})},
      {"resources", resources(managed)},
      {"startupProbe", probe(managed, 1, 60)},
      {"readinessProbe", probe(managed, 10, 3)},
      // Two minutes of silence: a restart empties the cache and is the last resort.
      {"livenessProbe", probe(managed, 20, 6)},
      {"securityContext",
       {{"allowPrivilegeEscalation", false},
        {"capabilities", {{"drop", Object::array({"ALL"})}}},
        {"readOnlyRootFilesystem", true}}},
      {"volumeMounts", std::move(mounts)}};
  // An empty policy would always differ from the API server's default.
  if (!managed.image_pull_policy.empty()) one["imagePullPolicy"] = managed.image_pull_policy;
  return one;
}

Object volumes(const CacheBackend& backend) {
  const Object config{{"name", server_config_name(backend)}, {"defaultMode", kReadableByGroup}};
  Object all = Object::array(
      {Object{{"name", "config"}, {"configMap", config}},
       Object{{"name", kDataVolume}, {"emptyDir", {{"sizeLimit", quantity(kDataBytes)}}}}});
  if (!backend.spec.password) return all;
  // Not optional: without its password the server would serve every client.
  const Object items =
      Object::array({Object{{"key", backend.spec.password->key}, {"path", "password"}}});
  const Object secret{{"secretName", backend.spec.password->name},
                      {"items", items},
                      {"defaultMode", kReadableByGroup}};
  all.push_back(Object{{"name", "auth"}, {"secret", secret}});
  return all;
}

Object security(ServerIds ids) {
  Object security{{"runAsNonRoot", true}, {"seccompProfile", {{"type", "RuntimeDefault"}}}};
  if (ids == ServerIds::kPlatforms) return security;
  security["runAsUser"] = api::kUser;
  security["runAsGroup"] = security["fsGroup"] = api::kUserGroup;
  return security;
}

// The pod passes Pod Security `restricted`, and no process of the pod is root.
Object pod_spec(const CacheBackend& backend, const Defaults& defaults, ServerIds ids) {
  const ManagedSpec& managed = *backend.spec.managed;
  Object spec{{"automountServiceAccountToken", false},
              {"enableServiceLinks", false},
              {"terminationGracePeriodSeconds", kServerGraceSeconds},
              {"securityContext", security(ids)},
              {"containers", Object::array({container(backend, defaults)})},
              {"volumes", volumes(backend)}};
  set_if(spec, "imagePullSecrets", pull_secrets(Object(), defaults));
  set_if(spec, "nodeSelector", managed.node_selector);
  set_if(spec, "tolerations", managed.tolerations);
  set_if(spec, "affinity", managed.affinity);
  set_if(spec, "priorityClassName", managed.priority_class);
  return spec;
}

}  // namespace

Object stateful_set(const CacheBackend& backend, const Defaults& defaults, ServerIds ids) {
  const Object labels = pod_labels(backend);
  // The server reads its configuration once; the hash restarts the pod. It writes nothing to its
  // emptyDir, for which the cluster-autoscaler would keep the node.
  const Object annotations{
      {std::string(api::kRestartAnnotation), short_hash(server_config(backend))},
      {std::string(api::kMovableVolumesAnnotation), kDataVolume}};
  Object set = object_head("apps/v1", "StatefulSet", backend);
  // One replica: two servers with one name would have different contents. The StatefulSet never
  // starts the second pod before the first has ended.
  set["spec"] = Object{{"replicas", 1},
                       {"revisionHistoryLimit", kRevisions},
                       {"serviceName", managed_name(backend)},
                       {"selector", {{"matchLabels", labels}}},
                       {"template",
                        {{"metadata", {{"labels", labels}, {"annotations", annotations}}},
                         {"spec", pod_spec(backend, defaults, ids)}}}};
  return set;
}

}  // namespace larder::desired
