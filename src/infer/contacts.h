/* Contacts of residues, as EsmForMaskedLM.predict_contacts of transformers: a logistic regression on the attention maps
 * of all heads of all layers (ESM-2's contact head). Each map is reduced to the residues, added to its transpose, and
 * corrected by the average product (APC). Maps are computed on the host, from queries and keys of the device. */
#ifndef INFER_CONTACTS_H
#define INFER_CONTACTS_H

#include "infer/inference.h"

struct contact_maps {
    int64_t layers, heads, head_dim;
    int threads;
    float *weights, bias; /* [layers * heads] of the regression */
    const int64_t *lengths;
    int64_t records; /* of the batch */
    double *sums;    /* [contacts of the batch] weighted sums of the maps */
    /* Scratch: queries and keys of a layer [tokens, heads * head_dim], keys of a head [head_dim, longest], a head's map
     * [longest, longest], and sums of its rows and columns [longest]. */
    float *queries, *keys, *columns, *map;
    double *averages;
};

/* Reads the contact head of inference->path and allocates for batches of `tokens` tokens, whose longest record has
 * `longest`. The result is valid for contacts_destroy also after an error. Collective; an agreed code. ERROR_USER: the
 * checkpoint has no contact head, or one of zeros, or it does not fit the model. */
int contacts_create(struct contact_maps *maps, struct inference *inference, int64_t tokens, int64_t longest);
void contacts_destroy(struct contact_maps *maps);
/* Returns the bytes that contacts_create allocates. */
int64_t contacts_bytes(const struct inference *inference, int64_t tokens, int64_t longest);

/* Begins a batch: lengths[records] tokens of its records, begin and end token included, which are the first tokens of
 * the batch; borrowed. */
void contacts_begin(struct contact_maps *maps, const int64_t *lengths, int64_t records);
/* Adds the maps of a layer (attended of struct engine_states). */
void contacts_add_layer(void *maps, int64_t layer, const struct tensor *queries, const struct tensor *keys);
/* Returns how many contacts a record of `length` tokens has: each pair of residues, both orders. */
int64_t contacts_of(int64_t length);
/* Copies the probabilities `first` .. first + count - 1 of the batch, by record, then residue, then other residue. */
void contacts_copy(const struct contact_maps *maps, int64_t first, int64_t count, float *out);

#endif
