/* Decks are found, parsed, checked, printed and compared at resume: overrides, @include (precedence, circles, bounds),
 * decks by name, `~` and variables in paths, lists of paths, integers that overflow, messages. doc/deck.md is compared
 * with the table of keys. */
#include "check.h"
#include "deck/table.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"

#include <locale.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/t_deck.XXXXXX";

/* Path of a file in the test's folder, valid until the next four calls. */
static const char *in_folder(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static int read_with(struct deck *deck, const char *text, int count, char *overrides[])
{
    error_clear();
    return deck_read_text(deck, text, "T", overrides, count);
}

static int read_plain(struct deck *deck, const char *text)
{
    return read_with(deck, text, 0, NULL);
}

/* Reading `text` must fail as the user's mistake with exactly this message. */
static void refuse(const char *text, const char *message)
{
    struct deck deck;
    CHECK(read_plain(&deck, text) == ERROR_USER);
    CHECK_STRING(error_message(), message);
    error_clear();
}

static void refuse_override(char *override, const char *message)
{
    struct deck deck;
    CHECK(read_with(&deck, "", 1, &override) == ERROR_USER);
    CHECK_STRING(error_message(), message);
    error_clear();
}

static void refuse_file(const char *name, const char *pattern)
{
    struct deck deck;
    error_clear();
    CHECK(deck_read(&deck, in_folder(name), NULL, 0, NULL) == ERROR_USER);
    char *message = memory_format("%s", error_message()), *wanted = memory_format("%s", pattern), *at;
    /* "~" in the pattern stands for the folder. */
    while ((at = strchr(wanted, '~')) != NULL) {
        char *longer = memory_format("%.*s%s%s", (int)(at - wanted), wanted, folder, at + 1);
        free(wanted);
        wanted = longer;
    }
    CHECK_STRING(message, wanted);
    free(message);
    free(wanted);
    error_clear();
}

static bool same_values(const struct deck *a, const struct deck *b)
{
    return memcmp(a, b, offsetof(struct deck, given)) == 0;
}

static void test_table(void)
{
    for (int i = 0; i < deck_table_rows; i++) {
        const struct deck_row *row = &deck_table[i];
        CHECK(row->doc != NULL && strlen(row->doc) > 10 && row->doc[strlen(row->doc) - 1] == '.');
        CHECK(strchr(row->doc, '|') == NULL); /* ends a cell of the Markdown table */
        CHECK(deck_find(row->key) == row);    /* no key twice */
        CHECK(strchr(row->key, '.') != NULL);
        bool number = row->type == DECK_TYPE_INT || row->type == DECK_TYPE_REAL;
        CHECK(!number || (row->number >= row->minimum && row->number <= row->maximum));
        CHECK((row->type == DECK_TYPE_STRING) == (row->string != NULL));
        CHECK((row->type == DECK_TYPE_CHOICE) == (row->choices != NULL));
        CHECK(row->restart > RESTART_UNSAID && row->restart < RESTARTS && deck_restarts[row->restart] != NULL);
    }
    CHECK(deck_is_section("model") && deck_is_section("model.rope_scaling") && !deck_is_section("mode"));
    struct deck deck;
    deck_defaults(&deck);
    CHECK(deck.train.steps == 1000 && deck.optimizer.lr == 1e-3 && deck.data.split && !deck.model.scaled_init);
    CHECK(deck.memory.recompute == DECK_RECOMPUTE_NORMS && deck.optimizer.decay == DECK_DECAY_MATRICES);
    CHECK_STRING(deck.train.resume, "auto");
    CHECK(!deck_given(&deck, "train.steps"));
}

static void test_read(void)
{
    struct deck deck;
    CHECK(read_plain(&deck, "") == ERROR_NONE);
    CHECK(read_plain(&deck,
                     "/* a\n deck */ model = { preset = \"x\" \"y\"; hidden : 128,\n"
                     "  rope_scaling : { factor = 8; original = 8192L; } }\n"
                     "optimizer : { lr = 3e-5; beta1 = 0; weight_decay = 1; }; // end\r\n"
                     "train = { steps = 3000000000L; seed = 0x10; }\n"
                     "data : { format = \"padded\"; train = \"a \\\"b\\\" # 9999999999\\\\\"; split = FALSE; }") ==
          ERROR_NONE);
    CHECK_STRING(error_message(), "");
    CHECK_STRING(deck.model.preset, "xy");
    CHECK(deck.model.hidden == 128 && deck.model.rope_scaling.factor == 8 && deck.model.rope_scaling.original == 8192);
    CHECK(deck.optimizer.lr == 3e-5 && deck.optimizer.beta1 == 0 && deck.optimizer.weight_decay == 1);
    CHECK(deck.train.steps == 3000000000 && deck.train.seed == 16);
    CHECK(deck.data.format == DECK_FORMAT_PADDED && !deck.data.split);
    CHECK_STRING(deck.data.train, "a \"b\" # 9999999999\\");
    CHECK(deck_given(&deck, "model.hidden") && deck_given(&deck, "model.rope_scaling.factor"));
    CHECK(!deck_given(&deck, "model.layers") && !deck_given(&deck, "model.rope_scaling.low"));
    /* Past 64 bits is no integer but a fine real. */
    CHECK(read_plain(&deck, "optimizer : { clip = 100000000000000000000; };") == ERROR_NONE);
    CHECK(deck.optimizer.clip == 1e20);
}

static void test_messages(void)
{
    refuse("optimizer : {\n  lrr = 1e-3;\n};",
           "T:2: key optimizer.lrr: unknown; the nearest known key is optimizer.lr");
    refuse("train : { lr = 1e-3; };", "T:1: key train.lr: unknown; the nearest known key is optimizer.lr");
    refuse("wramup = 5;", "T:1: key wramup: unknown; the nearest known key is schedule.warmup");
    refuse("\noptimiser : { lr = 1e-3; foo = 1; };",
           "T:2: key optimiser: unknown; the nearest known section is optimizer");
    refuse("rope_scaling : { factor = 8; };",
           "T:1: key rope_scaling: unknown; the nearest known section is model.rope_scaling");
    refuse("optimizer = 5;", "T:1: key optimizer: is a section of keys, not a key; set its keys one by one");
    refuse("train : { steps = -5; };", "T:1: key train.steps = -5: must be an integer from 1 to 1099511627776");
    refuse("train : { steps = 1.5; };", "T:1: key train.steps = 1.5: must be an integer from 1 to 1099511627776");
    refuse("train : { steps = 1e3; };", "T:1: key train.steps = 1000.0: must be an integer from 1 to 1099511627776");
    refuse("train : { steps = 99999999999999999999; };",
           "T:1: key train.steps = 1e+20: must be an integer from 1 to 1099511627776");
    refuse("train : { steps = [1, 2]; };",
           "T:1: key train.steps = [ ... ]: must be an integer from 1 to 1099511627776");
    refuse("train : { steps : { a = 1; }; };",
           "T:1: key train.steps = { ... }: must be an integer from 1 to 1099511627776");
    refuse("optimizer : { lr = \"1e-3\"; };", "T:1: key optimizer.lr = \"1e-3\": must be a number above 0");
    refuse("optimizer : { lr = 0; };", "T:1: key optimizer.lr = 0: must be a number above 0");
    refuse("optimizer : { lr = 1e999; };", "T:1: key optimizer.lr = inf: must be a number above 0");
    refuse("optimizer : { eps = 1e-50; };", "T:1: key optimizer.eps = 1e-50: must be a number of 1e-35 or more");
    refuse("optimizer : { beta1 = 1.0; };", "T:1: key optimizer.beta1 = 1.0: must be a number from 0 to below 1");
    refuse("schedule : { min_ratio = 1.01; };", "T:1: key schedule.min_ratio = 1.01: must be a number from 0 to 1");
    refuse("data : { format = \"thd\"; };", "T:1: key data.format = \"thd\": must be one of \"packed\", \"padded\"");
    refuse("model : { tied = true; };", "T:1: key model.tied = true: must be one of \"preset\", \"yes\", \"no\"");
    refuse("data : { split = 1; };", "T:1: key data.split = 1: must be true or false");
    refuse("data : { train = 1; };", "T:1: key data.train = 1: must be a string of at most 4095 bytes");

    /* Integers that libconfig would wrap. */
    refuse("train : {\n  steps = 3000000000;\n};",
           "T:2: key train.steps = 3000000000: an integer of more than 32 bits must end in L; write 3000000000L");
    refuse("train : { seed = 0xFFFFFFFF; };",
           "T:1: key train.seed = 0xFFFFFFFF: an integer of more than 32 bits must end in L; write 0xFFFFFFFFL");
    refuse("optimizer : { clip = 4294967297; };",
           "T:1: key optimizer.clip = 4294967297: an integer of more than 32 bits must end in L; write 4294967297L");
    refuse("train : { steps = -2147483649; };",
           "T:1: key train.steps = -2147483649: an integer of more than 32 bits must end in L; write -2147483649L\n"
           "T:1: key train.steps = -2147483649: must be an integer from 1 to 1099511627776");
    refuse("train : { seed = 0xFFFFFFFFFFFFFFFFL; };",
           "T:1: key train.seed = 1.8446744073709552e+19: must be an integer from 0 to 9007199254740992");

    /* Duplicates, with everything else that is wrong. */
    refuse("optimizer : { lr = 1e-3;\n lr = 2e-3; };\ntrain : { stepz = 1; };\noptimizer : { beta1 = 2; };\n"
           "train : { steps = 0; };",
           "T:2: key optimizer.lr: is set twice, first at T:1; keep one\n"
           "T:3: key train.stepz: unknown; the nearest known key is train.steps\n"
           "T:4: key optimizer: is set twice, first at T:1; keep one\n"
           "T:4: key optimizer.beta1 = 2: must be a number from 0 to below 1\n"
           "T:5: key train: is set twice, first at T:3; keep one\n"
           "T:5: key train.steps = 0: must be an integer from 1 to 1099511627776");
    refuse("train : { steps*1 = 5; };", "T:1: key train.steps*1: a key cannot contain *");
    refuse("l = ( { a = 1; }, { a = 2; } );", "T:1: key l: unknown key; cistron deck prints all");

    /* Syntax errors end the list, where they stand. */
    const char *advice = " here or just before; the form is optimizer : { lr = 1e-3; }; with strings in double quotes";
    char *message = memory_format("T:3: syntax error%s", advice);
    refuse("train : {\n steps = 5;\n seed = ;\n};\nfoo = 1;", message);
    refuse("\n\noptimizer.lr = 5;", message);
    free(message);
    refuse("train : {\n resume = \"never;\n};", "T:2: syntax error: this string does not end");
    refuse("\n/* x\n", "T:2: syntax error: this comment does not end");
    refuse("@include foo", "T:1: syntax error: write @include \"FILE\" on one line");
    refuse("\n@include \"/etc/passwd\"", "T:2: @include /etc/passwd: a deck that is not a file cannot include files");

    char *longer = memory_grow(NULL, DECK_STRING + 1);
    memset(longer, 'x', DECK_STRING);
    longer[DECK_STRING] = '\0';
    char *text = memory_format("data : { train = \"%s\"; };", longer);
    longer[79] = '\0';
    message = memory_format("T:1: key data.train = \"%s...: must be a string of at most 4095 bytes", longer);
    refuse(text, message);
    free(message);
    free(text);
    free(longer);
}

static void test_overrides(void)
{
    char *overrides[] = {"optimizer.lr=3e-5",        "train.steps=3000000000", "train.seed=0x10",
                         "data.train=a b=c.h5",      "data.valid=\"v\"",       "data.format=padded",
                         "data.split=False",         "output.folder=x",        "optimizer.clip=2",
                         "checkpoint.every=123456L", "train.global_batch=5",   "train.global_batch=7"};
    struct deck deck;
    int count = sizeof overrides / sizeof overrides[0];
    CHECK(read_with(&deck, "optimizer : { lr = 1.0; }; output : { folder = \"long name\"; };", count, overrides) ==
          ERROR_NONE);
    CHECK_STRING(error_message(), "");
    CHECK(deck.optimizer.lr == 3e-5 && deck.train.steps == 3000000000 && deck.train.seed == 16);
    CHECK_STRING(deck.data.train, "a b=c.h5");
    CHECK_STRING(deck.data.valid, "v");
    CHECK_STRING(deck.output.folder, "x");
    CHECK(deck.output.folder[3] == '\0'); /* nothing left of the longer value */
    CHECK(deck.data.format == DECK_FORMAT_PADDED && !deck.data.split && deck.optimizer.clip == 2);
    CHECK(deck.checkpoint.every == 123456 && deck.train.global_batch == 7);
    CHECK(deck_given(&deck, "train.seed"));

    refuse_override("optimizer.lrr=1",
                    "command line: key optimizer.lrr: unknown; the nearest known key is optimizer.lr");
    refuse_override("optimizer.lr", "command line: optimizer.lr: is not an override; write key=value");
    char longest[20000];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    char *wanted = memory_format("command line: %.80s...: is not an override; write key=value", longest);
    refuse_override(longest, wanted);
    free(wanted);
    longest[19000] = '=';
    wanted = memory_format("command line: key %.80s...: unknown key; cistron deck prints all", longest);
    refuse_override(longest, wanted);
    free(wanted);
    refuse_override("optimizer=1",
                    "command line: key optimizer: is a section of keys, not a key; set its keys one by one");
    refuse_override("optimizer.lr=1e-3x", "command line: key optimizer.lr = 1e-3x: must be a number above 0");
    refuse_override("optimizer.lr=nan", "command line: key optimizer.lr = nan: must be a number above 0");
    refuse_override("optimizer.lr=", "command line: key optimizer.lr = : must be a number above 0");
    refuse_override("train.steps=1.5",
                    "command line: key train.steps = 1.5: must be an integer from 1 to 1099511627776");
    refuse_override("train.steps=99999999999999999999",
                    "command line: key train.steps = 99999999999999999999: must be an integer from 1 to 1099511627776");
    refuse_override("output.folder=", "command line: key output.folder = : must be a string of 1 to 4095 bytes");
    refuse_override("foo.bar=1", "command line: key foo.bar: unknown key; cistron deck prints all");
    refuse_override("data.split=1", "command line: key data.split = 1: must be true or false");
    refuse_override("schedule.rule=lingua",
                    "command line: key schedule.rule = lingua: must be one of \"recipe\", \"megatron\", \"nemo\"");
    char *two[] = {"a.b=1", "train.steps=0"};
    CHECK(read_with(&deck, "foo = 1;", 2, two) == ERROR_USER);
    const char *message = error_message();
    CHECK(strncmp(message, "T:1: key foo", 12) == 0);
    CHECK(strstr(message, "\ncommand line: key a.b") != NULL);
    CHECK(strstr(message, "\ncommand line: key train.steps = 0") != NULL);
    error_clear();
}

/* What takes in too much ends at once: a chain that is too long, and one that branches eight-fold at each level. */
static void test_bounds(void)
{
    char name[40], text[400] = "";
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "chain%d.cfg", i);
        snprintf(text, sizeof text, "@include \"chain%d.cfg\"", i + 1);
        write_file(name, text);
    }
    refuse_file("chain0.cfg", "~/chain10.cfg:1: @include ~/chain11.cfg: files include each other too deep");
    for (int i = 0; i < 9; i++) {
        snprintf(name, sizeof name, "fan%d.cfg", i);
        text[0] = '\0';
        for (int k = 0; k < 8 && i < 8; k++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "@include \"fan%d.cfg\"\n", i + 1);
        write_file(name, text);
    }
    refuse_file("fan0.cfg", "~/fan7.cfg:2: @include ~/fan8.cfg: too many files are included in all");
    write_file("half.cfg", "");
    FILE *file = fopen(in_folder("half.cfg"), "w");
    for (int i = 0; i < 60000; i++)
        fputs("# a deck\n", file);
    fclose(file);
    write_file("two.cfg", "@include \"half.cfg\"\n@include \"half.cfg\"\n");
    refuse_file(
        "two.cfg",
        "~/two.cfg:2: @include ~/half.cfg: it is larger than 1 MiB with its included files, too large for a deck");
}

