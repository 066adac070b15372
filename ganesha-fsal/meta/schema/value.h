// How values of the metadata store begin and end: a version word first, nothing after the last
// field. In between a described record (rpc/xdr/describe.h), as a rule.
//
// Threading: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "rpc/base/error.h"
#include "rpc/xdr/describe.h"
#include "rpc/xdr/xdr.h"

namespace weft::mds::value {

constexpr std::uint32_t kVersion = 1;

[[nodiscard]] inline xdr::Encoder begin(std::size_t reserve_bytes) {
  xdr::Encoder out(reserve_bytes);
  out.u32(kVersion);
  return out;
}

[[nodiscard]] inline std::string finish(const xdr::Encoder& out) {
  const auto bytes = out.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Takes the version word. kCorrupt without one, kNotSupported for a later one.
[[nodiscard]] inline Result<xdr::Decoder> open(std::string_view value, std::string_view what) {
  xdr::Decoder in(std::as_bytes(std::span(value.data(), value.size())));
  const std::uint32_t version = in.u32();
  if (!in.ok() || version == 0) return fail(Errc::kCorrupt, "no version in " + std::string(what));
  if (version > kVersion) {
    return fail(Errc::kNotSupported, std::string(what) + " of a later version");
  }
  return in;
}

// kCorrupt unless everything decoded and nothing is left.
[[nodiscard]] inline Result<> end(const xdr::Decoder& in, std::string_view what) {
  if (in.ok() && in.remaining() == 0) return {};
  return fail(Errc::kCorrupt, "malformed " + std::string(what));
}

template <class Record>
[[nodiscard]] std::string write(const Record& record, std::size_t reserve_bytes) {
  xdr::Encoder out = begin(reserve_bytes);
  xdr::put(out, record);
  return finish(out);
}

template <class Record>
[[nodiscard]] Result<Record> read(std::string_view value, std::string_view what) {
  auto in = open(value, what);
  if (!in) return pass(in);
  Record record;
  xdr::get(*in, record);
  if (auto done = end(*in, what); !done) return pass(done);
  return record;
}

}  // namespace weft::mds::value
