// A record described once: its fields' names, their order, and their limits.
//
//   struct Extent {
//     std::uint64_t offset = 0;
//     std::uint64_t length = 0;
//   };
//   template <class Io>
//   void describe(Io& io, Extent& r) {
//     io("offset", r.offset);
//     io("length", r.length);
//     io.check(r.length != 0);
//   }
//
// describe() stands behind its record, in the record's namespace. XDR in both directions (here) and
// JSON in both directions (describe_json.h) come from it; operator== is defaulted.
//
// A field is an integer, a boolean, an array of bytes, another described record, or has a rule:
//
//   io("name", r.name, at_most(256))         text, bytes or a list: a longer one is not read
//   io("paths", r.paths, at_most(8, 4096))   the same, and a list's texts have a limit, too
//   io("error", r.error, cut_at(256))        as at_most(), and only the first 256 are written
//   io("what", r.what, among(What::kFile, What::kClient))    an enumeration, from one to another
//
//   io("since", r.since, newer())            an optional one at the end of a whole message:
//                                            what is not set is not written, and an
//                                            older writer does not have it
//
// io.check(condition) says what must hold of what was read; a writer does not look. A record whose
// form depends on a field asks for that field (`if (r.what == ...)`) after it: one that is not
// allowed is never stored. Where both directions differ, Io::kReads says which one it is.
//
// Readers believe nothing: every length is checked before it is used, and after the first failure
// whatever follows fails as well.
//
// Threading: as Encoder and Decoder.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "rpc/base/error.h"
#include "rpc/xdr/newer.h"
#include "rpc/xdr/xdr.h"

namespace weft {

struct AtMost {
  std::size_t count = 0;
  std::size_t each = 0;  // of a list of texts: of each text
};
struct CutAt : AtMost {};
template <class E>
struct Among {
  E least;
  E most;
};

constexpr AtMost at_most(std::size_t count, std::size_t each = 0) { return {count, each}; }
constexpr CutAt cut_at(std::size_t count, std::size_t each = 0) { return {{count, each}}; }
template <class E>
constexpr Among<E> among(E least, E most) {
  return {least, most};
}

}  // namespace weft

namespace weft::xdr {

class Writer {
 public:
  static constexpr bool kReads = false;

  explicit Writer(Encoder& out) : out_(out) {}

  template <class T>
  void operator()(const char*, const T& field) {
    put(field);
  }
  template <class T>
  void operator()(const char*, const T& field, AtMost) {
    put_first(field, field.size(), SIZE_MAX);
  }
  template <class T>
  void operator()(const char*, const T& field, CutAt rule) {
    put_first(field, std::min(field.size(), rule.count), rule.each);
  }
  template <class E>
  void operator()(const char*, const E& field, Among<E>) {
    out_.u32(static_cast<std::uint32_t>(field));
  }
  template <class T>
  void operator()(const char* name, const std::optional<T>& field, Newer<Nothing>) {
    if (field) (*this)(name, *field);
  }
  void check(bool) {}

 private:
  template <class T>
  void put(const T& field) {
    if constexpr (std::is_same_v<T, bool>) {
      out_.boolean(field);
    } else if constexpr (std::is_integral_v<T>) {
      static_assert(sizeof(T) == 4 || sizeof(T) == 8);
      if constexpr (sizeof(T) == 4) out_.u32(static_cast<std::uint32_t>(field));
      if constexpr (sizeof(T) == 8) out_.u64(static_cast<std::uint64_t>(field));
    } else if constexpr (std::convertible_to<const T&, std::span<const std::byte>>) {
      out_.fixed(field);
    } else {
      describe(*this, const_cast<T&>(field));  // which a writer does not change
    }
  }
  void put_first(const std::string& text, std::size_t count, std::size_t) {
    out_.string(std::string_view(text).substr(0, count));
  }
  void put_first(const std::vector<std::uint8_t>& bytes, std::size_t count, std::size_t) {
    out_.opaque(std::as_bytes(std::span(bytes).first(count)));
  }
  template <class T>
  void put_first(const std::vector<T>& list, std::size_t count, std::size_t each) {
    out_.u32(static_cast<std::uint32_t>(count));
    for (const T& item : std::span(list).first(count)) {
      if constexpr (std::is_same_v<T, std::string>) {
        put_first(item, each, 0);
      } else {
        put(item);
      }
    }
  }

  Encoder& out_;
};

class Reader {
 public:
  static constexpr bool kReads = true;

  explicit Reader(Decoder& in) : in_(in) {}

  template <class T>
  void operator()(const char*, T& field) {
    get(field);
  }
  void operator()(const char*, std::string& text, AtMost rule) { text = in_.string(rule.count); }
  void operator()(const char*, std::vector<std::uint8_t>& bytes, AtMost rule) {
    const auto found = in_.opaque(rule.count);
    const auto* const first = reinterpret_cast<const std::uint8_t*>(found.data());
    bytes.assign(first, first + found.size());
  }
  template <class T>
  void operator()(const char* name, std::vector<T>& list, AtMost rule) {
    list.clear();
    const std::uint32_t count = in_.count(rule.count);
    for (std::uint32_t i = 0; i < count && in_.ok(); ++i) {
      if constexpr (std::is_same_v<T, std::string>) {
        (*this)(name, list.emplace_back(), at_most(rule.each));
      } else {
        get(list.emplace_back());
      }
    }
  }
  template <class E>
  void operator()(const char*, E& field, Among<E> rule) {
    const std::uint32_t word = in_.u32();
    check(word >= static_cast<std::uint32_t>(rule.least) &&
          word <= static_cast<std::uint32_t>(rule.most));
    if (in_.ok()) field = static_cast<E>(word);
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& field, Newer<Nothing>) {
    field.reset();
    if (in_.ok() && in_.remaining() > 0) (*this)(name, field.emplace());
  }
  void check(bool holds) {
    if (!holds) in_.reject();
  }

 private:
  template <class T>
  void get(T& field) {
    if constexpr (std::is_same_v<T, bool>) {
      field = in_.boolean();
    } else if constexpr (std::is_integral_v<T>) {
      static_assert(sizeof(T) == 4 || sizeof(T) == 8);
      if constexpr (sizeof(T) == 4) field = static_cast<T>(in_.u32());
      if constexpr (sizeof(T) == 8) field = static_cast<T>(in_.u64());
    } else if constexpr (std::convertible_to<T&, std::span<std::byte>>) {
      in_.fixed(field);
    } else {
      describe(*this, field);
    }
  }

  Decoder& in_;
};

template <class Record>
void put(Encoder& out, const Record& record) {
  Writer writer(out);
  writer("", record);
}
template <class Record>
void get(Decoder& in, Record& record) {
  Reader reader(in);
  reader("", record);
}

// A record that is all of `bytes`; otherwise kProtocol naming `what`.
template <class Record>
[[nodiscard]] Result<Record> read_whole(std::span<const std::byte> bytes, std::string_view what) {
  Decoder in(bytes);
  Record record;
  get(in, record);
  if (auto read = in.finish(what); !read) return pass(read);
  if (in.remaining() != 0) return fail(Errc::kProtocol, "bytes after a " + std::string(what));
  return record;
}

}  // namespace weft::xdr
