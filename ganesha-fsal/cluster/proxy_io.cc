#include "ganesha-fsal/cluster/proxy_io.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "ganesha-fsal/cluster/gather.h"
#include "ganesha-fsal/cluster/server_sessions.h"
#include "ganesha-fsal/cluster/verifier_watch.h"
#include "rpc/base/clock.h"
#include "rpc/control/keys.h"

namespace weft::mds {
namespace {

using rpc::nfs4::CompoundResult;
using rpc::nfs4::Op;
using rpc::nfs4::OpArgs;

constexpr std::uint32_t kMaxTransfer = 1U << 20;  // bytes of one READ or WRITE

OpArgs put_handle(const layout::SealedHandle& handle) {
  return {Op::OP_PUTFH, rpc::nfs4::PutFhArgs{rpc::nfs4::FileHandle(handle)}};
}

// The parts of a range that one READ or WRITE each moves, in file order.
Result<std::vector<layout::Extent>> parts_of(const layout::Striping& striping, std::uint64_t offset,
                                             std::uint64_t length) {
  std::vector<layout::Extent> parts;
  auto split = striping.split(offset, length, [&](layout::Extent extent) {
    while (extent.length > kMaxTransfer) {
      parts.push_back({extent.server, extent.offset, kMaxTransfer});
      extent.offset += kMaxTransfer;
      extent.length -= kMaxTransfer;
    }
    parts.push_back(extent);
  });
  if (!split) return pass(split);
  return parts;
}

// The index of the copy to read: the first that holds every acknowledged byte.
Result<std::size_t> readable_copy(const layout::LayoutMap& map) {
  for (std::size_t copy = 0; copy < map.copies.size(); ++copy) {
    if (map.copies[copy].state == layout::CopyState::kCurrent) return copy;
  }
  return fail(Errc::kIo, "no copy of the file is current");
}

// A piece as long as `size`: what was read of it, then zeros.
Result<Payload> padded_to(Payload data, std::size_t size) {
  if (data.size() > size) return fail(Errc::kProtocol, "data server answered too much");
  if (data.size() < size) data.append(ZeroRange{size - data.size()});
  return data;
}

}  // namespace

class ProxyIo::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(Config config, Registry& registry, BufferPool& pool)
      : config_(std::move(config)),
        pool_(pool),
        sessions_(std::make_shared<ServerSessions>(config_.owner, registry, pool)),
        verifier_(system_random().u64()) {
    sessions_->start();
  }

  [[nodiscard]] layout::SealedHandle handle(const layout::ObjectId& object,
                                            std::uint32_t ds_id) const {
    layout::Handle handle;
    handle.access = layout::Access::kControl;
    handle.key_id = control::kHandleKeyId;
    handle.ds_id = ds_id;
    handle.object = object;
    // Fences are for clients: the metadata server is above every epoch.
    handle.object_epoch = UINT32_MAX;
    handle.client_epoch = UINT32_MAX;
    return layout::seal(handle, config_.handle_key);
  }

  void read(const File& file, std::uint64_t size, std::uint64_t offset, std::uint32_t count,
            Done<ReadResult> done);
  void read_part(std::uint32_t ds_id, const layout::ObjectId& object, const layout::Extent& part,
                 Done<Payload> done);
  void write(const File& file, std::uint64_t offset, std::span<const std::byte> data,
             Stability wanted, Done<WriteResult> done);
  [[nodiscard]] Result<Buffer> copied(std::span<const std::byte> bytes);
  void write_part(std::uint32_t ds_id, const layout::ObjectId& object, std::uint64_t offset,
                  Buffer data, Stability wanted, Done<Stability> done);
  void commit(const File& file, Done<std::uint64_t> done);

  const Config config_;
  BufferPool& pool_;
  const std::shared_ptr<ServerSessions> sessions_;
  VerifierWatch verifier_;
};