/* What follows an @include wins over it, key by key, and is named; anything else that stands twice is a mistake. */
static void test_overriding(void)
{
    struct deck deck;
    char *notes;
    write_file("base.cfg",
               "train : { steps = 5; seed = 1; };\nmodel = { layers = 2; rope_scaling = { factor = 8; }; };");
    write_file("other.cfg", "@include \"base.cfg\"\ntrain : { seed = 2; };\n");
    write_file("mine.cfg", "@include \"other.cfg\"\nlog : { every = 7; };\ntrain : { steps = 6; };\n"
                           "model : { rope_scaling : { factor = 4; }; };\n@include \"last.cfg\"");
    write_file("last.cfg", "optimizer : { clip = 2; };");
    CHECK(deck_read(&deck, in_folder("mine.cfg"), NULL, 0, &notes) == ERROR_NONE);
    CHECK(deck.train.steps == 6 && deck.train.seed == 2 && deck.model.layers == 2 && deck.log.every == 7);
    CHECK(deck.model.rope_scaling.factor == 4 && deck.optimizer.clip == 2);
    char *wanted = memory_format("key train.seed: %s/other.cfg:2 overrides %s/base.cfg:1\n"
                                 "key train.steps: %s/mine.cfg:3 overrides %s/base.cfg:1\n"
                                 "key model.rope_scaling.factor: %s/mine.cfg:4 overrides %s/base.cfg:2\n",
                                 folder, folder, folder, folder, folder, folder);
    CHECK_STRING(notes, wanted);
    free(wanted);
    free(notes);

    write_file("last.cfg", "train : { steps = 9; };"); /* behind the file's own: unknown which is meant */
    refuse_file("mine.cfg", "~/last.cfg:1: key train: is set twice, first at ~/mine.cfg:3; keep one\n"
                            "~/last.cfg:1: key train.steps: is set twice, first at ~/mine.cfg:3; keep one");
    write_file("last.cfg", "");
    write_file("base.cfg", "train : { steps = 0; };\ntrain : { steps = 3; };"); /* a mistake stays one */
    refuse_file("mine.cfg", "~/base.cfg:1: key train.steps = 0: must be an integer from 1 to 1099511627776\n"
                            "~/base.cfg:2: key train: is set twice, first at ~/base.cfg:1; keep one\n"
                            "~/base.cfg:2: key train.steps: is set twice, first at ~/base.cfg:1; keep one");
}

