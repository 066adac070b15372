// What the metadata server tells of what happened (requests.h); as source.h.
//
// Threading: plain values.
#pragma once

#include "ganesha-fsal/admin/source.h"

namespace weft::mds {

enum class EventLevel : std::uint32_t { kNote = 0, kWarning = 1, kError = 2 };
// "note", "warning", "error".
[[nodiscard]] std::string_view to_string(EventLevel level);

// Something that happened, perhaps several times (server/events.h).
struct EventReport {
  std::uint64_t number = 0;    // grows with each that happens, over restarts too
  std::uint64_t at_ms = 0;     // since 1970: the last time
  std::uint64_t first_ms = 0;  // the first
  std::uint64_t times = 1;
  EventLevel level = EventLevel::kNote;
  std::string event;                 // as in the log
  std::optional<ServerName> server;  // the data server that it is about
  std::string text;                  // of the last time
};
template <class Io>
void describe(Io& io, EventReport& r) {
  io("number", r.number);
  io("at_ms", r.at_ms);
  io("first_ms", r.first_ms);
  io("times", r.times);
  io("level", r.level, among(EventLevel::kNote, EventLevel::kError));
  io("event", r.event, cut_at(kMaxReportText));
  io("server", r.server);
  io("text", r.text, cut_at(kMaxReportText));
}

struct EventsReport {
  std::uint64_t newest = 0;  // number of the last that happened, told here or not
  std::vector<EventReport> events;
};
template <class Io>
void describe(Io& io, EventsReport& r) {
  io("newest", r.newest);
  io("events", r.events, cut_at(kLongList));
}

}  // namespace weft::mds
