// Tells data servers what clients are expected to read next: the first bytes of files that they are
// expected to open (open_order.h), at the data servers that a layout for reading would name.
//
// Only data servers whose disks turn want to know, unless they are configured otherwise. Each is
// asked when it comes up, by a request of no reads. While none wants to know, an OPEN costs a look
// at a number here.
//
// It is all guesses: what is too much is dropped, and errors are left to those who read.
//
// Threading: any thread. A thread of its own does the work. Ownership: everything in Parts outlives
// it; calls to data servers that are under way when it ends are no concern of it.
#pragma once

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ganesha-fsal/cluster/data_servers.h"
#include "ganesha-fsal/cluster/work_queue.h"
#include "ganesha-fsal/files/mirrors.h"
#include "ganesha-fsal/files/open_order.h"
#include "rpc/base/mutex.h"
#include "rpc/control/prefetch.h"

namespace weft::mds {

// Of a data server, by id, what a client reads of it that reads a file from its beginning.
using ExpectedReads = std::vector<std::pair<std::uint32_t, control::Range>>;

// At most `most` bytes of a file that has objects; none of others. In the order of the file.
[[nodiscard]] Result<ExpectedReads> reads_expected(FileTable& files, const Namespace& names,
                                                   const Mirrors& mirrors, FileId file,
                                                   std::uint64_t most);

class Prefetcher {
 public:
  struct Parts {
    OpenOrder::After after;
    std::function<Result<ExpectedReads>(FileId)> reads;
    DataServers& servers;
  };
  explicit Prefetcher(Parts parts);
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher() { stop(); }
  void stop() { queue_.stop(); }

  void server_up(std::uint32_t ds_id);

  // A client has opened the file, found in `dir` under this name, to read it.
  void opened(ClientId client, FileId dir, const std::string& name, FileId file);

 private:
  static constexpr std::size_t kWaiting = 1024;  // opens that are not looked at yet

  // The data servers that want to know; shared with calls that are under way.
  struct Willing {
    std::atomic<std::size_t> count{0};
    Mutex mutex;
    std::set<std::uint32_t> ds_ids WEFT_GUARDED_BY(mutex);
    void note(std::uint32_t ds_id, bool does) WEFT_EXCLUDES(mutex);
  };

  void look(const OpenOrder::Opened& opened);
  void tell(std::uint32_t ds_id, std::vector<control::Range> ranges);

  const Parts parts_;
  const std::shared_ptr<Willing> willing_ = std::make_shared<Willing>();
  OpenOrder order_;  // the thread's
  WorkQueue queue_{1, kWaiting};
};

}  // namespace weft::mds
