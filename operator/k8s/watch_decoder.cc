#include "operator/k8s/watch_decoder.h"

#include "operator/k8s/answers.h"

namespace larder::k8s {
namespace {

constexpr std::size_t kMostIdleBytes = 64u << 10;  // a larger buffer is freed after its line

std::optional<WatchEvent::Type> type_of(const std::string& name) {
  if (name == "ADDED") return WatchEvent::Type::kAdded;
  if (name == "MODIFIED") return WatchEvent::Type::kModified;
  if (name == "DELETED") return WatchEvent::Type::kDeleted;
  if (name == "BOOKMARK") return WatchEvent::Type::kBookmark;
  return std::nullopt;
}

}  // namespace

Status WatchDecoder::feed(std::string_view bytes) {
  while (over_.ok() && !bytes.empty()) {
    // The server sends one JSON object a line, and the transport cuts the stream anywhere.
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    // Without a bound, a server that never sends a line end would fill the memory.
    if (line_.size() + piece.size() > most_line_bytes_) {
      over_ = Status(Code::kOutOfRange, "watch: an event is longer than " +
                                            std::to_string(most_line_bytes_) + " bytes");
      break;
    }
    line_ += piece;
    if (end == std::string_view::npos) return {};
    bytes.remove_prefix(end + 1);
    over_ = take_line(line_);
    line_.clear();
    // One large object would otherwise keep its buffer for the life of the watch, in each of a
    // dozen watches.
    if (line_.capacity() > kMostIdleBytes) line_.shrink_to_fit();
  }
  return over_;
}

Status WatchDecoder::take_line(std::string_view line) {
  // A blank line holds no event, and the JSON parser would refuse the line.
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return {};
  Result<api::Object> event = api::parse_json(line);
  if (!event.ok()) return {Code::kInvalidArgument, "watch: " + event.status().text()};
  const std::string name = api::text_at(*event, "type");
  if (!event->is_object() || !api::at(*event, "object").is_object())
    return {Code::kInvalidArgument, "watch: a line is no event with an object"};
  // An ERROR event ends the stream, e.g. 410: the version is too old. The code in the object plays
  // the part of an HTTP status.
  if (name == "ERROR") {
    error_status_ = static_cast<int>(api::number_at(api::at(*event, "object"), "code", 500));
    return status_of(api::at(*event, "object"), "watch");
  }
  const std::optional<WatchEvent::Type> type = type_of(name);
  if (!type)
    return {Code::kInvalidArgument,
            "watch: an event of the unknown type '" + name.substr(0, 32) + "'"};
  WatchEvent known{*type, std::move((*event)["object"])};
  known.initial_end =
      // The bookmark that ends the initial events of WatchList carries the annotation
      // k8s.io/initial-events-end.
      *type == WatchEvent::Type::kBookmark && api::annotation(known.object, kInitialEnd) == "true";
  on_event_(std::move(known));
  return {};
}

}  // namespace larder::k8s
