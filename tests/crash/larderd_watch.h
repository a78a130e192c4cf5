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
  double share, more;  // allowed above what it was: a share of that, and so much
};

// Private memory is what is neither arena nor another file (RssAnon): the allocator takes some time to find its size. Two sessions, of
// three descriptors each, may be on their way out or in; so exactly these are counted at the end alone.
inline constexpr std::array kFigures{Figure{"private memory, MiB", 0.05, 1}, Figure{"descriptors", 0, 6}, Figure{"threads", 0, 1},
                                     Figure{"session regions mapped", 0, 2}};

class LarderdWatch {
 public:
  // `of`: whose samples these are, for the table. `from`: the share of them that is not looked at, since larderd was still filling up.
  LarderdWatch(std::string of, double from) : of_(std::move(of)), from_(from) {}

  void take(pid_t larderd, double at_s);

  // A line for each figure.
  std::string table() const;
  // By name what has grown; "" where nothing has.
  std::string growth() const;

 private:
  struct Sample {
    double at_s = 0;
    std::array<double, kFigures.size()> values{};
  };
  // Medians of the first and the last third of what is looked at.
  std::pair<double, double> ends(std::size_t figure) const;
  double slope_per_minute(std::size_t figure) const;
  std::span<const Sample> looked_at() const;

  const std::string of_;
  const double from_;
  std::vector<Sample> samples_;
};

}  // namespace larder::crash
