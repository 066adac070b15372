// A request that one server makes of another, and the table of what answers which.
//
// A request is a struct that is described (rpc/xdr/describe.h) and names its number on the wire and
// its reply, which is described too, or void:
//
//   struct Stat {
//     static constexpr std::uint32_t kVerb = 19;
//     using Reply = ObjectStat;
//     ObjectId object;
//   };
//
// Whoever is asked has a handler for it in its Table, whoever asks gives it to a call(). Nothing
// else has to know of it.
//
// Threading: a Table is filled by one thread, and then serves on those on which its handlers may
// run. A Done may be called from any thread, once.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rpc/base/assert.h"
#include "rpc/base/error.h"
#include "rpc/xdr/describe.h"

namespace weft::rpc::peer {

using Bytes = std::vector<std::byte>;

// Called exactly once with a request's answer.
template <class T>
using Done = std::move_only_function<void(Result<T>)>;

template <class R>
concept Request = requires {
  { R::kVerb } -> std::convertible_to<std::uint32_t>;
  typename R::Reply;
};

template <class T>
[[nodiscard]] Bytes to_bytes(const T& message) {
  xdr::Encoder out(64);
  xdr::put(out, message);
  return out.take();
}

// A completion for the bytes of a reply that decodes them for `done`.
template <class Reply>
[[nodiscard]] Done<Bytes> expect(Done<Reply> done) {
  return [done = std::move(done)](Result<Bytes> results) mutable {
    if (!results) return done(std::unexpected(std::move(results.error())));
    if constexpr (std::is_void_v<Reply>) {
      if (!results->empty()) return done(fail(Errc::kProtocol, "result where there is none"));
      done({});
    } else {
      done(xdr::read_whole<Reply>(*results, "reply"));
    }
  };
}

// `From` is what a handler is told of who asks; none where only one peer can.
template <class... From>
class Table {
 public:
  // Answers a call with the bytes of its reply.
  using Responder = Done<Bytes>;

  // handler(From..., R, Done<R::Reply>). Requires: R's verb has no handler yet.
  template <Request R, class Handler>
  void on(Handler handler) {
    const bool added =
        handlers_
            .emplace(R::kVerb,
                     [handler = std::move(handler)](From... from, const Bytes& arguments,
                                                    Responder respond) mutable {
                       auto request = xdr::read_whole<R>(arguments, "request");
                       if (!request) return respond(std::unexpected(std::move(request.error())));
                       handler(from..., std::move(*request),
                               answer_with<typename R::Reply>(std::move(respond)));
                     })
            .second;
    WEFT_ASSERT(added);
  }

  // A member function of an object that outlives the table; its parameter says of which request.
  template <class Object, Request R>
  void on(Object& object, void (Object::*handler)(From..., R, Done<typename R::Reply>)) {
    on<R>([&object, handler](From... from, R request, Done<typename R::Reply> done) {
      (object.*handler)(from..., std::move(request), std::move(done));
    });
  }

  // Malformed arguments, and verbs that have no handler (kNotSupported), are answered here.
  void serve(From... from, std::uint32_t verb, const Bytes& arguments, Responder respond) {
    const auto found = handlers_.find(verb);
    if (found == handlers_.end()) {
      return respond(fail(Errc::kNotSupported, "no request " + std::to_string(verb) + " here"));
    }
    found->second(from..., arguments, std::move(respond));
  }

 private:
  template <class Reply>
  static Done<Reply> answer_with(Responder respond) {
    return [respond = std::move(respond)](Result<Reply> result) mutable {
      if (!result) return respond(std::unexpected(std::move(result.error())));
      if constexpr (std::is_void_v<Reply>) {
        respond(Bytes{});
      } else {
        respond(to_bytes(*result));
      }
    };
  }

  using Serve = std::move_only_function<void(From..., const Bytes&, Responder)>;
  std::map<std::uint32_t, Serve> handlers_;
};

}  // namespace weft::rpc::peer
