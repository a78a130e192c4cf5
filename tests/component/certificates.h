// Authorities and certificates of a test's own, made by openssl in a folder with the life of the
// object.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace larder::test {

class Certificates {
 public:
  Certificates() {
    char folder[] = "/tmp/larder-tls-XXXXXX";
    folder_ = ::mkdtemp(folder);
  }
  ~Certificates() { run("rm -rf " + folder_); }
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << text;
  }
  // NAME.crt and NAME.key.
  void authority(const std::string& name) const {
    run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj /CN=" +
        name + " -keyout " + file(name + ".key") + " -out " + file(name + ".crt"));
  }
  // `names`: "DNS:cache.example,IP:127.0.0.1".
  void certificate(const std::string& name, const std::string& by, const std::string& names,
                   int days = 30) const {
    write("names", "subjectAltName=" + names + "\n");
    run("openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -keyout " +
        file(name + ".key") + " -out " + file("request") + " && openssl x509 -req -days " +
        std::to_string(days) + " -CA " + file(by + ".crt") + " -CAkey " + file(by + ".key") +
        " -CAcreateserial -extfile " + file("names") + " -in " + file("request") + " -out " +
        file(name + ".crt"));
  }

 private:
  static void run(const std::string& command) {
    ASSERT_EQ(std::system(("(" + command + ") >/dev/null 2>&1").c_str()), 0) << command;
  }
  std::string folder_;
};

}  // namespace larder::test
