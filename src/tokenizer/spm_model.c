#include "tokenizer/spm_model.h"
#include "base/error.h"
#include "base/memory.h"
#include "tokenizer/bpe.h"
#include "tokenizer/tokens.h"
#include "tokenizer/utf8.h"
#include "tokenizer/wire_format.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Fields of the messages, by their numbers. */
enum { MODEL_PIECES = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum {
    TRAINER_KIND = 3,
    TRAINER_SUFFIX = 24,
    TRAINER_FALLBACK = 35,
    TRAINER_BOS = 41,
    TRAINER_EOS = 42,
    TRAINER_PAD = 43
};
enum { NORMALIZER_CHARSMAP = 2, NORMALIZER_PREFIX = 3, NORMALIZER_SINGLE = 4, NORMALIZER_ESCAPE = 5 };

static bool read_piece(struct spm_model *model, const struct wire_field *message)
{
    struct spm_piece piece = {.text = "", .type = SPM_NORMAL};
    struct wire_message wire = wire_open(message->bytes, message->count);
    struct wire_field field;
    while (wire_next(&wire, &field)) {
        if (field.number == PIECE_TEXT && field.has_bytes) {
            piece.text = (const char *)field.bytes;
            piece.bytes = field.count;
        } else if (field.number == PIECE_SCORE) {
            piece.score = wire_float(&field);
        } else if (field.number == PIECE_TYPE) {
            piece.type = (enum spm_piece_type)field.value;
        }
    }
    if (model->count == model->capacity) {
        model->capacity = 2 * model->capacity + 1024;
        model->pieces = memory_grow(model->pieces, model->capacity * (int64_t)sizeof *model->pieces);
    }
    model->pieces[model->count++] = piece;
    return !wire.damaged;
}

static bool read_trainer(struct spm_model *model, const struct wire_field *message)
{
    struct wire_message wire = wire_open(message->bytes, message->count);
    struct wire_field field;
    while (wire_next(&wire, &field)) {
        if (field.number == TRAINER_KIND)
            model->kind = (enum spm_kind)field.value;
        else if (field.number == TRAINER_SUFFIX)
            model->suffix = field.value != 0;
        else if (field.number == TRAINER_FALLBACK)
            model->falls_back = field.value != 0;
        else if (field.number == TRAINER_BOS)
            model->bos = (int32_t)field.value;
        else if (field.number == TRAINER_EOS)
            model->eos = (int32_t)field.value;
        else if (field.number == TRAINER_PAD)
            model->pad = (int32_t)field.value;
    }
    return !wire.damaged;
}

static bool read_normalizer(struct spm_model *model, const struct wire_field *message)
{
    struct wire_message wire = wire_open(message->bytes, message->count);
    struct wire_field field;
    while (wire_next(&wire, &field)) {
        if (field.number == NORMALIZER_CHARSMAP && field.has_bytes && field.count > 0) {
            model->charsmap = field.bytes;
            model->charsmap_bytes = field.count;
        } else if (field.number == NORMALIZER_PREFIX) {
            model->prefix = field.value != 0;
        } else if (field.number == NORMALIZER_SINGLE) {
            model->single = field.value != 0;
        } else if (field.number == NORMALIZER_ESCAPE) {
            model->escape = field.value != 0;
        }
    }
    return !wire.damaged;
}

static bool read_model(struct spm_model *model, struct wire_message *wire)
{
    struct wire_field field;
    bool good = true;
    while (good && wire_next(wire, &field)) {
        if (field.number == MODEL_PIECES && field.has_bytes && model->count < TOKENS_MOST)
            good = read_piece(model, &field);
        else if (field.number == MODEL_PIECES)
            good = false;
        else if (field.number == MODEL_TRAINER)
            good = field.has_bytes && read_trainer(model, &field);
        else if (field.number == MODEL_NORMALIZER)
            good = field.has_bytes && read_normalizer(model, &field);
    }
    return good && !wire->damaged;
}

/* Returns whether the id of a role is one of a piece. */
static bool is_id(const struct spm_model *model, int32_t id)
{
    return id >= -1 && id < model->count;
}

int spm_model_read(struct spm_model *model, const struct bpe_file *file)
{
    struct wire_message wire = wire_open(file->data, file->bytes);
    *model = (struct spm_model){
        .kind = SPM_UNIGRAM, .bos = 1, .eos = 2, .pad = -1, .prefix = true, .single = true, .escape = true};
    if (!read_model(model, &wire) || model->count == 0)
        return error_user("%s: is not a complete SentencePiece model (nor a tokenizer.json or a rank file of tiktoken)",
                          file->name);
    if (!is_id(model, model->bos) || !is_id(model, model->eos) || !is_id(model, model->pad))
        return error_user("%s: trainer_spec: bos_id, eos_id and pad_id must be below the number of pieces, %" PRId64,
                          file->name, model->count);
    for (int64_t id = 0; id < model->count; id++) {
        const struct spm_piece *piece = &model->pieces[id];
        const bool good = piece->bytes > 0 && piece->bytes <= TOKENS_BYTES_MOST &&
                          utf8_valid((const unsigned char *)piece->text, piece->bytes) == piece->bytes;
        if (!good || !isfinite(piece->score) || piece->type < SPM_NORMAL || piece->type > SPM_BYTE)
            return error_user("%s: piece %" PRId64 ": must be a text in UTF-8 with a finite score and a known type",
                              file->name, id);
    }
    return ERROR_NONE;
}

void spm_model_free(struct spm_model *model)
{
    free(model->pieces);
}
