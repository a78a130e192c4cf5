// inject: a pod and its pool in, a JSON patch out. Pure: no network, time or environment. Thread-safe; never throws.
#pragma once

#include <optional>
#include <string>

#include "operator/api/cache_backend.h"
#include "operator/api/cache_pool.h"
#include "operator/desired/larderd.h"

namespace larder::webhook {

struct Injection {
  api::Object patch = api::Object::array();  // RFC 6902; empty: nothing to change
  // Empty: the pod has its cache. Else why it was left alone and what to do, one sentence; the patch then only says so in
  // an annotation, and the caller makes an Event of it.
  std::string refused;
};

struct Input {
  const api::Object& pod;              // as under admission: name and namespace may be missing
  std::string ns;                      // request.namespace
  std::string pool_name;               // the annotation's value
  std::optional<api::CachePool> pool;  // nothing: there is no such pool
  std::optional<api::CacheBackend> backend;
  desired::Defaults defaults;
};

// inject(inject(pod)) = inject(pod): a pod that has been injected already gets an empty patch.
Injection inject(const Input& input);

}  // namespace larder::webhook
