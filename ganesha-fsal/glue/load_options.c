/* Ganesha's table of the options of an export's FSAL block. */
#include "ganesha-fsal/glue/load_options.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "abstract_mem.h"
#include "config.h"
#include "config_parsing.h"
#include "fsal_api.h"

#define WORD(text, value) CONFIG_LIST_TOK(text, value),
static struct config_item_list layout_kinds[] = {WEFT_LAYOUT_KINDS(WORD) CONFIG_LIST_EOL};
static struct config_item_list duplications[] = {WEFT_DUPLICATIONS(WORD) CONFIG_LIST_EOL};
static struct config_item_list reads[] = {WEFT_READS(WORD) CONFIG_LIST_EOL};

/* Options with units. Ganesha has no kind for them, and none for their defaults. */
struct amount {
  const char* name;
  enum weft_amount kind;
  uint32_t one, least, most, by_default;
  size_t offset;
};
#define NONE(...)
#define SECONDS(name, least, most, by_default, field) \
  {name, WEFT_SECONDS, 1, least, most, by_default, offsetof(struct weft_options, field)},
#define SIZE(name, one, least, most, by_default, field) \
  {name, WEFT_BYTES, one, least, most, by_default, offsetof(struct weft_options, field)},
static const struct amount amounts[] = {WEFT_OPTIONS(NONE, NONE, SECONDS, SIZE, NONE, NONE)};
#undef NONE
#undef SECONDS
#undef SIZE
enum { AMOUNTS = sizeof amounts / sizeof amounts[0] };

static int take_amount(const char* token, enum term_type type, struct config_item* item,
                       void* param_addr, void* node, struct config_error_type* err_type) {
  (void)type;
  for (size_t i = 0; i < AMOUNTS; ++i) {
    const struct amount* one = &amounts[i];
    if (strcmp(one->name, item->name) != 0) continue;
    if (weft_parse_amount(token, one->kind, one->one, one->least, one->most, param_addr)) return 0;
  }
  config_proc_error(node, err_type, "%s = %s is no such amount, or out of range", item->name,
                    token);
  err_type->invalid = true;
  return 1;
}

#define TEXT(name, least, most, by_default, field) \
  CONF_ITEM_STR(name, least, most, by_default, weft_options, field),
#define NUMBER(name, least, most, by_default, field) \
  CONF_ITEM_UI32(name, least, most, by_default, weft_options, field),
#define AMOUNT(option, field)     \
  {.name = (option),              \
   .type = CONFIG_PROC,           \
   .flags = CONFIG_UNIQUE,        \
   .u.proc.init = noop_conf_init, \
   .u.proc.handler = take_amount, \
   .off = offsetof(struct weft_options, field)},
#define SECONDS(name, least, most, by_default, field) AMOUNT(name, field)
#define SIZE(name, one, least, most, by_default, field) AMOUNT(name, field)
#define FLAG(name, by_default, field) CONF_ITEM_BOOL(name, by_default, weft_options, field),
#define CHOICE(name, words, by_default, field) \
  CONF_ITEM_TOKEN(name, by_default, words, weft_options, field),
static struct config_item items[] = {
    CONF_ITEM_NOOP("name"), WEFT_OPTIONS(TEXT, NUMBER, SECONDS, SIZE, FLAG, CHOICE) CONFIG_EOL};

static struct config_block block = {.dbus_interface_name = "org.ganesha.nfsd.config.fsal.weft%d",
                                    .blk_desc.name = "FSAL",
                                    .blk_desc.type = CONFIG_BLOCK,
                                    .blk_desc.u.blk.init = noop_conf_init,
                                    .blk_desc.u.blk.params = items,
                                    .blk_desc.u.blk.commit = noop_conf_commit};

int weft_options_load(void* parse_node, struct weft_options* options, void* err_type) {
  struct config_error_type* all = err_type;
  struct config_error_type ours = {.fp = all->fp};
  int result;
  for (size_t i = 0; i < AMOUNTS; ++i) {
    *(uint32_t*)((char*)options + amounts[i].offset) = amounts[i].by_default;
  }
  result = load_config_from_node(parse_node, &block, options, true, &ours);
  /* An option that there is not, or that is there twice, is no error of Ganesha's. */
  if (result == 0 && !config_error_no_error(&ours)) result = EINVAL;
  config_error_comb_errors(all, &ours);
  all->errors += ours.errors;
  return result;
}

void weft_options_free(struct weft_options* options) {
  gsh_free(options->metadata_path);
  gsh_free(options->control_address);
  gsh_free(options->key_file);
  gsh_free(options->admin_socket);
  gsh_free(options->metrics_address);
  gsh_free(options->status_address);
}
