// The data servers, as those see them who ask something of one of them.
//
// Threading: any thread. Completions run on a thread of the cluster and must not block on another
// call; ask() and fence_and_wait() are for threads that may block (await.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ganesha-fsal/cluster/await.h"
#include "rpc/control/messages.h"

namespace weft::mds {

namespace control = rpc::control;
using control::Done;

class DataServers {
 public:
  DataServers() = default;
  DataServers(const DataServers&) = delete;
  DataServers& operator=(const DataServers&) = delete;
  virtual ~DataServers() = default;

  // Asks one data server: a request of rpc/control/messages.h. It completes by a deadline. One that
  // failed may have been carried out, and may be made again.
  template <rpc::peer::Request R>
  void call(std::uint32_t ds_id, const R& request, Done<typename R::Reply> done) {
    send(ds_id, R::kVerb, rpc::peer::to_bytes(request),
         rpc::peer::expect<typename R::Reply>(std::move(done)));
  }
  // The same, and waits for the answer.
  template <rpc::peer::Request R>
  [[nodiscard]] Result<typename R::Reply> ask(std::uint32_t ds_id, const R& request) {
    return await<typename R::Reply>(
        [&](Done<typename R::Reply> done) { call(ds_id, request, std::move(done)); });
  }

  // Makes data servers refuse handles below the fences' epochs. The fences are first recorded
  // durably: a data server that cannot be reached now gets them before it serves again, whatever
  // becomes of this call. For one whose lease has ended meanwhile (Registry::lapse()) that is
  // success: it serves nobody. Until then the call fails, and is to be made again.
  virtual void fence(std::span<const std::uint32_t> ds_ids, std::vector<control::Fence> fences,
                     Done<void> done) = 0;
  [[nodiscard]] Result<> fence_and_wait(std::span<const std::uint32_t> ds_ids,
                                        std::vector<control::Fence> fences) {
    return await<void>([&](Done<void> done) { fence(ds_ids, std::move(fences), std::move(done)); });
  }
  [[nodiscard]] Result<> fence_and_wait(std::span<const std::uint32_t> ds_ids,
                                        const control::Fence& one) {
    return fence_and_wait(ds_ids, std::vector{one});
  }

 protected:
  virtual void send(std::uint32_t ds_id, std::uint32_t verb, rpc::peer::Bytes arguments,
                    Done<rpc::peer::Bytes> done) = 0;
};

}  // namespace weft::mds
