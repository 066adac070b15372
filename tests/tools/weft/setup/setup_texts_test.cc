#include "tools/weft/setup/setup_texts.h"

#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <sstream>

#include "ganesha-fsal/config/options_check.h"

namespace weft::cli {
namespace {

mds::ConfBlock parsed(const std::string& text) {
  return mds::parse_conf(
             text, "g.conf",
             [](const std::string&) -> Result<std::string> { return fail(Errc::kNotFound); })
      .value();
}

// Of a file of the repository.
std::string text_of(const std::string& file) {
  std::ifstream stream(std::string(WEFT_REPOSITORY) + "/" + file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("the configuration that init writes is good, and says what was asked for", "[setup]") {
  for (const char* address : {"192.0.2.1", "2001:db8::1"}) {
    for (const char* admin : {"", "192.0.2.10", "192.0.2.0/24"}) {
      const MdsPlan plan{.address = said_address(address, 0).value(), .copies = 3, .admin = admin};
      const std::string text = ganesha_conf({}, plan);
      const mds::ConfBlock conf = parsed(text);
      CHECK(mds::check_conf(conf).value().exports == 1);
      CHECK(mds::check_conf(conf).value().warnings.empty());
      // The administrator stays in when the EXPORT says None.
      CHECK((text.find("; Access_Type = RW; Squash = no_root") != std::string::npos) ==
            (*admin != '\0'));
      const MdsFacts facts = mds_facts(conf).value();
      CHECK(layout::ip_text(facts.control) == address);
      CHECK(facts.control.port == kControlPort);
      CHECK(facts.key_file == "/etc/weft/cluster.key");
      CHECK(text.find("Copies = 3;") != std::string::npos);
      CHECK((text.find("no_root_squash") != std::string::npos) == (*admin != '\0'));
      CHECK((text.find("Shared_Root = true;") != std::string::npos) == (*admin == '\0'));
    }
  }
}

TEST_CASE("the example and the manual page show what init writes", "[setup]") {
  const MdsPlan plan{
      .address = said_address("192.0.2.1", 0).value(), .copies = 2, .admin = "192.0.2.10"};
  const std::string written = ganesha_conf({}, plan);
  const std::string blocks = written.substr(written.find("NFS_CORE_PARAM {"));
  CHECK(text_of("dist/examples/ganesha.conf").ends_with("\n" + blocks));
  CHECK(text_of("docs/man/fsal-weft.8.scd").contains("\n# EXAMPLE\n\n```\n" + blocks + "```\n"));
}

TEST_CASE("addresses are said as numbers or names, and written as they are said", "[setup]") {
  const auto of = [](const char* said) { return said_address(said, 2051).value(); };
  CHECK(of("192.0.2.1").with_port(7) == "192.0.2.1:7");
  CHECK(of("2001:db8::1").with_port(7) == "[2001:db8::1]:7");
  CHECK(of("[2001:db8::1]:2052").with_port(7) == "[2001:db8::1]:7");
  CHECK(of("192.0.2.1").address == layout::parse_address("192.0.2.1:2051").value());
  CHECK_FALSE(of("192.0.2.1").has_port);
  CHECK(of("192.0.2.1:2052").has_port);
  const SaidAddress named = of("localhost");
  CHECK(named.host == "localhost");
  CHECK(named.address.port == 2051);
  const MdsPlan plan{.address = named, .admin = ""};
  CHECK(ganesha_conf({}, plan).contains("Control_Address = \"localhost:20480\";"));
  CHECK(said_address("m1..invalid", 2051)
            .error()
            .text.starts_with("'m1..invalid:2051' cannot be looked up here: "));
  CHECK(said_address("m 1", 2051).error() == Errc::kInvalid);
}

TEST_CASE("with a prefix every path is below it", "[setup]") {
  const Places places{.prefix = "/tmp/p"};
  const MdsPlan plan{.address = said_address("192.0.2.1", 0).value(), .admin = ""};
  const MdsFacts facts = mds_facts(parsed(ganesha_conf(places, plan))).value();
  CHECK(facts.key_file == "/tmp/p/etc/weft/cluster.key");
}

TEST_CASE("a configuration without a Weft has no facts", "[setup]") {
  CHECK(mds_facts(parsed("EXPORT { FSAL { Name = VFS; } }")).error() == Errc::kNotFound);
  CHECK(mds_facts(parsed("")).error() == Errc::kNotFound);
}

TEST_CASE("names that need quotes somewhere are refused", "[setup]") {
  for (const char* good : {"d1", "rack-1.a_b", "A"}) CHECK(is_plain_name(good));
  for (const char* bad : {"", ".a", "-a", "a b", "a\"", "a/b", "a\n", "\xc3\xa4"}) {
    CHECK_FALSE(is_plain_name(bad));
  }
  CHECK_FALSE(is_plain_name(std::string(65, 'a')));
  CHECK(is_plain_path("/srv/weft/a"));
  for (const char* bad : {"srv", "", "/srv/a b", "/srv/\"a", "/a\n"})
    CHECK_FALSE(is_plain_path(bad));
}

TEST_CASE("a firewall passes what is listened for, RDMA where it is") {
  const auto rule = [](const std::string& what) {
    return "nft add rule inet filter input " + what + " accept";
  };
  CHECK(firewall_rules("{ 1, 2 }", false) == std::vector{rule("tcp dport '{ 1, 2 }'")});
  CHECK(firewall_rules("2052", true) ==
        std::vector{rule("tcp dport 2052"), rule("udp dport 4791")});
}

TEST_CASE("a data server's file is as weft-ds has it", "[setup]") {
  const DsPlan plan{.instance = "a",
                    .name = "d1-a",
                    .domain = "rack1",
                    .disk = "/srv/weft/a",
                    .listen = "192.0.2.11:2051",
                    .mds = "[2001:db8::1]:20480"};
  const std::string text = ds_toml({}, plan);
  CHECK(text == R"(# A data server of a Weft system, made by weft join: weft-ds.toml(5).
[server]
listen = ["192.0.2.11:2051"]
name = "d1-a"
failure_domain = "rack1"

[store]
path = "/srv/weft/a"
# For when it has its store: an empty folder is then a disk that is not mounted.
# create = false

[cluster]
mds = ["[2001:db8::1]:20480"]
key_file = "/etc/weft/cluster.key"
)");
  const std::string never = never_creating(text);
  CHECK(never.find("\ncreate = false\n") != std::string::npos);
  CHECK(never.size() == text.size() - 2);
  CHECK(never_creating(never) == never);
  CHECK(creating(never) == text);
  CHECK(creating(text) == text);
}

TEST_CASE("data servers of directories with one name are told apart", "[setup]") {
  using Names = std::vector<std::string>;
  CHECK(instance_names("/mnt/disk1/weft") == Names{"weft", "disk1-weft", "mnt-disk1-weft"});
  CHECK(instance_names("/a") == Names{"a"});
}

}  // namespace weft::cli
