// Pods as the API server shows them, with a larderd or without.
#pragma once

#include <string>

#include "operator/api/names.h"
#include "operator/api/object.h"

namespace larder::reconcile {

struct PodSaid {
  std::string name = "chat-1", pool = "chat", ip = "10.0.0.7", phase = "Running";
  bool ready = true;
  std::string restart_hash = "h", config = "c";
};

inline api::Object pod(const PodSaid& said) {
  using api::Object;
  Object larderd = {{"name", api::kSidecarContainer}, {"ready", said.ready}, {"restartCount", 0}};
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata",
           {{"name", said.name},
            {"namespace", "ml"},
            {"labels", {{std::string(api::kPoolLabel), said.pool}, {"app", "chat"}}},
            {"annotations",
             {{std::string(api::kPoolAnnotation), said.pool},
              {std::string(api::kConfigAnnotation), said.config},
              {std::string(api::kRestartAnnotation), said.restart_hash},
              {"theirs", "something long"}}}}},
          {"spec",
           {{"initContainers",
             Object::array({Object{{"name", api::kSidecarContainer}, {"image", "larder"}}})},
            {"containers", Object::array({Object{{"name", "vllm"}, {"image", "vllm"}}})}}},
          {"status",
           {{"phase", said.phase},
            {"podIP", said.ip},
            {"initContainerStatuses", Object::array({std::move(larderd)})},
            {"containerStatuses", Object::array({Object{{"name", "vllm"}, {"ready", true}}})}}}};
}

}  // namespace larder::reconcile
