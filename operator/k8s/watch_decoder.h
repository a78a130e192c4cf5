// WatchDecoder: the body of a watch, one JSON object a line, from pieces of any size. No network. Thread-compatible.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "operator/k8s/api_client.h"

namespace larder::k8s {

class WatchDecoder {
 public:
  // The bookmark that ends the objects that were there when a WatchList began has this annotation.
  static constexpr std::string_view kInitialEnd = "k8s.io/initial-events-end";

  // A line is at most `most_line_bytes` long.
  explicit WatchDecoder(std::function<void(WatchEvent)> on_event, std::size_t most_line_bytes = api::kMostBytes)
      : on_event_(std::move(on_event)), most_line_bytes_(most_line_bytes) {}

  // Calls on_event for each line that is whole now. Not ok: the stream must be ended, and nothing is taken after that. kOutOfRange: the
  // server says 410, or a line is too long; kInvalidArgument: a line is no event; else what the server's error event says.
  Status feed(std::string_view bytes);

  // Nothing is left of a line that did not end.
  bool between_lines() const { return line_.empty(); }
  // The HTTP status that the server's error event stands for; 0: there was none.
  int error_status() const { return error_status_; }
  // Bytes kept for the line under way.
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
