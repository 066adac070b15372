// Raw NFSv4.1 calls to a SessionServer over an in-memory channel: the tests' own client, which
// sends what a real client never would.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <deque>

#include "rpc/onc/rpc_header.h"
#include "rpc/session/session_server.h"
#include "tests/rpc/session/hooked_clock.h"
#include "tests/rpc/session/memory_handler.h"
#include "tests/rpc/session/piping_channel.h"
#include "tests/rpc/transport/in_memory.h"

namespace weft::rpc::test {

class Inbox final : public ChannelUser {
 public:
  void on_record(ReceivedRecord record) override { records.push_back(std::move(record.bytes)); }
  void on_closed(const Error& why) override { closed = why; }
  std::deque<Buffer> records;
  std::optional<Error> closed;
};

class Wire {
  const bool piping_;

 public:
  // piping: what a WRITE brings is left in a pipe on its way to the server.
  explicit Wire(std::uint64_t seed = 1, SessionServerOptions options = defaults(),
                OpHandler* handler = nullptr, bool piping = false)
      : piping_(piping),
        random(seed),
        network(pool, random),
        memory(pool),
        server(std::move(options), handler == nullptr ? memory : *handler, clock, random) {
    connect();
  }

  static SessionServerOptions defaults() {
    SessionServerOptions options;
    options.server_major_id = "wire";
    return options;
  }

  // A further connection; calls go over the newest.
  void connect() {
    auto pair = network.connect();
    channel = pair.a;
    inbox = std::make_shared<Inbox>();
    channel->start(inbox);
    server.serve(piping_ ? std::make_shared<PipingChannel>(pair.b, pool) : pair.b);
  }

  static xdr::Encoder call_header(std::uint32_t xid) {
    xdr::Encoder out;
    const AuthSys auth{.stamp = 0, .machine = "test", .uid = 0, .gid = 0, .groups = {}};
    encode_call(out, xid, nfs4::kProgram, nfs4::kVersion, 1, &auth);
    return out;
  }

  void send(std::vector<nfs4::OpArgs> ops, std::uint32_t minor = 1) {
    Message call(call_header(++xid));
    nfs4::encode_compound(call, minor, std::move(ops));
    channel->send(std::move(call));
  }

  // The next answer, nullopt when none came.
  std::optional<nfs4::CompoundResult> answer() {
    REQUIRE(network.run());
    if (inbox->records.empty()) return std::nullopt;
    last = std::move(inbox->records.front());
    inbox->records.pop_front();
    xdr::Decoder in(last.span());
    REQUIRE(read_reply_xid(in));
    REQUIRE(read_reply_status(in));
    auto result = nfs4::decode_compound_result(in, last);
    REQUIRE(result);
    return std::move(*result);
  }

  nfs4::CompoundResult ask(std::vector<nfs4::OpArgs> ops, std::uint32_t minor = 1) {
    send(std::move(ops), minor);
    auto result = answer();
    REQUIRE(result);
    return std::move(*result);
  }

  template <class... Op>
  static std::vector<nfs4::OpArgs> list(Op... op) {
    std::vector<nfs4::OpArgs> out;
    (out.push_back(std::move(op)), ...);
    return out;
  }

  static nfs4::OpArgs exchange_id(std::string_view owner = "client", nfs4::Verifier verifier = 1) {
    nfs4::ExchangeIdArgs args;
    const auto bytes = std::as_bytes(std::span(owner));
    args.owner.assign(bytes.begin(), bytes.end());
    args.verifier = verifier;
    args.flags = nfs4::EXCHGID4_FLAG_USE_PNFS_DS;
    return {nfs4::Op::OP_EXCHANGE_ID, std::move(args)};
  }

  nfs4::OpArgs create(nfs4::ClientId client, std::uint32_t sequence) const {
    nfs4::CreateSessionArgs args;
    args.client_id = client;
    args.sequence = sequence;
    args.fore = {0, largest_request, 1 << 20, 4096, 8, 4, std::nullopt};
    args.back = {0, 4096, 4096, 0, 2, 1, std::nullopt};
    return {nfs4::Op::OP_CREATE_SESSION, args};
  }

  // EXCHANGE_ID and CREATE_SESSION; `session` and `client_id` are set.
  void establish(std::string_view owner = "client") {
    auto exchanged = ask(list(exchange_id(owner)));
    auto* id = exchanged.get<nfs4::ExchangeIdOk>(0);
    REQUIRE(id != nullptr);
    client_id = id->client_id;
    create_sequence = id->sequence;
    auto created = ask(list(create(client_id, create_sequence)));
    auto* ok = created.get<nfs4::CreateSessionOk>(0);
    REQUIRE(ok != nullptr);
    session = ok->session;
  }

  nfs4::OpArgs sequence(std::uint32_t slot, std::uint32_t number, bool cache = false) const {
    return {nfs4::Op::OP_SEQUENCE, nfs4::SequenceArgs{session, number, slot, slot, cache}};
  }

  static nfs4::OpArgs put_fh(std::string_view name) {
    return {nfs4::Op::OP_PUTFH, nfs4::PutFhArgs{nfs4::FileHandle(std::as_bytes(std::span(name)))}};
  }

  nfs4::OpArgs write(std::uint64_t offset, std::size_t size) {
    nfs4::WriteArgs args;
    args.offset = offset;
    auto data = pool.allocate(size);
    REQUIRE(data);
    std::fill_n(data->data(), size, std::byte{0x5a});
    args.data.push_back(std::move(*data));
    return {nfs4::Op::OP_WRITE, std::move(args)};
  }

  static nfs4::OpArgs read(std::uint64_t offset, std::uint32_t count) {
    return {nfs4::Op::OP_READ, nfs4::ReadArgs{{}, offset, count}};
  }

  BufferPool pool{std::size_t{64} << 20};
  SeededRandom random;
  HookedClock clock;
  MemoryNetwork network;
  MemoryHandler memory;
  SessionServer server;
  std::shared_ptr<Channel> channel;
  std::shared_ptr<Inbox> inbox;
  Buffer last;
  std::uint32_t xid = 0;
  std::uint32_t largest_request = 1 << 20;
  nfs4::ClientId client_id = 0;
  std::uint32_t create_sequence = 0;
  nfs4::SessionId session{};
};

}  // namespace weft::rpc::test
