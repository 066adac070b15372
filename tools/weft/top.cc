#include "tools/weft/top.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "tools/weft/table.h"

namespace weft::cli {
namespace {

using mds::DataServerReport;

std::string per_second(double bytes) {
  return human_bytes(static_cast<std::uint64_t>(bytes)) + "/s";
}

std::string number(double of) {
  return of > 0 && of < 10 ? fmt::format("{:.1f}", of)
                           : short_count(static_cast<std::uint64_t>(of + 0.5));
}

// Counters begin at 0 when their process does.
double rate(std::uint64_t before, std::uint64_t after, double seconds) {
  return static_cast<double>(after >= before ? after - before : after) / seconds;
}

ServerRates server_rates(const DataServerReport& was, const DataServerReport& is, double seconds) {
  return {.id = is.id,
          .name = is.name,
          .state = is.state,
          .cpu_busy_permille = is.cpu_busy_permille,
          .read_bytes = rate(was.read_bytes, is.read_bytes, seconds),
          .written_bytes = rate(was.written_bytes, is.written_bytes, seconds),
          .reads = rate(was.read_calls, is.read_calls, seconds),
          .writes = rate(was.write_calls, is.write_calls, seconds),
          .errors = rate(was.errors, is.errors, seconds)};
}

}  // namespace

Rates rates_between(const mds::SystemReport& before, const mds::SystemReport& after,
                    double seconds) {
  const mds::StatusReport& was = before.status;
  const mds::StatusReport& is = after.status;
  Rates out{.seconds = seconds,
            .servers = {},
            .mds_reads = rate(was.mds_read_calls, is.mds_read_calls, seconds),
            .mds_writes = rate(was.mds_write_calls, is.mds_write_calls, seconds),
            .layouts = rate(was.layoutgets, is.layoutgets, seconds),
            .commits = rate(was.store.commits, is.store.commits, seconds),
            .clients = is.clients,
            .layouts_out = is.layouts_out};
  for (const DataServerReport& server : after.data_servers) {
    const auto found = std::ranges::find(before.data_servers, server.id, &DataServerReport::id);
    // Of one that has come meanwhile nothing is known but what it has counted in its life.
    const bool known = found != before.data_servers.end();
    out.servers.push_back(server_rates(known ? *found : server, server, seconds));
  }
  return out;
}

std::string rates_text(const Rates& rates) {
  const std::string system = fmt::format(
      "{} clients, {} layouts out; a second: {} layouts, {} commits, {} READ and {} WRITE "
      "through the metadata server",
      short_count(rates.clients), short_count(rates.layouts_out), number(rates.layouts),
      number(rates.commits), number(rates.mds_reads), number(rates.mds_writes));
  const std::string out = wrapped("", system) + "\n";
  Table table({"ID", "NAME", "STATE", "CPU", "READ", "WRITTEN", "READS/S", "WRITES/S", "ERRORS/S"},
              {"NAME"});
  double read = 0;
  double written = 0;
  for (const ServerRates& server : rates.servers) {
    read += server.read_bytes;
    written += server.written_bytes;
    table.add({std::to_string(server.id), printable(server.name),
               std::string(to_string(server.state)),
               fmt::format("{}%", server.cpu_busy_permille / 10), per_second(server.read_bytes),
               per_second(server.written_bytes), number(server.reads), number(server.writes),
               number(server.errors)});
  }
  if (table.empty()) return out + "no data server has registered\n";
  return out + table.text() +
         fmt::format("\nall together {} read, {} written\n", per_second(read), per_second(written));
}

Json rates_json(const Rates& rates) {
  Json servers = Json::array();
  for (const ServerRates& server : rates.servers) {
    servers.push_back({{"id", server.id},
                       {"name", server.name},
                       {"state", std::string(to_string(server.state))},
                       {"cpu_busy_permille", server.cpu_busy_permille},
                       {"read_bytes_per_second", server.read_bytes},
                       {"written_bytes_per_second", server.written_bytes},
                       {"reads_per_second", server.reads},
                       {"writes_per_second", server.writes},
                       {"errors_per_second", server.errors}});
  }
  return {{"seconds", rates.seconds},
          {"clients", rates.clients},
          {"layouts_out", rates.layouts_out},
          {"layouts_per_second", rates.layouts},
          {"store_commits_per_second", rates.commits},
          {"mds_reads_per_second", rates.mds_reads},
          {"mds_writes_per_second", rates.mds_writes},
          {"data_servers", servers}};
}

}  // namespace weft::cli
