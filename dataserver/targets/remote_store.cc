#include "dataserver/targets/remote_store.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>

#include "dataserver/store/disk.h"
#include "rpc/base/assert.h"

namespace weft::ds {

namespace {

constexpr const char* kIdentityFile = "target";
constexpr std::chrono::seconds kLongestKeep{10};

std::string noted_file(const Uuid& store) { return "target-state-" + to_string(store); }

}  // namespace

RemoteStore::RemoteStore(Parts parts)
    : parts_(std::move(parts)),
      bypass_(parts_.bypass, parts_.pool, view_.verifier),
      config_{.address = parts_.address,
              .space = parts_.space,
              .boot = parts_.random.u64(),
              .keys = parts_.keys,
              .options = parts_.options,
              .pool = parts_.pool,
              .random = parts_.random,
              .view = view_,
              .noted =
                  [this] {
                    const MutexLock lock(mutex_);
                    return noted_;
                  },
              .same_store = [this](const TargetStore& told) { return same_store(told); },
              .greeted = [this](TargetLink& link,
                                const TargetStore& told) { note(link, told.instance); },
              .dial_rdma = parts_.dial_rdma,
              .left = [this] { bypass_.retire_all(); }},
      serving_(parts_.replaceable) {}

Result<std::unique_ptr<RemoteStore>> RemoteStore::open(Parts parts) {
  std::unique_ptr<RemoteStore> store(new RemoteStore(std::move(parts)));
  if (auto loaded = store->load_identity(); !loaded) return pass(loaded);
  if (auto loaded = store->load_noted(); !loaded) return pass(loaded);
  for (IoRing* ring : store->parts_.rings) {
    auto link = std::make_shared<TargetLink>(ring->context(), ring->index(), store->config_);
    store->links_.push_back(link);
    ring->post([link] { link->start(); });
  }
  return store;
}

RemoteStore::~RemoteStore() { close(); }

void RemoteStore::close() {
  if (std::exchange(closed_, true)) return;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    IoRing& ring = *parts_.rings[i];
    const auto stop = [link = links_[i]] { link->stop(); };
    if (IoRing::current() == &ring || ring.context().stopped()) {
      stop();
      continue;
    }
    auto stopped = std::make_shared<std::promise<void>>();
    ring.post([stop, stopped] {
      stop();
      stopped->set_value();
    });
    static_cast<void>(stopped->get_future().wait_for(std::chrono::seconds(5)));
  }
}

// --- Which store it is ---------------------------------------------------------------------------

Result<> RemoteStore::load_identity() {
  auto text = read_small_file(parts_.folder, kIdentityFile, 64);
  if (!text) return text.error() == Errc::kNotFound ? Result<>{} : pass(text);
  if (text->size() != 33) return fail(Errc::kCorrupt, "the file 'target' is not ours");
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < 32; ++i) {
    const char c = static_cast<char>((*text)[i]);
    const int value = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (value < 0) return fail(Errc::kCorrupt, "the file 'target' is not ours");
    store_[i / 2] = store_[i / 2] << 4 | static_cast<std::byte>(value);
  }
  return {};
}

Result<> RemoteStore::load_noted() {
  const MutexLock lock(mutex_);
  if (store_ == Uuid{}) return {};
  auto noted = read_state(parts_.folder, noted_file(store_).c_str());
  if (!noted) return pass(noted);
  noted_ = *noted;
  generation_ = noted->generation;
  return {};
}

// Once in the life of a data server or target: this connection waits for the disk, and others that
// ask which store it is wait for this one. Who only looks at it does not.
Result<> RemoteStore::keep(const Uuid& store) {
  keeping_ = true;
  const std::string before = noted_file(store_);
  mutex_.unlock();
  const std::string text = to_string(store) + "\n";
  auto kept = replace_file(parts_.folder, kIdentityFile, std::as_bytes(std::span(text)));
  if (kept) static_cast<void>(remove_file(parts_.folder, before.c_str()));
  mutex_.lock();
  keeping_ = false;
  kept_.notify_all();
  if (!kept) return kept;
  store_ = store;
  noted_ = {};
  return kept;
}

Result<> RemoteStore::await_kept() {
  if (kept_.wait_for(mutex_, kLongestKeep, [this]() WEFT_REQUIRES(mutex_) { return !keeping_; })) {
    return {};
  }
  return fail(Errc::kBusy, "the disk of the data server's own folder does not answer");
}

