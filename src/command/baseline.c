/* cistron baseline */
#include "prepare/baseline.h"
#include "base/error.h"
#include "command/command.h"

#include <stdio.h>
#include <stdlib.h>

static const char *orders = NULL;

static void print(const char *name, double nats, int64_t symbols, const struct token_store *store)
{
    const struct tokenizer *tokenizer = store->tokenizer;
    const char *each = tokenizer_is_text(tokenizer) ? "token" : tokenizer->bases ? "base" : "residue";
    printf("%s %.4f nats per %s over %lld %s\n", name, nats, each, (long long)symbols, tokenizer_token_noun(tokenizer));
}

/* Checks all orders before the first is computed. */
static int check_orders(const struct tokenizer *tokenizer)
{
    if (orders[0] == '\0')
        return error_user("--orders: the list is empty");
    const int most = baseline_max_order(tokenizer);
    for (const char *at = orders; *at != '\0';) {
        char *end;
        long order = strtol(at, &end, 10);
        if (end == at || (*end != ',' && *end != '\0'))
            return error_user("--orders %s: must be numbers separated by commas", orders);
        if (order < 0 || order > most)
            return error_user("--orders %s: an order must be between 0 and %d for %s tokens", orders, most,
                              tokenizer->name);
        at = *end == ',' ? end + 1 : end;
    }
    return ERROR_NONE;
}

static int print_orders(const struct token_store *train, const struct token_store *valid)
{
    if (orders == NULL)
        orders = train->tokenizer->bases ? "3,6" : "0,1";
    int code = check_orders(train->tokenizer);
    for (const char *at = orders; *at != '\0' && code == ERROR_NONE;) {
        char *end, name[32];
        long order = strtol(at, &end, 10);
        double nats;
        int64_t symbols;
        code = baseline_evaluate(train, valid, order, &nats, &symbols);
        snprintf(name, sizeof name, "order-%ld", order);
        if (code == ERROR_NONE)
            print(name, nats, symbols, valid);
        at = *end == ',' ? end + 1 : end;
    }
    return code;
}

/* Opens and verifies a store; all of it is read anyway. */
static int open_store(struct token_store **store, const char *path)
{
    int code = token_store_open(store, path);
    if (code == ERROR_NONE)
        code = (*store)->has_checksum ? token_store_verify(*store) : token_store_check_offsets(*store);
    return code;
}

static int run(const struct command_environment *environment, char **arguments, int count)
{
    (void)environment;
    (void)count;
    struct token_store *train = NULL, *valid = NULL;
    double nats;
    int64_t symbols;
    int code = open_store(&train, arguments[0]);
    if (code == ERROR_NONE)
        code = open_store(&valid, arguments[1]);
    if (code == ERROR_NONE)
        code = print_orders(train, valid);
    if (code == ERROR_NONE)
        code = baseline_composition(train, valid, &nats, &symbols);
    if (code == ERROR_NONE)
        print("composition", nats, symbols, valid);
    if (code == ERROR_NONE && train->tokenizer->mask >= 0) {
        code = baseline_masked(train, valid, &nats, &symbols);
        if (code == ERROR_NONE)
            print("masked-order-0", nats, symbols, valid);
    }
    token_store_close(train);
    token_store_close(valid);
    return code;
}

static const struct command_option options[] = {
    {"orders", 0, "LIST", COMMAND_TEXT, false, &orders,
     "numbers of preceding tokens that a prediction uses (3,6 for bases; 0,1 for residues and text)"},
    {0}};

const struct command command_baseline = {
    .name = "baseline",
    .arguments = "TRAIN.h5 VALID.h5",
    .summary = "loss of count models, in nats per base, residue or token",
    .help =
        "Fits count models of fixed order on TRAIN.h5 and prints their loss on VALID.h5. Also prints the loss of\n"
        "a model (composition) that knows which tokens the rest of the sequence has, but not their\n"
        "order: a trained model must be better. For tokenizers with a mask token also prints the loss that order 0\n"
        "reaches on masked tokens if it knows the masking rule (masked-order-0), since one in ten of the tokens to\n"
        "predict is visible.",
    .options = options,
    .least = 2,
    .most = 2,
    .run = run,
};
