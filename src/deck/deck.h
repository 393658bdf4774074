/* Key header: the input deck has every setting of a run, typed, checked and with a default. A deck is a libconfig file
 * whose groups are the sections of struct deck; key=value on the command line overrides it. One table (deck/table.c)
 * drives the parser, the checks, `cistron deck` and doc/deck.md. The meaning, unit and range of each field are stated
 * there and only there.
 *
 * The deck checks each key alone; src/setup checks conditions on several keys. A 0 or "" with a special meaning (the
 * preset's value, off) is stored as 0 or "". */
#ifndef DECK_DECK_H
#define DECK_DECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { DECK_MAXIMUM_THREADS = 1024 };

/* Values of the keys that have named choices, in the order of the names in the table. */
enum deck_family { DECK_FAMILY_PRESET, DECK_FAMILY_FIRST /* then one for each of DECK_FAMILIES */ };
/* X(NAME) for each family of models, which is family_NAME in architecture/family_NAME.c. */
#define DECK_FAMILIES(X) X(llama) X(esm2) X(amplify) X(qwen2) X(qwen3) X(mistral) X(mixtral) X(esmc) X(ntv2) X(olmo2)
enum deck_objective { DECK_OBJECTIVE_FAMILY, DECK_OBJECTIVE_CAUSAL, DECK_OBJECTIVE_MASKED };
enum deck_gelu { DECK_GELU_ERF, DECK_GELU_TANH };
enum deck_rounding { DECK_ROUNDING_NONE, DECK_ROUNDING_FP16, DECK_ROUNDING_BF16 };
enum deck_rope { DECK_ROPE_LLAMA3, DECK_ROPE_LINEAR, DECK_ROPE_YARN, DECK_ROPES };
enum deck_tied { DECK_TIED_PRESET, DECK_TIED_YES, DECK_TIED_NO };
enum deck_decay { DECK_DECAY_ALL, DECK_DECAY_MATRICES, DECK_DECAY_MATRICES_NOT_EMBEDDING };
enum deck_schedule { DECK_SCHEDULE_COSINE, DECK_SCHEDULE_LINEAR, DECK_SCHEDULE_CONSTANT };
enum deck_rule { DECK_RULE_RECIPE, DECK_RULE_MEGATRON, DECK_RULE_NEMO };
enum deck_count { DECK_COUNT_STEPS, DECK_COUNT_SAMPLES };
enum deck_data { DECK_DATA_STORE, DECK_DATA_RANDOM };
enum deck_format { DECK_FORMAT_PACKED, DECK_FORMAT_PADDED };
enum deck_order { DECK_ORDER_OWN, DECK_ORDER_MEGATRON };
enum deck_special { DECK_SPECIAL_WINDOW, DECK_SPECIAL_SEQUENCE };
enum deck_device { DECK_DEVICE_AUTO, DECK_DEVICE_CPU, DECK_DEVICE_CUDA };
enum deck_check { DECK_CHECK_OFF, DECK_CHECK_RESULTS, DECK_CHECK_ALL };
enum deck_divergence { DECK_DIVERGENCE_STOP, DECK_DIVERGENCE_SKIP, DECK_DIVERGENCE_REWIND };
enum deck_optimizer { DECK_OPTIMIZER_ADAMW, DECK_OPTIMIZER_MUON };
enum deck_adjust_lr { DECK_ADJUST_ORIGINAL, DECK_ADJUST_MATCH_RMS_ADAMW, DECK_ADJUST_SPECTRAL_UNCLAMPED };
enum deck_freeze { DECK_FREEZE_NONE, DECK_FREEZE_TRUNK };
enum deck_head { DECK_HEAD_LM, DECK_HEAD_SEQUENCE, DECK_HEAD_TOKEN, DECK_HEAD_NONE, DECK_HEADS };
enum deck_problem { DECK_PROBLEM_CLASSIFICATION, DECK_PROBLEM_REGRESSION };
enum deck_pooling { DECK_POOLING_AUTO, DECK_POOLING_FIRST, DECK_POOLING_LAST, DECK_POOLING_MEAN };
/* The loss, then enum validation_metric (monitor/validation.h). */
enum deck_metric {
    DECK_METRIC_LOSS,
    DECK_METRIC_ACCURACY,
    DECK_METRIC_F1,
    DECK_METRIC_MCC,
    DECK_METRIC_AUC,
    DECK_METRIC_SPEARMAN,
    DECK_METRIC_R2
};
enum deck_failure { DECK_FAILURE_STOP, DECK_FAILURE_CONTINUE };
enum deck_compute { DECK_COMPUTE_FP32, DECK_COMPUTE_BF16 };
enum deck_recipe {
    DECK_RECIPE_NONE,
    DECK_RECIPE_DELAYED,
    DECK_RECIPE_CURRENT,
    DECK_RECIPE_ROW,
    DECK_RECIPE_BLOCK,
    DECK_RECIPE_MXFP8,
    DECK_RECIPE_NVFP4
};
enum deck_fp8 { DECK_FP8_AUTO, DECK_FP8_E4M3, DECK_FP8_HYBRID };
enum deck_amax { DECK_AMAX_MAXIMUM, DECK_AMAX_LATEST };
enum deck_accumulate { DECK_ACCUMULATE_AUTO, DECK_ACCUMULATE_FAST, DECK_ACCUMULATE_SPLIT };
enum deck_weight_gradients { DECK_WEIGHT_GRADIENTS_QUANTIZED, DECK_WEIGHT_GRADIENTS_COMPUTE };
enum deck_weight_copies { DECK_WEIGHT_COPIES_KEPT, DECK_WEIGHT_COPIES_MADE };
/* The values of enum shard_level (store/store.h), and AUTO: the fastest layout that fits. */
enum deck_shard { DECK_SHARD_NONE, DECK_SHARD_OPTIMIZER, DECK_SHARD_GRADIENTS, DECK_SHARD_FULL, DECK_SHARD_AUTO };
enum deck_reduce { DECK_REDUCE_AUTO, DECK_REDUCE_MICRO_BATCH, DECK_REDUCE_STEP };
enum deck_stages { DECK_STAGES_COST, DECK_STAGES_LAYERS, DECK_STAGES_ENDS };
enum deck_context { DECK_CONTEXT_AUTO, DECK_CONTEXT_GATHER, DECK_CONTEXT_HEADS, DECK_CONTEXT_RING };
enum deck_recompute {
    DECK_RECOMPUTE_NONE,
    DECK_RECOMPUTE_ONLY_NORMS,
    DECK_RECOMPUTE_ACTIVATION,
    DECK_RECOMPUTE_NORMS,
    DECK_RECOMPUTE_GATE_UP,
    DECK_RECOMPUTE_QKV,
    DECK_RECOMPUTE_ATTENTION,
    DECK_RECOMPUTE_FULL,
    DECK_RECOMPUTE_FIT /* not a policy: the program chooses a policy for each layer */
};
/* Names of the policies DECK_RECOMPUTE_NONE to DECK_RECOMPUTE_FULL. */
#define DECK_RECOMPUTE_NAMES "none", "only_norms", "activation", "norms", "gate_up", "qkv", "attention", "full"

