#include "dataserver/parity/group_log.h"

#include <xxhash.h>

#include <algorithm>
#include <string_view>

#include "rpc/xdr/xdr.h"

namespace weft::ds {

namespace {

constexpr std::string_view kHeader{"weft parity 1\n\0\0", 16};
constexpr std::uint32_t kMagic = 0x5750464d;
constexpr std::size_t kHeadBytes = 16;

enum Kind : std::uint32_t { kDirty = 1, kClean, kCut, kCutDone, kContent, kPunch };

void put(xdr::Encoder& out, const layout::ObjectId& object) {
  out.u64(object.fileid);
  out.u32(object.generation);
  out.u32(object.fsid);
}

layout::ObjectId get_object(xdr::Decoder& in) {
  layout::ObjectId object;
  object.fileid = in.u64();
  object.generation = in.u32();
  object.fsid = in.u32();
  return object;
}

struct Body {
  xdr::Encoder& out;
  Kind operator()(const LogDirty& frame) const {
    put(out, frame.object);
    out.u64(frame.region);
    return kDirty;
  }
  Kind operator()(const LogClean& frame) const {
    put(out, frame.object);
    return kClean;
  }
  Kind operator()(const LogCut& frame) const {
    put(out, frame.object);
    out.u64(frame.size);
    out.boolean(frame.remove);
    return kCut;
  }
  Kind operator()(const LogCutDone& frame) const {
    put(out, frame.object);
    return kCutDone;
  }
  Kind operator()(const LogContent& frame) const {
    put(out, frame.object);
    out.u64(frame.size);
    out.u32(static_cast<std::uint32_t>(frame.pieces.size()));
    for (const LogContent::Piece& piece : frame.pieces) {
      out.u32(piece.member);
      out.boolean(piece.sums);
      out.u64(piece.offset);
      out.opaque(piece.bytes);
    }
    return kContent;
  }
  Kind operator()(const LogPunch& frame) const {
    put(out, frame.object);
    out.u64(frame.begin);
    out.u64(frame.end);
    return kPunch;
  }
};

LogContent get_content(xdr::Decoder& in) {
  LogContent frame{.object = get_object(in)};
  frame.size = in.u64();
  const std::uint32_t count = in.count(kMaxLogPieces);
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    LogContent::Piece piece;
    piece.member = in.u32();
    piece.sums = in.boolean();
    piece.offset = in.u64();
    const auto bytes = in.opaque(kMaxLogBody);
    piece.bytes.assign(bytes.begin(), bytes.end());
    if (piece.member >= kMaxMembers || piece.offset > std::uint64_t{1} << 62) in.reject();
    frame.pieces.push_back(std::move(piece));
  }
  return frame;
}

LogFrame get_body(xdr::Decoder& in, std::uint32_t kind) {
  switch (kind) {
    case kDirty: {
      LogDirty frame{.object = get_object(in)};
      frame.region = in.u64();
      return frame;
    }
    case kClean: return LogClean{get_object(in)};
    case kCut: {
      LogCut frame{.object = get_object(in)};
      frame.size = in.u64();
      frame.remove = in.boolean();
      return frame;
    }
    case kCutDone: return LogCutDone{get_object(in)};
    case kContent: return get_content(in);
    case kPunch: {
      LogPunch frame{.object = get_object(in)};
      frame.begin = in.u64();
      frame.end = in.u64();
      if (frame.begin > frame.end) in.reject();
      return frame;
    }
    default: in.reject(); return LogClean{};
  }
}

// The length of the frame at the front, which is appended; 0 when there is no whole good one.
std::size_t get_frame(std::span<const std::byte> bytes, std::vector<LogFrame>& frames) {
  xdr::Decoder head(bytes);
  const std::uint32_t magic = head.u32();
  const std::uint32_t kind = head.u32();
  const std::uint32_t body = head.u32();
  if (head.u32() != 0 || !head.ok() || magic != kMagic || body > kMaxLogBody) return 0;
  const std::size_t end = kHeadBytes + (body + 7) / 8 * 8;
  if (bytes.size() < end + 8) return 0;
  xdr::Decoder check(bytes.subspan(end, 8));
  if (check.u64() != XXH64(bytes.data(), end, 0)) return 0;
  xdr::Decoder in(bytes.subspan(kHeadBytes, body));
  LogFrame frame = get_body(in, kind);
  if (!in.ok() || in.remaining() != 0) return 0;
  frames.push_back(std::move(frame));
  return end + 8;
}

}  // namespace

