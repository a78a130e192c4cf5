#include "sidecar/ctl/trace_file.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iostream>
#include <iterator>

#include "sidecar/ctl/answer_json.h"

namespace larder::ctl {
namespace {

using nlohmann::json;

struct Line {
  double timestamp = 0;
  sizing::TracedRequest request;
};

// get<std::uint64_t>() throws for text; take() names the line.
std::uint64_t number_or(const json& object, const char* key, std::uint64_t other) {
  const auto found = object.find(key);
  return found == object.end() ? other : found->get<std::uint64_t>();
}

// May throw json::exception.
Line line_of(const std::string& text, std::uint64_t block_bytes) {
  const json object = json::parse(text);
  Line line;
  line.request.chunks = object.at("hash_ids").get<std::vector<std::uint64_t>>();
  // Without a timestamp all lines are equal, and the stable sort keeps the order of the file.
  line.timestamp = object.value("timestamp", 0.0);
  line.request.tokens = number_at(object, "input_length");
  line.request.chunk_tokens = number_or(object, "block_tokens", kMooncakeBlockTokens);
  line.request.chunk_bytes = number_or(object, "block_bytes", block_bytes);
  return line;
}

class Reader {
 public:
  explicit Reader(std::uint64_t block_bytes) : block_bytes_(block_bytes) {}

  Status read(const std::string& file) {
    if (file == "-") return read(std::cin, "standard input");
    // std::ifstream does not promise to set errno.
    errno = 0;
    std::ifstream stream(file);
    if (!stream) return Status::from_errno(errno, "trace " + file);
    return read(stream, file);
  }

  std::vector<sizing::TracedRequest> requests() {
    // Files of several larderd are merged by time; stable,
    // so requests of one moment keep their order.
    std::stable_sort(lines_.begin(), lines_.end(),
                     [](const Line& a, const Line& b) { return a.timestamp < b.timestamp; });
    std::vector<sizing::TracedRequest> requests;
    requests.reserve(lines_.size());
    for (Line& line : lines_) requests.push_back(std::move(line.request));
    return requests;
  }

 private:
  Status read(std::istream& stream, const std::string& name) {
    std::string text;
    for (std::size_t number = 1; std::getline(stream, text); ++number) {
      // Empty lines, also with line ends of Windows.
      if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
      if (const std::string why = take(text); !why.empty())
        return {Code::kInvalidArgument, name + ":" + std::to_string(number) + ": " + why};
    }
    return {};
  }

  // Returns the fault of the line, or an empty text.
  std::string take(const std::string& text) {
    // A binary file may have one endless line.
    if (text.size() > kMaxTraceLine) return "a line has at most 16 MiB";
    try {
      Line line = line_of(text, block_bytes_);
      // Traces of other tools (Mooncake) have no sizes in bytes.
      if (line.request.chunk_bytes == 0)
        return "the trace does not say how much memory a block takes: --block-bytes SIZE";
      if (line.request.chunk_tokens == 0) return "block_tokens is 0";
      // Before the line is kept: the bound holds for the memory of all files together.
      blocks_ += line.request.chunks.size();
      if (blocks_ > kMaxTraceBlocks)
        return "more than " + std::to_string(kMaxTraceBlocks) +
               " blocks in all: take a shorter trace";
      lines_.push_back(std::move(line));
      return "";
    } catch (const json::exception& error) {
      return R"(not {"timestamp": MS, "input_length": TOKENS, "hash_ids": [NUMBER, ...]}: )" +
             std::string(error.what());
    }
  }

  const std::uint64_t block_bytes_;
  std::vector<Line> lines_;
  std::size_t blocks_ = 0;
};

}  // namespace

Result<std::vector<sizing::TracedRequest>> read_traces(std::span<const std::string> files,
                                                       std::uint64_t block_bytes) {
  Reader reader(block_bytes);
  for (const std::string& file : files)
    if (Status read = reader.read(file); !read.ok()) return read;
  std::vector<sizing::TracedRequest> requests = reader.requests();
  if (requests.empty()) return Status(Code::kInvalidArgument, "there is no request in the trace");
  return requests;
}

}  // namespace larder::ctl