/* A key that was renamed is read by its old name from files, overrides and checkpoints, with a note that has the new
 * name; a deck is written with new names. */
static void test_old_names(void)
{
    struct deck deck;
    char *notes, *overrides[] = {"data.parts=9,1"};
    write_file("old.cfg", "parallel : {\n virtual = 3;\n stages = \"ends\"; };\nschedule : { unit = \"samples\"; };");
    CHECK(deck_read(&deck, in_folder("old.cfg"), overrides, 1, &notes) == ERROR_NONE);
    CHECK(deck.parallel.virtual_stages == 3 && deck.parallel.pipeline_balance == DECK_STAGES_ENDS);
    CHECK_STRING(deck.data.split_ratios, "9,1");
    CHECK(deck_given(&deck, "data.split_ratios") && deck.schedule.unit == DECK_COUNT_SAMPLES);
    static const char *const names[][2] = {{"parallel.virtual", "parallel.virtual_stages"},
                                           {"parallel.stages", "parallel.pipeline_balance"},
                                           {"data.parts", "data.split_ratios"}};
    char *wanted = memory_string("");
    for (int i = 0; i < 3; i++) {
        char *longer = memory_format("%skey %s: is now named %s; the old name will be refused from release 0.4 on\n",
                                     wanted, names[i][0], names[i][1]);
        free(wanted);
        wanted = longer;
    }
    CHECK_STRING(notes, wanted);
    char *text = deck_print_effective(&deck);
    CHECK(strstr(text, "virtual_stages = 3;") != NULL && strstr(text, " virtual = ") == NULL);
    free(text);
    free(wanted);
    free(notes);
    for (int i = 0; i < deck_table_rows; i++) /* an old name is not another key's */
        CHECK(deck_table[i].was == NULL || deck_find(deck_table[i].was) == &deck_table[i]);
    CHECK(deck_read_text(&deck, "schedule : { count = \"samples\"; };", "a checkpoint", NULL, 0) == ERROR_NONE);
    CHECK(deck.schedule.unit == DECK_COUNT_SAMPLES);
    refuse("parallel : {\n virtual = 0; };", "T:2: key parallel.virtual_stages = 0: must be an integer from 1 to 32");
}

