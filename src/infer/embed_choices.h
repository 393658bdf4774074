/* The options of `cistron embed` that say what is written of each record. */
#ifndef INFER_EMBED_CHOICES_H
#define INFER_EMBED_CHOICES_H

#include "infer/embeddings.h"

struct embed_choices {
    enum embeddings_pool pool;
    enum embeddings_dtype dtype;
    int64_t *layers; /* [layer_count] as in struct engine_states; owned */
    int64_t layer_count;
    bool listed; /* the user has listed layers */
};

/* Reads the names of pool and dtype, and a list of layers, such as "0,6-8", "-1" (counted from the end) or "all"; NULL:
 * the last. model_layers: layers of the model. Free with embed_choices_destroy, also after an error. ERROR_USER. Local.
 */
int embed_choices_read(struct embed_choices *choices, const char *pool, const char *dtype, const char *layers,
                       int64_t model_layers);
void embed_choices_destroy(struct embed_choices *choices);

#endif
