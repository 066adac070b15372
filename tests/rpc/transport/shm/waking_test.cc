// How sides of a shared-memory channel wake each other: by bells, or through the socket.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstring>
#include <filesystem>
#include <future>
#include <optional>
#include <thread>

#include "rpc/base/late_close.h"
#include "rpc/transport/shm/greeting.h"
#include "rpc/transport/shm/shm_channel.h"
#include "rpc/transport/shm/shm_dialer.h"
#include "rpc/transport/shm/shm_server.h"
#include "tests/rpc/eventually.h"

using namespace weft;
using namespace weft::rpc;
using test::eventually;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t kRing = 4096;
constexpr uid_t kStranger = 65534;
constexpr std::uint64_t kMuch = ~std::uint64_t{0} - 1;  // the most a counter holds

struct Counter : ChannelUser {
  void on_record(ReceivedRecord) override { ++records; }
  void on_closed(const Error&) override { closed = true; }
  std::atomic<int> records{0};
  std::atomic<bool> closed{false};
};

Message message_of(std::string_view text) {
  Message message;
  message.bytes().raw(std::as_bytes(std::span(text)));
  return message;
}

// A process at the other end, by hand: its memory, its bell, and its end of the socket.
struct Hand {
  explicit Hand(bool lends)
      : lender(lends),
        rings(SharedMemory::create(rings_bytes(kRing), "test").value()),
        bell(Bell::make().value()) {}
  void open() {
    out.emplace(rings->base() + (lender ? 0 : ring_bytes(kRing)), kRing);
    in.emplace(rings->base() + (lender ? ring_bytes(kRing) : 0), kRing);
  }
  // Says that it sleeps; whether it was woken after what was done then, and by what.
  void sleep() { REQUIRE(in->may_sleep()); }
  [[nodiscard]] bool wake() const {
    pollfd both[] = {{bell.get(), POLLIN, 0}, {socket.get(), POLLIN, 0}};
    return ::poll(both, 2, 5000) > 0;
  }
  [[nodiscard]] std::uint64_t rung() const {
    std::uint64_t times = 0;
    return ::read(bell.get(), &times, sizeof times) == sizeof times ? times : 0;
  }
  [[nodiscard]] long bytes() const {
    char some[64];
    return std::max<long>(::recv(socket.get(), some, sizeof some, MSG_DONTWAIT), 0);
  }
  // A record; whether the other side asks to be woken for it.
  [[nodiscard]] bool push() {
    const RecordHead head{.message = 0, .has_message = 1};
    const auto part = std::as_bytes(std::span(&head, 1));
    return out->push(std::span(&part, 1)).value() && out->must_ring();
  }

  bool lender;
  std::shared_ptr<SharedMemory> rings;
  OwnedFd bell;
  OwnedFd socket;
  OwnedFd their_bell;
  std::optional<RingProducer> out;
  std::optional<RingConsumer> in;
};

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

