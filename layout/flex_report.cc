#include "layout/flex_report.h"

#include <string_view>

#include "rpc/base/assert.h"

namespace weft::layout {
namespace {

constexpr std::size_t kMaxNetid = 16;
constexpr std::size_t kMaxUniversal = 128;
constexpr std::size_t kMaxHandle = 128;
constexpr std::uint32_t kNanoseconds = 1'000'000'000;

void put(xdr::Encoder& out, const DeviceError& error) {
  out.fixed(error.device);
  out.u32(error.status);
  out.u32(error.op);
}

void get(xdr::Decoder& in, DeviceError& error) {
  in.fixed(error.device);
  error.status = in.u32();
  error.op = in.u32();
}

void get(xdr::Decoder& in, FlexIoError& error);
void get(xdr::Decoder& in, FlexStats& stats);
void put(xdr::Encoder& out, const FlexIoError& error);
void put(xdr::Encoder& out, const FlexStats& stats);

template <class T>
void get_list(xdr::Decoder& in, std::vector<T>& list, std::size_t max) {
  const std::uint32_t count = in.count(max);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) get(in, list.emplace_back());
}

template <class T>
void put_list(xdr::Encoder& out, const std::vector<T>& list, std::size_t max) {
  WEFT_ASSERT(list.size() <= max);
  out.u32(static_cast<std::uint32_t>(list.size()));
  for (const T& one : list) put(out, one);
}

void put(xdr::Encoder& out, const FlexIoError& error) {
  out.u64(error.offset);
  out.u64(error.length);
  out.fixed(error.stateid);
  put_list(out, error.errors, kMaxFlexDeviceErrors);
}

void get(xdr::Decoder& in, FlexIoError& error) {
  error.offset = in.u64();
  error.length = in.u64();
  in.fixed(error.stateid);
  get_list(in, error.errors, kMaxFlexDeviceErrors);
}

void put(xdr::Encoder& out, const FlexTime& time) {
  out.i64(time.seconds);
  out.u32(time.nanoseconds);
}

void get(xdr::Decoder& in, FlexTime& time) {
  time.seconds = in.i64();
  time.nanoseconds = in.u32();
  if (time.nanoseconds >= kNanoseconds) in.reject();
}

void put(xdr::Encoder& out, const FlexLatency& latency) {
  out.u64(latency.ops_requested);
  out.u64(latency.bytes_requested);
  out.u64(latency.ops_completed);
  out.u64(latency.bytes_completed);
  out.u64(latency.bytes_not_delivered);
  put(out, latency.busy);
  put(out, latency.completion);
}

void get(xdr::Decoder& in, FlexLatency& latency) {
  latency.ops_requested = in.u64();
  latency.bytes_requested = in.u64();
  latency.ops_completed = in.u64();
  latency.bytes_completed = in.u64();
  latency.bytes_not_delivered = in.u64();
  get(in, latency.busy);
  get(in, latency.completion);
}

void get(xdr::Decoder& in, FlexUpdate& update) {
  update.netid = in.string(kMaxNetid);
  update.universal_address = in.string(kMaxUniversal);
  const auto handle = in.opaque(kMaxHandle);
  update.handle.assign(handle.begin(), handle.end());
  get(in, update.read);
  get(in, update.write);
  get(in, update.duration);
  update.local = in.boolean();
}

void put(xdr::Encoder& out, const FlexUpdate& update) {
  WEFT_ASSERT(update.netid.size() <= kMaxNetid && update.handle.size() <= kMaxHandle);
  WEFT_ASSERT(update.universal_address.size() <= kMaxUniversal);
  out.string(update.netid);
  out.string(update.universal_address);
  out.opaque(update.handle);
  put(out, update.read);
  put(out, update.write);
  put(out, update.duration);
  out.boolean(update.local);
}

void put(xdr::Encoder& out, const FlexStats& stats) {
  out.u64(stats.offset);
  out.u64(stats.length);
  out.fixed(stats.stateid);
  out.u64(stats.reads);
  out.u64(stats.read_bytes);
  out.u64(stats.writes);
  out.u64(stats.write_bytes);
  out.fixed(stats.device);
  put(out, stats.update);
}

void get(xdr::Decoder& in, FlexStats& stats) {
  stats.offset = in.u64();
  stats.length = in.u64();
  in.fixed(stats.stateid);
  stats.reads = in.u64();
  stats.read_bytes = in.u64();
  stats.writes = in.u64();
  stats.write_bytes = in.u64();
  in.fixed(stats.device);
  get(in, stats.update);
}

Result<> whole(const xdr::Decoder& in, std::string_view what) {
  if (auto read = in.finish(what); !read) return read;
  if (in.remaining() != 0) return fail(Errc::kProtocol, "bytes after the " + std::string(what));
  return {};
}

}  // namespace

void encode(xdr::Encoder& out, const FlexReturn& report) {
  put_list(out, report.errors, kMaxFlexErrors);
  put_list(out, report.stats, kMaxFlexStats);
}

Result<FlexReturn> decode_flex_return(std::span<const std::byte> body) {
  FlexReturn report;
  if (body.empty()) return report;
  xdr::Decoder in(body);
  get_list(in, report.errors, kMaxFlexErrors);
  get_list(in, report.stats, kMaxFlexStats);
  if (auto read = whole(in, "flexfiles layout return"); !read) return pass(read);
  return report;
}

}  // namespace weft::layout
