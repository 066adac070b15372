// A hostile process at the other end of shared memory: it writes what it likes into the rings, at
// any time, lends, gives back, rings by either way, and hands descriptors over or takes them. First
// the record decoder alone, then a channel of either side whose peer follows the input as a script.
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cstring>

#include "rpc/transport/shm/greeting.h"
#include "rpc/transport/shm/shm_channel.h"
#include "tests/fuzz/script.h"

using namespace weft;
using namespace weft::rpc;
using weft::test::must;
using weft::test::Script;

namespace {

constexpr std::size_t kRing = 4096;
constexpr std::size_t kArena = std::size_t{64} << 10;

// Looks at every byte it is given, lets go of some, answers.
struct User : ChannelUser {
  void on_record(ReceivedRecord record) override {
    look(record.bytes);
    if (record.loans.empty()) return;
    for (Buffer& loan : record.loans) {
      must(loan.size() <= kArena);
      look(loan);
      loan.data()[0] = std::byte{1};
      if (++loans % 3 == 0) kept.push_back(std::move(loan));
    }
    if (channel == nullptr || loans % 2 != 0) return;
    Message reply;
    reply.bytes().u32(loans);
    channel->send(std::move(reply));
  }
  void on_closed(const Error&) override {
    ++closed;
    channel.reset();
  }
  void look(const Buffer& buffer) {
    for (const std::byte byte : buffer.span()) sum += std::to_integer<unsigned>(byte);
  }
  std::shared_ptr<ShmChannel> channel;
  std::vector<Buffer> kept;
  unsigned loans = 0;
  unsigned sum = 0;
  int closed = 0;
};

struct Stage {
  Stage(bool lender, bool trusted) {
    int ends[2];
    must(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    peer = OwnedFd(ends[1]);
    rings = SharedMemory::create(rings_bytes(kRing), "fuzz").value();
    bell = Bell::make().value();
    their_bell = Bell::make().value();
    auto handing = make_handing_pair().value();
    far = std::move(handing.far);
    ShmConnection connection{.socket = {context, boost::asio::local::stream_protocol(), ends[0]},
                             .rings = rings,
                             .ring_capacity = kRing,
                             .arena = arena->memory(),
                             .handing = std::move(handing.near),
                             .bell = OwnedFd(::dup(their_bell.get())),
                             .peer_bell = OwnedFd(trusted ? ::dup(bell.get()) : -1),
                             .lender = lender,
                             .peer = "fuzz"};
    channel = std::make_shared<ShmChannel>(std::move(connection), pool,
                                           ShmLimits{.max_poll = std::chrono::microseconds{0}});
    user->channel = channel;
    channel->start(user);
    in = rings->base() + (lender ? ring_bytes(kRing) : 0);
    out = rings->base() + (lender ? 0 : ring_bytes(kRing));
  }
  void turn() {
    context.restart();
    for (int i = 0; i < 64 && context.poll_one() > 0; ++i) {
    }
  }
  void ring() { static_cast<void>(::send(peer.get(), "b", 1, MSG_DONTWAIT | MSG_NOSIGNAL)); }
  // As often as it likes, and more often than a counter can hold.
  static void write_to(const OwnedFd& counter, std::uint64_t times) {
    static_cast<void>(::write(counter.get(), &times, sizeof times));
  }

  std::shared_ptr<Arena> arena =
      std::make_shared<Arena>(SharedMemory::create(kArena, "fuzz").value());
  BufferPool pool{kArena, arena};
  boost::asio::io_context context{1};
  std::shared_ptr<SharedMemory> rings;
  OwnedFd peer;
  OwnedFd far;         // the peer's end of the way for descriptors
  OwnedFd bell;        // the peer's
  OwnedFd their_bell;  // the channel's
  std::shared_ptr<User> user = std::make_shared<User>();
  std::shared_ptr<ShmChannel> channel;
  std::byte* in = nullptr;   // the ring that the channel reads
  std::byte* out = nullptr;  // and the one it writes
};

// A record that is nearly right: its parts are counted, its contents the script's.
void push_record(RingProducer& producer, Script& script) {
  std::byte record[512];
  RecordHead head{.releases = script.byte() % 4U,
                  .loans = script.byte() % 4U,
                  .message = script.byte() % 64U,
                  .has_message = script.byte() % 8U != 0 ? 1U : 0U};
  std::size_t size = sizeof head;
  const auto put = [&](const void* bytes, std::size_t length) {
    std::memcpy(record + size, bytes, length);
    size += length;
  };
  for (unsigned i = 0; i < head.releases; ++i) {
    const std::uint32_t number = script.byte() % 8U;
    put(&number, sizeof number);
  }
  for (unsigned i = 0; i < head.loans; ++i) {
    Loan loan{.offset = script.word(), .size = script.word(), .number = script.byte()};
    if (script.byte() % 4 != 0) {
      loan.offset %= kArena;
      loan.size = 1 + loan.size % 4096;
    }
    put(&loan, sizeof loan);
  }
  for (unsigned i = 0; i < head.message; ++i) record[size++] = std::byte{script.byte()};
  if (script.byte() % 16 == 0) head.message ^= script.word();
  std::memcpy(record, &head, sizeof head);
  const std::span<const std::byte> whole(record, size);
  static_cast<void>(producer.push(std::span(&whole, 1)));
}

// As many descriptors as come into its mind, with one message.
void hand(Stage& stage, Script& script) {
  int descriptors[12];
  for (int& descriptor : descriptors) descriptor = stage.rings->fd();
  const std::size_t count = script.byte() % 13U;
  char byte = 0;
  iovec bytes{&byte, script.byte() % 2U};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof descriptors)] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  if (count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(part), descriptors, count * sizeof(int));
  }
  static_cast<void>(::sendmsg(stage.far.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL));
}

