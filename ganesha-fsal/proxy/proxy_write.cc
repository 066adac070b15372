#include <algorithm>
#include <cstring>

#include "ganesha-fsal/proxy/proxy_internal.h"
#include "layout/layout_servers.h"
#include "rpc/base/mutex.h"
#include "rpc/base/standing.h"
#include "rpc/control/mds_boot.h"
#include "rpc/peer/keys.h"

namespace weft::mds {

using rpc::nfs4::CompoundResult;
using rpc::nfs4::Op;
using rpc::nfs4::OpArgs;

struct ProxyIo::Impl::Leader {
  VerifierWatch::Source source;  // the data server, and the partners it brings the bytes to
  layout::ObjectId object;
  layout::SealedHandle handle;
};

namespace {

std::vector<VerifierWatch::Source> sources_of(const auto& leaders) {
  std::vector<VerifierWatch::Source> sources;
  for (const auto& leader : leaders) sources.push_back(leader.source);
  return sources;
}

}  // namespace

Result<std::vector<ProxyIo::Impl::Leader>> ProxyIo::Impl::leaders_of(const File& file) const {
  const layout::LayoutMap& map = file.map;
  const std::size_t stripes = map.copies.front().ds_ids.size();
  // The clients' ways of duplication are not ours: whoever writes through us writes every copy.
  layout::LayoutMap ours = map;
  if (map.duplication != layout::Duplication::kServerAsync) {
    ours.duplication = layout::Duplication::kServerSync;
  }
  std::vector<Leader> leaders(stripes);
  const bool mirrored = map.copies.size() > 1;
  if (mirrored && file.leads.size() != stripes) {
    return fail(Errc::kInvalid, "one leader is wanted for each stripe");
  }
  for (std::size_t stripe = 0; stripe < stripes; ++stripe) {
    Leader& leader = leaders[stripe];
    const std::size_t copy = mirrored ? file.leads[stripe] : 0;
    if (copy >= map.copies.size()) return fail(Errc::kInvalid, "no such copy");
    leader.source.ds_id = map.copies[copy].ds_ids[stripe];
    leader.object = file.object;
    if (!mirrored) {
      leader.handle = seal_for(leader.source.ds_id, own_claim(file));
      continue;
    }
    auto handle = layout::leading_handle(ours, copy, stripe);
    if (!handle) return pass(handle);
    handle->key_id = rpc::peer::kHandleKeyId;
    handle->object = file.object;
    handle->client_id = control::kOwnClientId;
    handle->client_epoch = config_.boot_epoch;
    leader.source.partners = handle->partners;
    leader.handle = layout::seal(*handle, config_.keys->sealing());
  }
  return leaders;
}

// Answers are received into the same memory, and nothing else ends what a write holds.
Result<Buffer> ProxyIo::Impl::copied(Pieces pieces, std::uint64_t from, std::size_t size) {
  auto buffer = allocate(pool_, PoolShare::kReplies, size);
  if (!buffer) return buffer;
  std::size_t got = 0;
  for (std::span<const std::byte> piece : pieces) {
    if (from >= piece.size()) {
      from -= piece.size();
      continue;
    }
    piece = piece.subspan(from, std::min(piece.size() - from, size - got));
    from = 0;
    std::memcpy(buffer->data() + got, piece.data(), piece.size());
    got += piece.size();
    if (got == size) break;
  }
  return buffer;
}

void ProxyIo::Impl::write_part(const Leader& leader, std::uint64_t offset, Buffer data,
                               Stability wanted, Done<Stability> done) {
  const std::uint64_t size = data.size();
  auto make = [handle = leader.handle, offset, wanted,
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
  sessions_->call(
      leader.source.ds_id, std::move(make), config_.call_timeout,
      [self = shared_from_this(), source = leader.source, size,
       done = std::move(done)](Result<CompoundResult> result) mutable {
        if (!result) return done(pass(result));
        const auto* ok = result->get<rpc::nfs4::WriteOk>(1);
        if (ok == nullptr) return done(fail(Errc::kProtocol, "no WRITE result"));
        if (ok->count != size) return done(fail(Errc::kIo, "short WRITE"));
        self->verifier_.observe(source, ok->verifier);
        done(static_cast<Stability>(ok->committed));
      },
      leader.object);
}

void ProxyIo::Impl::write(const File& file, std::uint64_t offset, Pieces data, Stability wanted,
                          Finished<WriteResult> done) {
  struct State {
    Mutex mutex;
    Stability stability WEFT_GUARDED_BY(mutex) = Stability::kFileSync;
  };
  struct Part {
    std::uint32_t stripe;
    std::uint64_t offset;
    Buffer data;
  };
  std::uint64_t size = 0;
  for (const auto& piece : data) size += piece.size();
  if (size == 0) return done(WriteResult{0, Stability::kFileSync, verifier_.value()}, {});
  const auto leaders = leaders_of(file);
  if (!leaders) return done(std::unexpected(leaders.error()), {});
  const auto extents = proxy_parts(file.map.striping(), offset, size);
  if (!extents) return done(std::unexpected(extents.error()), {});
  std::vector<ProxyAdmission::Call> calls;
  for (const layout::Extent& part : *extents) {
    calls.push_back({(*leaders)[part.server].source.ds_id, part.length});
  }
  auto place = admission_.admit(std::move(calls));
  if (!place) return done(pass(place), {});
  std::vector<Part> writes;
  for (const layout::Extent& part : *extents) {
    auto buffer = copied(data, part.offset - offset, part.length);
    if (!buffer) return done(pass(buffer), {});
    writes.push_back({part.server, part.offset, std::move(*buffer)});
  }
  // The verifier is the one from before the first WRITE was sent: if any data server's changes
  // meanwhile, the COMMIT that follows answers another.
  const bool remember = wanted == Stability::kUnstable;
  auto sources = sources_of(*leaders);
  const std::uint64_t verifier =
      remember ? verifier_.writing(file.object, sources) : verifier_.value();
  const auto state = std::make_shared<State>();
  const auto all = GatherFailures::make(
      writes.size(), [state, size, verifier, object = file.object, sources = std::move(sources),
                      self = shared_from_this(), place = std::move(*place),
                      done = std::move(done)](Failures failures) mutable {
        if (failures.empty()) {
          MutexLock lock(state->mutex);
          const Stability stability = state->stability;
          lock.unlock();
          if (stability == Stability::kUnstable) self->verifier_.written(object, sources);
          return done(WriteResult{size, stability, verifier}, {});
        }
        auto error = first_of(failures);
        done(std::unexpected(std::move(error)), std::move(failures));
      });
  for (Part& part : writes) {
    const Leader& leader = (*leaders)[part.stripe];
    write_part(leader, part.offset, std::move(part.data), wanted,
               [state, one = all->one(leader.source.ds_id)](const Result<Stability>& made) mutable {
                 if (!made) return one(std::unexpected(made.error()));
                 {
                   const MutexLock lock(state->mutex);
                   state->stability = std::min(state->stability, *made);
                 }
                 one({});
               });
  }
}

bool ProxyIo::Impl::unsettled(const layout::ObjectId& object, const layout::LayoutMap& map) const {
  for (const layout::Copy& copy : map.copies) {
    for (std::size_t stripe = 0; stripe < copy.ds_ids.size(); ++stripe) {
      if (copy.state_of(stripe) != layout::CopyState::kCurrent) continue;
      if (sessions_->unsettled(copy.ds_ids[stripe], object)) return true;
    }
  }
  return false;
}

void ProxyIo::Impl::commit_at(const Leader& leader, Done<void> done) {
  const auto make = [handle = leader.handle]() -> Result<std::vector<OpArgs>> {
    std::vector<OpArgs> ops;
    ops.push_back(put_handle(handle));
    ops.push_back({Op::OP_COMMIT, rpc::nfs4::CommitArgs{}});
    return ops;
  };
  sessions_->call(leader.source.ds_id, make, config_.call_timeout,
                  [self = shared_from_this(), source = leader.source,
                   done = std::move(done)](Result<CompoundResult> result) mutable {
                    if (!result) return done(std::unexpected(result.error()));
                    const auto* ok = result->get<rpc::nfs4::CommitOk>(1);
                    if (ok == nullptr) return done(fail(Errc::kProtocol, "no COMMIT result"));
                    self->verifier_.observe(source, ok->verifier);
                    done({});
                  });
}

void ProxyIo::Impl::commit(const File& file, Finished<std::uint64_t> done) {
  const auto leaders = leaders_of(file);
  if (!leaders) return done(std::unexpected(leaders.error()), {});
  std::vector<ProxyAdmission::Call> calls;
  for (const Leader& leader : *leaders) calls.push_back({leader.source.ds_id, 0});
  auto place = admission_.admit(std::move(calls));
  if (!place) return done(pass(place), {});
  const auto commit = verifier_.committing(file.object, sources_of(*leaders));
  const auto all = GatherFailures::make(
      leaders->size(), [self = shared_from_this(), commit, place = std::move(*place),
                        done = std::move(done)](Failures failures) mutable {
        if (!failures.empty()) {
          auto error = first_of(failures);
          return done(std::unexpected(std::move(error)), std::move(failures));
        }
        self->verifier_.committed(commit);
        done(self->verifier_.value(), {});
      });
  for (const Leader& leader : *leaders) commit_at(leader, all->one(leader.source.ds_id));
}

}  // namespace weft::mds
