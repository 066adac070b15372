#include "rpc/transport/shm/shm_channel.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <filesystem>
#include <future>

#include "rpc/base/log_limit.h"
#include "rpc/transport/shm/greeting.h"
#include "rpc/transport/shm/shm_dialer.h"
#include "rpc/transport/shm/shm_server.h"
#include "tests/rpc/eventually.h"
#include "tests/rpc/log_lines.h"

using namespace weft;
using namespace weft::rpc;
using test::eventually;
using namespace std::chrono_literals;

namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const Buffer& buffer) {
  return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
}

// Keeps what comes.
struct Inbox : ChannelUser {
  void on_record(ReceivedRecord record) override {
    const std::scoped_lock lock(mutex);
    texts.push_back(text_of(record.bytes));
    for (Buffer& loan : record.loans) lent.push_back(std::move(loan));
  }
  void on_closed(const Error& why) override {
    const std::scoped_lock lock(mutex);
    closed = why.code;
  }
  std::size_t count() {
    const std::scoped_lock lock(mutex);
    return texts.size();
  }
  bool is_closed() {
    const std::scoped_lock lock(mutex);
    return closed.has_value();
  }
  std::mutex mutex;
  std::vector<std::string> texts;
  std::vector<Buffer> lent;
  std::optional<Errc> closed;
};

// That end of a connection which was accepted at `path`.
int accepted_socket(const std::string& path) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    sockaddr_un name{};
    socklen_t size = sizeof name;
    int listens = 1;
    socklen_t flag = sizeof listens;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) continue;
    if (name.sun_family != AF_UNIX || path != name.sun_path) continue;
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag) == 0 && listens == 0) {
      return fd;
    }
  }
  return -1;
}

// Both ends in one process, a thread each.
struct Pair {
  explicit Pair(ShmLimits limits = {}, std::size_t ring = 4096) {
    std::filesystem::create_directories(folder);
    path = folder + "/socket";
    server.emplace(threads, server_pool, ShmServerOptions{.path = path, .limits = limits},
                   [this](std::shared_ptr<Channel> channel) {
                     if (accepted != nullptr) return;  // of a test that connects by hand
                     accepted = channel;
                     channel->start(server_inbox);
                     ready.set_value();
                   });
    threads.start();
    REQUIRE(server->listen());
    auto dialled = std::make_shared<std::promise<Result<std::shared_ptr<Channel>>>>();
    auto& context = threads.context(1);
    boost::asio::post(context, [&, dialled] {
      shm_dialer(context, client_pool, {.path = path, .ring_capacity = ring, .limits = limits})(
          [this, dialled](Result<std::shared_ptr<Channel>> result) {
            if (result) (*result)->start(client_inbox);
            dialled->set_value(std::move(result));
          });
    });
    client = dialled->get_future().get().value();
    ready.get_future().wait();
  }
  ~Pair() {
    server->stop();
    threads.stop();
    client.reset();
    accepted.reset();
    server_inbox->lent.clear();
    std::filesystem::remove_all(folder);
  }
  // On the channel's thread, and waits for it.
  static void run(Channel& channel, std::move_only_function<void()> work) {
    std::promise<void> done;
    channel.post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  void send(Channel& channel, std::string_view text, std::vector<Buffer> lent = {}) {
    run(channel, [&] {
      Message message;
      message.bytes().raw(bytes_of(text));
      Payload payload;
      for (Buffer& buffer : lent) payload.append(std::move(buffer));
      message.splice(std::move(payload));
      channel.send(std::move(message));
    });
  }

  std::string folder = "/tmp/weft-shm-test-" + std::to_string(::getpid());
  std::string path;
  std::shared_ptr<Arena> arena =
      std::make_shared<Arena>(SharedMemory::create(std::size_t{4} << 20, "test").value());
  BufferPool client_pool{std::size_t{4} << 20, arena};
  BufferPool server_pool{std::size_t{4} << 20};
  std::shared_ptr<Inbox> client_inbox = std::make_shared<Inbox>();
  std::shared_ptr<Inbox> server_inbox = std::make_shared<Inbox>();
  std::promise<void> ready;
  IoThreads threads{2, false};
  std::optional<ShmServer> server;
  std::shared_ptr<Channel> client;
  std::shared_ptr<Channel> accepted;
};

}  // namespace

TEST_CASE("records go both ways through shared memory, in order") {
  Pair pair;
  constexpr int kRecords = 500;
  for (int i = 0; i < kRecords; ++i) pair.send(*pair.client, "to " + std::to_string(i));
  REQUIRE(eventually([&] { return pair.server_inbox->count() == kRecords; }));
  for (int i = 0; i < kRecords; ++i) pair.send(*pair.accepted, "from " + std::to_string(i));
  REQUIRE(eventually([&] { return pair.client_inbox->count() == kRecords; }));
  for (int i = 0; i < kRecords; ++i) {
    CHECK(pair.server_inbox->texts[static_cast<std::size_t>(i)] == "to " + std::to_string(i));
    CHECK(pair.client_inbox->texts[static_cast<std::size_t>(i)] == "from " + std::to_string(i));
  }
}

