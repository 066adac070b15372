// A few pages over HTTP that a browser shows and that nobody can change anything with.
//
//   WebPages::open("127.0.0.1:9101", {{"/", "text/html", [] { return std::string(kPage); }}});
//
// Answered are GET and HEAD of these paths; what else a request says is not looked at, and no body
// is read. A page that has nothing to show returns an error, which the browser gets as 503.
//
// Threading: pages are made on threads of this object, one at a time, until it is destroyed; then
// none is being made any more.
//
// Invariants
//  1. Strangers take little: kThreads connections are served at once, a few more wait, each has one
//     request, and one that does not send it, or take the answer, in kPatienceMs is ended.
//  2. A browser loads and runs nothing from elsewhere, makes no HTML of what a script has, and
//     shows a page in no other's frame: the answers' headers say so (Content-Security-Policy).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rpc/base/error.h"

namespace weft {

struct WebPage {
  std::string path;  // "/" or "/name", exactly
  std::string type;  // "text/html"; always UTF-8
  std::function<Result<std::string>()> make;
};

class WebPages {
 public:
  static constexpr int kThreads = 2;
  static constexpr int kPatienceMs = 5000;

  // Listens on "host:port" ("[host]:port" for IPv6; port 0: a free one). kInvalid with the reason
  // when that cannot be.
  [[nodiscard]] static Result<std::unique_ptr<WebPages>> open(const std::string& listen,
                                                              std::vector<WebPage> pages);
  ~WebPages();
  WebPages(const WebPages&) = delete;
  WebPages& operator=(const WebPages&) = delete;

  [[nodiscard]] int port() const;

 private:
  struct Impl;
  explicit WebPages(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
