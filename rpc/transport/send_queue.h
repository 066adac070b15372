// What a TCP channel has yet to send: messages in order, given to the kernel piece by piece.
//
// flush() gathers as many bytes and buffers as fit into one sendmsg(2), and sends file ranges with
// sendfile(2), so that warm data goes from the page cache to the socket without entering this
// process. A file range that turns out shorter than it was when the reply's length was written is
// made up with zeros: the length is on the wire already. (An object never shrinks under a READ
// without the client that truncates it racing that READ.) One that may not be read any more
// (Payload::may_read_files()) ends the connection: its length is promised, and other bytes would be
// taken for the file's.
//
// Threading: one thread. Ownership: messages, hence their buffers, until the kernel has them.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>

#include "rpc/onc/message.h"

namespace weft::rpc {

class SendQueue {
 public:
  void push(Message message);
  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }  // on the wire
  // What the queue takes beside pools' buffers: a short message holds more than its bytes.
  [[nodiscard]] std::size_t memory() const { return memory_; }
  // With buffers. Ranges of files hold none.
  [[nodiscard]] std::size_t held() const { return memory_ + pooled_; }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }  // in all
  void clear();

  // Sends until everything is sent (true) or the socket takes no more (false). An error ends the
  // connection.
  [[nodiscard]] Result<bool> flush(int socket);

 private:
  // One message as a walk over its parts: bytes up to a splice, the splice's pieces, bytes, ...
  struct Entry {
    explicit Entry(Message m);
    Message message;
    std::array<std::byte, 4> mark;
    std::size_t mark_sent = 0;
    std::size_t bytes_sent = 0;  // of message.bytes()
    std::size_t splice = 0;      // the one that comes next
    std::size_t piece = 0;       // of that splice
    std::size_t piece_sent = 0;  // bytes of that piece
    std::size_t memory;          // as SendQueue::memory()
    std::size_t pooled = 0;      // of buffers
    [[nodiscard]] bool done() const;
  };
  struct Gather;

  // What the front of the queue is: memory to gather, or a file range.
  [[nodiscard]] FileRange* front_file();
  void gather(Gather& out);
  static bool gather(Gather& out, Entry& entry);
  void advance(std::size_t size);
  static std::size_t advance(Entry& entry, std::size_t size);
  static void next_piece(Entry& entry);
  // Bytes taken by the kernel; 0: it takes no more now.
  [[nodiscard]] Result<std::size_t> send_memory(int socket);
  [[nodiscard]] Result<std::size_t> send_file(int socket, FileRange& range);

  std::deque<Entry> entries_;
  std::size_t bytes_ = 0;
  std::size_t memory_ = 0;
  std::size_t pooled_ = 0;
  std::uint64_t sent_ = 0;
};

}  // namespace weft::rpc
