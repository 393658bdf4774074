#include "train/start.h"
#include "deck/fields.h"
#include "file/disk.h"
#include "file/block.h"
#include "file/run_folder.h"
#include "file/striping.h"
#include "file/temporary.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "file/atomic_file.h"
#include "file/file.h"
#include "train/folder_check.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* -- The deck ---------------------------------------------------------------------------------------------------- */

/* Reads the deck on rank 0 and sends its bytes: a deck is plain data. */
static int read_deck(struct comm *world, struct deck *deck, const char *path, char *const overrides[], int count)
{
    int code = ERROR_NONE;
    if (world->rank == 0) {
        char *notes;
        code = deck_read(deck, path, overrides, count, &notes);
        for (char *line = notes, *end; (end = strchr(line, '\n')) != NULL; line = end + 1)
            log_info("# %.*s", (int)(end - line), line);
        free(notes);
    }
    code = comm_agree(world, code);
    if (code == ERROR_NONE)
        comm_broadcast(world, deck, sizeof *deck, 0);
    return code;
}

/* Ignores the keys of a checkpoint's deck that say where a run writes, since the file may come from a stranger: these
 * keys count only from the command line, and output.folder defaults to the checkpoint's own folder. */
static int distrust(struct comm *world, struct deck *deck, const char *path, char *const overrides[], int count)
{
    struct deck *given = deck_create();
    char *folder = disk_folder(path), *dropped = memory_string("");
    int code = deck_read_text(given, "", "command line", overrides, count);
    if (code == ERROR_NONE && strlen(folder) >= sizeof given->output.folder)
        code = error_user("%s: the path of its folder is too long; set output.folder", path);
    if (code == ERROR_NONE && !deck_given(given, "output.folder"))
        strcpy(given->output.folder, folder);
    struct {
        const char *key;
        char *value, *own;
    } keys[] = {{"output.folder", deck->output.folder, given->output.folder},
                {"log.prometheus", deck->log.prometheus, given->log.prometheus},
                {"device.tuning_file", deck->device.tuning_file, given->device.tuning_file}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys && code == ERROR_NONE; i++) {
        if (strcmp(keys[i].value, keys[i].own) == 0)
            continue;
        char *longer =
            memory_format("%s%s%s = \"%s\"", dropped, dropped[0] != '\0' ? ", " : "", keys[i].key, keys[i].own);
        free(dropped);
        dropped = longer;
        strcpy(keys[i].value, keys[i].own);
    }
    if (dropped[0] != '\0' && world->rank == 0)
        log_info("# --from: keys whose value is not that of the checkpoint's deck: %s", dropped);
    free(dropped);
    free(folder);
    memory_free(given);
    return code;
}

/* Reads the deck with which a checkpoint or run folder was trained; the run resumes from there. */
static int read_deck_from(struct comm *world, struct deck *deck, const char *from, char *const overrides[], int count)
{
    char *path;
    int code = checkpoint_find(world, from, &path);
    if (code == ERROR_NONE && path == NULL)
        code = comm_agree(world, checkpoint_none("--from ", from, ""));
    if (code != ERROR_NONE)
        return code;
    struct checkpoint_meta meta;
    code = checkpoint_read_meta(world, path, &meta);
    if (code == ERROR_NONE) {
        code = comm_agree(world, deck_read_text(deck, meta.deck_text, path, overrides, count));
        checkpoint_meta_destroy(&meta);
    }
    if (code == ERROR_NONE)
        code = comm_agree(world, distrust(world, deck, path, overrides, count));
    if (code == ERROR_NONE && strlen(path) >= sizeof deck->train.resume)
        code = comm_agree(world, error_user("--from %s: is too long a path", from));
    if (code == ERROR_NONE)
        strcpy(deck->train.resume, path);
    free(path);
    return code;
}

int start_read_deck(struct comm *world, struct deck *deck, const char *path, const char *from, char *const overrides[],
                    int count)
{
    return from == NULL ? read_deck(world, deck, path, overrides, count)
                        : read_deck_from(world, deck, from, overrides, count);
}

