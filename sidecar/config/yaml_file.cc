#include "sidecar/config/yaml_file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "sidecar/config/yaml_events.h"

namespace larder::config {
namespace {

// The documented file has 51 lines. A larger file is the wrong file, and the parser would hold all
// of it in memory.
constexpr std::size_t kMaxFileBytes = 64 * 1024;

using Kind = YamlEvent::Kind;

// Turns events into entries. A key is read in one event and its value in the next. A fault is
// thrown, and caught in this file.
class Visitor {
 public:
  explicit Visitor(YamlForm form) : form_(form) {}

  std::vector<YamlEntry> entries;

  void on(const YamlEvent& event) {
    switch (event.kind) {
      case Kind::kNull: return on_null(event);
      case Kind::kScalar: return on_scalar(event);
      case Kind::kListStart: return on_list(event);
      case Kind::kListEnd: return close_gathered();
      case Kind::kMapStart: return on_map(event);
      case Kind::kMapEnd: return on_map_end();
    }
  }

 private:
  void on_null(const YamlEvent& event) {
    if (depth_ == 0) return;  // an empty file
    if (gathering()) return gather("null");
    if (!key_.empty() && form_ == YamlForm::kForeign)
      return take_value(seen_.back().second, "null");
    if (key_.empty()) throw YamlFault{event.line, "a key is missing"};
    throw YamlFault{seen_.back().second,
                    "'" + key_ + "' has no value"};  // the event's line is already behind the key
  }

  void on_scalar(const YamlEvent& event) {
    check(event);
    if (depth_ == 0) throw YamlFault{event.line, "the file must be a map of keys and values"};
    if (gathering()) {
      check_characters(event);
      gather(event.text);
    } else if (key_.empty()) {
      take_key(event);
    } else {
      check_characters(event);
      take_value(event.line, event.text);
    }
  }

  void on_list(const YamlEvent& event) {
    if (key_.empty()) throw YamlFault{event.line, "a list where a key is expected"};
    // larderd's own keys take one value each. Foreign files (LMCache) have lists.
    if (form_ == YamlForm::kOwn)
      throw YamlFault{event.line, "'" + key_ + "' is a list, but takes one value"};
    check(event);
    open_gathered(event.line, '[', ']');
  }

  void on_map(const YamlEvent& event) {
    check(event);
    if (gathering() || (depth_ == 2 && form_ == YamlForm::kForeign && !key_.empty()))
      return open_gathered(event.line, '{', '}');
    if (depth_ == 2) throw YamlFault{event.line, "'" + key_ + "' is a section inside a section"};
    if (depth_ == 1) {
      if (key_.empty()) throw YamlFault{event.line, "a map where a key is expected"};
      section_ = key_ + ".";
      section_line_ = seen_.back().second;
      // To find a section without keys: its values were mostly indented wrongly.
      entries_before_section_ = entries.size();
      key_.clear();
    }
    ++depth_;
  }

  void on_map_end() {
    if (gathering()) return close_gathered();
    --depth_;
    if (form_ == YamlForm::kOwn && !section_.empty() && entries.size() == entries_before_section_)
      throw YamlFault{section_line_,
                      "'" + section_.substr(0, section_.size() - 1) + "' has no value"};
    section_.clear();
    section_line_ = 0;
  }

  // A tag would ask for a conversion of types.
  static void check(const YamlEvent& event) {
    if (!event.tag.empty()) throw YamlFault{event.line, "tags (" + event.tag + ") are not allowed"};
  }

  void take_key(const YamlEvent& event) {
    const std::string& name = event.text;
    if (name.empty()) throw YamlFault{event.line, "a key without a name"};
    // "memory.size: 5GiB" is one key for YAML. The error shows the nested form.
    if (const std::size_t dot = name.find('.'); dot != std::string::npos && form_ == YamlForm::kOwn)
      throw YamlFault{event.line, "'" + name + "' is no key: write '" + name.substr(0, dot) +
                                      ":' and, indented below it, '" + name.substr(dot + 1) + ":'"};
    key_ = section_ + name;
    // YAML forbids duplicate keys, but yaml-cpp's parser does not check.
    for (const auto& [seen, at] : seen_)
      if (seen == key_)
        throw YamlFault{event.line, "'" + key_ + "' stands here again, it was given on line " +
                                        std::to_string(at)};
    seen_.emplace_back(key_, event.line);
  }

  void check_characters(const YamlEvent& event) const {
    // Values become paths, log lines and Redis keys. "\n" in a quoted text would forge a line.
    for (const char c : event.text)
      if (static_cast<unsigned char>(c) < ' ' || c == 0x7f)
        throw YamlFault{event.line, "'" + key_ + "' holds a control character"};
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

  void open_gathered(int line, char open, char close) {
    if (gathering()) {
      gather(std::string(1, open));
    } else {
      gathered_ = open;
      gathered_line_ = line;
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

}  // namespace

Result<std::vector<YamlEntry>> parse_yaml(const std::string& text, const std::string& file,
                                          YamlForm form) {
  const auto refuse = [&file](int line, const std::string& why) {
    return Status(Code::kInvalidArgument, file + ":" + std::to_string(line) + ": " + why);
  };
  if (text.size() > kMaxFileBytes)
    return refuse(1, "the file is longer than " + std::to_string(kMaxFileBytes) + " bytes");
  const YamlDocument document = read_yaml_events(text);
  Visitor visitor(form);
  try {
    for (const YamlEvent& event : document.events) visitor.on(event);
  } catch (const YamlFault& fault) {
    return refuse(fault.line, fault.why);
  }
  if (document.fault) return refuse(document.fault->line, document.fault->why);
  return visitor.entries;  // without entries: all defaults
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
