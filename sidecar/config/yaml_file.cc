#include "sidecar/config/yaml_file.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace larder::config {
namespace {

// The documented file has 51 lines. A larger file is the wrong file, and the parser would hold all
// of it in memory.
constexpr std::size_t kMaxFileBytes = 64 * 1024;

// An exception to leave the parser from inside an event. Caught in this file.
struct Refused {
  int line;
  std::string why;
};

// Turns yaml-cpp's events into entries. A key is read in one event and its value in the next.
// Events and no document tree: each key is checked with its line before anything is built.
class Visitor final : public YAML::EventHandler {
 public:
  explicit Visitor(YamlForm form) : form_(form) {}

  std::vector<YamlEntry> entries;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    if (depth_ == 0) return;  // an empty file
    if (gathering()) return gather("null");
    if (!key_.empty() && form_ == YamlForm::kForeign)
      return take_value(seen_.back().second, "null");
    if (key_.empty()) throw Refused{line(mark), "a key is missing"};
    throw Refused{seen_.back().second,
                  "'" + key_ + "' has no value"};  // yaml-cpp's mark is already behind the key
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Refused{line(mark), "aliases (*name) are not allowed"};
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check(mark, tag, anchor);
    if (depth_ == 0) throw Refused{line(mark), "the file must be a map of keys and values"};
    if (gathering()) {
      check_characters(mark, value);
      gather(value);
    } else if (key_.empty()) {
      take_key(mark, value);
    } else {
      check_characters(mark, value);
      take_value(line(mark), value);
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    if (key_.empty()) throw Refused{line(mark), "a list where a key is expected"};
    // larderd's own keys take one value each. Foreign files (LMCache) have lists.
    if (form_ == YamlForm::kOwn)
      throw Refused{line(mark), "'" + key_ + "' is a list, but takes one value"};
    check(mark, tag, anchor);
    open_gathered(mark, '[', ']');
  }
  void OnSequenceEnd() override { close_gathered(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    check(mark, tag, anchor);
    if (gathering() || (depth_ == 2 && form_ == YamlForm::kForeign && !key_.empty()))
      return open_gathered(mark, '{', '}');
    if (depth_ == 2) throw Refused{line(mark), "'" + key_ + "' is a section inside a section"};
    if (depth_ == 1) {
      if (key_.empty()) throw Refused{line(mark), "a map where a key is expected"};
      section_ = key_ + ".";
      section_line_ = seen_.back().second;
      // To find a section without keys: its values were mostly indented wrongly.
      entries_before_section_ = entries.size();
      key_.clear();
    }
    ++depth_;
  }

  void OnMapEnd() override {
    if (gathering()) return close_gathered();
    --depth_;
    if (form_ == YamlForm::kOwn && !section_.empty() && entries.size() == entries_before_section_)
      throw Refused{section_line_,
                    "'" + section_.substr(0, section_.size() - 1) + "' has no value"};
    section_.clear();
    section_line_ = 0;
  }

 private:
  // yaml-cpp counts lines from 0.
  static int line(const YAML::Mark& mark) { return mark.line + 1; }

  static void check(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != 0) throw Refused{line(mark), "anchors (&name) are not allowed"};
    // "?" is a plain scalar and "!" a quoted one; every other tag would ask for a conversion of
    // types.
    if (!tag.empty() && tag != "?" && tag != "!")
      throw Refused{line(mark), "tags (" + tag + ") are not allowed"};
  }

  void take_key(const YAML::Mark& mark, const std::string& name) {
    if (name.empty()) throw Refused{line(mark), "a key without a name"};
    // "memory.size: 5GiB" is one key for YAML. The error shows the nested form.
    if (const std::size_t dot = name.find('.'); dot != std::string::npos && form_ == YamlForm::kOwn)
      throw Refused{line(mark), "'" + name + "' is no key: write '" + name.substr(0, dot) +
                                    ":' and, indented below it, '" + name.substr(dot + 1) + ":'"};
    key_ = section_ + name;
    // YAML forbids duplicate keys, but yaml-cpp's parser does not check.
    for (const auto& [seen, at] : seen_)
      if (seen == key_)
        throw Refused{line(mark), "'" + key_ + "' stands here again, it was given on line " +
                                      std::to_string(at)};
    seen_.emplace_back(key_, line(mark));
  }

