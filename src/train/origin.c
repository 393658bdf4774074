#include "train/origin.h"
#include "deck/fields.h"
#include "base/error.h"
#include "base/faults.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/tokenizer_member.h"
#include "checkpoint/checkpoint.h"
#include "state/initialise.h"
#include "train/session.h"
#include "setup/model.h"

#include <stdlib.h>
#include <string.h>

/* -- The deck ---------------------------------------------------------------------------------------------------- */

/* Reads a checkpoint's deck, gives every key of the section model its effective value, and returns the settings. */
static int read_model(struct comm *world, const char *path, struct deck *deck, struct model_settings *settings)
{
    struct checkpoint_meta meta;
    int code = checkpoint_read_meta(world, path, &meta);
    if (code != ERROR_NONE)
        return code;
    code = deck_read_text(deck, meta.deck_text, path, NULL, 0);
    if (code == ERROR_NONE)
        code = model_settings_from_deck(settings, deck, meta.vocabulary);
    if (code == ERROR_NONE)
        model_settings_to_deck(settings, deck);
    checkpoint_meta_destroy(&meta);
    return comm_agree(world, code);
}

static void inherit(struct deck *deck, struct deck *from)
{
    /* the run's own keys */
    strcpy(from->model.initialise_from, deck->model.initialise_from);
    from->model.initialise_optimizer = deck->model.initialise_optimizer;
    if (from->model.head == DECK_HEAD_NONE)
        from->model.tied = DECK_TIED_PRESET; /* for a new language-model head, as the family has it */
    deck_inherit(deck, from, "model");
    if (deck->model.vocabulary == 0) /* an explicit 0 would mean the size of the store's vocabulary */
        deck->model.vocabulary = from->model.vocabulary;
    if (deck->model.head == DECK_HEAD_LM)
        return;
    deck->model.tied = DECK_TIED_NO; /* the pretrained model's head may be tied */
    deck->model.pooling = (int)model_task_from_deck(deck).pooling;
}

int origin_inherit(struct comm *world, struct deck *deck, const char *path)
{
    struct model_settings settings;
    struct deck *from = deck_create();
    int code = read_model(world, path, from, &settings);
    if (code == ERROR_NONE)
        inherit(deck, from);
    memory_free(from);
    return code;
}

/* Compares adapters of the file with the deck's. A file without adapters fits any. */
static void check_adapters(struct fault_list *faults, const struct lora_settings *wanted,
                           const struct lora_settings *found)
{
    if (found->rank == 0)
        return;
    if (wanted->rank == 0)
        faults_add(faults,
                   "key lora.rank: the file has adapters of rank %lld; set it to this, or merge them: cistron "
                   "export, then cistron import",
                   (long long)found->rank);
    else if (wanted->rank != found->rank)
        faults_add(faults, "key lora.rank: %lld in the file, %lld in the deck", (long long)found->rank,
                   (long long)wanted->rank);
    if (wanted->rank > 0 && wanted->alpha != found->alpha)
        faults_add(faults, "key lora.alpha: %g in the file, %g in the deck", found->alpha, wanted->alpha);
    if (wanted->rank > 0 && memcmp(wanted->targets, found->targets, sizeof found->targets) != 0)
        faults_add(faults, "key lora.targets: other linear layers in the file than in the deck");
}

static bool same_task(const struct task_settings *a, const struct task_settings *b)
{
    return a->head == b->head && a->problem == b->problem && a->pooling == b->pooling && a->labels == b->labels;
}

/* A fine-tuning head may be new on a language model, and any head on a model without one. Another head than the file's
 * would be silently random. */
static int check_head(const char *path, const struct task_settings *wanted, const struct task_settings *found)
{
    static const char *const names[DECK_HEADS] = {"lm", "sequence", "token", "none"};
    if (found->head == DECK_HEAD_LM || found->head == DECK_HEAD_NONE || same_task(wanted, found))
        return ERROR_NONE;
    return error_user("key model.head = \"%s\": %s has another head (model.head = \"%s\", model.num_labels = %lld, or "
                      "another model.problem_type or model.pooling); start from the pretrained model, or remove these "
                      "keys",
                      names[wanted->head], path, names[found->head], (long long)found->labels);
}

