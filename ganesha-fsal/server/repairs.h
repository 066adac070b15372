// What brings copies and data servers back to what they should be, wired to the rest of the
// metadata server: Repairer, Mover, Readmission, Scrubber and Auditor (ganesha-fsal/repair).
//
// Threading: any thread, but that start() and stop() are the owner's. They block on threads of
// their own only, which run from start() to stop(); what is asked before waits for that.
//
// Ownership: the server's parts are made before this, and outlive it.
#pragma once

#include <vector>

#include "ganesha-fsal/repair/auditor.h"
#include "ganesha-fsal/repair/mover.h"
#include "ganesha-fsal/repair/readmission.h"
#include "ganesha-fsal/repair/repairer.h"
#include "ganesha-fsal/repair/scrubber.h"
#include "ganesha-fsal/server/server_options.h"

namespace weft::mds {

class MetadataServer;

class Repairs {
 public:
  explicit Repairs(MetadataServer& server);
  Repairs(const Repairs&) = delete;
  Repairs& operator=(const Repairs&) = delete;
  void start();
  void stop();
  // Takes over what holds of these from now on: resync_rate, replace_after, scrub_every.
  void reload(const ServerOptions& next);

  [[nodiscard]] Repairer& repairer() { return repairer_; }
  [[nodiscard]] Mover& mover() { return mover_; }
  [[nodiscard]] Readmission& readmission() { return readmission_; }
  [[nodiscard]] Scrubber& scrubber() { return scrubber_; }
  [[nodiscard]] Auditor& auditor() { return auditor_; }

 private:
  [[nodiscard]] Repairer::Parts repairer_parts();
  [[nodiscard]] Mover::Parts mover_parts();
  [[nodiscard]] Readmission::Parts readmission_parts();
  [[nodiscard]] Scrubber::Parts scrubber_parts();
  [[nodiscard]] Auditor::Parts auditor_parts();
  [[nodiscard]] Result<PinnedFile> pin_writers(FileId file);
  [[nodiscard]] bool may_be_written(FileId file);
  // Or is, through this server.
  [[nodiscard]] bool is_written(FileId file);
  [[nodiscard]] std::vector<Mover::Server> movable_servers();

  MetadataServer& server_;
  Repairer repairer_;
  Mover mover_;
  Readmission readmission_;
  Scrubber scrubber_;
  Auditor auditor_;
};

}  // namespace weft::mds