/* The values of all keys. Only deck, setup and the few files that change keys see the fields (deck/fields.h); the rest
 * of the program uses the settings that setup derives from them (setup/setup.h). */
struct deck;

/* Returns a deck of defaults, freed with memory_free (base/memory.h). A deck has 90 KiB, too much for a small stack
 * (ulimit -s). */
struct deck *deck_create(void);

/* Sets all keys to their defaults, and marks none as given. */
void deck_defaults(struct deck *deck);

/* Returns a copy, freed with memory_free. */
struct deck *deck_copy(const struct deck *deck);

/* Reads a deck file, then applies overrides[override_count], "key=value", in order; the last value of a key wins.
 * `name` is a path, or without "/" also the name of a deck that comes with the program ("quickstart"). `deck` is
 * overwritten; missing keys get their defaults. An @include is searched for in the folder of the including file, then
 * among the decks that come with the program. A key may be set again after an @include that set it; the later value
 * wins. "~" in paths is replaced by the home folder. Local; reads files, so one rank calls it and sends the deck to the
 * others.
 *
 * Returns ERROR_NONE, or ERROR_USER with one line per error (about twenty at most): "FILE:LINE: key ..." or "command
 * line: ..."; after a syntax error the rest of that file is not checked. After an error the deck must not be used.
 *
 * *notes (notes may be NULL), also set after an error, is a text of lines for the user, freed with free(). It names the
 * file that was read if that is not `name`, and each key that replaced one of an @include. */
