#include "tools/load/names.h"

#include <boost/asio/post.hpp>

namespace weft::load {

namespace nfs4 = rpc::nfs4;
using nfs4::Op;

namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr auto kCallDeadline = std::chrono::seconds(30);
constexpr std::uint32_t kListBytes = 64 << 10;
// So often each directory is read in a phase, since that takes a moment only.
constexpr std::uint64_t kListings = 20;

// What a Linux client asks of the entries that it lists, as far as we can decode it.
const nfs4::AttrMask kAttributes = {
    nfs4::Attr::kType,       nfs4::Attr::kChange,    nfs4::Attr::kSize,      nfs4::Attr::kFsid,
    nfs4::Attr::kFileid,     nfs4::Attr::kMode,      nfs4::Attr::kNumLinks,  nfs4::Attr::kOwner,
    nfs4::Attr::kOwnerGroup, nfs4::Attr::kSpaceUsed, nfs4::Attr::kTimeModify};

}  // namespace

// So many operations, a number of them outstanding, until all are done or the time is up.
class Names::Burst : public std::enable_shared_from_this<Burst> {
 public:
  Burst(std::uint64_t count, One one, std::optional<std::chrono::milliseconds> duration)
      : count_(count), one_(std::move(one)), duration_(duration) {}

  std::future<Result<Outcome>> start(Engine& engine, unsigned depth) {
    auto future = finished_.get_future();
    boost::asio::post(engine.context(), [self = shared_from_this(), depth] {
      self->started_ = SteadyClock::now();
      for (unsigned i = 0; i < depth; ++i) self->next();
    });
    return future;
  }

 private:
  void next() {
    const bool late = duration_ && SteadyClock::now() - started_ >= *duration_;
    if (failed_ || late || begun_ == count_) {
      if (outstanding_ == 0) finish();
      return;
    }
    ++outstanding_;
    one_(begun_++, [self = shared_from_this(), began = SteadyClock::now()](
                       Result<std::uint64_t> done) { self->done(began, std::move(done)); });
  }

  void done(SteadyClock::time_point began, Result<std::uint64_t> done) {
    --outstanding_;
    if (done) {
      outcome_.operations += *done;
      outcome_.latency.add(
          static_cast<std::uint64_t>(std::chrono::nanoseconds(SteadyClock::now() - began).count()));
    } else if (!failed_) {
      failed_ = std::move(done.error());
    }
    next();
  }

  void finish() {
    if (std::exchange(over_, true)) return;
    if (failed_) return finished_.set_value(std::unexpected(*failed_));
    outcome_.seconds = std::chrono::duration<double>(SteadyClock::now() - started_).count();
    finished_.set_value(outcome_);
  }

  const std::uint64_t count_;
  const One one_;
  const std::optional<std::chrono::milliseconds> duration_;
  SteadyClock::time_point started_;
  std::uint64_t begun_ = 0;
  unsigned outstanding_ = 0;
  bool over_ = false;
  Outcome outcome_;
  std::optional<Error> failed_;
  std::promise<Result<Outcome>> finished_;
};

Names::Names(Engine& engine, Mount& mount, NamesWork work)
    : engine_(engine), mount_(mount), work_(std::move(work)) {
  if (work_.directories == 0) directories_.push_back(mount_.root());
}

Result<Outcome> Names::burst(std::uint64_t count, One one, bool timed) {
  const auto limit = timed ? work_.duration : std::nullopt;
  return std::make_shared<Burst>(count, std::move(one), limit)->start(engine_, work_.depth).get();
}

std::string Names::name(std::string_view kind, std::uint64_t index) const {
  return work_.prefix + std::string(kind) + std::to_string(index);
}

void Names::call(std::vector<nfs4::OpArgs> ops, bool changes, Done done, Then then) {
  mount_.metadata_server().call(
      std::move(ops), {.deadline = kCallDeadline, .cache_this = changes, .idempotent = !changes},
      [done = std::move(done),
       then = std::move(then)](Result<nfs4::CompoundResult> result) mutable {
        if (!result) return done(pass(result));
        if (auto ok = check(*result); !ok) return done(pass(ok));
        then(*result, std::move(done));
      });
}

