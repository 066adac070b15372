// What happened to the system, for an administrator: what the log said, remembered.
//
// The log is the one source. A line that begins with "event=NAME" is remembered when it is a
// warning or an error, or when its name is in the table of events.cc, which has sentences for
// people. What happens again, by the same name to the same data server, within kTogether of the
// last time (a restart may be between) is one event with it, and moves to the end: a thousand
// copies that miss writes push nothing out. Of some names, which come for a limited number of
// files, it is one event only when the text is the same, too. At most kMost are remembered; the
// oldest go first.
//
// With keep() they survive the process, in a file that save() replaces as a whole. It is not
// synced: what a crash leaves of it counts if it can be read, and otherwise the log has to do.
//
// Threading: any thread. note() waits for no disk. keep() and save() may, and are for one thread at
// a time.
//
// Ownership: the clock outlives it.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "ganesha-fsal/admin/event_reports.h"
#include "rpc/base/clock.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

class Events {
 public:
  static constexpr std::size_t kMost = 1000;
  static constexpr std::chrono::seconds kTogether{60};
  static constexpr std::size_t kLargestFile = std::size_t{4} << 20;

  explicit Events(const Clock& clock) : clock_(clock) {}
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  // A line of the log.
  void note(EventLevel level, std::string_view line);

  // Those with a greater number, oldest first. Names of data servers are empty.
  [[nodiscard]] EventsReport after(std::uint64_t number) const;

  // Takes over what the file of an earlier process has, and is kept there from now on. A file that
  // is not there, or cannot be read as one, has none. Once; later calls do nothing.
  void keep(const std::string& path);
  // Writes the file if something has happened since. A failure is tried again with the next call.
  void save();

 private:
  void add(EventReport event) WEFT_REQUIRES(mutex_);

  const Clock& clock_;
  mutable Mutex mutex_;
  std::deque<EventReport> events_ WEFT_GUARDED_BY(mutex_);  // by number
  std::uint64_t newest_ WEFT_GUARDED_BY(mutex_) = 0;
  std::uint64_t saved_ WEFT_GUARDED_BY(mutex_) = 0;
  std::string path_ WEFT_GUARDED_BY(mutex_);
};

// What the file has; kProtocol when it is not one.
[[nodiscard]] Result<EventsReport> read_events(std::string_view text);

}  // namespace weft::mds
