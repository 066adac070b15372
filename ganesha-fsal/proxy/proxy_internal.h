// The inside of ProxyIo: what reads and writes share.
//
// Threading and ownership: as ProxyIo says. Everything under way owns the Impl.
#pragma once

#include <memory>
#include <mutex>

#include "ganesha-fsal/proxy/proxy_admission.h"
#include "ganesha-fsal/proxy/proxy_io.h"
#include "ganesha-fsal/proxy/server_sessions.h"
#include "ganesha-fsal/proxy/verifier_watch.h"
#include "layout/striping.h"

namespace weft::mds {

class ProxyIo::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Config config, Registry& registry, BufferPool& pool);

  void read(const File& file, std::uint64_t size, std::uint64_t offset, std::uint32_t count,
            Done<ReadResult> done);
  void write(const File& file, std::uint64_t offset, Pieces data, Stability wanted,
             Finished<WriteResult> done);
  void commit(const File& file, Finished<std::uint64_t> done);

  [[nodiscard]] std::uint64_t verifier() const { return verifier_.value(); }
  [[nodiscard]] ServerSessions::Route route(std::uint32_t ds_id) const {
    return sessions_->route(ds_id);
  }
  [[nodiscard]] bool unsettled(const layout::ObjectId& object, const layout::LayoutMap& map) const;
  [[nodiscard]] bool unsettled(const layout::ObjectId& object, std::uint32_t ds_id) const {
    return sessions_->unsettled(ds_id, object);
  }
  void stop() { sessions_->stop(); }

 private:
  struct PartRead;
  struct Leader;

  // The copies to read a part from, the best first.
  [[nodiscard]] std::vector<std::uint32_t> holders(const File& file,
                                                   const layout::Extent& part) const;
  void try_copy(const std::shared_ptr<PartRead>& read);
  void read_from(std::uint32_t ds_id, const layout::Handle& claim, const layout::Extent& part,
                 std::chrono::milliseconds timeout, Done<Payload> done);

  // The leader of every stripe, with the handle to write through. kInvalid: leads that are not of
  // this map.
  [[nodiscard]] Result<std::vector<Leader>> leaders_of(const File& file) const;
  // `size` bytes of the pieces, after the first `from`.
  [[nodiscard]] Result<Buffer> copied(Pieces pieces, std::uint64_t from, std::size_t size);
  void write_part(const Leader& leader, std::uint64_t offset, Buffer data, Stability wanted,
                  Done<Stability> done);
  void commit_at(const Leader& leader, Done<void> done);
  // What the metadata server claims of the file for itself: as of its map, and of this run.
  [[nodiscard]] layout::Handle own_claim(const File& file) const;
  // For this data server only.
  [[nodiscard]] layout::SealedHandle seal_for(std::uint32_t ds_id, layout::Handle claim) const;

  const Config config_;
  BufferPool& pool_;
  const std::shared_ptr<ServerSessions> sessions_;
  VerifierWatch verifier_;
  ProxyAdmission admission_;
};

// The parts of a range that one READ or WRITE each moves, in file order.
[[nodiscard]] Result<std::vector<layout::Extent>> proxy_parts(const layout::Striping& striping,
                                                              std::uint64_t offset,
                                                              std::uint64_t length);
[[nodiscard]] rpc::nfs4::OpArgs put_handle(const layout::SealedHandle& handle);

}  // namespace weft::mds