/* Checks the settings that determine the shapes and meaning of the weights; they must agree. */
static int check_sizes(const char *path, const struct model_settings *wanted, const struct model_settings *found)
{
    const struct {
        const char *key;
        int64_t wanted, found;
    } sizes[] = {{"layers", wanted->layers, found->layers},
                 {"hidden", wanted->hidden, found->hidden},
                 {"ffn", wanted->ffn, found->ffn},
                 {"heads", wanted->heads, found->heads},
                 {"kv_heads", wanted->kv_heads, found->kv_heads},
                 {"head_dim", wanted->head_dim, found->head_dim},
                 {"num_local_experts", wanted->experts, found->experts},
                 {"vocabulary", wanted->vocabulary, found->vocabulary}};
    if (wanted->family != found->family)
        return error_user("key model.initialise_from: %s has a model of family %s, but the deck has %s", path,
                          found->family->name, wanted->family->name);
    int code = check_head(path, &wanted->task, &found->task);
    if (code != ERROR_NONE)
        return code;
    struct fault_list faults = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].wanted != sizes[i].found)
            faults_add(&faults, "key model.%s: %lld in the file, %lld in the deck", sizes[i].key,
                       (long long)sizes[i].found, (long long)sizes[i].wanted);
    if (wanted->tied != found->tied && wanted->task.head == found->task.head)
        faults_add(&faults, "key model.tied: %s in the file, %s in the deck", found->tied ? "\"yes\"" : "\"no\"",
                   wanted->tied ? "\"yes\"" : "\"no\"");
    const struct {
        const char *key;
        bool wanted, found;
    } flags[] = {{"attention_bias", wanted->attention_bias, found->attention_bias},
                 {"mlp_bias", wanted->mlp_bias, found->mlp_bias},
                 {"norm_zero_centered", wanted->norm_zero_centered, found->norm_zero_centered}};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (flags[i].wanted != flags[i].found)
            faults_add(&faults, "key model.%s: %s in the file, %s in the deck", flags[i].key,
                       flags[i].found ? "true" : "false", flags[i].wanted ? "true" : "false");
    check_adapters(&faults, &wanted->lora, &found->lora);
    return faults_verdict(&faults, "key model.initialise_from: the model of %s differs from the deck's", path);
}

/* Logs keys that differ from the checkpoint's although the weights' shapes agree. */
static void log_overruled(const struct deck *deck, const struct deck *found, const char *path)
{
    static const char *const keys[] = {"model.objective",           "model.gelu",
                                       "model.sliding_window",      "model.max_window_layers",
                                       "model.num_experts_per_tok", "model.router_aux_loss_coef",
                                       "model.token_dropout",       "model.rope_theta",
                                       "model.rope_rounding",       "model.norm_eps",
                                       "model.rope_scaling.type",   "model.rope_scaling.attention_factor",
                                       "model.rope_scaling.factor", "model.rope_scaling.low",
                                       "model.rope_scaling.high",   "model.rope_scaling.original"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char *own = deck_key_text(deck, keys[i]), *theirs = deck_key_text(found, keys[i]);
        if (strcmp(own, theirs) != 0)
            log_info("# %s = %s, where %s has %s", keys[i], own, path, theirs);
        free(own);
        free(theirs);
    }
}

/* Compares the sizes that the deck gave. This comes first, because a mix of the deck's and the checkpoint's sizes may
 * not describe a valid model. */
static int check_given_sizes(const char *path, const struct deck *deck, const struct model_settings *found)
{
    struct model_settings given = *found;
    given.family = model_family_from_deck(deck);
    given.layers = deck->model.layers;
    given.hidden = deck->model.hidden;
    given.ffn = deck->model.ffn;
    given.heads = deck->model.heads;
    given.kv_heads = deck->model.kv_heads;
    given.head_dim = deck->model.head_dim;
    return check_sizes(path, &given, found);
}

/* Completes the deck from the checkpoint, and checks that the values that the deck gives fit. from, given: scratch. */
static int complete(struct comm *world, struct deck *deck, const char *path, struct deck *from, struct deck *given)
{
    struct model_settings found, wanted;
    *given = *deck;
    int code = read_model(world, path, from, &found);
    if (code != ERROR_NONE)
        return code;
    inherit(deck, from);
    /* a preset in the deck gives its sizes too, though not key by key */
    const bool preset = given->model.preset[0] != '\0';
    code = preset ? ERROR_NONE : check_given_sizes(path, deck, &found);
    if (code == ERROR_NONE)
        code = model_settings_from_deck(&wanted, preset ? given : deck, 0);
    if (code == ERROR_NONE)
        code = check_sizes(path, &wanted, &found);
    code = comm_agree(world, code);
    if (code == ERROR_NONE)
        log_overruled(deck, from, path);
    return code;
}

static int take_model(struct comm *world, struct deck *deck, const char *path)
{
    struct deck *scratch = memory_allocate(2 * (int64_t)sizeof *scratch);
    int code = complete(world, deck, path, &scratch[0], &scratch[1]);
    memory_free(scratch);
    return code;
}

bool origin_named(const struct deck *deck)
{
    return deck->model.initialise_from[0] != '\0';
}

int origin_take(struct comm *world, struct deck *deck, char **path)
{
    static const char key[] = "key model.initialise_from = \"";
    const char *from = deck->model.initialise_from;
    *path = NULL;
    int code = checkpoint_look(world, key, from, "\"");
    if (code == ERROR_NONE)
        code = checkpoint_find(world, from, path);
    if (code == ERROR_NONE && *path == NULL)
        code = comm_agree(world, checkpoint_none(key, from, "\""));
    if (code == ERROR_NONE)
        code = take_model(world, deck, *path);
    if (code != ERROR_NONE) {
        free(*path);
        *path = NULL;
    }
    return code;
}

