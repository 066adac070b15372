// The session server as a whole, over an in-memory channel: a client with a session that then sends
// whatever it likes. The input is a list of records (u16 length, bytes); one that begins with 0xff
// has its SEQUENCE made right, so that the fuzzer gets past it. Some cut the connection. Of a WRITE
// whose handle is not genuine the head alone is delivered.
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <cstring>

#include "rpc/onc/rpc_header.h"
#include "rpc/session/session_server.h"
#include "tests/rpc/session/piping_channel.h"
#include "tests/rpc/transport/in_memory.h"

using namespace weft;
using namespace weft::rpc;

namespace {

class Handler final : public OpHandler {
 public:
  void execute(Compound& compound, nfs4::OpArgs op, OpDone done) override {
    if (compound.client == nullptr) std::abort();
    if (const auto* read = std::get_if<nfs4::ReadArgs>(&op.args)) {
      if (read->count > compound.max_read) std::abort();
      nfs4::ReadOk ok;
      ok.data.append(ZeroRange{read->count});
      return done({op.op, nfs4::Status::NFS4_OK, std::move(ok), 0});
    }
    if (auto* write = std::get_if<nfs4::WriteArgs>(&op.args)) {
      const auto count = static_cast<std::uint32_t>(write->size());
      if (!write->piped.empty() && !write->data.empty()) std::abort();
      if (count % 2 == 0 && (!write->to_memory() || write->size() != count)) std::abort();
      return done({op.op, nfs4::Status::NFS4_OK, nfs4::WriteOk{count, write->stable, 1}, 0});
    }
    if (op.op == nfs4::Op::OP_PUTFH) return done({op.op, nfs4::Status::NFS4_OK, nfs4::None{}, 0});
    // Later, when the next record has come.
    if (op.op == nfs4::Op::OP_COMMIT) {
      held.push_back(std::move(done));
      return;
    }
    done(nfs4::failed(op.op, nfs4::Status::NFS4ERR_NOTSUPP));
  }
  [[nodiscard]] bool genuine(std::span<const std::byte> handle) const override {
    return !handle.empty() && handle[0] != std::byte{1};
  }
  void release() {
    for (OpDone& done : std::exchange(held, {})) {
      done({nfs4::Op::OP_COMMIT, nfs4::Status::NFS4_OK, nfs4::CommitOk{1}, 0});
    }
  }
  std::vector<OpDone> held;
};

class Client final : public ChannelUser {
 public:
  // Every answer is a well-formed reply.
  void on_record(ReceivedRecord received) override {
    const Buffer& record = received.bytes;
    xdr::Decoder in(record.span());
    if (!read_reply_xid(in)) std::abort();
    if (!read_reply_status(in)) return;
    if (in.remaining() == 0) return;  // NULL
    auto result = nfs4::decode_compound_result(in, record);
    if (!result || in.remaining() != 0) std::abort();
    for (const nfs4::OpResult& one : result->results) {
      if (const auto* created = std::get_if<nfs4::CreateSessionOk>(&one.ok))
        session = created->session;
      if (const auto* id = std::get_if<nfs4::ExchangeIdOk>(&one.ok)) client_id = id->client_id;
    }
  }
  void on_closed(const Error&) override { closed = true; }
  nfs4::SessionId session{};
  nfs4::ClientId client_id = 0;
  bool closed = false;
};

struct World {
  explicit World(bool pipes)
      : piping(pipes), random(1), network(pool, random), server(options(), handler, clock, random) {
    connect();
  }
  ~World() {
    handler.release();
    network.run();
  }

  static SessionServerOptions options() {
    SessionServerOptions out;
    out.server_major_id = "fuzz";
    out.max_clients = 4;
    out.max_running_per_connection = 3;
    return out;
  }
  void connect() {
    auto pair = network.connect();
    channel = pair.a;
    auto next = std::make_shared<Client>();
    if (client) {
      next->session = client->session;
      next->client_id = client->client_id;
    }
    client = std::move(next);
    channel->start(client);
    const auto look = [this](std::span<const std::byte> head, Standing of) {
      return server.look_at(head, of);
    };
    server.serve(piping ? std::make_shared<test::PipingChannel>(pair.b, pool, look) : pair.b);
  }
  Message call() {
    Message out;
    encode_call(out.bytes(), ++xid, nfs4::kProgram, nfs4::kVersion, 1, nullptr);
    return out;
  }
  void ask(nfs4::OpArgs op) {
    Message out = call();
    std::vector<nfs4::OpArgs> ops;
    ops.push_back(std::move(op));
    nfs4::encode_compound(out, 1, std::move(ops));
    channel->send(std::move(out));
    network.run();
  }

  static inline BufferPool pool{std::size_t{64} << 20};  // kept, so that its blocks are
  const bool piping;
  SeededRandom random;
  ManualClock clock;
  MemoryNetwork network;
  Handler handler;
  SessionServer server;
  std::shared_ptr<Channel> channel;
  std::shared_ptr<Client> client;
  std::uint32_t xid = 0;
};

void send_in_session(World& world, std::span<const std::byte> bytes) {
  // slot, sequence number, operations, then their bytes
  const auto at = [&](std::size_t i) {
    return i < bytes.size() ? std::to_integer<unsigned>(bytes[i]) : 0U;
  };
  Message out = world.call();
  nfs4::encode(out.bytes(), nfs4::CompoundHeader{{}, 1 + at(0) % 2, 1 + at(1) % 9});
  out.bytes().u32(static_cast<std::uint32_t>(nfs4::Op::OP_SEQUENCE));
  nfs4::encode(out.bytes(),
               nfs4::SequenceArgs{world.client->session, at(2), at(3) % 5, 4, at(4) % 2 != 0});
  out.bytes().raw(bytes.subspan(std::min<std::size_t>(5, bytes.size())));
  world.channel->send(std::move(out));
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  spdlog::set_level(spdlog::level::off);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  World world(size % 2 == 0);  // every second input: bulk data is left in pipes
  nfs4::ExchangeIdArgs exchange;
  exchange.owner.assign(4, std::byte{'f'});
  world.ask({nfs4::Op::OP_EXCHANGE_ID, exchange});
  nfs4::CreateSessionArgs create;
  create.client_id = world.client->client_id;
  create.sequence = 1;
  create.fore = {0, 8192, 8192, 2048, 8, 5, std::nullopt};
  world.ask({nfs4::Op::OP_CREATE_SESSION, create});

  auto bytes = std::as_bytes(std::span(data, size));
  while (bytes.size() >= 2) {
    const std::size_t length = std::min<std::size_t>(
        std::to_integer<std::size_t>(bytes[0]) << 8 | std::to_integer<std::size_t>(bytes[1]),
        bytes.size() - 2);
    const auto record = bytes.subspan(2, length);
    bytes = bytes.subspan(2 + length);
    if (world.client->closed) world.connect();
    if (!record.empty() && record[0] == std::byte{0xff}) {
      send_in_session(world, record.subspan(1));
    } else if (!record.empty() && record[0] == std::byte{0xfe}) {
      world.network.cut(world.network.connections() - 1);
    } else {
      xdr::Encoder raw;
      raw.raw(record);
      world.channel->send(Message(std::move(raw)));
    }
    world.network.run();
    if (length % 3 == 0) world.handler.release();
    world.clock.advance(std::chrono::seconds(1));
  }
  world.server.expire();
  return 0;
}
