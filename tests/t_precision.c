/* The keys of section `precision` decide the format, scaling and layers of each linear layer: precedence, lists,
 * messages, the recipes' decks, log and plan. Injected faults (e5m2 for all operands, fast sums of blocks, wrong powers
 * of two, a transform for a wide product, an ignored list) are noticed. */
#include "check.h"
#include "deck/fields.h"

#include "base/error.h"
#include "setup/precision_text.h"
#include "setup/precision.h"

#include <stdlib.h>
#include <unistd.h>

static struct deck deck_with(const char *settings)
{
    struct deck deck;
    char text[1024];
    snprintf(text, sizeof text, "precision = { %s };", settings);
    CHECK(deck_read_text(&deck, text, "T", NULL, 0) == ERROR_NONE);
    CHECK_STRING(error_message(), "");
    return deck;
}

static struct precision made(const char *settings, int64_t layers)
{
    struct deck deck = deck_with(settings);
    struct precision precision;
    CHECK(precision_from_deck(&precision, &deck, layers) == ERROR_NONE);
    CHECK_STRING(error_message(), "");
    error_clear();
    return precision;
}

/* Each layer's format: '8', '4' or '.'. */
static void claims(const char *settings, const char *expected)
{
    struct precision precision = made(settings, (int64_t)strlen(expected));
    char got[64] = "";
    for (size_t layer = 0; layer < strlen(expected); layer++) {
        const struct linear_precision *linear = precision_of(&precision, (int)layer, LINEAR_UP);
        got[layer] = linear == &precision.kinds[PRECISION_EIGHT]  ? '8'
                     : linear == &precision.kinds[PRECISION_FOUR] ? '4'
                                                                  : '.';
        CHECK(linear->quantized == (got[layer] != '.'));
    }
    CHECK_STRING(got, expected);
    CHECK(precision_quantizes(&precision) == (strpbrk(expected, "84") != NULL));
}

static void refuse(const char *settings, const char *message)
{
    struct deck deck = deck_with(settings);
    struct precision precision;
    CHECK(precision_from_deck(&precision, &deck, 6) == ERROR_USER);
    CHECK_STRING(error_message(), message);
    error_clear();
}

/* The cases of the ESM-2 recipe's resolver, and what is this program's own. That both formats are on without a list
 * cannot be said here. */
static void test_claims(void)
{
    claims("", "......");
    claims("recipe = \"current\";", "888888");
    claims("recipe = \"nvfp4\";", "444444");
    claims("recipe = \"block\"; fp8_layers = \"1,3-4\";", "8.88..");
    claims("recipe = \"nvfp4\"; fp4_layers = \"2, 5 - 6\";", ".4..44");
    claims("recipe = \"mxfp8\"; fp8_layers = \"1,3,4\"; fp4_layers = \"2,5\";", "84884.");
    claims("recipe = \"nvfp4\"; fp8_layers = \"1,3,4\"; fp4_layers = \"2,5\";", "84884.");
    claims("recipe = \"nvfp4\"; fp8_layers = \"1-3\";", "888444");
    claims("recipe = \"mxfp8\"; fp4_layers = \"4-6\";", "888444");
    claims("recipe = \"none\"; fp8_layers = \"1-3\";", "......");
    claims("recipe = \"none\"; fp8_layers = \"1-7\"; fp4_layers = \"2\";", ".4....");
    claims("recipe = \"none\"; fp4_layers = \"\";", "......");
    claims("recipe = \"delayed\"; fp8_layers = \"\";", "......");
    claims("recipe = \"delayed\"; fp8_layers = \" \"; fp4_layers = \" \";", "......");
    claims("recipe = \"nvfp4\"; fp8_layers = \"\";", "444444");
    claims("recipe = \"nvfp4\"; fp4_layers = \"\"; fp8_layers = \"2\";", ".8....");
    claims("recipe = \"current\";", "8");
    claims("recipe = \"current\";", "888888888888888888888888888888888888");
    claims("recipe = \"mxfp8\"; fp4_layers = \"13-36\";", "888888888888444444444444444444444444");
    claims("recipe = \"block\"; first_layers_bf16 = 1; last_layers_bf16 = 2;", ".888..");
    claims("recipe = \"mxfp8\"; fp4_layers = \"1-3\"; first_layers_bf16 = 2; last_layers_bf16 = 1;", "..488.");
    claims("recipe = \"block\"; first_layers_bf16 = 4; last_layers_bf16 = 4;", "......");
    claims("recipe = \"block\"; first_layers_bf16 = 9;", "......");
}

