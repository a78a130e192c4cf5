// Seeds of the inputs that the operator and larderctl get from others: pods, reviews, watches,
// answers, kubeconfigs, certificates, statuses.
#include <utility>

#include "operator/api/base64.h"
#include "tests/fuzz/seeds.h"

namespace larder::fuzz {
namespace {

// The first byte: a pod (0) or a script (1); the second: the pool's placement, named container,
// flags, native sidecars as bits.
void inject_seeds() {
  write("inject", "pod",
        u8({0, 0}) +
            R"({"metadata":{"name":"a"},"spec":{"containers":[{"name":"engine","command":["vllm",)"
            R"("serve","m"]}]}})");
  write("inject", "pod_full",
        u8({0, 8}) +
            R"({"metadata":{"annotations":{"a/b":"c"}},"spec":{"restartPolicy":"Always",)"
            R"("securityContext":{"supplementalGroups":[1]},)"
            R"("initContainers":[{"name":"istio-init"}],"volumes":[{"name":"v","emptyDir":{}}],)"
            R"("containers":[{"name":"x"},)"
            R"({"name":"engine","args":["m","--max-model-len","1"],"env":[{"name":"PYTHONPATH",)"
            R"("valueFrom":{}}],)"
            R"("ports":[{"containerPort":1}],"volumeMounts":[{"name":"v","mountPath":"/x"}],)"
            R"("resources":{"limits":{"cpu":"1"}}}]}})");
  const std::pair<const char*, const char*> scripts[] = {
      {"kserve", "eval \"exec vllm serve /mnt/models ${VLLM_ADDITIONAL_ARGS} $@\""},
      {"lines",
       "set -e\ncat <<X >n\n'\nX\nif a; then # b\n  vllm serve \"m\" \\\n --port ${P:-'1'} 2>&1 | "
       "tee >(cat)\nfi\n"},
      {"nested", "bash -c 'eval \"vllm serve m $(echo `a`) $X\"'"},
      {"connector",
       "vllm serve m --kv-transfer-config '{\"kv_connector\":\"X\",\"kv_role\":\"kv_both\"}'"},
      {"twice",
       "a=(1 2); case $x in a) vllm serve a;; esac; (( i << 2 )); vllm serve $'b' \"${a[@]}\" --"},
  };
  for (const auto& [name, script] : scripts)
    write("inject", std::string("script_") + name, u8({1, 0}) + script);
}

void watch_seeds() {
  const std::string object =
      R"("object":{"kind":"Pod","metadata":{"name":"a","resourceVersion":"5"}}})";
  const std::string all = "{\"type\":\"ADDED\"," + object + "\n{\"type\":\"MODIFIED\"," + object +
                          "\r\n\n{\"type\":\"DELETED\"," + object + "\n";
  const std::string end = R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9",)"
                          R"("annotations":{"k8s.io/initial-events-end":"true"}}}})";
  write("watch", "all", u8({2, 7, 3}) + all + end + "\n");
  write("watch", "error",
        u8({1, 5}) + all +
            R"({"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}})" + "\n" +
            all);
  write("watch", "cut", u8({0}) + all.substr(0, all.size() - 9));
  write("watch", "no_event", u8({0}) + "[{}]\n" + all);
  write(
      "watch", "long",
      u8({1, 200}) + "{\"type\":\"ADDED\",\"object\":{\"a\":\"" + std::string(700, 'x') + "\"}}\n");
  write("watch", "deep",
        u8({0}) + "{\"type\":\"ADDED\",\"object\":" + std::string(200, '[') + "\n");
}

// The first byte: how the world is (review_fuzz.cc).
void review_seeds() {
  const std::string pod =
      R"({"metadata":{"generateName":"v-","annotations":{"larder.dev/pool":"llama"},)"
      R"("ownerReferences":)"
      R"([{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"v","uid":"1","controller":true}]},)"
      R"("spec":{"containers":[{"name":"engine","command":["vllm","serve","m"]}]}})";
  const std::string review =
      R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"705ab4f5",)"
      R"("dryRun":false,)"
      R"("kind":{"group":"","version":"v1","kind":"Pod"},"namespace":"ml","operation":"CREATE",)"
      R"("object":)";
  write("review", "whole", u8({0}) + review + pod + "}}");
  write("review", "pod", u8({1}) + pod);
  for (const int world : {3, 9, 17, 21})
    write("review", "world_" + std::to_string(world), u8({world}) + pod);
  write("review", "update",
        u8({0}) +
            R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1",)"
            R"("kind":{"version":"v1","kind":"Pod"},"operation":"UPDATE","object":{}}})");
  write("review", "no_review", u8({0}) + R"({"apiVersion":"v1","kind":"Pod"})");
  write("review", "no_object", u8({0}) + review + "[]}}");
}

