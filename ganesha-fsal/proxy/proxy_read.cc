#include <algorithm>

#include "ganesha-fsal/cluster/gather.h"
#include "ganesha-fsal/proxy/proxy_internal.h"

namespace weft::mds {

using rpc::nfs4::CompoundResult;
using rpc::nfs4::Op;
using rpc::nfs4::OpArgs;

namespace {

// A piece as long as `size`: what was read of it, then zeros.
Result<Payload> padded_to(Payload data, std::size_t size) {
  if (data.size() > size) return fail(Errc::kProtocol, "data server answered too much");
  if (data.size() < size) data.append(ZeroRange{size - data.size()});
  return data;
}

}  // namespace

// A part that is being read at one of its copies.
struct ProxyIo::Impl::PartRead {
  layout::Handle claim;
  layout::Extent part;
  std::vector<std::uint32_t> ds_ids;  // the copies
  std::size_t next = 0;               // of ds_ids
  Done<Payload> done;
};

// Units of a stripe go to its copies in turn, as they do in clients' layouts: so what several
// clients read is in one server's cache, not in all.
std::vector<std::uint32_t> ProxyIo::Impl::holders(const File& file,
                                                  const layout::Extent& part) const {
  const std::size_t stripe = part.server;
  std::vector<std::uint32_t> ids;
  for (std::size_t copy = 0; copy < file.map.copies.size(); ++copy) {
    const layout::Copy& from = file.map.copies[copy];
    if (from.state_of(stripe) != layout::CopyState::kCurrent) continue;
    if (!file.leads.empty() && file.leads[stripe] != copy) continue;
    ids.push_back(from.ds_ids[stripe]);
  }
  if (ids.size() < 2) return ids;
  if (file.map.reads == layout::ReadPolicy::kAllCopies) {
    const std::uint64_t round =
        part.offset / file.map.stripe_unit / file.map.copies[0].ds_ids.size();
    std::ranges::rotate(ids,
                        ids.begin() + static_cast<std::ptrdiff_t>((round + stripe) % ids.size()));
  }
  std::vector<std::uint32_t> best;
  std::vector<std::uint32_t> gone;
  for (const std::uint32_t id : ids) (sessions_->is_gone(id) ? gone : best).push_back(id);
  best.insert(best.end(), gone.begin(), gone.end());
  return best;
}

void ProxyIo::Impl::read_from(std::uint32_t ds_id, const layout::Handle& claim,
                              const layout::Extent& part, std::chrono::milliseconds timeout,
                              Done<Payload> done) {
  const auto make = [handle = seal_for(ds_id, claim), part]() -> Result<std::vector<OpArgs>> {
    std::vector<OpArgs> ops;
    ops.push_back(put_handle(handle));
    ops.push_back({Op::OP_READ,
                   rpc::nfs4::ReadArgs{{}, part.offset, static_cast<std::uint32_t>(part.length)}});
    return ops;
  };
  sessions_->call(
      ds_id, make, timeout,
      [self = shared_from_this(), ds_id, claim, part, timeout,
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
        self->read_from(
            ds_id, claim, {part.server, part.offset + got, part.length - got}, timeout,
            [first = std::move(ok->data), done = std::move(done)](Result<Payload> rest) mutable {
              if (!rest) return done(std::move(rest));
              for (Payload::Piece& piece : rest->pieces()) first.append(std::move(piece));
              done(std::move(first));
            });
      });
}

void ProxyIo::Impl::try_copy(const std::shared_ptr<PartRead>& read) {
  const std::uint32_t ds_id = read->ds_ids[read->next++];
  const bool others = read->next < read->ds_ids.size();
  const auto timeout = others ? config_.copy_timeout : config_.call_timeout;
  read_from(ds_id, read->claim, read->part, timeout,
            [self = shared_from_this(), read, others](Result<Payload> got) {
              const bool again = !got && others && got.error().code != Errc::kClosed;
              if (again) return self->try_copy(read);
              Done<Payload> done = std::move(read->done);
              done(std::move(got));
            });
}

void ProxyIo::Impl::read(const File& file, std::uint64_t size, std::uint64_t offset,
                         std::uint32_t count, Done<ReadResult> done) {
  if (offset >= size || count == 0) return done(ReadResult{{}, offset >= size});
  const std::uint64_t length = std::min<std::uint64_t>(count, size - offset);
  if (!file.leads.empty() && file.leads.size() != file.map.copies.front().ds_ids.size()) {
    return done(fail(Errc::kInvalid, "leads that are not of this map"));
  }
  const auto parts = proxy_parts(file.map.striping(), offset, length);
  if (!parts) return done(std::unexpected(parts.error()));
  std::vector<std::vector<std::uint32_t>> ds_ids;
  std::vector<ProxyAdmission::Call> calls;
  for (const layout::Extent& part : *parts) {
    ds_ids.push_back(holders(file, part));
    if (ds_ids.back().empty()) return done(fail(Errc::kBusy, "no copy of a stripe is current"));
    calls.push_back({ds_ids.back().front(), part.length});
  }
  auto place = admission_.admit(std::move(calls));
  if (!place) return done(pass(place));

  // Each part puts its payload in its place; the last to come puts them together.
  const auto pieces = std::make_shared<std::vector<Payload>>(parts->size());
  const bool eof = offset + length == size;
  const auto all = Gather::make(parts->size(),
                                [pieces, eof, self = shared_from_this(), place = std::move(*place),
                                 done = std::move(done)](const Result<>& outcome) mutable {
                                  if (!outcome) return done(std::unexpected(outcome.error()));
                                  ReadResult result;
                                  result.eof = eof;
                                  for (Payload& payload : *pieces) {
                                    for (Payload::Piece& piece : payload.pieces())
                                      result.data.append(std::move(piece));
                                  }
                                  done(std::move(result));
                                });
  for (std::size_t i = 0; i < parts->size(); ++i) {
    auto put = [pieces, i, one = all->one()](Result<Payload> payload) mutable {
      if (!payload) return one(std::unexpected(payload.error()));
      (*pieces)[i] = std::move(*payload);
      one({});
    };
    const auto part = std::make_shared<PartRead>();
    part->claim = own_claim(file);
    part->part = (*parts)[i];
    part->ds_ids = std::move(ds_ids[i]);
    part->done = std::move(put);
    try_copy(part);
  }
}

}  // namespace weft::mds