void ProxyIo::Impl::read_part(std::uint32_t ds_id, const layout::ObjectId& object,
                              const layout::Extent& part, Done<Payload> done) {
  const auto make = [handle = handle(object, ds_id), part]() -> Result<std::vector<OpArgs>> {
    std::vector<OpArgs> ops;
    ops.push_back(put_handle(handle));
    ops.push_back({Op::OP_READ,
                   rpc::nfs4::ReadArgs{{}, part.offset, static_cast<std::uint32_t>(part.length)}});
    return ops;
  };
  sessions_->call(
      ds_id, make, config_.call_timeout,
      [self = shared_from_this(), ds_id, object, part,
       done = std::move(done)](Result<CompoundResult> result) mutable {
        if (!result) return done(pass(result));
        auto* ok = result->get<rpc::nfs4::ReadOk>(1);
        if (ok == nullptr) return done(fail(Errc::kProtocol, "no READ result"));
        const std::uint64_t got = ok->data.size();
        // At eof the rest is a hole below the size the caller knows. Otherwise the data server
        // answered short, and is asked for the rest.
        if (ok->eof || got == part.length) {
          return done(padded_to(std::move(ok->data), part.length));
        }
        if (got == 0 || got > part.length) {
          return done(fail(Errc::kProtocol, "READ neither data nor eof"));
        }
        self->read_part(
            ds_id, object, {part.server, part.offset + got, part.length - got},
            [first = std::move(ok->data), done = std::move(done)](Result<Payload> rest) mutable {
              if (!rest) return done(std::move(rest));
              for (Payload::Piece& piece : rest->pieces()) first.append(std::move(piece));
              done(std::move(first));
            });
      });
}

void ProxyIo::Impl::read(const File& file, std::uint64_t size, std::uint64_t offset,
                         std::uint32_t count, Done<ReadResult> done) {
  if (offset >= size || count == 0) return done(ReadResult{{}, offset >= size});
  const std::uint64_t length = std::min<std::uint64_t>(count, size - offset);
  const auto copy = readable_copy(file.map);
  if (!copy) return done(std::unexpected(copy.error()));
  const auto parts = parts_of(file.map.striping(*copy), offset, length);
  if (!parts) return done(std::unexpected(parts.error()));

  // Each part puts its payload in its place; the last to come puts them together.
  const auto pieces = std::make_shared<std::vector<Payload>>(parts->size());
  const bool eof = offset + length == size;
  const auto all = Gather::make(
      parts->size(), [pieces, eof, done = std::move(done)](const Result<>& outcome) mutable {
        if (!outcome) return done(std::unexpected(outcome.error()));
        ReadResult result;
        result.eof = eof;
        for (Payload& payload : *pieces) {
          for (Payload::Piece& piece : payload.pieces()) result.data.append(std::move(piece));
        }
        done(std::move(result));
      });
  for (std::size_t i = 0; i < parts->size(); ++i) {
    const layout::Extent& part = (*parts)[i];
    read_part(file.map.copies[*copy].ds_ids[part.server], file.object, part,
              [pieces, i, one = all->one()](Result<Payload> payload) mutable {
                if (!payload) return one(std::unexpected(payload.error()));
                (*pieces)[i] = std::move(*payload);
                one({});
              });
  }
}

Result<Buffer> ProxyIo::Impl::copied(std::span<const std::byte> bytes) {
  auto buffer = pool_.allocate(bytes.size());
  if (buffer) std::memcpy(buffer->data(), bytes.data(), bytes.size());
  return buffer;
}

void ProxyIo::Impl::write_part(std::uint32_t ds_id, const layout::ObjectId& object,
                               std::uint64_t offset, Buffer data, Stability wanted,
                               Done<Stability> done) {
  const std::uint64_t size = data.size();
  auto make = [handle = handle(object, ds_id), offset, wanted,
               data = std::move(data)]() -> Result<std::vector<OpArgs>> {
    auto again = data.share(0, data.size());
    if (!again) return pass(again);
    rpc::nfs4::WriteArgs args;
    args.offset = offset;
    args.stable = static_cast<rpc::nfs4::StableHow>(wanted);
    args.data.push_back(std::move(*again));
    std::vector<OpArgs> ops;
    ops.push_back(put_handle(handle));
    ops.push_back({Op::OP_WRITE, std::move(args)});
    return ops;
  };
  sessions_->call(ds_id, std::move(make), config_.call_timeout,
                  [self = shared_from_this(), ds_id, size,
                   done = std::move(done)](Result<CompoundResult> result) mutable {
                    if (!result) return done(pass(result));
                    const auto* ok = result->get<rpc::nfs4::WriteOk>(1);
                    if (ok == nullptr) return done(fail(Errc::kProtocol, "no WRITE result"));
                    if (ok->count != size) return done(fail(Errc::kIo, "short WRITE"));
                    self->verifier_.observe(ds_id, ok->verifier);
                    done(static_cast<Stability>(ok->committed));
                  });
}

