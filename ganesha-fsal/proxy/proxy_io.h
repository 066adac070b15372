// Reading and writing files for clients that do not do it themselves: the metadata server as a
// client of its own data servers, for NFSv4.0, for mounts without pNFS, and when a client falls
// back.
//
// One NFSv4.1 session to each data server, made on first use. A range is split over its data
// servers, which work at the same time.
//
// Copies. A write goes to the leader of each stripe, which brings it to the other copies: the
// handle names them. The leaders are the caller's to choose, the same for all who write a file at
// one time. COMMIT goes to the leaders too. A read takes a current copy for each part, another one
// when that fails.
//
// Handles are of no client, so fencing one does not stop the metadata server, and have the map's
// object epoch. What arrives late, at a copy that is being repaired, or comes from a metadata
// server that another has taken the place of, is refused. The refusal (kAccess) says that the map
// and the leaders are out of date. Handles are sealed kControl, those that name partners as a
// client's.
//
// Sizes. The metadata server's size of the file governs: bytes below it that no object holds are
// zeros, bytes above it are never returned. A write that is answered made the file as long as it
// reaches: the caller records that (Namespace::grow) before it answers its client.
//
// Verifier. One number stands for all data servers' write verifiers (verifier_watch.h). It changes
// when any data server's changed, and when a file's leaders did, which is when unstable data may
// have been lost; a client then writes again what it had not committed, a little more than needed.
// The verifier of a write is the one from before it was sent: no later one may be told for it.
//
// Bounds. What waits for data servers is bounded, for each and altogether (proxy_admission.h): an
// operation beyond that fails with kBusy before anything of it is sent.
//
// Threading: any thread. Completions run on a thread of the proxy and must not block.
//
// Ownership: the registry and pool outlive the proxy. stop(), or destruction, completes everything
// with kClosed and joins the threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ganesha-fsal/cluster/failures.h"
#include "ganesha-fsal/cluster/registry.h"
#include "layout/handle.h"
#include "layout/layout_map.h"
#include "rpc/base/buffer.h"
#include "rpc/base/clock.h"
#include "rpc/base/error.h"
#include "rpc/control/messages.h"
#include "rpc/peer/keyring.h"

namespace weft::mds {

using control::Done;

class ProxyIo {
 public:
  struct Config {
    std::string owner;  // EXCHANGE_ID's co_ownerid: of this metadata server, unique
    std::shared_ptr<const rpc::peer::Keyring> keys;
    // Of its handles. Data servers fence earlier ones (Registry::missing_fences()).
    std::uint32_t boot_epoch = UINT32_MAX;
    std::chrono::milliseconds call_timeout{20'000};  // of one READ, WRITE or COMMIT
    std::chrono::milliseconds copy_timeout{5'000};   // of a READ, if another copy can be tried
    // Whether a data server is known to be gone, rather than being restarted. Nothing waits for one
    // that is. Empty: as the registry says (Registry::reach()).
    std::function<bool(std::uint32_t ds_id)> is_gone;
    // Calls that wait for one data server: what eight Linux clients send at most. Bytes are bounded
    // by the pool: all of it, and half of it for one data server. What is written leaves an eighth
    // for answers.
    std::size_t max_calls = 512;
    bool rdma = false;  // data servers that have it, and are not on this machine, are reached so
    const weft::Clock& clock;
    weft::Random& random;  // asked while the proxy is made
  };

  struct File {
    layout::ObjectId object;
    layout::LayoutMap map;
    // The copy that leads at each stripe, for a file with several: for writing and COMMIT. If there
    // are any, reads take these copies only.
    std::vector<std::uint8_t> leads;
  };

  struct ReadResult {
    Payload data;  // exactly the part of the range below the size
    bool eof = false;
  };

  // Bytes that follow each other in the file, in one or more places of memory.
  using Pieces = std::span<const std::span<const std::byte>>;

  enum class Stability : std::uint8_t { kUnstable = 0, kDataSync = 1, kFileSync = 2 };

  struct WriteResult {
    std::uint64_t bytes = 0;  // all of it, or an error
    Stability stability = Stability::kUnstable;
    std::uint64_t verifier = 0;
  };

  // Failures are kTimedOut, kUnreachable; kBusy (it said "try again" all the time); kAccess
  // (fenced: the map is not the newest); kNoSpace; kIo and others. The error is the first
  // failure's, or says what no data server can help.

  ProxyIo(Config config, Registry& registry, BufferPool& pool);
  ProxyIo(const ProxyIo&) = delete;
  ProxyIo& operator=(const ProxyIo&) = delete;
  ~ProxyIo();
  void stop();

  // `size` is the file's. kIo, kTimedOut, kUnreachable: no copy of a part could be read.
  void read(const File& file, std::uint64_t size, std::uint64_t offset, std::uint32_t count,
            Done<ReadResult> done);
  // Copies `data` before it returns. On an error any part of the range may have been written, if
  // there are Failures; or else nothing. kNoSpace, kFileTooLarge, kIo, kTimedOut, kUnreachable,
  // kAccess, kBusy.
  void write(const File& file, std::uint64_t offset, Pieces data, Stability wanted,
             Finished<WriteResult> done);
  // Everything written so far, of the whole file. The verifier to answer COMMIT with.
  void commit(const File& file, Finished<std::uint64_t> done);

  // A write of the object that failed may be carried out yet by a data server with a current copy.
  // Later writes through the proxy wait for it; nobody else may be let write meanwhile, and whoever
  // may already is to be stopped.
  [[nodiscard]] bool unsettled(const layout::ObjectId& object, const layout::LayoutMap& map) const;
  // The same, by this data server.
  [[nodiscard]] bool unsettled(const layout::ObjectId& object, std::uint32_t ds_id) const;
  [[nodiscard]] std::uint64_t verifier() const;

  // How a data server is reached, if it has been (ServerSessions::route()).
  struct Route {
    std::string transport = "none";  // "shared memory", "rdma", "tcp"
    std::uint64_t shared_bytes = 0;
  };
  [[nodiscard]] Route route(std::uint32_t ds_id) const;

  class Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace weft::mds
