// Coroutines over the callbacks of the Store interface.
//
// A Task starts when it is awaited and runs on the thread of whoever resumes it; spawn() starts one
// that nobody awaits. A Join starts any number of callback operations and waits for them all. Both
// keep to the thread that started them, because a Store calls back there.
//
// Ownership: a Task owns its coroutine; what it refers to lives until it has ended. A Join outlives
// its operations by being awaited before it goes.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>

#include "rpc/base/assert.h"

namespace weft {

template <class T>
class [[nodiscard]] Task {
 public:
  struct promise_type {
    std::optional<T> value;
    std::coroutine_handle<> waiter;
    Task get_return_object() {
      return Task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> done) noexcept {
        return done.promise().waiter;
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    void return_value(T result) { value.emplace(std::move(result)); }
    void unhandled_exception() { std::terminate(); }
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiter) {
    handle_.promise().waiter = waiter;
    return handle_;
  }
  T await_resume() { return std::move(*handle_.promise().value); }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

struct Detached {
  struct promise_type {
    Detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

// Runs the task and gives its value to `done`.
template <class T, class Done>
Detached spawn(Task<T> task, Done done) {
  T value = co_await task;
  done(std::move(value));
}

class Join {
 public:
  Join() = default;
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;
  ~Join() { WEFT_ASSERT(pending_ == 0); }

  void started() { ++pending_; }
  void ended() {
    if (--pending_ == 0 && waiter_) std::exchange(waiter_, nullptr).resume();
  }
  bool await_ready() const { return pending_ == 0; }
  void await_suspend(std::coroutine_handle<> waiter) { waiter_ = waiter; }
  void await_resume() {}

 private:
  std::size_t pending_ = 0;
  std::coroutine_handle<> waiter_;
};

// Waits for one callback: start(done) begins the operation.
template <class T, class Start>
Task<T> call(Start start) {
  Join join;
  std::optional<T> value;
  join.started();
  start([&join, &value](T result) {
    value.emplace(std::move(result));
    join.ended();
  });
  co_await join;
  co_return std::move(*value);
}

}  // namespace weft
