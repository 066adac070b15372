// Records between a data server and a target by RDMA, where one of the two follows the input as a
// script. A hostile data server, one that has not said who it is, sends calls of its own choosing
// below call_by_rdma(); a hostile target answers with its own below answer_by_rdma(). The other end
// is ours, and both are over the ends of RPC over RDMA and a double of a device.
#include <boost/asio/io_context.hpp>
#include <cstring>
#include <deque>
#include <memory>

#include "dataserver/targets/messages.h"
#include "dataserver/targets/rdma_records.h"
#include "rpc/transport/rdma/client_channel.h"
#include "rpc/transport/rdma/server_channel.h"
#include "tests/fuzz/script.h"
#include "tests/rpc/transport/rdma/fake_pair.h"

using namespace weft;
using namespace weft::ds;
using weft::rpc::Message;
using weft::test::must;
using weft::test::Script;

namespace {

constexpr std::size_t kCredits = 4;
constexpr std::size_t kExposed = std::size_t{256} << 10;
constexpr std::size_t kNumber = 4;
constexpr std::size_t kKind = 12;  // an operation and a tag

BufferPool& pool() {
  // Kept, so that its blocks are.
  static BufferPool kept(
      std::size_t{16} << 20,
      std::make_shared<Arena>(SharedMemory::create(std::size_t{32} << 20, "fuzz").value()));
  return kept;
}

void add_bulk(Message& out, std::size_t size) {
  if (size == 0) return;
  Payload payload;
  payload.append(ZeroRange{size});
  out.splice(std::move(payload));
  out.bytes().raw(std::vector<std::byte>(xdr::padded(size) - size));
}

// One of few, so that some are alike.
void add_kind(Message& out, Script& script) {
  out.bytes().u32(1U + script.byte() % 14U);
  out.bytes().u64(script.byte() % 4U);
}

// An end that keeps what it is given: every record, or the first words of it.
struct Taker : rpc::ChannelUser {
  void on_record(rpc::ReceivedRecord record) override {
    const Buffer& head = record.bytes;
    const std::vector<Buffer>& bulk = record.apart.lent;
    must(closed == 0 && head.size() >= least);
    std::size_t beyond = 0;
    for (const Buffer& part : bulk) {
      must(!part.empty());
      beyond += part.size();
    }
    look(head.span(), beyond);
    heads.emplace_back(head.span().begin(), head.span().end());
  }
  void on_closed(const Error& /*why*/) override { ++closed; }
  // What is done with it first.
  virtual void look(std::span<const std::byte> /*head*/, std::size_t /*beyond*/) {}