Result<> Names::begin() {
  directories_.reserve(work_.directories);
  for (unsigned i = 0; i < work_.directories; ++i) {
    const auto ops = [&] {
      nfs4::CreateArgs args;
      args.name = name("d", i);
      args.attributes.mode = 0755;
      auto made = work_.there > 0
                      ? nfs4::OpArgs{Op::OP_LOOKUP, nfs4::LookupArgs{std::move(args.name)}}
                      : nfs4::OpArgs{Op::OP_CREATE, std::move(args)};
      return compound(nfs4::OpArgs{Op::OP_PUTFH, nfs4::PutFhArgs{mount_.root()}}, std::move(made),
                      nfs4::OpArgs{Op::OP_GETFH, nfs4::None{}});
    };
    auto made = Engine::call(mount_.metadata_server(), ops, /*cache_this=*/true);
    if (!made) return pass(made);
    auto* handle = made->get<nfs4::GetFhOk>(2);
    if (handle == nullptr) return fail(Errc::kProtocol, "a directory without a file handle");
    directories_.push_back(handle->handle);
  }
  return {};
}

std::uint64_t Names::pick(std::uint64_t number) const {
  if (work_.there == 0) return number;
  if (work_.picked > 0) number %= work_.picked;
  std::uint64_t mixed = (number + 1 + work_.seed * work_.files) * 0x9E3779B97F4A7C15U;
  mixed = (mixed ^ mixed >> 32) * 0xD6E8FEB86659FD93U;
  return (mixed ^ mixed >> 32) % work_.there;
}

Result<> Names::end(std::uint64_t files) {
  if (work_.there > 0) return {};
  const auto file = [this](std::uint64_t i, Done done) {
    remove(directory(i), name("f", i), std::move(done));
  };
  if (auto gone = burst(files, file, false); !gone) return pass(gone);
  const auto directory = [this](std::uint64_t i, Done done) {
    remove(mount_.root(), name("d", i), std::move(done));
  };
  if (auto gone = burst(work_.directories, directory, false); !gone) return pass(gone);
  return {};
}

Result<Outcome> Names::run(std::string_view phase) {
  if (phase == "mkdir") {
    auto made = burst(work_.files, [this](std::uint64_t i, Done done) {
      make_directory(directory(i), name("m", i), std::move(done));
    });
    if (!made) return made;
    const auto directory_gone = [this](std::uint64_t i, Done done) {
      remove(directory(i), name("m", i), std::move(done));
    };
    if (auto gone = burst(made->operations, directory_gone, false); !gone) return gone;
    return made;
  }
  if (phase == "readdir") {
    return burst(kListings * directories_.size(), [this](std::uint64_t i, Done done) {
      list(i, {.dir_count = kListBytes, .max_count = kListBytes, .mask = kAttributes}, 0,
           std::move(done));
    });
  }
  return burst(work_.files, [this, phase](std::uint64_t i, Done done) {
    if (phase == "create") return create(i, 0, std::move(done));
    if (phase == "files") return create(i, work_.bytes, std::move(done));
    if (phase == "open") return open(pick(i), std::move(done));
    if (phase == "stat") return stat(pick(i), std::move(done));
    if (phase == "rename") return rename(i, std::move(done));
    remove(directory(i), name("r", i), std::move(done));  // "unlink", after "rename"
  });
}

void Names::make_directory(const nfs4::FileHandle& in, std::string name, Done done) {
  nfs4::CreateArgs args;
  args.name = std::move(name);
  args.attributes.mode = 0755;
  call(compound(nfs4::OpArgs{Op::OP_PUTFH, nfs4::PutFhArgs{in}},
                nfs4::OpArgs{Op::OP_CREATE, std::move(args)},
                nfs4::OpArgs{Op::OP_GETFH, nfs4::None{}}),
       true, std::move(done), [](nfs4::CompoundResult&, Done done) { done(1); });
}

void Names::create(std::uint64_t index, std::uint32_t bytes, Done done) {
  nfs4::OpenCreate how;
  how.mode = nfs4::CreateMode::GUARDED4;
  how.attributes.mode = 0644;
  open_with(index, std::move(how), bytes, std::move(done));
}

void Names::open(std::uint64_t index, Done done) {
  open_with(index, std::nullopt, 0, std::move(done));
}