static void test_refusals(void)
{
    refuse("recipe = \"mxfp8\"; fp8_layers = \"1-3\"; fp4_layers = \"5,3\";",
           "key precision.fp4_layers = \"5,3\": layer 3 is in precision.fp8_layers too; a layer has one format");
    refuse("recipe = \"block\"; fp8_layers = \"2-7\";",
           "key precision.fp8_layers = \"2-7\": layers are 1 to 6, by model.layers");
    refuse("recipe = \"nvfp4\"; fp4_layers = \"0\";",
           "key precision.fp4_layers = \"0\": layers are 1 to 6, by model.layers");
    refuse("recipe = \"block\"; fp8_layers = \"99999999999999999999\";",
           "key precision.fp8_layers = \"99999999999999999999\": layers are 1 to 6, by model.layers");
    static const char *const unreadable[] = {"x", "1,", ",", "4-2", "1-", "-2", "1;2", "1 2", "1-2-3", "Auto", "2, "};
    for (size_t i = 0; i < sizeof unreadable / sizeof unreadable[0]; i++) {
        char settings[128], message[256];
        snprintf(settings, sizeof settings, "recipe = \"block\"; fp8_layers = \"%s\";", unreadable[i]);
        snprintf(
            message, sizeof message,
            "key precision.fp8_layers = \"%s\": must be layers and ranges of layers, counted from 1 and separated by "
            "commas, such as \"2-5,9\"; \"\" for none; or \"auto\"",
            unreadable[i]);
        refuse(settings, message);
    }
    static const char *const linears[] = {"", "qkv,", "gate", "q", "qkvo", "qkv up", "qkv,,up"};
    for (size_t i = 0; i < sizeof linears / sizeof linears[0]; i++) {
        char settings[128], message[256];
        snprintf(settings, sizeof settings, "recipe = \"row\"; linears = \"%s\";", linears[i]);
        snprintf(message, sizeof message,
                 "key precision.linears = \"%s\": must be one or more of qkv, o, up, down, separated by commas; with "
                 "precision.recipe = \"none\" nothing is quantized",
                 linears[i]);
        refuse(settings, message);
    }
    refuse("recipe = \"none\"; }; statistics = { every = 5;",
           "key statistics.every = 5: nothing is quantized, so there is nothing to measure; set precision.recipe, or "
           "statistics.every = 0");
    refuse("recipe = \"block\"; first_layers_bf16 = 2; }; statistics = { every = 1; layers = \"1-2\";",
           "key statistics.layers = \"1-2\": none of these layers is quantized");
    refuse("recipe = \"block\"; }; statistics = { every = 1; layers = \"auto\";",
           "key statistics.layers = \"auto\": must be layers and ranges of layers, counted from 1 and separated by "
           "commas, such "
           "as \"2-5,9\"; \"\" for all");
    refuse("recipe = \"block\"; }; statistics = { every = 1; layers = \"7\";",
           "key statistics.layers = \"7\": layers are 1 to 6, by model.layers");
    /* Every other of 66 layers is one range too many. */
    char list[256] = "1";
    for (int layer = 3; layer <= 65; layer += 2)
        snprintf(list + strlen(list), sizeof list - strlen(list), ",%d", layer);
    char settings[512];
    snprintf(settings, sizeof settings, "recipe = \"block\"; fp8_layers = \"%s\";", list);
    struct deck deck = deck_with(settings);
    struct precision precision;
    CHECK(precision_from_deck(&precision, &deck, 66) == ERROR_USER);
    CHECK(strstr(error_message(), "more than 32 ranges") != NULL);
    error_clear();
    list[strrchr(list, ',') - list] = '\0';
    snprintf(settings, sizeof settings, "recipe = \"block\"; fp8_layers = \"%s\";", list);
    precision = made(settings, 66);
    CHECK(precision.eight.count == LAYER_RANGES);
}

/* Which of 6 layers are measured, and the head behind them. */
static void measured(const char *settings, const char *expected)
{
    struct precision precision = made(settings, 6);
    char got[8] = "";
    for (int layer = 0; layer <= 6; layer++)
        got[layer] = layer_list_has(&precision.statistics, layer) ? 'm' : '.';
    CHECK_STRING(got, expected);
}