Result<> RemoteStore::same_store(const TargetStore& told) {
  const Uuid& store = told.store;
  const MutexLock lock(mutex_);
  if (auto known = await_kept(); !known) return known;
  if (store_ == store) {
    offered_ = {};
    return not_rolled_back(told);
  }
  if (parts_.may_be) {
    if (auto may = parts_.may_be(store); !may) return may;
  }
  if (store_ == Uuid{}) return keep(store);
  const std::string what = "the target's store " + to_string(store) + " is not " +
                           to_string(store_) + ", which has the data of this data server";
  if (!parts_.replaceable) return fail(Errc::kStale, what);
  offered_ = {};
  if (told.objects != 0) {
    return fail(Errc::kStale, what + ", and cannot take its place: it has " +
                                  std::to_string(told.objects) + " objects of its own");
  }
  offered_ = store;
  return fail(Errc::kStale, what + ": it is new and empty");
}

// A later state than expected: this process, or one before, was not told that it had been noted. Of
// two that are different and equally old one is of a copy. Less may be expected than when the
// target was asked: it has taken another one's place since, or is taken as it is.
Result<> RemoteStore::not_rolled_back(const TargetStore& told) {
  if (!told.noted) return {};
  const StoreState& expected =
      noted_.generation < told.expected.generation ? noted_ : told.expected;
  generation_ = std::max(generation_, told.noted->generation);
  rolled_back_ = *told.noted != expected && told.noted->generation <= expected.generation;
  if (!rolled_back_) return {};
  old_ = told;
  if (!serving_) return {};
  return fail(Errc::kStale,
              fmt::format("the target's store {} was rolled back, or is an old copy (state {}, {} "
                          "was noted last)",
                          to_string(told.store), told.noted->generation, expected.generation));
}

bool RemoteStore::rolled_back() const {
  const MutexLock lock(mutex_);
  return rolled_back_;
}

bool RemoteStore::refused() const {
  const MutexLock lock(mutex_);
  return rolled_back_ && serving_;
}

void RemoteStore::serve(bool as_it_is) {
  std::uint64_t instance = 0;
  {
    const MutexLock lock(mutex_);
    if (std::exchange(serving_, true) || !rolled_back_ || !as_it_is) return;
    rolled_back_ = false;
    noted_ = *old_.noted;
    instance = old_.instance;
  }
  spdlog::warn("event=target_taken_as_it_is target={}", to_string(parts_.address));
  parts_.rings.front()->post([this, link = links_.front(), instance] { note(*link, instance); });
}

void RemoteStore::note(TargetLink& link, std::uint64_t instance) {
  StoreState next{.boot = parts_.random.u64()};
  Uuid store{};
  {
    const MutexLock lock(mutex_);
    if (rolled_back_ || std::exchange(noted_for_, instance) == instance) return;
    next.generation = ++generation_;
    store = store_;
  }
  link.call({.op = TargetOp::kNote, .offset = next.generation, .size = next.boot}, {},
            [this, store, next](const Result<TargetLink::Answer>& answer) {
              if (auto kept = noted(store, next, answer);
                  !kept && !(kept.error() == Errc::kClosed)) {
                spdlog::warn("event=target_not_noted target={} why=\"{}\"",
                             to_string(parts_.address), kept.error().describe());
              }
            });
}

// The target first, and then the file: what the file has, the target has. This thread waits for the
// disk, once when the target or this process has begun anew.
Result<> RemoteStore::noted(const Uuid& store, const StoreState& state,
                            const Result<TargetLink::Answer>& answer) {
  Result<> kept;
  if (!answer) kept = std::unexpected(answer.error());
  MutexLock lock(mutex_);
  if (kept) kept = await_kept();
  // Another has taken its place, or another connection was faster.
  if (kept && (store != store_ || noted_.generation >= state.generation)) return {};
  if (kept) {
    keeping_ = true;
    lock.unlock();
    kept = write_state(parts_.folder, state, noted_file(store).c_str());
    lock.lock();
    keeping_ = false;
    kept_.notify_all();
  }
  if (kept) noted_ = state;
  if (!kept) noted_for_.reset();  // with the next connection
  return kept;
}

bool RemoteStore::offered() const {
  const MutexLock lock(mutex_);
  return offered_ != Uuid{};
}

Result<> RemoteStore::accept() {
  const MutexLock lock(mutex_);
  if (auto known = await_kept(); !known) return known;
  const Uuid store = std::exchange(offered_, Uuid{});
  if (store == Uuid{}) return fail(Errc::kNotFound, "no store to take its place");
  return keep(store);
}

Uuid RemoteStore::identity() const {
  const MutexLock lock(mutex_);
  return store_;
}

// --- Operations ----------------------------------------------------------------------------------

TargetLink& RemoteStore::link() const {
  const IoRing* ring = IoRing::current();
  WEFT_ASSERT(ring != nullptr && ring->index() < links_.size());
  return *links_[ring->index()];
}

