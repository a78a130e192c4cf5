// A copy engine of some kind for the conformance suite, and memory for its pages in the right
// place.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "cuda/copy_engine.h"

namespace larder::copy::testing_support {

// Pages, and their content in the test's reach: the pages themselves, or an image of the pages.
class PageMemory {
 public:
  virtual ~PageMemory() = default;
  virtual std::byte* pages() = 0;
  virtual std::byte* image() = 0;
  virtual void write() {}  // the image onto the pages
  virtual void read() {}   // and back
};

// Owns the engine, and the engine's needs.
class EngineBox {
 public:
  virtual ~EngineBox() = default;
  virtual const CopyEngine& engine() const = 0;
  virtual std::unique_ptr<PageMemory> make_pages(std::size_t bytes) = 0;
  // A slot of this kind. Until the whole slot is ready, if the kind prepares slots.
  virtual std::unique_ptr<ReadyMemory> make_ready(std::span<std::byte> slot) = 0;
  // A graph of the engine's own work, on this thread. False: the graph was not begun, or another
  // call has spoilt the graph.
  virtual bool begin_capture() { return true; }
  virtual bool end_capture() { return true; }
};

struct EngineKind {
  std::string name;
  // nullptr: this machine has no such engine, and `why` says so
  std::function<std::unique_ptr<EngineBox>(std::string& why)> make;
};

inline void PrintTo(const EngineKind& kind, std::ostream* out) {
  *out << kind.name;
}

// Of the suite's program: all engines without a GPU, or all engines with one.
std::vector<EngineKind> engine_kinds();

}  // namespace larder::copy::testing_support
