// What is remembered of the log: lines of it, which have texts of peers, and the file that an
// earlier process left.
#include <cstdlib>

#include "ganesha-fsal/server/events.h"
#include "rpc/xdr/describe_json.h"

using namespace weft;
using namespace weft::mds;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ManualClock clock;
  Events events(clock);
  events.note(EventLevel::kNote, text);
  events.note(EventLevel::kWarning, text);
  for (const EventReport& event : events.after(0).events) {
    if (event.event.empty() || event.text.size() > kMaxReportText) std::abort();
  }
  const auto read = read_events(text);
  if (!read) return 0;
  const auto again = read_events(write_json(to_json(*read)));
  if (!again || again->newest != read->newest || again->events.size() != read->events.size()) {
    std::abort();
  }
  return 0;
}