template <class T, class Fill>
void RemoteStore::call(TargetRequest request, std::vector<Buffer> data, Done<T> done, Fill fill,
                       PoolShare share) {
  link().call(
      request, std::move(data),
      [done = std::move(done), fill](Result<TargetLink::Answer> answer) mutable {
        if (!answer) return done(pass(answer));
        if constexpr (std::is_void_v<T>) {
          static_cast<void>(fill);
          done(Result<>{});
        } else {
          done(fill(*answer));
        }
      },
      share);
}

void RemoteStore::read(StoreRead what, Done<ReadResult> done) {
  const layout::ObjectId object = what.object;
  done = into_room(std::move(what.room), std::move(done));
  TargetRequest request{.op = TargetOp::kRead,
                        .object = object,
                        .offset = what.offset,
                        .size = std::min<std::uint64_t>(what.count, kMaxTargetIo),
                        .uncached = what.uncached};
  if (!what.uncached) {
    auto at_hand =
        bypass_.read(object, what.offset, static_cast<std::uint32_t>(request.size), what.to_memory);
    if (at_hand.result) {
      view_.past_bytes.fetch_add(at_hand.result->payload.size(), std::memory_order_relaxed);
      return done(std::move(*at_hand.result));
    }
    request.descriptor = at_hand.welcome;
  }
  call<ReadResult>(
      std::move(request), {}, std::move(done),
      [this, object](TargetLink::Answer& answer) {
        ReadResult result;
        keep(object, answer, false);
        result.object_end = answer.response.object_end;
        if (!answer.data.empty()) result.payload.append(std::move(answer.data));
        return result;
      },
      what.share);
}

void RemoteStore::keep(const layout::ObjectId& object, TargetLink::Answer& answer, bool writable) {
  if (!answer.descriptor) return;
  const auto in_the_way =
      bypass_.add(object, std::move(answer.descriptor), writable, answer.response.verifier);
  // Its error, if there is one, shows in the verifier.
  if (in_the_way) commit(*in_the_way, [](const Result<WriteVerifier>&) {});
}

// A call that failed may be carried out yet, and one over a connection that has ended will be over
// the next: neither may come after what was written past the target since.
Bypass::AtHand<Result<WriteResult>> RemoteStore::write_past(StoreWrite& what) {
  if (parts_.bypass == 0) return {};
  if (!link().ready() || !settled()) return {.result = {}, .welcome = true};
  auto at_hand = what.piped.empty() ? bypass_.write(what.object, what.offset, what.data)
                                    : bypass_.write(what.object, what.offset, what.piped);
  if (at_hand.result && *at_hand.result) {
    view_.past_written.fetch_add((*at_hand.result)->bytes, std::memory_order_relaxed);
  }
  return at_hand;
}

void RemoteStore::write(StoreWrite what, Done<WriteResult> done) {
  auto past = write_past(what);
  if (!past.result) return write_through(std::move(what), past.welcome, std::move(done));
  if (!*past.result || what.wanted == Stability::kUnstable) return done(std::move(*past.result));
  commit_past(std::move(what), **past.result, std::move(done));
}

void RemoteStore::commit_past(StoreWrite what, const WriteResult& written, Done<WriteResult> done) {
  const layout::ObjectId object = what.object;
  what.piped = {};
  commit(object, [this, what = std::move(what), written,
                  done = std::move(done)](Result<WriteVerifier> verifier) mutable {
    if (!verifier) return done(pass(verifier));
    WriteResult stable = written;
    stable.stability = what.wanted;
    if (*verifier == written.verifier) return done(stable);
    // The target may have lost it. What came in a pipe only the client has.
    if (!what.data.empty()) return write_through(std::move(what), false, std::move(done));
    done(fail(Errc::kBusy, "the target may have lost what was written past it"));
  });
}

void RemoteStore::write_through(StoreWrite what, bool descriptor, Done<WriteResult> done) {
  const std::uint64_t size = what.size();
  if (size > kMaxTargetIo) return done(fail(Errc::kTooLarge, "a write of too many bytes"));
  if (auto moved = what.to_memory(); !moved) return done(pass(moved));
  call<WriteResult>(
      {.op = TargetOp::kWrite,
       .object = what.object,
       .offset = what.offset,
       .size = size,
       .stability = what.wanted,
       .descriptor = descriptor},
      std::move(what.data), std::move(done),
      [this, object = what.object, wanted = what.wanted, size](TargetLink::Answer& answer) {
        keep(object, answer, true);
        return WriteResult{.bytes = size,
                           .stability = wanted,
                           .verifier = answer.response.verifier,
                           .object_end = answer.response.object_end};
      });
}