/* Names of other programs stand for keys that are there; blanks around an override's '=' do not count. */
static void test_other_names(void)
{
    struct deck deck;
    for (const struct deck_other_name *other = deck_other_names; other->name != NULL; other++) {
        CHECK(deck_find(other->key) != NULL);
        CHECK_STRING(deck_find_other(other->name), other->key);
    }
    CHECK_STRING(deck_find_other("train.Batch-Size"), "train.global_batch");
    CHECK(deck_find_other("batch") == NULL && deck_find_other("batch_size_") == NULL);
    refuse("model : {\n hidden_size = 3; };", "T:2: key model.hidden_size: unknown; its name here is model.hidden");
    char *spaced[] = {" train.steps = 7 ", "output.folder= a b", "log.every =3", "checkpoint.at_end = TRUE"};
    CHECK(deck_read_text(&deck, "", "T", spaced, 4) == ERROR_NONE && deck.train.steps == 7 && deck.log.every == 3);
    CHECK_STRING(deck.output.folder, "a b");
    static const char *const pieces[][3] = {
        {"train.steps", "=", "7"}, {"train.steps=", "7", "log.every=3"}, {"train.steps", "=7", "log.every=3"}};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        CHECK(deck_read_text(&deck, "", "T", (char *const *)pieces[i], 3) == ERROR_USER);
        CHECK(strstr(error_message(), "an override is one argument; write train.steps=7 without") != NULL);
        CHECK(strchr(error_message(), '\n') == NULL);
        error_clear();
    }
    char *empty[] = {"data.valid=", "train.steps=7"};
    CHECK(deck_read_text(&deck, "", "T", empty, 2) == ERROR_NONE && deck.train.steps == 7);
}