void kubeconfig_seeds() {
  const auto config = [](const std::string& cluster, const std::string& user) {
    return "current-context: a\ncontexts:\n- name: a\n  context: {cluster: c, user: "
           "u}\nclusters:\n- name: c\n  cluster:\n    "
           "server: "
           "https://h:6443/\n" +
           cluster + "users:\n- name: u\n  user:\n" + user;
  };
  write("kubeconfig", "token", config("    insecure-skip-tls-verify: true\n", "    token: t\n"));
  write("kubeconfig", "data",
        config("    certificate-authority-data: Q0EgUEVN\n",
               "    client-certificate-data: Q0VSVA==\n    client-key: /x\n"));
  write("kubeconfig", "token_lines",
        config("    tls-server-name: k\n    proxy-url: http://p\n",
               "    token: |\n      a\n      b\n"));
  write("kubeconfig", "token_escaped", config("", "    token: \"a\\r\\nX: 1\"\n"));
  write("kubeconfig", "exec", config("", "    exec: {command: aws}\n"));
  write("kubeconfig", "json",
        R"({"current-context":"a","contexts":[{"name":"a","context":{"cluster":"c"}}]})");
  write("kubeconfig", "odd_keys", "? [a, b]\n: c\n&x d: *x\n--- !tag\n{a: !!binary x, ? : }\n");
}

// An authority of P-256, and its key: no secret, since no program trusts the authority.
constexpr const char* kCertificate =
    "MIIBfTCCASOgAwIBAgIUDzEqtJXs2mESq1LBpQUhIvDAWiAwCgYIKoZIzj0EAwIwDDEKMAgGA1UEAwwBYTAeFw0yNjExMj"
    "IyMjEzNDJaFw0zNj"
    "ExMTkyMjEzNDJaMAwxCjAIBgNVBAMMAWEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATQuIoFKzq0RzN9nCySpD7E28oq"
    "c4UTAr+sQP9cEv45"
    "VX5CQu+5uWiPubY6S/"
    "V0AiHfWpCU0VkshAyXkJpmBkoZo2MwYTAdBgNVHQ4EFgQUWgJPdG5qDt+jX5R+joagM5cpmRYwHwYDVR0jBBgwFoAUWg"
    "JPdG5qDt+jX5R+joagM5cpmRYwDwYDVR0TAQH/BAUwAwEB/"
    "zAOBgNVHREEBzAFggNhLmIwCgYIKoZIzj0EAwIDSAAwRQIhAPptoAPOYRJnAIWp"
    "cWLuRq6G6pKx4wJm9UDuOP+GsiZbAiAKOP5UJRC8hklfkj73zrnUycNhm+mt7ybSxLdB93iVwg==";
constexpr const char* kKey =
    "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg0QVdJLgJYW/"
    "Erz9UJ+H5zZZZpD2TcOF48gqzZhdbooihRANCAATQuIoFKzq0Rz"
    "N9nCySpD7E28oqc4UTAr+sQP9cEv45VX5CQu+5uWiPubY6S/V0AiHfWpCU0VkshAyXkJpmBkoZ";

void certificates_seeds() {
  const std::string der = api::from_base64(kCertificate).value_or(""),
                    key = api::from_base64(kKey).value_or("");
  const auto pair = [](int form, const std::string& certificate, const std::string& its_key) {
    return u8({form}) + pack(static_cast<std::uint16_t>(certificate.size())) + certificate +
           its_key;
  };
  const std::string begin = "-----BEGIN CERTIFICATE-----\n", end = "\n-----END CERTIFICATE-----\n";
  write("certificates", "good", pair(0, der, key));
  write("certificates", "no_key", pair(0, der, ""));
  const std::string time = "\x17\x0d";  // of UTC, 13 characters; the second one is the end
  std::string no_end = der;
  no_end.replace(no_end.find(time, no_end.find(time) + 1) + time.size(), 13, "000000000000Z");
  write("certificates", "no_end", pair(0, no_end, key));
  write("certificates", "cut", pair(0, der.substr(0, der.size() / 2), key));
  write("certificates", "bundle",
        pair(1,
             begin + kCertificate + end + "text\n" + begin + "x" + end + begin + kCertificate + end,
             key));
  write("certificates", "password",
        pair(3, begin + kCertificate + end,
             "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: "
             "AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE "
             "KEY-----\n"));
}

