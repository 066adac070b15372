// The codecs: whatever is encoded decodes to the same, whole and in every truncation.
#include "rpc/nfs4/compound.h"

#include <rapidcheck.h>

#include <catch2/catch_test_macros.hpp>

#include "rpc/nfs4/payload_locator.h"
#include "rpc/onc/rpc_header.h"

using namespace weft;
using namespace weft::rpc;
using namespace weft::rpc::nfs4;

namespace {

std::uint32_t any32() { return *rc::gen::arbitrary<std::uint32_t>(); }
std::uint64_t any64() { return *rc::gen::arbitrary<std::uint64_t>(); }
bool flip() { return *rc::gen::arbitrary<bool>(); }

std::vector<std::byte> any_bytes(int max) {
  std::vector<std::byte> out(static_cast<std::size_t>(*rc::gen::inRange(0, max + 1)));
  for (auto& b : out) b = static_cast<std::byte>(any32());
  return out;
}
std::string any_name() {
  const auto bytes = any_bytes(40);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
Stateid any_stateid() {
  Stateid out;
  out.seqid = any32();
  for (auto& b : out.other) b = static_cast<std::byte>(any32());
  return out;
}
template <std::size_t N>
std::array<std::byte, N> any_id() {
  std::array<std::byte, N> out;
  for (auto& b : out) b = static_cast<std::byte>(any32());
  return out;
}
Time any_time() { return {static_cast<std::int64_t>(any64()), any32()}; }
ChangeInfo any_change() { return {flip(), any64(), any64()}; }
AttrMask any_mask() {
  AttrMask out;
  for (auto& word : out.words()) word = any32();
  return out;
}
std::optional<ImplId> any_impl() {
  if (flip()) return std::nullopt;
  return ImplId{any_name(), any_name(), any_time()};
}
ChannelAttrs any_channel() {
  ChannelAttrs out{any32(), any32(), any32(), any32(), any32(), any32(), std::nullopt};
  if (flip()) out.rdma_ird = any32();
  return out;
}
Attributes any_attributes() {
  Attributes out;
  if (flip()) out.supported = any_mask();
  if (flip()) out.type = FileType::NF4DIR;
  if (flip()) out.change = any64();
  if (flip()) out.size = any64();
  if (flip()) out.fsid = {any64(), any64()};
  if (flip()) out.lease_time_s = any32();
  if (flip()) out.fileid = any64();
  if (flip()) out.mode = any32();
  if (flip()) out.owner = any_name();
  if (flip()) out.owner_group = any_name();
  if (flip()) out.time_modify = any_time();
  if (flip()) out.layout_types = std::vector<std::uint32_t>{1, 4};
  if (flip()) out.layout_block_size = any32();
  return out;
}

// A record holding what `write` encodes.
struct Wired {
  explicit Wired(const Message& message) : pool(std::size_t{8} << 20) {
    const auto bytes = message.flatten();
    RC_ASSERT(bytes.has_value());
    auto buffer = pool.allocate(bytes->size());
    RC_ASSERT(buffer.has_value());
    std::copy(bytes->begin(), bytes->end(), buffer->data());
    record = std::move(*buffer);
  }
  BufferPool pool;
  Buffer record;
};

template <class Args>
void round_trip_args(Op op, const Args& args) {
  Message out;
  encode(out, OpArgs{op, args});
  const Wired wired(out);
  xdr::Decoder in(wired.record.span());
  const OpArgs back = decode_op(in, wired.record);
  RC_ASSERT(in.ok());
  RC_ASSERT(in.remaining() == 0U);
  RC_ASSERT(back.op == op);
  RC_ASSERT(std::holds_alternative<Args>(back.args));
  RC_ASSERT(std::get<Args>(back.args) == args);
  for (std::size_t size = 0; size < wired.record.size(); ++size) {
    const auto part = wired.record.share(0, size);
    xdr::Decoder cut(part->span());
    static_cast<void>(decode_op(cut, *part));
    RC_ASSERT(!cut.ok());
  }
}

template <class Ok>
void round_trip_ok(Op op, const Ok& ok) {
  Message out;
  encode(out, OpResult{op, Status::NFS4_OK, ok, 0});
  const Wired wired(out);
  xdr::Decoder in(wired.record.span());
  const OpResult back = decode_result(in, wired.record);
  RC_ASSERT(in.ok());
  RC_ASSERT(in.remaining() == 0U);
  RC_ASSERT(std::get<Ok>(back.ok) == ok);
}

}  // namespace

TEST_CASE("session operations round trip") {
  REQUIRE(rc::check([] {
    ExchangeIdArgs exchange;
    exchange.verifier = any64();
    exchange.owner = any_bytes(100);
    exchange.flags = any32();
    exchange.impl = any_impl();
    round_trip_args(Op::OP_EXCHANGE_ID, exchange);
    round_trip_args(
        Op::OP_CREATE_SESSION,
        CreateSessionArgs{any64(), any32(), any32(), any_channel(), any_channel(), any32()});
    round_trip_args(Op::OP_SEQUENCE, SequenceArgs{any_id<16>(), any32(), any32(), any32(), flip()});
    round_trip_args(Op::OP_DESTROY_SESSION, DestroySessionArgs{any_id<16>()});
    round_trip_args(Op::OP_BIND_CONN_TO_SESSION,
                    BindConnArgs{any_id<16>(), BindDirection::FORE_OR_BOTH, flip()});
    round_trip_args(Op::OP_DESTROY_CLIENTID, DestroyClientIdArgs{any64()});
    round_trip_args(Op::OP_RECLAIM_COMPLETE, ReclaimCompleteArgs{flip()});
    round_trip_ok(Op::OP_EXCHANGE_ID, ExchangeIdOk{any64(), any32(), any32(), any64(),
                                                   any_bytes(50), any_bytes(50), any_impl()});
    round_trip_ok(Op::OP_CREATE_SESSION,
                  CreateSessionOk{any_id<16>(), any32(), any32(), any_channel(), any_channel()});
    round_trip_ok(Op::OP_SEQUENCE,
                  SequenceOk{any_id<16>(), any32(), any32(), any32(), any32(), any32()});
    round_trip_ok(Op::OP_BIND_CONN_TO_SESSION, BindConnOk{any_id<16>(), any32(), flip()});
  }));
}

TEST_CASE("file operations round trip") {
  REQUIRE(rc::check([] {
    round_trip_args(Op::OP_PUTFH, PutFhArgs{FileHandle(any_bytes(128))});
    round_trip_args(Op::OP_LOOKUP, LookupArgs{any_name()});
    OpenArgs open;
    open.share_access = any32();
    open.owner = any_bytes(60);
    if (flip()) open.create = OpenCreate{CreateMode::GUARDED4, any_attributes()};
    open.claim = flip() ? OpenClaim::CLAIM_NULL : OpenClaim::CLAIM_FH;
    if (open.claim == OpenClaim::CLAIM_NULL) open.name = any_name();
    round_trip_args(Op::OP_OPEN, open);
    round_trip_args(Op::OP_CLOSE, CloseArgs{any32(), any_stateid()});
    round_trip_args(Op::OP_GETATTR, GetAttrArgs{any_mask()});
    round_trip_args(Op::OP_CREATE, CreateArgs{FileType::NF4DIR, any_name(), any_attributes()});
    round_trip_args(Op::OP_REMOVE, RemoveArgs{any_name()});
    round_trip_args(Op::OP_RENAME, RenameArgs{any_name(), any_name()});
    round_trip_args(Op::OP_READDIR, ReadDirArgs{any64(), any64(), any32(), any32(), any_mask()});
    round_trip_ok(Op::OP_GETFH, GetFhOk{FileHandle(any_bytes(128))});
    round_trip_ok(Op::OP_OPEN, OpenOk{any_stateid(), any_change(), any32(), any_mask()});
    round_trip_ok(Op::OP_CLOSE, CloseOk{any_stateid()});
    round_trip_ok(Op::OP_GETATTR, GetAttrOk{any_attributes()});
    round_trip_ok(Op::OP_CREATE, CreateOk{any_change(), any_mask()});
    round_trip_ok(Op::OP_REMOVE, RemoveOk{any_change()});
    round_trip_ok(Op::OP_RENAME, RenameOk{any_change(), any_change()});
    ReadDirOk read{any64(), {}, flip()};
    while (flip()) read.entries.push_back({any64(), any_name(), any_attributes()});
    round_trip_ok(Op::OP_READDIR, read);
  }));
}

TEST_CASE("layout and I/O operations round trip") {
  REQUIRE(rc::check([] {
    const auto type = LayoutType::LAYOUT4_FLEX_FILES;
    const auto mode = IoMode::LAYOUTIOMODE4_RW;
    round_trip_args(Op::OP_LAYOUTGET, LayoutGetArgs{flip(), type, mode, any64(), any64(), any64(),
                                                    any_stateid(), any32()});
    round_trip_args(Op::OP_LAYOUTRETURN, LayoutReturnArgs{flip(), type, mode, any64(), any64(),
                                                          any_stateid(), any_bytes(80)});
    LayoutCommitArgs commit{any64(), any64(), flip(), any_stateid(), {}, {}, 1, any_bytes(20)};
    if (flip()) commit.last_write_offset = any64();
    if (flip()) commit.time_modify = any_time();
    round_trip_args(Op::OP_LAYOUTCOMMIT, commit);
    round_trip_args(Op::OP_GETDEVICEINFO, GetDeviceInfoArgs{any_id<16>(), type, any32(), any32()});
    LayoutGetOk got{flip(), any_stateid(), {}};
    got.segments.push_back({any64(), any64(), mode, 1, any_bytes(100)});
    round_trip_ok(Op::OP_LAYOUTGET, got);
    round_trip_ok(Op::OP_LAYOUTRETURN, flip() ? LayoutReturnOk{any_stateid()} : LayoutReturnOk{});
    round_trip_ok(Op::OP_LAYOUTCOMMIT, flip() ? LayoutCommitOk{any64()} : LayoutCommitOk{});
    round_trip_ok(Op::OP_GETDEVICEINFO, GetDeviceInfoOk{any32(), any_bytes(200), any32()});
    round_trip_args(Op::OP_READ, ReadArgs{any_stateid(), any64(), any32()});
    round_trip_args(Op::OP_COMMIT, CommitArgs{any64(), any32()});
    round_trip_ok(Op::OP_WRITE, WriteOk{any32(), StableHow::FILE_SYNC4, any64()});
    round_trip_ok(Op::OP_COMMIT, CommitOk{any64()});
  }));
}

TEST_CASE("a WRITE's payload is shared with its record, and found on its page") {
  BufferPool pool(std::size_t{8} << 20);
  for (const std::size_t size : {0, 1, 3, 4096, 100'001}) {
    WriteArgs write;
    write.offset = 77;
    if (size > 0) {
      auto data = pool.allocate(size);
      REQUIRE(data);
      std::fill_n(data->data(), size, std::byte{0xab});
      write.data.push_back(std::move(*data));
    }
    Message call;
    encode_call(call.bytes(), 1, kProgram, kVersion, 1, nullptr);
    std::vector<OpArgs> ops;
    ops.push_back({Op::OP_SEQUENCE, SequenceArgs{}});
    ops.push_back({Op::OP_PUTFH, PutFhArgs{FileHandle(std::as_bytes(std::span("handle")))}});
    ops.push_back({Op::OP_WRITE, std::move(write)});
    encode_compound(call, 1, std::move(ops));
    const Wired wired(call);
    const auto begin = wired.record.span().first(std::min<std::size_t>(wired.record.size(), 512));
    const std::size_t at = locate_payload(begin);
    REQUIRE(at > 0);
    const auto handle = locate_handle(begin);
    REQUIRE(handle);
    CHECK(std::ranges::equal(*handle, std::as_bytes(std::span("handle"))));
    xdr::Decoder in(wired.record.span());
    REQUIRE(read_call(in, {kProgram, 4, 4, 1}));
    CompoundHeader header;
    decode(in, header);
    REQUIRE(header.op_count == 3);
    static_cast<void>(decode_op(in, wired.record));
    static_cast<void>(decode_op(in, wired.record));
    const OpArgs op = decode_op(in, wired.record);
    REQUIRE(in.ok());
    CHECK(in.remaining() == 0);
    const auto& back = std::get<WriteArgs>(op.args);
    CHECK(back.size() == size);
    if (size > 0) CHECK(back.data[0].data() == wired.record.data() + at);
  }
}

TEST_CASE("the handle of a WRITE is found behind SEQUENCE, and that of no other call") {
  const auto found = [](std::vector<OpArgs> ops, std::size_t cut = 0) {
    Message call;
    encode_call(call.bytes(), 1, kProgram, kVersion, 1, nullptr);
    encode_compound(call, 1, std::move(ops));
    const Wired wired(call);
    return locate_handle(wired.record.span().first(wired.record.size() - cut)).has_value();
  };
  const auto ops = [](auto... op) {
    std::vector<OpArgs> out;
    (out.push_back({op, {}}), ...);
    for (OpArgs& one : out) {
      if (one.op == Op::OP_SEQUENCE) one.args = SequenceArgs{};
      if (one.op == Op::OP_PUTFH) one.args = PutFhArgs{};
      if (one.op == Op::OP_WRITE) one.args = WriteArgs{};
      if (one.op == Op::OP_READ) one.args = ReadArgs{};
    }
    return out;
  };
  using enum Op;
  CHECK(found(ops(OP_SEQUENCE, OP_PUTFH, OP_WRITE)));
  constexpr std::size_t kArguments = 16 + 8 + 4 + 4;  // of a WRITE without data
  CHECK(found(ops(OP_SEQUENCE, OP_PUTFH, OP_WRITE), kArguments));
  CHECK_FALSE(found(ops(OP_SEQUENCE, OP_PUTFH, OP_WRITE), kArguments + 4));
  CHECK_FALSE(found(ops(OP_SEQUENCE, OP_PUTFH, OP_READ)));
  CHECK_FALSE(found(ops(OP_SEQUENCE, OP_WRITE)));
  CHECK_FALSE(found(ops(OP_PUTFH, OP_WRITE)));
  CHECK_FALSE(found(ops(OP_SEQUENCE)));
  CHECK_FALSE(found({}));
}

TEST_CASE("status codes survive the way out and back where both sides name them") {
  for (const Errc code : {Errc::kNotFound, Errc::kNoSpace, Errc::kIo, Errc::kAccess, Errc::kStale,
                          Errc::kBadHandle, Errc::kGrace, Errc::kBadStateid, Errc::kBusy}) {
    CHECK(errc_from(status_from(code)) == code);
  }
  CHECK(status_from(Errc::kFenced) == Status::NFS4ERR_ACCESS);
}