static void test_measured(void)
{
    measured("recipe = \"block\";", ".......");
    measured("recipe = \"none\"; }; statistics = { every = 0; layers = \"9\";", "......."); /* off: not looked at */
    measured("recipe = \"block\"; }; statistics = { every = 7;", "mmmmmm.");
    measured("recipe = \"block\"; head = true; last_layers_bf16 = 2; }; statistics = { every = 1; layers = \" \";",
             "mmmm..m");
    measured("recipe = \"mxfp8\"; fp4_layers = \"2\"; }; statistics = { every = 1; layers = \"2-3,6\";", ".mm..m.");
    measured("recipe = \"row\"; fp8_layers = \"3-4\"; }; statistics = { every = 1; layers = \"1-3\";", "..m....");
}

/* Scalings and formats of input, weight and gradient. */
struct expectation {
    const char *settings;
    enum precision_kind kind;
    enum scaling scalings[OPERAND_COUNT];
    enum number_format format, gradient;
    bool power_of_two, delayed, fast, wide;
};

static void check_rules(const struct expectation *e)
{
    struct precision precision = made(e->settings, 6);
    const struct linear_precision *linear = &precision.kinds[e->kind];
    bool same = linear->quantized && linear->delayed == e->delayed && linear->fast == e->fast &&
                linear->wide_weight_gemm == e->wide && precision_delays(&precision) == e->delayed;
    for (int operand = 0; operand < OPERAND_COUNT; operand++) {
        const struct quantization *rule = &linear->rules[operand];
        same = same && rule->scaling == e->scalings[operand] && rule->power_of_two == e->power_of_two;
        same = same && rule->format == (operand == OPERAND_GRADIENT ? e->gradient : e->format);
        same = same && (e->kind == PRECISION_FOUR || !(rule->stochastic || rule->hadamard));
    }
    if (!CHECK(same))
        fprintf(stderr, "    %s\n", e->settings);
}

#define TENSORS                                                                                                        \
    {                                                                                                                  \
        SCALING_TENSOR, SCALING_TENSOR, SCALING_TENSOR                                                                 \
    }
#define ROWS                                                                                                           \
    {                                                                                                                  \
        SCALING_ROW, SCALING_ROW, SCALING_ROW                                                                          \
    }
#define BLOCKS                                                                                                         \
    {                                                                                                                  \
        SCALING_1X128, SCALING_128X128, SCALING_1X128                                                                  \
    }
#define MX                                                                                                             \
    {                                                                                                                  \
        SCALING_1X32, SCALING_1X32, SCALING_1X32                                                                       \
    }
#define NV                                                                                                             \
    {                                                                                                                  \
        SCALING_1X16, SCALING_16X16, SCALING_1X16                                                                      \
    }

