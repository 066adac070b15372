#include "dataserver/store/fence_log.h"

#include <xxhash.h>

#include <algorithm>
#include <string_view>

#include "rpc/xdr/xdr.h"

namespace weft::ds {

namespace {

constexpr std::string_view kHeader{"weft fences 1\n\0\0", 16};
constexpr std::uint32_t kFrameMagic = 0x57464e43;
constexpr std::size_t kEntryBytes = 24;
constexpr std::size_t kFrameOverhead = 16;
constexpr std::size_t kMaxFrameBytes = kFrameOverhead + kFencesInFrame * kEntryBytes;
constexpr std::uint32_t kObjectKind = 1;
constexpr std::uint32_t kClientKind = 2;

void encode_entry(xdr::Encoder& out, const Fence& fence) {
  if (const auto* object = std::get_if<layout::ObjectId>(&fence.whom)) {
    out.u32(kObjectKind);
    out.u32(fence.epoch);
    out.u64(object->fileid);
    out.u32(object->generation);
    out.u32(object->fsid);
    return;
  }
  out.u32(kClientKind);
  out.u32(fence.epoch);
  out.u64(std::get<std::uint64_t>(fence.whom));
  out.u32(0);
  out.u32(0);
}

Fence decode_entry(xdr::Decoder& in) {
  const std::uint32_t kind = in.u32();
  Fence fence;
  fence.epoch = in.u32();
  layout::ObjectId object;
  object.fileid = in.u64();
  object.generation = in.u32();
  object.fsid = in.u32();
  if (kind == kObjectKind) {
    fence.whom = object;
  } else if (kind == kClientKind && object.generation == 0 && object.fsid == 0) {
    fence.whom = object.fileid;
  } else {
    in.reject();
  }
  return fence;
}

// The length of the frame at the front, its fences appended; 0 when there is no whole good one.
std::size_t decode_frame(std::span<const std::byte> bytes, std::vector<Fence>& fences) {
  xdr::Decoder in(bytes);
  const std::uint32_t magic = in.u32();
  const std::uint32_t count = in.u32();
  if (!in.ok() || magic != kFrameMagic || count == 0 || count > kFencesInFrame) return 0;
  const std::size_t length = kFrameOverhead + count * kEntryBytes;
  if (length > bytes.size()) return 0;
  std::vector<Fence> decoded;
  decoded.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) decoded.push_back(decode_entry(in));
  const std::uint64_t checksum = in.u64();
  if (!in.ok() || checksum != XXH64(bytes.data(), length - 8, 0)) return 0;
  fences.insert(fences.end(), decoded.begin(), decoded.end());
  return length;
}

bool has_frame(std::span<const std::byte> bytes) {
  std::vector<Fence> ignored;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {  // frames are multiples of 8 bytes
    if (decode_frame(bytes.subspan(at), ignored) != 0) return true;
  }
  return false;
}

}  // namespace

std::vector<std::byte> fence_log_header() {
  const auto bytes = std::as_bytes(std::span(kHeader.data(), kHeader.size()));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> encode_fences(std::span<const Fence> fences) {
  std::vector<std::byte> out;
  while (!fences.empty()) {
    const auto frame_fences = fences.first(std::min(fences.size(), kFencesInFrame));
    xdr::Encoder frame;
    frame.u32(kFrameMagic);
    frame.u32(static_cast<std::uint32_t>(frame_fences.size()));
    for (const Fence& fence : frame_fences) encode_entry(frame, fence);
    frame.u64(XXH64(frame.bytes().data(), frame.size(), 0));
    out.insert(out.end(), frame.bytes().begin(), frame.bytes().end());
    fences = fences.subspan(frame_fences.size());
  }
  return out;
}

Result<FenceLog> decode_fence_log(std::span<const std::byte> bytes) {
  const auto header = fence_log_header();
  if (bytes.size() < header.size() ||
      !std::ranges::equal(bytes.first(header.size()), std::span(header))) {
    return fail(Errc::kCorrupt, "the fencing log has no header");
  }
  FenceLog log;
  log.good_bytes = header.size();
  while (log.good_bytes < bytes.size()) {
    const auto rest = bytes.subspan(log.good_bytes);
    const std::size_t length = decode_frame(rest, log.fences);
    if (length != 0) {
      log.good_bytes += length;
      continue;
    }
    if (rest.size() > kMaxFrameBytes ||
        has_frame(rest.subspan(std::min<std::size_t>(8, rest.size())))) {
      return fail(Errc::kCorrupt, "the fencing log is damaged before its end");
    }
    break;
  }
  return log;
}

}  // namespace weft::ds