/* A list of paths as a list or as one string, where a backslash stands before a comma that is part of a path. */
static void test_path_lists(void)
{
    struct deck deck;
    static const char text[] = "data : { train = (\"a,b.h5\", \"~/c.h5\", \"d e.h5\"); };";
    char *overrides[] = {"data.train=a\\,b.h5,c.h5"};
    char *wanted = memory_format("a\\,b.h5,%s/c.h5,d e.h5", folder);
    setenv("HOME", folder, 1);
    CHECK(deck_read_text(&deck, text, "T", NULL, 0) == ERROR_NONE);
    CHECK_STRING(deck.data.train, wanted);
    char *effective = deck_print_effective(&deck);
    CHECK(deck_read_text(&deck, effective, "T", NULL, 0) == ERROR_NONE);
    CHECK_STRING(deck.data.train, wanted);
    CHECK(deck_read_text(&deck, text, "T", overrides, 1) == ERROR_NONE);
    CHECK_STRING(deck.data.train, "a\\,b.h5,c.h5");
    CHECK(deck_read_text(&deck, "data : { train = [ \"a\", \"b\" ]; };", "T", NULL, 0) == ERROR_NONE);
    CHECK_STRING(deck.data.train, "a,b");
    CHECK(deck_read_text(&deck, "data : { train = (); };", "T", NULL, 0) == ERROR_NONE);
    CHECK_STRING(deck.data.train, "");
    refuse("data : { train = (\"a\", 1); };", "T:1: key data.train = ( ... ): must be a string of at most 4095 bytes");
    refuse("data : { valid = (\"a\"); };", "T:1: key data.valid = ( ... ): must be a string of at most 4095 bytes");
    free(effective);
    free(wanted);
}

/* "~" is the home folder in keys that name files, and nowhere else; shipped decks are found by name. */
static void test_home(void)
{
    struct deck deck;
    char *notes, *overrides[] = {"output.folder=~/run", "data.train=~/a.h5, ~/b.h5,c~", "data.valid=~other/v.h5",
                                 "profile.ranks=~"};
    setenv("HOME", folder, 1);
    write_file("homely.cfg", "@include \"~/log.cfg\"");
    write_file("log.cfg", "log : { every = 4; };");
    CHECK(deck_read(&deck, "~/homely.cfg", overrides, 4, &notes) == ERROR_NONE);
    CHECK_STRING(deck.output.folder, in_folder("run"));
    char *wanted = memory_format("%s/a.h5, %s/b.h5,c~", folder, folder);
    CHECK_STRING(deck.data.train, wanted);
    free(wanted);
    CHECK_STRING(deck.data.valid, "~other/v.h5");
    CHECK_STRING(deck.profile.ranks, "~");
    CHECK(deck.log.every == 4);
    free(notes);

    /* here first, then among those of the sources; @include looks there too */
    char *before = getcwd(NULL, 0);
    CHECK(before != NULL && chdir(folder) == 0);
    CHECK(deck_read(&deck, "quickstart", NULL, 0, &notes) == ERROR_NONE && deck.train.steps == 1800);
    CHECK(strstr(notes, "deck quickstart is /") == notes && strstr(notes, "/input/quickstart.cfg\n") != NULL);
    free(notes);
    write_file("quickstart.cfg", "@include \"llama3_lingua_1b.cfg\"\ntrain : { steps = 7; };");
    CHECK(deck_read(&deck, "quickstart", NULL, 0, &notes) == ERROR_NONE && deck.train.steps == 7);
    CHECK(strcmp(deck.model.preset, "lingua_1b") == 0);
    CHECK(strstr(notes, "deck quickstart is quickstart.cfg\nkey train.steps: quickstart.cfg:2 overrides /") == notes);
    free(notes);
    CHECK(chdir(before) == 0);
    free(before);

    /* without $HOME the system's, and no folder "~" */
    const struct passwd *user = getpwuid(getuid());
    unsetenv("HOME");
    CHECK(deck_read(&deck, "quickstart", (char *[]){"output.folder=~/run"}, 1, &notes) == ERROR_NONE);
    wanted = memory_format("%s/run", user != NULL ? user->pw_dir : "~");
    CHECK_STRING(deck.output.folder, wanted);
    free(wanted);
    free(notes);
}

