// An outgoing RPC message: encoded bytes with bulk data spliced in, never copied together.
//
// A Message is written like an Encoder (bytes()); splice() puts a Payload at the present end, and
// whatever is encoded after comes behind it on the wire. The transport walks the pieces with
// for_each() and hands them to the kernel: bytes and Buffers by sendmsg(2), file ranges by
// sendfile(2). The XDR length word and padding of spliced data are the caller's
// (nfs4/io_ops.h does both).
//
// Ownership: the message owns its payloads until it is sent. Threading: one thread at a time.
//
// Invariant: the splices are in order of position, and every position <= bytes().size();
// no splice and no piece of one is empty.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rpc/base/buffer.h"
#include "rpc/xdr/xdr.h"

namespace weft::rpc {

class Message {
 public:
  struct Splice {
    std::size_t at;  // the payload comes before the byte of this position
    Payload payload;
  };

  Message() : bytes_(kReserveBytes) {}
  explicit Message(xdr::Encoder bytes) : bytes_(std::move(bytes)) {}

  [[nodiscard]] xdr::Encoder& bytes() { return bytes_; }
  [[nodiscard]] const xdr::Encoder& bytes() const { return bytes_; }
  void splice(Payload payload);

  // Bytes on the wire, without the record mark.
  [[nodiscard]] std::size_t size() const { return bytes_.size() + spliced_; }
  [[nodiscard]] bool has_payload() const { return !splices_.empty(); }
  [[nodiscard]] std::vector<Splice>& splices() { return splices_; }
  [[nodiscard]] const std::vector<Splice>& splices() const { return splices_; }

  // For channels that carry bulk data apart (transport/shm/bulk_channel.h); others take no notice.
  // A call: how much its answer brings at most, at its end.
  void expect_bulk(std::size_t bytes) { expected_bulk_ = bytes; }
  [[nodiscard]] std::size_t expected_bulk() const { return expected_bulk_; }
  // A call by which the caller learns whether the peer answers at all: it goes before those that
  // wait in this end for the peer (rdma/client_channel.h).
  void set_urgent() { urgent_ = true; }
  [[nodiscard]] bool urgent() const { return urgent_; }
  // An answer: memory of the caller's for what this brings.
  void set_room(Buffer room) { room_ = std::move(room); }
  [[nodiscard]] Buffer& room() { return room_; }

  // A point to come back to: rewind() drops everything encoded or spliced since.
  struct Mark {
    std::size_t bytes;
    std::size_t splices;
  };
  [[nodiscard]] Mark mark() const { return {bytes_.size(), splices_.size()}; }
  void rewind(Mark mark);

  // A second message of the same bytes: those encoded are copied, bulk data is shared, room is not.
  [[nodiscard]] Message share() const;

  // Everything as one run of bytes (file ranges are read). For tests, caches and transports
  // without gathering.
  [[nodiscard]] Result<std::vector<std::byte>> flatten() const;

 private:
  static constexpr std::size_t kReserveBytes = 256;  // a READ or WRITE reply and more

  xdr::Encoder bytes_;
  std::vector<Splice> splices_;
  std::size_t spliced_ = 0;
  std::size_t expected_bulk_ = 0;
  bool urgent_ = false;
  Buffer room_;
};

}  // namespace weft::rpc