static void test_rules(void)
{
    static const struct expectation expected[] = {
        {"recipe = \"delayed\";", PRECISION_EIGHT, TENSORS, .format = FORMAT_E4M3, .gradient = FORMAT_E5M2,
         .delayed = true, .fast = true},
        {"recipe = \"current\";", PRECISION_EIGHT, TENSORS, .format = FORMAT_E4M3, .gradient = FORMAT_E5M2,
         .fast = true},
        {"recipe = \"current\"; format = \"e4m3\"; accumulate = \"split\";", PRECISION_EIGHT, TENSORS,
         .format = FORMAT_E4M3, .gradient = FORMAT_E4M3},
        {"recipe = \"row\"; weight_gradients = \"compute\";", PRECISION_EIGHT, ROWS, .format = FORMAT_E4M3,
         .gradient = FORMAT_E5M2, .power_of_two = true, .fast = true, .wide = true},
        {"recipe = \"row\"; power_of_two = false;", PRECISION_EIGHT, ROWS, .format = FORMAT_E4M3,
         .gradient = FORMAT_E5M2, .fast = true},
        {"recipe = \"block\";", PRECISION_EIGHT, BLOCKS, .format = FORMAT_E4M3, .gradient = FORMAT_E4M3,
         .power_of_two = true},
        {"recipe = \"block\"; power_of_two = false; accumulate = \"fast\"; format = \"hybrid\";", PRECISION_EIGHT,
         BLOCKS, .format = FORMAT_E4M3, .gradient = FORMAT_E5M2},
        {"recipe = \"mxfp8\"; accumulate = \"fast\";", PRECISION_EIGHT, MX, .format = FORMAT_E4M3,
         .gradient = FORMAT_E4M3},
        {"recipe = \"nvfp4\"; fp8_layers = \"1\";", PRECISION_EIGHT, MX, .format = FORMAT_E4M3,
         .gradient = FORMAT_E4M3},
        {"recipe = \"nvfp4\";", PRECISION_FOUR, NV, .format = FORMAT_E2M1, .gradient = FORMAT_E2M1},
        {"recipe = \"nvfp4\"; weight_gradients = \"compute\";", PRECISION_FOUR, NV, .format = FORMAT_E2M1,
         .gradient = FORMAT_E2M1, .wide = true},
    };
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        check_rules(&expected[i]);

    const struct {
        const char *settings;
        bool stochastic, hadamard;
    } four[] = {{"recipe = \"nvfp4\";", true, true},
                {"recipe = \"nvfp4\"; stochastic_rounding = false;", false, true},
                {"recipe = \"nvfp4\"; hadamard = false;", true, false},
                {"recipe = \"nvfp4\"; weight_gradients = \"compute\";", true, false}};
    for (size_t i = 0; i < sizeof four / sizeof four[0]; i++) {
        struct precision precision = made(four[i].settings, 2);
        const struct quantization *rules = precision.kinds[PRECISION_FOUR].rules;
        CHECK(!rules[OPERAND_INPUT].stochastic && rules[OPERAND_INPUT].hadamard == four[i].hadamard);
        CHECK(!rules[OPERAND_WEIGHT].stochastic && !rules[OPERAND_WEIGHT].hadamard);
        CHECK(rules[OPERAND_GRADIENT].stochastic == four[i].stochastic);
        CHECK(rules[OPERAND_GRADIENT].hadamard == four[i].hadamard);
    }

    struct precision p = made("recipe = \"delayed\"; margin = 2; history = 16; amax = \"latest\"; linears = \"up, o\"; "
                              "head = true; fp8_layers = \"\";",
                              4);
    CHECK(p.margin == 2 && p.history == 16 && p.latest && p.head && precision_quantizes(&p) && precision_delays(&p));
    CHECK(!p.linears[LINEAR_QKV] && p.linears[LINEAR_O] && p.linears[LINEAR_UP] && !p.linears[LINEAR_DOWN]);
    p = made("recipe = \"current\"; linears = \"down\";", 4);
    CHECK(precision_of(&p, 1, LINEAR_DOWN)->quantized && !precision_of(&p, 1, LINEAR_UP)->quantized);
    CHECK(p.history == 1024 && p.margin == 0 && !p.latest && !p.head && p.statistics.count == 0);
    p = made("head = true;", 4); /* there is no format for it */
    CHECK(!p.head && !precision_quantizes(&p) && !precision_delays(&p));
}

static void says(const char *settings, bool emulated, const char *expected)
{
    struct precision precision = made(settings, 32);
    char *text = precision_text(&precision, 32, emulated);
    CHECK_STRING(text, expected);
    free(text);
}

static void test_text(void)
{
    says("", false, "nothing");
    says("recipe = \"block\"; first_layers_bf16 = 1; last_layers_bf16 = 1;", false,
         "layers 2-31 of 32: block scaling, e4m3");
    says("recipe = \"delayed\"; fp8_layers = \"3,7-9\"; linears = \"up,down\"; head = true;", true,
         "layers 3, 7-9 of 32: delayed scaling, hybrid, fast sums forward, emulated; of their linears up, down; head: "
         "delayed scaling, hybrid, fast sums forward, emulated");
    says("recipe = \"row\"; fp8_layers = \"3\"; weight_gradients = \"compute\"; accumulate = \"split\";", false,
         "layer 3 of 32: scaling by rows, hybrid, weight gradients not quantized");
    says("recipe = \"nvfp4\"; fp8_layers = \"1-4\"; last_layers_bf16 = 4; hadamard = false;", false,
         "layers 1-4 of 32: MXFP8, e4m3, emulated; layers 5-28 of 32: NVFP4, stochastic rounding, emulated");
    says("recipe = \"current\"; fp8_layers = \"\"; head = true; format = \"e4m3\";", false,
         "head: current scaling, e4m3, fast sums forward");
    says("fp4_layers = \"1\";", false, "layer 1 of 32: NVFP4, stochastic rounding, Hadamard transform, emulated");
}

