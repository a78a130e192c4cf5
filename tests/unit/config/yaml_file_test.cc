#include "sidecar/config/yaml_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace larder::config {
namespace {

using testing::StartsWith;

std::string why(const std::string& text) {
  return parse_yaml(text, "f.yaml").status().text();
}

TEST(YamlFileTest, ReadsKeysWithTheirLines) {
  const auto entries = parse_yaml(
      "# comment\npool: a\nmemory:\n  size: 010\n  directory: \"/x\"\nhttp: {listen: ''}\n",
      "f.yaml");
  ASSERT_TRUE(entries.ok()) << entries.status().text();
  ASSERT_EQ(entries->size(), 4U);
  EXPECT_EQ((*entries)[1].key, "memory.size");
  EXPECT_EQ((*entries)[1].text, "010");
  EXPECT_EQ((*entries)[1].line, 4);
  EXPECT_EQ((*entries)[3].key, "http.listen");
  EXPECT_EQ((*entries)[3].text, "");
}

TEST(YamlFileTest, EmptyFilesHaveNoEntries) {
  for (const char* text : {"", "\n\n", "# only a comment\n", "---\n", "{}"}) {
    const auto entries = parse_yaml(text, "f.yaml");
    ASSERT_TRUE(entries.ok()) << text << entries.status().text();
    EXPECT_TRUE(entries->empty()) << text;
  }
}

// covers F-119
TEST(YamlFileTest, ErrorsNameFileAndLine) {
  EXPECT_EQ(why("a: 1\na: 2\n"), "f.yaml:2: 'a' stands here again, it was given on line 1");
  EXPECT_EQ(why("m:\n  a: 1\n  a: 2\n"),
            "f.yaml:3: 'm.a' stands here again, it was given on line 2");
  EXPECT_EQ(why("m: {a: 1}\nm: {b: 1}\n"),
            "f.yaml:2: 'm' stands here again, it was given on line 1");
  EXPECT_EQ(why("a: &x 1\n"), "f.yaml:1: anchors (&name) are not allowed");
  EXPECT_EQ(why("m: &x\n  a: 1\n"), "f.yaml:1: anchors (&name) are not allowed");
  EXPECT_EQ(why("a: *x\n").substr(0, 9), "f.yaml:1:");
  EXPECT_EQ(why("a: !!int 5\n"), "f.yaml:1: tags (tag:yaml.org,2002:int) are not allowed");
  EXPECT_EQ(why("a:\nb: 1\n"), "f.yaml:1: 'a' has no value");
  EXPECT_EQ(why("a: ~\n"), "f.yaml:1: 'a' has no value");
  EXPECT_EQ(why("a: 1\nm: {}\n"), "f.yaml:2: 'm' has no value");
  EXPECT_EQ(why("m:\n\ta: 1\n"),
            "f.yaml:2: is no valid YAML: illegal map value (indent with spaces: YAML allows no "
            "tabs there)");
  EXPECT_EQ(why("a: [1, 2]\n"), "f.yaml:1: 'a' is a list, but takes one value");
  EXPECT_EQ(why("- a\n"), "f.yaml:1: a list where a key is expected");
  EXPECT_EQ(why("word\n"), "f.yaml:1: the file must be a map of keys and values");
  EXPECT_EQ(why("m:\n  n:\n    a: 1\n"), "f.yaml:3: 'm.n' is a section inside a section");
  EXPECT_EQ(why("? {a: b}\n: c\n"), "f.yaml:1: a map where a key is expected");
  EXPECT_EQ(why("memory.size: 5G\n"),
            "f.yaml:1: 'memory.size' is no key: write 'memory:' and, indented below it, 'size:'");
  EXPECT_EQ(why("'': 5G\n"), "f.yaml:1: a key without a name");
  EXPECT_EQ(why("a: \"x\\ny\"\n"), "f.yaml:1: 'a' holds a control character");
  EXPECT_EQ(why("a: 1\n---\nb: 1\n"), "f.yaml:1: a second document (---) is not allowed");
  EXPECT_EQ(why(std::string(64 * 1024 + 1, '#')), "f.yaml:1: the file is longer than 65536 bytes");
  EXPECT_THAT(why("a: 1\n\tb: \"\n"), StartsWith("f.yaml:"));
  EXPECT_THAT(why(std::string(20000, '[')), StartsWith("f.yaml:"));
  EXPECT_THAT(why("a: {" + std::string(20000, '{')), StartsWith("f.yaml:"));
}

TEST(YamlFileTest, ForeignFilesMayUseMoreYaml) {
  const std::string text =
      "a: [1, [two, ~], {k: v}]\nb: null\nc:\nm:\n  n: {x: {y: 1}}\n  o: []\n  p.q: 7\nlast: "
      "{}\n\"j\": {\"k\": true}\n";
  const auto entries = parse_yaml(text, "f.yaml", YamlForm::kForeign);
  ASSERT_TRUE(entries.ok()) << entries.status().text();
  std::vector<std::string> seen;
  for (const YamlEntry& entry : *entries)
    seen.push_back(std::to_string(entry.line) + " " + entry.key + "=" + entry.text);
  EXPECT_THAT(seen,
              testing::ElementsAre("1 a=[1, [two, null], {k, v}]", "2 b=null", "3 c=null",
                                   "5 m.n={x, {y, 1}}", "6 m.o=[]", "7 m.p.q=7", "9 j.k=true"));
}

TEST(YamlFileTest, ForeignFilesRefuseDuplicateKeys) {
  const auto why = [](const std::string& text) {
    return parse_yaml(text, "f.yaml", YamlForm::kForeign).status().text();
  };
  EXPECT_EQ(why("a: 1\na: 2\n"), "f.yaml:2: 'a' stands here again, it was given on line 1");
  EXPECT_EQ(why("a: [&x 1]\n"), "f.yaml:1: anchors (&name) are not allowed");
  EXPECT_EQ(why("a: &x [1]\n"), "f.yaml:1: anchors (&name) are not allowed");
  EXPECT_EQ(why("a: [\"x\\ny\"]\n"), "f.yaml:1: 'a' holds a control character");
  EXPECT_EQ(why("- a\n"), "f.yaml:1: a list where a key is expected");
  EXPECT_EQ(why("m: {[a]: 1}\n"), "f.yaml:1: a list where a key is expected");
  for (const char bracket : {'[', '{'})
    EXPECT_THAT(why("a: " + std::string(20000, bracket)), StartsWith("f.yaml:"));
}

TEST(YamlFileTest, MissingFileIsReported) {
  EXPECT_EQ(read_yaml_file("/nonexistent/larder.yaml").status().text(),
            "configuration file /nonexistent/larder.yaml: No such file or directory");
  EXPECT_EQ(read_yaml_file("/dev").status().text(), "configuration file /dev: Is a directory");
}

// The opener of a pipe waits for its writer.
TEST(YamlFileTest, ReadsOnlyRegularFiles) {
  const std::string pipe = testing::TempDir() + "larder_yaml_pipe." + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(read_yaml_file(pipe).status().text(),
            "configuration file " + pipe + " is no regular file: a pipe or a device is not read");
  ::unlink(pipe.c_str());
  EXPECT_EQ(read_yaml_file("/dev/null").status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace larder::config
