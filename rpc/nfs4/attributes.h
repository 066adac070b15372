// File attributes (fattr4, RFC 8881 section 5): the ones our own client side asks for or sets.
//
// An Attributes value has what the peer sent; encode() writes what is set, in bit order. A peer
// that answers with an attribute we do not know makes the rest unreadable (fattr4 has no lengths
// within), so decode() rejects it: ask only for attributes listed here.
//
// Threading: values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rpc/nfs4/codec.h"

namespace weft::rpc::nfs4 {

enum class Attr : unsigned {
  kSupported = 0,
  kType = 1,
  kChange = 3,
  kSize = 4,
  kFsid = 8,
  kLeaseTime = 10,
  kFileid = 20,
  kMaxRead = 30,
  kMaxWrite = 31,
  kMode = 33,
  kNumLinks = 35,
  kOwner = 36,
  kOwnerGroup = 37,
  kSpaceUsed = 45,
  kTimeModify = 53,
  kFsLayoutTypes = 62,
  kLayoutBlockSize = 65,
};

// bitmap4, three words.
class AttrMask {
 public:
  AttrMask() = default;
  AttrMask(std::initializer_list<Attr> attrs) {
    for (const Attr attr : attrs) set(attr);
  }
  void set(Attr attr) { words_[bit(attr) / 32] |= 1U << (bit(attr) % 32); }
  [[nodiscard]] bool has(Attr attr) const {
    return (words_[bit(attr) / 32] >> (bit(attr) % 32) & 1) != 0;
  }
  [[nodiscard]] std::span<const std::uint32_t, 3> words() const { return words_; }
  [[nodiscard]] std::span<std::uint32_t, 3> words() { return words_; }
  friend bool operator==(const AttrMask&, const AttrMask&) = default;

 private:
  static unsigned bit(Attr attr) { return static_cast<unsigned>(attr); }
  std::array<std::uint32_t, 3> words_{};
};

struct Attributes {
  std::optional<AttrMask> supported;
  std::optional<FileType> type;
  std::optional<std::uint64_t> change;
  std::optional<std::uint64_t> size;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> fsid;
  std::optional<std::uint32_t> lease_time_s;
  std::optional<std::uint64_t> fileid;
  std::optional<std::uint64_t> max_read;
  std::optional<std::uint64_t> max_write;
  std::optional<std::uint32_t> mode;
  std::optional<std::uint32_t> num_links;
  std::optional<std::string> owner;
  std::optional<std::string> owner_group;
  std::optional<std::uint64_t> space_used;
  std::optional<Time> time_modify;
  std::optional<std::vector<std::uint32_t>> layout_types;
  std::optional<std::uint32_t> layout_block_size;
  friend bool operator==(const Attributes&, const Attributes&) = default;
};

void encode(xdr::Encoder& out, const AttrMask& mask);
void decode(xdr::Decoder& in, AttrMask& mask);
void encode(xdr::Encoder& out, const Attributes& attributes);
void decode(xdr::Decoder& in, Attributes& attributes);

}  // namespace weft::rpc::nfs4