void Names::open_with(std::uint64_t index, std::optional<nfs4::OpenCreate> how, std::uint32_t bytes,
                      Done done) {
  nfs4::OpenArgs args;
  args.share_access = nfs4::OPEN4_SHARE_ACCESS_BOTH | nfs4::OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
  args.name = name("f", index);
  args.owner = open_owner();
  args.create = std::move(how);
  call(compound(nfs4::OpArgs{Op::OP_PUTFH, nfs4::PutFhArgs{directory(index)}},
                nfs4::OpArgs{Op::OP_OPEN, std::move(args)},
                nfs4::OpArgs{Op::OP_GETFH, nfs4::None{}}),
       true, std::move(done), [this, bytes](nfs4::CompoundResult& result, Done done) {
         auto* opened = result.get<nfs4::OpenOk>(1);
         auto* handle = result.get<nfs4::GetFhOk>(2);
         if (opened == nullptr || handle == nullptr) {
           return done(fail(Errc::kProtocol, "OPEN: an answer is missing"));
         }
         const Open file{handle->handle, opened->stateid};
         if (bytes > 0) return write(file, bytes, std::move(done));
         close(file, std::move(done));
       });
}

void Names::write(const Open& file, std::uint32_t bytes, Done done) {
  auto data = engine_.pool().allocate(bytes);
  if (!data) return done(pass(data));
  std::ranges::fill(data->span(), std::byte{0x5a});
  nfs4::WriteArgs args;
  args.stateid = file.stateid;
  args.stable = nfs4::StableHow::FILE_SYNC4;
  args.data.push_back(std::move(*data));
  call(compound(nfs4::OpArgs{Op::OP_PUTFH, nfs4::PutFhArgs{file.handle}},
                nfs4::OpArgs{Op::OP_WRITE, std::move(args)}),
       true, std::move(done), [this, file, bytes](nfs4::CompoundResult& result, Done done) {
         auto* written = result.get<nfs4::WriteOk>(1);
         if (written == nullptr || written->count != bytes ||
             written->committed != nfs4::StableHow::FILE_SYNC4) {
           return done(fail(Errc::kProtocol, "WRITE: not all of it is stable"));
         }
         close(file, std::move(done));
       });
}

void Names::close(const Open& file, Done done) {
  call(compound(nfs4::OpArgs{Op::OP_PUTFH, nfs4::PutFhArgs{file.handle}},
                nfs4::OpArgs{Op::OP_CLOSE, nfs4::CloseArgs{0, file.stateid}}),
       true, std::move(done), [](nfs4::CompoundResult&, Done done) { done(1); });
}

void Names::stat(std::uint64_t index, Done done) {
  call(compound(nfs4::OpArgs{Op::OP_PUTFH, nfs4::PutFhArgs{directory(index)}},
                nfs4::OpArgs{Op::OP_LOOKUP, nfs4::LookupArgs{name("f", index)}},
                nfs4::OpArgs{Op::OP_GETFH, nfs4::None{}},
                nfs4::OpArgs{Op::OP_GETATTR, nfs4::GetAttrArgs{kAttributes}}),
       false, std::move(done), [](nfs4::CompoundResult&, Done done) { done(1); });
}

// From the cookie that `from` has, the rest of it.
void Names::list(std::uint64_t index, const nfs4::ReadDirArgs& from, std::uint64_t seen,
                 Done done) {
  call(compound(nfs4::OpArgs{Op::OP_PUTFH, nfs4::PutFhArgs{directory(index)}},
                nfs4::OpArgs{Op::OP_READDIR, from}),
       false, std::move(done), [this, index, from, seen](nfs4::CompoundResult& result, Done done) {
         auto* page = result.get<nfs4::ReadDirOk>(1);
         if (page == nullptr || (page->entries.empty() && !page->eof)) {
           return done(fail(Errc::kProtocol, "READDIR: nothing, and not the end"));
         }
         const std::uint64_t all = seen + page->entries.size();
         if (page->eof) return done(all);
         nfs4::ReadDirArgs rest = from;
         rest.cookie = page->entries.back().cookie;
         rest.verifier = page->verifier;
         list(index, rest, all, std::move(done));
       });
}

void Names::rename(std::uint64_t index, Done done) {
  call(compound(nfs4::OpArgs{Op::OP_PUTFH, nfs4::PutFhArgs{directory(index)}},
                nfs4::OpArgs{Op::OP_SAVEFH, nfs4::None{}},
                nfs4::OpArgs{Op::OP_RENAME, nfs4::RenameArgs{name("f", index), name("r", index)}}),
       true, std::move(done), [](nfs4::CompoundResult&, Done done) { done(1); });
}

void Names::remove(const nfs4::FileHandle& from, std::string name, Done done) {
  call(compound(nfs4::OpArgs{Op::OP_PUTFH, nfs4::PutFhArgs{from}},
                nfs4::OpArgs{Op::OP_REMOVE, nfs4::RemoveArgs{std::move(name)}}),
       true, std::move(done), [](nfs4::CompoundResult&, Done done) { done(1); });
}

}  // namespace weft::load
