// Sockets of the Unix family, between programs of one machine: streams at a path, and pairs that
// keep messages apart. Descriptors go along. What is sent is there at once, and nothing cuts it
// off; when a program dies, whoever it spoke to sees the end.
//
// Threading: as scheduler.h.
#pragma once

#include <sys/socket.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/world/descriptors.h"

namespace weft::sim {

class LocalSocket final : public Descriptor {
 public:
  // Of the calling thread's program.
  explicit LocalSocket(int type) : LocalSocket(type, sim::node(), sim::life()) {}
  LocalSocket(int type, unsigned of, unsigned life);
  ~LocalSocket() override;

  static void pair(LocalSocket& one, LocalSocket& other);
  int bind(const std::string& path);
  int listen(int backlog);
  int connect(const std::string& path);
  int accept(std::shared_ptr<LocalSocket>& out);
  int shutdown();
  // As sendmsg(2) and recvmsg(2): bytes, or -errno.
  ssize_t send(const msghdr& message, bool wait);
  ssize_t receive(msghdr& message, bool wait);
  // -errno, or bytes of the value.
  int option(int name, void* value, std::size_t size) const;

  ssize_t readv(const iovec* into, int count) override;
  ssize_t writev(const iovec* from, int count) override;
  [[nodiscard]] std::uint32_t ready() const override;
  void closed() override;

  // The machine's programs have died.
  static void kill(unsigned node);

 private:
  struct Message {
    std::vector<std::byte> bytes;
    std::size_t taken = 0;
    std::vector<int> descriptors;  // numbers of their own
  };
  static constexpr std::size_t kMostMessages = 64;

  [[nodiscard]] bool gone() const;  // its machine's programs have died since it was made
  [[nodiscard]] bool at_end() const { return ended_ || gone(); }
  void end();
  void drop_messages();

  const int type_;
  const unsigned life_;
  std::string path_;  // bound to
  bool listening_ = false;
  bool ended_ = false;  // nothing more comes, and nothing can be sent
  std::size_t backlog_ = 0;
  std::deque<std::shared_ptr<LocalSocket>> waiting_;  // to be accepted
  std::weak_ptr<LocalSocket> peer_;
  std::deque<Message> messages_;
};

}  // namespace weft::sim
