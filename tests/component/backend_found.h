// The findings of `larderctl backend check`, in a line.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/component/command.h"

namespace larder::test {

// As docs/guides/share-a-backend.md sets a server up, but small.
inline const std::vector<std::string> kWell{"--maxmemory", "2gb", "--maxmemory-policy",
                                            "allkeys-lru"};

// `words`: behind `backend check`.
inline Outcome backend_check(const std::string& words) {
  const Outcome outcome = run(std::string(LARDERCTL_PATH) + " backend check " + words);
  EXPECT_THAT(outcome.text, testing::Not(testing::HasSubstr("hunter2"))) << "a secret";
  return outcome;
}

// "0", or "1 noeviction no-maxmemory": the exit status, and all findings but notes. The speed of
// the server depends on other work of this machine, and does not matter here.
inline std::string backend_found(const std::string& words) {
  const Outcome outcome = backend_check("--json " + words);
  const nlohmann::json answer = nlohmann::json::parse(outcome.text, nullptr, false);
  if (!answer.is_object()) return outcome.text;
  const char* const verdicts[] = {"ok", "warnings", "unusable"};
  EXPECT_EQ(answer["verdict"], verdicts[outcome.status]);
  std::string all;
  bool slow = false;
  for (const nlohmann::json& finding : answer["findings"]) {
    const auto id = finding["id"].get<std::string>();
    const bool speed = id == "rate" || id == "latency" || id == "slow-connect";
    slow = slow || (speed && finding["weight"] == "warning");
    if (finding["weight"] != "note" && !speed) all += " " + id;
  }
  return (slow && all.empty() ? "0" : std::to_string(outcome.status)) + all;
}

}  // namespace larder::test
