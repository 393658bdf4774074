#include "bridge/import.h"
#include "deck/fields.h"
#include "file/disk.h"
#include "base/error.h"
#include "base/faults.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/range.h"
#include "file/path.h"
#include "base/signals.h"
#include "base/thousands.h"
#include "bridge/config.h"
#include "bridge/frequencies.h"
#include "bridge/tokenizer_files.h"
#include "tokenizer/bpe.h"
#include "tokenizer/tokenizer.h"
#include "checkpoint/carried.h"
#include "checkpoint/checkpoint_stream.h"
#include "file/file.h"
#include "bridge/safetensors.h"
#include "checkpoint/shape.h"
#include "setup/model.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 4 << 20, PIECE_ELEMENTS = PIECE_BYTES / (int)sizeof(float) };

struct import {
    const struct import_settings *given;
    const struct tokenizer *tokenizer; /* NULL: not known */
    struct deck deck;
    struct model_settings settings;
    struct model model;
    struct safetensors *st;
    enum checkpoint_dialect dialect;
    int64_t token_rows;                  /* rows of tensors with one row per token */
    struct dialect_place *places;        /* [model_parameters] location of each parameter */
    const struct safetensors_entry **of; /* [model_parameters] its tensor */
    bool *used;                          /* [st->count] the tensor is a parameter, or equal to one */
    int ignored;
    bool *broken; /* [model_parameters] the parameter has NaN or infinity */
    struct carried_files carried;
    uint8_t *raw; /* [PIECE_BYTES] PIECE_ELEMENTS of the widest type of parameters */
};

/* -- Matching parameters ------------------------------------------------------------------------------------------ */

/* Returns the entry of a name or of its older spelling: gamma and beta of norms. */
static const struct safetensors_entry *find_name(const struct safetensors *st, const char *name)
{
    static const char *const endings[][2] = {{".weight", ".gamma"}, {".bias", ".beta"}};
    const struct safetensors_entry *entry = safetensors_find(st, name);
    for (int i = 0; i < 2 && entry == NULL; i++) {
        size_t length = strlen(name), ending = strlen(endings[i][0]);
        if (length > ending && strcmp(name + length - ending, endings[i][0]) == 0) {
            char *old = memory_format("%.*s%s", (int)(length - ending), name, endings[i][1]);
            entry = safetensors_find(st, old);
            free(old);
        }
    }
    return entry;
}

/* Returns the number of characters that names have before those of the same tensors in the file of a model without a
 * head: of "esm." or "model.". */
static size_t base_prefix(const struct import *import)
{
    return strcspn(import->settings.family->names.embedding, ".") + 1;
}

/* Returns the entry of a parameter's name, of the family's older prefix for "model.", or without a prefix if the model
 * has no head. */
static const struct safetensors_entry *find_parameter(const struct import *import, const char *name)
{
    static const char begin[] = "model.";
    const char *older = import->settings.family->te.older;
    const struct safetensors_entry *entry = find_name(import->st, name);
    if (entry == NULL && older != NULL && strncmp(name, begin, sizeof begin - 1) == 0) {
        char *old = memory_format("%s%s", older, name + sizeof begin - 1);
        entry = find_name(import->st, old);
        free(old);
    }
    if (entry == NULL && import->settings.task.head == DECK_HEAD_NONE)
        entry = find_name(import->st, name + base_prefix(import));
    return entry;
}

/* Returns a tensor's name with the prefix that a model without a head may leave out; freed with free(). */
static char *whole_name(const struct import *import, const char *name)
{
    const char *embedding = import->settings.family->names.embedding;
    const int prefix = (int)base_prefix(import);
    const bool whole = import->settings.task.head != DECK_HEAD_NONE || strncmp(name, embedding, (size_t)prefix) == 0;
    return whole ? memory_string(name) : memory_format("%.*s%s", prefix, embedding, name);
}