// Operations of answers_fuzz.cc, each behind its byte; answers by the number of their status.
void answers_seeds() {
  const auto answer = [](int status, const std::string& body) {
    return u8({status, 0}) + pack(static_cast<std::uint16_t>(body.size())) + body;
  };
  const std::string lease =
      R"({"metadata":{"resourceVersion":"4"},"spec":{"holderIdentity":"me","leaseTransitions":3}})";
  const std::string free = R"({"metadata":{"resourceVersion":"3"},"spec":{"holderIdentity":"",)"
                           R"("leaseTransitions":9223372036854775807}})";
  write("answers", "pages",
        u8({0}) +
            answer(0, R"({"metadata":{"continue":"x"},"items":[{"metadata":{"name":"a"}}]})") +
            answer(9, "{}") + answer(0, R"({"metadata":{"resourceVersion":"5"},"items":[]})"));
  write("answers", "watch",
        u8({1}) +
            answer(0, R"({"type":"ADDED","object":{"metadata":{"name":"a"}}})"
                      "\n") +
            u8({2}) + answer(10, R"({"kind":"Status","code":422,"message":"no"})"));
  write("answers", "lease",
        u8({3}) + answer(7, "{}") + answer(3, lease) + u8({3}) + answer(0, lease) + u8({3}) +
            answer(8, "{}") + answer(0, lease));
  write("answers", "lease_odd",
        u8({3}) + answer(0, free) + answer(0, R"({"spec":"x"})") + u8({3}) +
            answer(0, R"({"metadata":1})"));
  const std::string pem = api::to_base64(std::string("-----BEGIN CERTIFICATE-----\n") +
                                         kCertificate + "\n-----END CERTIFICATE-----\n");
  write(
      "answers", "secret",
      u8({4}) +
          answer(0, R"({"metadata":{"resourceVersion":"1"},"data":{"ca.crt":")" + pem + R"("}})") +
          answer(0, R"({"webhooks":[{"clientConfig":{"caBundle":""}},{"clientConfig":3}]})") +
          answer(0, "{}") + answer(0, "{}"));
  write("answers", "secrets",
        u8({5}) + answer(0, R"({"data":{"tls.crt":"YQ==","tls.key":"YQ=="}})") +
            answer(0, R"({"data":{"password":"YQ=="}})") + u8({5}) + answer(6, "{}") +
            answer(6, "{}"));
  write("answers", "nodes",
        u8({6}) +
            answer(0, R"({"items":[{"metadata":{"name":"n"},)"
                      R"("status":{"allocatable":{"hugepages-2Mi":"1Gi"}}}]})") +
            answer(0, R"({"items":[{"spec":{"containers":[)"
                      R"({"resources":{"limits":{"hugepages-2Mi":"4Mi"}}}]}}]})"));
  write("answers", "writes", u8({7}) + answer(11, "slow") + answer(0, "{}") + answer(8, "{}"));
}

// The first byte: a pod (0), a pool (1), a backend (2), a pod's answer (3).
void objects_seeds() {
  write("objects", "pod",
        u8({0}) + R"({"metadata":{"name":"a","uid":"u","labels":{"larder.dev/pool":"p"},)"
                  R"("annotations":{"larder.dev/config":"c"}},)"
                  R"("spec":{"nodeName":"n","initContainers":[{"name":"larderd"}]},)"
                  R"("status":{"phase":"Running","podIP":"10.0.0.1",)"
                  R"("initContainerStatuses":[{"name":"larderd","ready":true,"restartCount":1,)"
                  R"("state":{"waiting":{"reason":"x"}},)"
                  R"("lastState":{"terminated":{"exitCode":0,"reason":"OOMKilled"}}}]}})");
  write(
      "objects", "pool",
      u8({1}) +
          R"({"spec":{"memory":{"size":"4Gi","hugepages":"2Mi"},"disk":{"size":"10Gi","ttl":"1d"},)"
          R"("resources":{"limits":{"memory":"8Gi"}},"podSecurity":{"runAsUser":7}}})");
  write("objects", "pool_node",
        u8({1}) + R"({"spec":{"placement":"Node","memory":{"size":"500M"},"disk":{"size":"1Gi",)"
                  R"("volume":"hostPath",)"
                  R"("hostPath":"/d\"\\"},"node":{"tolerations":[{}],)"
                  R"("updateStrategy":{"type":"OnDelete"}}}})");
  write("objects", "backend",
        u8({2}) + R"({"spec":{"mode":"Sentinel","endpoints":["[::1]:1","h:2"],"master":"m",)"
                  R"("user":"u@\u00e4","password":{"name":"s"},)"
                  R"("tls":{"caSecret":"c","clientSecret":"d","serverName":"x"}}})");
  write("objects", "backend_managed",
        u8({2}) + R"({"spec":{"managed":{"memory":"1Gi","policy":"allkeys-lfu",)"
                  R"("resources":{"requests":{"cpu":1}}}}})");
  write("objects", "answer",
        u8({3}) + R"({"version":"1","memory":{"capacity_bytes":9,"used_bytes":99},)"
                  R"("models":[{"requests":-1},7],)"
                  R"("sessions":{"attached":[{}]},"backend":{"serving":false,"reason":"r"},)"
                  R"("fallbacks":[{"kind":"k"},1]})");
  write("objects", "supervisor",
        u8({3}) + R"({"ready":false,"why":"killed","out_of_memory":true})");
}

