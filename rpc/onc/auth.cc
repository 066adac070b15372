#include "rpc/onc/auth.h"

#include "rpc/base/assert.h"

namespace weft::rpc {
namespace {

constexpr std::size_t kMaxMachineBytes = 255;
constexpr std::size_t kMaxGroups = 16;

}  // namespace

void encode(xdr::Encoder& out, const AuthSys& auth) {
  WEFT_ASSERT(auth.machine.size() <= kMaxMachineBytes && auth.groups.size() <= kMaxGroups);
  out.u32(auth.stamp);
  out.string(auth.machine);
  out.u32(auth.uid);
  out.u32(auth.gid);
  out.u32(static_cast<std::uint32_t>(auth.groups.size()));
  for (const std::uint32_t group : auth.groups) out.u32(group);
}

void decode(xdr::Decoder& in, AuthSys& auth) {
  auth.stamp = in.u32();
  auth.machine = in.string(kMaxMachineBytes);
  auth.uid = in.u32();
  auth.gid = in.u32();
  auth.groups.clear();
  const std::uint32_t groups = in.count(kMaxGroups);
  for (std::uint32_t i = 0; i < groups; ++i) auth.groups.push_back(in.u32());
}

}  // namespace weft::rpc
