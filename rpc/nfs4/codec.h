// encode() and decode() of the basic NFSv4 types.
//
// Every wire type T of this folder has `void encode(xdr::Encoder&, const T&)` and
// `void decode(xdr::Decoder&, T&)`. Decoding never throws and never stops half way: a failure is
// remembered in the Decoder (ok()), and the value holds zeros from there on. Types that carry bulk
// data (READ's reply, WRITE's arguments) differ: see io_ops.h.
//
// Threading: pure functions.
#pragma once

#include <vector>

#include "rpc/nfs4/types.h"
#include "rpc/xdr/xdr.h"

namespace weft::rpc::nfs4 {

void encode(xdr::Encoder& out, const Stateid& stateid);
void decode(xdr::Decoder& in, Stateid& stateid);
void encode(xdr::Encoder& out, const FileHandle& handle);
void decode(xdr::Decoder& in, FileHandle& handle);
void encode(xdr::Encoder& out, const Time& time);
void decode(xdr::Decoder& in, Time& time);
void encode(xdr::Encoder& out, const ChangeInfo& change);
void decode(xdr::Decoder& in, ChangeInfo& change);

template <std::size_t N>
void encode(xdr::Encoder& out, const std::array<std::byte, N>& bytes) {
  out.fixed(bytes);
}
template <std::size_t N>
void decode(xdr::Decoder& in, std::array<std::byte, N>& bytes) {
  in.fixed(bytes);
}

// An enumeration's word; the Decoder is rejected unless lowest <= word <= highest.
template <class Enum>
void decode_enum(xdr::Decoder& in, Enum& value, Enum lowest, Enum highest) {
  const std::uint32_t word = in.u32();
  if (word < static_cast<std::uint32_t>(lowest) || word > static_cast<std::uint32_t>(highest)) {
    in.reject();
  }
  value = in.ok() ? static_cast<Enum>(word) : lowest;
}
template <class Enum>
void encode_enum(xdr::Encoder& out, Enum value) {
  out.u32(static_cast<std::uint32_t>(value));
}

// opaque<max> as a vector of its own.
[[nodiscard]] std::vector<std::byte> decode_bytes(xdr::Decoder& in, std::size_t max);

}  // namespace weft::rpc::nfs4