std::vector<std::byte> group_log_header() {
  const auto bytes = std::as_bytes(std::span(kHeader.data(), kHeader.size()));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> encode(const LogFrame& frame) {
  xdr::Encoder body;
  const Kind kind = std::visit(Body{body}, frame);
  xdr::Encoder out(body.size() + 32);
  out.u32(kMagic);
  out.u32(kind);
  out.u32(static_cast<std::uint32_t>(body.size()));
  out.u32(0);
  out.raw(body.bytes());
  while (out.size() % 8 != 0) out.u32(0);  // a body is whole words
  out.u64(XXH64(out.bytes().data(), out.size(), 0));
  return out.take();
}

Result<DecodedLog> decode_group_log(std::span<const std::byte> bytes) {
  DecodedLog log;
  if (bytes.empty()) return log;
  const auto header = group_log_header();
  if (bytes.size() < header.size() ||
      !std::ranges::equal(bytes.first(header.size()), std::span(header))) {
    return fail(Errc::kCorrupt, "the parity log has no header");
  }
  log.good_bytes = header.size();
  while (log.good_bytes < bytes.size()) {
    const std::size_t length = get_frame(bytes.subspan(log.good_bytes), log.frames);
    if (length == 0) break;
    log.good_bytes += length;
  }
  return log;
}

namespace {

// Drops what is in stripes from this one on. False when nothing is left.
bool keep_below(LogContent& content, std::uint64_t stripes, std::uint64_t size,
                const ParityGeometry& geometry) {
  content.size = std::min(content.size, size);
  std::erase_if(content.pieces, [&](LogContent::Piece& piece) {
    const std::uint64_t end = piece.sums
                                  ? kSumsAt + stripes * geometry.blocks_in_chunk() * kSumBytes
                                  : stripes * geometry.chunk;
    if (piece.offset >= end) return true;
    piece.bytes.resize(std::min<std::uint64_t>(piece.bytes.size(), end - piece.offset));
    return piece.bytes.empty();
  });
  return !content.pieces.empty();
}

}  // namespace

LogState replay(std::vector<LogFrame> frames, const ParityGeometry& geometry) {
  LogState state;
  const auto cut = [&](const LogCut& frame) {
    const std::uint64_t stripes = frame.remove ? 0 : geometry.stripes(frame.size);
    std::erase_if(state.redo, [&](LogFrame& earlier) {
      if (auto* punch = std::get_if<LogPunch>(&earlier)) {
        if (punch->object != frame.object) return false;
        punch->end = std::min(punch->end, stripes);
        return punch->begin >= punch->end;
      }
      auto& content = std::get<LogContent>(earlier);
      return content.object == frame.object && !keep_below(content, stripes, frame.size, geometry);
    });
    state.cuts[frame.object] = frame;
  };
  for (LogFrame& frame : frames) {
    if (const auto* dirty = std::get_if<LogDirty>(&frame)) {
      state.dirty[dirty->object].insert(dirty->region);
    } else if (const auto* clean = std::get_if<LogClean>(&frame)) {
      state.dirty.erase(clean->object);
    } else if (const auto* made = std::get_if<LogCut>(&frame)) {
      cut(*made);
    } else if (const auto* done = std::get_if<LogCutDone>(&frame)) {
      state.cuts.erase(done->object);
    } else {
      state.redo.push_back(std::move(frame));
    }
  }
  return state;
}

}  // namespace weft::ds
