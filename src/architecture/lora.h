/* LoRA (Hu et al. 2021): adapters of rank r for linear layers of the blocks, y = W x + alpha / r B A x. Only the
 * adapters are trained. Targets are named as in peft. */
#ifndef ARCHITECTURE_LORA_H
#define ARCHITECTURE_LORA_H

#include <stdbool.h>
#include <stdint.h>

struct family;

/* The linear layers of a block that may have an adapter. LORA_UP: gate and up in a family that has them as one. */
enum lora_target { LORA_Q, LORA_K, LORA_V, LORA_O, LORA_GATE, LORA_UP, LORA_DOWN, LORA_TARGETS };

struct lora_settings {
    int64_t rank; /* r; 0: there are no adapters */
    double alpha;
    double dropout; /* probability that an element of an adapter's input is dropped in training */
    bool targets[LORA_TARGETS];
};

/* Returns alpha / r. */
static inline double lora_factor(const struct lora_settings *lora)
{
    return lora->alpha / (double)lora->rank;
}

/* Returns whether training drops elements. */
static inline bool lora_drops(const struct lora_settings *lora)
{
    return lora->rank > 0 && lora->dropout > 0;
}

/* Returns the module's name within its block ("self_attn.q_proj"); NULL: the family does not have it. */
const char *lora_module(const struct family *family, enum lora_target target);

/* Reads targets from a comma-separated list of names. As in peft, a name means each module whose name it is or ends
 * with, after a point, and "all-linear" means all linear layers of the blocks. ERROR_USER, naming key lora.targets: a
 * name means no linear layer of the blocks, or also another module of the model. */
int lora_read_targets(struct lora_settings *lora, const struct family *family, const char *list);

#endif
