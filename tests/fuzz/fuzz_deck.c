/* The deck reader: a text, and behind each NUL an override. What it takes is printed and read again, equal. */
#include "base/error.h"
#include "base/memory.h"
#include "deck/fields.h"
#include "fuzz/fuzz.h"
#include "architecture/settings.h"
#include "setup/model.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_OVERRIDES = 4, VOCABULARY = 256 };

const char *const fuzz_target_words[] = {"model",      "train",
                                         "data",       "optimizer",
                                         "steps",      "hidden",
                                         "heads",      "rope_scaling",
                                         "=",          ":",
                                         ";",          "{",
                                         "}",          "(",
                                         ")",          "[",
                                         "]",          "\"",
                                         "/*",         "*/",
                                         "#",          "//",
                                         "@include",   "\"x.cfg\"",
                                         "true",       "false",
                                         "\\x41",      "\\\"",
                                         "3000000000", "0xFFFFFFFFFF",
                                         "model.ffn",  "preset",
                                         "L",          "LL",
                                         "1e309",      NULL};

static const char deck[] = "model = { preset = \"llama3_8b\"; layers = 2; hidden = 64; heads = 4; tied = \"yes\"; };\n"
                           "train : { steps = 12; global_batch = 7L; seed = 0x2a; resume = \"never\" };\n"
                           "optimizer = { lr = 3e-4; clip = 0; decay = \"all\"; }; # a comment\n"
                           "model.rope_scaling = 1; data = { split = false, train = \"a\\\"b\\\\c\"; };\n";
static const char broken[] = "model = { layers = 3000000000; layers = 2; hiden = 1; };\nfoo = ( 1, { a = 2; } );\n"
                             "/* a comment */ train = \"x\" // another\n@include \"none.cfg\"\n";
static const char overrides[] = "\0model.hidden=64\0train.steps=1\0optimizer.lr=1e-3\0data.train=\"a b\"";

void fuzz_target_seeds(void (*add)(const void *data, size_t size))
{
    add(deck, sizeof deck - 1);
    add(broken, sizeof broken - 1);
    add(overrides, sizeof overrides - 1);
    struct deck defaults;
    deck_defaults(&defaults);
    char *effective = deck_print_effective(&defaults);
    add(effective, strlen(effective));
    free(effective);
}

static void check_printed(const struct deck *read)
{
    static struct deck again;
    char *text = deck_print_effective(read);
    FUZZ_CHECK(deck_read_text(&again, text, "printed", NULL, 0) == ERROR_NONE);
    FUZZ_CHECK(memcmp(read, &again, offsetof(struct deck, given)) == 0);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct deck read;
    char *text = memory_grow(NULL, (int64_t)size + 1), *words[MOST_OVERRIDES];
    int count = 0;
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *word = text + strlen(text); word < text + size && count < MOST_OVERRIDES; word += strlen(word))
        words[count++] = ++word;
    error_clear();
    int code = deck_read_text(&read, text, "deck", words, count);
    FUZZ_CHECK(code == ERROR_NONE || (code == ERROR_USER && error_message()[0] != '\0'));
    if (code == ERROR_NONE) {
        struct model_settings settings;
        fuzz_accepted++;
        check_printed(&read);
        code = model_settings_from_deck(&settings, &read, VOCABULARY);
        FUZZ_CHECK(code == ERROR_NONE || (code == ERROR_USER && error_message()[0] != '\0'));
        FUZZ_CHECK(code != ERROR_NONE || model_parameter_count(&settings) > 0);
    }
    free(text);
    return 0;
}
