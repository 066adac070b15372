#include "tools/load/workload.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cmath>
#include <deque>

#include "rpc/base/clock.h"
#include "tools/load/pattern.h"

namespace weft::load {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr unsigned kPrepareDepth = 8;
constexpr std::uint32_t kPrepareBlock = 1 << 20;
constexpr int kMostLayouts = 100;  // of a file, one after the other

// One run: shared by its operations in flight, all on the I/O thread.
class Runner : public std::enable_shared_from_this<Runner> {
 public:
  Runner(Engine& engine, Mount& mount, File& file, const Workload& workload)
      : engine_(engine),
        mount_(mount),
        file_(file),
        work_(workload),
        random_(workload.seed),
        arrivals_(workload.seed + 1),
        timer_(engine.context()),
        blocks_(workload.file_size / workload.block) {}

  std::future<Result<Outcome>> start() {
    auto future = finished_.get_future();
    boost::asio::post(engine_.context(), [self = shared_from_this()] { self->begin(); });
    return future;
  }

  // Precondition: start() or this has ended with kFenced, and the file has got another layout
  // since.
  std::future<Result<Outcome>> go_on() {
    finished_ = {};
    auto future = finished_.get_future();
    boost::asio::post(engine_.context(), [self = shared_from_this()] { self->begin_again(); });
    return future;
  }

 private:
  void begin() {
    started_ = SteadyClock::now();
    if (work_.kind == Kind::kWrite && !work_.verify && !work_.once) {
      auto buffer = engine_.pool().allocate(work_.block);
      if (!buffer) return finish(pass(buffer));
      fill_pattern(buffer->span(), work_.seed, 0);
      shared_ = std::move(*buffer);
    }
    if (work_.rate > 0) {
      next_arrival_ = started_;
      return arrive();
    }
    for (unsigned i = 0; i < work_.depth; ++i) next(SteadyClock::now());
    if (outstanding_ == 0) finish({});
  }

  void begin_again() {
    finished_once_ = false;
    for (const auto& [began, offset] : std::exchange(refused_, {})) transfer(began, offset);
    if (work_.rate > 0) return arrive();
    while (!over() && outstanding_ < work_.depth) next(SteadyClock::now());
    if (outstanding_ == 0) finish({});
  }

