#include "setup/precision_text.h"
#include "deck/fields.h"
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_kind(FILE *text, const struct linear_precision *linear, bool emulated)
{
    static const char *const names[] = {[SCALING_TENSOR] = "current scaling",
                                        [SCALING_ROW] = "scaling by rows",
                                        [SCALING_1X128] = "block scaling",
                                        [SCALING_1X32] = "MXFP8",
                                        [SCALING_1X16] = "NVFP4",
                                        [SCALING_16X16] = NULL};
    const struct quantization *input = &linear->rules[OPERAND_INPUT], *gradient = &linear->rules[OPERAND_GRADIENT];
    fputs(linear->delayed ? "delayed scaling" : names[input->scaling], text);
    if (input->format != FORMAT_E2M1)
        fputs(gradient->format == FORMAT_E5M2 ? ", hybrid" : ", e4m3", text);
    if (linear->fast)
        fputs(", fast sums forward", text);
    if (gradient->stochastic)
        fputs(", stochastic rounding", text);
    if (gradient->hadamard)
        fputs(", Hadamard transform", text);
    if (linear->wide_weight_gemm)
        fputs(", weight gradients not quantized", text);
    if (emulated || quantization_emulated(input))
        fputs(", emulated", text);
}

static void print_layers(FILE *text, const struct layer_list *list, int64_t layers)
{
    fputs(list->count == 1 && list->ranges[0].first == list->ranges[0].last ? "layer" : "layers", text);
    for (int i = 0; i < list->count; i++) {
        fprintf(text, "%s%d", i == 0 ? " " : ", ", list->ranges[i].first + 1);
        if (list->ranges[i].last > list->ranges[i].first)
            fprintf(text, "-%d", list->ranges[i].last + 1);
    }
    fprintf(text, " of %lld: ", (long long)layers);
}

static void print_linears(FILE *text, const bool *linears)
{
    int named = 0;
    for (int linear = 0; linear < LINEAR_COUNT; linear++)
        named += linears[linear];
    if (named == LINEAR_COUNT)
        return;
    for (int linear = 0, printed = 0; linear < LINEAR_COUNT; linear++)
        if (linears[linear])
            fprintf(text, "%s%s", printed++ == 0 ? "; of their linears " : ", ", precision_linear_name(linear));
}

char *precision_text(const struct precision *precision, int64_t layers, bool emulated)
{
    if (!precision_quantizes(precision))
        return memory_string("nothing");
    char *text = NULL;
    size_t length = 0;
    FILE *out = memory_stream(&text, &length);
    const struct layer_list *lists[PRECISION_KINDS] = {NULL, &precision->eight, &precision->four};
    const char *between = "";
    for (int kind = PRECISION_EIGHT; kind < PRECISION_KINDS; kind++) {
        if (lists[kind]->count == 0)
            continue;
        fputs(between, out);
        print_layers(out, lists[kind], layers);
        print_kind(out, &precision->kinds[kind], emulated);
        between = "; ";
    }
    if (between[0] != '\0')
        print_linears(out, precision->linears);
    if (precision->head) {
        fprintf(out, "%shead: ", between);
        print_kind(out, &precision->kinds[PRECISION_EIGHT], emulated);
    }
    memory_stream_end(out);
    return text;
}

/* Returns the keys that are set but have no effect, with their values, or ""; freed with free(). */
static char *unused_keys(const struct precision *precision, const struct deck *deck)
{
    const enum scaling scaling = precision->kinds[PRECISION_EIGHT].rules[OPERAND_INPUT].scaling;
    const bool eight = precision_uses(precision, PRECISION_EIGHT), four = precision_uses(precision, PRECISION_FOUR);
    const bool recipe = deck->precision.recipe != DECK_RECIPE_NONE, delayed = precision_delays(precision);
    const bool fast = deck->precision.accumulate == DECK_ACCUMULATE_FAST;
    const struct {
        const char *key;
        bool used;
    } keys[] = {
        {"precision.format", eight},
        {"precision.accumulate", eight && (!fast || scaling <= SCALING_ROW)},
        {"precision.weight_gradients", eight || four},
        {"precision.weight_copies", eight || four},
        {"precision.first_layers_bf16", recipe || four},
        {"precision.last_layers_bf16", recipe || four},
        {"precision.fp8_layers", recipe},
        {"precision.linears", eight || four},
        {"precision.head", recipe},
        {"precision.margin", delayed},
        {"precision.history", delayed},
        {"precision.amax", delayed},
        {"precision.power_of_two", eight && (scaling == SCALING_ROW || scaling == SCALING_1X128)},
        {"precision.stochastic_rounding", four},
        {"precision.hadamard", four && deck->precision.weight_gradients == DECK_WEIGHT_GRADIENTS_QUANTIZED},
    };
    const char *unused[sizeof keys / sizeof keys[0]];
    int count = 0;
    struct deck *plain = deck_create();
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char *value = deck_key_text(deck, keys[i].key), *usual = deck_key_text(plain, keys[i].key);
        if (!keys[i].used && strcmp(value, usual) != 0)
            unused[count++] = keys[i].key;
        free(value);
        free(usual);
    }
    memory_free(plain);
    return deck_keys_text(deck, unused, count, ", ");
}

void precision_warn(const struct precision *precision, const struct deck *deck)
{
    char *recipe = deck_key_text(deck, "precision.recipe"), *unused = unused_keys(precision, deck);
    if (deck->precision.recipe != DECK_RECIPE_NONE && !precision_quantizes(precision))
        log_warn("precision.recipe = %s applies to no layer: check precision.fp8_layers, fp4_layers, first_layers_bf16 "
                 "and last_layers_bf16",
                 recipe);
    else if (unused[0] != '\0')
        log_warn("%s: has no effect with precision.recipe = %s and these layers; remove it", unused, recipe);
    free(recipe);
    free(unused);
}