static void match_parameter(struct import *import, const struct parameter *p, int number, struct fault_list *faults)
{
    struct dialect_place *place = &import->places[number];
    dialect_place(place, import->dialect, &import->settings, import->token_rows, p);
    const int64_t *shape = place->shape;
    const int dims = place->dims;
    char a[SHAPE_TEXT], b[SHAPE_TEXT];
    const struct safetensors_entry *entry = find_parameter(import, place->name);
    import->of[number] = entry;
    if (entry != NULL)
        import->used[entry - import->st->entries] = true;
    if (place->first > 0) /* the first parameter of the tensor has reported it */
        return;
    if (entry == NULL)
        faults_add(faults, "%s: is missing; the model has it as %s", place->name, shape_text(a, shape, dims));
    else if (entry->dims != dims || memcmp(entry->shape, shape, (size_t)dims * sizeof *shape) != 0)
        faults_add(faults, "%s: is %s in %s, but %s by config.json", entry->name,
                   shape_text(a, entry->shape, entry->dims), safetensors_path(import->st, entry),
                   shape_text(b, shape, dims));
    else if (entry->dtype != SAFETENSORS_F32 && entry->dtype != SAFETENSORS_BF16 && entry->dtype != SAFETENSORS_F16)
        faults_add(faults, "%s: has element type %s; F32, BF16 and F16 can be read", entry->name,
                   safetensors_dtype_name(entry->dtype));
}

/* -- Duplicate tensors --------------------------------------------------------------------------------------------- */

static int compare(struct import *import, const struct safetensors_entry *a, const struct safetensors_entry *b,
                   bool *equal)
{
    uint8_t *x = memory_allocate(PIECE_BYTES), *y = memory_allocate(PIECE_BYTES);
    int code = ERROR_NONE;
    *equal = a->dtype == b->dtype && a->bytes == b->bytes;
    for (int64_t first = 0; first < a->bytes && *equal && code == ERROR_NONE; first += PIECE_BYTES) {
        int64_t n = MIN(a->bytes - first, PIECE_BYTES);
        code = safetensors_read(import->st, a, first, n, x);
        if (code == ERROR_NONE)
            code = safetensors_read(import->st, b, first, n, y);
        *equal = memcmp(x, y, (size_t)n) == 0;
    }
    memory_free(x);
    memory_free(y);
    return code;
}

/* Ignores the tensor `name`, which must be equal to `first`: some files have a tied matrix, or a bias that two modules
 * share, under both names. */
static int drop_twin(struct import *import, const char *name, const char *first)
{
    const struct safetensors_entry *entry = safetensors_find(import->st, name), *twin;
    if (entry == NULL || import->used[entry - import->st->entries])
        return ERROR_NONE;
    twin = safetensors_find(import->st, first);
    bool equal = false;
    import->used[entry - import->st->entries] = true;
    if (twin == NULL) /* already reported */
        return ERROR_NONE;
    int code = compare(import, entry, twin, &equal);
    if (code == ERROR_NONE && !equal)
        code = error_user("%s: %s differs from %s, but config.json ties the two; set tie_word_embeddings = false there "
                          "to read the head's own matrix",
                          import->given->folder, name, first);
    return code;
}

static int drop_twins(struct import *import)
{
    const struct family_names *names = &import->settings.family->names;
    char *decoder = memory_format("%s.weight", names->decoder), *bias = memory_format("%s.bias", names->decoder);
    const char *embedding = import->of[0] == NULL ? "" : import->of[0]->name; /* the model's first parameter */
    int code = import->settings.tied ? drop_twin(import, decoder, embedding) : ERROR_NONE;
    if (code == ERROR_NONE && names->decoder_bias != NULL)
        code = drop_twin(import, bias, names->decoder_bias);
    free(decoder);
    free(bias);
    return code;
}

/* -- Carried tensors ----------------------------------------------------------------------------------------------- */

/* Sets the rounding of frequencies from a table. Some classes compute with the file's table (loads_frequencies), which
 * may have been rounded to 16 bits; then the model rounds its frequencies as well. A table that differs by more than
 * rounding belongs to another rope_theta: with config.json's, the model would compute other outputs than in
 * transformers. */
