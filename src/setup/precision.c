#include "setup/precision.h"
#include "deck/fields.h"
#include "base/error.h"
#include "base/memory.h"

#include <string.h>

/* -- Recipes ----------------------------------------------------------------------------------------------------- */

/* The scalings of the 8-bit recipes, by operand. */
static const enum scaling eight_scalings[][OPERAND_COUNT] = {
    [DECK_RECIPE_DELAYED] = {SCALING_TENSOR, SCALING_TENSOR, SCALING_TENSOR},
    [DECK_RECIPE_CURRENT] = {SCALING_TENSOR, SCALING_TENSOR, SCALING_TENSOR},
    [DECK_RECIPE_ROW] = {SCALING_ROW, SCALING_ROW, SCALING_ROW},
    [DECK_RECIPE_BLOCK] = {SCALING_1X128, SCALING_128X128, SCALING_1X128},
    [DECK_RECIPE_MXFP8] = {SCALING_1X32, SCALING_1X32, SCALING_1X32}};

/* Returns the recipe of 8-bit layers; with NVFP4 they are MXFP8. */
static enum deck_recipe eight_recipe(const struct deck *deck)
{
    return deck->precision.recipe == DECK_RECIPE_NVFP4 ? DECK_RECIPE_MXFP8 : (enum deck_recipe)deck->precision.recipe;
}

/* Returns whether "fast" accumulation applies: there is one scale for each row of the GEMM's result, or for all of it.
 */
static bool sums_fast(enum deck_recipe recipe)
{
    return recipe == DECK_RECIPE_DELAYED || recipe == DECK_RECIPE_CURRENT || recipe == DECK_RECIPE_ROW;
}

static struct linear_precision eight_bits(const struct deck *deck)
{
    const enum deck_recipe recipe = eight_recipe(deck);
    if (recipe == DECK_RECIPE_NONE)
        return (struct linear_precision){0};
    const bool blocks = recipe == DECK_RECIPE_BLOCK || recipe == DECK_RECIPE_MXFP8;
    const bool hybrid = deck->precision.format == DECK_FP8_AUTO ? !blocks : deck->precision.format == DECK_FP8_HYBRID;
    struct linear_precision linear = {
        .quantized = true,
        .delayed = recipe == DECK_RECIPE_DELAYED,
        .fast = sums_fast(recipe) && deck->precision.accumulate != DECK_ACCUMULATE_SPLIT,
        .wide_weight_gemm = deck->precision.weight_gradients == DECK_WEIGHT_GRADIENTS_COMPUTE,
    };
    for (int operand = 0; operand < OPERAND_COUNT; operand++)
        linear.rules[operand] = (struct quantization){
            .format = hybrid && operand == OPERAND_GRADIENT ? FORMAT_E5M2 : FORMAT_E4M3,
            .scaling = eight_scalings[recipe][operand],
            .power_of_two = (recipe == DECK_RECIPE_ROW || recipe == DECK_RECIPE_BLOCK) && deck->precision.power_of_two};
    return linear;
}

/* Returns the rules of NVFP4. The Hadamard transform is for the operands of the weight gradient. */
static struct linear_precision four_bits(const struct deck *deck)
{
    const bool wide = deck->precision.weight_gradients == DECK_WEIGHT_GRADIENTS_COMPUTE;
    const bool hadamard = deck->precision.hadamard && !wide;
    return (struct linear_precision){
        .quantized = true,
        .wide_weight_gemm = wide,
        .rules = {[OPERAND_INPUT] = {.format = FORMAT_E2M1, .scaling = SCALING_1X16, .hadamard = hadamard},
                  [OPERAND_WEIGHT] = {.format = FORMAT_E2M1, .scaling = SCALING_16X16},
                  [OPERAND_GRADIENT] = {.format = FORMAT_E2M1,
                                        .scaling = SCALING_1X16,
                                        .stochastic = deck->precision.stochastic_rounding,
                                        .hadamard = hadamard}}};
}

