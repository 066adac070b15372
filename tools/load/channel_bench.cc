#include "tools/load/channel_bench.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <future>
#include <thread>

#include "rpc/base/shared_memory.h"
#include "rpc/base/streaming_copy.h"
#include "rpc/transport/io_threads.h"
#include "rpc/transport/shm/shm_dialer.h"
#include "rpc/transport/shm/shm_server.h"
#include "rpc/transport/tcp_dialer.h"
#include "rpc/transport/tcp_server.h"

namespace weft::load {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kArena = std::size_t{64} << 20;
constexpr std::size_t kAnswer = 8;

void pin(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  static_cast<void>(::sched_setaffinity(0, sizeof set, &set));
}

double cpu_of(int who) {
  rusage used{};
  ::getrusage(who, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

rpc::TcpLimits tcp_limits(const ChannelBench& bench) {
  rpc::TcpLimits limits;
  limits.max_record_bytes = bench.bytes + 4096;
  return limits;
}

rpc::ShmLimits shm_limits(const ChannelBench& bench) { return {.max_poll = bench.poll}; }

// Answers every message; a bulk one with a few bytes, others with themselves.
struct Server : rpc::ChannelUser {
  Server(const ChannelBench& what, std::shared_ptr<rpc::Channel> on)
      : bench(what), channel(std::move(on)) {}
  void answer(const Buffer& record) {
    rpc::Message message;
    message.bytes().raw(record.span().first(bench.bulk ? kAnswer : record.size()));
    channel->send(std::move(message));
  }
  void on_record(rpc::ReceivedRecord record) override {
    record.loans.clear();  // given back with the answer
    answer(record.bytes);
  }
  void on_closed(const Error&) override { channel.reset(); }
  const ChannelBench bench;
  std::shared_ptr<rpc::Channel> channel;
};

[[noreturn]] void serve(const ChannelBench& bench, const std::string& path, int ready) {
  pin(bench.server_cpu);
  BufferPool pool(kArena);
  rpc::IoThreads threads(1, false);
  const auto accept = [&bench](std::shared_ptr<rpc::Channel> channel) {
    auto server = std::make_shared<Server>(bench, channel);
    channel->start(server);
  };
  threads.start();
  rpc::ShmServer local(threads, pool, {.path = path, .limits = shm_limits(bench)}, accept);
  rpc::TcpServer tcp(threads, pool, {.address = "127.0.0.1", .limits = tcp_limits(bench)}, accept);
  const bool shm = bench.transport == ChannelBench::Transport::kShm;
  const auto listening = shm ? local.listen() : tcp.listen();
  const std::uint16_t port = listening ? (shm ? 1 : tcp.port()) : 0;
  if (::write(ready, &port, sizeof port) != sizeof port) ::_exit(1);
  for (;;) ::pause();
}

// Sends, one message for each answer, until time is up.
struct Client : rpc::ChannelUser {
  Client(const ChannelBench& what, BufferPool& from) : bench(what), pool(from) {
    own.resize(what.bytes, std::byte{'x'});
  }
  void begin(std::shared_ptr<rpc::Channel> on) {
    channel = std::move(on);
    end = Clock::now() + bench.duration;
    for (unsigned i = 0; i < bench.outstanding; ++i) send();
  }
  void send() {
    rpc::Message message;
    if (!bench.bulk) {
      message.bytes().raw(own);
    } else {
      message.bytes().u64(sent);
      auto buffer = pool.allocate(bench.bytes);
      if (!buffer) return finish();
      if (bench.copy) streaming_copy(buffer->data(), own.data(), own.size());
      Payload payload;
      payload.append(std::move(*buffer));
      message.splice(std::move(payload));
    }
    ++sent;
    channel->send(std::move(message));
  }
  void on_record(rpc::ReceivedRecord) override {
    ++answered;
    if ((answered & 15) == 0 && Clock::now() >= end) return finish();
    send();
  }
  void on_closed(const Error&) override { finish(); }
  void finish() {
    if (std::exchange(finished, true)) return;
    channel->pause();
    done.set_value();
  }
  const ChannelBench bench;
  BufferPool& pool;
  std::vector<std::byte> own;
  std::shared_ptr<rpc::Channel> channel;
  Clock::time_point end;
  std::uint64_t sent = 0;
  std::uint64_t answered = 0;
  bool finished = false;
  std::promise<void> done;
};

Result<ChannelResult> drive(const ChannelBench& bench, const std::string& path,
                            std::uint16_t port) {
  pin(bench.client_cpu);
  auto memory = SharedMemory::create(kArena, "bench");
  if (!memory) return pass(memory);
  BufferPool pool(kArena, std::make_shared<Arena>(std::move(*memory)));
  auto client = std::make_shared<Client>(bench, pool);
  rpc::IoThreads threads(1, false);
  auto& context = threads.context(0);
  rpc::Dial dial = bench.transport == ChannelBench::Transport::kShm
                       ? rpc::shm_dialer(context, pool, {.path = path, .limits = shm_limits(bench)})
                       : rpc::tcp_dialer(context, pool, "127.0.0.1", port, tcp_limits(bench));
  threads.start();
  std::promise<Result<>> dialled;
  const auto started = Clock::now();
  boost::asio::post(context, [&] {
    dial([&](Result<std::shared_ptr<rpc::Channel>> channel) {
      if (!channel) return dialled.set_value(pass(channel));
      (*channel)->start(client);
      client->begin(*channel);
      dialled.set_value(Result<>{});
    });
  });
  if (auto connected = dialled.get_future().get(); !connected) return pass(connected);
  client->done.get_future().wait();
  const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  threads.stop();
  ChannelResult result{
      .messages = client->answered, .bytes = client->answered * bench.bytes, .seconds = seconds};
  client->channel.reset();
  return result;
}

}  // namespace

Result<ChannelResult> run_channel_bench(const ChannelBench& bench) {
  const std::string path = "/tmp/weft-channel-bench-" + std::to_string(::getpid());
  int ready[2];
  if (::pipe(ready) != 0) return fail_errno(errno, "pipe");
  const double before = cpu_of(RUSAGE_SELF) + cpu_of(RUSAGE_CHILDREN);
  const pid_t child = ::fork();
  if (child < 0) return fail_errno(errno, "fork");
  if (child == 0) serve(bench, path, ready[1]);
  std::uint16_t port = 0;
  const bool told = ::read(ready[0], &port, sizeof port) == sizeof port && port != 0;
  auto result = told ? drive(bench, path, port)
                     : Result<ChannelResult>(fail(Errc::kUnreachable, "the server did not start"));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  ::unlink(path.c_str());
  if (result) result->cpu_seconds = cpu_of(RUSAGE_SELF) + cpu_of(RUSAGE_CHILDREN) - before;
  return result;
}

}  // namespace weft::load
