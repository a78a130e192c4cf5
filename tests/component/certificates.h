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
  // One with the end of its validity so many seconds from now, or before now.
  void short_lived(const std::string& name, const std::string& by, const std::string& names,
                   int seconds) const {
    write("names", "subjectAltName=" + names + "\n");
    write("index", "");
    write("conf", "[ca]\ndefault_ca=d\n[d]\ndatabase=" + file("index") +
                      "\nnew_certs_dir=" + folder_ +
                      "\nrand_serial=yes\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=optional\n");
    const auto time = [](const std::string& when) {
      return "$(date -u -d '" + when + "' +%y%m%d%H%M%SZ)";
    };
    run("openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -keyout " +
        file(name + ".key") + " -out " + file("request") +
        " && openssl ca -batch -notext -config " + file("conf") + " -cert " + file(by + ".crt") +
        " -keyfile " + file(by + ".key") + " -in " + file("request") + " -extfile " +
        file("names") + " -startdate " + time("-1 day") + " -enddate " +
        time(std::to_string(seconds) + " seconds") + " -out " + file(name + ".crt"));
  }
  // One with a common name, and no alternative name.
  void common_name(const std::string& name, const std::string& by,
                   const std::string& common) const {
    run("openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" + common +
        " -keyout " + file(name + ".key") + " -out " + file("request") +
        " && openssl x509 -req -days 30 -CA " + file(by + ".crt") + " -CAkey " + file(by + ".key") +
        " -CAcreateserial -in " + file("request") + " -out " + file(name + ".crt"));
  }
  // The content of `from` takes the place of `to` at one moment.
  void rename(const std::string& from, const std::string& to) const {
    run("mv " + file(from) + " " + file(to));
  }

 private:
  static void run(const std::string& command) {
    ASSERT_EQ(std::system(("(" + command + ") >/dev/null 2>&1").c_str()), 0) << command;
  }
  std::string folder_;
};

}  // namespace larder::test
