// The client's side of HTTP, as bare as a test wants it.
//
// Threading: one thread.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

namespace weft {

// A connection, closed in the end.
class HttpClient {
 public:
  explicit HttpClient(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected = connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    const timeval limit{.tv_sec = 30, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }
  ~HttpClient() { close(fd_); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void say(const std::string& text) const {
    static_cast<void>(send(fd_, text.data(), text.size(), MSG_NOSIGNAL));
  }
  // Until the server ends the connection; "still open" when it does not.
  [[nodiscard]] std::string hear() const {
    std::string answer;
    char piece[4096];
    ssize_t size = 0;
    while ((size = recv(fd_, piece, sizeof(piece), 0)) > 0) {
      answer.append(piece, static_cast<std::size_t>(size));
    }
    return size == 0 || errno == ECONNRESET ? answer : "still open";
  }

  bool connected = false;

 private:
  int fd_;
};

// What a GET is answered, header and all; empty when nobody listens.
inline std::string http_get(int port, const std::string& path) {
  const HttpClient client(port);
  if (!client.connected) return "";
  client.say("GET " + path + " HTTP/1.1\r\nHost: weft\r\n\r\n");
  return client.hear();
}

}  // namespace weft
