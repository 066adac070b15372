#include "tools/load/engine.h"

#include <unistd.h>

#include <span>
#include <string_view>
#include <thread>

#include "rpc/base/clock.h"
#include "rpc/transport/tcp_dialer.h"

namespace weft::load {

namespace nfs4 = rpc::nfs4;
using namespace std::chrono_literals;

namespace {

constexpr auto kSetupDeadline = 120s;  // commits of what disks are slow to take, too
constexpr auto kPatience = 60s;        // longer than any grace period of a test
constexpr auto kPause = 200ms;
constexpr auto kKeepAlive = 3s;  // within the shortest lease of a test: layouts live on leases
constexpr auto kGoodbyeDeadline = 2s;
constexpr std::uint32_t kMaxIo = (1U << 20) + 4096;

bool is_later(nfs4::Status status) {
  return status == nfs4::Status::NFS4ERR_GRACE || status == nfs4::Status::NFS4ERR_DELAY ||
         status == nfs4::Status::NFS4ERR_LAYOUTTRYLATER;
}

std::string machine_name() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace

Engine::Engine(std::size_t memory_bytes)
    : pool_(memory_bytes),
      threads_(1, /*pin=*/false),
      owner_("weft-load/" + machine_name() + "/" + std::to_string(::getpid())),
      verifier_(system_random().u64()) {
  threads_.start();
}

Engine::~Engine() { threads_.stop(); }

Result<std::unique_ptr<rpc::SessionClient>> Engine::connect(const std::string& address,
                                                            std::uint16_t port,
                                                            const SessionSettings& settings) {
  rpc::SessionClientOptions options;
  options.owner = owner_;
  options.verifier = verifier_;
  options.minor_version = settings.minor_version;
  options.flags = settings.exchange_flags;
  options.credential = {.stamp = 0, .machine = machine_name(), .uid = 0, .gid = 0, .groups = {}};
  options.slots = settings.slots;
  options.keep_alive = kKeepAlive;
  options.max_request_bytes = kMaxIo;
  options.max_response_bytes = kMaxIo;
  auto session = std::make_unique<rpc::SessionClient>(
      context(), rpc::tcp_dialer(context(), pool_, address, port), options);
  std::promise<Result<>> ready;
  session->when_ready(kSetupDeadline, [&](Result<> outcome) { ready.set_value(outcome); });
  auto outcome = ready.get_future().get();
  if (!outcome) {
    return fail(outcome.error().code, "session with " + address + ":" + std::to_string(port) +
                                          ": " + outcome.error().describe());
  }
  return session;
}

Result<nfs4::CompoundResult> Engine::call(rpc::SessionClient& session, const Ops& ops,
                                          bool cache_this) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  for (;;) {
    std::promise<Result<nfs4::CompoundResult>> answered;
    session.call(
        ops(), {.deadline = kSetupDeadline, .cache_this = cache_this},
        [&](Result<nfs4::CompoundResult> result) { answered.set_value(std::move(result)); });
    auto result = answered.get_future().get();
    if (!result) return result;
    auto ok = check(*result);
    if (ok) return result;
    if (!is_later(result->status) || std::chrono::steady_clock::now() > give_up) return pass(ok);
    std::this_thread::sleep_for(kPause);
  }
}

void Engine::disconnect(std::unique_ptr<rpc::SessionClient> session) {
  auto closed = std::make_shared<std::promise<void>>();
  session->close([closed] { closed->set_value(); });
  closed->get_future().wait_for(kGoodbyeDeadline);
}

Result<> check(const nfs4::CompoundResult& result) {
  if (result.status == nfs4::Status::NFS4_OK) return {};
  std::string where = "COMPOUND";
  if (!result.results.empty()) where = nfs4::to_string(result.results.back().op);
  return fail(nfs4::errc_from(result.status),
              where + ": " + std::string(nfs4::to_string(result.status)));
}

std::vector<std::byte> open_owner() {
  constexpr std::string_view kName = "weft-load";
  const auto bytes = std::as_bytes(std::span(kName));
  return {bytes.begin(), bytes.end()};
}

}  // namespace weft::load
