// Mutexes that the compiler checks: clang's thread-safety analysis (-Wthread-safety) refuses code
// that touches a field without the mutex that guards it. They cost what std::mutex costs.
//
//   WEFT_GUARDED_BY(m)   on a field: touched with m held only
//   WEFT_REQUIRES(m)     on a function or a lambda: the caller holds m
//   WEFT_EXCLUDES(m)     on a function: the caller does not hold m; the function takes it
//   WEFT_ACQUIRE(m), WEFT_RELEASE(m)   on a function: m is held after it, not before; the reverse
//   WEFT_NO_THREAD_SAFETY_ANALYSIS     on a function that the analysis cannot follow; say why
//
// The analysis looks at one function at a time, and at a lambda as a function of its own. So a
// lambda that runs with the mutex held says so, above all the predicate of a wait:
//
//   changed_.wait(mutex_, [this]() WEFT_REQUIRES(mutex_) { return stopping_ || !queue_.empty(); });
//
// Threading: any thread. A Mutex is unlocked by the thread that locked it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#if defined(__clang__)
#define WEFT_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define WEFT_THREAD_SAFETY(attribute)
#endif

#define WEFT_CAPABILITY(name) WEFT_THREAD_SAFETY(capability(name))
#define WEFT_SCOPED_CAPABILITY WEFT_THREAD_SAFETY(scoped_lockable)
#define WEFT_GUARDED_BY(mutex) WEFT_THREAD_SAFETY(guarded_by(mutex))
#define WEFT_REQUIRES(...) WEFT_THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define WEFT_EXCLUDES(...) WEFT_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
#define WEFT_ACQUIRE(...) WEFT_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define WEFT_ACQUIRE_SHARED(...) WEFT_THREAD_SAFETY(acquire_shared_capability(__VA_ARGS__))
#define WEFT_RELEASE(...) WEFT_THREAD_SAFETY(release_capability(__VA_ARGS__))
#define WEFT_RELEASE_SHARED(...) WEFT_THREAD_SAFETY(release_shared_capability(__VA_ARGS__))
#define WEFT_NO_THREAD_SAFETY_ANALYSIS WEFT_THREAD_SAFETY(no_thread_safety_analysis)

namespace weft {

class WEFT_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() WEFT_ACQUIRE() { mutex_.lock(); }
  void unlock() WEFT_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

// Many readers or one writer.
class WEFT_CAPABILITY("shared mutex") SharedMutex {
 public:
  SharedMutex() = default;
  SharedMutex(const SharedMutex&) = delete;
  SharedMutex& operator=(const SharedMutex&) = delete;

  void lock() WEFT_ACQUIRE() { mutex_.lock(); }
  void unlock() WEFT_RELEASE() { mutex_.unlock(); }
  void lock_shared() WEFT_ACQUIRE_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() WEFT_RELEASE_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

// Holds a Mutex or, for writing, a SharedMutex until the end of the scope. unlock() lets go of it
// for a call out, lock() takes it again.
template <class M>
class WEFT_SCOPED_CAPABILITY BasicMutexLock {
 public:
  explicit BasicMutexLock(M& mutex) WEFT_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  BasicMutexLock(const BasicMutexLock&) = delete;
  BasicMutexLock& operator=(const BasicMutexLock&) = delete;
  ~BasicMutexLock() WEFT_RELEASE() {
    if (held_) mutex_.unlock();
  }

  void lock() WEFT_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }
  void unlock() WEFT_RELEASE() {
    held_ = false;
    mutex_.unlock();
  }

 private:
  M& mutex_;
  bool held_ = true;
};
using MutexLock = BasicMutexLock<Mutex>;
using WriteLock = BasicMutexLock<SharedMutex>;

// Holds a SharedMutex for reading until the end of the scope.
class WEFT_SCOPED_CAPABILITY ReadLock {
 public:
  explicit ReadLock(SharedMutex& mutex) WEFT_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ReadLock(const ReadLock&) = delete;
  ReadLock& operator=(const ReadLock&) = delete;
  ~ReadLock() WEFT_RELEASE() { mutex_.unlock_shared(); }

 private:
  SharedMutex& mutex_;
};

// A condition variable of code that holds a Mutex. A wait lets go of the mutex and takes it again.
class CondVar {
 public:
  void notify_one() noexcept { changed_.notify_one(); }
  void notify_all() noexcept { changed_.notify_all(); }

  // May return without a notification: look again at what was waited for.
  void wait(Mutex& mutex) WEFT_REQUIRES(mutex) {
    Held held(mutex);
    changed_.wait(held.lock);
  }
  template <class Rep, class Period>
  void wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> span) WEFT_REQUIRES(mutex) {
    Held held(mutex);
    changed_.wait_for(held.lock, span);
  }

  // Until `holds`, a lambda that WEFT_REQUIRES the mutex, returns true; or time has run out, which
  // returns what `holds` does then. (The analysis knows the mutex by another name here than where
  // the lambda was written.)
  template <class Predicate>
  void wait(Mutex& mutex, Predicate holds) WEFT_REQUIRES(mutex) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    Held held(mutex);
    changed_.wait(held.lock, holds);
  }
  template <class Rep, class Period, class Predicate>
  bool wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> span, Predicate holds)
      WEFT_REQUIRES(mutex) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    Held held(mutex);
    return changed_.wait_for(held.lock, span, holds);
  }
  template <class Clock, class Duration, class Predicate>
  bool wait_until(Mutex& mutex, std::chrono::time_point<Clock, Duration> deadline, Predicate holds)
      WEFT_REQUIRES(mutex) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    Held held(mutex);
    return changed_.wait_until(held.lock, deadline, holds);
  }

 private:
  // The lock that std::condition_variable wants, of a mutex that is and stays held.
  struct Held {
    explicit Held(Mutex& mutex) : lock(mutex.mutex_, std::adopt_lock) {}
    ~Held() { static_cast<void>(lock.release()); }
    std::unique_lock<std::mutex> lock;
  };

  std::condition_variable changed_;
};

}  // namespace weft