/* -- Formats of layers ------------------------------------------------------------------------------------------- */

static bool is_auto(const char *list)
{
    return strcmp(list, "auto") == 0;
}

static bool eight_is_on(const struct deck *deck)
{
    return deck->precision.recipe == DECK_RECIPE_NVFP4 ? !is_auto(deck->precision.fp8_layers)
                                                       : deck->precision.recipe != DECK_RECIPE_NONE;
}

static bool four_is_on(const struct deck *deck)
{
    const char *list = deck->precision.fp4_layers;
    return deck->precision.recipe == DECK_RECIPE_NVFP4 || (!is_auto(list) && list[strspn(list, " ")] != '\0');
}

/* Assigns the layers of a list to a format, unless another format has them. claims: enum precision_kind of each layer.
 * besides: what else the key may be, for the message. */
static int claim_list(uint8_t *claims, int64_t layers, enum precision_kind kind, const char *key, const char *list,
                      const char *besides)
{
    const char *at = list + strspn(list, " ");
    while (*at != '\0') {
        int64_t first, last;
        if (!layer_range_read(&at, &first, &last) || (*at != ',' && *at != '\0') || (*at == ',' && at[1] == '\0'))
            return error_user("key %s = \"%s\": must be layers and ranges of layers, counted from 1 and separated by "
                              "commas, such as \"2-5,9\"; %s",
                              key, list, besides);
        if (first < 1 || last > layers)
            return error_user("key %s = \"%s\": layers are 1 to %lld, by model.layers", key, list, (long long)layers);
        for (int64_t layer = first; layer <= last; layer++) {
            if (claims[layer - 1] != PRECISION_COMPUTE && claims[layer - 1] != kind)
                return error_user("key %s = \"%s\": layer %lld is in precision.fp8_layers too; a layer has one format",
                                  key, list, (long long)layer);
            claims[layer - 1] = (uint8_t)kind;
        }
        at += *at == ',';
    }
    return ERROR_NONE;
}

static void claim_rest(uint8_t *claims, int64_t layers, enum precision_kind kind)
{
    for (int64_t layer = 0; layer < layers; layer++)
        if (claims[layer] == PRECISION_COMPUTE)
            claims[layer] = (uint8_t)kind;
}

static int claim_layers(uint8_t *claims, const struct deck *deck, int64_t layers)
{
    static const char besides[] = "\"\" for none; or \"auto\"";
    const bool eight = eight_is_on(deck), four = four_is_on(deck);
    const char *eight_list = deck->precision.fp8_layers, *four_list = deck->precision.fp4_layers;
    int code = ERROR_NONE;
    if (eight && !is_auto(eight_list))
        code = claim_list(claims, layers, PRECISION_EIGHT, "precision.fp8_layers", eight_list, besides);
    if (code == ERROR_NONE && four && !is_auto(four_list))
        code = claim_list(claims, layers, PRECISION_FOUR, "precision.fp4_layers", four_list, besides);
    if (code != ERROR_NONE)
        return code;
    if (eight && is_auto(eight_list))
        claim_rest(claims, layers, PRECISION_EIGHT);
    if (four && is_auto(four_list))
        claim_rest(claims, layers, PRECISION_FOUR);
    for (int64_t layer = 0; layer < layers; layer++)
        if (layer < deck->precision.first_layers_bf16 || layer >= layers - deck->precision.last_layers_bf16)
            claims[layer] = PRECISION_COMPUTE;
    return ERROR_NONE;
}

/* Writes the layers that a format has claimed. keys: for the message. */
static int list_claims(struct layer_list *list, const uint8_t *claims, int64_t layers, enum precision_kind kind,
                       const char *keys)
{
    for (int64_t layer = 0; layer < layers; layer++) {
        if (claims[layer] != kind)
            continue;
        if (layer == 0 || claims[layer - 1] != kind) {
            if (list->count == LAYER_RANGES)
                return error_user("%s: more than %d ranges of layers; name fewer", keys, LAYER_RANGES);
            list->ranges[list->count++].first = (int)layer;
        }
        list->ranges[list->count - 1].last = (int)layer;
    }
    return ERROR_NONE;
}

