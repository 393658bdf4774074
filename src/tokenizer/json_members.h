/* Readers of the members of a tokenizer.json, for bpe_json.c. Each sets its part of *bpe. ERROR_USER: the member is
 * damaged or not supported; the message names it. */
#ifndef TOKENIZER_JSON_MEMBERS_H
#define TOKENIZER_JSON_MEMBERS_H

#include "tokenizer/json_place.h"

struct bpe;

/* Returns "type" of an object; "" if missing. */
const char *member_type(const struct json_place *place);
/* Records that the type of an object is not supported, and must be <allowed>. Returns ERROR_USER. */
int member_refuse_type(const struct json_place *of, const char *allowed);

/* Calls `read` for each part: an object is one part, a Sequence has the parts in its array `parts`, null has none. */
typedef int member_part_reader(struct bpe *bpe, const struct json_place *part);
int member_read_parts(struct bpe *bpe, const struct json_place *place, const char *parts, member_part_reader *read);

/* Converts a text to the bytes that its characters stand for in byte-level files, out[length]. Returns their number;
 * -1: a character stands for no byte. */
int64_t member_decode_bytes(char *out, const char *text, int64_t length);

/* Sets the kind of the model, on which the other members depend: call it first. */
int member_read_kind(struct bpe *bpe, const struct json_place *root);
/* Reads a part of "normalizer". */
int member_read_normalizer(struct bpe *bpe, const struct json_place *part);
/* Reads "pre_tokenizer". */
int member_read_splitters(struct bpe *bpe, const struct json_place *root);
/* Reads "model". Needs the pre-tokenizer. */
int member_read_model(struct bpe *bpe, const struct json_place *root);
/* Reads "added_tokens". Needs the model and the normalizer. */
int member_read_added(struct bpe *bpe, const struct json_place *root);
/* Reads a part of "post_processor". Needs the added tokens. */
int member_read_ends(struct bpe *bpe, const struct json_place *part);

#endif
