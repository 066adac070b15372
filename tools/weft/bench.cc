#include "tools/weft/bench.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <thread>

#include "rpc/base/buffer.h"
#include "rpc/base/clock.h"
#include "tools/weft/output.h"
#include "tools/weft/table.h"

namespace weft::cli {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;

double now_s() {
  return std::chrono::duration<double>(system_clock().now().time_since_epoch()).count();
}

// The directory of a run, gone with it.
class Playground {
 public:
  static Result<std::unique_ptr<Playground>> make(const std::string& below) {
    std::string path = below + "/weft-bench.XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) return fail_errno(errno, "make a directory in " + below);
    return std::unique_ptr<Playground>(new Playground(std::move(path)));
  }
  Playground(const Playground&) = delete;
  Playground& operator=(const Playground&) = delete;
  ~Playground() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
    if (error) {
      static_cast<void>(complain(fmt::format("{} is left: {}", path_, error.message())));
    }
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit Playground(std::string path) : path_(std::move(path)) {}
  const std::string path_;
};

// What a thread has done in a step.
struct Done {
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;
};

class Bench {
 public:
  Bench(const BenchOptions& options, const std::atomic<bool>& stop, std::string folder)
      : options_(options), stop_(stop), folder_(std::move(folder)), data_(kChunk) {
    SeededRandom(1).fill(data_);
    written_.resize(options.threads);
    made_.resize(options.threads);
  }

  Result<> make_folders() {
    for (unsigned thread = 0; thread < options_.threads; ++thread) {
      if (::mkdir(folder_of(thread).c_str(), 0700) != 0) return fail_errno(errno, "mkdir");
    }
    return {};
  }
  Result<> streams() {
    if (auto done = step("stream write", &Bench::write_stream); !done) return done;
    return step("stream read", &Bench::read_stream);
  }
  Result<> names() {
    if (auto done = step("create", &Bench::create); !done) return done;
    if (auto done = step("stat", &Bench::stat); !done) return done;
    return step("unlink", &Bench::unlink);
  }
  Result<> small() {
    if (auto done = step("small write", &Bench::write_small); !done) return done;
    return step("small read", &Bench::read_small);
  }
  [[nodiscard]] std::vector<BenchStep> take() { return std::move(steps_); }

 private:
  using Part = Result<> (Bench::*)(unsigned thread, Done& done);

  [[nodiscard]] std::string folder_of(unsigned thread) const {
    return fmt::format("{}/{}", folder_, thread);
  }
  [[nodiscard]] std::string name(unsigned thread, const char* kind, std::uint64_t number) const {
    return fmt::format("{}/{}{}", folder_of(thread), kind, number);
  }
  // No more of this step.
  [[nodiscard]] bool over() const { return stop_ || now_s() >= deadline_s_; }

  // By all threads at once.
  Result<> step(const char* name, Part part) {
    BenchStep step{.name = name};
    const double began = now_s();
    deadline_s_ = began + options_.limit_s;
    std::vector<Result<>> outcomes(options_.threads);
    std::vector<Done> done(options_.threads);
    {
      std::vector<std::jthread> threads;
      for (unsigned thread = 0; thread < options_.threads; ++thread) {
        threads.emplace_back(
            [&, thread] { outcomes[thread] = (this->*part)(thread, done[thread]); });
      }
    }
    step.seconds = now_s() - began;
    if (stop_) return fail(Errc::kCancelled, "interrupted");
    for (unsigned thread = 0; thread < options_.threads; ++thread) {
      if (!outcomes[thread]) return outcomes[thread];
      step.operations += done[thread].operations;
      step.bytes += done[thread].bytes;
    }
    steps_.push_back(std::move(step));
    return {};
  }

