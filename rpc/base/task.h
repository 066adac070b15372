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

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>
#include <variant>

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
  struct promise_type {
    std::atomic<std::size_t> keepers{0};
    Flow get_return_object() { return Flow(Self::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  // For Callbacks and call(). Who has it runs within the Flow, which exists as long.
  using Self = std::coroutine_handle<promise_type>;

  // Owns a Flow with others. Small, so that callbacks need no memory of their own.
  class Keep {
   public:
    explicit Keep(Self flow) : flow_(flow) {
      if (flow_) ++flow_.promise().keepers;
    }
    Keep(Keep&& other) noexcept : flow_(std::exchange(other.flow_, nullptr)) {}
    Keep(const Keep&) = delete;
    Keep& operator=(const Keep&) = delete;
    Keep& operator=(Keep&&) = delete;
    ~Keep() {
      if (flow_ && --flow_.promise().keepers == 0) flow_.destroy();
    }

   private:
    Self flow_;
  };

  // Runs it up to where it first waits.
  void start() && {
    const Self flow = std::exchange(flow_, nullptr);
    const Keep keep(flow);
    flow.resume();
  }

  // Awaited within a Flow: itself.
  struct ThisFlow {
    Self self;
    bool await_ready() const noexcept { return false; }
    bool await_suspend(Self flow) {
      self = flow;
      return false;  // goes on at once
    }
    Self await_resume() const { return self; }
  };
  [[nodiscard]] static ThisFlow self() { return {}; }

  Flow(Flow&& other) noexcept : flow_(std::exchange(other.flow_, nullptr)) {}
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;
  Flow& operator=(Flow&&) = delete;
  ~Flow() {
    if (flow_) flow_.destroy();
  }

 private:
  explicit Flow(Self flow) : flow_(flow) {}
  Self flow_;
};

// Makes callbacks for the operations of a Flow, and waits until all have been called. Each is
// called once at most, and may make others.
class Callbacks {
 public:
  explicit Callbacks(Flow::Self flow) : flow_(flow) {}
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  template <class Then>
  [[nodiscard]] auto make(Then then) {
    ++pending_;
    return [this, keep = Flow::Keep(flow_),
            then = std::move(then)]<class... Args>(Args&&... args) mutable {
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

// What call() awaits.
template <class T, class Start>
class [[nodiscard]] Calling {
 public:
  Calling(Flow::Self flow, Start start) : flow_(flow), start_(std::move(start)) {}
  Calling(const Calling&) = delete;
  Calling& operator=(const Calling&) = delete;

  bool await_ready() {
    start_([this, keep = Flow::Keep(flow_)]<class... Args>(Args&&... result) {
      value_.emplace(std::forward<Args>(result)...);
      if (waiter_) waiter_.resume();
    });
    return value_.has_value();
  }
  void await_suspend(std::coroutine_handle<> waiter) { waiter_ = waiter; }
  T await_resume() { return std::move(*value_); }

 private:
  const Flow::Self flow_;
  Start start_;
  std::optional<T> value_;
  std::coroutine_handle<> waiter_;
};

// Waits for one callback, and for its value: start(done) begins the operation. Of a Flow.
template <class T = std::monostate, class Start>
Calling<T, Start> call(Flow::Self flow, Start start) {
  return {flow, std::move(start)};
}

// The same of a Task that spawn() began.
template <class T, class Start>
Calling<T, Start> call(Start start) {
  return {nullptr, std::move(start)};
}

}  // namespace weft
