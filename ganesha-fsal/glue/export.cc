#include "ganesha-fsal/glue/export.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "ganesha-fsal/glue/attributes.h"
#include "ganesha-fsal/glue/convert.h"
#include "ganesha-fsal/glue/guard.h"
#include "ganesha-fsal/glue/handle.h"
#include "ganesha-fsal/glue/later.h"
#include "ganesha-fsal/glue/layout_ops.h"
#include "ganesha-fsal/glue/load_options.h"
#include "ganesha-fsal/glue/module.h"
#include "ganesha-fsal/glue/object_ops.h"
#include "ganesha-fsal/glue/server_options.h"
#include "ganesha-fsal/glue/start_check.h"
#include "rpc/base/log_text.h"

namespace weft::mds {
namespace {

// Ganesha asks for the export's root, by the Path that create_export has looked up.
fsal_status_t lookup_path(fsal_export* exp_hdl, const char* /*path*/, fsal_obj_handle** found,
                          fsal_attrlist* attrs_out) {
  Export& exp = of(exp_hdl);
  *found = nullptr;
  const auto root = exp.names().getattr(exp.root);
  if (!root) return to_fsal(root.error());
  fill_if_wanted(*root, exp.fsid(), attrs_out);
  *found = make_handle(exp, *root);
  return kFsalOk;
}

// kBadHandle; kStale: of another store.
Result<FileId> file_of(const Export& exp, const gsh_buffdesc& handle) {
  const auto parts = parse_wire_handle({static_cast<const std::byte*>(handle.addr), handle.len});
  if (!parts) return std::unexpected(parts.error());
  if (parts->fsid != exp.fsid() || parts->store != exp.store_id()) return fail(Errc::kStale);
  return parts->file;
}

fsal_status_t wire_to_host(fsal_export* exp_hdl, fsal_digesttype_t /*type*/, gsh_buffdesc* wire,
                           int /*flags*/) {
  Export& exp = of(exp_hdl);
  const auto file = file_of(exp, *wire);
  if (!file) return to_fsal(file.error());
  if (!exp.whole()) {
    const std::span bytes(static_cast<const std::byte*>(wire->addr), wire->len);
    if (!has_seal(bytes, exp.root, exp.seal_key())) return to_fsal(Errc::kStale);
    const auto below = [&] {
      const Later later;
      return exp.names().may_be_below(*file, exp.root);
    }();
    if (!below) return to_fsal(below.error());
    if (!*below) return to_fsal(Errc::kStale);
  }
  wire->len = kWireHandleBytes;
  return kFsalOk;
}

fsal_status_t create_handle(fsal_export* exp_hdl, gsh_buffdesc* host, fsal_obj_handle** found,
                            fsal_attrlist* attrs_out) {
  Export& exp = of(exp_hdl);
  *found = nullptr;
  const auto file = file_of(exp, *host);
  if (!file) return to_fsal(file.error());
  const Later later;
  const auto attributes = exp.names().getattr(*file);
  if (!attributes) return to_fsal(attributes.error());
  if (attrs_out != nullptr) fill_found(exp, *attributes, attrs_out);
  *found = make_handle(exp, *attributes);
  return kFsalOk;
}

fsal_status_t get_fs_dynamic_info(fsal_export* exp_hdl, fsal_obj_handle* /*obj_hdl*/,
                                  fsal_dynamicfsinfo_t* info) {
  Export& exp = of(exp_hdl);
  const FsSpace space = exp.server().space(exp.policy().copies);
  info->total_bytes = space.capacity_bytes;
  info->free_bytes = space.free_bytes;
  info->avail_bytes = space.free_bytes;
  info->total_files = space.files + space.free_files;
  info->free_files = space.free_files;
  info->avail_files = space.free_files;
  info->time_delta = {.tv_sec = 0, .tv_nsec = FSAL_DEFAULT_TIME_DELTA_NSEC};
  return kFsalOk;
}

// Ganesha's own answer, from the module's fs_info; its function has no name outside.
bool (*default_fs_supports)(fsal_export*, fsal_fsinfo_options_t) = nullptr;

bool fs_supports(fsal_export* exp_hdl, fsal_fsinfo_options_t option) {
  if (option == fso_pnfs_mds_supported) return of(exp_hdl).options.pnfs;
  // An open holds the inode, and after a restart orphans stay until grace is over
  // (server/background.h).
  if (option == fso_preserve_unlinked) return true;
  if (option == fso_own_verifier) return true;  // it is in the inode's record
  return default_fs_supports(exp_hdl, option);
}

void get_write_verifier(fsal_export* exp_hdl, gsh_buffdesc* out) {
  const std::uint64_t verifier =
      take_verifier_of_write().value_or(of(exp_hdl).server().write_verifier());
  std::memcpy(out->addr, &verifier, std::min(out->len, sizeof(verifier)));
}

void release(fsal_export* exp_hdl) {
  Export* exp = &of(exp_hdl);
  exp->store->recaller.remove(exp->up_ops);
  exports().remove(exp->export_id, exp);
  fsal_detach_export(exp->fsal, &exp->exports);
  free_export_ops(exp);
  weft_options_free(&exp->options);
  spdlog::info("export id={} path={} released", exp->export_id, exp->path);
  delete exp;
}

// Called with the defaults in `ops`, under Ganesha's lock on exports.
void init_export_ops(export_ops& ops) {
  default_fs_supports = ops.fs_supports;
  ops.release = guarded<&release>;
  ops.lookup_path = guarded<&lookup_path>;
  ops.wire_to_host = guarded<&wire_to_host>;
  ops.create_handle = guarded<&create_handle>;
  ops.get_fs_dynamic_info = guarded<&get_fs_dynamic_info>;
  ops.fs_supports = guarded<&fs_supports>;
  ops.get_write_verifier = guarded<&get_write_verifier>;
  ops.alloc_state = guarded<&alloc_state>;
  init_layout_export_ops(ops);
}

// What no table of options can say. The text names the option.
Result<> check_options(const weft_options& options) {
  if (options.stripe_unit % layout::kStripeUnitMultiple != 0) {
    return fail(Errc::kInvalid, "Stripe_Unit must be a multiple of 64 bytes");
  }
  if (options.metadata_path == nullptr || options.metadata_path[0] != '/') {
    return fail(Errc::kInvalid, "Metadata_Path must be an absolute path");
  }
  return layout::check(export_policy(options), layout_type(options));
}

// The directory that the export's Path names in the store.
Result<FileId> find_root(const Namespace& names, const std::string& path) {
  const auto found = names.lookup_path(path);
  if (found && found->type == FileType::kDirectory) return found->id;
  if (found || found.error().code == Errc::kNotFound || found.error().code == Errc::kNotDirectory) {
    return fail(Errc::kInvalid,
                fmt::format("there is no directory {} in the store: Path is a path there. Path = "
                            "\"/\" exports all of it; a directory below has to be made first",
                            path));
  }
  return std::unexpected(found.error());
}

// One line: where in the file it stands, if the file says what is wrong.
std::string why_not(const Export& exp, const Error& error) {
  const auto checked = check_conf_file(nfs_config_path, Ganesha::kRuns);
  if (!checked && checked.error() == Errc::kInvalid) return checked.error().text;
  return fmt::format("Export {}, FSAL WEFT: {}", exp.path, error.text);
}

fsal_status_t refuse(Export& exp, config_error_type* err_type, const std::string& why) {
  LogCrit(COMPONENT_CONFIG, "%s", why.c_str());
  err_type->invalid = true;
  free_export_ops(&exp);
  weft_options_free(&exp.options);
  return fsalstat(ERR_FSAL_INVAL, EINVAL);
}

fsal_status_t refuse(Export& exp, config_error_type* err_type, const Error& error) {
  const std::string why = why_not(exp, error);
  // The file was looked at before: what is wrong now may pass.
  if (starting()) Exports::end_start(why, kExitFailed);
  return refuse(exp, err_type, why);
}

}  // namespace

fsal_status_t create_export(fsal_module* fsal, void* parse_node, config_error_type* err_type,
                            const fsal_up_vector* up_ops) {
  auto exp = std::make_unique<Export>();
  exp->path = CTX_FULLPATH(op_ctx);
  fsal_export_init(exp.get());
  init_export_ops(exp->exp_ops);
  if (weft_options_load(parse_node, &exp->options, err_type) != 0) {
    return refuse(*exp, err_type, {Errc::kInvalid, "the FSAL block has errors"});
  }
  if (const auto fine = check_options(exp->options); !fine) {
    return refuse(*exp, err_type, fine.error());
  }
  auto store = exports().open(exp->options);
  if (!store) return refuse(*exp, err_type, store.error());
  const auto root = find_root((*store)->server->names(), exp->path);
  if (!root && root.error() == Errc::kInvalid) {
    // Its directory may have been removed by a client: no reason to serve nobody.
    return refuse(*exp, err_type, fmt::format("Export {}: {}", exp->path, root.error().text));
  }
  if (!root) return refuse(*exp, err_type, root.error());

  exp->root = *root;
  const layout::PlacementPolicy policy = placement_policy(exp->options);
  exp->set_policy(policy);
  exp->now = exp->options;
  if (policy.type == layout::LayoutType::kFlexFiles) exp->layout_type = LAYOUT4_FLEX_FILES;
  exp->fsal = fsal;
  exp->up_ops = up_ops;
  if (fsal_attach_export(fsal, &exp->exports) != 0) {
    return refuse(*exp, err_type, {Errc::kInternal, "the export could not be attached"});
  }
  exp->store = std::move(*store);
  exp->store->recaller.add(exp->export_id, up_ops, exp->server());
  exports().add(exp->export_id, exp.get(), exp->store, CTX_PSEUDOPATH(op_ctx), exp->root, policy,
                option_reports(exp->options, OptionsOf::kExport));
  spdlog::info("export id={} path={} pnfs={} metadata_path={}", exp->export_id, exp->path,
               exp->options.pnfs, exp->options.metadata_path);
  op_ctx->fsal_export = exp.release();
  return kFsalOk;
}

namespace {

// Options that change while an export is in use, when the file is read again.
struct Reloadable {
  std::string_view name;
  std::uint32_t weft_options::* field;
};
constexpr Reloadable kReloadable[] = {{"Stripe_Unit", &weft_options::stripe_unit},
                                      {"Stripe_Count", &weft_options::stripe_count},
                                      {"Copies", &weft_options::copies},
                                      {"Duplication", &weft_options::duplication},
                                      {"Reads", &weft_options::reads},
                                      {"Inline", &weft_options::inline_bytes},
                                      {"Resync_Rate", &weft_options::resync_rate},
                                      {"Replace_After", &weft_options::replace_after},
                                      {"Scrub_Every", &weft_options::scrub_every}};

bool is_reloadable(std::string_view name) {
  return std::ranges::find(kReloadable, name, &Reloadable::name) != std::end(kReloadable);
}

// `options`, but for what may change: that is as `next` says.
weft_options reloaded(const weft_options& options, const weft_options& next) {
  weft_options after = options;
  for (const Reloadable& option : kReloadable) after.*option.field = next.*option.field;
  return after;
}

// Tells what is another in `next`, and what becomes of it. True: some of it changes now.
bool tell_changes(unsigned id, const weft_options& options, const weft_options& next,
                  OptionsOf whose) {
  const auto before = option_values(options, whose);
  const auto after = option_values(next, whose);
  bool changes = false;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].value == after[i].value) continue;
    if (is_reloadable(before[i].name)) {
      changes = true;
      spdlog::info("event=option_reloaded id={} key={} from=\"{}\" to=\"{}\"", id, before[i].name,
                   before[i].value, after[i].value);
    } else {
      spdlog::warn("event=option_needs_restart id={} key={} from=\"{}\" to=\"{}\"", id,
                   before[i].name, log_text(before[i].value), log_text(after[i].value));
    }
  }
  return changes;
}

