#include "tools/load/workload.h"

#include <boost/asio/post.hpp>

#include "rpc/base/clock.h"
#include "tools/load/pattern.h"

namespace weft::load {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr unsigned kPrepareDepth = 8;
constexpr std::uint32_t kPrepareBlock = 1 << 20;

// One run: shared by its operations in flight, all on the I/O thread.
class Runner : public std::enable_shared_from_this<Runner> {
 public:
  Runner(Engine& engine, Mount& mount, File& file, const Workload& workload, bool once)
      : engine_(engine),
        mount_(mount),
        file_(file),
        work_(workload),
        once_(once),
        random_(workload.seed),
        blocks_(workload.file_size / workload.block) {}

  std::future<Result<Outcome>> start() {
    auto future = finished_.get_future();
    boost::asio::post(engine_.context(), [self = shared_from_this()] { self->begin(); });
    return future;
  }

 private:
  void begin() {
    started_ = SteadyClock::now();
    if (work_.kind == Kind::kWrite && !work_.verify && !once_) {
      auto buffer = engine_.pool().allocate(work_.block);
      if (!buffer) return finish(pass(buffer));
      fill_pattern(buffer->span(), work_.seed, 0);
      shared_ = std::move(*buffer);
    }
    for (unsigned i = 0; i < work_.depth; ++i) next();
    if (outstanding_ == 0) finish({});
  }

  bool over() const {
    if (failed_) return true;
    return once_ ? next_block_ >= blocks_ : SteadyClock::now() - started_ >= work_.duration;
  }

  std::uint64_t next_offset() {
    const std::uint64_t block = work_.random ? random_.below(blocks_) : next_block_++ % blocks_;
    return block * work_.block;
  }

  void next() {
    if (over()) return;
    const std::uint64_t offset = next_offset();
    ++outstanding_;
    const auto began = SteadyClock::now();
    if (work_.kind == Kind::kRead) {
      mount_.read(file_, offset, work_.block,
                  [self = shared_from_this(), began, offset](Result<Payload> data) {
                    self->done(began, data ? self->check(*data, offset) : pass(data));
                  });
      return;
    }
    auto data = contents(offset);
    if (!data) return done(began, pass(data));
    mount_.write(
        file_, offset, std::move(*data), work_.stable,
        [self = shared_from_this(), began](Result<> result) { self->done(began, result); });
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

  void done(SteadyClock::time_point began, Result<> result) {
    --outstanding_;
    if (result) {
      ++outcome_.operations;
      outcome_.bytes += work_.block;
      const auto took = SteadyClock::now() - began;
      outcome_.latency.add(static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::nanoseconds>(took).count()));
    } else if (!failed_) {
      failed_ = std::move(result.error());
    }
    next();
    if (outstanding_ == 0) finish({});
  }

  void finish(Result<> early) {
    if (!early) return finished_.set_value(pass(early));
    if (failed_) return finished_.set_value(std::unexpected(*failed_));
    outcome_.seconds = std::chrono::duration<double>(SteadyClock::now() - started_).count();
    finished_.set_value(outcome_);
  }

  Engine& engine_;
  Mount& mount_;
  File& file_;
  const Workload work_;
  const bool once_;  // each block once, in order, instead of for a duration
  SeededRandom random_;
  const std::uint64_t blocks_;
  std::uint64_t next_block_ = 0;
  unsigned outstanding_ = 0;
  Buffer shared_;
  SteadyClock::time_point started_;
  Outcome outcome_;
  std::optional<Error> failed_;
  std::promise<Result<Outcome>> finished_;
};

Result<Outcome> run_with(Engine& engine, Mount& mount, File& file, const Workload& workload,
                         bool once) {
  if (workload.block == 0 || workload.file_size < workload.block || workload.depth == 0) {
    return fail(Errc::kInvalid, "the file must hold at least one block, depth at least 1");
  }
  if (file.striping && file.striping->unit_bytes() % workload.block != 0 &&
      file.striping->count() > 1) {
    return fail(Errc::kInvalid, "blocks must not cross stripe units");
  }
  return std::make_shared<Runner>(engine, mount, file, workload, once)->start().get();
}

}  // namespace

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
  if (auto written = run_with(engine, mount, file, whole, /*once=*/true); !written) {
    return pass(written);
  }
  return mount.commit(file);
}

Result<Outcome> run(Engine& engine, Mount& mount, File& file, const Workload& workload) {
  return run_with(engine, mount, file, workload, /*once=*/false);
}

}  // namespace weft::load