OwnedFd make_socket() { return OwnedFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

// A server whose caller is a hand.
struct Called {
  explicit Called(uid_t caller_user) : user(caller_user) {
    std::filesystem::create_directories(folder);
    server.emplace(
        threads, pool,
        ShmServerOptions{
            .path = path, .mode = 0666, .users = {kStranger}, .limits = {.max_poll = 0us}},
        [this](std::shared_ptr<Channel> made) {
          made->start(inbox);
          accepted.set_value(std::move(made));
        });
    threads.start();
    REQUIRE(server->listen());
    hand.socket = make_socket();
    // Who connects counts; another user's thread does.
    std::thread([this] {
      const auto address = address_of(path);
      if (user == ::geteuid() || ::syscall(SYS_setresuid, user, user, user) == 0) {
        connected = ::connect(hand.socket.get(), reinterpret_cast<const sockaddr*>(&address),
                              sizeof address) == 0;
      }
    }).join();
    REQUIRE(connected);
    const auto pair = make_handing_pair().value();
    const auto arena = SharedMemory::create(1 << 20, "test").value();
    REQUIRE(send_greeting(hand.socket.get(), {.ring_capacity = kRing, .arena_bytes = arena->size()},
                          hand.rings->fd(), arena->fd(), pair.far.get(), hand.bell.get()));
    channel = accepted.get_future().get();
    auto welcome = receive_welcome(hand.socket.get());
    REQUIRE(welcome);
    hand.their_bell = std::move(*welcome);
    hand.open();
  }
  ~Called() {
    server->stop();
    threads.stop();
    channel.reset();
    std::filesystem::remove_all(folder);
  }
  void send() {
    channel->post([this] { channel->send(message_of("wake up")); });
  }

  const uid_t user;
  bool connected = false;
  std::string folder = "/tmp/weft-waking-test-" + std::to_string(::getpid());
  std::string path = folder + "/socket";
  BufferPool pool{std::size_t{1} << 20};
  std::shared_ptr<Counter> inbox = std::make_shared<Counter>();
  Hand hand{true};
  std::promise<std::shared_ptr<Channel>> accepted;
  IoThreads threads{1, false};
  std::optional<ShmServer> server;
  std::shared_ptr<Channel> channel;
};

// Ten times, each by so many rings of its bell and bytes through the socket.
void is_woken_by(Called& called, std::uint64_t rings, long bytes) {
  for (int i = 0; i < 10; ++i) {
    while (called.hand.in->peek().value()) called.hand.in->pop();
    called.hand.sleep();
    called.send();
    REQUIRE(called.hand.wake());
    CHECK(called.hand.rung() == rings);
    CHECK(called.hand.bytes() == bytes);
  }
}

void turn(boost::asio::io_context& context) {
  context.restart();
  while (context.poll() > 0) {
  }
}

// A dialer whose server is a hand, on a context that the test runs.
struct Dialled {
  Dialled() {
    std::filesystem::create_directories(folder);
    const auto address = address_of(path);
    const auto listening = make_socket();
    REQUIRE(::bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
            0);
    REQUIRE(::listen(listening.get(), 1) == 0);
    shm_dialer(context, pool, {.path = path, .ring_capacity = kRing, .limits = {.max_poll = 0us}})(
        [this](auto dialled) { result = std::move(dialled); });
    hand.socket = OwnedFd(::accept(listening.get(), nullptr, nullptr));
    REQUIRE(eventually([&] {
      turn(context);
      pollfd one{hand.socket.get(), POLLIN, 0};
      return ::poll(&one, 1, 0) > 0;
    }));
    auto greeting = receive_greeting(hand.socket.get());
    REQUIRE(greeting);
    hand.their_bell = std::move(greeting->bell);
    hand.rings = SharedMemory::adopt(std::move(greeting->rings), rings_bytes(kRing)).value();
    hand.open();
  }
  ~Dialled() { std::filesystem::remove_all(folder); }
  [[nodiscard]] bool finished() {
    return eventually([&] {
      turn(context);
      return result.has_value();
    });
  }

  const std::string folder = "/tmp/weft-waking-test-" + std::to_string(::getpid());
  const std::string path = folder + "/socket";
  boost::asio::io_context context{1};
  BufferPool pool{1 << 20, std::make_shared<Arena>(SharedMemory::create(1 << 20, "test").value())};
  Hand hand{false};
  std::optional<Result<std::shared_ptr<Channel>>> result;
};

// A channel whose peer is a hand, on a context that the test runs.
struct Stage {
  explicit Stage(bool with_bells = true) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    hand.socket = OwnedFd(ends[1]);
    ShmConnection connection{.socket = {*context, boost::asio::local::stream_protocol(), ends[0]},
                             .rings = hand.rings,
                             .ring_capacity = kRing,
                             .arena = SharedMemory::create(1 << 20, "test").value(),
                             .peer = "test"};
    if (with_bells) {
      connection.bell = Bell::make().value();
      hand.their_bell = OwnedFd(::dup(connection.bell.get()));
      connection.peer_bell = OwnedFd(::dup(hand.bell.get()));
    }
    channel = std::make_shared<ShmChannel>(std::move(connection), pool,
                                           ShmLimits{.max_poll = std::chrono::microseconds{0}});
    channel->start(inbox);
    hand.open();
    turn();
  }
  void turn() { ::turn(*context); }

  std::optional<boost::asio::io_context> context{1};
  BufferPool pool{std::size_t{1} << 20};
  std::shared_ptr<Counter> inbox = std::make_shared<Counter>();
  Hand hand{true};
  std::shared_ptr<ShmChannel> channel;
};

}  // namespace

TEST_CASE("who runs as our user is woken by his bell, without a byte through the socket") {
  Called called(::geteuid());
  CHECK(called.hand.their_bell);
  is_woken_by(called, 1, 0);
}

TEST_CASE("who is only admitted by name is woken through the socket, and may ring either way") {
  if (::geteuid() != 0) SKIP("becoming another user needs root");
  Called called(kStranger);
  is_woken_by(called, 0, 1);
  for (int i = 1; i < 10; ++i) {
    REQUIRE(eventually([&] { return called.hand.push(); }));
    if (i % 2 == 0) {
      REQUIRE(::send(called.hand.socket.get(), "b", 1, MSG_NOSIGNAL) == 1);
    } else {
      REQUIRE(Bell::ring(called.hand.their_bell.get()));
    }
    REQUIRE(eventually([&] { return called.inbox->records == i; }));
  }
}

TEST_CASE("a dialer and its server wake each other by their bells") {
  Dialled dialled;
  Hand& hand = dialled.hand;
  CHECK(hand.their_bell);
  REQUIRE(send_welcome(hand.socket.get(), hand.bell.get()));
  REQUIRE(::send(hand.socket.get(), "bbb", 3, MSG_NOSIGNAL) == 3);  // right behind the welcome
  REQUIRE(dialled.finished());
  REQUIRE(*dialled.result);
  auto& channel = **dialled.result;
  auto inbox = std::make_shared<Counter>();
  channel->start(inbox);
  hand.sleep();
  channel->send(message_of("wake up"));
  CHECK(hand.rung() == 1);
  CHECK(hand.bytes() == 0);
  turn(dialled.context);
  CHECK(hand.push());
  CHECK(Bell::ring(hand.their_bell.get()));
  turn(dialled.context);
  CHECK(inbox->records == 1);
  channel->close({Errc::kClosed, {}}, false);
  turn(dialled.context);
  CHECK(inbox->closed);
}

