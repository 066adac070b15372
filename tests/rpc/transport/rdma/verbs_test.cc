// The serving end of RPC over RDMA on a real device, Soft-RoCE for one: a client in the same
// process, by librdmacm and verbs alone.
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>

#include "tests/rpc/transport/rdma/verbs_rig.h"

using namespace weft;
using namespace weft::rpc;
using namespace weft::rpc::rdma;
using namespace weft::rpc::rdma::test;

// The server is told that its device is removed, in place of the next event of this type: of the
// connection, or of where it listens if it is a request for one. -1: of none.
static std::atomic<int> removal_in_place_of = -1;

extern "C" {
// The linker's names (--wrap).
// NOLINTBEGIN(bugprone-reserved-identifier)
int __real_rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event);
int __wrap_rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  if (const int failed = __real_rdma_get_cm_event(channel, event); failed != 0) return failed;
  rdma_cm_event& got = **event;
  int type = got.event;
  if (!removal_in_place_of.compare_exchange_strong(type, -1)) return 0;
  if (got.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
    rdma_destroy_id(std::exchange(got.id, got.listen_id));
  }
  got.event = RDMA_CM_EVENT_DEVICE_REMOVAL;
  return 0;
}
// NOLINTEND(bugprone-reserved-identifier)
}

namespace {

// A client: one connection, and memory that the server may reach.
class Client {
 public:
  explicit Client(const std::string& address) {
    rdma_addrinfo hints{};
    hints.ai_port_space = RDMA_PS_TCP;
    rdma_addrinfo* found = nullptr;
    const std::string port = std::to_string(kTestPort);
    REQUIRE(rdma_getaddrinfo(address.c_str(), port.c_str(), &hints, &found) == 0);
    ibv_qp_init_attr wanted{};
    wanted.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1};
    wanted.sq_sig_all = 1;
    REQUIRE(rdma_create_ep(&id_, found, nullptr, &wanted) == 0);
    rdma_freeaddrinfo(found);
    region_ = ibv_reg_mr(id_->pd, memory.data(), memory.size(), kAccess);
    REQUIRE(region_ != nullptr);
    for (std::size_t i = 0; i < 32; ++i) {
      REQUIRE(rdma_post_recv(id_, nullptr, memory.data() + i * kInline, kInline, region_) == 0);
    }
  }
  ~Client() {
    if (!over_) rdma_disconnect(id_);  // which waits until it is
    if (window_ != nullptr) ibv_dealloc_mw(window_);
    ibv_dereg_mr(region_);
    rdma_destroy_ep(id_);
  }
  bool connect(bool invalidation = false) {
    const auto said = encode(PrivateData{
        .send_bytes = kInline, .receive_bytes = kInline, .remote_invalidation = invalidation});
    rdma_conn_param asked{};
    asked.private_data = said.data();
    asked.private_data_len = said.size();
    asked.responder_resources = 16;
    asked.retry_count = 6;
    over_ = rdma_connect(id_, &asked) != 0;
    if (over_) return false;
    const auto& conn = id_->event->param.conn;
    const auto got = decode_private_data(
        {static_cast<const std::byte*>(conn.private_data), conn.private_data_len});
    return got && got->receive_bytes == kInline && got->remote_invalidation == invalidation;
  }
  // The memory from `at` on.
  Segment segment(std::size_t at, std::size_t size) const {
    return {.handle = region_->rkey,
            .length = static_cast<std::uint32_t>(size),
            .offset = reinterpret_cast<std::uintptr_t>(memory.data() + at)};
  }
  [[nodiscard]] bool has_windows() const {
    ibv_device_attr limits{};
    constexpr int kWanted = IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
    return ibv_query_device(id_->verbs, &limits) == 0 &&
           (limits.device_cap_flags & kWanted) == kWanted;
  }
  // The same by a window, whose handle can be invalidated, and is then made anew.
  Segment window(std::size_t at, std::size_t size) {
    if (window_ == nullptr) window_ = ibv_alloc_mw(id_->pd, IBV_MW_TYPE_2);
    REQUIRE(window_ != nullptr);
    Segment out = segment(at, size);
    out.handle = ibv_inc_rkey(window_->rkey);
    ibv_send_wr bind{};
    bind.opcode = IBV_WR_BIND_MW;
    bind.bind_mw.mw = window_;
    bind.bind_mw.rkey = out.handle;
    bind.bind_mw.bind_info = {.mr = region_,
                              .addr = out.offset,
                              .length = out.length,
                              .mw_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
    ibv_send_wr* bad = nullptr;
    ibv_wc done{};
    REQUIRE(ibv_post_send(id_->qp, &bind, &bad) == 0);
    window_->rkey = out.handle;
    REQUIRE(rdma_get_send_comp(id_, &done) == 1);
    REQUIRE(done.status == IBV_WC_SUCCESS);
    return out;
  }
  // One call, and its answer's header.
  bool call(std::uint32_t xid, const Chunks& chunks, std::initializer_list<std::uint32_t> words,
            Chunks& answered) {
    xdr::Encoder out;
    encode(out, Start{.xid = xid, .credits = 1});
    encode(out, chunks);
    out.u32(xid);
    out.u32(0);
    for (const std::uint32_t word : words) out.u32(word);
    std::memcpy(memory.data() + kOut, out.bytes().data(), out.size());
    if (rdma_post_send(id_, nullptr, memory.data() + kOut, out.size(), region_, 0) != 0) {
      return false;
    }
    ibv_wc sent{};
    ibv_wc got{};
    if (rdma_get_send_comp(id_, &sent) != 1 || sent.status != IBV_WC_SUCCESS) return false;
    if (rdma_get_recv_comp(id_, &got) != 1 || got.status != IBV_WC_SUCCESS) return false;
    std::byte* const at = memory.data() + received_++ % 32 * kInline;
    xdr::Decoder in({at, got.byte_len});
    const auto start = decode_start(in);
    if (!start || start->xid != xid || start->procedure != 0) return false;
    auto decoded = decode_chunks(in);
    if (!decoded) return false;
    answered = std::move(*decoded);
    return rdma_post_recv(id_, nullptr, at, kInline, region_) == 0;
  }
  // Whether the connection ends: a queue pair whose peer goes has no completion that says so.
  bool ended() {
    pollfd waited{.fd = id_->channel->fd, .events = POLLIN, .revents = 0};
    rdma_cm_event* event = nullptr;
    if (::poll(&waited, 1, 30'000) != 1 || rdma_get_cm_event(id_->channel, &event) != 0) {
      return false;
    }
    // Rejected: the other end had not heard yet that they are connected.
    over_ = event->event == RDMA_CM_EVENT_DISCONNECTED || event->event == RDMA_CM_EVENT_REJECTED;
    rdma_ack_cm_event(event);
    return over_;
  }
  [[nodiscard]] rdma_cm_id* id() const { return id_; }

  static constexpr std::size_t kData = 256 << 10;
  std::vector<std::byte> memory = std::vector<std::byte>(4 * kMebibyte);

 private:
  static constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_MW_BIND;
  static constexpr std::size_t kInline = 4096;
  static constexpr std::size_t kOut = 32 * kInline;

  rdma_cm_id* id_ = nullptr;
  ibv_mr* region_ = nullptr;
  ibv_mw* window_ = nullptr;
  std::size_t received_ = 0;
  bool over_ = false;
};

}  // namespace

TEST_CASE("without a device nothing listens, and that is said") {
  if (Devices::any()) SKIP("this machine has an RDMA device");
  BufferPool pool(kMebibyte, std::make_shared<Arena>(SharedMemory::create(kMebibyte, "t").value()));
  IoThreads threads(1, false);
  threads.start();
  ServerOptions options;
  options.addresses.push_back({.ip = "127.0.0.1"});
  options.limits.standing = options.admission.standing;
  {
    Server server(threads, pool, std::move(options), [](const std::shared_ptr<Channel>&) {});
    for (int i = 0; i < 3; ++i) CHECK(server.listen().error() == Errc::kNotSupported);
    CHECK(server.listening() == 0);
    server.cut();
    server.go_on();
  }
  threads.stop();
}

TEST_CASE("a real device carries calls, what is read from clients and what is written to them") {
  Rig rig(device_address());
  Client client(rig.address);
  REQUIRE(client.connect());
  std::uint32_t xid = 0;
  Chunks answered;
  for (const std::size_t size : {std::size_t{4096}, std::size_t{70'001}, kMebibyte}) {
    std::byte* const data = client.memory.data() + Client::kData;
    for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>((i * 31 + size) >> 3);
    const std::vector<std::byte> sent(data, data + size);
    const auto length = static_cast<std::uint32_t>(size);
    Chunks chunks{.reads = {{.position = 12, .chunk = {{client.segment(Client::kData, size)}}}}};
    REQUIRE(client.call(++xid, chunks, {length}, answered));
    std::memset(data, 0, size);
    chunks = {.writes = {{{client.segment(Client::kData, size)}}}};
    REQUIRE(client.call(++xid, chunks, {length}, answered));
    REQUIRE(answered.writes.size() == 1);
    CHECK(answered.writes[0].size() == size);
    CHECK(std::memcmp(data, sent.data(), size) == 0);
  }
  // More than the credits, one after the other: receives are posted again.
  for (int i = 0; i < 100; ++i) REQUIRE(client.call(++xid, {}, {}, answered));
  CHECK(rig.server->connections() == 1);
  CHECK(rig.server->counts().bytes_in == 4096 + 70'001 + kMebibyte);
  CHECK(rig.server->counts().bytes_out == 4096 + 70'001 + kMebibyte);
}

TEST_CASE("a client's memory that a real device cannot reach ends that connection alone") {
  Rig rig(device_address());
  Client good(rig.address);
  Client bad(rig.address);
  Chunks answered;
  REQUIRE(good.connect());
  REQUIRE(good.call(1, {}, {}, answered));
  REQUIRE(bad.connect());
  REQUIRE(bad.call(1, {}, {}, answered));
  Segment nowhere = bad.segment(Client::kData, 4096);
  nowhere.handle ^= 0x5a5a5a;
  const Chunks chunks{.reads = {{.position = 12, .chunk = {{nowhere}}}}};
  CHECK_FALSE(bad.call(2, chunks, {4096}, answered));
  CHECK(wait([&] { return rig.server->connections() == 1; }));
  CHECK(good.call(2, {}, {}, answered));
}

TEST_CASE("connections end from either side, many times, and leave no memory in use") {
  Rig rig(device_address());
  for (int i = 0; i < 20; ++i) {
    Client client(rig.address);
    Chunks answered;
    REQUIRE(client.connect());
    REQUIRE(client.call(1, {}, {}, answered));
    const auto service = rig.service(static_cast<std::size_t>(i));
    if (i % 2 == 0) {
      rig.server->cut();
      CHECK(client.ended());
      rig.server->go_on();
      REQUIRE(rig.server->listen());
    } else {
      rdma_disconnect(client.id());
    }
    REQUIRE(wait([&] { return service->ended.load() && rig.server->connections() == 0; }));
  }
  CHECK(wait([&] { return rig.pool.in_use_bytes() == 0; }));
}

TEST_CASE("a server goes while clients are connected") {
  const char* const address = device_address();
  for (int i = 0; i < 5; ++i) {
    auto rig = std::make_unique<Rig>(address);
    Client client(rig->address);
    Chunks answered;
    REQUIRE(client.connect());
    REQUIRE(client.call(1, {}, {}, answered));
    rig.reset();
    CHECK(client.ended());
  }
}

TEST_CASE("a client that wants it has the handles of its calls invalidated, by a real device") {
  Rig rig(device_address());
  for (const bool wanted : {false, true}) {
    Client client(rig.address);
    if (!client.has_windows()) SKIP("needs an RDMA device that has memory windows of type 2B");
    REQUIRE(client.connect(wanted));
    Chunks answered;
    REQUIRE(client.call(1, {}, {}, answered));
    Chunks chunks{.reads = {{.position = 12, .chunk = {{client.window(Client::kData, 4096)}}}}};
    REQUIRE(client.call(2, chunks, {4096}, answered));
    if (wanted) {  // a window that is not invalidated could not be made anew
      chunks = {.writes = {{{client.window(Client::kData, 4096)}}}};
      REQUIRE(client.call(3, chunks, {4096}, answered));
      CHECK(answered.writes.at(0).size() == 4096);
    }
    CHECK(client.call(4, chunks, {4096}, answered) == !wanted);
  }
  CHECK(wait([&] { return rig.server->connections() == 0; }));
}

TEST_CASE("a device that is removed ends the connections by it, and nothing else") {
  Rig rig(device_address());
  Client good(rig.address);
  Client lost(rig.address);
  Chunks answered;
  REQUIRE(good.connect());
  REQUIRE(good.call(1, {}, {}, answered));
  REQUIRE(lost.connect());
  REQUIRE(lost.call(1, {}, {}, answered));
  const auto service = rig.service(1);
  removal_in_place_of = RDMA_CM_EVENT_DISCONNECTED;
  rdma_disconnect(lost.id());
  REQUIRE(wait([&] { return service->ended.load(); }));
  CHECK(removal_in_place_of == -1);
  CHECK(service->closed == Errc::kUnreachable);
  CHECK(wait([&] { return rig.server->connections() == 1; }));
  CHECK(rig.server->reachable() == std::vector<bool>{true});
  CHECK(good.call(2, {}, {}, answered));
}

TEST_CASE("a device that is removed is listened at no more, until it is found again") {
  Rig rig(device_address());
  Client good(rig.address);
  Chunks answered;
  REQUIRE(good.connect());
  REQUIRE(good.call(1, {}, {}, answered));
  removal_in_place_of = RDMA_CM_EVENT_CONNECT_REQUEST;
  Client lost(rig.address);
  CHECK_FALSE(lost.connect());
  REQUIRE(wait([&] { return !rig.server->reachable().at(0); }));
  CHECK(rig.server->listening() == 0);
  CHECK(good.call(2, {}, {}, answered));
  rig.server->look();
  CHECK(rig.server->reachable() == std::vector<bool>{true});
  CHECK(rig.server->listening() == 1);
  Client again(rig.address);
  REQUIRE(again.connect());
  CHECK(again.call(1, {}, {}, answered));
}