static int adopt_frequencies(struct import *import, const struct carried_tensor *t)
{
    static const double far = 1e-2; /* bf16 differs by at most 4e-3 */
    struct rope_settings rope = import->settings.rope;
    const int64_t head_dim = import->settings.head_dim;
    for (int r = DECK_ROUNDING_NONE; r <= DECK_ROUNDING_BF16; r++) {
        rope.rounding = (enum deck_rounding)r;
        if (frequencies_error(&rope, head_dim, t) < FREQUENCIES_SAME) {
            import->deck.model.rope_rounding = r;
            return ERROR_NONE;
        }
    }
    double error = frequencies_error(&import->settings.rope, head_dim, t);
    if (!(error < far))
        return error_user("%s: %s does not match config.json's rope_theta = %g (10000 if config.json has none)",
                          import->given->folder, t->name, import->settings.rope.theta);
    log_warn("%s: %s does not match config.json's rope_theta: this program uses and exports frequencies whose relative "
             "difference is up to %.1e",
             import->given->folder, t->name, error);
    return ERROR_NONE;
}

static int carry(struct import *import, const struct safetensors_entry *entry, char *name, struct carried_files *to)
{
    struct carried_tensor like = {.name = name, .dims = entry->dims, .bytes = entry->bytes};
    snprintf(like.dtype, sizeof like.dtype, "%s", safetensors_dtype_name(entry->dtype));
    memcpy(like.shape, entry->shape, (size_t)entry->dims * sizeof *like.shape);
    int code = carried_add(to, import->given->folder, &like);
    if (code != ERROR_NONE)
        return code;
    const struct carried_tensor *t = &to->tensors[to->count - 1];
    code = safetensors_read(import->st, entry, 0, entry->bytes, t->data);
    if (code == ERROR_NONE && frequencies_named(t->name) &&
        (import->settings.family->loads_frequencies || import->dialect == DIALECT_TE))
        code = adopt_frequencies(import, t);
    return code;
}

/* Reads a table of DIALECT_TE for its frequencies only, because its classes compute with it. It is not carried, since
 * an export in Hugging Face's dialect does not have that name. */
static int read_table(struct import *import, const struct safetensors_entry *entry)
{
    struct carried_files table = {0};
    int code = carry(import, entry, entry->name, &table);
    carried_destroy(&table);
    return code;
}

/* Carries, ignores or refuses a tensor that is not a parameter. */
static int take_rest(struct import *import, const struct safetensors_entry *entry, struct fault_list *faults)
{
    const bool te = import->dialect == DIALECT_TE;
    const struct family *family = import->settings.family;
    if (te && frequencies_named(entry->name))
        return read_table(import, entry);
    char *name = whole_name(import, entry->name);
    int code = ERROR_NONE;
    if (te && dialect_ignores(family, name))
        import->ignored++;
    else if (!te && dialect_matches(family->carried, name))
        code = carry(import, entry, name, &import->carried);
    else
        faults_add(faults, "%s: is not in the model that config.json describes", entry->name);
    free(name);
    return code;
}

/* -- Reading the folder -------------------------------------------------------------------------------------------- */

/* Finds the rows of tensors with one row per token. If config.json lacks padded_vocab_size, the embedding's shape
 * decides: BioNeMo's older classes had no rows beyond the vocabulary, later ones have them by default. */
static int find_token_rows(struct import *import)
{
    const int64_t vocabulary = import->settings.vocabulary;
    import->token_rows = vocabulary;
    if (import->dialect == DIALECT_HF || family_key(import->settings.family, CONFIG_TOKEN_ROWS) == NULL)
        return ERROR_NONE;
    int code = config_token_rows(&import->token_rows, import->given->folder, vocabulary);
    if (code == ERROR_NONE && import->token_rows < 0) {
        struct dialect_place place;
        dialect_place(&place, import->dialect, &import->settings, vocabulary, &import->model.units[0].parameters[0]);
        const struct safetensors_entry *entry = find_parameter(import, place.name);
        const bool more = entry != NULL && entry->dims == 2 && entry->shape[0] > vocabulary;
        import->token_rows = more ? entry->shape[0] : vocabulary;
    }
    return code;
}