/* -- The weights ------------------------------------------------------------------------------------------------- */

static int check_data(const struct session *s, const struct checkpoint_meta *meta, const char *path)
{
    const char *tokenizer = loader_tokenizer(s->train)->name;
    if (meta->tokenizer[0] != '\0' && strcmp(meta->tokenizer, tokenizer) != 0)
        return error_user("key data.train = \"%s\": has %s tokens, but %s of model.initialise_from learned from %s "
                          "tokens",
                          s->setup.train_stores, tokenizer, path, meta->tokenizer);
    if (s->setup.initialise_optimizer && !meta->moments)
        return error_user("key model.initialise_optimizer = true: %s has no optimizer state; name a step_*.h5 file in "
                          "model.initialise_from",
                          path);
    return ERROR_NONE;
}

/* Logs the parameters of a new head in place of the file's, `left`. */
static void log_new_head(const struct model *model, enum deck_head left, const char *path)
{
    const struct unit *head = model_head(model);
    char *list = memory_string("");
    for (int i = 0; i < head->parameter_count; i++) {
        const char *name = head->parameters[i].name;
        if (strncmp(name, model->settings.family->names.final_norm, strlen(model->settings.family->names.final_norm)) ==
            0)
            continue;
        char *longer = memory_format("%s%s%s", list, list[0] != '\0' ? ", " : "", name);
        free(list);
        list = longer;
    }
    log_info("# model.head: a new head, initialised from train.seed: %s%s%s%s", list,
             left == DECK_HEAD_LM ? "; the language-model head of " : "", left == DECK_HEAD_LM ? path : "",
             left == DECK_HEAD_LM ? " is left out" : "");
    free(list);
}

/* Sets *head, the file's. If the session's model has another one, that is new. */
static int find_head(const struct session *s, const struct checkpoint_meta *meta, const char *path,
                     enum deck_head *head)
{
    struct model_settings found;
    struct deck *deck = deck_create();
    int code = deck_read_text(deck, meta->deck_text, path, NULL, 0);
    if (code == ERROR_NONE)
        code = model_settings_from_deck(&found, deck, meta->vocabulary);
    memory_free(deck);
    if (code != ERROR_NONE)
        return code;
    *head = found.task.head;
    if (*head != s->setup.model.task.head && s->setup.initialise_optimizer)
        code =
            error_user("key model.initialise_optimizer = true: not with a new head (model.head), which has no moments");
    return code;
}

int origin_read_weights(struct session *s, const char *path)
{
    struct checkpoint_meta meta;
    enum deck_head head = s->setup.model.task.head;
    int code = checkpoint_read_meta(s->world, path, &meta);
    if (code != ERROR_NONE)
        return code;
    code = comm_agree(s->world, check_data(s, &meta, path));
    if (code == ERROR_NONE)
        code = comm_agree(s->world, find_head(s, &meta, path, &head));
    const bool adds = head != s->setup.model.task.head;
    if (code == ERROR_NONE && (adds || s->setup.model.lora.rank > 0))
        engine_initialise(&s->engine, s->setup.train.seed);
    if (code == ERROR_NONE)
        code = checkpoint_read_origin(s->world, &s->engine, path, s->setup.initialise_optimizer, adds);
    if (code == ERROR_NONE && adds)
        log_new_head(&s->model, head, path);
    if (code == ERROR_NONE)
        log_info("# starting from the weights%s of %s (step %lld)",
                 s->setup.initialise_optimizer ? " and the optimizer's state" : "", path, (long long)meta.step);
    checkpoint_meta_destroy(&meta);
    return code;
}

int origin_read_carried(struct comm *world, const char *path, struct carried_files *carried)
{
    *carried = (struct carried_files){0};
    return comm_agree(world, world->rank == 0 ? carried_read(path, carried) : ERROR_NONE);
}

static int merge_tokenizer(const char *path, const struct tokenizer **tokenizer)
{
    const struct tokenizer *own, *whole;
    if (*tokenizer == NULL || !tokenizer_is_text(*tokenizer))
        return ERROR_NONE;
    if (tokenizer_member_open(&own, path, (*tokenizer)->name) != ERROR_NONE) {
        error_clear(); /* an imported model may not have one */
        return ERROR_NONE;
    }
    struct tokenizer_bundle files = bundle_copy(&own->bundle);
    bundle_complete(&files, &(*tokenizer)->bundle);
    int code = tokenizer_open_bundle(&whole, &files, path);
    bundle_destroy(&files);
    tokenizer_close(own);
    if (code == ERROR_NONE) {
        tokenizer_close(*tokenizer);
        *tokenizer = whole;
    }
    return code;
}

int origin_merge_tokenizer(struct comm *world, const char *path, const struct tokenizer **tokenizer)
{
    return comm_agree(world, world->rank == 0 ? merge_tokenizer(path, tokenizer) : ERROR_NONE);
}
