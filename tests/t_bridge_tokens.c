/* The tokenizer and the end tokens of a Hugging Face folder survive import and export, in the files that had them, or
 * are refused with the reason. */
#include "bridge/tokenizer_files.h"
#include "folders.h"
#include "stores.h"
#include "tokenizer/tokenizer.h"

static const char *work; /* the scratch folder */

/* Is a text of this tokenizer.json BOS, itself and, or not, EOS, and as it is, or in capitals? */
static bool reads_text(const char *folder, bool with_eos, bool capitals)
{
    json_t *root;
    CHECK(json_file_read(&root, in_folder(folder, "tokenizer.json")) == ERROR_NONE);
    const json_t *single = json_object_get(json_object_get(root, "post_processor"), "single");
    bool good = json_array_size(single) == (with_eos ? 3 : 2) &&
                json_object_get(json_array_get(single, 1), "Sequence") != NULL &&
                json_is_object(json_object_get(root, "normalizer")) == capitals;
    json_decref(root);
    return good;
}

static void test_tokenizers(void)
{
    char *file = memory_format("%s/named.h5", work), *out = memory_format("%s/named", work);
    char *other = memory_format("%s/other.h5", work), *other_out = memory_format("%s/other", work);
    const struct tokenizer *nucleotide = tokenizer_find("nucleotide");
    CHECK(import_folder(golden("llama_tiny"), file, "nucleotide") == ERROR_NONE);
    CHECK(export_file(file, out, false, EXPORT_SHARD_BYTES, false) == ERROR_NONE);
    CHECK(tokenizer_files_match(nucleotide, out) && !tokenizer_files_match(tokenizer_find("amplify"), out));
    CHECK(!tokenizer_files_match(nucleotide, golden("llama_tiny")));
    CHECK(reads_text(out, false, true)); /* a causal model goes on with it */
    CHECK(import_folder(golden("amplify_tiny"), other, NULL) == ERROR_NONE);
    CHECK(export_file(other, other_out, false, EXPORT_SHARD_BYTES, false) == ERROR_NONE);
    CHECK(reads_text(other_out, true, false));
    CHECK(is_there(in_folder(out, "generation_config.json")));
    CHECK(import_folder(golden("llama_tiny"), file, "klingon") == ERROR_USER);
    CHECK(strstr(error_message(), "--tokenizer klingon: unknown; this program has nucleotide") != NULL);
    CHECK(import_folder(golden("esm2_tiny"), file, "amplify") == ERROR_USER);
    CHECK(strstr(error_message(), "esm2_tiny are those of esm2") != NULL);
    CHECK(import_folder(out, file, "esm2") == ERROR_USER);
    CHECK(strstr(error_message(), "--tokenizer esm2: the ids of ") != NULL);
    CHECK(strstr(error_message(), " are those of nucleotide") != NULL);
    /* a Llama of proteins, whose folder says so */
    CHECK(import_folder(golden("llama_tiny"), other, "esm2") == ERROR_NONE);
    CHECK(export_file(other, other_out, false, EXPORT_SHARD_BYTES, true) == ERROR_NONE);
    CHECK(tokenizer_files_match(tokenizer_find("esm2"), other_out) && reads_text(other_out, false, false));
    free(other);
    free(other_out);
    free(file);
    free(out);
}

/* Puts these eos_token_id (JSON; NULL: leaves the file out) into the two files of a copy of llama_tiny. */
static char *llama_with_ends(const char *config_ends, const char *generation_ends)
{
    char *folder = memory_format("%s/ends", work);
    char *command = memory_format("rm -rf '%s'; cp -r '%s' '%s'; rm '%s/generation_config.json'", folder,
                                  golden("llama_tiny"), folder, folder);
    json_t *config;
    CHECK(system(command) == 0);
    CHECK(json_file_read(&config, in_folder(golden("llama_tiny"), "config.json")) == ERROR_NONE);
    json_object_set_new(config, "eos_token_id", json_loads(config_ends, JSON_DECODE_ANY, NULL));
    char *path = memory_format("%s/config.json", folder),
         *generation = memory_format("%s/generation_config.json", folder);
    CHECK(json_file_write(config, path) == ERROR_NONE);
    if (generation_ends != NULL) {
        char *text = memory_format("{\"eos_token_id\": %s}", generation_ends);
        write_file(generation, text, (int64_t)strlen(text));
        free(text);
    }
    free(command);
    free(path);
    free(generation);
    return folder;
}

