#include "sidecar/config/reload.h"

#include <algorithm>
#include <array>

#include "sidecar/config/fields.h"

namespace larder::config {

// Keys that a running larderd can exchange. Every other key sizes memory, opens a socket or names a
// file at the start.
std::span<const std::string_view> live_keys() {
  static constexpr std::array<std::string_view, 5> kKeys{
      "log_level", "disk.write", "disk.admit_after", "backend.write", "backend.write_rate"};
  return kKeys;
}

Reload reload(const Config& running, const Config& wanted) {
  Reload reload{running, {}, {}};
  for (const Field& field : fields()) {
    const std::string text = field.print(wanted);
    // By text, so that "5GiB" and "5G" are the same value.
    if (text == field.print(running)) continue;
    const bool live = std::ranges::find(live_keys(), field.key) != live_keys().end();
    (live ? reload.changed : reload.waiting).emplace_back(field.key);
    // parse() cannot fail: print() of a loaded configuration gives a text that parse() accepts.
    if (live) static_cast<void>(field.parse(text, reload.config).ok());
  }
  return reload;
}

}  // namespace larder::config