  // Open: takes what has come by now, and waits for the next.
  void arrive() {
    while (!over() && next_arrival_ <= SteadyClock::now()) {
      came_.push_back(next_arrival_);
      const double part = (static_cast<double>(arrivals_.u64() >> 11) + 1) * 0x1p-53;
      next_arrival_ += std::chrono::duration_cast<SteadyClock::duration>(
          std::chrono::duration<double>(-std::log(part) / work_.rate));
    }
    start_waiting();
    if (over()) return end_if_quiet();
    timer_.expires_at(std::min(next_arrival_, started_ + work_.duration));
    timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error) self->arrive();
    });
  }

  void start_waiting() {
    while (!failed_ && refused_.empty() && !came_.empty() && outstanding_ < work_.depth) {
      const auto came = came_.front();
      came_.pop_front();
      start(came);
    }
  }

  void end_if_quiet() {
    if (outstanding_ != 0) return;
    if (!refused_.empty() || (over() && (failed_ || came_.empty()))) finish({});
  }

  bool over() const {
    if (failed_) return true;
    return work_.once ? next_block_ >= blocks_ : SteadyClock::now() - started_ >= work_.duration;
  }

  std::uint64_t next_offset() {
    const std::uint64_t block = work_.random ? random_.below(blocks_) : next_block_++ % blocks_;
    return block * work_.block;
  }

  void next(SteadyClock::time_point began) {
    if (!over() && refused_.empty()) start(began);
  }

  void start(SteadyClock::time_point began) { transfer(began, next_offset()); }

  void transfer(SteadyClock::time_point began, std::uint64_t offset) {
    ++outstanding_;
    if (work_.kind == Kind::kRead) {
      mount_.read(file_, offset, work_.block,
                  [self = shared_from_this(), began, offset](Result<Payload> data) {
                    self->done(began, offset, data ? self->check(*data, offset) : pass(data));
                  });
      return;
    }
    auto data = contents(offset);
    if (!data) return done(began, offset, pass(data));
    mount_.write(file_, offset, std::move(*data), work_.stable,
                 [self = shared_from_this(), began, offset](Result<> result) {
                   self->done(began, offset, result);
                 });
  }

  Result<Buffer> contents(std::uint64_t offset) {
    if (!shared_.empty()) return shared_.share(0, work_.block);
    auto buffer = engine_.pool().allocate(work_.block);
    if (buffer) fill_pattern(buffer->span(), work_.seed, offset);
    return buffer;
  }

  Result<> check(const Payload& data, std::uint64_t offset) const {
    if (!work_.verify) return {};
    auto flat = data.flatten();
    if (!flat) return pass(flat);
    if (const auto wrong = check_pattern(*flat, work_.seed, offset)) {
      return fail(Errc::kCorrupt, file_.name + ": wrong data at offset " + std::to_string(*wrong));
    }
    return {};
  }

  void done(SteadyClock::time_point began, std::uint64_t offset, Result<> result) {
    --outstanding_;
    if (!result && result.error() == Errc::kAccess && file_.striping && !failed_) {
      refused_.emplace_back(began, offset);  // by a fence, as when a copy is left out
      if (outstanding_ == 0) finish({});
      return;
    }
    if (result) {
      ++outcome_.operations;
      outcome_.bytes += work_.block;
      const auto took = SteadyClock::now() - began;
      outcome_.latency.add(static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::nanoseconds>(took).count()));
    } else if (!failed_) {
      failed_ = std::move(result.error());
    }
    if (work_.rate > 0) {
      start_waiting();
      return end_if_quiet();
    }
    next(SteadyClock::now());
    if (outstanding_ == 0) finish({});
  }

  void finish(Result<> early) {
    if (std::exchange(finished_once_, true)) return;
    timer_.cancel();
    // Who waits for it may call go_on(), which makes another, before this returns.
    std::promise<Result<Outcome>> finished = std::move(finished_);
    if (!early) return finished.set_value(pass(early));
    if (failed_) return finished.set_value(std::unexpected(*failed_));
    if (!refused_.empty()) return finished.set_value(fail(Errc::kFenced));
    outcome_.seconds = std::chrono::duration<double>(SteadyClock::now() - started_).count();
    finished.set_value(outcome_);
  }

  Engine& engine_;
  Mount& mount_;
  File& file_;
  const Workload work_;
  SeededRandom random_;
  SeededRandom arrivals_;
  boost::asio::steady_timer timer_;
  SteadyClock::time_point next_arrival_;
  std::deque<SteadyClock::time_point> came_;  // and not begun yet
  // What is to be transferred by another layout: when it began, and where. Nothing else begins.
  std::vector<std::pair<SteadyClock::time_point, std::uint64_t>> refused_;
  bool finished_once_ = false;
  const std::uint64_t blocks_;
  std::uint64_t next_block_ = 0;
  unsigned outstanding_ = 0;
  Buffer shared_;
  SteadyClock::time_point started_;
  Outcome outcome_;
  std::optional<Error> failed_;
  std::promise<Result<Outcome>> finished_;
};

}  // namespace

Result<Outcome> run(Engine& engine, Mount& mount, File& file, const Workload& workload) {
  if (workload.block == 0 || workload.file_size < workload.block || workload.depth == 0 ||
      !(workload.rate >= 0)) {
    return fail(Errc::kInvalid, "the file must hold at least one block, depth at least 1");
  }
  if (workload.once && (workload.random || workload.rate > 0)) {
    return fail(Errc::kInvalid, "once is in order, and as fast as it goes");
  }
  if (file.striping && file.striping->unit_bytes() % workload.block != 0 &&
      file.striping->count() > 1) {
    return fail(Errc::kInvalid, "blocks must not cross stripe units");
  }
  const auto runner = std::make_shared<Runner>(engine, mount, file, workload);
  auto outcome = runner->start().get();
  for (int layouts = 0; !outcome && outcome.error() == Errc::kFenced; ++layouts) {
    if (layouts == kMostLayouts) return fail(Errc::kAccess, file.name + ": fenced again and again");
    if (auto renewed = mount.renew_layout(file); !renewed) return pass(renewed);
    outcome = runner->go_on().get();
  }
  return outcome;
}

Result<> prepare(Engine& engine, Mount& mount, File& file, std::uint64_t size, std::uint64_t seed) {
  Workload whole;
  whole.kind = Kind::kWrite;
  whole.file_size = size;
  whole.block = kPrepareBlock;
  if (file.striping && file.striping->count() > 1) {
    whole.block = std::min(whole.block, file.striping->unit_bytes());
  }
  whole.depth = kPrepareDepth;
  whole.seed = seed;
  whole.once = true;
  if (auto written = run(engine, mount, file, whole); !written) {
    return pass(written);
  }
  return mount.commit(file);
}

}  // namespace weft::load
