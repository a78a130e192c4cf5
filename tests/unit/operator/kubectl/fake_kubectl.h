// A kubectl that serves files: its answers by the words of the command, in a folder of its own.
// Each test has its own.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace larder::kubectl {

class FakeKubectl {
 public:
  FakeKubectl() {
    std::string pattern = std::filesystem::temp_directory_path() / "larder-kubectl-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    script(
        "name=$(printf %s \"$*\" | tr -c A-Za-z0-9 _)\n"
        "echo \"$*\" >> " +
        folder_ +
        "/calls\n"
        "[ -f " +
        folder_ + "/$name.error ] && { cat " + folder_ +
        "/$name.error >&2; exit 1; }\n"
        "[ -f " +
        folder_ + "/$name ] && exec cat " + folder_ +
        "/$name\n"
        "echo \"Error from server (NotFound): nothing for $*\" >&2; exit 1\n");
  }
  ~FakeKubectl() { std::filesystem::remove_all(folder_); }
  FakeKubectl(const FakeKubectl&) = delete;

  std::string program() const { return folder_ + "/kubectl"; }
  // Another program in kubectl's place.
  void script(const std::string& body) const {
    std::ofstream(program()) << "#!/bin/sh\n" << body;
    std::filesystem::permissions(program(), std::filesystem::perms::owner_all);
  }
  void serve(const std::string& words, const std::string& answer) const {
    std::ofstream(file_of(words)) << answer;
  }
  void refuse(const std::string& words, const std::string& error) const {
    std::ofstream(file_of(words) + ".error") << error;
  }
  // Every call's words, a line each.
  std::string calls() const {
    std::stringstream text;
    text << std::ifstream(folder_ + "/calls").rdbuf();
    return text.str();
  }

 private:
  std::string file_of(std::string words) const {
    for (char& c : words)
      if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    return folder_ + "/" + words;
  }

  std::string folder_;
};

}  // namespace larder::kubectl
