// PodReview: an AdmissionReview of Kubernetes in, the answered one out, around inject().
// Thread-safe.
//
// PodReview refuses no pod. After any failure the answer is "allowed" without a patch, and a
// warning gives the reason. A body that is no AdmissionReview gets 400 with the reason.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "operator/webhook/inject/inject.h"
#include "operator/webhook/pool_lookup.h"

namespace larder::webhook {

struct Reviewed {
  int http_status = 200;
  std::string body;
};

// The most values (numbers, texts, lists, objects) in a review. A value costs about 100 bytes
// during parsing; pods have some hundreds of values.
inline constexpr std::size_t kMostValues = 100'000;

class PodReview {
 public:
  using Inject = std::function<Injection(const Input&)>;
  // A pod without an injection, and the reason, for an Event on the owner.
  struct Left {
    const api::Object& pod;
    const std::string& ns;
    const std::string& pool;      // of its PoolRequest: requested by the pod or by its namespace
    const std::string& pool_uid;  // empty: the pool is missing or unreadable
    const std::string& why;
    Refusal kind;
    std::string_view from;  // the address that sent the review
  };
  using LeftAlone = std::function<void(const Left&)>;  // not for dry runs

  // `pools` outlives the review.
  PodReview(PoolLookup& pools, desired::Defaults defaults, Inject inject, LeftAlone left_alone)
      : pools_(pools),
        defaults_(std::move(defaults)),
        inject_(std::move(inject)),
        left_alone_(std::move(left_alone)) {}

  // `from`: the address that sent it.
  Reviewed operator()(std::string_view body, std::string_view from) const;

 private:
  struct Verdict {
    api::Object patch = api::Object::array();
    std::string why;  // why the pod has no injection; empty: injected
    Refusal kind = Refusal::kNone;
    std::string pool_uid = {};
  };
  static Verdict verdict_of(Injection injection, std::string pool_uid = "");
  Verdict judge(const api::Object& request, std::string_view from) const;
  Verdict judge_pod(const api::Object& pod, const std::string& ns, PoolRequest request,
                    Surroundings surroundings) const;
  api::Object with_known_variables(const api::Object& pod, const std::string& ns) const;
  // REQUIRES: the input has a pool.
  Classes classes_of(const Input& input) const;

  PoolLookup& pools_;
  const desired::Defaults defaults_;
  const Inject inject_;
  const LeftAlone left_alone_;
};

}  // namespace larder::webhook
