// Trial: what the API server makes of a pod in a dry run: every webhook that agrees to one, every quota, limit and policy has its say, and
// nothing is created. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "operator/api/object.h"
#include "operator/kubectl/kubectl.h"

namespace larder::kubectl {

struct Trial {
  api::Object pod;                    // as it would be stored; null: it was not taken
  std::string refusal;                // the API server's words; empty: it was taken, or not asked
  std::vector<std::string> warnings;  // its words, too
  Status asked;                       // why it could not be asked; then nothing is known

  bool taken() const { return !pod.is_null(); }
};

// Of each, in their order. They need the user's right to create pods.
std::vector<Trial> try_pods(const Kubectl& kubectl, const std::vector<api::Object>& pods);

// What kubectl's answer to such a call says. Pure.
Trial trial_of(const Kubectl::Heard& heard);

// The objects of files, as kubectl reads them: lists in their parts, each with its namespace. `options`: "--filename=llm.yaml".
struct GivenObjects {
  std::vector<api::Object> objects;
  std::string unread;  // kubectl's words about what it could not read; empty: it read all
};
Result<GivenObjects> objects_of_files(const Kubectl& kubectl, const Words& options);

}  // namespace larder::kubectl