/* Rank 0. */
static int write_deck(const char *path, const char *text)
{
    struct atomic_file atomic;
    int code = atomic_file_open(&atomic, path);
    if (code != ERROR_NONE)
        return code;
    fputs(folder_deck_head, atomic.file);
    fputs(text, atomic.file);
    return atomic_file_close(&atomic, code);
}

int start_write_deck(struct comm *world, const char *folder, const char *text)
{
    int code = ERROR_NONE;
    if (world->rank == 0) {
        char *path = memory_format("%s/" RUN_DECK, folder);
        code = write_deck(path, text);
        free(path);
    }
    return comm_agree(world, code);
}

/* -- The folder -------------------------------------------------------------------------------------------------- */

/* Rank 0. */
static int make_folder(const char *folder)
{
    char *at;
    int failure = disk_make_folder(folder, &at), code = ERROR_NONE;
    if (failure != 0)
        code =
            error_user("key output.folder = \"%s\": cannot be created: %s (folder %s)", folder, strerror(failure), at);
    free(at);
    return code;
}

int start_make_folder(struct comm *world, const char *folder, int *made)
{
    *made = world->rank == 0 ? disk_missing(folder) : 0;
    return comm_agree(world, world->rank == 0 ? make_folder(folder) : ERROR_NONE);
}

static void clean_folder(const char *folder)
{
    static const struct {
        const char *beginning;
        bool folder;
    } names[] = {{RUN_DECK TEMPORARY_OWN, false},           {RUN_LOG TEMPORARY_OWN, false},
                 {RUN_FINAL_MODEL TEMPORARY_SHARED, false}, {RUN_FINAL_MODEL BLOCK_SIDE TEMPORARY_SHARED, false},
                 {RUN_EXPORT TEMPORARY_OWN, true},          {RUN_EXPORT TEMPORARY_OLD, true}};
    char *exported = memory_format("%s/" RUN_EXPORT, folder);
    const size_t known = sizeof names / sizeof names[0];
    const size_t count = access(exported, F_OK) == 0 ? known : known - 1; /* keep the only export, though moved away */
    for (size_t i = 0; i < count; i++) {
        char *beginning = memory_format("%s/%s", folder, names[i].beginning);
        disk_remove_leftovers(beginning, names[i].folder);
        free(beginning);
    }
    free(exported);
    checkpoint_remove_leftovers(folder);
    error_clear();
}

void start_clean_folder(struct comm *world, const char *folder)
{
    if (world->rank == 0)
        clean_folder(folder);
}

void start_stripe_folder(struct comm *world, const struct setup *setup)
{
    const int64_t stripes = setup->saving.stripes;
    if (world->rank != 0 || stripes == 0 || !striping_request(setup->folder, stripes))
        return;
    if (stripes > 0)
        log_info("# Lustre spreads checkpoints over %lld OSTs (checkpoint.stripes)", (long long)stripes);
    else
        log_info("# Lustre spreads checkpoints over all OSTs (checkpoint.stripes)");
}

/* For train.resume = "never". */
static int refuse_old_run(struct comm *world, const char *folder)
{
    int code = ERROR_NONE;
    if (world->rank == 0 && folder_has_run(folder))
        code = error_user("key train.resume = \"never\": output.folder = \"%s\" has a run already; choose another "
                          "folder or train.resume = \"auto\"",
                          folder);
    return comm_agree(world, code);
}

/* -- The checkpoint ---------------------------------------------------------------------------------------------- */

/* Reads the deck and the number of ranks of the run that wrote a checkpoint. */
static int read_old_deck(struct comm *world, struct deck *old, int64_t *ranks, const char *path)
{
    struct checkpoint_meta meta;
    int code = checkpoint_read_meta(world, path, &meta);
    if (code != ERROR_NONE)
        return code;
    code = comm_agree(world, deck_read_text(old, meta.deck_text, path, NULL, 0));
    *ranks = meta.ranks;
    checkpoint_meta_destroy(&meta);
    return code;
}

