// EventFolding: selects the events worth a write. An equal event within 6 minutes becomes a count.
// One object gets at most ten new events in ten minutes. Pure: times are arguments.
// Thread-compatible.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace larder::k8s {

struct EventText {
  std::string regarding;  // kind, namespace, name and uid of the object in one text
  std::string type;       // Normal, Warning
  std::string reason, action, note;
  auto operator<=>(const EventText&) const = default;
};

class EventFolding {
 public:
  static constexpr std::size_t kMostKnown = 1024;          // events with a count
  static constexpr std::uint64_t kSeriesMs = 6 * 60'000;   // a later repeat is a new event
  static constexpr std::uint64_t kRecordCountMs = 60'000;  // interval between writes of a count
  static constexpr unsigned kMostOfOne = 10;               // new events of one object within
  static constexpr std::uint64_t kOneMs = 10 * 60'000;

  enum class Decision { kCreate, kCounted, kDropped };
  // `id`: the name of the Event object if one is created.
  Decision take(const EventText& text, const std::string& id, std::uint64_t now_ms);

  struct Count {
    std::string id;
    EventText text;
    unsigned count;
  };
  // The counts to write now.
  std::vector<Count> due(std::uint64_t now_ms);
  // The next time at which due() may return a count; empty: not before another take().
  std::optional<std::uint64_t> next_ms() const;

  std::size_t known() const { return known_.size(); }

 private:
  struct Known {
    std::string id;
    unsigned count = 1, recorded = 1;
    std::uint64_t last_ms = 0, recorded_ms = 0;
  };
  struct Object {
    unsigned events = 0;
    std::uint64_t since_ms = 0;
  };

  bool too_many(const std::string& regarding, std::uint64_t now_ms);
  void make_room(std::uint64_t now_ms);

  std::map<EventText, Known> known_;
  std::map<std::string, Object> objects_;
};

}  // namespace larder::k8s