  std::size_t least = kNumber;
  std::deque<std::vector<std::byte>> heads;
  int closed = 0;
};

// --- The ends that are ours ----------------------------------------------------------------------

struct OurTarget final : Taker {
  OurTarget() { least = kKind; }
  void look(std::span<const std::byte> head, std::size_t beyond) override {
    if (const auto request = decode_request(head, beyond)) must(request->bulk <= head.size());
  }
  // Of the oldest call, or the newest; now and then of none.
  void answer(rpc::Channel& channel, Script& script) {
    const unsigned how = script.byte();
    Message out;
    if (heads.empty() || how % 64 == 0) {
      add_kind(out, script);
    } else {
      const bool newest = how % 2 == 0;
      const auto& head = newest ? heads.back() : heads.front();
      out.bytes().raw(std::span(head).first(kKind));
      newest ? heads.pop_back() : heads.pop_front();
    }
    add_bulk(out, how % 8 == 1 ? script.word() % 70'000 : how);
    channel.send(std::move(out));
  }
};

struct OurDataServer final : Taker {
  OurDataServer() { least = 1; }
  void look(std::span<const std::byte> head, std::size_t beyond) override {
    if (const auto response = decode_response(head, beyond)) must(response->bulk <= head.size());
    static_cast<void>(decode_challenge(head));
    must(++answers <= calls);
  }
  void call(rpc::Channel& channel, Script& script) {
    Message out;
    add_kind(out, script);
    const unsigned how = script.byte();
    add_bulk(out, how % 4 == 0 ? script.word() % 70'000 : how);
    if (how % 3 == 0) out.expect_bulk(1 + script.word() % 70'000);
    ++calls;
    channel.send(std::move(out));
  }
  std::size_t calls = 1;  // the one that is of the channel's own
  std::size_t answers = 0;
};

// --- The hostile ones ----------------------------------------------------------------------------

struct Stage {
  Stage(Script& script, bool hostile_target) : hostile_target_(hostile_target) {
    pair->max_work = 2U + script.byte() % 8U;
    pair->max_send_bytes = 1024U << (script.byte() % 3U);
    rpc::rdma::Limits limits{.credits = kCredits};
    if (!hostile_target) limits.standing = Standing::kStranger;
    answering = rpc::rdma::serve(context, pool(), pair->serving(), limits);
    calling = rpc::rdma::call_over(context, pool(), pair->calling(), {.credits = kCredits});
    (hostile_target ? calling : answering) =
        hostile_target ? call_by_rdma(std::move(calling)) : answer_by_rdma(std::move(answering));
    answering->start(hostile_target ? hostile : std::static_pointer_cast<Taker>(target));
    calling->start(hostile_target ? std::static_pointer_cast<Taker>(data_server) : hostile);
    turn();
  }
  void turn() {
    context.restart();
    for (int i = 0; i < 256 && context.poll_one() > 0; ++i) {
    }
  }

  // Numbers come again, before their calls are answered too.
  void call(Script& script) {
    Message out;
    const unsigned how = script.byte();
    out.bytes().u32(script.byte() % 8);
    if (how % 8 == 0) {
      out.bytes().u32(script.byte() % 2);
    } else {
      add_kind(out, script);
    }
    for (int i = how % 8; i > 0; --i) out.bytes().u32(script.byte());
    if (how % 3 == 0) add_bulk(out, script.word() % 9000);
    if (how % 5 == 0) out.expect_bulk(1 + script.word() % 9000);
    calling->send(std::move(out));
  }
  void answer(Script& script) {
    if (hostile->heads.empty()) return;
    const auto head = std::move(hostile->heads.front());
    hostile->heads.pop_front();
    const unsigned how = script.byte();
    Message out;
    out.bytes().raw(std::span(head).first(kNumber));
    if (how % 4 == 0 || head.size() < kNumber + kKind) {
      out.bytes().u32(script.byte());
    } else {
      out.bytes().raw(std::span(head).subspan(kNumber, kKind));
    }
    for (int i = how % 16; i > 0; --i) out.bytes().u32(script.byte());
    if (how % 3 == 0) add_bulk(out, script.word() % 9000);
    answering->send(std::move(out));
  }
  void act(Script& script) {
    const unsigned what = script.byte() % 16;
    rpc::Channel& ours = hostile_target_ ? *calling : *answering;
    if (what == 0) {
      if (script.byte() % 8 == 0) pair->hold = true;
    } else if (what == 1) {
      ours.pause();
    } else if (what == 2) {
      ours.resume();
    } else if (what == 3) {
      if (script.byte() % 8 == 0) ours.close({Errc::kClosed, {}}, script.byte() % 2 == 0);
    } else if (what == 4) {
      static_cast<void>(ours.promote(Standing::kServer));
    } else if (what < 10) {
      hostile_target_ ? data_server->call(ours, script) : target->answer(ours, script);
    } else {
      hostile_target_ ? answer(script) : call(script);
    }
  }
  [[nodiscard]] bool over() const { return hostile->closed > 0; }

  const bool hostile_target_;
  boost::asio::io_context context{1};
  std::shared_ptr<rpc::rdma::FakePair> pair =
      std::make_shared<rpc::rdma::FakePair>(context, pool(), kExposed);
  std::shared_ptr<Taker> hostile = std::make_shared<Taker>();
  std::shared_ptr<OurTarget> target = std::make_shared<OurTarget>();
  std::shared_ptr<OurDataServer> data_server = std::make_shared<OurDataServer>();
  std::shared_ptr<rpc::Channel> answering;
  std::shared_ptr<rpc::Channel> calling;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  {
    Script script{data, size};
    const bool hostile_target = script.byte() % 2 == 0;
    Stage stage(script, hostile_target);
    for (int step = 0; step < 200 && script.left > 0 && !stage.over(); ++step) {
      stage.act(script);
      if (script.byte() % 4 != 0) stage.turn();
    }
    stage.pair->cut();
    stage.turn();
    must(stage.hostile->closed == 1);
    must(stage.target->closed + stage.data_server->closed == 1);
    stage.calling.reset();
    stage.answering.reset();
  }
  must(pool().in_use_bytes() == 0);  // no memory is lost, whatever either did
  return 0;
}