/* Variables of the environment in keys that name files, and nowhere else. */
static void test_variables(void)
{
    struct deck deck, again;
    char *notes, *overrides[] = {"output.folder=${T_DECK}run/$T_DECK_2.$", "data.train=$T_DECK/a.h5, $$T_DECK_3/b.h5",
                                 "data.valid=${T_DECK_3}x$1${", "profile.ranks=$T_DECK"};
    setenv("T_DECK", "/else where/$HOME", 1);
    setenv("T_DECK_2", "", 1);
    unsetenv("T_DECK_3");
    write_file("variables.cfg", "log : { prometheus = \"$T_DECK/x.prom\"; };");
    CHECK(deck_read(&deck, in_folder("variables.cfg"), overrides, 2, &notes) == ERROR_NONE);
    CHECK_STRING(deck.log.prometheus, "/else where/$HOME/x.prom");
    CHECK_STRING(deck.output.folder, "/else where/$HOMErun/.$");
    CHECK_STRING(deck.data.train, "/else where/$HOME/a.h5, $T_DECK_3/b.h5");
    free(notes);

    /* what is printed says the same, wherever it is read */
    char *text = deck_print_effective(&deck);
    setenv("T_DECK", "changed", 1);
    CHECK(deck_read_text(&again, text, "checkpoint", NULL, 0) == ERROR_NONE);
    CHECK_STRING(again.output.folder, deck.output.folder);
    CHECK_STRING(again.data.train, deck.data.train);
    free(text);

    /* an old checkpoint may name a file with a dollar in its name */
    CHECK(deck_read_text(&again, "data : { valid = \"a$T_DECK_3\"; };", "checkpoint", NULL, 0) == ERROR_NONE);
    CHECK_STRING(again.data.valid, "a$T_DECK_3");

    CHECK(deck_read(&deck, in_folder("variables.cfg"), overrides, 4, &notes) == ERROR_USER);
    CHECK_STRING(error_message(), "command line: key data.valid = ${T_DECK_3}x$1${: the environment has no variable "
                                  "T_DECK_3 ($$ stands for a $)");
    error_clear();
    free(notes);
    write_file("variables.cfg", "log : { every = 4;\n prometheus = \"$T_DECK_3/x.prom\"; };");
    refuse_file("variables.cfg", "~/variables.cfg:2: key log.prometheus = \"$T_DECK_3/x.prom\": the environment has no "
                                 "variable T_DECK_3 ($$ stands for a $)");
}