static int match_tensors(struct import *import)
{
    struct fault_list faults = {0};
    int number = 0, code = find_token_rows(import);
    if (code != ERROR_NONE)
        return code;
    for (int u = 0; u < import->model.unit_count; u++)
        for (int i = 0; i < import->model.units[u].parameter_count; i++)
            match_parameter(import, &import->model.units[u].parameters[i], number++, &faults);
    code = drop_twins(import);
    for (int64_t i = 0; i < import->st->count && code == ERROR_NONE; i++)
        if (!import->used[i])
            code = take_rest(import, &import->st->entries[i], &faults);
    int verdict = faults_verdict(&faults, "%s: its tensors are not those of config.json", import->given->folder);
    return code != ERROR_NONE ? code : verdict;
}

/* Checks that the embedding has a row for each id of the tokenizer; `what` names the tokenizer in the message. */
static int check_ids(const struct import *import, const struct tokenizer *tokenizer, const char *what)
{
    if (tokenizer == NULL || tokenizer->vocabulary <= import->settings.vocabulary)
        return ERROR_NONE;
    return error_user("%s: has ids up to %lld, but the model in %s has ids up to %lld", what,
                      (long long)tokenizer->vocabulary - 1, import->given->folder,
                      (long long)import->settings.vocabulary - 1);
}

/* Opens the tokenizer of the folder's own files, if it is a text tokenizer that this program can read. Without one, a
 * Llama can still be trained on existing stores. Some tokenizers have tokens, such as padding, that the model never
 * had; then a warning is logged. */
static void open_own_tokenizer(struct import *import)
{
    const char *folder = import->given->folder;
    struct tokenizer_bundle bundle;
    int code = bundle_read(&bundle, folder);
    if (code == ERROR_NONE)
        code = tokenizer_open_bundle(&import->tokenizer, &bundle, folder);
    if (code == ERROR_NONE)
        code = check_ids(import, import->tokenizer, "its tokenizer");
    if (code != ERROR_NONE) {
        log_warn("%s: the tokenizer is not imported: %s", folder, error_message());
        error_clear();
        tokenizer_close(import->tokenizer);
        import->tokenizer = NULL;
    }
    bundle_destroy(&bundle);
}

/* Returns the bundled tokenizer of the folder's files, or that of the family if the model has the vocabulary of the
 * published ones; NULL: neither. */
static const struct tokenizer *find_bundled(const struct import *import)
{
    const struct family *family = import->settings.family;
    for (int i = 0; tokenizer_bundled(i) != NULL; i++)
        if (tokenizer_files_match(tokenizer_bundled(i), import->given->folder))
            return tokenizer_bundled(i);
    const struct tokenizer *own = family->tokenizer != NULL ? tokenizer_find(family->tokenizer) : NULL;
    return own != NULL && family->presets[0].vocabulary == import->settings.vocabulary ? own : NULL;
}

static int choose_tokenizer(struct import *import)
{
    const char *name = import->given->tokenizer;
    const struct tokenizer *known = import->tokenizer = find_bundled(import);
    if (name == NULL && known == NULL)
        open_own_tokenizer(import);
    if (name == NULL)
        return check_ids(import, import->tokenizer, "its tokenizer");
    const struct tokenizer *wanted = tokenizer_find(name);
    if (wanted == NULL)
        return error_user("--tokenizer %s: unknown; this program has %s", name, tokenizer_names());
    if (known != NULL && wanted != known)
        return error_user("--tokenizer %s: the ids of %s are those of %s", name, import->given->folder, known->name);
    char *what = memory_format("--tokenizer %s", name);
    int code = check_ids(import, wanted, what);
    free(what);
    tokenizer_close(import->tokenizer);
    import->tokenizer = wanted;
    return code;
}

/* Warns that transformers does not train the embedding of pad_token_id. In a family without padding, this program
 * trains all embeddings. */
static void warn_of_padding(const struct import *import)
{
    const struct tokenizer *t = import->tokenizer;
    const int64_t padding = config_padding(import->given->folder);
    if (import->settings.family->padding < 0 && t != NULL && padding >= 0 && padding < t->vocabulary &&
        padding != t->pad && padding != t->eos)
        log_warn("%s/config.json: key pad_token_id = %lld: transformers does not train the embedding of this token, "
                 "cistron train does; if the text uses this token, set the key to null before comparing the two",
                 import->given->folder, (long long)padding);
}