TEST_CASE("a dialer refuses a welcome without a bell, and what is no eventfd") {
  Dialled dialled;
  Hand& hand = dialled.hand;
  SECTION("a memory file") { REQUIRE(send_welcome(hand.socket.get(), hand.rings->fd())); }
  SECTION("a socket") { REQUIRE(send_welcome(hand.socket.get(), hand.socket.get())); }
  SECTION("none") {
    const Welcome welcome;
    REQUIRE(::send(hand.socket.get(), &welcome, sizeof welcome, MSG_NOSIGNAL) == sizeof welcome);
  }
  REQUIRE(dialled.finished());
  REQUIRE_FALSE(*dialled.result);
  CHECK(dialled.result->error() == Errc::kProtocol);
}

TEST_CASE("a channel without a bell of its peer's, or with one that is full, uses the socket") {
  const bool with_bells = GENERATE(false, true);
  Stage stage(with_bells);
  if (with_bells) {
    REQUIRE(::write(stage.hand.bell.get(), &kMuch, sizeof kMuch) == sizeof kMuch);
  }
  stage.hand.sleep();
  stage.channel->send(message_of("wake up"));
  CHECK(stage.hand.bytes() == 1);
  CHECK(stage.hand.push());
  REQUIRE(::send(stage.hand.socket.get(), "b", 1, MSG_NOSIGNAL) == 1);
  stage.turn();
  CHECK(stage.inbox->records == 1);
  stage.channel->close({Errc::kClosed, {}}, false);
  stage.turn();
}

TEST_CASE("a channel lets go of its bell when it closes, and when its context is destroyed") {
  Stage stage;
  CHECK(stage.hand.push());
  REQUIRE(Bell::ring(stage.hand.their_bell.get()));
  SECTION("closed") {
    stage.turn();
    CHECK(stage.inbox->records == 1);
    stage.channel->close({Errc::kClosed, {}}, false);
    REQUIRE(Bell::ring(stage.hand.their_bell.get()));
    stage.turn();
    CHECK(stage.inbox->closed);
    CHECK(stage.channel.use_count() == 1);
    stage.channel.reset();
  }
  SECTION("closed, and the context stopped before it was told") {
    stage.channel->close({Errc::kClosed, {}}, false);
    stage.channel.reset();
    stage.context.reset();
  }
  SECTION("the peer gone") {
    stage.hand.socket = OwnedFd();
    stage.turn();
    CHECK(stage.inbox->records == 1);
    CHECK(stage.inbox->closed);
    CHECK(stage.channel.use_count() == 1);
    stage.channel.reset();
  }
  SECTION("open, with the context") {
    stage.channel.reset();
    stage.context.reset();
  }
  CHECK(stage.inbox.use_count() == 1);
}

namespace {

// A TCP socket whose close waits for its peer, which reads nothing, for half a minute.
struct Lingering {
  Lingering() {
    const OwnedFd listening(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    REQUIRE(::bind(listening.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(::listen(listening.get(), 1) == 0);
    REQUIRE(::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0);
    near = OwnedFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(near.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
    far = OwnedFd(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const linger waits{.l_onoff = 1, .l_linger = 30};
    REQUIRE(::setsockopt(near.get(), SOL_SOCKET, SO_LINGER, &waits, sizeof waits) == 0);
    const std::string much(1 << 16, 'x');
    while (::send(near.get(), much.data(), much.size(), MSG_DONTWAIT) > 0) {
    }
  }
  OwnedFd near;
  OwnedFd far;
};

}  // namespace

TEST_CASE("a descriptor that does not let go keeps nobody who receives it") {
  const std::size_t before = unclosed();
  const auto rings = SharedMemory::create(rings_bytes(kRing), "test").value();
  const auto pair = make_handing_pair().value();
  const auto bell = Bell::make().value();
  std::vector<OwnedFd> far;
  for (int wrong = 0; wrong < 5; ++wrong) {
    INFO("wrong " << wrong);
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    const OwnedFd near(ends[0]);
    const OwnedFd theirs(ends[1]);
    {
      Lingering lingering;
      far.push_back(std::move(lingering.far));
      int sent[] = {rings->fd(), rings->fd(), pair.far.get(), bell.get()};
      Greeting greeting{.ring_capacity = kRing, .arena_bytes = rings->size()};
      if (wrong < 4) {
        sent[wrong] = lingering.near.get();
      } else {
        greeting.magic = 1;
        sent[0] = lingering.near.get();
      }
      REQUIRE(send_greeting(near.get(), greeting, sent[0], sent[1], sent[2], sent[3]));
    }
    const auto since = std::chrono::steady_clock::now();
    CHECK(receive_greeting(theirs.get()).error() == Errc::kProtocol);
    CHECK(std::chrono::steady_clock::now() - since < 10s);
  }
  CHECK(unclosed() > before);
  far.clear();  // the peers are gone
  CHECK(eventually([&] { return unclosed() == before; }));
}