static bool ends_are(const char *folder, const char *name, const char *wanted)
{
    json_t *root, *value = json_loads(wanted, JSON_DECODE_ANY, NULL);
    CHECK(json_file_read(&root, in_folder(folder, name)) == ERROR_NONE);
    const bool good = json_equal(json_object_get(root, "eos_token_id"), value);
    json_decref(root);
    json_decref(value);
    return good;
}

/* Every end token of a model comes back, in the file that had it. */
static void test_ends(void)
{
    static const struct {
        const char *config, *generation, *tokenizer; /* in */
        const char *config_out, *generation_out;     /* NULL: no file */
    } cases[] = {
        {"null", NULL, NULL, "null", NULL},
        {"null", NULL, "nucleotide", "0", "0"},
        {"0", "0", "nucleotide", "0", "0"},
        {"7", NULL, "nucleotide", "7", "7"},
        {"[0, 9, 255]", "[9, 0]", "nucleotide", "[0, 9, 255]", "[9, 0]"},
        {"0", "[9, 0]", "nucleotide", "0", "[9, 0]"},
        {"[0, 9]", "0", "nucleotide", "[0, 9]", "0"},
        {"[0, 9]", "null", "nucleotide", "[0, 9]", "[0, 9]"},
        {"[0, 9]", NULL, NULL, "[0, 9]", NULL},
        {"[0, 9]", "9", NULL, "[0, 9]", "9"},
        {"[0, 256, -1, 9]", "[4000000000, 9, 8]", "nucleotide", "[0, 9]", "[9, 8]"},
    };
    static const struct {
        const char *config, *generation, *says;
    } faults[] = {
        {"\"</s>\"", NULL, "config.json: eos_token_id: \"</s>\" is not supported; must be an id"},
        {"[0, 1.5]", NULL, "config.json: eos_token_id[1]: 1.5 is not supported"},
        {"[[0]]", NULL, "config.json: eos_token_id[0]: must be an id"},
        {"0", "{}", "generation_config.json: eos_token_id: must be an id"},
        {"0", "0, \"x", "generation_config.json:1: is not JSON"},
        {"0",
         "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
         "1,1,1,1,1,1,1,1,1,1,1,1]",
         "generation_config.json: eos_token_id: has more than 64 ids"},
    };
    char *file = memory_format("%s/ends.h5", work), *out = memory_format("%s/ends.out", work);
    char *clear = memory_format("rm -rf '%s'", out);
    for (int dialect = DIALECT_HF; dialect <= DIALECT_TE; dialect++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            char *folder = llama_with_ends(cases[i].config, cases[i].generation);
            CHECK(import_folder(folder, file, cases[i].tokenizer) == ERROR_NONE && system(clear) == 0);
            CHECK(export_run(&(struct export_settings){.checkpoint = file,
                                                       .folder = out,
                                                       .shard_bytes = EXPORT_SHARD_BYTES,
                                                       .dialect = (enum checkpoint_dialect)dialect}) == ERROR_NONE);
            CHECK(ends_are(out, "config.json", cases[i].config_out));
            CHECK(is_there(in_folder(out, "generation_config.json")) == (cases[i].generation_out != NULL));
            CHECK(cases[i].generation_out == NULL || ends_are(out, "generation_config.json", cases[i].generation_out));
            free(folder);
        }
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        char *folder = llama_with_ends(faults[i].config, faults[i].generation);
        CHECK(import_folder(folder, file, "nucleotide") == ERROR_USER);
        if (!CHECK(strstr(error_message(), faults[i].says) != NULL))
            fprintf(stderr, "    says \"%s\"\n", error_message());
        error_clear();
        free(folder);
    }
    free(file);
    free(out);
    free(clear);
}

int main(void)
{
    stores_begin();
    work = stores_folder;
    test_tokenizers();
    test_ends();
    stores_end();
    return check_end();
}