static void test_files(void)
{
    struct deck deck;
    mkdir(in_folder("sub"), 0777);
    mkdir(in_folder("sub/deep"), 0777);
    write_file("main.cfg", "train : {\n@include \"sub/one.cfg\"\n  seed = 7; };\nlog : { every = 3; };\n");
    write_file("sub/one.cfg", "  steps = 5;\n  @include \"deep/two.cfg\" global_batch = 9;");
    write_file("sub/deep/two.cfg", "# \xc3\xa9\n  micro_batch = 2;");
    CHECK(deck_read(&deck, in_folder("main.cfg"), NULL, 0, NULL) == ERROR_NONE);
    CHECK_STRING(error_message(), "");
    CHECK(deck.train.steps == 5 && deck.train.micro_batch == 2 && deck.train.global_batch == 9);
    CHECK(deck.train.seed == 7 && deck.log.every == 3);

    char *absolute = memory_format("log : {\n@include \"%s/log.cfg\"\n};", folder);
    write_file("log.cfg", "every = 4;");
    write_file("sub/absolute.cfg", absolute);
    CHECK(deck_read(&deck, in_folder("sub/absolute.cfg"), NULL, 0, NULL) == ERROR_NONE && deck.log.every == 4);
    free(absolute);

    /* Faults inside and behind an include carry the right file and line. */
    write_file("sub/deep/two.cfg", "\n\n  micro_batch = 3000000000;\n  seed = 8;\n");
    write_file("main.cfg", "train : {\n@include \"sub/one.cfg\"\n  seed = 7; };\nlogg : { every = 3; };\n");
    refuse_file("main.cfg",
                "~/sub/deep/two.cfg:3: key train.micro_batch = 3000000000: an integer of more than 32 bits must end in "
                "L; write "
                "3000000000L\n"
                "~/sub/deep/two.cfg:3: key train.micro_batch = 3000000000: must be an integer from 1 to 2147483647\n"
                "~/main.cfg:4: key logg: unknown; the nearest known section is log");
    write_file("sub/deep/two.cfg", "\n  micro_batch = = 3;\n");
    refuse_file("main.cfg", "~/sub/deep/two.cfg:2: syntax error here or just before; the form is optimizer : { lr = "
                            "1e-3; }; with strings in double quotes");
    unlink(in_folder("sub/deep/two.cfg"));
    refuse_file("main.cfg", "~/sub/one.cfg:2: @include ~/sub/deep/two.cfg: No such file or directory");
    write_file("circle.cfg", "@include \"circle.cfg\"\n");
    refuse_file("circle.cfg", "~/circle.cfg:1: @include ~/circle.cfg: circular @include: ~/circle.cfg, ~/circle.cfg");
    write_file("sub/back.cfg", "@include \"../sub/back2.cfg\"");
    write_file("sub/back2.cfg", "\n@include \"back.cfg\"");
    refuse_file("sub/back.cfg", "~/sub/../sub/back2.cfg:2: @include ~/sub/../sub/back.cfg: circular @include: "
                                "~/sub/back.cfg, ~/sub/../sub/back2.cfg, ~/sub/../sub/back.cfg");

    refuse_file("none.cfg", "deck ~/none.cfg: No such file or directory");
    refuse_file("sub", "deck ~/sub: it is a folder, not a deck");
    FILE *file = fopen(in_folder("binary"), "w");
    fwrite("\211HDF\r\n\032\n\0\0", 1, 10, file);
    fclose(file);
    refuse_file("binary", "deck ~/binary: it is a binary file, not a deck");
    file = fopen(in_folder("large"), "w");
    for (int i = 0; i < 1 << 17; i++)
        fputs("# a deck\n", file);
    fclose(file);
    refuse_file("large", "deck ~/large: it is larger than 1 MiB with its included files, too large for a deck");
    test_bounds();
    test_overriding();
    test_home();
    test_path_lists();
    test_old_names();
    test_other_names();
    test_variables();
    char *remove = memory_format("rm -r %s", folder);
    CHECK(system(remove) == 0);
    free(remove);
}

static void set_random(struct deck *deck, const struct deck_row *row, const struct random_key *key, uint64_t index)
{
    uint64_t bits = random_bits(key, index);
    double part = random_uniform(key, index + 1);
    char text[DECK_STRING];
    struct deck_value value = {.kind = DECK_VALUE_BOOL, .truth = bits & 1};
    if (row->type == DECK_TYPE_INT) {
        value.kind = DECK_VALUE_INTEGER;
        double span = row->maximum - row->minimum;
        value.integer = (long long)(row->minimum + (bits & 1 ? span * part : span * part * part * part * part));
    } else if (row->type == DECK_TYPE_REAL) {
        value.kind = DECK_VALUE_REAL;
        value.real =
            isinf(row->maximum) ? exp(1400 * (part - 0.5)) : row->minimum + part * (row->maximum - row->minimum);
        if (bits % 8 == 0)
            value.real = floor(value.real); /* whole reals, past 2^31 too */
    } else if (row->type == DECK_TYPE_CHOICE) {
        int choices = 0;
        while (row->choices[choices] != NULL)
            choices++;
        value = (struct deck_value){.kind = DECK_VALUE_STRING, .string = row->choices[bits % (uint64_t)choices]};
    } else if (row->type == DECK_TYPE_STRING) {
        int length = bits % 8 == 0 ? DECK_STRING - 1 : (int)(bits % 20);
        for (int i = 0; i < length; i++)
            text[i] = (char)(1 + random_bits(key, index + 2 + (uint64_t)i) % 255);
        text[length] = '\0';
        value = (struct deck_value){.kind = DECK_VALUE_STRING, .string = text};
    }
    deck_set(deck, row, &value); /* a value out of range (0 where it is excluded) leaves the default */
}

static void test_print(void)
{
    struct deck defaults, deck;
    deck_defaults(&defaults);

    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    deck_print_reference(file);
    fclose(file);
    CHECK(read_plain(&deck, text) == ERROR_NONE);
    CHECK_STRING(error_message(), "");
    CHECK(same_values(&deck, &defaults));
    locale_t previous = deck_locale_enter();
    for (int i = 0; i < deck_table_rows; i++) {
        CHECK(deck.given[i]);
        /* On a line of its own, uncommented. */
        char *value = deck_row_value(&deck_table[i], &defaults);
        char *line = memory_format(" %s = %s;\n", strrchr(deck_table[i].key, '.') + 1, value);
        CHECK(strstr(text, line) != NULL);
        free(line);
        free(value);
    }
    deck_locale_leave(previous);
    free(text);

    text = deck_print_effective(&defaults);
    CHECK(read_plain(&deck, text) == ERROR_NONE && same_values(&deck, &defaults));
    free(text);
    for (uint64_t round = 0; round < 300; round++) {
        struct deck random;
        deck_defaults(&random);
        for (int i = 0; i < deck_table_rows; i++) {
            struct random_key key = {.seed = 1, .purpose = RANDOM_TEST, .stream = round};
            set_random(&random, &deck_table[i], &key, (uint64_t)i * 2048);
        }
        text = deck_print_effective(&random);
        CHECK(read_plain(&deck, text) == ERROR_NONE);
        CHECK_STRING(error_message(), "");
        CHECK(same_values(&deck, &random));
        free(text);
    }
}

