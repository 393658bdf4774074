/* Count models, the baselines of a token store, match their definitions. */
#include "prepare/baseline.h"
#include "data/token_store.h"
#include "data_files.h"

/* What a count model counts, by the characters themselves. */
static const char *residues = "LAGVSERTIDPKQNFYMHWCXBUZO.-"; /* and <null_1>, which no text has */

static int symbol(bool protein, char c)
{
    if (!protein)
        return tokenizer_base((unsigned char)c);
    const char *at = strchr(residues, c);
    return at == NULL ? -1 : (int)(at - residues);
}

/* The count model in its plainest form: for each symbol, count its context in the training text by search. */
static double naive(bool protein, char *const *train, int trains, char *const *valid, int valids, int order,
                    int64_t *symbols)
{
    const int all = protein ? 28 : 4;
    double nats = 0;
    *symbols = 0;
    for (int v = 0; v < valids; v++)
        for (int64_t at = 0; valid[v][at] != '\0'; at++) {
            if (symbol(protein, valid[v][at]) < 0)
                continue;
            int k = 0;
            while (k < order && at - k - 1 >= 0 && symbol(protein, valid[v][at - k - 1]) >= 0)
                k++;
            double hits = 1, sum = all;
            for (int s = 0; s < trains; s++)
                for (int64_t t = k; t < (int64_t)strlen(train[s]); t++) {
                    bool equal = symbol(protein, train[s][t]) >= 0;
                    for (int j = 1; j <= k && equal; j++)
                        equal = symbol(protein, train[s][t - j]) == symbol(protein, valid[v][at - j]);
                    sum += equal;
                    hits += equal && symbol(protein, train[s][t]) == symbol(protein, valid[v][at]);
                }
            nats -= log(hits / sum);
            ++*symbols;
        }
    return nats / (double)*symbols;
}

/* Composition, symbol by symbol: what else its sequence holds, and 100 times the share in the training text. */
static double naive_composition(bool protein, char *const *train, int trains, char *const *valid, int valids)
{
    double nats = 0, symbols = 0;
    for (int v = 0; v < valids; v++)
        for (int64_t at = 0; valid[v][at] != '\0'; at++) {
            int wanted = symbol(protein, valid[v][at]);
            if (wanted < 0)
                continue;
            double hits = 1, sum = protein ? 28 : 4, same = 0, others = 0;
            for (int s = 0; s < trains; s++)
                for (const char *c = train[s]; *c != '\0'; c++) {
                    sum += symbol(protein, *c) >= 0;
                    hits += symbol(protein, *c) == wanted;
                }
            for (int64_t t = 0; valid[v][t] != '\0'; t++) {
                others += t != at && symbol(protein, valid[v][t]) >= 0;
                same += t != at && symbol(protein, valid[v][t]) == wanted;
            }
            nats -= log((same + 100 * hits / sum) / (others + 100));
            symbols++;
        }
    return nats / symbols;
}

/* Both count models on two texts, against their definitions. Orders up to `most`. */
static void check_baseline(const char *tokenizer, char *const *train, int trains, char *const *valid, int valids,
                           int most)
{
    const char *fit = stores_path("fit.h5"), *held = stores_path("held.h5");
    const bool protein = strcmp(tokenizer, "nucleotide") != 0;
    struct token_store *fitted, *held_out;
    double nats;
    int64_t symbols, wanted_symbols;
    stores_write_as(tokenizer, fit, train, trains);
    stores_write_as(tokenizer, held, valid, valids);
    CHECK(token_store_open(&fitted, fit) == ERROR_NONE && token_store_open(&held_out, held) == ERROR_NONE);
    for (int order = 0; order <= most; order++) {
        double wanted = naive(protein, train, trains, valid, valids, order, &wanted_symbols);
        CHECK(baseline_evaluate(fitted, held_out, order, &nats, &symbols) == ERROR_NONE);
        CHECK_NEAR(nats, wanted, 1e-12, 0);
        CHECK(symbols == wanted_symbols);
    }
    CHECK(baseline_composition(fitted, held_out, &nats, &symbols) == ERROR_NONE);
    CHECK_NEAR(nats, naive_composition(protein, train, trains, valid, valids), 1e-12, 0);
    CHECK(symbols == wanted_symbols);
    CHECK(baseline_max_order(fitted->tokenizer) == (protein ? 4 : 12));
    CHECK_USER(baseline_evaluate(fitted, held_out, protein ? 5 : 13, &nats, &symbols), "order");
    CHECK_USER(baseline_evaluate(fitted, held_out, -1, &nats, &symbols), "order");
    token_store_close(fitted);
    token_store_close(held_out);
}

static void test_baseline(void)
{
    char *train[] = {memory_string("ACGTNacgtAAACCCGGGTTTACGATCGAT"), memory_string("TTTTACGT"), memory_string("A")};
    char *valid[] = {memory_string("ACGATNNTGCaaac"), memory_string("GG")};
    char *proteins[] = {memory_string("MKLVVKLVaXUZ*MKKL"), memory_string("LLMK"), memory_string("W")};
    check_baseline("nucleotide", train, 3, valid, 2, 4);
    check_baseline("esm2", proteins, 2, proteins + 1, 2, 3);

    const char *fit = stores_path("fit.h5"), *held = stores_path("held.h5"), *none = stores_path("none.h5");
    struct token_store *fitted, *other = NULL, *empty;
    double nats;
    int64_t symbols;
    stores_write(fit, train, 3);
    stores_write_as("esm2", held, proteins, 3);
    memset(train[2], 'N', 1);
    stores_write(none, train + 2, 1);
    CHECK(token_store_open(&fitted, fit) == ERROR_NONE && token_store_open(&other, held) == ERROR_NONE);
    CHECK(token_store_open(&empty, none) == ERROR_NONE);
    CHECK_USER(baseline_evaluate(fitted, other, 1, &nats, &symbols), "has nucleotide tokens");
    CHECK_USER(baseline_composition(fitted, other, &nats, &symbols), "has nucleotide tokens");
    CHECK_USER(baseline_evaluate(fitted, empty, 1, &nats, &symbols), "has no bases");
    token_store_close(fitted);
    token_store_close(other);
    token_store_close(empty);
    stores_free(train, 3);
    stores_free(valid, 2);
    stores_free(proteins, 3);
}

int main(void)
{
    stores_begin();
    test_baseline();
    stores_end();
    return check_end();
}