void act(Stage& stage, RingProducer& producer, Script& script) {
  switch (script.byte() % 16) {
    case 0:
    case 1:
    case 2: return push_record(producer, script);
    case 3: return stage.ring();
    case 4: return stage.turn();
    case 5: {  // anything, anywhere in either ring
      const std::size_t at = script.word() % rings_bytes(kRing);
      stage.rings->base()[at] = std::byte{script.byte()};
      return;
    }
    case 6: {
      const std::uint32_t value = script.byte() % 2 == 0 ? script.word() : script.byte() * 64U;
      std::memcpy((script.byte() % 2 == 0 ? stage.in : stage.out) + script.byte() % 4U * kCacheLine,
                  &value, sizeof value);
      return;
    }
    case 7: {  // what the channel lends, or as much as it can send
      if (stage.user->channel == nullptr) return;
      Message message;
      message.bytes().u64(script.word());
      Payload payload;
      if (auto buffer = stage.pool.allocate(1 + script.byte() * 16U)) {
        std::memset(buffer->data(), 0, buffer->size());
        payload.append(std::move(*buffer));
      }
      message.splice(std::move(payload));
      stage.channel->send(std::move(message));
      return;
    }
    case 8: stage.user->kept.clear(); return;
    case 9: return hand(stage, script);
    case 10:
      if (const auto taken = stage.channel->take_handed()) must(taken->get() >= 0);
      return;
    case 11: static_cast<void>(stage.channel->hand_over(stage.rings->fd())); return;
    case 12: return Stage::write_to(stage.their_bell, 1);
    case 13: return Stage::write_to(stage.their_bell, ~std::uint64_t{0} - script.byte());
    case 14: return Stage::write_to(stage.bell, ~std::uint64_t{0} - script.byte());
    default:
      if (script.byte() % 8 == 0) (script.byte() % 2 == 0 ? stage.peer : stage.far) = OwnedFd();
  }
}

void play(bool lender, bool trusted, Script script) {
  Stage stage(lender, trusted);
  RingProducer producer(stage.in, kRing);
  for (int step = 0; step < 200 && script.left > 0; ++step) act(stage, producer, script);
  stage.ring();
  stage.turn();
  stage.peer = OwnedFd();
  for (int i = 0; i < 20 && stage.user->closed == 0; ++i) stage.turn();
  must(stage.user->closed == 1);
  stage.user->kept.clear();
  stage.channel.reset();
  for (int i = 0; i < 50 && stage.pool.in_use_bytes() > 0; ++i) stage.turn();
  must(stage.pool.in_use_bytes() == 0);  // no page is lost, whatever the peer did
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (auto record = decode_record(bytes, kArena)) {
    must(record->loans.size() <= kMaxLoans && record->message.size() <= size);
    for (const Loan& loan : record->loans) must(loan.offset + loan.size <= kArena);
  }
  play((data[0] & 1) != 0, (data[0] & 2) != 0, {data + 1, size - 1});
  return 0;
}
