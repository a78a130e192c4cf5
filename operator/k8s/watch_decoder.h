// WatchDecoder: decodes the body of a watch, one JSON object per line, from pieces of any size. No
// network. Thread-compatible.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "operator/k8s/api_client.h"

namespace larder::k8s {

class WatchDecoder {
 public:
  // Annotation of the bookmark behind the initial objects of a WatchList.
  static constexpr std::string_view kInitialEnd = "k8s.io/initial-events-end";

  // A line has at most `most_line_bytes`.
  explicit WatchDecoder(std::function<void(WatchEvent)> on_event,
                        std::size_t most_line_bytes = api::kMostBytes)
      : on_event_(std::move(on_event)), most_line_bytes_(most_line_bytes) {}

  // Calls on_event for each complete line. After an error the decoder takes no more bytes, and the
  // caller ends the stream. kOutOfRange: 410 of the server, or a line that is too long.
  // kInvalidArgument: a line is no event. Otherwise the status of the server's error event.
  Status feed(std::string_view bytes);

  // Whether no incomplete line remains.
  bool between_lines() const { return line_.empty(); }
  // HTTP status of the server's error event; 0: no error event.
  int error_status() const { return error_status_; }
  // Bytes of the incomplete line's buffer.
  std::size_t kept_bytes() const { return line_.size(); }

 private:
  Status take_line(std::string_view line);

  const std::function<void(WatchEvent)> on_event_;
  const std::size_t most_line_bytes_;
  std::string line_;
  Status over_;
  int error_status_ = 0;
};

}  // namespace larder::k8s
