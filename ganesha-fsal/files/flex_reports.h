// What clients of the flexfiles layout say of data servers (layout/flex_report.h), and what comes
// of it: LAYOUTRETURN's body, LAYOUTERROR and LAYOUTSTATS.
//
//   a write failed     the copy counts as having missed it, before the report is answered: the
//                      client goes on with the other copies under a new layout, and nobody may read
//                      the old bytes. Only the word of a client that holds a layout for writing
//                      the file counts, and a last current copy is never given up
//   a read failed      a hint: we read there ourselves. Only if that fails with an I/O error the
//                      copy is taken for damaged; the client reads another one meanwhile
//   no space           the next layout for writing is refused with kNoSpace if no current copy has
//                      room (a client that got one would try again without end); the copies that
//                      have none are left out of it otherwise. Forgotten after kFullFor
//   handle refused,    nothing: fencing and restarts are no fault of the copy
//   delay, grace
//
// No report takes a data server offline: whether it is well, its heartbeats say. Statistics are
// kept for the last kMaxFiles files that sent any, in memory, for `weft layout show`. What a client
// reports is what it did since it got the mirror, not since its last report.
//
// Threading: any thread. Parts::missed writes to the metadata store and waits for nothing else;
// Parts::look returns at once. mend() may be called from a thread that waits.
//
// Invariants:
//  1. The mutex is held over no call out.
//  2. At most kMaxFiles files, and kMaxLooks looks under way or to be mended.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "ganesha-fsal/files/grants.h"
#include "ganesha-fsal/meta/schema/types.h"
#include "layout/flex_report.h"
#include "layout/layout_map.h"
#include "rpc/base/error.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

// What clients have done at one data server with one file, as they say.
struct ClientIo {
  std::uint64_t reads = 0;
  std::uint64_t read_bytes = 0;
  std::uint64_t writes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t errors = 0;

  friend bool operator==(const ClientIo&, const ClientIo&) = default;
};

class FlexReports {
 public:
  static constexpr std::size_t kMaxFiles = 4096;
  static constexpr std::size_t kMaxLooks = 64;
  static constexpr std::size_t kMaxReporters = 256;  // clients' mirrors counted of one file
  static constexpr Clock::duration kFullFor = std::chrono::seconds(5);

  struct Parts {
    // The one data server of a device; 0: none of ours.
    std::function<std::uint32_t(const layout::DeviceIdBytes&)> ds_of;
    std::function<bool(FileId, ClientId)> may_write;
    // The data server missed writes: recorded durably on success.
    std::function<Result<>(FileId, std::uint32_t ds_id)> missed;
    // Reads a byte of the file there.
    std::function<void(FileId, std::uint32_t ds_id, std::uint64_t offset,
                       std::function<void(Result<>)> done)>
        look;
    std::function<Clock::time_point()> now;
  };

  explicit FlexReports(Parts parts);
  FlexReports(const FlexReports&) = delete;
  FlexReports& operator=(const FlexReports&) = delete;

  void errors(FileId file, ClientId client, std::uint64_t offset,
              std::span<const layout::DeviceError> errors);
  void returned(FileId file, ClientId client, const layout::FlexReturn& report);
  void stats(FileId file, ClientId client, const layout::DeviceIdBytes& device,
             const ClientIo& so_far);

  // The data servers that said not long ago that they have no space for the file.
  [[nodiscard]] std::set<std::uint32_t> full_for(FileId file) const;
  // Whether every current copy of a stripe is at such a server.
  [[nodiscard]] bool no_room(FileId file, const layout::LayoutMap& map) const;

  // Copies that could not be read: missed() for each.
  void mend();

  [[nodiscard]] std::map<std::uint32_t, ClientIo> io_of(FileId file) const;

 private:
  struct OfFile {
    std::map<std::uint32_t, ClientIo> io;
    std::map<std::pair<ClientId, std::uint32_t>, ClientIo> reported;  // last
    std::map<std::uint32_t, Clock::time_point> full_at;
    std::list<FileId>::iterator age;
  };
  using Copy = std::pair<FileId, std::uint32_t>;  // what a data server has of a file
  // Outlives us while a look is under way.
  struct Looks {
    Mutex mutex;
    std::set<Copy> under_way WEFT_GUARDED_BY(mutex);
    std::set<Copy> damaged WEFT_GUARDED_BY(mutex);
  };

  // Whoever could not be written goes to `unwritten`.
  void error(FileId file, ClientId client, std::uint64_t offset, const layout::DeviceError& error,
             std::set<std::uint32_t>& unwritten);
  // Once for all errors of a report: each may wait for a sync.
  void writes_failed(FileId file, ClientId client, const std::set<std::uint32_t>& ds_ids);
  void missed(FileId file, std::uint32_t ds_id);
  void read_failed(FileId file, std::uint32_t ds_id, std::uint64_t offset);
  OfFile& of(FileId file) WEFT_REQUIRES(mutex_);

  const Parts parts_;
  mutable Mutex mutex_;
  std::map<FileId, OfFile> files_ WEFT_GUARDED_BY(mutex_);
  std::list<FileId> ages_ WEFT_GUARDED_BY(mutex_);  // those heard of last at the end
  const std::shared_ptr<Looks> looks_ = std::make_shared<Looks>();
};

}  // namespace weft::mds
