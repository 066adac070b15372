// Reading and writing files for clients that do not do it themselves: the metadata server as a
// client of its own data servers, for NFSv4.0, for mounts without pNFS, and when a client falls
// back.
//
// One NFSv4.1 session to each data server, made on first use. Handles are sealed kControl, so
// fencing a client does not stop the metadata server. A range is split over its data servers, which
// work at the same time.
//
// Sizes. The metadata server's size of the file governs: bytes below it that no object holds are
// zeros, bytes above it are never returned. A write that is answered made the file as long as it
// reaches: the caller records that (Namespace::grow) before it answers its client.
//
// Verifier. One number stands for all data servers' write verifiers. It changes when any data
// server's changed, which is when unstable data may have been lost; a client then writes again what
// it had not committed, a little more than needed.
//
// Threading: any thread. Completions run on a thread of the proxy and must not block.
//
// Ownership: the registry and pool outlive the proxy. stop(), or destruction, completes everything
// with kClosed and joins the threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ganesha-fsal/cluster/registry.h"
#include "layout/handle.h"
#include "layout/layout_map.h"
#include "rpc/base/buffer.h"
#include "rpc/base/error.h"
#include "rpc/control/messages.h"

namespace weft::mds {

using control::Done;

class ProxyIo {
 public:
  struct Config {
    std::string owner;  // EXCHANGE_ID's co_ownerid: of this metadata server, unique
    layout::HandleKey handle_key{};
    std::chrono::milliseconds call_timeout{20'000};  // of one READ, WRITE or COMMIT
  };

  struct File {
    layout::ObjectId object;
    layout::LayoutMap map;
  };

  struct ReadResult {
    Payload data;  // exactly the part of the range below the size
    bool eof = false;
  };

  enum class Stability : std::uint8_t { kUnstable = 0, kDataSync = 1, kFileSync = 2 };

  struct WriteResult {
    std::uint64_t bytes = 0;  // all of it, or an error
    Stability stability = Stability::kUnstable;
    std::uint64_t verifier = 0;
  };

  ProxyIo(Config config, Registry& registry, BufferPool& pool);
  ProxyIo(const ProxyIo&) = delete;
  ProxyIo& operator=(const ProxyIo&) = delete;
  ~ProxyIo();
  void stop();

  // `size` is the file's. kIo, kTimedOut, kUnreachable: a data server failed, or did not answer.
  void read(const File& file, std::uint64_t size, std::uint64_t offset, std::uint32_t count,
            Done<ReadResult> done);
  // Copies `data` before it returns. On an error any part of the range may have been written.
  // kNoSpace, kFileTooLarge, kIo, kTimedOut, kUnreachable.
  void write(const File& file, std::uint64_t offset, std::span<const std::byte> data,
             Stability wanted, Done<WriteResult> done);
  // Everything written so far, of the whole file. The verifier to answer COMMIT with.
  void commit(const File& file, Done<std::uint64_t> done);

  [[nodiscard]] std::uint64_t verifier() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace weft::mds