static int find_layers(struct precision *precision, const struct deck *deck, int64_t layers)
{
    static const char keys[] = "keys precision.fp8_layers, precision.fp4_layers";
    uint8_t *claims = memory_allocate(layers);
    int code = claim_layers(claims, deck, layers);
    if (code == ERROR_NONE)
        code = list_claims(&precision->eight, claims, layers, PRECISION_EIGHT, keys);
    if (code == ERROR_NONE)
        code = list_claims(&precision->four, claims, layers, PRECISION_FOUR, keys);
    memory_free(claims);
    return code;
}

/* Finds the quantized layers that statistics.layers names; the head counts as a layer after the last. */
static int find_statistics(struct precision *precision, const struct deck *deck, int64_t layers)
{
    const char *list = deck->statistics.layers;
    const bool all = list[strspn(list, " ")] == '\0';
    if (deck->statistics.every == 0)
        return ERROR_NONE;
    if (!precision_quantizes(precision))
        return error_user("key statistics.every = %lld: nothing is quantized, so there is nothing to measure; set "
                          "precision.recipe, or statistics.every = 0",
                          (long long)deck->statistics.every);
    uint8_t *claims = memory_allocate(layers + 1);
    const enum precision_kind named = PRECISION_EIGHT;
    int code = claim_list(claims, layers, named, "statistics.layers", list, "\"\" for all");
    for (int64_t layer = 0; layer < layers; layer++)
        if (!layer_list_has(&precision->eight, (int)layer) && !layer_list_has(&precision->four, (int)layer))
            claims[layer] = PRECISION_COMPUTE;
        else if (all)
            claims[layer] = (uint8_t)named;
    if (precision->head && all)
        claims[layers] = (uint8_t)named;
    if (code == ERROR_NONE)
        code = list_claims(&precision->statistics, claims, layers + 1, named, "key statistics.layers");
    if (code == ERROR_NONE && precision->statistics.count == 0)
        code = error_user("key statistics.layers = \"%s\": none of these layers is quantized", list);
    memory_free(claims);
    return code;
}

/* -- Precision of a deck ----------------------------------------------------------------------------------------- */

static int find_linears(bool *linears, const char *text)
{
    for (const char *at = text; at != NULL; at = *at == ',' ? at + 1 : NULL) {
        at += strspn(at, " ");
        const size_t word = strcspn(at, " ,");
        int linear = 0;
        while (linear < LINEAR_COUNT &&
               (strlen(precision_linear_name(linear)) != word || strncmp(at, precision_linear_name(linear), word) != 0))
            linear++;
        at += word + strspn(at + word, " ");
        if (linear == LINEAR_COUNT || (*at != ',' && *at != '\0'))
            return error_user("key precision.linears = \"%s\": must be one or more of qkv, o, up, down, separated by "
                              "commas; with precision.recipe = \"none\" nothing is quantized",
                              text);
        linears[linear] = true;
    }
    return ERROR_NONE;
}

int precision_from_deck(struct precision *precision, const struct deck *deck, int64_t layers)
{
    *precision = (struct precision){
        .kinds = {[PRECISION_EIGHT] = eight_bits(deck), [PRECISION_FOUR] = four_bits(deck)},
        .history = deck->precision.history,
        .margin = deck->precision.margin,
        .quantizes_per_gemm = deck->precision.weight_copies == DECK_WEIGHT_COPIES_MADE,
        .latest = deck->precision.amax == DECK_AMAX_LATEST,
    };
    precision->head = deck->precision.head && precision->kinds[PRECISION_EIGHT].quantized;
    int code = find_linears(precision->linears, deck->precision.linears);
    if (code == ERROR_NONE)
        code = find_layers(precision, deck, layers);
    return code != ERROR_NONE ? code : find_statistics(precision, deck, layers);
}
