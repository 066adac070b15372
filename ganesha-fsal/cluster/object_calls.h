// What is asked of the data servers of a file at once, about its objects.
//
// Which copies: changes go to those that are current or being repaired, a repair must not bring
// back what was cut off; questions go to current ones. What is stale is told nothing: its server
// may be away, and repair makes it equal.
//
// What an earlier run of ours has sent may be on its way to a data server yet, and would be back
// behind a cut or in a hole. So they fail with kUnreachable at one that has not fenced it yet
// (Registry::missing_fences()), as at one that is away. At one whose store is not there they fail
// at once: it would not answer.
//
// A change that is not answered in time, or whose connection breaks, may be carried out yet.
// Nothing else changes that object there (given_up.h) until the data server has answered a fence
// that was sent after it: what came before that has ended then (docs/protocol.md). It is asked for
// with a heartbeat, until it is answered.
//
// Threading: any thread; completions run on a thread of the control server.
//
// Ownership: server and registry outlive it, and nothing is under way any more when it goes.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ganesha-fsal/cluster/data_servers.h"
#include "ganesha-fsal/cluster/failures.h"
#include "ganesha-fsal/cluster/given_up.h"
#include "ganesha-fsal/cluster/registry.h"
#include "layout/layout_map.h"
#include "rpc/base/mutex.h"
#include "rpc/control/server.h"

namespace weft::mds {

class ObjectCalls {
 public:
  ObjectCalls(control::Server& server, Registry& registry, std::chrono::milliseconds timeout)
      : server_(server), registry_(registry), timeout_(timeout) {}

  // Changes say the error of the first failure, and who failed.
  //
  // Cuts or extends the objects to what a file of `size` bytes needs of them.
  void truncate(const layout::LayoutMap& map, const layout::ObjectId& object, std::uint64_t size,
                Finished<void> done);
  // ALLOCATE and DEALLOCATE of a range of a file (RFC 7862). kFileTooLarge, also for an allocation
  // of more than 1,048,576 stripe units.
  void allocate(const layout::LayoutMap& map, const layout::ObjectId& object, std::uint64_t offset,
                std::uint64_t length, Finished<void> done);
  void punch(const layout::LayoutMap& map, const layout::ObjectId& object, std::uint64_t offset,
             std::uint64_t length, Finished<void> done);

  // Where the file's first byte at or after `offset` is that may be other than zeros, or that is in
  // a hole; kNone: nowhere in its objects. One current copy of each stripe has to answer, and any
  // does. `more`: as far as was looked there is none. Precondition: no copy is behind another.
  void seek(const layout::LayoutMap& map, const layout::ObjectId& object, std::uint64_t offset,
            bool hole, Done<control::SeekAnswer> done);

  // The file as its objects show it, for repair and for files whose writer died: the least size,
  // the latest write, the bytes of storage of one copy. One current copy of each stripe has to
  // answer; of several that do, the greatest counts.
  struct Stat {
    std::uint64_t size = 0;
    std::uint64_t allocated = 0;
    std::int64_t mtime_ns = 0;
    bool complete = true;  // every stripe is in it
  };
  // Of a stripe that no data server answers for.
  enum class Silent : std::uint8_t {
    kFail,
    kLeaveOut,  // if none of them serves anybody (Registry::lapse()); else it fails
  };
  void stat(const layout::LayoutMap& map, const layout::ObjectId& object, Done<Stat> done,
            Silent silent = Silent::kFail);

  // Whether the data server says that it has no object; false also when it does not answer.
  void lacks(std::uint32_t ds_id, const layout::ObjectId& object,
             std::move_only_function<void(bool)> done);

  // The data servers that say that they have no object, of current copies, where that of another
  // current copy says that it has bytes of it; and those that the question did not reach, which may
  // have lost it when they are back. Who is reached and does not answer counts for nothing.
  using Asked =
      std::function<void(std::vector<std::uint32_t> found, std::vector<std::uint32_t> unasked)>;
  void without(const layout::LayoutMap& map, const layout::ObjectId& object, Asked done);

  // A data server has been heard: asks it whether what was given up there has ended, unless it is
  // being asked.
  void settle(std::uint32_t ds_id);

 private:
  // A change that what was sent before must not come after.
  template <rpc::peer::Request R>
  void change(std::uint32_t ds_id, const layout::ObjectId& object, const R& request,
              Done<typename R::Reply> done);
  void give_up(std::uint32_t ds_id, const layout::ObjectId& object);

  using Changes = std::vector<std::unique_ptr<GivenUp::Change>>;
  // What was given up at one data server.
  struct Late {
    Changes changes;
    bool asked = false;
  };

  struct Allocation;
  struct Statting;
  struct Seeking;

  control::Server& server_;
  Registry& registry_;
  const std::chrono::milliseconds timeout_;
  Mutex mutex_;
  std::map<std::uint32_t, Late> late_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft::mds