/* What precision_warn prints on standard error, in a process of its own, since a message is printed once. */
static void warns(const char *settings, const char *expected)
{
    struct deck deck = deck_with(settings);
    struct precision precision = made(settings, 6);
    int ends[2];
    char got[1024] = "";
    fflush(stderr);
    if (!CHECK(pipe(ends) == 0))
        return;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        precision_warn(&precision, &deck);
        fflush(stderr);
        _exit(0);
    }
    close(ends[1]);
    for (size_t length = 0; child > 0 && length < sizeof got - 1;) {
        ssize_t count = read(ends[0], got + length, sizeof got - 1 - length);
        if (count <= 0)
            break;
        length += (size_t)count;
    }
    close(ends[0]);
    CHECK_STRING(got, expected);
}

static void test_warnings(void)
{
    warns("", "");
    warns("recipe = \"delayed\"; margin = 1; history = 3; amax = \"latest\"; accumulate = \"fast\"; "
          "format = \"e4m3\"; head = true; linears = \"up\"; first_layers_bf16 = 1; power_of_two = true;",
          "");
    warns("recipe = \"nvfp4\"; stochastic_rounding = false; hadamard = false; accumulate = \"auto\";", "");
    warns("recipe = \"block\"; power_of_two = false; accumulate = \"split\"; fp4_layers = \"1\"; hadamard = false;",
          "");
    warns("recipe = \"block\"; margin = 1; accumulate = \"fast\"; hadamard = false;",
          "warning: precision.accumulate = \"fast\", precision.margin = 1.0, precision.hadamard = false: has no effect "
          "with precision.recipe = \"block\" and these layers; remove it\n");
    warns("fp8_layers = \"1-3\"; head = true; last_layers_bf16 = 2;",
          "warning: precision.last_layers_bf16 = 2, precision.fp8_layers = \"1-3\", precision.head = true: has no "
          "effect with precision.recipe = \"none\" and these layers; remove it\n");
    warns("recipe = \"nvfp4\"; weight_gradients = \"compute\"; hadamard = false; power_of_two = false; format = "
          "\"hybrid\";",
          "warning: precision.format = \"hybrid\", precision.power_of_two = false, precision.hadamard = false: has no "
          "effect with precision.recipe = \"nvfp4\" and these layers; remove it\n");
    warns("recipe = \"block\"; first_layers_bf16 = 6;",
          "warning: precision.recipe = \"block\" applies to no layer: check precision.fp8_layers, fp4_layers, "
          "first_layers_bf16 and last_layers_bf16\n");
}

/* The decks of the recipes that quantize, as they come with the program ($abs_top_srcdir, or from here without it). */
static void test_decks(void)
{
    static const struct {
        const char *name, *text;
        int64_t layers;
    } decks[] = {
        {"llama3_lingua_1b_fp8", "layers 1-25 of 25: delayed scaling, hybrid, fast sums forward", 25},
        {"llama3_8b_megatron_fp8", "layers 1-32 of 32: delayed scaling, hybrid, fast sums forward", 32},
        {"og2_7b_thd_gqa_fp8", "layers 2-31 of 32: block scaling, e4m3", 32},
        {"esm2_650m_fp8", "layers 1-33 of 33: delayed scaling, hybrid, fast sums forward", 33},
        {"esm2_3b_nvfp4",
         "layers 1-13, 23-36 of 36: MXFP8, e4m3, emulated; layers 14-22 of 36: NVFP4, stochastic rounding, Hadamard "
         "transform, emulated",
         36}};
    const char *source = getenv("abs_top_srcdir");
    for (size_t i = 0; i < sizeof decks / sizeof decks[0]; i++) {
        char path[1024];
        struct deck deck;
        struct precision precision;
        char *notes;
        snprintf(path, sizeof path, "%s/input/%s.cfg", source != NULL ? source : ".", decks[i].name);
        CHECK(deck_read(&deck, path, NULL, 0, &notes) == ERROR_NONE);
        CHECK_STRING(error_message(), "");
        CHECK(precision_from_deck(&precision, &deck, decks[i].layers) == ERROR_NONE);
        char *text = precision_text(&precision, decks[i].layers, false);
        CHECK_STRING(text, decks[i].text);
        free(text);
        free(notes);
    }
}

int main(void)
{
    test_claims();
    test_refusals();
    test_measured();
    test_rules();
    test_text();
    test_warnings();
    test_decks();
    return check_end();
}
