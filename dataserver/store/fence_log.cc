#include "dataserver/store/fence_log.h"

#include <xxhash.h>

#include <algorithm>
#include <string_view>

#include "rpc/xdr/xdr.h"

namespace weft::ds {

namespace {

constexpr std::string_view kHeader{"weft fences 2\n\0\0", 16};
constexpr std::string_view kOldHeader{"weft fences 1\n\0\0", 16};
constexpr std::uint32_t kFrameMagic = 0x57464e43;
constexpr std::size_t kEntryBytes = 24;
constexpr std::size_t kMarkBytes = sizeof(KeyMark);  // not in format 1
constexpr std::size_t kFrameOverhead = 16 + kMarkBytes;
constexpr std::size_t kMaxFrameBytes = kFrameOverhead + kFencesInFrame * kEntryBytes;
constexpr std::uint32_t kObjectKind = 1;
constexpr std::uint32_t kClientKind = 2;
constexpr const char* kDamaged = "the fencing log is damaged before its end";

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

struct FencesOfFrame {
  std::vector<Fence> fences;
  KeyMark mark{};
};

// The length of the frame at the front; 0 when there is no whole good one.
std::size_t decode_frame(std::span<const std::byte> bytes, bool old, FencesOfFrame& frame) {
  xdr::Decoder in(bytes);
  const std::uint32_t magic = in.u32();
  const std::uint32_t count = in.u32();
  if (!in.ok() || magic != kFrameMagic || count == 0 || count > kFencesInFrame) return 0;
  const std::size_t length = kFrameOverhead - (old ? kMarkBytes : 0) + count * kEntryBytes;
  if (length > bytes.size()) return 0;
  frame = {};
  if (!old) {
    for (std::uint64_t& key : frame.mark) key = in.u64();
  }
  frame.fences.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) frame.fences.push_back(decode_entry(in));
  const std::uint64_t checksum = in.u64();
  if (!in.ok() || checksum != XXH64(bytes.data(), length - 8, 0)) return 0;
  return length;
}

bool has_frame(std::span<const std::byte> bytes, bool old) {
  FencesOfFrame ignored;
  for (std::size_t at = 0; at < bytes.size(); at += 8) {  // frames are multiples of 8 bytes
    if (decode_frame(bytes.subspan(at), old, ignored) != 0) return true;
  }
  return false;
}

bool begins_with(std::span<const std::byte> bytes, std::string_view header) {
  return std::ranges::equal(bytes.first(header.size()), std::as_bytes(std::span(header)));
}

}  // namespace

std::vector<std::byte> fence_log_header() {
  const auto bytes = std::as_bytes(std::span(kHeader.data(), kHeader.size()));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> encode_fences(std::span<const Fence> fences, const KeyMark& mark) {
  std::vector<std::byte> out;
  while (!fences.empty()) {
    const auto frame_fences = fences.first(std::min(fences.size(), kFencesInFrame));
    xdr::Encoder frame;
    frame.u32(kFrameMagic);
    frame.u32(static_cast<std::uint32_t>(frame_fences.size()));
    for (const std::uint64_t key : mark) frame.u64(key);
    for (const Fence& fence : frame_fences) encode_entry(frame, fence);
    frame.u64(XXH64(frame.bytes().data(), frame.size(), 0));
    out.insert(out.end(), frame.bytes().begin(), frame.bytes().end());
    fences = fences.subspan(frame_fences.size());
  }
  return out;
}

Result<> FenceLogDecoder::feed(std::span<const std::byte> bytes) {
  rest_.insert(rest_.end(), bytes.begin(), bytes.end());
  std::size_t at = 0;
  if (good_bytes_ == 0) {
    if (rest_.size() < kHeader.size()) return {};
    old_ = begins_with(rest_, kOldHeader);
    if (!old_ && !begins_with(rest_, kHeader)) {
      return fail(Errc::kCorrupt, "the fencing log has no header, or one of a later version");
    }
    at = kHeader.size();
  }
  FencesOfFrame frame;
  for (;;) {
    const std::size_t length = decode_frame(std::span(rest_).subspan(at), old_, frame);
    if (length == 0) break;
    frame_(frame.fences, frame.mark);
    at += length;
  }
  good_bytes_ += at;
  rest_.erase(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(at));
  if (rest_.size() > kMaxFrameBytes) return fail(Errc::kCorrupt, kDamaged);
  return {};
}

Result<std::uint64_t> FenceLogDecoder::finish() {
  if (good_bytes_ == 0) return fail(Errc::kCorrupt, "the fencing log has no header");
  if (has_frame(std::span(rest_).subspan(std::min<std::size_t>(8, rest_.size())), old_)) {
    return fail(Errc::kCorrupt, kDamaged);
  }
  return good_bytes_;
}

}  // namespace weft::ds
