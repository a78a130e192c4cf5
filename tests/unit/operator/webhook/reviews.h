// Reviews for tests: requests in the API server's form, and the content of the answers.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "operator/api/base64.h"
#include "operator/api/names.h"
#include "operator/api/object.h"

namespace larder::webhook {

inline api::Object annotated_pod(const std::string& pool = "chat") {
  return {
      {"apiVersion", "v1"},
      {"kind", "Pod"},
      {"metadata",
       {{"generateName", "vllm-"}, {"annotations", {{std::string(api::kPoolAnnotation), pool}}}}},
      {"spec",
       {{"containers",
         {{{"name", "main"}, {"image", "vllm"}, {"command", {"vllm", "serve", "/mnt/models"}}}}}}}};
}

inline api::Object review_of(const api::Object& pod,
                             const std::string& uid = "705ab4f5-6393-11e8-b7cc-42010a800002") {
  return {{"apiVersion", "admission.k8s.io/v1"},
          {"kind", "AdmissionReview"},
          {"request",
           {{"uid", uid},
            {"kind", {{"group", ""}, {"version", "v1"}, {"kind", "Pod"}}},
            {"resource", {{"group", ""}, {"version", "v1"}, {"resource", "pods"}}},
            {"namespace", "ml"},
            {"operation", "CREATE"},
            {"dryRun", false},
            {"object", pod}}}};
}

// The response of an AdmissionReview, its patch decoded; null without a response.
inline api::Object response_in(const std::string& body) {
  const Result<api::Object> review = api::parse_json(body);
  if (!review.ok() || api::text_at(*review, "kind") != "AdmissionReview") return {};
  api::Object response = api::at(*review, "response");
  if (response.contains("patch")) {
    const Result<api::Object> patch =
        api::parse_json(api::from_base64(api::text_at(response, "patch")).value_or("?"));
    response["patch"] = patch.ok() ? *patch : api::Object("no patch");
  }
  return response;
}

}  // namespace larder::webhook
