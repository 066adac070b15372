#include "tools/load/creates.h"

#include <boost/asio/post.hpp>

namespace weft::load {

namespace nfs4 = rpc::nfs4;
using nfs4::Op;

namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr auto kCallDeadline = std::chrono::seconds(30);

class Creator : public std::enable_shared_from_this<Creator> {
 public:
  Creator(Mount& mount, std::string prefix, std::chrono::milliseconds duration)
      : mount_(mount), prefix_(std::move(prefix)), duration_(duration) {}

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
    if (failed_ || SteadyClock::now() - started_ >= duration_) {
      if (outstanding_ == 0) finish();
      return;
    }
    ++outstanding_;
    const auto began = SteadyClock::now();
    const std::string name = prefix_ + std::to_string(made_++);
    nfs4::OpenArgs args;
    args.share_access = nfs4::OPEN4_SHARE_ACCESS_BOTH | nfs4::OPEN4_SHARE_ACCESS_WANT_NO_DELEG;
    const auto owner = std::as_bytes(std::span(name));
    args.owner.assign(owner.begin(), owner.end());
    args.name = name;
    nfs4::OpenCreate how;
    how.mode = nfs4::CreateMode::GUARDED4;
    how.attributes.mode = 0644;
    args.create = how;
    call(
        compound(nfs4::OpArgs{Op::OP_PUTFH, nfs4::PutFhArgs{mount_.root()}},
                 nfs4::OpArgs{Op::OP_OPEN, std::move(args)},
                 nfs4::OpArgs{Op::OP_GETFH, nfs4::None{}}),
        [this, began](nfs4::CompoundResult& result) {
          auto* opened = result.get<nfs4::OpenOk>(1);
          auto* handle = result.get<nfs4::GetFhOk>(2);
          if (opened == nullptr || handle == nullptr) {
            return done(began, fail(Errc::kProtocol, "OPEN: an answer is missing"));
          }
          close(began, handle->handle, opened->stateid);
        },
        began);
  }

  void close(SteadyClock::time_point began, const nfs4::FileHandle& handle,
             const nfs4::Stateid& stateid) {
    call(
        compound(nfs4::OpArgs{Op::OP_PUTFH, nfs4::PutFhArgs{handle}},
                 nfs4::OpArgs{Op::OP_CLOSE, nfs4::CloseArgs{0, stateid}}),
        [this, began](nfs4::CompoundResult&) { done(began, {}); }, began);
  }

  template <class Then>
  void call(std::vector<nfs4::OpArgs> ops, Then then, SteadyClock::time_point began) {
    mount_.metadata_server().call(
        std::move(ops), {.deadline = kCallDeadline, .cache_this = true},
        [self = shared_from_this(), then, began](Result<nfs4::CompoundResult> result) mutable {
          if (!result) return self->done(began, pass(result));
          if (auto ok = check(*result); !ok) return self->done(began, ok);
          then(*result);
        });
  }

  void done(SteadyClock::time_point began, Result<> result) {
    --outstanding_;
    if (result) {
      ++outcome_.operations;
      outcome_.latency.add(static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::nanoseconds>(SteadyClock::now() - began)
              .count()));
    } else if (!failed_) {
      failed_ = std::move(result.error());
    }
    next();
  }

  void finish() {
    if (std::exchange(over_, true)) return;
    if (failed_) return finished_.set_value(std::unexpected(*failed_));
    outcome_.seconds = std::chrono::duration<double>(SteadyClock::now() - started_).count();
    finished_.set_value(outcome_);
  }

  Mount& mount_;
  const std::string prefix_;
  const std::chrono::milliseconds duration_;
  SteadyClock::time_point started_;
  std::uint64_t made_ = 0;
  unsigned outstanding_ = 0;
  bool over_ = false;
  Outcome outcome_;
  std::optional<Error> failed_;
  std::promise<Result<Outcome>> finished_;
};

}  // namespace

Result<Outcome> run_creates(Engine& engine, Mount& mount, const std::string& prefix, unsigned depth,
                            std::chrono::milliseconds duration) {
  auto outcome = std::make_shared<Creator>(mount, prefix, duration)->start(engine, depth).get();
  if (!outcome) return outcome;
  for (std::uint64_t i = 0; i < outcome->operations; ++i) {
    if (auto gone = mount.remove(prefix + std::to_string(i)); !gone) return pass(gone);
  }
  return outcome;
}

}  // namespace weft::load
