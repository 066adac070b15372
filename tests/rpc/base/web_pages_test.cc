#include "rpc/base/web_pages.h"

#include <catch2/catch_test_macros.hpp>
#include <iterator>
#include <string>

#include "tests/rpc/base/http_client.h"

namespace weft {
namespace {

std::string ask(int port, const std::string& request) {
  const HttpClient client(port);
  client.say(request + "\r\nHost: weft\r\n\r\n");
  return client.hear();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::unique_ptr<WebPages> two_pages(int& made) {
  auto pages = WebPages::open(
      "127.0.0.1:0",
      {{"/", "text/html", [&made] { return "<p>" + std::to_string(++made); }},
       {"/broken", "text/html", [] { return Result<std::string>(fail(Errc::kIo, "no disk")); }}});
  REQUIRE(pages);
  return std::move(*pages);
}

TEST_CASE("web pages: a page is made for each request, with headers that keep others out") {
  int made = 0;
  const auto pages = two_pages(made);
  const std::string answer = ask(pages->port(), "GET /?anything HTTP/1.1");
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(answer.ends_with("\r\n\r\n<p>1"));
  CHECK(has(answer, "\r\nContent-Type: text/html; charset=utf-8\r\n"));
  CHECK(has(answer, "\r\nContent-Length: 4\r\n"));
  CHECK(has(answer, "\r\nContent-Security-Policy: default-src 'none'; script-src 'self';"));
  CHECK(has(answer, "frame-ancestors 'none'"));
  CHECK(has(answer, "\r\nX-Content-Type-Options: nosniff\r\n"));
  CHECK_FALSE(has(answer, "Access-Control"));
  const std::string head = ask(pages->port(), "HEAD / HTTP/1.1");
  CHECK(head.ends_with("\r\n\r\n"));
  CHECK(has(head, "\r\nContent-Length: 4\r\n"));
  CHECK(made == 2);
}

TEST_CASE("web pages: nothing else is answered") {
  int made = 0;
  const auto pages = two_pages(made);
  const int port = pages->port();
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PROPFIND", "CONNECT"}) {
    const std::string answer = ask(port, std::string(method) + " / HTTP/1.1");
    CHECK_FALSE(has(answer, "200 OK"));
    CHECK_FALSE(has(answer, "<p>"));
  }
  CHECK(has(ask(port, "POST / HTTP/1.1\r\nContent-Length: 0"), "\r\nAllow: GET, HEAD\r\n"));
  for (const char* path : {"/x", "/index.html", "/../", "/..%2f..%2fetc/passwd", "//etc/passwd"}) {
    CHECK_FALSE(has(ask(port, "GET " + std::string(path) + "passwd HTTP/1.1"), "200 OK"));
  }
  CHECK(ask(port, "GET /x<script> HTTP/1.1").ends_with("\r\n\r\nThere is no such page\n"));
  CHECK(has(ask(port, "GET /broken HTTP/1.1"), "503 Service Unavailable"));
  CHECK(ask(port, "GET /broken HTTP/1.1").ends_with("\r\n\r\nno disk\n"));
  ask(port, std::string(100'000, 'x'));
  CHECK(made == 0);
}

TEST_CASE("web pages: who says nothing does not keep others out for long") {
  int made = 0;
  const auto pages = two_pages(made);
  const HttpClient silent[] = {HttpClient(pages->port()), HttpClient(pages->port()),
                               HttpClient(pages->port())};
  static_assert(std::size(silent) > WebPages::kThreads);
  for (const HttpClient& one : silent) one.say("GET / HT");
  CHECK(ask(pages->port(), "GET / HTTP/1.1").ends_with("<p>1"));
  for (const HttpClient& one : silent) CHECK_FALSE(has(one.hear(), "still open"));
}

TEST_CASE("web pages: an address that cannot be had, and the end") {
  int made = 0;
  auto pages = two_pages(made);
  const int port = pages->port();
  const auto second = WebPages::open("127.0.0.1:" + std::to_string(port), {});
  CHECK(second.error() == Errc::kInvalid);
  CHECK(second.error().text ==
        "page at 127.0.0.1:" + std::to_string(port) + ": Address already in use");
  pages.reset();
  CHECK_FALSE(HttpClient(port).connected);
}

}  // namespace
}  // namespace weft