static void test_markdown(void)
{
    const char *source = getenv("abs_top_srcdir");
    char *path = memory_format("%s/doc/deck.md", source != NULL ? source : "."), *wanted = NULL;
    size_t bytes;
    FILE *file = open_memstream(&wanted, &bytes);
    deck_print_markdown(file);
    fclose(file);
    char *found = memory_allocate((int64_t)bytes + 2);
    file = fopen(path, "r");
    CHECK(file != NULL);
    if (file != NULL) {
        found[fread(found, 1, bytes + 1, file)] = '\0';
        fclose(file);
    }
    if (!CHECK(strcmp(found, wanted) == 0)) /* the fix: t_deck --markdown > doc/deck.md */
        fprintf(stderr, "    %s is not what the table says; print it again with t_deck --markdown\n", path);
    memory_free(found);
    free(wanted);
    free(path);
}

static void test_compare(void)
{
    struct deck old, new_;
    char *differences,
        *overrides[] = {"model.hidden=256", "train.steps=9", "optimizer.lr=1", "train.seed=1", "data.window=0"};
    CHECK(read_plain(&old, "model : { hidden = 128; };") == ERROR_NONE);
    CHECK(read_with(&new_, "", 2, overrides + 1) == ERROR_NONE);
    new_.model.hidden = 128; /* the same value given another way is no difference */
    CHECK(deck_compare_for_resume(&old, &new_, &differences) == 0 && differences == NULL);
    CHECK(read_with(&new_, "", 5, overrides) == ERROR_NONE);
    CHECK(deck_compare_for_resume(&old, &new_, &differences) == 2);
    CHECK_STRING(differences, "key model.hidden: 128 in the checkpoint, 256 now "
                              "(the checkpoint's tensors are made for it)\n"
                              "key train.seed: 42 in the checkpoint, 1 now "
                              "(the position in the data would be another one)");
    free(differences);
}

/* Another value of any type. */
static void change(struct deck *deck, const struct deck_row *row)
{
    void *field = (char *)deck + row->offset;
    if (row->type == DECK_TYPE_BOOL)
        *(bool *)field = !*(bool *)field;
    else if (row->type == DECK_TYPE_CHOICE)
        *(int *)field = *(int *)field == 0;
    else if (row->type == DECK_TYPE_STRING)
        strcat(field, "x");
    else if (row->type == DECK_TYPE_INT)
        *(int64_t *)field += 1;
    else
        *(double *)field += 1;
}

/* Every key: a change of it alone is found, and refused, told or allowed as the table says; the page has it once. */
static void test_restarts(void)
{
    char *page = NULL, *differences;
    size_t bytes;
    FILE *file = open_memstream(&page, &bytes);
    deck_print_markdown(file);
    fclose(file);
    const char *list = strstr(page, "## At a restart");
    CHECK(list != NULL);
    for (int i = 0; i < deck_table_rows && list != NULL; i++) {
        const struct deck_row *row = &deck_table[i];
        struct deck old, new_;
        deck_defaults(&old);
        new_ = old;
        change(&new_, row);
        struct deck_changes changes = deck_compare(&old, &new_);
        CHECK(changes.count == 1 && strcmp(changes.changes[0].key, row->key) == 0);
        const bool refused = deck_compare_for_resume(&old, &new_, &differences) == 1;
        CHECK(refused == (row->restart != RESTART_FREE && row->restart != RESTART_LOGGED));
        CHECK(changes.changes[0].logged == (row->restart == RESTART_LOGGED));
        CHECK(!refused ||
              (strstr(differences, row->key) != NULL && strstr(differences, deck_restarts[row->restart]) != NULL));
        char *name = memory_format(" `%s` ", row->key);
        const char *at = strstr(list, name);
        CHECK(at != NULL && strstr(at + 1, name) == NULL);
        free(name);
        free(differences);
        deck_changes_destroy(&changes);
    }
    free(page);
}

int main(int count, char *arguments[])
{
    if (count == 2 && strcmp(arguments[1], "--markdown") == 0) {
        deck_print_markdown(stdout);
        return 0;
    }
    if (count > 1)
        check_unknown_argument(arguments[count - 1], "--markdown");
    if (mkdtemp(folder) == NULL)
        return 1;
    /* Where the system has it, a locale with a decimal comma for all that follows. */
    if (setlocale(LC_ALL, "de_DE.UTF-8") != NULL)
        printf("with a decimal comma\n");
    test_table();
    test_read();
    test_messages();
    test_overrides();
    test_files();
    test_print();
    test_markdown();
    test_compare();
    test_restarts();
    return check_end();
}
