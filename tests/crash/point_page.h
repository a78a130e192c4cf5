// PointPage: where the named points of shim/base/test_point.h are announced, in memory that a test shares with the processes it
// forks, and where one thread can be told to stop.
//
// Thread-safe, between processes too. A thread that stands at a point waits until go(), or until it is killed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

namespace larder::crash {

// In the order of a life: those of the engine's client, those of one that larderd asks about its grants, then those of the sidecar.
inline constexpr std::array<std::string_view, 54> kPoints{
    "connected", "hello_sent", "welcome_received", "regions_mapped", "locked", "attached_sent", "namespace_sent",
    "namespace_opened", "session_published", "heart_beaten", "reserve_sent", "granted_received", "store_listed",
    "store_submitted", "store_begun", "store_half", "store_digests_written", "store_copied", "commit_ready", "commit_sent",
    "orphan_written", "disown_sent", "word_read", "hold_place_taken", "hold_announced", "chunk_held", "load_found", "load_begun",
    "load_half", "load_verified", "load_copied", "load_hold_released", "bad_sent", "load_ended", "drop_sent", "open_sent",
    "close_sent", "closing", "session_closed",
    // ASK_GRANTS has come; STILL_WRITING has been sent.
    "grants_asked", "still_writing_sent",
    // Of sidecar/store.
    "victims_dying", "victims_scanned",
    // Of the client as well, but passed too seldom to be killed at.
    "attachment_ends",
    // Of a restart: the client has announced its holds again; then those of sidecar/store and sidecar/loop.
    "holds_announced_again", "restore_chosen", "index_unpublished", "index_published", "settled", "stopping",
    // Of sidecar/loop where namespaces come and go.
    "namespace_unnoted", "namespace_left", "journal_written_anew", "journal_replaced"};
inline constexpr std::size_t kClientPoints = 39;
inline constexpr std::ptrdiff_t kOncePoints = 10;  // the first so many are passed once by a session, or slowly
inline std::span<const std::string_view> client_points() {
  return std::span(kPoints).first(kClientPoints);
}
inline std::span<const std::string_view> asked_points() {
  return std::span(kPoints).subspan(kClientPoints, 2);
}

class PointPage {
 public:
  // Shared with every process that is forked from now on; never unmapped. Aborts where there is no memory.
  static PointPage& make();

  // The n-th passage from now on stops there. One at a time for each point.
  void stop_at(std::string_view point, std::uint32_t nth = 1);
  // Whether somebody stands there, within timeout_ms.
  bool await(std::string_view point, std::uint32_t timeout_ms = 10'000) const;
  // Lets go whoever stands there, and nobody stops there any more.
  void go(std::string_view point);
  // Passages, standing ones included.
  std::uint64_t reached(std::string_view point) const;
  // Nobody stops anywhere.
  void disarm();

  // A thread of any process is here.
  void reach(std::string_view point) noexcept;

 private:
  struct Place {
    std::atomic<std::uint32_t> countdown;  // to the passage that stops; 0: none
    std::atomic<std::uint32_t> standing;
    std::atomic<std::uint64_t> reached;
  };
  Place& at(std::string_view point);
  const Place& at(std::string_view point) const { return const_cast<PointPage*>(this)->at(point); }

  std::array<Place, kPoints.size()> places_;
};

// Where this process announces its points from now on; nullptr: nowhere.
void announce_in(PointPage* page);

}  // namespace larder::crash