static bool adds_none(const struct end_tokens *ends, int32_t known)
{
    return ends->count == 0 || (ends->count == 1 && ends->ids[0] == known);
}

/* Reads the end tokens of the folder's configuration, unless they equal the tokenizer's. */
static int choose_ends(struct import *import)
{
    struct model_ends *ends = &import->carried.ends;
    const int32_t known = import->tokenizer != NULL ? import->tokenizer->eos : -1;
    if (family_key(import->settings.family, CONFIG_ENDS) == NULL)
        return ERROR_NONE;
    int code = config_ends(ends, import->given->folder, import->settings.vocabulary);
    if (adds_none(&ends->config, known) && adds_none(&ends->generation, known))
        *ends = (struct model_ends){0};
    return code;
}

/* Sets data.bos and data.eos as the text tokenizer adds special tokens, because the model was trained that way. */
static void choose_specials(struct import *import)
{
    const struct tokenizer *tokenizer = import->tokenizer;
    if (tokenizer == NULL || !tokenizer_is_text(tokenizer))
        return;
    import->deck.data.bos = tokenizer->bos >= 0 && bpe_begins(tokenizer->bpe);
    import->deck.data.eos = tokenizer->eos >= 0 && bpe_ends(tokenizer->bpe);
}

/* Refuses a folder that has weights only in formats that are not read, with or without a config.json. */
static int check_form(const char *folder)
{
    static const char *const others[] = {"*.distcp", "*.bin", "*.pt", "*.pth", NULL};
    char *found = NULL;
    bool good = false;
    DIR *listing = opendir(folder);
    if (listing == NULL)
        return error_user("%s: cannot read the folder: %s; name the folder with config.json and model.safetensors",
                          folder, path_failure(folder, errno));
    for (const struct dirent *e = NULL; (e = readdir(listing)) != NULL;) {
        good = good || fnmatch("*.safetensors*", e->d_name, 0) == 0;
        for (int i = 0; others[i] != NULL && found == NULL; i++)
            found = fnmatch(others[i], e->d_name, 0) == 0 ? memory_string(e->d_name) : NULL;
    }
    closedir(listing);
    int code = found == NULL || good
                   ? ERROR_NONE
                   : error_user("%s: contains %s, but only safetensors can be read: save the model with "
                                "save_pretrained (in BioNeMo's recipes with checkpoint.save_final_model)",
                                folder, found);
    free(found);
    return code;
}

static int open_folder(struct import *import)
{
    deck_defaults(&import->deck);
    int code = check_form(import->given->folder);
    if (code == ERROR_NONE)
        code = safetensors_open(&import->st, import->given->folder);
    if (code == ERROR_NONE) {
        import->dialect = dialect_of(import->st);
        code = config_read(&import->deck, import->given->folder, import->dialect);
    }
    if (code == ERROR_NONE)
        code = model_settings_from_deck(&import->settings, &import->deck, 0);
    if (code == ERROR_NONE)
        code = choose_tokenizer(import);
    if (code == ERROR_NONE)
        code = choose_ends(import);
    if (code == ERROR_NONE)
        choose_specials(import);
    if (code == ERROR_NONE)
        warn_of_padding(import);
    return code;
}

/* -- Writing the checkpoint ---------------------------------------------------------------------------------------- */

static int read_floats(struct import *import, const struct safetensors_entry *entry, int64_t first, int64_t count,
                       float *out)
{
    const int64_t width = safetensors_dtype_size(entry->dtype);
    int code = ERROR_NONE;
    for (int64_t done = 0; done < count && code == ERROR_NONE; done += PIECE_ELEMENTS) {
        int64_t n = MIN(count - done, PIECE_ELEMENTS);
        code = safetensors_read(import->st, entry, (first + done) * width, n * width, import->raw);
        if (code == ERROR_NONE)
            safetensors_to_float(entry->dtype, import->raw, n, out + done);
    }
    return code;
}

