#include "sidecar/ctl/hashes.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "shim/protocol/key.h"
#include "sidecar/base/text.h"

namespace larder::ctl {
namespace {

// Bounds the memory for a wrong file, such as a core dump given by mistake.
constexpr std::size_t kMostHashes = 1 << 20;  // 32 MiB of text
// Keys hold the first 16 bytes of a block hash; vLLM's hashes are longer, and the rest is cut.
constexpr std::size_t kDigits = 2 * protocol::kBlockHashBytes;

Status add(std::string_view text, const std::string& where, std::vector<std::string>& hashes) {
  // At most 80 characters, made printable: the wrong word may be a line of a binary file.
  if (!protocol::BlockHash::from_hex(text))
    return {Code::kInvalidArgument, where + "'" + base::printable(base::cut(text, 80)) +
                                        "' is no hash: 32 hex digits or more"};
  if (hashes.size() == kMostHashes)
    return {Code::kOutOfRange, "more than " + base::grouped(kMostHashes) + " hashes"};
  // Cut to the part in the key, so that equal chunks are equal words.
  hashes.emplace_back(text.substr(0, kDigits));
  return {};
}

// A line without its comment (#) and blanks; files may have line ends of Windows.
std::string_view trimmed(std::string_view line) {
  line = line.substr(0, line.find('#'));
  constexpr const char* kSpace = " \t\r";
  const std::size_t first = line.find_first_not_of(kSpace);
  return first == std::string_view::npos
             ? ""
             : line.substr(first, line.find_last_not_of(kSpace) - first + 1);
}

Status read_lines(std::istream& lines, const std::string& name, std::vector<std::string>& hashes) {
  std::size_t number = 0;
  // The number of the line is in each error, as users paste long lists.
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::string_view text = trimmed(line);
    if (text.empty()) continue;
    if (Status status = add(text, name + ":" + std::to_string(number) + ": ", hashes); !status.ok())
      return status;
  }
  return {};
}

Status read_file(const std::string& file, std::vector<std::string>& hashes) {
  if (file == "-") return read_lines(std::cin, "standard input", hashes);
  // An ifstream opens a directory without an error and then reads no line.
  std::error_code unknown;
  if (std::filesystem::is_directory(file, unknown)) return Status::from_errno(EISDIR, file);
  std::ifstream lines(file);
  if (!lines) return Status::from_errno(errno, file);
  return read_lines(lines, file, hashes);
}

}  // namespace

Result<std::vector<std::string>> read_hashes(std::span<const std::string> words,
                                             const std::optional<std::string>& file) {
  std::vector<std::string> hashes;
  for (const std::string& word : words)
    if (Status status = add(word, "", hashes); !status.ok()) return status;
  if (file)
    if (Status status = read_file(*file, hashes); !status.ok()) return status;
  // An empty file is an error: "0 of 0 hashes" would look like a success.
  if (hashes.empty() && file)
    return Status(Code::kInvalidArgument,
                  *file + " holds no hash: 32 hex digits or more, one a line");
  if (hashes.empty())
    return Status(Code::kInvalidArgument,
                  "which hashes? Name them, or a file of them by --hashes (- is standard input)");
  return hashes;
}

}  // namespace larder::ctl