  static Result<> write_all(const OwnedFd& file, std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t wrote = ::write(file.get(), bytes.data(), bytes.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) return fail_errno(errno, "write");
      bytes = bytes.subspan(static_cast<std::size_t>(wrote));
    }
    return {};
  }
  // What is read of it is asked of the server again.
  static void drop_cached(const OwnedFd& file) {
    static_cast<void>(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED));
  }
  // A whole small file, or the next part of a stream; 0 at its end.
  static Result<std::size_t> read_some(const OwnedFd& file, std::span<std::byte> into) {
    for (;;) {
      const ssize_t got = ::read(file.get(), into.data(), into.size());
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) return fail_errno(errno, "read");
    }
  }
  // close(2) of an NFS file says what became of what was written.
  static Result<> close(OwnedFd file) {
    const int fd = ::fcntl(file.get(), F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return fail_errno(errno, "close");
    return ::close(fd) == 0 ? Result<>() : fail_errno(errno, "close");
  }

  Result<> write_stream(unsigned thread, Done& done) {
    const OwnedFd file(
        ::open(name(thread, "stream", 0).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file) return fail_errno(errno, "create");
    while (done.bytes < options_.stream_bytes && !over()) {
      const auto part = std::span(data_).first(
          std::min<std::uint64_t>(kChunk, options_.stream_bytes - done.bytes));
      if (auto wrote = write_all(file, part); !wrote) return wrote;
      done.bytes += part.size();
      ++done.operations;
    }
    if (::fsync(file.get()) != 0) return fail_errno(errno, "fsync");
    drop_cached(file);
    written_[thread] = done.bytes;
    return {};
  }
  Result<> read_stream(unsigned thread, Done& done) {
    const OwnedFd file(::open(name(thread, "stream", 0).c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return fail_errno(errno, "open");
    std::vector<std::byte> into(kChunk);
    while (!over()) {
      auto got = read_some(file, into);
      if (!got) return pass(got);
      if (*got == 0) break;
      done.bytes += *got;
      ++done.operations;
    }
    const bool whole = done.bytes == written_[thread] || over();
    return whole ? Result<>() : fail(Errc::kCorrupt, "a file is not as long as what was written");
  }

  Result<> create(unsigned thread, Done& done) {
    while (done.operations < options_.files && !over()) {
      const OwnedFd file(::open(name(thread, "name", done.operations).c_str(),
                                O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      if (!file) return fail_errno(errno, "create");
      ++done.operations;
    }
    made_[thread] = done.operations;
    return {};
  }
  Result<> stat(unsigned thread, Done& done) {
    while (done.operations < made_[thread] && !over()) {
      struct stat found{};
      if (::stat(name(thread, "name", done.operations).c_str(), &found) != 0) {
        return fail_errno(errno, "stat");
      }
      ++done.operations;
    }
    return {};
  }
  Result<> unlink(unsigned thread, Done& done) {
    while (done.operations < made_[thread] && !over()) {
      if (::unlink(name(thread, "name", done.operations).c_str()) != 0) {
        return fail_errno(errno, "unlink");
      }
      ++done.operations;
    }
    return {};
  }

  Result<> write_small(unsigned thread, Done& done) {
    const auto part = std::span(data_).first(options_.small_bytes);
    while (done.operations < options_.files && !over()) {
      OwnedFd file(::open(name(thread, "small", done.operations).c_str(),
                          O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      if (!file) return fail_errno(errno, "create");
      if (auto wrote = write_all(file, part); !wrote) return wrote;
      if (auto closed = close(std::move(file)); !closed) return closed;
      done.bytes += part.size();
      ++done.operations;
    }
    made_[thread] = done.operations;
    return {};
  }
  Result<> read_small(unsigned thread, Done& done) {
    std::vector<std::byte> into(options_.small_bytes);
    while (done.operations < made_[thread] && !over()) {
      const OwnedFd file(
          ::open(name(thread, "small", done.operations).c_str(), O_RDONLY | O_CLOEXEC));
      if (!file) return fail_errno(errno, "open");
      drop_cached(file);
      auto got = read_some(file, into);
      if (!got) return pass(got);
      done.bytes += *got;
      ++done.operations;
    }
    return {};
  }

  const BenchOptions& options_;
  const std::atomic<bool>& stop_;
  const std::string folder_;
  std::vector<std::byte> data_;         // that is written
  double deadline_s_ = 0;               // of the step
  std::vector<std::uint64_t> written_;  // of each thread's stream
  std::vector<std::uint64_t> made_;     // files, by the last step that made some
  std::vector<BenchStep> steps_;
};

bool wanted(const BenchOptions& options, const char* what) {
  return options.only.empty() || std::ranges::find(options.only, what) != options.only.end();
}

// With as much again to spare: a benchmark fills nobody's file system.
Result<> check_room(const BenchOptions& options, const struct statfs& there) {
  std::uint64_t need = 0;
  if (wanted(options, "streams")) need += options.stream_bytes;
  if (wanted(options, "small")) need += options.files * options.small_bytes;
  need *= options.threads;
  const std::uint64_t room =
      std::uint64_t{there.f_bavail} * static_cast<std::uint64_t>(there.f_bsize);
  if (room / 2 >= need) return {};
  return fail(Errc::kNoSpace,
              fmt::format("{} has room for {}, and twice what is written, {}, is asked for: say a "
                          "smaller --size, --files or --threads",
                          options.folder, human_bytes(room), human_bytes(2 * need)));
}

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void stop_on_signals() {
  struct sigaction action{};
  action.sa_handler = [](int) { interrupted = true; };
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(number, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // who prints to a pager that is gone cleans up, too
}

}  // namespace

Result<BenchReport> run_bench(const BenchOptions& options, const std::atomic<bool>& stop) {
  struct statfs there{};
  if (::statfs(options.folder.c_str(), &there) != 0) return fail_errno(errno, options.folder);
  if (auto room = check_room(options, there); !room) return pass(room);
  auto ground = Playground::make(options.folder);
  if (!ground) return pass(ground);
  Bench bench(options, stop, (*ground)->path());
  auto done = bench.make_folders();
  if (done && wanted(options, "streams")) done = bench.streams();
  if (done && wanted(options, "names")) done = bench.names();
  if (done && wanted(options, "small")) done = bench.small();
  if (!done) return pass(done);
  return BenchReport{.nfs = there.f_type == NFS_SUPER_MAGIC, .steps = bench.take()};
}

std::string bench_text(const BenchOptions& options, const BenchReport& report) {
  Table table({"STEP", "OPERATIONS", "TIME", "PER SECOND", "THROUGHPUT"});
  for (const BenchStep& step : report.steps) {
    const double seconds = std::max(step.seconds, 1e-9);
    const auto rate = [seconds](std::uint64_t of) {
      return static_cast<std::uint64_t>(static_cast<double>(of) / seconds);
    };
    table.add({step.name, human_count(step.operations),
               human_duration(static_cast<std::uint64_t>(step.seconds * 1000)),
               human_count(rate(step.operations)),
               step.bytes == 0 ? "-" : human_bytes(rate(step.bytes)) + "/s"});
  }
  std::string out =
      fmt::format("{} threads below {}\n", options.threads, printable(options.folder));
  if (!report.nfs) out += "it is not on an NFS mount\n";
  return out + "\n" + table.text();
}

Json bench_json(const BenchOptions& options, const BenchReport& report) {
  Json steps = Json::array();
  for (const BenchStep& step : report.steps) {
    const double seconds = std::max(step.seconds, 1e-9);
    steps.push_back({{"name", step.name},
                     {"operations", step.operations},
                     {"bytes", step.bytes},
                     {"seconds", step.seconds},
                     {"operations_per_second", static_cast<double>(step.operations) / seconds},
                     {"bytes_per_second", static_cast<double>(step.bytes) / seconds}});
  }
  return {{"folder", options.folder},
          {"nfs", report.nfs},
          {"threads", options.threads},
          {"stream_bytes", options.stream_bytes},
          {"files", options.files},
          {"small_bytes", options.small_bytes},
          {"steps", steps}};
}

int bench_command(const Settings& settings, const BenchOptions& options) {
  stop_on_signals();
  const auto report = run_bench(options, interrupted);
  if (!report) {
    return complain(printable(report.error() == Errc::kCancelled || report.error().text.empty()
                                  ? report.error().text
                                  : report.error().describe()));
  }
  settings.json ? print(bench_json(options, *report)) : print(bench_text(options, *report));
  return kExitGood;
}

}  // namespace weft::cli
