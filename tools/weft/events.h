// events: what happened to the system, as the metadata server remembers it.
//
// Threading: one thread; blocking.
#pragma once

#include <optional>
#include <string>

#include "ganesha-fsal/admin/event_reports.h"
#include "tools/weft/commands.h"

namespace weft::cli {

struct EventsOptions {
  std::optional<double> since_s;  // ago; nothing: all that are remembered
  bool follow = false;
};
// Who follows goes on while the metadata server is away, and returns only if it was not there at
// first. In JSON one document, or, who follows, one for each event, in a line.
[[nodiscard]] int events_command(const Settings& settings, const EventsOptions& options);

// In the local time, at most 80 columns but for words that are longer.
[[nodiscard]] std::string event_text(const mds::EventReport& event);
// Without what happened last before `ms`, of 1970.
[[nodiscard]] mds::EventsReport events_since(mds::EventsReport report, std::uint64_t ms);

}  // namespace weft::cli
