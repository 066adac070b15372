#include "rpc/peer/connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

namespace weft::rpc::peer {
namespace {

using boost::system::error_code;

}  // namespace

Connection::Connection(std::shared_ptr<IoThread> io, boost::asio::ip::tcp::socket socket,
                       SecureChannel channel, Limits limits, const weft::Clock& clock)
    : io_(std::move(io)),
      socket_(std::move(socket)),
      timer_(socket_.get_executor()),
      channel_(std::move(channel)),
      limits_(limits),
      clock_(clock),
      calls_(limits.max_calls),
      heard_(clock_.now()) {}

void Connection::start(Events events) {
  events_ = std::move(events);
  error_code ignored;
  socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
  if (auto first = channel_.open(); !first.empty()) send(std::move(first));
  read();
  wake_by(heard_ + limits_.handshake);
}

// Looks at deadlines and silence. What was heard meanwhile puts the next look off.
void Connection::look() {
  const auto now = clock_.now();
  calls_.expire(now);
  if (!open_) return;
  const auto patience = channel_.established() ? limits_.silence : limits_.handshake;
  if (now - heard_ >= patience) {
    return close({Errc::kTimedOut, channel_.established() ? "nothing heard from the peer"
                                                          : "the peer does not speak our protocol, "
                                                            "or does not answer: both servers must "
                                                            "run the same Weft"});
  }
  wake_by(std::min(heard_ + patience, calls_.earliest()));
}

void Connection::wake_by(Clock::time_point due) {
  if (due >= due_) return;
  due_ = due;
  timer_.expires_at(due);
  timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (error || !self->open_) return;
    self->due_ = Clock::time_point::max();
    self->look();
  });
}

void Connection::read() {
  socket_.async_read_some(
      boost::asio::buffer(input_),
      [self = shared_from_this()](const error_code& error, std::size_t size) {
        if (!self->open_) return;
        if (error) return self->close({Errc::kUnreachable, "peer gone: " + error.message()});
        self->on_bytes(size);
      });
}

void Connection::on_bytes(std::size_t size) {
  SecureChannel::Received received;
  const auto taken = channel_.receive(std::span(input_).first(size), received);
  if (!received.to_send.empty()) send(std::move(received.to_send));
  if (channel_.established() && !announced_) {
    announced_ = true;
    heard_ = clock_.now();
    wake_by(heard_ + limits_.silence);
    events_.on_established();
  }
  // Before the peer has proved itself, bytes do not extend the time the handshake may take.
  if (channel_.established()) heard_ = clock_.now();
  for (const auto& payload : received.messages) {
    if (!open_) return;
    on_message(payload);
  }
  if (!open_) return;
  if (!taken) return close(taken.error());
  read();
}

void Connection::on_message(const Bytes& payload) {
  auto message = decode_message(payload, channel_.version());
  if (!message) return close(std::move(message.error()));
  if (auto* call = std::get_if<Call>(&*message)) return on_call(std::move(*call));
  calls_.answer(std::move(std::get<Reply>(*message)));
}

void Connection::on_call(Call call) {
  if (serving_ >= limits_.max_calls) {
    return send_payload(encode_reply(call.xid, fail(Errc::kBusy, "too many calls at once")));
  }
  ++serving_;
  // Called from any thread, at any time: even the io_context may be gone by then.
  auto answer = [weak = weak_from_this(), weak_io = std::weak_ptr(io_),
                 xid = call.xid](Result<Bytes> results) {
    const auto io = weak_io.lock();
    if (io == nullptr) return;
    (void)io->post([weak, xid, results = std::move(results)] {
      const auto self = weak.lock();
      if (self == nullptr || !self->open_) return;
      --self->serving_;
      self->send_payload(encode_reply(xid, results));
    });
  };
  events_.on_call(call.verb, std::move(call.arguments), std::move(answer));
}

void Connection::send_call(std::uint32_t verb, const Bytes& arguments,
                           std::chrono::milliseconds timeout, Done<Bytes> done) {
  if (!open_ || !channel_.established()) {
    return done(fail(Errc::kUnreachable, "control connection is closed"));
  }
  if (unsent_bytes_ > limits_.max_unsent_bytes) {
    return done(fail(Errc::kBusy, "the peer does not take what it is sent"));
  }
  if (arguments.size() > kMaxPayloadBytes - kMaxHeaderBytes) {
    return done(fail(Errc::kTooLarge, "control call too large"));
  }
  const auto deadline = clock_.now() + timeout;
  const auto xid = calls_.add(deadline, std::move(done));
  if (!xid) return done(std::unexpected(xid.error()));
  wake_by(deadline);
  send_payload(encode_call(*xid, channel_.version(), verb, arguments));
}

void Connection::send_payload(const Bytes& payload) {
  auto record = channel_.seal(payload);
  if (!record) return close(std::move(record.error()));
  send(std::move(*record));
}

void Connection::send(Bytes bytes) {
  if (unsent_bytes_ > 2 * limits_.max_unsent_bytes) {
    return close({Errc::kTimedOut, "the peer does not take what it is sent"});
  }
  unsent_bytes_ += bytes.size();
  output_.push_back(std::move(bytes));
  if (output_.size() == 1) write();
}

void Connection::write() {
  boost::asio::async_write(
      socket_, boost::asio::buffer(output_.front()),
      [self = shared_from_this()](const error_code& error, std::size_t) {
        self->unsent_bytes_ -= self->output_.front().size();
        self->output_.pop_front();
        if (!self->open_) return;
        if (error) return self->close({Errc::kUnreachable, "peer gone: " + error.message()});
        if (!self->output_.empty()) self->write();
      });
}

void Connection::close(Error why) {
  if (!open_) return;
  open_ = false;
  timer_.cancel();
  error_code ignored;
  // What was sent last (a refusal, say) still goes out: shutdown before close.
  socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
  calls_.fail_all({Errc::kUnreachable, why.text});
  // Later, since an event of ours may be what called close().
  boost::asio::post(socket_.get_executor(), [self = shared_from_this(), why = std::move(why)] {
    const auto events = std::make_unique<Events>(std::exchange(self->events_, {}));
    if (events->on_closed) events->on_closed(why);
  });
}

}  // namespace weft::rpc::peer
