// Coroutines over callbacks.
//
// A Task starts when it is awaited and runs on the thread of whoever resumes it; spawn() starts one
// that nobody awaits. A Join starts any number of callback operations and waits for them all. Both
// keep to the thread that started them, because a Store calls back there.
//
// Ownership: a Task owns its coroutine; what it refers to lives until it has ended. A Join outlives
// its operations by being awaited before it goes, so each of them must call back.
//
// Where callbacks may be dropped without a call, as timers and queued calls are at shutdown, a Flow
// takes the place of spawn(), and Callbacks that of a Join. Each callback owns the Flow that it
// would resume. When the last one is gone the coroutine is destroyed where it waits, with the Tasks
// that it awaits and all that they hold.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
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

class Flow {
 public:
  using Self = std::weak_ptr<void>;

  struct promise_type {
    Self self;
    Flow get_return_object() {
      return Flow(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };

  // Runs it up to where it first waits.
  void start() && {
    const auto handle = std::exchange(handle_, nullptr);
    const std::shared_ptr<void> keep(handle.address(), [](void* frame) {
      std::coroutine_handle<>::from_address(frame).destroy();
    });
    handle.promise().self = keep;
    handle.resume();
  }

  // Awaited within a Flow: itself, for its Callbacks. It is weak, since a coroutine that owned
  // itself would never go.
  struct ThisFlow {
    Self self;
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<promise_type> flow) {
      self = flow.promise().self;
      return false;  // goes on at once
    }
    Self await_resume() { return std::move(self); }
  };
  [[nodiscard]] static ThisFlow self() { return {}; }

  Flow(Flow&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;
  Flow& operator=(Flow&&) = delete;
  ~Flow() {
    if (handle_) handle_.destroy();
  }

 private:
  explicit Flow(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

// Makes callbacks for the operations of a Flow, and waits until all have been called. Each is
// called once at most.
class Callbacks {
 public:
  explicit Callbacks(Flow::Self flow) : flow_(std::move(flow)) {}
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  template <class Then>
  [[nodiscard]] auto make(Then then) {
    ++pending_;
    return
        [this, keep = flow_.lock(), then = std::move(then)]<class... Args>(Args&&... args) mutable {
          then(std::forward<Args>(args)...);
          if (--pending_ == 0 && waiter_) std::exchange(waiter_, nullptr).resume();
        };
  }
  bool await_ready() const { return pending_ == 0; }
  void await_suspend(std::coroutine_handle<> waiter) { waiter_ = waiter; }
  void await_resume() {}

 private:
  const Flow::Self flow_;
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
