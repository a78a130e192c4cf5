// LarderdWatch: the resources of larderd, sampled from outside, and whether they grow.
//
// Used by one thread. A figure is flat if the median of the last third of the samples is at most
// that of an earlier third plus the allowance in kFigures.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace larder::crash {

struct Figure {
  const char* name;
  double share, more;  // the allowance: a share of the earlier value, plus `more`
};

// Private memory is RssAnon, without arena and other files; the allocator takes some time to reach
// its size. Two sessions, of three descriptors each, may be ending or starting, so descriptors are
// counted exactly at the end alone.
inline constexpr std::array kFigures{Figure{"private memory, MiB", 0.05, 1},
                                     Figure{"descriptors", 0, 6}, Figure{"threads", 0, 1},
                                     Figure{"session regions mapped", 0, 2}};

class LarderdWatch {
 public:
  // `of`: the name of the samples in the table. `from`: the share of the samples that is skipped,
  // while larderd fills up.
  LarderdWatch(std::string of, double from) : of_(std::move(of)), from_(from) {}

  void take(pid_t larderd, double at_s);

  // A line for each figure.
  std::string table() const;
  // The names of figures that have grown; "": none.
  std::string growth() const;

 private:
  struct Sample {
    double at_s = 0;
    std::array<double, kFigures.size()> values{};
  };
  // Medians of the first and the last third of the samples after `from`.
  std::pair<double, double> ends(std::size_t figure) const;
  double slope_per_minute(std::size_t figure) const;
  std::span<const Sample> looked_at() const;

  const std::string of_;
  const double from_;
  std::vector<Sample> samples_;
};

}  // namespace larder::crash