void RemoteStore::commit(const layout::ObjectId& object, Done<WriteVerifier> done) {
  call<WriteVerifier>(
      {.op = TargetOp::kCommit, .object = object}, {}, std::move(done),
      [this, object, written = bypass_.written(object)](TargetLink::Answer& answer) {
        bypass_.committed(object, written);
        return answer.response.verifier;
      });
}

void RemoteStore::truncate(const layout::ObjectId& object, std::uint64_t size,
                           Done<ObjectStat> done) {
  call<ObjectStat>({.op = TargetOp::kTruncate, .object = object, .offset = size}, {},
                   std::move(done),
                   [](TargetLink::Answer& answer) { return answer.response.stat; });
}

void RemoteStore::remove(const layout::ObjectId& object, Done<void> done) {
  // A file lives on while it is open. Afterwards too: one may have come meanwhile.
  bypass_.drop(object);
  call<void>(
      {.op = TargetOp::kRemove, .object = object}, {},
      [this, object, done = std::move(done)](Result<> removed) mutable {
        bypass_.drop(object);
        done(std::move(removed));
      },
      nullptr);
}

void RemoteStore::stat(const layout::ObjectId& object, Done<ObjectStat> done) {
  call<ObjectStat>({.op = TargetOp::kStat, .object = object}, {}, std::move(done),
                   [](TargetLink::Answer& answer) { return answer.response.stat; });
}

// What was written past the target is in the page cache of its file, and so in its answer.
void RemoteStore::next_data(const layout::ObjectId& object, std::uint64_t offset,
                            Done<DataRun> done) {
  call<DataRun>({.op = TargetOp::kNextData, .object = object, .offset = offset}, {},
                std::move(done), [offset](TargetLink::Answer& answer) -> Result<DataRun> {
                  const DataRun& run = answer.response.run;
                  // Who asks again and again comes to an end.
                  if (run.begin < offset) {
                    return fail(Errc::kProtocol, "a target's data before where it was asked for");
                  }
                  return run;
                });
}

void RemoteStore::allocate(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                           Done<void> done) {
  call<void>({.op = TargetOp::kAllocate, .object = object, .offset = offset, .size = size}, {},
             std::move(done), nullptr);
}

void RemoteStore::punch(const layout::ObjectId& object, std::uint64_t offset, std::uint64_t size,
                        Done<void> done) {
  call<void>({.op = TargetOp::kPunch, .object = object, .offset = offset, .size = size}, {},
             std::move(done), nullptr);
}

void RemoteStore::list(ListPlace from, std::uint32_t max, Done<ObjectList> done) {
  const std::uint32_t wanted = std::clamp<std::uint32_t>(max, 1, kMaxTargetList);
  call<ObjectList>(
      {.op = TargetOp::kList, .object = from.after, .offset = from.folder, .size = wanted}, {},
      std::move(done), [from](TargetLink::Answer& answer) -> Result<ObjectList> {
        ObjectList& list = answer.response.list;
        // Who asks again and again comes to an end.
        if (list.more && list.next <= from) {
          return fail(Errc::kProtocol, "a target's listing that goes nowhere");
        }
        return std::move(list);
      });
}

Result<StoreStat> RemoteStore::usage() const {
  const StoreStat usage{.capacity_bytes = view_.capacity_bytes.load(),
                        .free_bytes = view_.free_bytes.load(),
                        .objects = view_.objects.load()};
  const std::string target = "its target " + to_string(parts_.address);
  if (view_.connected.load() == 0) return fail(Errc::kUnreachable, target + " does not answer");
  if (view_.store_fails.load()) return fail(Errc::kIo, "the disk of " + target + " fails");
  if (usage.capacity_bytes == 0) return fail(Errc::kUnreachable, target + " has not answered yet");
  return usage;
}

Result<std::vector<std::uint64_t>> RemoteStore::keys() const {
  if (view_.connected.load() == 0) return fail(Errc::kUnreachable, "it is not connected");
  if (view_.version.load() < kTargetVersionWithKeys) {
    return fail(Errc::kNotSupported, "it is of a version that does not tell; its log does");
  }
  auto keys = view_.keys();
  if (keys.empty()) return fail(Errc::kUnreachable, "it has not said yet");
  return keys;
}

Result<rpc::control::About> RemoteStore::about() const {
  if (view_.connected.load() == 0) return fail(Errc::kUnreachable, "it is not connected");
  if (view_.version.load() < kTargetVersionWithAbout) {
    return fail(Errc::kNotSupported, "it is of a version that does not tell");
  }
  auto about = view_.about();
  if (about.version.empty()) return fail(Errc::kUnreachable, "it has not said yet");
  return about;
}

}  // namespace weft::ds
