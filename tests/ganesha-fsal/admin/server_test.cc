#include "ganesha-fsal/admin/server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "ganesha-fsal/admin/client.h"
#include "ganesha-fsal/admin/protocol.h"

namespace weft::mds::admin {
namespace {

using Stream = boost::asio::local::stream_protocol::socket;

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/weft-admin-test.XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

// Answers some of the requests.
struct Fake {
  Fake() {
    table.on<GetStatus>([this](auto&) {
      ++asked;
      SystemReport report;
      report.status.version = "test";
      report.data_servers.resize(4);
      return report;
    });
    table.on<GetFile>([](const GetFile& request) -> Result<FileReport> {
      if (request.path != "/export/f") return fail(Errc::kNotFound, request.path);
      FileReport report;
      report.path = request.path;
      return report;
    });
    table.on<SetPolicy>([](const SetPolicy& request) -> Result<PolicyReport> {
      if (request.policy == "bad") return fail(Errc::kInvalid, request.policy);
      return PolicyReport{.path = request.path, .own = request.policy};
    });
    table.on<Drain>([this](const Drain& request) -> Result<MaintenanceReport> {
      if (request.server == "bad") return fail(Errc::kNotFound, request.server);
      while (slow) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      MaintenanceReport report{.action = Drain::kName};
      report.server = {3, request.server};
      return report;
    });
  }
  Fake(const Fake&) = delete;
  Fake& operator=(const Fake&) = delete;
  Table table;
  std::atomic<int> asked = 0;
  std::atomic<bool> slow = false;  // to drain
};

struct Fixture {
  Fixture() {
    auto started = Server::start({socket, std::chrono::milliseconds(200)}, source.table);
    REQUIRE(started);
    server = std::move(*started);
  }
  Folder folder;
  std::string socket = folder.path + "/run/mds.sock";
  Fake source;
  std::unique_ptr<Server> server;
};

}  // namespace

TEST_CASE("the admin server answers what it has a handler for", "[admin]") {
  Fixture f;
  const Client client(f.socket);
  auto system = client.ask(GetStatus{});
  REQUIRE(system);
  CHECK(system->status.version == "test");
  CHECK(system->data_servers.size() == 4);
  CHECK(client.ask(GetFile{"/export/f"})->path == "/export/f");
  CHECK(client.ask(GetFile{"/export/g"}).error() == Errc::kNotFound);
  CHECK(client.ask(GetFile{std::string(5000, 'x')}).error() == Errc::kInvalid);
  CHECK(client.ask(SetPolicy{"/export", "copies=2"})->own == "copies=2");
  CHECK(client.ask(SetPolicy{"/export", "bad"}).error() == Errc::kInvalid);
  CHECK(client.ask(SetPolicy{"/export", std::string(600, ' ')}).error() == Errc::kInvalid);
  CHECK(client.ask(SetPolicy{"/export", ""})->own.empty());
  const auto drained = client.ask(Drain{"ds3"});
  REQUIRE(drained);
  CHECK(drained->action == "drain");
  CHECK(drained->server->name == "ds3");
  CHECK(client.ask(Drain{"bad"}).error() == Errc::kNotFound);
  CHECK(client.ask(Drain{std::string("a\0b", 3)}).error() == Errc::kInvalid);
  CHECK(client.ask(StopScrub{}).error() == Errc::kNotSupported);
}

TEST_CASE("a request that lacks a field is refused, and named", "[admin]") {
  Fixture f;
  const auto reply =
      exchange(f.socket, request_line("drain", Json::object()), std::chrono::seconds(10));
  REQUIRE(reply);
  const auto report = read_reply<MaintenanceReport>(*reply);
  CHECK(report.error() == Errc::kProtocol);
  CHECK(report.error().text.contains("server"));
}

TEST_CASE("who asks how things are does not wait for who changes them", "[admin]") {
  Fixture f;
  const Client client(f.socket);
  f.source.slow = true;
  std::atomic<int> done = 0;
  std::vector<std::thread> slow;
  for (int i = 0; i < 3; ++i) {
    slow.emplace_back([&] {
      if (Client(f.socket).ask(Drain{"ds3"})) ++done;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // longer than the deadline
  CHECK(client.ask(GetStatus{}));
  CHECK(client.ask(GetFile{"/export/f"}));
  CHECK(done == 0);
  f.source.slow = false;
  for (auto& thread : slow) thread.join();
  CHECK(done == 3);
}

TEST_CASE("a server that ends first finishes what it was asked", "[admin]") {
  Fixture f;
  f.source.slow = true;
  bool done = false;
  std::thread slow([&] { done = Client(f.socket).ask(Drain{"ds3"}).has_value(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    f.source.slow = false;
  });
  f.server.reset();
  slow.join();
  later.join();
  CHECK(done);
}

TEST_CASE("the admin socket is its owner's alone, and goes with the server", "[admin]") {
  Fixture f;
  struct stat found{};
  REQUIRE(::stat(f.socket.c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0600);
  f.server.reset();
  CHECK(Client(f.socket).ask(GetStatus{}).error() == Errc::kNotFound);
}

TEST_CASE("a second server does not take the socket of a live one", "[admin]") {
  Fixture f;
  CHECK(Server::start({f.socket}, f.source.table).error() == Errc::kExists);
  CHECK(Client(f.socket).ask(GetStatus{}));
}

TEST_CASE("a socket left by a dead server is replaced, another file is not", "[admin]") {
  Folder folder;
  Fake source;
  const std::string path = folder.path + "/s";
  {
    boost::asio::io_context io;
    const boost::asio::local::stream_protocol::acceptor dead(io, {path});
  }  // closed without unlink, as after SIGKILL
  REQUIRE(std::filesystem::exists(path));
  CHECK(Client(path).ask(GetStatus{}).error() == Errc::kUnreachable);
  CHECK(Server::start({path}, source.table));

  const std::string file = folder.path + "/file";
  std::ofstream(file) << "precious";
  CHECK(Server::start({file}, source.table).error() == Errc::kExists);
  CHECK(std::filesystem::exists(file));
}

TEST_CASE("callers that send nothing, too much or half hold nobody up for long", "[admin]") {
  Fixture f;
  boost::asio::io_context io;
  const auto caller = [&](const std::string& says) {
    Stream stream(io);
    stream.connect({f.socket});
    boost::asio::write(stream, boost::asio::buffer(says));
    return stream;
  };
  const Stream silent = caller("");
  const Stream half = caller("{\"weft_admin\"");
  const Stream huge = caller(std::string(kMaxRequestBytes + 1, '['));
  CHECK(Client(f.socket).ask(GetStatus{}));
  const auto second = std::chrono::seconds(1);
  const auto reply = exchange(f.socket, "garbage\n", 10 * second);
  REQUIRE(reply);
  CHECK(read_reply<StatusReport>(*reply).error() == Errc::kProtocol);
}

TEST_CASE("a server that closes without an answer is told to be of another version", "[admin]") {
  Folder folder;
  const std::string path = folder.path + "/s";
  boost::asio::io_context io;
  boost::asio::local::stream_protocol::acceptor other(io, {path});
  std::thread serve([&] { Stream caller = other.accept(); });
  const auto status = Client(path).ask(GetStatus{});
  serve.join();
  CHECK(status.error() == Errc::kNotSupported);
  CHECK(status.error().text.contains("install the same version"));
}

TEST_CASE("a server of the version before is asked in that", "[admin]") {
  Folder folder;
  const std::string path = folder.path + "/s";
  boost::asio::io_context io;
  boost::asio::local::stream_protocol::acceptor other(io, {path});
  std::vector<std::string> asked;
  std::thread serve([&] {
    for (const std::string& answer :
         {error_line({Errc::kNotSupported, "no"}, kLeastVersion),
          reply_line(Json(to_json(PolicyReport{.path = "/d"})), kLeastVersion)}) {
      Stream caller = other.accept();
      std::string line;
      boost::asio::read_until(caller, boost::asio::dynamic_buffer(line), '\n');
      asked.push_back(line);
      boost::asio::write(caller, boost::asio::buffer(answer));
    }
  });
  const auto policy = Client(path).ask(GetPolicy{"/d"});
  serve.join();
  REQUIRE(policy);
  CHECK(policy->path == "/d");
  CHECK(asked ==
        std::vector{request_line(GetPolicy{"/d"}), request_line(GetPolicy{"/d"}, kLeastVersion)});
}

TEST_CASE("a caller of the version before is answered in that", "[admin]") {
  Fixture f;
  for (const std::string path : {"/export/f", "/export/g"}) {
    const auto reply =
        exchange(f.socket, request_line(GetFile{path}, kLeastVersion), std::chrono::seconds(10));
    REQUIRE(reply);
    CHECK(other_version(*reply) == kLeastVersion);
    CHECK(read_reply<FileReport>(*reply).has_value() == (path == "/export/f"));
  }
}

TEST_CASE("a server that does not answer is waited for no longer than said", "[admin]") {
  Folder folder;
  const std::string path = folder.path + "/s";
  boost::asio::io_context io;
  const boost::asio::local::stream_protocol::acceptor deaf(io, {path});
  CHECK(Client(path, std::chrono::milliseconds(50)).ask(GetStatus{}).error() == Errc::kTimedOut);
}

TEST_CASE("many callers at once are all answered", "[admin]") {
  Fixture f;
  std::atomic<int> good = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      for (int call = 0; call < 50; ++call) good += Client(f.socket).ask(GetStatus{}) ? 1 : 0;
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(good == 400);
  CHECK(f.source.asked == 400);
}

TEST_CASE("a path too long for a socket is refused", "[admin]") {
  CHECK(Client("/tmp/" + std::string(200, 'x')).ask(GetStatus{}).error() == Errc::kInvalid);
}

}  // namespace weft::mds::admin
