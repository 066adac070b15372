#include "rpc/base/web_pages.h"

#include <civetweb.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "rpc/base/listen_trouble.h"
#include "rpc/base/mutex.h"

namespace weft {
namespace {

constexpr std::string_view kHeaders =
    "Connection: close\r\n"
    "Cache-Control: no-store\r\n"
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "X-Frame-Options: DENY\r\n";

// What civetweb said first on this thread, for what keeps it from listening. Otherwise it is not
// logged, since strangers would fill the log.
thread_local std::string first_words;

int keep_words(const mg_connection*, const char* words) noexcept {
  if (first_words.empty()) first_words = words;
  return 1;
}

struct Answer {
  int status = 200;
  std::string_view reason = "OK";
  std::string type = "text/plain";
  std::string body;
  std::string_view more;  // headers
};

}  // namespace

struct WebPages::Impl {
  explicit Impl(std::vector<WebPage> all) : pages(std::move(all)) {}
  ~Impl() {
    if (context != nullptr) mg_stop(context);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  static int serve(mg_connection* connection) noexcept {
    const mg_request_info* request = mg_get_request_info(connection);
    const std::string_view method = request->request_method;
    const std::string_view path = request->local_uri != nullptr ? request->local_uri : "";
    const Answer answer = static_cast<Impl*>(request->user_data)->answer(method, path);
    std::string text = "HTTP/1.1 " + std::to_string(answer.status) + " ";
    text.append(answer.reason).append("\r\nContent-Type: ").append(answer.type);
    text.append("; charset=utf-8\r\nContent-Length: ").append(std::to_string(answer.body.size()));
    text.append("\r\n").append(answer.more).append(kHeaders).append("\r\n");
    if (method != "HEAD") text += answer.body;
    mg_write(connection, text.data(), text.size());
    return answer.status;
  }

  Answer answer(std::string_view method, std::string_view path) {
    if (method != "GET" && method != "HEAD") {
      return {.status = 405,
              .reason = "Method Not Allowed",
              .body = "Only GET and HEAD\n",
              .more = "Allow: GET, HEAD\r\n"};
    }
    const auto page = std::ranges::find(pages, path, &WebPage::path);
    if (page == pages.end()) {
      return {.status = 404, .reason = "Not Found", .body = "There is no such page\n"};
    }
    const MutexLock lock(mutex);  // held while a page is made: they are made one at a time
    auto made = page->make();
    if (!made) {
      return {.status = 503, .reason = "Service Unavailable", .body = made.error().text + "\n"};
    }
    return {.type = page->type, .body = std::move(*made)};
  }

  std::vector<WebPage> pages;
  Mutex mutex;
  mg_context* context = nullptr;
};

WebPages::WebPages(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WebPages::~WebPages() = default;

int WebPages::port() const {
  std::array<mg_server_port, 1> ports{};
  return mg_get_server_ports(impl_->context, 1, ports.data()) < 1 ? 0 : ports.front().port;
}

Result<std::unique_ptr<WebPages>> WebPages::open(const std::string& listen,
                                                 std::vector<WebPage> pages) {
  auto impl = std::make_unique<Impl>(std::move(pages));
  mg_callbacks callbacks{};
  callbacks.begin_request = &Impl::serve;
  callbacks.log_message = &keep_words;
  const std::string threads = std::to_string(kThreads);
  const std::string patience = std::to_string(kPatienceMs);
  std::array<const char*, 9> options = {
      "listening_ports", listen.c_str(),      "num_threads", threads.c_str(), "request_timeout_ms",
      patience.c_str(),  "enable_keep_alive", "no",          nullptr};
  first_words.clear();
  impl->context = mg_start(&callbacks, impl.get(), options.data());
  if (impl->context == nullptr) {
    std::string why = listen_trouble(listen);
    if (why.empty()) why = first_words.empty() ? "cannot listen there" : first_words;
    return fail(Errc::kInvalid, "page at " + listen + ": " + why);
  }
  return std::unique_ptr<WebPages>(new WebPages(std::move(impl)));
}

}  // namespace weft