  void check_characters(const YAML::Mark& mark, const std::string& text) const {
    // Values become paths, log lines and Redis keys. "\n" in a quoted text would forge a line.
    for (const char c : text)
      if (static_cast<unsigned char>(c) < ' ' || c == 0x7f)
        throw Refused{line(mark), "'" + key_ + "' holds a control character"};
  }

  void take_value(int at, const std::string& text) {
    entries.push_back({key_, text, at, section_line_});
    key_.clear();
  }

  // Gathers the content below the sections of a foreign file into one text, brackets included.
  bool gathering() const { return !closing_.empty(); }

  void gather(const std::string& text) {
    // Example: {a: 1, b: [2, 3]} gives the text "{a, 1, b, [2, 3]}".
    if (gathered_.back() != '[' && gathered_.back() != '{') gathered_ += ", ";
    gathered_ += text;
  }

  void open_gathered(const YAML::Mark& mark, char open, char close) {
    if (gathering()) {
      gather(std::string(1, open));
    } else {
      gathered_ = open;
      gathered_line_ = line(mark);
    }
    closing_ += close;
  }

  void close_gathered() {
    gathered_ += closing_.back();
    closing_.pop_back();
    if (gathering()) return;
    entries.push_back({key_, gathered_, gathered_line_, section_line_});
    key_.clear();
  }

  const YamlForm form_;
  int depth_ = 0;
  std::string section_;  // "memory." inside that section
  int section_line_ = 0;
  std::size_t entries_before_section_ = 0;
  std::string key_;  // the key before its value
  std::vector<std::pair<std::string, int>> seen_;
  std::string closing_, gathered_;  // the open brackets; their content
  int gathered_line_ = 0;
};

// yaml-cpp reports a tab as "illegal map value"; this text names the tab.
std::string tab_hint(const std::string& text, int line) {
  std::istringstream lines(text);
  std::string found;
  for (int i = 0; i <= line; ++i) std::getline(lines, found);
  const std::size_t first = found.find_first_not_of(' ');
  return first != std::string::npos && found[first] == '\t'
             ? " (indent with spaces: YAML allows no tabs there)"
             : "";
}

}  // namespace

Result<std::vector<YamlEntry>> parse_yaml(const std::string& text, const std::string& file,
                                          YamlForm form) {
  const auto refuse = [&file](int line, const std::string& why) {
    return Status(Code::kInvalidArgument, file + ":" + std::to_string(line) + ": " + why);
  };
  if (text.size() > kMaxFileBytes)
    return refuse(1, "the file is longer than " + std::to_string(kMaxFileBytes) + " bytes");
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    Visitor visitor(form);
    // An empty file, or comments only: all defaults.
    if (!parser.HandleNextDocument(visitor)) return visitor.entries;
    // The second document is parsed to see whether it exists; its content is not used.
    Visitor second(form);
    if (parser.HandleNextDocument(second))
      return refuse(1, "a second document (---) is not allowed");
    return visitor.entries;
  } catch (const Refused& refused) {
    return refuse(refused.line, refused.why);
  } catch (const YAML::Exception& error) {
    return refuse(error.mark.line + 1,
                  "is no valid YAML: " + error.msg + tab_hint(text, error.mark.line));
  }
}

Result<std::vector<YamlEntry>> read_yaml_file(const std::string& file, YamlForm form) {
  std::error_code error;
  const std::filesystem::file_status what = std::filesystem::status(file, error);
  if (std::filesystem::is_directory(what))
    return Status::from_errno(EISDIR, "configuration file " + file);
  if (std::filesystem::exists(what) &&
      !std::filesystem::is_regular_file(what))  // open() of a pipe would wait for a writer
    return Status(
        Code::kInvalidArgument,
        "configuration file " + file + " is no regular file: a pipe or a device is not read");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return Status::from_errno(errno, "configuration file " + file);
  // One byte more than allowed, so parse_yaml() sees that the file is too long.
  std::string text(kMaxFileBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad())
    return Status(Code::kInternal, "configuration file " + file + " cannot be read");
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return parse_yaml(text, file, form);
}

}  // namespace larder::config