static int fill(void *self, const struct checkpoint_piece *piece)
{
    struct import *import = self;
    if (signals_stopping())
        return error_environment("%s: stopped by a signal", import->given->output);
    int code = ERROR_NONE;
    for (int64_t done = 0; done < piece->slab.count && code == ERROR_NONE;) {
        int64_t at, rest = piece->slab.count - done;
        int64_t run = place_run(&import->places[piece->number], piece->slab.first + done, &at);
        run = MIN(run, rest);
        code = read_floats(import, import->of[piece->number], at, run, piece->staging + done);
        done += run;
    }
    for (int64_t i = 0; i < piece->slab.count && code == ERROR_NONE; i++)
        import->broken[piece->number] |= !isfinite(piece->staging[i]);
    return code;
}

/* NaN and infinity may be harmless, as in rows of a vocabulary that are never read. */
static void warn_of_broken(const struct import *import, int parameters)
{
    int broken = 0, first = 0;
    for (int i = parameters - 1; i >= 0; i--)
        if (import->broken[i]) {
            broken++;
            first = i;
        }
    if (broken > 0)
        log_warn("%s: tensors with NaN or infinite values: %d, the first is %s; results will be NaN",
                 import->given->folder, broken, import->of[first]->name);
}

static int write_output(struct import *import)
{
    char *text = deck_print_effective(&import->deck);
    struct checkpoint_meta meta = {.deck_text = text,
                                   .seed = import->deck.train.seed,
                                   .ranks = 1,
                                   .vocabulary = import->settings.vocabulary,
                                   .carried = &import->carried,
                                   .opened = import->tokenizer};
    snprintf(meta.version, sizeof meta.version, "%s", import->given->version);
    snprintf(meta.tokenizer, sizeof meta.tokenizer, "%s", import->tokenizer == NULL ? "" : import->tokenizer->name);
    int code = checkpoint_stream_write(&import->model, &meta, import->given->output, fill, import);
    free(text);
    return code;
}

static int import_tensors(struct import *import)
{
    const int parameters = model_parameters(&import->model);
    import->places = memory_allocate(parameters * (int64_t)sizeof *import->places);
    import->of = memory_allocate(parameters * (int64_t)sizeof *import->of);
    import->broken = memory_allocate(parameters * (int64_t)sizeof *import->broken);
    import->used = memory_allocate((import->st->count + 1) * (int64_t)sizeof *import->used);
    import->raw = memory_allocate(PIECE_BYTES);
    int code = match_tensors(import);
    if (code == ERROR_NONE)
        code = write_output(import);
    if (code == ERROR_NONE)
        log_info("%s: %s, %lld parameters, tokenizer %s, %d tensor%s carried along", import->given->output,
                 import->settings.family->name, (long long)model_parameter_count(&import->settings),
                 import->tokenizer == NULL ? "unknown" : import->tokenizer->name, import->carried.count,
                 plural(import->carried.count));
    if (code == ERROR_NONE && import->settings.task.head == DECK_HEAD_NONE)
        log_info("%s: without a head (model.head = \"none\"): cistron embed reads it, and cistron train adds a head",
                 import->given->output);
    if (code == ERROR_NONE && import->dialect == DIALECT_TE)
        log_info(
            "%s: in BioNeMo's dialect, for TransformerEngine; tensors ignored, since no output depends on them: %d",
            import->given->folder, import->ignored);
    if (code == ERROR_NONE)
        warn_of_broken(import, parameters);
    memory_free(import->places);
    memory_free(import->of);
    memory_free(import->broken);
    memory_free(import->used);
    memory_free(import->raw);
    carried_destroy(&import->carried);
    return code;
}

int import_run(const struct import_settings *settings)
{
    struct import *import = memory_allocate(sizeof *import);
    import->given = settings;
    int code = file_check_place(settings->output);
    if (code == ERROR_NONE)
        code = disk_check_outside(settings->output, settings->folder, ".h5");
    if (code == ERROR_NONE)
        code = disk_check_output(settings->output, settings->replace ? DISK_REPLACE : 0, NULL, 0);
    if (code == ERROR_NONE)
        code = open_folder(import);
    if (code == ERROR_NONE) {
        model_create(&import->model, &import->settings, 1, 1);
        code = import_tensors(import);
        model_destroy(&import->model);
    }
    if (import->st != NULL)
        safetensors_close(import->st);
    tokenizer_close(import->tokenizer);
    memory_free(import);
    return code;
}
