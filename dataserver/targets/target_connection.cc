#include "dataserver/targets/target_connection.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "dataserver/sums/summed_store.h"
#include "rpc/base/assert.h"

namespace weft::ds {

void TargetServer::Connection::start() {
  shared_->parts.random.fill(nonce_);
  rpc::Message message;
  encode(message.bytes(),
         TargetChallenge{
             .nonce = nonce_, .machine = shared_->parts.machine, .socket = shared_->parts.socket});
  channel_->send(std::move(message));
}

void TargetServer::Connection::on_closed(const Error& why) {
  spdlog::debug("event=data_server_gone peer={} why=\"{}\"", channel_->peer(), why.describe());
  closed_ = true;
  check_quiet();
}

void TargetServer::Connection::retire(std::move_only_function<void()> gone) {
  channel_->post([self = shared_from_this(), gone = std::move(gone)]() mutable {
    self->gone_.push_back(std::move(gone));
    self->channel_->close({Errc::kClosed, "replaced, or shutting down"});
    self->check_quiet();
  });
}

// Once the channel is closed, nothing begins any more. What was written past the target is of its
// data server until it is synced: whoever is greeted next has the verifier that tells of it.
void TargetServer::Connection::check_quiet() {
  if (!closed_ || running_ > 0) return;
  if (std::exchange(writes_past_, false)) {
    ++running_;
    return files_->writer_left([self = shared_from_this()](const Result<>& /*the verifier tells*/) {
      --self->running_;
      self->check_quiet();
    });
  }
  shared_->remove(this);
  for (auto& gone : std::exchange(gone_, {})) gone();
}

void TargetServer::Connection::refuse(Error why) {
  shared_->refused.fetch_add(1);
  shared_->refused_log.warn("event=data_server_refused peer={} why=\"{}\"", channel_->peer(),
                            why.describe());
  channel_->close(std::move(why));
}

// --- What comes ----------------------------------------------------------------------------------

void TargetServer::Connection::on_record(rpc::ReceivedRecord record) {
  auto arrival = unpack(std::move(record));
  if (!arrival) return refuse(std::move(arrival.error()));
  const bool is_hello = arrival->request.op == TargetOp::kHello;
  if (is_hello != (store_ == nullptr) || (is_hello && std::exchange(greeted_, true))) {
    return refuse({Errc::kProtocol, "a request out of turn"});
  }
  ++running_;
  shared_->running.fetch_add(1, std::memory_order_relaxed);
  if (is_hello) return hello(arrival->request.hello, arrival->request.tag);
  if (running_ >= shared_->parts.max_running && !std::exchange(paused_, true)) channel_->pause();
  // Of a list it is only a place.
  if (checked_ && arrival->request.op != TargetOp::kList &&
      !SummedStore::may_have(arrival->request.object)) {
    return finish_with(arrival->request,
                       {Errc::kInvalid,
                        "the target has store.checksums, which is not for members "
                        "of parity groups: they have checksums of their own"});
  }
  dispatch(std::move(*arrival));
}

Result<TargetServer::Connection::Arrival> TargetServer::Connection::unpack(
    rpc::ReceivedRecord record) {
  std::size_t apart = 0;
  for (const Buffer& part : record.apart.lent) apart += part.size();
  PipedBytes& piped = record.apart.piped;
  auto decoded = decode_request(record.bytes.span(), piped.size() + xdr::padded(apart));
  if (!decoded) return pass(decoded);
  Arrival arrival{
      .request = decoded->message, .data = std::move(record.loans), .piped = std::move(piped)};
  const TargetRequest& request = arrival.request;
  if (apart != 0 && apart != request.size) {
    return fail(Errc::kProtocol, "more or less data than a request says");
  }
  std::uint64_t lent_bytes = 0;
  for (const Buffer& loan : arrival.data) lent_bytes += loan.size();
  const bool room = request.op == TargetOp::kRead;
  const bool fits =
      room ? arrival.data.size() == 1 && lent_bytes >= request.size : lent_bytes == request.size;
  if (request.lent != !arrival.data.empty() || (request.lent && !fits)) {
    return fail(Errc::kProtocol, "a request that does not lend what it says");
  }
  if (apart != 0) {
    arrival.data = std::move(record.apart.lent);
  } else if (decoded->bulk != 0 && arrival.piped.empty()) {
    auto data = record.bytes.share(decoded->bulk, static_cast<std::size_t>(request.size));
    if (!data) return fail(Errc::kProtocol, "less data than a request says");
    arrival.data.push_back(std::move(*data));
  }
  return arrival;
}

// --- Getting to know each other ------------------------------------------------------------------

void TargetServer::Connection::hello(const TargetHello& hello, std::uint64_t offered) {
  const auto& keys = shared_->parts.keys->now().cluster;
  const auto key = std::ranges::find_if(keys, [&](const auto& one) {
    return same_proof(hello.proof, hello_proof(target_key(one), nonce_, hello));
  });
  const bool known = key != keys.end();
  if (!known || !channel_->promote(Standing::kServer)) {
    refuse(known ? Error{Errc::kBusy, "too many connections"}
                 : Error{Errc::kAuth, "a data server without the cluster's key"});
    --running_;
    shared_->running.fetch_sub(1);
    return;
  }
  const auto version = choose_version(offered);
  if (!version) {
    shared_->refused.fetch_add(1);
    shared_->refused_log.warn("event=data_server_refused peer={} why=\"{}\"", channel_->peer(),
                              version.error().describe());
    return finish_with({.op = TargetOp::kHello}, version.error());
  }
  version_ = *version;
  tells_version_ = offered != 0;
  shared_->retire_others(shared_from_this(), hello, *key, [self = shared_from_this(), hello, key] {
    self->channel_->post([self, hello, key] {
      self->shared_->parts.spaces.find(hello.space, [self, hello, key](Result<OpenSpace> space) {
        self->found_space(hello, *key, std::move(space));
      });
    });
  });
}

void TargetServer::Connection::found_space(const TargetHello& hello,
                                           const rpc::peer::ClusterKey& key,
                                           Result<OpenSpace> space) {
  // Who changed the keys since has looked for those who are known, and this one was not yet.
  if (!shared_->parts.keys->accepts(key)) {
    return finish_with({.op = TargetOp::kHello}, Error{Errc::kAuth, "a key that is not used"});
  }
  TargetResponse response{.op = TargetOp::kHello, .tag = tells_version_ ? version_ : 0};
  if (!space) {
    shared_->refused_log.warn("event=space_failed space={} error=\"{}\"", to_string(hello.space),
                              space.error().describe());
    return finish_with({.op = TargetOp::kHello}, std::move(space.error()));
  }
  space_ = hello.space;
  store_ = space->store;
  files_ = space->files;
  checked_ = space->checked;
  response.store = space->uuid;
  // One whose disk fails is not taken for empty, nor one whose objects are not all counted yet.
  const auto usage = store_->usage();
  response.objects = usage ? std::max<std::uint64_t>(usage->objects, usage->counted ? 0 : 1) : 1;
  response.instance = shared_->instance;
  response.noted = space->noted;
  response.proof = welcome_proof(target_key(key), nonce_, hello, response.store);
  spdlog::info("event=data_server peer={} space={} link={} version={}", channel_->peer(),
               to_string(hello.space), hello.link, version_);
  finish(std::move(response));
}

// --- Requests ------------------------------------------------------------------------------------

void TargetServer::Connection::finish(TargetResponse response, Payload bulk) {
  if (store_ != nullptr && response.verifier == 0) response.verifier = store_->verifier();
  rpc::Message message;
  encode(message.bytes(), response);
  if (response.good && response.op == TargetOp::kRead && !response.lent) {
    const std::size_t size = bulk.size();
    begin_bulk(message.bytes(), size);
    message.splice(std::move(bulk));
    end_bulk(message.bytes(), size);
  }
  if (!closed_) channel_->send(std::move(message));
  --running_;
  shared_->running.fetch_sub(1, std::memory_order_relaxed);
  if (paused_ && running_ <= shared_->parts.max_running / 2) {
    paused_ = false;
    channel_->resume();
  }
  check_quiet();
}

void TargetServer::Connection::finish_with(const TargetRequest& request, Error why) {
  if (!(why == Errc::kNotFound)) shared_->errors.fetch_add(1, std::memory_order_relaxed);
  TargetResponse response{.op = request.op, .tag = request.tag, .error = why.code};
  response.text = std::move(why.text);
  response.good = false;
  finish(std::move(response));
}

// A completion that answers `request`: fill(response, value) puts the value in.
template <class T, class Fill>
auto TargetServer::Connection::answer(const TargetRequest& request, Fill fill) {
  return [self = shared_from_this(), request, fill](Result<T> result) {
    if (!result) return self->finish_with(request, std::move(result.error()));
    TargetResponse response{.op = request.op, .tag = request.tag};
    if constexpr (std::is_void_v<T>) {
      fill(response);
    } else {
      fill(response, *result);
    }
    self->finish(std::move(response));
  };
}

void TargetServer::Connection::dispatch(Arrival arrival) {
  const TargetRequest& request = arrival.request;
  const auto nothing = [](TargetResponse&) {};
  const auto found = [](TargetResponse& response, const ObjectStat& stat) { response.stat = stat; };
  switch (request.op) {
    case TargetOp::kRead: return read(std::move(arrival));
    case TargetOp::kWrite: return write(std::move(arrival));
    case TargetOp::kCommit: return commit(request);
    case TargetOp::kTruncate:
      return store_->truncate(request.object, request.offset, answer<ObjectStat>(request, found));
    case TargetOp::kRemove: return store_->remove(request.object, answer<void>(request, nothing));
    case TargetOp::kStat: return store_->stat(request.object, answer<ObjectStat>(request, found));
    case TargetOp::kAllocate:
      return store_->allocate(request.object, request.offset, request.size,
                              answer<void>(request, nothing));
    case TargetOp::kPunch:
      return store_->punch(request.object, request.offset, request.size,
                           answer<void>(request, nothing));
    case TargetOp::kUsage: {
      auto usage = store_->usage();
      if (!usage) return finish_with(request, std::move(usage.error()));
      return finish({.op = request.op, .tag = request.tag, .usage = *usage});
    }
    case TargetOp::kList:
      return store_->list(
          {.folder = static_cast<std::uint32_t>(request.offset), .after = request.object},
          static_cast<std::uint32_t>(request.size),
          answer<ObjectList>(request, [](TargetResponse& response, ObjectList& list) {
            response.list = std::move(list);
          }));
    case TargetOp::kNextData:
      return store_->next_data(
          request.object, request.offset,
          answer<DataRun>(
              request, [](TargetResponse& response, const DataRun& run) { response.run = run; }));
    case TargetOp::kKeys:
      return finish(
          {.op = request.op, .tag = request.tag, .keys = shared_->parts.keys->now().fingerprints});
    case TargetOp::kAbout:
      return finish({.op = request.op, .tag = request.tag, .about = shared_->parts.about()});
    case TargetOp::kNote:
      return shared_->parts.spaces.note(space_, {request.offset, request.size},
                                        answer<void>(request, nothing));
    case TargetOp::kHello: break;  // never comes here
  }
}

void TargetServer::Connection::took(TargetTimed op, TimePoint begun) {
  shared_->times[static_cast<std::size_t>(op)].add(now() - begun);
}

void TargetServer::Connection::commit(const TargetRequest& request) {
  shared_->commits.fetch_add(1, std::memory_order_relaxed);
  auto done = answer<WriteVerifier>(request, [](TargetResponse& response, WriteVerifier verifier) {
    response.verifier = verifier;
  });
  store_->commit(request.object, [self = shared_from_this(), begun = now(),
                                  done = std::move(done)](Result<WriteVerifier> result) {
    self->took(TargetTimed::kCommit, begun);
    done(std::move(result));
  });
}

void TargetServer::Connection::write(Arrival arrival) {
  const TargetRequest request = arrival.request;
  shared_->writes.fetch_add(1, std::memory_order_relaxed);
  auto written = [self = shared_from_this(), request, begun = now()](Result<WriteResult> result) {
    self->took(TargetTimed::kWrite, begun);
    if (!result) return self->finish_with(request, std::move(result.error()));
    self->shared_->write_bytes.fetch_add(request.size, std::memory_order_relaxed);
    if (request.lent) self->shared_->lent_bytes.fetch_add(request.size, std::memory_order_relaxed);
    self->finish({.op = request.op,
                  .tag = request.tag,
                  .verifier = result->verifier,
                  .object_end = result->object_end,
                  .descriptor = self->hand_descriptor(request)});
  };
  store_->write({.object = request.object,
                 .offset = request.offset,
                 .data = std::move(arrival.data),
                 .piped = std::move(arrival.piped),
                 .wanted = request.stability},
                std::move(written));
}

void TargetServer::Connection::read(Arrival arrival) {
  const TargetRequest request = arrival.request;
  shared_->reads.fetch_add(1, std::memory_order_relaxed);
  StoreRead what{.object = request.object,
                 .offset = request.offset,
                 .count = static_cast<std::uint32_t>(request.size),
                 .uncached = request.uncached,
                 .to_memory = channel_->by_rdma()};
  if (request.lent) what.room = std::move(arrival.data.front());
  const std::byte* room = what.room.data();
  auto done = [self = shared_from_this(), request, room, begun = now()](Result<ReadResult> result) {
    self->took(TargetTimed::kRead, begun);
    self->read_done(request, room, std::move(result));
  };
  store_->read(std::move(what), std::move(done));
}

void TargetServer::Connection::read_done(const TargetRequest& request, const std::byte* room,
                                         Result<ReadResult> result) {
  if (!result) return finish_with(request, std::move(result.error()));
  Payload& payload = result->payload;
  const std::size_t size = payload.size();
  TargetResponse response{.op = request.op,
                          .tag = request.tag,
                          .object_end = result->object_end,
                          .size = size,
                          .lent = request.lent};
  shared_->read_bytes.fetch_add(size, std::memory_order_relaxed);
  if (!request.lent) return finish(std::move(response), std::move(payload));
  shared_->lent_bytes.fetch_add(size, std::memory_order_relaxed);
  if (size > 0) {
    const auto* piece = std::get_if<Buffer>(&payload.pieces().front());
    WEFT_ASSERT(piece != nullptr);  // StoreRead::room
    response.at = static_cast<std::uint64_t>(piece->data() - room);
  }
  payload = {};  // given back with the response
  response.descriptor = hand_descriptor(request);
  finish(std::move(response));
}

bool TargetServer::Connection::hand_descriptor(const TargetRequest& request) {
  if (!request.descriptor || files_ == nullptr || closed_) return false;
  const bool writes = request.op == TargetOp::kWrite;
  const auto opened = writes ? files_->writer(request.object) : files_->reader(request.object);
  if (!opened || !channel_->hand_over(opened->get())) return false;
  writes_past_ = writes_past_ || writes;
  (writes ? shared_->writers : shared_->readers).fetch_add(1, std::memory_order_relaxed);
  return true;
}

}  // namespace weft::ds