/* Finds out whether the checkpoint's run began from the same train.resume. */
static int began_from(struct comm *world, const char *resume, const char *path, bool *equal)
{
    struct deck *old = deck_create();
    int64_t ranks;
    int code = read_old_deck(world, old, &ranks, path);
    *equal = code == ERROR_NONE && strcmp(old->train.resume, resume) == 0;
    memory_free(old);
    return code;
}

int start_inherit_fit(struct comm *world, struct deck *deck, const char *path)
{
    struct deck *old = deck_create();
    int64_t ranks;
    int code = read_old_deck(world, old, &ranks, path);
    const bool equal = code == ERROR_NONE && ranks == world->size && old->model.layers == deck->model.layers &&
                       strcmp(old->model.preset, deck->model.preset) == 0;
    const bool chosen = equal && old->memory.recompute == DECK_RECOMPUTE_FIT;
    strcpy(deck->memory.fitted_layers, chosen ? old->memory.fitted_layers : "");
    strcpy(deck->memory.fitted_offload, chosen ? old->memory.fitted_offload : "");
    deck->memory.fitted_head_tokens = equal && old->memory.head_tokens == 0 ? old->memory.fitted_head_tokens : 0;
    memory_free(old);
    return code;
}

/* Finds the newest checkpoint of output.folder when train.resume names another file. If the run there began from that
 * file, a stopped job that is started again with the same command resumes its own run. */
static int find_own(struct comm *world, const struct setup *setup, char **path, char **aside)
{
    bool equal = false;
    int code = checkpoint_find_to_load(world, setup->folder, path, aside);
    if (code == ERROR_NONE && *path != NULL)
        code = began_from(world, setup->resume, *path, &equal);
    if (!equal) {
        free(*path);
        *path = NULL;
    }
    return code;
}

/* Returns whether the text is a word for yes or no, and not the name of a file. */
static bool is_truth(const char *text)
{
    static const char *const words[] = {"yes", "no", "on", "off", "true", "false", "1", "0", ""};
    bool is = false;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        is = is || strcasecmp(text, words[i]) == 0;
    return is && access(text, F_OK) != 0;
}

int start_find(struct comm *world, const struct setup *setup, char **path, char **aside)
{
    *path = *aside = NULL;
    if (strcmp(setup->resume, "never") == 0)
        return refuse_old_run(world, setup->folder);
    bool automatic = strcmp(setup->resume, "auto") == 0;
    int code = automatic ? ERROR_NONE : find_own(world, setup, path, aside);
    if (code != ERROR_NONE || *path != NULL)
        return code;
    free(*aside);
    *aside = NULL;
    if (!automatic && is_truth(setup->resume))
        return comm_agree(world,
                          error_user("key train.resume = \"%s\": must be \"auto\", which resumes from a "
                                     "checkpoint in output.folder, \"never\", or a checkpoint file or run folder",
                                     setup->resume));
    if (!automatic)
        code = checkpoint_look(world, "key train.resume = \"", setup->resume, "\"");
    if (code == ERROR_NONE)
        code = checkpoint_find_to_load(world, automatic ? setup->folder : setup->resume, path, aside);
    if (code == ERROR_NONE && *path == NULL && !automatic)
        code = comm_agree(world, checkpoint_none("key train.resume = \"", setup->resume, "\""));
    return code;
}

/* Checks that no key that must stay the same has changed since the checkpoint's run; the message names each. */
static int check_same_run(const struct session *s, const struct deck *deck, const struct checkpoint_meta *meta,
                          const char *path)
{
    struct deck *old = deck_create();
    char *differences = NULL;
    int code = deck_read_text(old, meta->deck_text, path, NULL, 0);
    if (code == ERROR_NONE && deck_compare_for_resume(old, deck, &differences) > 0)
        code = error_user("%s cannot be resumed with this deck; these keys may not change (for a new run, set another "
                          "output.folder):\n%s",
                          path, differences);
    const char *tokenizer = loader_tokenizer(s->train)->name;
    if (code == ERROR_NONE && strcmp(tokenizer, meta->tokenizer) != 0)
        code = error_user("key data.train = \"%s\": has %s tokens, but %s was trained on %s tokens",
                          s->setup.train_stores, tokenizer, path, meta->tokenizer);
    free(differences);
    memory_free(old);
    return comm_agree(s->world, code);
}

