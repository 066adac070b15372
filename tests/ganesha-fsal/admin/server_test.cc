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

class FakeSource : public AdminSource {
 public:
  Result<StatusReport> status() override {
    ++asked;
    StatusReport report;
    report.version = "test";
    return report;
  }
  Result<std::vector<DataServerReport>> data_servers() override {
    return std::vector<DataServerReport>(4);
  }
  Result<FileReport> file(const std::string& path) override {
    if (path != "/export/f") return fail(Errc::kNotFound, path);
    FileReport report;
    report.path = path;
    return report;
  }
  Result<PolicyReport> policy(const std::string& path) override {
    return PolicyReport{.path = path, .own = own};
  }
  Result<PolicyReport> set_policy(const std::string& path, const std::string& text) override {
    if (text == "bad") return fail(Errc::kInvalid, text);
    own = text;
    return policy(path);
  }
  Result<PolicyReport> change_policy(const std::string& path, const std::string& keys) override {
    return set_policy(path, own.empty() ? keys : own + " " + keys);
  }
  Result<MaintenanceReport> maintain(const std::string& what, const std::string& whom) override {
    if (whom == "bad") return fail(Errc::kNotFound, whom);
    while (slow) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    MaintenanceReport report{.action = what};
    report.server = {3, whom};
    return report;
  }
  std::atomic<int> asked = 0;
  std::atomic<bool> slow = false;  // maintain() is
  std::string own;
};

struct Fixture {
  Fixture() {
    auto started = Server::start({socket, std::chrono::milliseconds(200)}, source);
    REQUIRE(started);
    server = std::move(*started);
  }
  Folder folder;
  std::string socket = folder.path + "/run/mds.sock";
  FakeSource source;
  std::unique_ptr<Server> server;
};

}  // namespace

TEST_CASE("the admin server answers every operation", "[admin]") {
  Fixture f;
  const Client client(f.socket);
  auto system = client.status();
  REQUIRE(system);
  CHECK(system->status.version == "test");
  CHECK(system->data_servers.size() == 4);
  CHECK(client.data_servers()->size() == 4);
  CHECK(client.file("/export/f")->path == "/export/f");
  CHECK(client.file("/export/g").error() == Errc::kNotFound);
  CHECK(client.file(std::string(5000, 'x')).error() == Errc::kNameTooLong);
  CHECK(client.set_policy("/export", "copies=2")->own == "copies=2");
  CHECK(client.policy("/export")->own == "copies=2");
  CHECK(client.change_policy("/export", "reads=one")->own == "copies=2 reads=one");
  CHECK(client.change_policy("/export", std::string(600, ' ')).error() == Errc::kInvalid);
  CHECK(client.set_policy("/export", "bad").error() == Errc::kInvalid);
  CHECK(client.set_policy("/export", std::string(600, ' ')).error() == Errc::kInvalid);
  CHECK(client.set_policy("/export", "")->own.empty());
  const auto drained = client.maintain("drain", "ds3");
  REQUIRE(drained);
  CHECK(drained->action == "drain");
  CHECK(drained->server->name == "ds3");
  CHECK(client.maintain("drain", "bad").error() == Errc::kNotFound);
  CHECK(client.maintain("drain", std::string(600, 'x')).error() == Errc::kInvalid);
  CHECK(client.policy(std::string(5000, 'x')).error() == Errc::kNameTooLong);
}

TEST_CASE("who asks how things are does not wait for who changes them", "[admin]") {
  Fixture f;
  const Client client(f.socket);
  f.source.slow = true;
  std::atomic<int> done = 0;
  std::vector<std::thread> slow;
  for (int i = 0; i < 3; ++i) {
    slow.emplace_back([&] {
      if (Client(f.socket).maintain("drain", "ds3")) ++done;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // longer than the deadline
  CHECK(client.status());
  CHECK(client.file("/export/f"));
  CHECK(done == 0);
  f.source.slow = false;
  for (auto& thread : slow) thread.join();
  CHECK(done == 3);
}

TEST_CASE("a server that ends first finishes what it was asked", "[admin]") {
  Fixture f;
  f.source.slow = true;
  bool done = false;
  std::thread slow([&] { done = Client(f.socket).maintain("drain", "ds3").has_value(); });
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
  CHECK(Client(f.socket).status().error() == Errc::kNotFound);
}

TEST_CASE("a second server does not take the socket of a live one", "[admin]") {
  Fixture f;
  CHECK(Server::start({f.socket}, f.source).error() == Errc::kExists);
  CHECK(Client(f.socket).status());
}

TEST_CASE("a socket left by a dead server is replaced, another file is not", "[admin]") {
  Folder folder;
  FakeSource source;
  const std::string path = folder.path + "/s";
  {
    boost::asio::io_context io;
    const boost::asio::local::stream_protocol::acceptor dead(io, {path});
  }  // closed without unlink, as after SIGKILL
  REQUIRE(std::filesystem::exists(path));
  CHECK(Client(path).status().error() == Errc::kUnreachable);
  CHECK(Server::start({path}, source));

  const std::string file = folder.path + "/file";
  std::ofstream(file) << "precious";
  CHECK(Server::start({file}, source).error() == Errc::kExists);
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
  CHECK(Client(f.socket).status());
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
  const auto status = Client(path).status();
  serve.join();
  CHECK(status.error() == Errc::kNotSupported);
  CHECK(status.error().text.contains("install the same version"));
}

TEST_CASE("a server that does not answer is waited for no longer than said", "[admin]") {
  Folder folder;
  const std::string path = folder.path + "/s";
  boost::asio::io_context io;
  const boost::asio::local::stream_protocol::acceptor deaf(io, {path});
  CHECK(Client(path, std::chrono::milliseconds(50)).status().error() == Errc::kTimedOut);
}

TEST_CASE("many callers at once are all answered", "[admin]") {
  Fixture f;
  std::atomic<int> good = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      for (int call = 0; call < 50; ++call) good += Client(f.socket).status() ? 1 : 0;
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(good == 400);
  CHECK(f.source.asked == 400);
}

TEST_CASE("a path too long for a socket is refused", "[admin]") {
  CHECK(Client("/tmp/" + std::string(200, 'x')).status().error() == Errc::kInvalid);
}

}  // namespace weft::mds::admin
