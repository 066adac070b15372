#include "ganesha-fsal/config/options_check.h"

#include <spdlog/fmt/fmt.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

#include "layout/candidate.h"
#include "rpc/control/port.h"

namespace weft::mds {
namespace {

constexpr std::string_view kGood = R"(Metadata_Path = "/var/lib/weft/mds"; Key_File = "/etc/key";)";

// An EXPORT beside that of export_of(), with this besides, all in one line but for breaks in it.
std::string other(std::string_view rest, std::string_view fsal = "FSAL { Name = VFS; }") {
  return fmt::format("EXPORT {{ Export_Id = 2; Path = \"/\"; Pseudo = \"/other\"; {} {} }}\n", rest,
                     fsal);
}

std::string export_of(std::string_view options) {
  return "EXPORT {\n  Export_Id = 1; Path = \"/\"; Pseudo = \"/weft\";\n  FSAL {\n    Name = "
         "WEFT;\n" +
         std::string(options) +
         "\n  }\n}\nNFS_CORE_PARAM { Enable_RQUOTA = false; Allow_Set_Io_Flusher_Fail = true; } "
         "NFSv4 { PNFS_MDS = true; }\n";
}

Result<CheckedConf> check(const std::string& text) {
  auto conf = parse_conf(text, "g.conf", [](const std::string& path) -> Result<std::string> {
    return fail(Errc::kNotFound, path);
  });
  if (!conf) return pass(conf);
  return check_conf(*conf);
}

// Of a block that says what every one has to, and this in its next line, the 6th of the file.
std::string error_of(std::string_view options) {
  const auto checked = check(export_of(std::string(kGood) + "\n" + std::string(options)));
  return checked ? "" : checked.error().text;
}

TEST_CASE("every option there is is taken, in any case") {
  const auto checked = check(export_of(R"(metadata_path = "/m"; KEY_FILE = '/k';
    Control_Address = "[::1]:20480"; Admin_Socket = ""; Metrics_Address = "127.0.0.1:9100";
    Status_Address = "127.0.0.1:9101";
    Layout_Type = Files; Stripe_Unit = 1048576; Stripe_Count = 0; Copies = 2;
    Duplication = server-sync; Reads = ALL; PNFS = yes; Shared_Root = no; Sync_Metadata = Off;
    Metadata_Cache = 8; Metadata_Write_Buffer = "1 GiB";
    Metadata_Timeout = 60; Recall_Timeout = 0; Kept_Layouts = 0100; By_Load = true;
    Data_Server_Lease = 60; Proxy_Memory = 16; Proxy_Timeout = 1; Shared_Memory = false;
    Resync_Rate = 0; Replace_After = 1800; Scrub_Every = 0;)"));
  REQUIRE(checked);
  CHECK(checked->exports == 1);
  CHECK(checked->keys.at(0).terms.at(0).text == "/k");
}

TEST_CASE("options as they run are told as a file has them") {
  weft_options options{};
  char path[] = "/m";
  options.metadata_path = path;
  options.copies = 2;
  options.reads = WEFT_READ_ALL;
  options.pnfs = true;
  options.layout_kind = WEFT_LAYOUT_FLEXFILES;
  const auto find = [&](OptionsOf whose, std::string_view name) -> std::vector<std::string> {
    for (const OptionValue& one : option_values(options, whose)) {
      if (one.name == name) return {one.value, one.by_default};
    }
    return {};
  };
  using Both = std::vector<std::string>;
  CHECK(find(OptionsOf::kServer, "Metadata_Path") == Both{"/m", ""});
  CHECK(find(OptionsOf::kServer, "Control_Address") ==
        Both{"", fmt::format("127.0.0.1:{}", rpc::control::kControlPort)});
  CHECK(find(OptionsOf::kServer, "Sync_Metadata") == Both{"false", "true"});
  options.scrub_every = 3600;
  options.resync_rate = 64;
  options.metadata_cache = 2048;
  options.metadata_buffer = 8;
  CHECK(find(OptionsOf::kServer, "Scrub_Every") == Both{"3600 s", "604800 s"});
  CHECK(find(OptionsOf::kServer, "Resync_Rate") == Both{"64 MiB", "100 MiB"});
  CHECK(find(OptionsOf::kServer, "Metadata_Cache") == Both{"2 GiB", "256 MiB"});
  CHECK(find(OptionsOf::kServer, "Metadata_Write_Buffer") == Both{"8 MiB", "42 MiB"});
  CHECK(find(OptionsOf::kExport, "Inline") == Both{"0", "16 KiB"});
  CHECK(find(OptionsOf::kExport, "Copies") == Both{"2", "1"});
  CHECK(find(OptionsOf::kExport, "Layout_Type") == Both{"flexfiles", "files"});
  CHECK(find(OptionsOf::kExport, "Duplication") == Both{"", ""});
  CHECK(find(OptionsOf::kExport, "Reads") == Both{"all", "all"});
  // Each is of one kind.
  CHECK(find(OptionsOf::kServer, "Copies").empty());
  CHECK(find(OptionsOf::kExport, "Metadata_Path").empty());
  CHECK(option_values(options, OptionsOf::kServer).size() == 22);
  CHECK(option_values(options, OptionsOf::kExport).size() == 8);
}

TEST_CASE("a wrong option is named with its line, what it takes and the nearest there is") {
  CHECK(error_of("Copys = 2;") ==
        "g.conf:6: FSAL WEFT has no option Copys; the nearest there is: Copies");
  CHECK(error_of("Copies = 4;") == "g.conf:6: Copies = 4: must be a number from 1 to 3");
  const std::string most = std::to_string(layout::kMaxLayoutServers);
  CHECK(error_of("Stripe_Count = " + most + ";") == "");
  CHECK(error_of("Stripe_Count = 59;") ==
        "g.conf:6: Stripe_Count = 59: must be a number from 0 to " + most);
  CHECK(error_of("Copies = \"2\";") == "g.conf:6: Copies = 2: must be a number from 1 to 3");
  CHECK(error_of("Copies = two;") == "g.conf:6: Copies = two: must be a number from 1 to 3");
  CHECK(error_of("Copies = 1, 2;") == "g.conf:6: Copies takes one value");
  CHECK(error_of("Copies = 2;\nCOPIES = 2;") == "g.conf:7: COPIES was given in line 6 already");
  CHECK(error_of("PNFS = maybe;") == "g.conf:6: PNFS = maybe: must be true or false");
  CHECK(error_of("Layout_Type = file;") ==
        "g.conf:6: Layout_Type = file: must be files or flexfiles");
  CHECK(error_of("Stripe_Unit = 100;") ==
        "g.conf:3: Stripe_Unit = 100: must be a multiple of 64 bytes");
  CHECK(error_of("Duplication = client-sync;").starts_with("g.conf:3: duplication=client-sync"));
  CHECK(error_of("Duplication = client-async;") ==
        "g.conf:6: Duplication = client-async: must be server-async, server-sync or client-sync");
  CHECK(error_of("Control_Address = \"mds1\";")
            .starts_with("g.conf:6: Control_Address: 'mds1' is not an address or a name with a"));
  // Whether there is such a name is for check_conf_file(), which asks.
  CHECK(error_of("Control_Address = \"mds1..example:20480\";").empty());
  CHECK(error_of("FSAL { }") == "g.conf:6: FSAL WEFT has no block FSAL");
}

TEST_CASE("durations and sizes have units, as in other configuration files") {
  CHECK(error_of(R"(Scrub_Every = "7 d"; Replace_After = '30min'; Recall_Timeout = "90 s";)") ==
        "");
  CHECK(error_of(R"(Resync_Rate = "64 MiB"; Proxy_Memory = "1 GiB"; Stripe_Unit = "64 KiB";)") ==
        "");
  CHECK(error_of(R"(Inline = "16K"; Metadata_Timeout = "60";)") == "");
  CHECK(error_of("Scrub_Every = \"2 w\";") ==
        "g.conf:6: Scrub_Every = 2 w: must be 0 s to 366 d, or the number of seconds");
  CHECK(error_of("Metadata_Timeout = \"2 h\";") ==
        "g.conf:6: Metadata_Timeout = 2 h: must be 5 s to 1 h, or the number of seconds");
  // Not a whole number of what is counted.
  CHECK(error_of("Resync_Rate = \"100 KiB\";") ==
        "g.conf:6: Resync_Rate = 100 KiB: must be 0 to 1 TiB, or the number of MiB");
  CHECK(error_of("Proxy_Memory = 8;") ==
        "g.conf:6: Proxy_Memory = 8: must be 16 MiB to 64 GiB, or the number of MiB");
  CHECK(error_of(R"(Metadata_Cache = "1 TiB"; Metadata_Write_Buffer = "1 MiB";)") == "");
  CHECK(error_of("Metadata_Cache = 7;") ==
        "g.conf:6: Metadata_Cache = 7: must be 8 MiB to 1 TiB, or the number of MiB");
  CHECK(error_of("Metadata_Write_Buffer = \"1536 KiB\";") ==
        "g.conf:6: Metadata_Write_Buffer = 1536 KiB: must be 1 MiB to 1 GiB, or the number of "
        "MiB");
  CHECK(error_of("Metadata_Write_Buffer = 1025;") ==
        "g.conf:6: Metadata_Write_Buffer = 1025: must be 1 MiB to 1 GiB, or the number of MiB");
  CHECK(error_of("Stripe_Unit = \"2 GiB\";") ==
        "g.conf:6: Stripe_Unit = 2 GiB: must be 64 to 1 GiB, or the number of bytes");
  std::uint32_t into = 7;
  CHECK(weft_parse_amount("2 min", WEFT_SECONDS, 1, 0, 3600, &into));
  CHECK(into == 120);
  CHECK(weft_parse_amount("3 GiB", WEFT_BYTES, 1U << 20, 0, 4096, &into));
  CHECK(into == 3072);
  CHECK_FALSE(weft_parse_amount("5 GiB", WEFT_BYTES, 1U << 20, 0, 4096, &into));
  CHECK(into == 3072);
}

TEST_CASE("what every export needs") {
  const auto of = [](std::string_view options) { return check(export_of(options)).error().text; };
  CHECK(of("Key_File = \"/k\";") == "g.conf:3: Metadata_Path is not set, in the FSAL block");
  CHECK(of("Metadata_Path = \"/m\";") == "g.conf:3: Key_File is not set, in the FSAL block");
  CHECK(of("Metadata_Path = \"m\"; Key_File = \"/k\";") ==
        "g.conf:5: Metadata_Path = m: must be an absolute path");
}

TEST_CASE("exports of one store say alike where data servers find it, and by which key") {
  // Its FSAL block is in the 9th line, after one that is good.
  const auto beside = [](const std::string& options) {
    const auto checked = check(export_of("Metadata_Path = \"/m\"; Key_File = \"/k\";") +
                               other("", "FSAL { Name = WEFT;\n" + options + "}"));
    return checked ? "" : checked.error().text;
  };
  CHECK(beside("Metadata_Path = \"/m\"; Key_File = \"/k\"; Copies = 2;") == "");
  CHECK(beside("Metadata_Path = \"/m\"; Key_File = \"/other\";") ==
        "g.conf:10: Key_File = /other: must be that of the other export with the same "
        "Metadata_Path, /k in line 5");
  CHECK(beside("Metadata_Path = \"/m\"; Key_File = \"/k\";\nControl_Address = \"[::1]:20480\";") ==
        "g.conf:11: Control_Address = [::1]:20480: must be that of the other export with the same "
        "Metadata_Path, 127.0.0.1:20480 in line 3");
  // As is said when nothing is said.
  CHECK(beside("Metadata_Path = \"/m\"; Key_File = \"/k\"; Control_Address = "
               "\"127.0.0.1:20480\";") == "");
  CHECK(beside("Metadata_Path = \"/other\"; Key_File = \"/other\";") == "");
}

TEST_CASE("other FSALs' blocks are theirs, and one below another's is ours") {
  CHECK(check(other("", "FSAL { Name = VFS; Copys = 1; }") + "VFS { What = 1; }")->exports == 0);
  const auto below = check(other("", "FSAL { Name = NULL; FSAL { Name = WEFT; Copys = 1; } }"));
  CHECK_FALSE(below);
  CHECK_FALSE(check("WEFT { Copies = 2; }"));
}

// Of an export that is good, and this besides, from the 9th line on.
std::string error_beside(std::string_view text) {
  const auto checked = check(export_of(kGood) + std::string(text));
  return checked ? "" : checked.error().text;
}

// With this in one of its blocks, besides.
std::string error_in(const std::string& block, std::string_view said) {
  std::string whole = export_of(kGood);
  const std::string begin = block + " {";
  whole.insert(whole.find(begin) + begin.size(), fmt::format("\n{}\n", said));
  const auto checked = check(whole);
  return checked ? "" : checked.error().text;
}

TEST_CASE("a CLIENT block that keeps nobody out is warned of", "[clients]") {
  const auto warnings = [](const std::string& beside) {
    return check(export_of(kGood) + beside).value().warnings;
  };
  CHECK(warnings(other("Access_Type = RW;\n CLIENT { Clients = 192.0.2.0/24; }")) ==
        std::vector<std::string>{
            "g.conf:10: CLIENT has no effect: with Access_Type = RW the EXPORT lets every address "
            "mount. Where only some may, Access_Type = None stands in the EXPORT, and Access_Type "
            "= RW in the CLIENT block"});
  CHECK(warnings(other("access_type = ro; CLIENT { Clients = c1; Access_Type = RO; }")).size() ==
        1);
  CHECK(warnings("EXPORT_DEFAULTS { Access_Type = RO; }" +
                 other("CLIENT { Clients = c1; }\nCLIENT { Clients = c2; }"))
            .size() == 2);
  // The documented form; others have more, or less, than the rest.
  CHECK(warnings(other("Access_Type = None; CLIENT { Clients = c1; Access_Type = RW; }")).empty());
  CHECK(warnings(other("CLIENT { Clients = c1; Access_Type = RW; }")).empty());
  CHECK(warnings(other("Access_Type = RO; CLIENT { Clients = c1; Access_Type = RW; }")).empty());
  CHECK(warnings(other("Access_Type = RW; CLIENT { Clients = c1; Squash = no_root_squash; }"))
            .empty());
  // It takes its address out of the next one.
  CHECK(warnings(other("Access_Type = RW; CLIENT { Clients = c1; }\n"
                       "CLIENT { Clients = 192.0.2.0/24; Access_Type = None; }"))
            .empty());
}

TEST_CASE("what Ganesha would pass over is refused, with the nearest there is") {
  CHECK(check("EXPROT { FSAL { Name = WEFT; } }").error().text ==
        "g.conf:1: Ganesha has no block EXPROT; the nearest there is: EXPORT");
  CHECK(error_beside("NFSv44 { }") ==
        "g.conf:9: Ganesha has no block NFSv44; the nearest there is: NFSv4");
  CHECK(error_beside("PNFS_MSD { }").starts_with("g.conf:9: Ganesha has no block PNFS_MSD;"));
  CHECK(error_beside("NFSv4 { PNFS_MSD = true; }") ==
        "g.conf:9: NFSv4 has no parameter PNFS_MSD; the nearest there is: PNFS_MDS");
  CHECK(error_beside("EXPORT { Psuedo = \"/weft\"; }") ==
        "g.conf:9: EXPORT has no parameter Psuedo; the nearest there is: Pseudo");
  CHECK(error_beside("EXPORT { Squash = rot_squash; }") ==
        "g.conf:9: Squash = rot_squash: is no word that it takes; the nearest there is: "
        "Root_Squash");
  CHECK(error_beside("EXPORT { SecType = sys, krb; }").starts_with("g.conf:9: SecType = krb: "));
  CHECK(error_beside("EXPORT { Access_Type = RW, RO; }") ==
        "g.conf:9: Access_Type takes one value");
  CHECK(error_beside("EXPORT {\n CLIENT { Client = 192.0.2.10; } }") ==
        "g.conf:10: CLIENT has no parameter Client; the nearest there is: Clients");
  CHECK(error_beside("EXPORT { CLIENTS { } }") ==
        "g.conf:9: EXPORT has no block CLIENTS; the nearest there is: CLIENT");
  CHECK(error_beside("NFS_CORE_PARAM { Enable_NLM = never; }") ==
        "g.conf:9: Enable_NLM = never: must be true or false, without quotes");
  CHECK(error_beside("Copies = 2;") == "g.conf:9: Copies stands in no block");
  CHECK(error_in("NFS_CORE_PARAM", "protocols = 4; BIND_ADDR = 192.0.2.1;") == "");
}

TEST_CASE("numbers and flags of Ganesha's are such, and numbers in Ganesha's ranges") {
  const auto number = [](const std::string& said, std::string_view from_to) {
    return fmt::format("g.conf:9: {}: must be a number {}, without quotes or a unit", said,
                       from_to);
  };
  const auto lease = [&](const std::string& said) {
    return number("Lease_Lifetime = " + said, "of seconds from 1 to 180");
  };
  CHECK(error_beside("NFSv4 { Lease_Lifetime = \"1 min\"; }") == lease("1 min"));
  CHECK(error_beside("NFSv4 { Lease_Lifetime = '60'; }") == lease("60"));
  CHECK(error_beside("NFSv4 { Lease_Lifetime = 0; }") == lease("0"));
  CHECK(error_beside("NFSv4 { Lease_Lifetime = 181; }") == lease("181"));
  CHECK(error_beside("NFSv4 { Lease_Lifetime = -1; }") == lease("-1"));
  CHECK(error_beside("NFSv4 { Lease_Lifetime = ~0; }") == lease("~0"));
  CHECK(error_in("NFSv4", "Lease_Lifetime = 0264; Grace_Period = 0;") == "");
  CHECK(error_in("NFSv4", "Max_Client_Ids = 0; Max_Sessions = 0xffffffff;") == "");
  CHECK(error_in("NFSv4", "Max_Sessions = 0x100000000;") != "");
  CHECK(error_beside("NFSv4 { Grace_Period = 9000; }") ==
        number("Grace_Period = 9000", "of seconds from 0 to 270"));
  CHECK(error_beside("EXPORT { Export_Id = x; }") == number("Export_id = x", "from 0 to 65535"));
  CHECK(error_beside("EXPORT { Export_Id = 99999; }") ==
        number("Export_id = 99999", "from 0 to 65535"));
  CHECK(error_beside("EXPORT { Attr_Expiration_Time = -2; }") ==
        number("Attr_Expiration_Time = -2", "of seconds from -1 to 2147483647"));
  CHECK(error_beside("NFS_CORE_PARAM { NFS_Port = 0x; }") ==
        number("NFS_Port = 0x", "from 0 to 65535"));
  CHECK(error_beside("NFS_CORE_PARAM { NFS_Port = 99999; }") ==
        number("NFS_Port = 99999", "from 0 to 65535"));
  CHECK(error_beside("MDCACHE { Dir_Chunk = -; }") != "");
  CHECK(error_beside("MDCACHE { Dir_Chunk = 0; }") ==
        number("Dir_Chunk = 0", "from 1 to 4294967295"));
  CHECK(error_beside("NFSv4 { Expired_Client_Threshold = 16; }") ==
        "g.conf:9: Expired_Client_Threshold = 16: must be 0");
  CHECK(error_beside("NFSv4 { Graceless = \"true\"; }") ==
        "g.conf:9: Graceless = true: must be true or false, without quotes");
  CHECK(error_beside(other("Anonymous_Uid = -2; Anonymous_Gid = 4294967295;\n"
                           "Attr_Expiration_Time = -1; MaxRead = 01000; MaxOffsetRead = "
                           "18446744073709551615;")) == "");
  CHECK(error_beside("EXPORT { Anonymous_Gid = ~1; }") ==
        number("Anonymous_gid = ~1", "from -2147483648 to 4294967295"));
  CHECK(error_in("NFS_CORE_PARAM", "NFS_Port = 0x801; Unique_Server_Id = ~0;") == "");
}

TEST_CASE("what Ganesha is built without is not there") {
  CHECK(error_beside("NFS_CORE_PARAM { Monitoring_Port = 9587; }")
            .starts_with("g.conf:9: NFS_CORE_PARAM has no parameter Monitoring_Port; "));
  CHECK(error_beside("NFS_CORE_PARAM { Protocols = 4, 9P; }")
            .starts_with("g.conf:9: Protocols = 9P: is no word that it takes; "));
  CHECK(error_beside("NFSv4 { RecoveryBackend = rados_ng; }") ==
        "g.conf:9: RecoveryBackend = rados_ng: is no word that it takes; the nearest there is: "
        "fs_ng");
  CHECK(error_beside("GLUSTER { }").starts_with("g.conf:9: Ganesha has no block GLUSTER; "));
}

TEST_CASE("what Ganesha logs, and how") {
  CHECK(error_beside("LOG { Default_Log_Levl = INFO; }") ==
        "g.conf:9: LOG has no parameter Default_Log_Levl; the nearest there is: Default_Log_Level");
  CHECK(error_beside("LOG { COMPONENTS {\n FSAL = DEBUGG; } }") ==
        "g.conf:10: FSAL = DEBUGG: is no word that it takes; the nearest there is: DEBUG");
  CHECK(error_beside("LOG { COMPONENTS { FSALL = DEBUG; } }") ==
        "g.conf:9: COMPONENTS has no parameter FSALL; the nearest there is: FSAL");
  CHECK(error_beside("LOG { COMPONENT { FSAL = DEBUG; } }") ==
        "g.conf:9: LOG has no block COMPONENT; the nearest there is: COMPONENTS");
  CHECK(error_beside("LOG { FACILITY { name = FILE; } }") ==
        "g.conf:9: destination is not set, in the FACILITY block");
  CHECK(error_beside("LOG { FORMAT { EPOCH = 1; } }") ==
        "g.conf:9: EPOCH = 1: must be true or false, without quotes");
  CHECK(
      error_beside("LOG { Default_Log_Level = event; RPC_Debug_Flags = ~0; COMPONENTS { ALL = "
                   "F_DBG; nfs4 = info; } FACILITY { name = A; destination = syslog; enable = "
                   "active; } FACILITY { name = B; destination = \"/var/log/b\"; headers = all; } "
                   "FORMAT { date_format = \"ISO 8601\"; time_format = syslog_usec; PID = off; } "
                   "}") == "");
}

TEST_CASE("parameters of Ganesha's smaller blocks") {
  CHECK(
      error_beside("DIRECTORY_SERVICES { DomainNam = x; }") ==
      "g.conf:9: DIRECTORY_SERVICES has no parameter DomainNam; the nearest there is: DomainName");
  CHECK(error_beside("DIRECTORY_SERVICES { Idmapped_User_Time_Validity = -2; }") ==
        "g.conf:9: Idmapped_User_Time_Validity = -2: must be a number of seconds from -1 to "
        "9223372036854775807, without quotes or a unit");
  CHECK(error_beside("PSEUDOFS { Squash = None; }").starts_with("g.conf:9: PSEUDOFS has no "));
  CHECK(error_beside("NFS_IP_Name { Index_Size = 52; }")
            .starts_with("g.conf:9: Index_Size = 52: must be a number from 1 to 51, "));
  CHECK(error_beside("DS { Numbr = 1; }") ==
        "g.conf:9: DS has no parameter Numbr; the nearest there is: Number");
  CHECK(error_beside("PSEUDOFS { CLIENT { Clients = *; Access_Type = None; } } DS { Number = 1; } "
                     "DIRECTORY_SERVICES { Root_Kerberos_Principal = nfs, root; }") == "");
}

TEST_CASE("nothing is said twice") {
  CHECK(error_beside("NFSv4 { }") == "g.conf:9: a block NFSv4 stands in line 8 already");
  CHECK(error_in("NFSv4", "Grace_Period = 5;\ngrace_period = 5;") ==
        "g.conf:10: Grace_Period was given in line 9 already");
  CHECK(error_beside(other("", "FSAL { Name = VFS; }\nFSAL { Name = VFS; }")) ==
        "g.conf:10: a block FSAL stands in line 9 already");
  CHECK(error_beside(other("CLIENT { Clients = c1; clients = c2; } CLIENT { Clients = c3; }")) ==
        "");
}

// An EXPORT in the 9th line, and no more of it than this.
std::string error_of_export(std::string_view said) {
  return error_beside(fmt::format("EXPORT {{ {} FSAL {{ Name = VFS; }} }}", said));
}

TEST_CASE("an EXPORT that Ganesha would leave out, or end at") {
  CHECK(error_of_export("Path = \"/\"; Pseudo = \"/o\";") ==
        "g.conf:9: Export_id is not set, in the EXPORT block");
  CHECK(error_of_export("Export_Id = ; Path = \"/\"; Pseudo = \"/o\";") ==
        "g.conf:9: Export_id is not set, in the EXPORT block");
  CHECK(error_of_export("Export_Id = 2; Pseudo = \"/o\";") ==
        "g.conf:9: Path is not set, in the EXPORT block");
  CHECK(error_of_export("Export_Id = 2;\nPath = weft; Pseudo = \"/o\";") ==
        "g.conf:10: Path = weft: must be an absolute path");
  CHECK(error_of_export("Export_Id = 2; Path = /; Pseudo = o;") ==
        "g.conf:9: Pseudo = o: must be an absolute path");
  CHECK(error_beside("EXPORT { Export_Id = 2; Path = /; Pseudo = /o; }") ==
        "g.conf:9: there is no FSAL block, in the EXPORT block");
  CHECK(error_of_export("Export_Id = 0; Path = /; Pseudo = /o; Protocols = 4;") ==
        "g.conf:9: Export_id = 0: only of an EXPORT with Pseudo = \"/\" and Protocols = 4");
  CHECK(error_of_export("Export_Id = 0; Path = /; Pseudo = /;") ==
        "g.conf:9: Export_id = 0: only of an EXPORT with Pseudo = \"/\" and Protocols = 4");
  CHECK(error_of_export("Export_Id = 0; Path = /; Pseudo = /; Protocols = 3, NFS4;") == "");
}

TEST_CASE("who exports by NFSv4 says under which name") {
  const std::string_view none =
      "g.conf:9: Pseudo is not set, in the EXPORT block: clients do not "
      "find it by NFSv4";
  // Ganesha serves it by NFSv3, which it has on by itself.
  CHECK(error_of_export("Export_Id = 2; Path = /;") == "");
  const auto warned =
      check(export_of(kGood) + "EXPORT { Export_Id = 2; Path = /; FSAL { Name = VFS; } }");
  REQUIRE(warned);
  REQUIRE(warned->warnings.size() == 1);
  CHECK(warned->warnings.front() == none);
  CHECK(error_beside("EXPORT { Export_Id = 2; Path = /; FSAL { Name = VFS; } }\n"
                     "EXPORT_DEFAULTS { Protocols = 4; }") == none);
  const std::string by_3 =
      "EXPORT { Export_Id = 2; Path = /; Protocols = 3; FSAL { Name = VFS; } }";
  const auto mounts = [&](std::string_view flag) {
    std::string text = export_of(kGood);
    text.insert(text.find("Enable_RQUOTA"), fmt::format("mount_path_pseudo = {}; ", flag));
    return bool(check(text + by_3));
  };
  CHECK(mounts("false"));
  CHECK_FALSE(mounts("true"));
  CHECK(error_of_export("Export_Id = 2; Path = /; Protocols = 3, 4;") == none);
  CHECK(error_of_export("Export_Id = 2; Path = /; Protocols = 3;") == "");
  CHECK(error_beside("EXPORT { Export_Id = 2; Path = /; FSAL { Name = VFS; } }\n"
                     "EXPORT_DEFAULTS { Protocols = NFS3; }") == "");
}

TEST_CASE("each EXPORT can be told from the others") {
  CHECK(error_of_export("Export_Id = 0x1; Path = /; Pseudo = /o;") ==
        "g.conf:9: Export_id = 0x1: another EXPORT has it, in line 2");
  CHECK(error_of_export("Export_Id = 2; Path = /; Pseudo = /weft/;") ==
        "g.conf:9: Pseudo = /weft/: another EXPORT has it, in line 2");
  CHECK(
      error_beside("EXPORT { Export_Id = 2; Path = /; Pseudo = /o; Tag = t; FSAL { Name = VFS; } }"
                   "\nEXPORT { Export_Id = 3; Path = /; Pseudo = /p; Tag = t; FSAL { Name = VFS; "
                   "} }") == "g.conf:10: Tag = t: another EXPORT has it, in line 9");
  CHECK(error_of_export("Export_Id = 2; Path = /; Pseudo = /weft/o;") == "");
}

TEST_CASE("who may be a client") {
  const auto of = [](std::string_view clients) {
    return error_beside(other(fmt::format("CLIENT {{ Clients = {}; }}", clients)));
  };
  CHECK(of("192.0.2.1, 2001:db8::1, ::, *, 0.0.0.0, 192.0.2.0/24, 2001:db8::/64") == "");
  CHECK(of("localhost, c-1.example.org, _c1, *.example.org, c?.example, c[1-9], @admins") == "");
  for (const std::string_view wrong :
       {"192.0.2.300", "192.0.2", "192.0.2.1.5", "7", "2001:db8:::1", "2001:db8::12345", "@", "@a*",
        "c1.example/24", "3c.example", "192.0.2.1-9", "/c1"}) {
    INFO(wrong);
    CHECK(of(wrong).starts_with(fmt::format("g.conf:9: Clients = {}: must be an address", wrong)));
  }
  CHECK(
      of("\"192.0.2.1\"") ==
      "g.conf:9: Clients = 192.0.2.1: must be an address, a network, a host's name, a wildcard or "
      "a @netgroup, without quotes");
  for (const std::string_view wrong :
       {"192.0.2.0/33", "192.0.2.0/0", "192.0.2.0/255.255.255.0", "2001:db8::/112", "192.0.2.0/"}) {
    CHECK(of(wrong) ==
          fmt::format("g.conf:9: Clients = {}: must be an address and a prefix from /1 to /32, of "
                      "IPv6 to /99",
                      wrong));
  }
  CHECK(error_beside(other("CLIENT { Access_Type = RW; }")) ==
        "g.conf:9: Clients is not set, in the CLIENT block");
}

TEST_CASE("an FSAL that there is not is named with its line and the nearest there is") {
  CHECK(check(other("", "FSAL {\n Name = WEFTT; }")).error().text ==
        "g.conf:2: Ganesha has no FSAL WEFTT; the nearest there is: WEFT");
  CHECK(error_beside(other("", "FSAL { Name = VSF; }")) ==
        "g.conf:9: Ganesha has no FSAL VSF; the nearest there is: VFS");
  CHECK(error_beside(other("", "FSAL { }")) == "g.conf:9: Name is not set, in the FSAL block");
  CHECK(error_beside(other("", "FSAL { Name = null; FSAL { Name = \"VFS\"; } }")) == "");
}

TEST_CASE("Ganesha's quotas take a port that the service's user may not have") {
  const std::string whole = export_of(kGood);
  const std::string alone = whole.substr(0, whole.find("NFS_CORE"));
  const auto of = [&](std::string_view core) {
    const auto checked = check(alone + "NFSv4 { PNFS_MDS = true; }\n" + std::string(core));
    return checked ? "" : checked.error().text.substr(0, checked.error().text.find(" is not set"));
  };
  CHECK(of("") == "g.conf:1: Enable_RQUOTA = false");
  CHECK(of("NFS_CORE_PARAM { NFS_Port = 2049; }") == "g.conf:9: Enable_RQUOTA = false");
  CHECK(of("NFS_CORE_PARAM {\n Enable_RQUOTA = true; }") == "g.conf:10: Enable_RQUOTA = false");
  const std::string_view good = "allow_set_io_flusher_fail = true; }";
  CHECK(of(fmt::format("NFS_CORE_PARAM {{ Rquota_Port = 4875; {}", good)) == "");
  CHECK(of(fmt::format("nfs_core_param {{ enable_rquota = OFF; {}", good)) == "");
  CHECK(check(other("")));
}

TEST_CASE("Ganesha ends where it may not mark its threads, unless it is told to go on") {
  const std::string whole = export_of(kGood);
  const std::string alone =
      whole.substr(0, whole.find("NFS_CORE")) + "NFSv4 { PNFS_MDS = true; }\n";
  const auto of = [&](std::string_view core) {
    const auto checked =
        check(alone + "NFS_CORE_PARAM { Enable_RQUOTA = false;\n" + std::string(core));
    return checked ? "" : checked.error().text;
  };
  const std::string_view why =
      "Allow_Set_Io_Flusher_Fail = true is not set, in NFS_CORE_PARAM: Ganesha ends then, as the "
      "service does not have the capability CAP_SYS_RESOURCE";
  CHECK(of("}") == fmt::format("g.conf:9: {}", why));
  CHECK(of("Allow_Set_Io_Flusher_Fail = no; }") == fmt::format("g.conf:10: {}", why));
  CHECK(of("allow_set_io_flusher_fail = Yes; }") == "");
  // One that runs was told, or may.
  const auto conf = parse_conf(alone + "NFS_CORE_PARAM { Enable_RQUOTA = false; }", "g.conf", {});
  CHECK(check_conf(conf.value(), Ganesha::kRuns));
}

TEST_CASE("what other files may say is not missed, where the file names some") {
  const std::string whole = export_of(kGood);
  const std::string alone = whole.substr(0, whole.find("NFS_CORE"));
  CHECK_FALSE(check(alone));
  CHECK(check(alone + "%dir /etc/weft/conf.d\n"));
  CHECK(check(alone + "%url \"rados://pool/conf\"\n"));
  // A block that is here is nowhere else.
  CHECK_FALSE(check(alone + "%dir /etc/weft/conf.d\nNFSv4 { }\n"));
  CHECK_FALSE(check(alone + "%dir /etc/weft/conf.d\nNFS_CORE_PARAM { }\n"));
}

TEST_CASE("Ganesha passes over a block in a block that says nothing") {
  CHECK(error_beside(other("CLIENT { }")) == "");
  CHECK(error_beside("LOG { FACILITY { } }") == "");
  CHECK(error_beside(other("CLIENT { Access_Type = RW; }"))
            .ends_with("Clients is not set, in the CLIENT block"));
}

TEST_CASE("all bits are a number to Ganesha") {
  CHECK(error_beside(other("MaxOffsetRead = ~0;")) == "");
  CHECK(error_beside("NFSv4 { Lease_Lifetime = ~0; }") != "");
  CHECK(error_beside("MDCACHE { Entries_HWMark = ~0x100000000; }") != "");
}

TEST_CASE("FSAL WEFT stands in an EXPORT only") {
  const std::string ours = "FSAL { Name = WEFT; }";
  CHECK(check("VFS { " + ours + " }").error().text ==
        "g.conf:1: FSAL WEFT stands in an EXPORT, not in VFS");
  CHECK(check("DS { FSAL { Name = NULL; " + ours + " } }").error().text ==
        "g.conf:1: FSAL WEFT stands in an EXPORT, not in DS");
  CHECK(check(ours).error().text.starts_with("g.conf:1: options of FSAL WEFT stand in an EXPORT"));
}

TEST_CASE("without PNFS_MDS no client would hear of layouts") {
  const std::string whole = export_of(kGood);
  const std::string alone = whole.substr(0, whole.find("NFSv4"));
  const auto of = [&](std::string_view more) {
    const auto checked = check(alone + std::string(more));
    return checked ? "" : checked.error().text;
  };
  CHECK(of("") == "g.conf:1: PNFS_MDS = true is not set: there is no NFSv4 block");
  CHECK(of("NFSv4 { }") == "g.conf:8: PNFS_MDS = true is not set, in the NFSv4 block");
  CHECK(of("NFSv4 {\n PNFS_MDS = false; }") ==
        "g.conf:9: PNFS_MDS = false: must be true for FSAL WEFT; PNFS = false in its block is for "
        "an export without layouts");
  CHECK(of("nfsv4 { pnfs_mds = Yes; }") == "");
  CHECK(check(other("")));
}

TEST_CASE("a key file is looked into") {
  char name[] = "/tmp/weft-conf-XXXXXX";
  REQUIRE(::mkdtemp(name) != nullptr);
  const std::string folder = name;
  const std::string key = folder + "/key";
  const std::string conf = folder + "/g.conf";
  std::ofstream(conf) << export_of("Metadata_Path = \"/m\"; Key_File = \"" + key + "\";");
  CHECK(check_conf_file(conf).error().text ==
        conf + ":5: Key_File: open " + key + ": No such file or directory");
  std::ofstream(key) << std::string(63, '0');
  ::chmod(key.c_str(), 0600);
  CHECK(check_conf_file(conf).error().text ==
        conf + ":5: Key_File: " + key + ": a cluster key is 64 hexadecimal digits");
  std::ofstream(key) << std::string(64, '0');
  CHECK(check_conf_file(conf));
  ::chmod(key.c_str(), 0640);
  CHECK(check_conf_file(conf).error().text ==
        conf + ":5: Key_File: " + key + " must be readable by its owner only (chmod 600)");
  CHECK_FALSE(check_conf_file(folder + "/none"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft::mds