static int refuse_other_data(const struct session *s, const char *path)
{
    if (s->setup.random)
        return error_user("key data.source = \"random\": makes other data than %s was trained on", path);
    if (s->setup.train.megatron.ordered)
        return error_user("key data.order = \"megatron\": data.train or data.weights differs from that of %s, or "
                          "train.steps x train.global_batch rows have another order than planned there",
                          path);
    return error_user("%s: was written by a version that did not record its token stores: data.train and data.weights "
                      "may change only after it has been resumed once without a change",
                      path);
}

/* Carries the position over to the loader's blend. Some of its stores may continue from the position of another
 * store. */
static int carry_place(const struct session *s, const struct checkpoint_meta *meta, const char *path,
                       struct blend_position *place, char **changes)
{
    const struct data_provenance *stores = loader_provenance(s->train);
    int64_t *from = memory_allocate(stores->stores * (int64_t)sizeof *from), stay = 0;
    const int64_t changed = provenance_match(&meta->provenance, stores, from);
    if (changed < 0) {
        *place = loader_carry(s->train, &meta->position, from);
        for (int64_t d = 0; d < stores->stores; d++)
            stay += from[d] >= 0;
        *changes = memory_format(
            "another blend from the next step on: %lld of its stores continue at their position and "
            "%lld begin; %lld earlier ones are dropped",
            (long long)stay, (long long)(stores->stores - stay), (long long)(meta->provenance.stores - stay));
    }
    memory_free(from);
    return changed < 0 ? ERROR_NONE
                       : error_user("key data.train: %s differs from the store of that name that %s was trained on; "
                                    "give an added store another name",
                                    loader_store_path(s->train, changed), path);
}

static int find_place(const struct session *s, const struct checkpoint_meta *meta, const char *path,
                      struct blend_position *place, char **changes)
{
    const bool planned = s->setup.random || s->setup.train.megatron.ordered;
    struct deck *old = deck_create();
    int code = deck_read_text(old, meta->deck_text, path, NULL, 0);
    const bool equal = code == ERROR_NONE && strcmp(old->data.weights, s->setup.train.weights) == 0;
    memory_free(old);
    if (code != ERROR_NONE)
        return code;
    if (loader_checksum(s->train) == meta->store && equal) {
        *place = blend_position_create(meta->position.stores);
        blend_position_set(place, &meta->position);
    } else {
        code = planned || meta->provenance.stores == 0 ? refuse_other_data(s, path)
                                                       : carry_place(s, meta, path, place, changes);
    }
    if (code == ERROR_NONE && !loader_has_position(s->train, place))
        code = error_user("%s: its position in the data is beyond the store's end; was it edited?", path);
    return code;
}

int start_place(const struct session *s, const struct checkpoint_meta *meta, const char *path,
                struct blend_position *place, char **changes)
{
    *place = (struct blend_position){0};
    *changes = NULL;
    return comm_agree(s->world, find_place(s, meta, path, place, changes));
}

/* Checks that the run resumes from the folder's newest checkpoint; else the folder would have files of two runs. */
static int check_newest(const struct session *s, const struct checkpoint_meta *meta, const char *path)
{
    const char *folder = s->setup.folder;
    char *newest = NULL, *own = checkpoint_path(folder, meta->step);
    int code = ERROR_NONE;
    if (s->world->rank == 0)
        code = checkpoint_newest(folder, &newest);
    if (newest != NULL && (strlen(newest) > strlen(own) || strcmp(newest, own) > 0))
        code = error_user("%s: output.folder = \"%s\" has a later checkpoint, %s: choose another folder, or move that "
                          "checkpoint away",
                          path, folder, newest);
    free(newest);
    free(own);
    return comm_agree(s->world, code);
}

int start_check(const struct session *s, const struct deck *deck, const struct checkpoint_meta *meta, const char *path)
{
    int code = check_same_run(s, deck, meta, path);
    return code == ERROR_NONE ? check_newest(s, meta, path) : code;
}
