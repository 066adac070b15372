// Opens and share reservations, by file.
//
// Ganesha's cache may hold two handles of one file for a while (one of them unlinked, or about to
// be merged), so what must be one for a file lives here and not in the handle: the share counters,
// and how many opens there are. An unlinked file stays until its last close.
//
// Threading: any thread. An OpenFile's fields are guarded by its mutex.
#pragma once

#include <optional>

#include "ganesha-fsal/files/grants.h"
#include "ganesha-fsal/glue/ganesha.h"
#include "rpc/base/mutex.h"

namespace weft::mds {

struct OpenFile {
  Mutex mutex;
  fsal_share share WEFT_GUARDED_BY(mutex){};
  // Opens by client: all, and those for writing. What a client may ask a layout for.
  struct ByClient {
    std::uint32_t all = 0;
    std::uint32_t writing = 0;
  };
  std::map<ClientId, ByClient> by_client WEFT_GUARDED_BY(mutex);
};

// An open (or lock, or layout) of Ganesha's with the one thing we keep in it. Plain data: Ganesha
// gets it zeroed from alloc_state and gives it back to free_state.
struct OpenState : state_t {
  fsal_openflags_t flags;
  ClientId client;  // while open
  bool reclaimed;   // the client had it open before our restart
};

class OpenFiles {
 public:
  // The file's entry, made if there is none; it lives as long as somebody holds it, which may be
  // longer than this object.
  [[nodiscard]] std::shared_ptr<OpenFile> of(FileId file);
  // By this client; by anybody.
  [[nodiscard]] bool is_open(FileId file, std::optional<ClientId> client) const;

 private:
  struct Table {
    Mutex mutex;
    std::map<FileId, std::weak_ptr<OpenFile>> files WEFT_GUARDED_BY(mutex);
  };
  const std::shared_ptr<Table> table_ = std::make_shared<Table>();  // entries hold it too
};

// Takes the reservation for `flags`, giving up the one the state had. ERR_FSAL_SHARE_DENIED leaves
// everything as it was. `state` null: an open without a state; only checked, nothing is kept.
[[nodiscard]] fsal_status_t take_share(OpenFile& file, OpenState* state, fsal_openflags_t flags,
                                       ClientId client);
// Whether the client has the file open in a way that allows this access.
[[nodiscard]] bool may_use(OpenFile& file, ClientId client, layout::Access access);
// Gives up what the state holds.
void drop_share(OpenFile& file, OpenState& state);
// Whether an operation without an open of its own may read or write.
[[nodiscard]] fsal_status_t check_share(OpenFile& file, fsal_openflags_t access, bool bypass);

// The client of the request under way, 0 for one without.
[[nodiscard]] inline ClientId caller() {
  return op_ctx->clientid == nullptr ? 0 : *op_ctx->clientid;
}

state_t* alloc_state(fsal_export* exp, state_type type, state_t* related);

}  // namespace weft::mds