// Two answers of larderd to GET /v1/status: the length of the first in front.
void snapshot_seeds() {
  const std::string tier =
      R"("reason":"","capacity_bytes":9,"used_bytes":3,"chunks":1,"write_queue":0,"puts":{"ok":1,)"
      R"("bytes":3,"failed":0},)"
      R"("gets":{"ok":1,"bytes":3,"failed":0})";
  const auto status = [&](const std::string& uptime, const std::string& name,
                          const std::string& count) {
    return R"({"version":"0.1.0","pool":"p","epoch":1,"uptime_seconds":)" + uptime +
           R"(,"healthy":true,"ready":true,"models":[{"model":")" + name + R"(","requests":)" +
           count +
           R"(,"requests_hit":1,"tokens_asked":9,"tokens_hit":4,)"
           R"("bytes_loaded":1,"bytes_stored":1,)" +
           R"("prefill_tokens":5,"prefill_seconds":0.5}],"trust":{"loads_failed":0,)"
           R"("checksum_failures":0},"memory":{"capacity_bytes":9,)" +
           R"("touched_bytes":9,"used_bytes":3,"pinned_bytes":0,"page_bytes":4096,"numa":"none",)"
           R"("slots":{"committed":1},)" +
           R"("slot_sizes":[{"slot_bytes":3}],"evicted":{"capacity":0,"dropped":0,"bad":0,)"
           R"("resized":0,"unwritten":0,"not_admitted":0}},)" +
           R"("stores":{"refused_no_space":0,"refused_cap":0},"estimate":{"chunks_asked":1,)"
           R"("hit_ratio":[{"size":0.5,"hit_ratio":0.1}]},)" +
           R"("disk":{"path":"/d",)" + tier + R"(},"backend":{"url":"redis://h",)" + tier +
           R"(,"probes":{"asked":1,"late":0,"failed":0,"families":1,"shared":0}},)"
           R"("namespaces":[{"id":"ab","model":"m","chunks":1,"bytes":3,)" +
           R"("sessions":1,"fingerprint":"f"}],"sessions":{"attached":[{"engine":"e","holds":1,)"
           R"("grants":0,"silent":false,"namespace":"ab"}],)" +
           R"("opened":1,"refused":0,"protocol_errors":0},"fallbacks":[{"kind":"k","why":"w"}]})";
  };
  const auto pair = [](const std::string& first, const std::string& second) {
    return pack(static_cast<std::uint16_t>(first.size())) + first + second;
  };
  write("snapshot", "two", pair(status("1", "m", "1"), status("2.5", "m", "3")));
  write("snapshot", "names", pair("", status("2", R"(\u001b[2J\u009bx\n)", "3")));
  write("snapshot", "huge",
        pair(status("1", "m", "1"), status("1e308", "m", "18446744073709551615")));
  write("snapshot", "no_counts", pair("[1", status("-1e308", "m", "1e300")));
}

}  // namespace

void operator_seeds() {
  inject_seeds();
  watch_seeds();
  review_seeds();
  kubeconfig_seeds();
  certificates_seeds();
  answers_seeds();
  objects_seeds();
  snapshot_seeds();
}

}  // namespace larder::fuzz