void ProxyIo::Impl::write(const File& file, std::uint64_t offset, std::span<const std::byte> data,
                          Stability wanted, Done<WriteResult> done) {
  struct State {
    std::mutex mutex;
    Stability stability = Stability::kFileSync;
  };
  struct Part {
    std::uint32_t ds_id;
    std::uint64_t offset;
    Buffer data;
  };
  // The verifier is the one from before the first WRITE was sent: if any data server's changes
  // meanwhile, the COMMIT that follows answers another.
  const std::uint64_t verifier = verifier_.value();
  if (data.empty()) return done(WriteResult{0, Stability::kFileSync, verifier});
  std::vector<Part> writes;
  for (std::size_t copy = 0; copy < file.map.copies.size(); ++copy) {
    const auto parts = parts_of(file.map.striping(copy), offset, data.size());
    if (!parts) return done(std::unexpected(parts.error()));
    for (const layout::Extent& part : *parts) {
      auto buffer = copied(data.subspan(part.offset - offset, part.length));
      if (!buffer) return done(pass(buffer));
      writes.push_back(
          {file.map.copies[copy].ds_ids[part.server], part.offset, std::move(*buffer)});
    }
  }
  const auto state = std::make_shared<State>();
  const auto all =
      Gather::make(writes.size(), [state, size = data.size(), verifier,
                                   done = std::move(done)](const Result<>& outcome) mutable {
        if (!outcome) return done(std::unexpected(outcome.error()));
        done(WriteResult{size, state->stability, verifier});
      });
  for (Part& part : writes) {
    write_part(part.ds_id, file.object, part.offset, std::move(part.data), wanted,
               [state, one = all->one()](const Result<Stability>& made) mutable {
                 if (!made) return one(std::unexpected(made.error()));
                 {
                   const std::lock_guard lock(state->mutex);
                   state->stability = std::min(state->stability, *made);
                 }
                 one({});
               });
  }
}

void ProxyIo::Impl::commit(const File& file, Done<std::uint64_t> done) {
  std::vector<std::uint32_t> ids;
  for (const layout::Copy& copy : file.map.copies) {
    ids.insert(ids.end(), copy.ds_ids.begin(), copy.ds_ids.end());
  }
  const auto all = Gather::make(ids.size(), [self = shared_from_this(), done = std::move(done)](
                                                const Result<>& outcome) mutable {
    if (!outcome) return done(std::unexpected(outcome.error()));
    done(self->verifier_.value());
  });
  for (const std::uint32_t id : ids) {
    const auto make = [handle = handle(file.object, id)]() -> Result<std::vector<OpArgs>> {
      std::vector<OpArgs> ops;
      ops.push_back(put_handle(handle));
      ops.push_back({Op::OP_COMMIT, rpc::nfs4::CommitArgs{}});
      return ops;
    };
    sessions_->call(
        id, make, config_.call_timeout,
        [self = shared_from_this(), id, one = all->one()](Result<CompoundResult> result) mutable {
          if (!result) return one(std::unexpected(result.error()));
          const auto* ok = result->get<rpc::nfs4::CommitOk>(1);
          if (ok == nullptr) return one(fail(Errc::kProtocol, "no COMMIT result"));
          self->verifier_.observe(id, ok->verifier);
          one({});
        });
  }
}

ProxyIo::ProxyIo(Config config, Registry& registry, BufferPool& pool)
    : impl_(std::make_shared<Impl>(std::move(config), registry, pool)) {}
ProxyIo::~ProxyIo() { stop(); }
void ProxyIo::stop() { impl_->sessions_->stop(); }
std::uint64_t ProxyIo::verifier() const { return impl_->verifier_.value(); }

void ProxyIo::read(const File& file, std::uint64_t size, std::uint64_t offset, std::uint32_t count,
                   Done<ReadResult> done) {
  impl_->read(file, size, offset, count, std::move(done));
}

void ProxyIo::write(const File& file, std::uint64_t offset, std::span<const std::byte> data,
                    Stability wanted, Done<WriteResult> done) {
  impl_->write(file, offset, data, wanted, std::move(done));
}

void ProxyIo::commit(const File& file, Done<std::uint64_t> done) {
  impl_->commit(file, std::move(done));
}

}  // namespace weft::mds
