#include "tests/simulation/world/scheduler.h"

#include <execinfo.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tests/simulation/world/futex.h"
#include "tests/simulation/world/real.h"
#include "tests/simulation/world/thread.h"

namespace weft::sim {

namespace {

thread_local Thread* self = nullptr;
thread_local int real_depth = 0;

constexpr std::uint64_t kMillion = 1'000'000;

// What a look at the clock costs, so that who looks until time has passed gets on.
constexpr Ns kLook = 100;

// What a sleeping kernel thread may use of the stack that it has lent, with much to spare.
constexpr std::ptrdiff_t kOwnFrames = 16384;

std::uint64_t mix(std::uint64_t x) {  // splitmix64's finish
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Of the calling kernel thread: the host's, but for threads that end.
Ns processor_time() {
  timespec time{};
  WEFT_REAL(clock_gettime)(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * kSecond + time.tv_nsec;
}

void print_stack() {
  const Real real;
  void* frames[40];
  backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
}

}  // namespace

// All there is to know of the run. One thread at a time is in here.
class Scheduler {
 public:
  Scheduler(const Options& options, const Standing& host)
      : options_(options), host_(host), state_(options.seed) {
    // Some seeds switch at every turn, others hardly ever; some let threads fall far behind.
    static constexpr std::uint64_t kSwitches[] = {500, 20'000, 200'000};
    static constexpr std::uint64_t kStalls[] = {0, 50, 1'000};
    switch_in_million_ = kSwitches[choose(3)];
    stall_in_million_ = kStalls[choose(3)];
  }

  std::uint64_t choose(std::uint64_t bound) {
    state_ += 0x9e3779b97f4a7c15ULL;
    return mix(state_) % bound;
  }
  bool chance(std::uint64_t in_million) { return choose(kMillion) < in_million; }

  Ns look() { return now_ += kLook; }
  [[nodiscard]] Ns now() const { return now_; }

  Thread* add(std::unique_ptr<Thread> made) {
    Thread* thread = made.get();
    thread->id = static_cast<unsigned>(threads_.size());
    threads_.push_back(std::move(made));
    return thread;
  }
  void make_ready(Thread* thread) {
    thread->list = nullptr;
    (paused(thread->node) ? held_ : ready_).push_back(thread);
  }

  void at(Ns time, std::move_only_function<void()> work) {
    queue_.emplace(std::pair(std::max(time, now_), ++sequence_), Event{nullptr, std::move(work)});
  }

  // False: the deadline came first.
  bool wait(WaitList& list, Ns deadline) {
    require_thread("waits");
    self->list = &list;
    self->place = list.waiting_.insert(list.waiting_.end(), self);
    self->timed_out = false;
    self->has_deadline = deadline != kNever;
    if (self->has_deadline) {
      self->deadline = {std::max(deadline, now_), ++sequence_};
      queue_.emplace(self->deadline, Event{self, {}});
    }
    go_on();
    return !self->timed_out;
  }
  void wake(WaitList& list, bool all) {
    while (!list.waiting_.empty()) {
      auto chosen = list.waiting_.begin();
      if (!all) std::advance(chosen, choose(list.waiting_.size()));
      Thread* thread = *chosen;
      list.waiting_.erase(chosen);
      if (thread->has_deadline) queue_.erase(thread->deadline);
      make_ready(thread);
      if (!all) return;
    }
  }

  void preempt() {
    if (in_event_ || self == nullptr) return;
    if (!queue_.empty() && queue_.begin()->first.first <= now_) run_due();
    if (chance(stall_in_million_)) {
      WaitList stalled;
      static_cast<void>(wait(stalled, now_ + static_cast<Ns>(choose(20 * kMillisecond))));
    } else if (chance(switch_in_million_)) {
      yield();
    }
  }
  void yield() {
    require_thread("yields");
    now_ += 1 + kLook;
    make_ready(self);
    go_on();
  }
  // The calling thread has ended. The next one gets the turn, and waits until the kernel thread of
  // this one has gone: what the C library frees with it would come anywhere into what others do.
  void end_thread() {
    require_thread("ends");
    Thread* thread = std::exchange(self, nullptr);
    thread->done = true;
    wake(thread->joiners, true);
    ending_ = raw_call(SYS_gettid);
    give_from_outside(next());
  }
  // The calling thread's start function has returned: its own kernel thread has the rest.
  [[noreturn]] void leave_host() {
    self->outside = true;
    outside_ = self;
    Standing nowhere;
    switch_stack(nowhere, host_);
    std::abort();
  }
  // The host, while a thread's own kernel thread runs.
  [[noreturn]] void host() {
    for (;;) {
      outside_->turn.give();
      host_turn_.await();
      await_end();
      switch_stack(host_, inside_->standing);
    }
  }

  void begin_life(unsigned node) { ++lives_[node]; }
  [[nodiscard]] unsigned life_of(unsigned node) { return lives_[node]; }

  void enter(unsigned node) {
    self->node = node;
    self->life = life_of(node);
    if (paused(node)) yield();
  }
  void pause(unsigned node) {
    if (paused(node)) return;
    paused_.push_back(node);
    move_threads(ready_, held_, node);
  }
  void resume(unsigned node) {
    std::erase(paused_, node);
    move_threads(held_, ready_, node);
  }

  void measure_costs() {
    measuring_ = true;
    charged_at_ = processor_time();
    costs_.clear();
  }
  // The time since the last call is the machine's. Threads that end, which the host does not run,
  // cost nothing.
  void charge(unsigned node) {
    if (!measuring_ || self->outside) return;
    const Ns time = processor_time();
    costs_[node] += time - std::exchange(charged_at_, time);
  }
  [[nodiscard]] const std::map<unsigned, Ns>& costs() const { return costs_; }

  void note(std::uint64_t what) { fingerprint_ = mix(fingerprint_ + what + 1); }
  [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }
  [[nodiscard]] std::uint64_t switches() const { return switches_; }
  [[nodiscard]] const Options& options() const { return options_; }

  [[noreturn]] void fail(const char* why);

 private:
  struct Event {
    Thread* waiter;  // whose deadline it is; null: work
    std::move_only_function<void()> work;
  };
  using Key = std::pair<Ns, std::uint64_t>;

  void require_thread(const char* does) {
    if (in_event_ || self == nullptr) {
      std::fprintf(stderr, "simulation: an event %s\n", does);
      fail("an event must not wait");
    }
  }
  [[nodiscard]] bool paused(unsigned node) const {
    return std::ranges::find(paused_, node) != paused_.end();
  }
  static void move_threads(std::vector<Thread*>& from, std::vector<Thread*>& to, unsigned node) {
    for (Thread* thread : from) {
      if (thread->node == node) to.push_back(thread);
    }
    std::erase_if(from, [node](const Thread* thread) { return thread->node == node; });
  }

  void run_due() {
    while (!queue_.empty() && queue_.begin()->first.first <= now_) {
      auto first = queue_.extract(queue_.begin());
      Event& event = first.mapped();
      if (event.waiter != nullptr) {
        event.waiter->timed_out = true;
        event.waiter->list->waiting_.erase(event.waiter->place);
        make_ready(event.waiter);
        continue;
      }
      in_event_ = true;
      event.work();
      in_event_ = false;
    }
  }
  // Who runs next; time moves on until somebody can.
  Thread* next() {
    run_due();
    while (ready_.empty()) {
      if (queue_.empty()) fail("nobody can run, and nothing is to come (a deadlock)");
      now_ = std::max(now_, queue_.begin()->first.first);
      if (now_ > options_.limit) fail("the run takes longer than its limit of simulated time");
      run_due();
    }
    const std::size_t chosen = ready_.size() == 1 ? 0 : choose(ready_.size());
    Thread* thread = ready_[chosen];
    ready_[chosen] = ready_.back();
    ready_.pop_back();
    note((static_cast<std::uint64_t>(thread->id) << 40) ^ static_cast<std::uint64_t>(now_));
    return thread;
  }
  // The calling thread has said what it waits for, and goes on when it is its turn.
  void go_on() {
    charge(self->node);
    Thread* thread = next();
    charge(kNoNode);
    if (thread == self) return;
    if (++switches_ == options_.max_switches) fail("the run takes more switches than its limit");
    Thread* const me = self;
    if (me->outside) {
      give_from_outside(thread);
      me->turn.await();
      await_end();
      return;
    }
    outside_ = thread;
    switch_stack(me->standing, thread->outside ? host_ : thread->standing);
    while (printing_ != nullptr) {
      print_stack();
      switch_stack(me->standing, printing_->standing);
    }
  }
  void await_end() {
    const long ending = std::exchange(ending_, 0);
    while (ending != 0 && raw_call(SYS_tkill, ending, 0) == 0) raw_call(SYS_sched_yield);
  }
  void give_from_outside(Thread* thread) {
    if (thread->outside) return thread->turn.give();
    inside_ = thread;
    host_turn_.give();
  }
  void print_stack_of(Thread& thread);

  const Options options_;
  Standing host_;  // of host(), which the first thread's kernel thread runs
  Turn host_turn_;
  Thread* outside_ = nullptr;   // whom the host gives the turn
  Thread* inside_ = nullptr;    // whom the host goes on with
  Thread* printing_ = nullptr;  // who wants everybody's stack, at the end
  long ending_ = 0;             // the number of the kernel thread that gave the turn, and ends
  std::uint64_t state_;
  Ns now_ = 0;
  std::uint64_t sequence_ = 0;
  std::map<Key, Event> queue_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Thread*> ready_;  // without the one that runs
  std::vector<Thread*> held_;   // ready, of paused nodes
  std::vector<unsigned> paused_;
  std::map<unsigned, unsigned> lives_;
  bool in_event_ = false;
  std::uint64_t switch_in_million_ = 0;
  std::uint64_t stall_in_million_ = 0;
  std::uint64_t switches_ = 0;
  std::uint64_t fingerprint_ = 0;
  bool measuring_ = false;
  Ns charged_at_ = 0;
  std::map<unsigned, Ns> costs_;
};

namespace {

Scheduler* scheduler = nullptr;

void run_host() { scheduler->host(); }

// On the stack that its own kernel thread has lent.
void run_thread() {
  Thread* const thread = self;
  thread->begun = true;
  thread->result = thread->start(thread->argument);
  scheduler->leave_host();
}

}  // namespace

void Scheduler::print_stack_of(Thread& thread) {
  if (&thread == self) return print_stack();
  // Only the host can go there and come back.
  if (self == nullptr || self->outside || thread.outside || !thread.begun) return;
  printing_ = self;
  switch_stack(self->standing, thread.standing);
  printing_ = nullptr;
}

void Scheduler::fail(const char* why) {
  const Real real;
  std::fprintf(stderr, "simulation: seed %llu, at %.6f s: %s\n",
               static_cast<unsigned long long>(options_.seed), static_cast<double>(now_) / kSecond,
               why);
  for (const auto& thread : threads_) {
    if (thread->done) continue;
    std::fprintf(stderr, "thread %u \"%s\" of node %d%s%s\n", thread->id, thread->name,
                 static_cast<int>(thread->node), thread.get() == self ? ", running" : "",
                 thread->list != nullptr ? ", waiting" : "");
    if (std::getenv("WEFT_SIM_STACKS") == nullptr) continue;
    std::fflush(stderr);
    print_stack_of(*thread);
  }
  std::fflush(stderr);
  ::_exit(3);
}

WaitList::~WaitList() {
  if (!waiting_.empty()) std::abort();
}

bool active() { return self != nullptr && real_depth == 0; }

Real::Real() { ++real_depth; }
Real::~Real() { --real_depth; }

Ns now() { return scheduler->now(); }
Ns look_at_clock() { return scheduler->look(); }
std::uint64_t choose(std::uint64_t bound) { return scheduler->choose(bound); }
bool chance(std::uint64_t in_million) { return scheduler->chance(in_million); }

unsigned node() { return self == nullptr ? kNoNode : self->node; }
void enter_node(unsigned node) { scheduler->enter(node); }
void begin_life(unsigned node) { scheduler->begin_life(node); }
unsigned life_of(unsigned node) { return scheduler->life_of(node); }
unsigned life() { return self == nullptr ? 0 : self->life; }
void pause(unsigned node) { scheduler->pause(node); }
void resume(unsigned node) { scheduler->resume(node); }

void wait(WaitList& list) { static_cast<void>(scheduler->wait(list, kNever)); }
bool wait_until(WaitList& list, Ns deadline) { return scheduler->wait(list, deadline); }
void sleep_until(Ns time) {
  WaitList nobody;
  static_cast<void>(scheduler->wait(nobody, time));
}
void preempt() { scheduler->preempt(); }
void yield() { scheduler->yield(); }
void wake_one(WaitList& list) { scheduler->wake(list, false); }
void wake_all(WaitList& list) { scheduler->wake(list, true); }
void at(Ns time, std::move_only_function<void()> work) { scheduler->at(time, std::move(work)); }

bool tracing() { return scheduler->options().trace; }
void trace(std::string_view text) {
  if (!tracing()) return;
  const Real real;
  std::fprintf(stderr, "%12.6f node %2d thread %3u %.*s\n",
               static_cast<double>(scheduler->now()) / kSecond, static_cast<int>(node()),
               self == nullptr ? 0 : self->id, static_cast<int>(text.size()), text.data());
}

std::uint64_t switches() { return scheduler->switches(); }
std::uint64_t fingerprint() { return scheduler->fingerprint(); }
void note(std::uint64_t what) { scheduler->note(what); }
void measure_costs() { scheduler->measure_costs(); }
std::map<unsigned, Ns> costs() {
  scheduler->charge(node());
  return scheduler->costs();
}
void fail_run(const char* why) { scheduler->fail(why); }

Thread* this_thread() { return self; }
Thread* add_thread() {
  auto thread = std::make_unique<Thread>();
  thread->node = node();
  thread->life = life();
  return scheduler->add(std::move(thread));
}
void lend_thread(Thread* thread) {
  self = thread;
  auto* const here = static_cast<char*>(__builtin_frame_address(0));
  thread->standing = fresh_standing(here - kOwnFrames, run_thread);
  thread->made.give();
  thread->turn.await();
}
void start_thread(Thread* thread) { scheduler->make_ready(thread); }
void end_thread() { scheduler->end_thread(); }

void run(const Options& options, const std::function<void()>& body) {
  if (scheduler != nullptr) std::abort();
  alignas(16) static char host_stack[65536];
  // Stays until the process ends, as its threads may.
  scheduler = new Scheduler(options, fresh_standing(std::end(host_stack), run_host));
  self = add_thread();
  self->handle = pthread_self();
  self->standing.thread_data = reinterpret_cast<std::uintptr_t>(self->handle);
  std::snprintf(self->name, sizeof self->name, "main");
  body();
  self = nullptr;
}

}  // namespace weft::sim