TEST_CASE("more than a ring holds waits for room") {
  Pair pair;
  pair.run(*pair.accepted, [&] { pair.accepted->pause(); });
  const std::string text(1000, 'x');
  for (int i = 0; i < 40; ++i) pair.send(*pair.client, text);
  pair.run(*pair.client, [&] { CHECK(pair.client->queued_bytes() > 30'000); });
  pair.run(*pair.accepted, [&] { pair.accepted->resume(); });
  REQUIRE(eventually([&] { return pair.server_inbox->count() == 40; }));
  pair.run(*pair.client, [&] { CHECK(pair.client->queued_bytes() == 0); });
}

TEST_CASE("buffers of the arena are lent as they are, and come back when they are let go") {
  Pair pair;
  auto data = pair.client_pool.allocate(100'000).value();
  std::memset(data.data(), 'd', data.size());
  auto mine = data.share(0, data.size()).value();
  std::vector<Buffer> lent;
  lent.push_back(std::move(data));
  pair.send(*pair.client, "write", std::move(lent));
  REQUIRE(eventually([&] { return pair.server_inbox->count() == 1; }));
  REQUIRE(pair.server_inbox->lent.size() == 1);
  Buffer& theirs = pair.server_inbox->lent[0];
  CHECK(theirs.size() == 100'000);
  CHECK(theirs.data() != mine.data());  // another mapping
  CHECK(theirs.data()[99'999] == std::byte{'d'});
  theirs.data()[0] = std::byte{'r'};  // of the same pages
  CHECK(mine.data()[0] == std::byte{'r'});
  CHECK_FALSE(mine.unique());  // the channel holds it
  pair.run(*pair.accepted, [&] { pair.server_inbox->lent.clear(); });
  CHECK(eventually([&] {
    bool back = false;
    pair.run(*pair.client, [&] {
      back = mine.unique() && static_cast<ShmChannel&>(*pair.client).lent_bytes() == 0;
    });
    return back;
  }));
  mine.reset();
  CHECK(eventually([&] { return pair.client_pool.in_use_bytes() == 0; }));
}

TEST_CASE("a lender that closes gets its pages back only when the borrower has let go") {
  Pair pair;
  std::vector<Buffer> lent;
  lent.push_back(pair.client_pool.allocate(8192).value());
  pair.send(*pair.client, "write", std::move(lent));
  REQUIRE(eventually([&] { return pair.server_inbox->count() == 1; }));
  pair.run(*pair.client, [&] { pair.client->close({Errc::kClosed, {}}); });
  REQUIRE(eventually([&] { return pair.server_inbox->is_closed(); }));
  std::this_thread::sleep_for(50ms);
  CHECK(pair.client_pool.in_use_bytes() > 0);
  pair.server_inbox->lent.clear();  // from another thread, too
  CHECK(eventually([&] { return pair.client_pool.in_use_bytes() == 0; }));
}

// Pages that a device has cannot be had anew: what is retired of them is lost.
TEST_CASE("pages that a device has are used again when a borrower that lives let go of them") {
  Pair pair;
  pair.client_pool.arena()->pin();
  std::vector<Buffer> lent;
  lent.push_back(pair.client_pool.allocate(8192).value());
  std::byte* const memory = lent[0].data();
  pair.send(*pair.client, "write", std::move(lent));
  REQUIRE(eventually([&] { return pair.server_inbox->count() == 1; }));
  SECTION("the lender closes first") {
    pair.run(*pair.client, [&] { pair.client->close({Errc::kClosed, {}}); });
    REQUIRE(eventually([&] { return pair.server_inbox->is_closed(); }));
  }
  SECTION("the borrower closes first") {
    pair.run(*pair.accepted, [&] { pair.accepted->close({Errc::kClosed, {}}); });
    REQUIRE(eventually([&] { return pair.server_inbox->is_closed(); }));
  }
  pair.server_inbox->lent.clear();
  CHECK(eventually([&] { return pair.client_pool.in_use_bytes() == 0; }));
  CHECK(pair.client_pool.arena()->lost_bytes() == 0);
  CHECK(pair.client_pool.allocate(8192).value().data() == memory);
}

TEST_CASE("pages that a device has are lost, and counted, when a borrower died with them") {
  Pair pair;
  pair.client_pool.arena()->pin();
  std::vector<Buffer> lent;
  lent.push_back(pair.client_pool.allocate(8192).value());
  pair.send(*pair.client, "write", std::move(lent));
  REQUIRE(eventually([&] { return pair.server_inbox->count() == 1; }));
  REQUIRE(::shutdown(accepted_socket(pair.path), SHUT_WR) == 0);
  REQUIRE(eventually([&] { return pair.client_inbox->is_closed(); }));
  CHECK(eventually([&] { return pair.client_pool.in_use_bytes() == 0; }));
  CHECK(pair.client_pool.arena()->lost_bytes() >= 8192);  // the pool has blocks of some sizes
}

TEST_CASE("a close that drains waits for a peer that takes nothing no longer than it is told to") {
  Pair pair({.drain_deadline = 200ms});
  std::promise<void> go_on;
  pair.client->post([until = go_on.get_future().share()] { until.wait(); });
  pair.run(*pair.accepted, [&] {
    while (pair.accepted->queued_bytes() == 0) {
      Message message;
      message.bytes().raw(std::vector<std::byte>(1000));
      pair.accepted->send(std::move(message));
    }
    pair.accepted->close({Errc::kClosed, {}}, true);
  });
  CHECK(eventually([&] { return pair.server_inbox->is_closed(); }));
  go_on.set_value();
}

TEST_CASE("what a peer had written before it went is delivered, then its end") {
  Pair pair;
  pair.run(*pair.accepted, [&] {
    for (int i = 0; i < 3; ++i) {
      Message message;
      message.bytes().raw(bytes_of("last words"));
      pair.accepted->send(std::move(message));
    }
    pair.accepted->close({Errc::kClosed, {}});
  });
  REQUIRE(eventually([&] { return pair.client_inbox->is_closed(); }));
  CHECK(pair.client_inbox->count() == 3);
  CHECK(pair.client_inbox->closed == Errc::kClosed);
}

TEST_CASE("pages that a peer had when it went are not used again, and what it gave back is") {
  Pair pair;
  std::vector<Buffer> lent;
  lent.push_back(pair.client_pool.allocate(8192).value());
  std::byte* const memory = lent[0].data();
  std::memset(memory, 'o', 8192);
  Buffer again = lent[0].share(0, 4096).value();  // as who sends it to another later
  pair.send(*pair.client, "write", std::move(lent));
  REQUIRE(eventually([&] { return pair.server_inbox->count() == 1; }));
  // The page, as a disk holds it that has not done yet.
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  const OwnedFd out(pipe[0]);
  const OwnedFd in(pipe[1]);
  const iovec part{memory, 4096};
  REQUIRE(::vmsplice(in.get(), &part, 1, 0) == 4096);
  // It dies: nothing is told but by the socket's end.
  REQUIRE(::shutdown(accepted_socket(pair.path), SHUT_WR) == 0);
  REQUIRE(eventually([&] { return pair.client_inbox->is_closed(); }));
  CHECK(again.data()[0] == std::byte{'o'});  // as long as somebody needs them
  CHECK(pair.client_pool.in_use_bytes() >= 8192);
  again.reset();
  CHECK(eventually([&] { return pair.client_pool.in_use_bytes() == 0; }));
  Buffer next = pair.client_pool.allocate(8192).value();
  REQUIRE(next.data() == memory);
  CHECK(next.data()[0] == std::byte{0});
  std::memset(next.data(), 'n', 8192);
  std::array<char, 4096> old{};
  REQUIRE(::read(out.get(), old.data(), old.size()) == 4096);
  CHECK(std::ranges::all_of(old, [](char byte) { return byte == 'o'; }));
}

TEST_CASE("a socket left behind is replaced, one in use is not") {
  Pair pair;
  IoThreads threads(1, false);
  threads.start();
  BufferPool pool(1 << 20);
  ShmServer second(threads, pool, {.path = pair.path}, [](const auto&) {});
  CHECK(second.listen().error() == Errc::kBusy);
  const std::string left = pair.folder + "/left";
  {
    boost::asio::io_context context;
    boost::asio::local::stream_protocol::acceptor acceptor(
        context, boost::asio::local::stream_protocol::endpoint(left));
  }
  ShmServer third(threads, pool, {.path = left, .mode = 0600}, [](const auto&) {});
  REQUIRE(third.listen());
  struct stat found{};
  REQUIRE(::stat(left.c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0600);
  ShmServer file(threads, pool, {.path = "/etc/passwd"}, [](const auto&) {});
  CHECK(file.listen().error() == Errc::kInvalid);
}

TEST_CASE("descriptors are handed over, in their order, and no more than the kernel holds") {
  Pair pair;
  const auto number_of = [](int fd) {
    struct stat found{};
    return ::fstat(fd, &found) == 0 ? found.st_ino : 0;
  };
  std::vector<OwnedFd> files;
  for (int i = 0; i < 2; ++i) files.emplace_back(::memfd_create("test", MFD_CLOEXEC));
  Pair::run(*pair.accepted, [&] {
    CHECK(pair.accepted->hand_over(files[0].get()));
    CHECK(pair.accepted->hand_over(files[1].get()));
    CHECK_FALSE(pair.accepted->hand_over(-1));
  });
  Pair::run(*pair.client, [&] {
    for (const OwnedFd& file : files) {
      const auto taken = pair.client->take_handed();
      REQUIRE(taken);
      CHECK(number_of(taken->get()) == number_of(file.get()));
    }
    CHECK(pair.client->take_handed().error() == Errc::kNotFound);
    CHECK_FALSE(pair.client->hand_over(files[0].get()));
  });
  // One for which there is no number is lost, and no other.
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  for (const bool room : {false, true}) {
    Pair::run(*pair.accepted, [&] { CHECK(pair.accepted->hand_over(files[0].get())); });
    Pair::run(*pair.client, [&] {
      const rlimit none{.rlim_cur = room ? limit.rlim_cur : 3, .rlim_max = limit.rlim_max};
      REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
      const auto taken = pair.client->take_handed();
      REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
      CHECK(taken.has_value() == room);
      if (!taken) CHECK(taken.error() == Errc::kBusy);
    });
  }
  Pair::run(*pair.accepted, [&] {
    int handed = 0;
    while (handed < 100'000 && pair.accepted->hand_over(files[0].get())) ++handed;
    CHECK(handed > 16);
    CHECK(handed < 100'000);
    CHECK_FALSE(pair.accepted->take_handed());
  });
}

TEST_CASE("those who are refused fill no log") {
  test::LogLines log;
  Pair pair({.connect_deadline = 50ms});
  constexpr std::uint64_t kTimes = 300;
  for (std::uint64_t i = 0; i < kTimes; ++i) {
    const OwnedFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    pair.path.copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  REQUIRE(eventually([&] { return pair.server->refused() == kTimes; }));
  const auto refused = std::ranges::count_if(
      log.take(), [](const auto& line) { return line.contains("event=connection_refused"); });
  CHECK(refused >= 1);
  CHECK(refused <= static_cast<std::ptrdiff_t>(LogLimit::kAtOnce) + 50);  // a few a second
}

TEST_CASE("whoever does not introduce himself properly is refused") {
  Pair pair({.connect_deadline = 200ms});
  const auto connect = [&] {
    OwnedFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    pair.path.copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    return fd;
  };
  const auto ended = [](const OwnedFd& fd) {
    char byte = 0;
    return ::recv(fd.get(), &byte, 1, 0) <= 0;
  };
  const auto rings = SharedMemory::create(rings_bytes(4096), "test").value();
  const auto& memory = pair.arena->memory();
  const OwnedFd pair_end = make_handing_pair().value().far;
  const OwnedFd bell = Bell::make().value();
  SECTION("nothing said") { CHECK(ended(connect())); }
  SECTION("nonsense") {
    const auto fd = connect();
    REQUIRE(::send(fd.get(), "hello, are you there? I am", 24, MSG_NOSIGNAL) == 24);
    CHECK(ended(fd));
  }
  SECTION("rings of another size than was said") {
    const auto fd = connect();
    REQUIRE(send_greeting(fd.get(), {.ring_capacity = 8192, .arena_bytes = memory->size()},
                          rings->fd(), memory->fd(), pair_end.get(), bell.get()));
    CHECK(ended(fd));
  }
  SECTION("an arena that can shrink") {
    OwnedFd loose(::memfd_create("test", MFD_CLOEXEC));
    REQUIRE(::ftruncate(loose.get(), 1 << 20) == 0);
    const auto fd = connect();
    REQUIRE(send_greeting(fd.get(), {.ring_capacity = 4096, .arena_bytes = 1 << 20}, rings->fd(),
                          loose.get(), pair_end.get(), bell.get()));
    CHECK(ended(fd));
  }
  SECTION("a bell that is no eventfd") {
    const auto fd = connect();
    REQUIRE(send_greeting(fd.get(), {.ring_capacity = 4096, .arena_bytes = memory->size()},
                          rings->fd(), memory->fd(), pair_end.get(), memory->fd()));
    CHECK(ended(fd));
  }
  SECTION("as it should be") {
    const auto fd = connect();
    REQUIRE(send_greeting(fd.get(), {.ring_capacity = 4096, .arena_bytes = memory->size()},
                          rings->fd(), memory->fd(), pair_end.get(), bell.get()));
    char welcome[sizeof(Welcome)];
    CHECK(::recv(fd.get(), welcome, sizeof welcome, MSG_WAITALL) == sizeof welcome);
  }
}