Result<> reload(Export& exp, const weft_options& next) {
  const weft_options after = reloaded(exp.now, next);
  if (auto fine = check_options(after); !fine) return fine;
  const bool files = tell_changes(exp.export_id, exp.now, next, OptionsOf::kExport);
  const bool server = tell_changes(exp.export_id, exp.now, next, OptionsOf::kServer);
  exp.now = after;
  if (files) {
    exp.set_policy(placement_policy(after));
    exports().change(exp.export_id, exp.policy(), option_reports(after, OptionsOf::kExport));
  }
  // Of exports that share a store the one that has changed last says what holds.
  if (server) {
    exp.server().repairs().reload(server_options(after));
    exports().change_server(*exp.store, option_reports(after, OptionsOf::kServer), is_reloadable);
  }
  return {};
}

}  // namespace

// A reload takes over what needs no restart, and tells what does. What is wrong is told and left
// out: Ganesha would end an export whose update fails.
fsal_status_t update_weft_export(fsal_module* fsal, void* parse_node, config_error_type* err_type,
                                 fsal_export* original, fsal_module* updated_super) {
  const fsal_status_t status = update_export(fsal, parse_node, err_type, original, updated_super);
  if (FSAL_IS_ERROR(status)) return status;
  config_error_type errors{};
  if (!init_error_type(&errors)) return kFsalOk;  // without memory for words; it has said so
  weft_options options{};
  const bool read = weft_options_load(parse_node, &options, &errors) == 0;
  report_config_errors(&errors, nullptr, config_errs_to_log);
  const auto done =
      read ? reload(of(original), options) : fail(Errc::kInvalid, "the FSAL block has errors");
  weft_options_free(&options);
  if (!done) LogCrit(COMPONENT_CONFIG, "%s", why_not(of(original), done.error()).c_str());
  return kFsalOk;
}

}  // namespace weft::mds
