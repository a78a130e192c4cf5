// PointPage: a page of memory that a test shares with forked processes. Processes announce the
// named points of shim/base/test_point.h there, and the test can stop one thread at a point.
//
// Thread-safe, also between processes. A stopped thread waits until go(), or until it is killed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

namespace larder::crash {

// In the order of a life: points of the engine's client, points of a client that is asked about its
// grants, then points of the sidecar.
inline constexpr std::array<std::string_view, 54> kPoints{
    "connected", "hello_sent", "welcome_received", "regions_mapped", "locked", "attached_sent",
    "namespace_sent", "namespace_opened", "session_published", "heart_beaten", "reserve_sent",
    "granted_received", "store_listed", "store_submitted", "store_begun", "store_half",
    "store_digests_written", "store_copied", "commit_ready", "commit_sent", "orphan_written",
    "disown_sent", "word_read", "hold_place_taken", "hold_announced", "chunk_held", "load_found",
    "load_begun", "load_half", "load_verified", "load_copied", "load_hold_released", "bad_sent",
    "load_ended", "drop_sent", "open_sent", "close_sent", "closing", "session_closed",
    // ASK_GRANTS has arrived; STILL_WRITING is sent.
    "grants_asked", "still_writing_sent",
    // Of sidecar/store.
    "victims_dying", "victims_scanned",
    // Of the client too, but passed too seldom for kills.
    "attachment_ends",
    // Of a restart: the client has announced its holds again; then points of sidecar/store and
    // sidecar/loop.
    "holds_announced_again", "restore_chosen", "index_unpublished", "index_published", "settled",
    "stopping",
    // Of sidecar/loop, for namespaces.
    "namespace_unnoted", "namespace_left", "journal_written_anew", "journal_replaced"};
inline constexpr std::size_t kClientPoints = 39;
// a session passes the first 10 points once, or slowly
inline constexpr std::ptrdiff_t kOncePoints = 10;
inline std::span<const std::string_view> client_points() {
  return std::span(kPoints).first(kClientPoints);
}
inline std::span<const std::string_view> asked_points() {
  return std::span(kPoints).subspan(kClientPoints, 2);
}

class PointPage {
 public:
  // Shared with every process that is forked from now on; never unmapped. Aborts without memory.
  static PointPage& make();

  // The nth passage from now on stops at the point. At most one stop for each point.
  void stop_at(std::string_view point, std::uint32_t nth = 1);
  // Whether a thread stops at the point within timeout_ms.
  bool await(std::string_view point, std::uint32_t timeout_ms = 10'000) const;
  // Releases the stopped thread. No further thread stops at the point.
  void go(std::string_view point);
  // The number of passages, with the stopped one.
  std::uint64_t reached(std::string_view point) const;
  // No thread stops at any point.
  void disarm();

  // Called by a thread of any process at a point.
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

// The page in which this process announces its points from now on; nullptr: none.
void announce_in(PointPage* page);

}  // namespace larder::crash
