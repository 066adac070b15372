#include "rpc/transport/send_queue.h"

#include <sys/sendfile.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "rpc/base/assert.h"
#include "rpc/onc/record_reader.h"

namespace weft::rpc {
namespace {

constexpr std::size_t kMaxParts = 64;
// Of an entry with its message, and what allocating them costs, beside what is encoded.
constexpr std::size_t kEntryBytes = 512;
constexpr std::size_t kZeroBytes = std::size_t{64} << 10;
alignas(4096) constexpr std::byte kZeros[kZeroBytes] = {};

}  // namespace

struct SendQueue::Gather {
  std::array<iovec, kMaxParts> parts;
  std::size_t count = 0;
  bool more = false;  // a file range follows at once

  [[nodiscard]] bool full() const { return count == kMaxParts; }
  void add(const std::byte* data, std::size_t size) {
    if (size > 0) parts[count++] = {const_cast<std::byte*>(data), size};
  }
};

SendQueue::Entry::Entry(Message m)
    : message(std::move(m)),
      mark(record_mark(message.size())),
      memory(kEntryBytes + message.bytes().size()) {
  for (const Message::Splice& spliced : message.splices()) {
    memory += spliced.payload.pieces().size() * sizeof(Payload::Piece);
    for (const Payload::Piece& one : spliced.payload.pieces()) {
      if (const auto* buffer = std::get_if<Buffer>(&one)) pooled += buffer->size();
    }
  }
}

bool SendQueue::Entry::done() const {
  return mark_sent == mark.size() && splice == message.splices().size() &&
         bytes_sent == message.bytes().size();
}

void SendQueue::push(Message message) {
  bytes_ += message.size() + 4;
  const Entry& entry = entries_.emplace_back(std::move(message));
  memory_ += entry.memory;
  pooled_ += entry.pooled;
}

void SendQueue::clear() {
  entries_.clear();
  bytes_ = memory_ = pooled_ = 0;
}

Result<bool> SendQueue::flush(int socket) {
  while (!entries_.empty()) {
    FileRange* const file = front_file();
    auto sent = file != nullptr ? send_file(socket, *file) : send_memory(socket);
    if (!sent) return pass(sent);
    if (*sent == 0) return false;
    advance(*sent);
  }
  return true;
}

FileRange* SendQueue::front_file() {
  Entry& entry = entries_.front();
  auto& splices = entry.message.splices();
  if (entry.mark_sent < entry.mark.size() || entry.splice == splices.size()) return nullptr;
  auto& splice = splices[entry.splice];
  if (entry.bytes_sent < splice.at) return nullptr;
  return std::get_if<FileRange>(&splice.payload.pieces()[entry.piece]);
}

Result<std::size_t> SendQueue::send_memory(int socket) {
  Gather parts;
  gather(parts);
  WEFT_ASSERT(parts.count > 0);
  msghdr header{};
  header.msg_iov = parts.parts.data();
  header.msg_iovlen = parts.count;
  const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (parts.more ? MSG_MORE : 0);
  for (;;) {
    const ssize_t n = ::sendmsg(socket, &header, flags);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    return fail_errno(errno, "send");
  }
}

Result<std::size_t> SendQueue::send_file(int socket, FileRange& range) {
  const Entry& front = entries_.front();
  if (!front.message.splices()[front.splice].payload.may_read_files()) {
    return fail(Errc::kFenced, "the right to what is to be sent is gone");
  }
  const std::size_t done = entries_.front().piece_sent;
  auto offset = static_cast<off_t>(range.offset + done);
  for (;;) {
    const ssize_t n = ::sendfile(socket, range.file->get(), &offset, range.size - done);
    if (n > 0) return static_cast<std::size_t>(n);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::size_t{0};
    if (n < 0) return fail_errno(errno, "sendfile");
    // The file ends here now: what was promised is made up with zeros.
    Entry& entry = entries_.front();
    auto& piece = entry.message.splices()[entry.splice].payload.pieces()[entry.piece];
    const std::size_t size = range.size;
    piece = ZeroRange{size};
    return send_memory(socket);
  }
}

void SendQueue::gather(Gather& out) {
  for (Entry& entry : entries_) {
    if (!gather(out, entry)) return;
  }
}

// False when the gathering must stop: the list is full, or a file range comes next.
bool SendQueue::gather(Gather& out, Entry& entry) {
  if (out.full()) return false;
  out.add(entry.mark.data() + entry.mark_sent, entry.mark.size() - entry.mark_sent);
  const auto bytes = entry.message.bytes().bytes();
  const auto& splices = entry.message.splices();
  std::size_t at = entry.bytes_sent;
  std::size_t piece = entry.piece;
  std::size_t piece_sent = entry.piece_sent;
  for (std::size_t s = entry.splice; s < splices.size(); ++s) {
    if (out.full()) return false;
    out.add(bytes.data() + at, splices[s].at - at);
    at = splices[s].at;
    const auto& pieces = splices[s].payload.pieces();
    for (; piece < pieces.size(); ++piece, piece_sent = 0) {
      if (std::holds_alternative<FileRange>(pieces[piece])) {
        out.more = true;
        return false;
      }
      if (const auto* buffer = std::get_if<Buffer>(&pieces[piece])) {
        if (out.full()) return false;
        out.add(buffer->data() + piece_sent, buffer->size() - piece_sent);
        continue;
      }
      std::size_t left = size_of(pieces[piece]) - piece_sent;
      while (left > 0) {
        if (out.full()) return false;
        const std::size_t part = std::min(left, kZeroBytes);
        out.add(kZeros, part);
        left -= part;
      }
    }
    piece = 0;
  }
  if (out.full()) return false;
  out.add(bytes.data() + at, bytes.size() - at);
  return true;
}

void SendQueue::advance(std::size_t size) {
  bytes_ -= size;
  sent_ += size;
  while (size > 0) {
    Entry& front = entries_.front();
    pooled_ -= front.pooled;
    size -= advance(front, size);
    pooled_ += front.pooled;
    if (!front.done()) continue;
    memory_ -= front.memory;
    entries_.pop_front();
  }
}

// Moves the entry's walk on by at most `size`; returns by how much.
std::size_t SendQueue::advance(Entry& entry, std::size_t size) {
  std::size_t used = std::min(size, entry.mark.size() - entry.mark_sent);
  entry.mark_sent += used;
  const auto& splices = entry.message.splices();
  while (used < size) {
    const bool has_splice = entry.splice < splices.size();
    const std::size_t bytes_end =
        has_splice ? splices[entry.splice].at : entry.message.bytes().size();
    if (entry.bytes_sent < bytes_end) {
      const std::size_t part = std::min(size - used, bytes_end - entry.bytes_sent);
      entry.bytes_sent += part;
      used += part;
      continue;
    }
    if (!has_splice) break;
    const auto& piece = splices[entry.splice].payload.pieces()[entry.piece];
    const std::size_t part = std::min(size - used, size_of(piece) - entry.piece_sent);
    entry.piece_sent += part;
    used += part;
    if (entry.piece_sent == size_of(piece)) next_piece(entry);
  }
  return used;
}

void SendQueue::next_piece(Entry& entry) {
  auto& pieces = entry.message.splices()[entry.splice].payload.pieces();
  // The kernel has its bytes: a buffer goes back to the pool now, not with the whole reply.
  if (auto* buffer = std::get_if<Buffer>(&pieces[entry.piece])) {
    entry.pooled -= buffer->size();
    buffer->reset();
  }
  entry.piece_sent = 0;
  if (++entry.piece == pieces.size()) {
    entry.piece = 0;
    ++entry.splice;
  }
}

}  // namespace weft::rpc
