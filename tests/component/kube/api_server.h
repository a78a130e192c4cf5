// A real etcd and kube-apiserver for all tests of one program, by apiserver.sh. Nobody runs controllers: no pod ever starts.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/component/command.h"

namespace larder::test {

class ApiServer : public testing::Environment {
 public:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "larder-apiserver-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
    const Outcome outcome = script("up");
    if (outcome.text.find("no kube-apiserver here") != std::string::npos) missing_ = outcome.text;
    ASSERT_TRUE(outcome.status == 0 || !missing_.empty()) << outcome.text;
  }
  void TearDown() override {
    script("down");
    std::filesystem::remove_all(root_);
  }

  // Why there is none; empty: there is one.
  const std::string& missing() const { return missing_; }

  Outcome kubectl(const std::string& words) const {
    return run("kubectl --kubeconfig " + root_ + "/server/admin.kubeconfig " + words, variables());
  }
  // With `text` as its file, "-f FILE" at the end.
  Outcome kubectl(const std::string& words, const std::string& text) const {
    const std::string file = root_ + "/given.yaml";
    std::ofstream(file) << text;
    return kubectl(words + " -f " + file);
  }

 private:
  static std::string variables() {
    const auto value = [](const char* name) { return std::string(std::getenv(name) == nullptr ? "" : std::getenv(name)); };
    return "PATH=" + value("PATH") + " HOME=" + value("HOME") + " LARDER_CACHE=" + value("LARDER_CACHE");
  }
  Outcome script(const std::string& verb) const {
    return run(std::string(REPOSITORY_ROOT) + "/tests/component/kube/apiserver.sh " + verb + " " + root_ + "/server",
               variables());
  }

  std::string root_, missing_;
};

// That of this program: to be asked for before main(), by a variable of its test file, so that it is brought up.
inline ApiServer& api_server() {
  static auto* one = static_cast<ApiServer*>(testing::AddGlobalTestEnvironment(new ApiServer));  // GoogleTest owns it
  return *one;
}

}  // namespace larder::test