int deck_read(struct deck *deck, const char *name, char *const overrides[], int override_count, char **notes);

/* As deck_read, for a deck text in memory, such as a checkpoint's. Messages say `origin` instead of FILE. Reads no
 * files: an @include is an error. */
int deck_read_text(struct deck *deck, const char *text, const char *origin, char *const overrides[],
                   int override_count);

/* Returns whether the file or an override set the key ("model.hidden"). True for all keys of an effective deck. An
 * unknown key is a bug of the caller and fatal. */
bool deck_given(const struct deck *deck, const char *key);

/* Copies the keys of a section ("model"), subsections included, from `from` to `deck` where `deck` does not give them.
 */
void deck_inherit(struct deck *deck, const struct deck *from, const char *section);

/* Returns the effective deck: a deck text that sets every key. deck_read_text reads back the same bits. Freed with
 * free(). */
char *deck_print_effective(const struct deck *deck);

/* Returns one line "model.hidden = 128" for each key that differs from its default, in the order of the table; "" for
 * none. Freed with free(). */
char *deck_print_changed(const struct deck *deck);

/* Prints the reference, itself a valid deck: every key with its default, on its own line below its comment. */
void deck_print_reference(FILE *file);
/* Prints the reference as Markdown: doc/deck.md. */
void deck_print_markdown(FILE *file);

/* Returns the value of a key in deck syntax ("memory.recompute" gives "\"full\""), freed with free(). An unknown key is
 * fatal. */
char *deck_key_text(const struct deck *deck, const char *key);
/* Returns "memory.recompute = \"full\"" for each of keys[count], separated by `between`; "" for none. Freed with
 * free(). */
char *deck_keys_text(const struct deck *deck, const char *const keys[], int count, const char *between);

/* Prints the name of each key, followed by `ending`, on a line of its own. */
void deck_print_keys(FILE *file, const char *ending);

/* A key whose value differs between two decks. */
struct deck_change {
    const char *key;
    const char *refused; /* the reason why it may not change at a restart; NULL: it may */
    bool logged;         /* the change is logged, since results depend on it */
    bool is_text;        /* the values are texts; otherwise numbers, or "true" and "false" */
    char *old, *new_;    /* in deck syntax, but texts without quotes; owned */
};
/* The keys that differ, in the order of the table; deck_changes_destroy frees them. */
struct deck_changes {
    struct deck_change *changes;
    int count;
};
struct deck_changes deck_compare(const struct deck *old, const struct deck *new_);
void deck_changes_destroy(struct deck_changes *changes);
/* Returns the old or new value in deck syntax, texts in quotes; freed with free(). */
char *deck_change_value(const struct deck_change *change, bool new_);
/* Returns "optimizer.lr = 0.001 (was 0.003)", freed with free(). */
char *deck_change_text(const struct deck_change *change);

/* Compares the deck of a checkpoint with that of a run that resumes it. Returns the number of differing keys that may
 * not change at a restart. *differences has a line for each, "key model.hidden: 128 in the checkpoint, 256 now
 * (reason)", without a newline at the end, freed with free(); NULL if there are none. */
int deck_compare_for_resume(const struct deck *old, const struct deck *new_, char **differences);

#endif
