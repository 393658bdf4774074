/* Losses of an executor match the oracle, whole and by parts of the vocabulary, with labels of which none, some or all
 * are ignored. */
#include "ops.h"

static void test_xent(void)
{
    static const int64_t vocabularies[] = {5, 33, 64, 256, 1000, 9001, 41000};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t v = 0; v < COUNT(vocabularies); v++)
            for (int64_t t = 0; t < COUNT(lengths); t++)
                for (int ignore = 0; ignore < 3; ignore++) { /* 0 none, 1 some, 2 all labels */
                    int64_t vocabulary = vocabularies[v], tokens = vocabulary > 1000 ? 1 + 2 * t : lengths[t];
                    double deviation = (v + t) % 3 == 2 ? 40.0 : 2.0;
                    struct trial *trial = trial_create("%s T %d V %d, ignored %d, deviation %g", dtype_name(storage[d]),
                                                       (int)tokens, (int)vocabulary, ignore, deviation);
                    struct tensor labels = trial_draw_integers(trial, tokens, (int32_t)vocabulary);
                    for (int64_t i = 0; i < tokens; i++)
                        if (ignore == 2 || (ignore == 1 && i % 3 == 0))
                            reference_store(&labels, 0, i, -100);
                    struct xent_stat_args stat = {
                        .logits = trial_matrix(trial, storage[d], tokens, vocabulary, t % 2, deviation),
                        .labels = labels,
                        .loss = trial_empty(trial, DTYPE_F32, 1, tokens),
                        .lse = trial_empty(trial, DTYPE_F32, 1, tokens),
                        .total = trial_empty(trial, DTYPE_F64, 1, 2)};
                    reference_store(&stat.total, 0, 0, 1000.0);
                    reference_store(&stat.total, 0, 1, 300.0);
                    compare_op(trial, OP_XENT_STAT, &stat);
                    const float z_loss = t % 2 == 0 ? 0.0f : 0.01f;
                    struct xent_both_args both = {stat.logits, stat.labels, stat.loss, stat.total, z_loss};
                    compare_op(trial, OP_XENT_BOTH, &both);

                    /* the gradient reads the statistics as stored */
                    reference_xent_stat(&stat);
                    struct xent_grad_args grad = {
                        .logits = stat.logits, .labels = labels, .lse = stat.lse, .z_loss = z_loss};
                    check_op(trial, OP_XENT_GRAD, &grad);
                }
}

static void draw_none(const struct tensor *labels)
{
    for (int64_t t = 1; t < labels->cols; t += 4)
        reference_store(labels, 0, t, -100);
}

static void test_mse(void)
{
    static const int64_t numbers[3] = {1, 3, 40};
    for (int64_t d = 0; d < 2; d++)
        for (int64_t n = 0; n < COUNT(numbers); n++)
            for (int64_t t = 0; t < COUNT(lengths); t++) {
                struct trial *trial =
                    trial_create("mse: %s T %d N %d", dtype_name(storage[d]), (int)lengths[t], (int)numbers[n]);
                struct mse_args mse = {.predictions =
                                           trial_matrix(trial, storage[d], lengths[t], numbers[n], t % 2, 1.0),
                                       .labels = trial_draw_integers(trial, lengths[t], 7),
                                       .targets = trial_normal(trial, DTYPE_F32, 7, numbers[n], 1.0),
                                       .loss = trial_empty(trial, DTYPE_F32, 1, lengths[t]),
                                       .total = trial_empty(trial, DTYPE_F64, 1, 2)};
                draw_none(&mse.labels);
                reference_store(&mse.total, 0, 0, 1000.0);
                reference_store(&mse.total, 0, 1, 300.0);
                if (t % 3 > 0)
                    mse.gradient =
                        t % 3 == 1 ? mse.predictions : trial_empty(trial, storage[d], lengths[t], numbers[n]);
                struct mse_args mistaken = mse; /* targets of other rows */
                mistaken.labels = trial_draw_integers(trial, lengths[t], 7);
                if (lengths[t] > 60)
                    check_noticed(trial, OP_MSE, &mse, &mistaken);
                check_op(trial, OP_MSE, &mse);
            }
}

static void test_class_weight(void)
{
    enum { CLASSES = 5 };
    for (int64_t d = 0; d < 2; d++)
        for (int64_t t = 0; t < COUNT(lengths); t++) {
            struct trial *trial = trial_create("class_weight: %s T %d", dtype_name(storage[d]), (int)lengths[t]);
            struct class_weight_args args = {.labels = trial_draw_integers(trial, lengths[t], CLASSES),
                                             .weights = trial_normal(trial, DTYPE_F32, 1, CLASSES, 1.0),
                                             .loss = trial_normal(trial, DTYPE_F32, 1, lengths[t], 1.0),
                                             .total = trial_empty(trial, DTYPE_F64, 1, 2)};
            draw_none(&args.labels);
            reference_store(&args.total, 0, 0, 10.0);
            reference_store(&args.total, 0, 1, 3.0);
            if (t % 3 > 0)
                args.gradient = trial_matrix(trial, storage[d], lengths[t], CLASSES, t % 2, 1.0);
            struct class_weight_args mistaken = args;
            mistaken.weights = trial_normal(trial, DTYPE_F32, 1, CLASSES, 1.0);
            if (lengths[t] > 60)
                check_noticed(trial, OP_CLASS_WEIGHT, &args, &mistaken);
            check_op(trial, OP_CLASS_WEIGHT, &args);
        }
}

/* A part of the vocabulary that starts at `vocabulary / 2`: labels are drawn from twice as many, so some are of parts
 * before it and behind it. */
static void test_xent_part(enum dtype dtype, int64_t tokens, int64_t vocabulary, bool ignores, double deviation)
{
    struct trial *trial = trial_create("part: %s T %d V %d%s, deviation %g", dtype_name(dtype), (int)tokens,
                                       (int)vocabulary, ignores ? ", some ignored" : "", deviation);
    struct tensor labels = trial_draw_integers(trial, tokens, (int32_t)(2 * vocabulary));
    for (int64_t t = 0; ignores && t < tokens; t += 3)
        reference_store(&labels, 0, t, -100);
    struct xent_part_args part = {.logits = trial_matrix(trial, dtype, tokens, vocabulary, tokens % 2, deviation),
                                  .labels = labels,
                                  .statistics = trial_strided(trial, DTYPE_F32, XENT_STATISTICS, tokens, tokens + 3),
                                  .origin = vocabulary / 2};
    struct xent_part_args mistaken = part;
    mistaken.origin++;
    if (tokens > 60)
        check_noticed(trial, OP_XENT_PART, &part, &mistaken);
    compare_op(trial, OP_XENT_PART, &part);

    struct tensor lse = trial_normal(trial, DTYPE_F32, 1, tokens, 1.0);
    reference_xent_part(&part);
    for (int64_t t = 0; t < tokens; t++) { /* of a whole vocabulary: above the part's largest */
        double above = fabs(reference_load(&lse, 0, t));
        reference_store(&lse, 0, t, above + reference_load(&part.statistics, XENT_LARGEST, t));
    }
    struct xent_grad_args grad = {
        .logits = part.logits, .labels = labels, .lse = lse, .origin = part.origin, .z_loss = 0.001f};
    struct xent_grad_args displaced = grad, without = grad;
    displaced.origin++;
    without.z_loss = 0.0f;
    if (tokens > 60) {
        check_noticed(trial, OP_XENT_GRAD, &grad, &displaced);
        check_noticed(trial, OP_XENT_GRAD, &grad, &without);
    }
    check_op(trial, OP_XENT_GRAD, &grad);
}

/* Of parts whose largest elements are near each other or far apart. */
static void test_xent_merge(int64_t parts, int64_t tokens, bool ignores, double deviation)
{
    struct trial *trial = trial_create("merge: %d parts, T %d%s, deviation %g", (int)parts, (int)tokens,
                                       ignores ? ", some ignored" : "", deviation);
    struct tensor labels = trial_draw_integers(trial, tokens, (int32_t)parts);
    struct xent_merge_args merge = {
        .statistics = trial_matrix(trial, DTYPE_F32, parts * XENT_STATISTICS, tokens, tokens % 2, deviation),
        .loss = trial_empty(trial, DTYPE_F32, 1, tokens),
        .lse = trial_empty(trial, DTYPE_F32, 1, tokens),
        .total = trial_empty(trial, DTYPE_F64, 1, 2)};
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t p = 0; p < parts; p++) { /* the label's number is that of its part */
            const int64_t sum = p * XENT_STATISTICS + XENT_SUM, target = p * XENT_STATISTICS + XENT_TARGET;
            reference_store(&merge.statistics, sum, t, 1.0 + fabs(reference_load(&merge.statistics, sum, t)));
            if (reference_index(&labels, t) != p)
                reference_store(&merge.statistics, target, t, 0.0);
        }
    for (int64_t t = 0; ignores && t < tokens; t += 3)
        reference_store(&labels, 0, t, -100);
    merge.labels = labels;
    reference_store(&merge.total, 0, 0, 1000.0);
    reference_store(&merge.total, 0, 1, 300.0);
    struct xent_merge_args mistaken = merge; /* the last part left out */
    mistaken.statistics = tensor_rows(&merge.statistics, 0, (parts - 1) * XENT_STATISTICS);
    if (parts > 1 && tokens > 60)
        check_noticed(trial, OP_XENT_MERGE, &merge, &mistaken);
    check_op(trial, OP_XENT_MERGE, &merge);
}

static void test_xent_parts(void)
{
    static const int64_t vocabularies[4] = {1, 17, 64, 1003};
    for (int64_t t = 0; t < COUNT(lengths); t++)
        for (int64_t v = 0; v < COUNT(vocabularies); v++) {
            const double deviation = (v + t) % 3 == 2 ? 40.0 : 2.0;
            for (int64_t d = 0; d < 2; d++)
                test_xent_part(storage[d], lengths[t], vocabularies[v], (v + d) % 2, deviation);
            test_xent_merge(1 + 2 * v, 5 * lengths[t], v % 2, deviation);
        }
}

int main(int count, char **arguments)
{
    executors_open(count, arguments);
    test_xent();
    test_xent_parts();
    test_mse();
    test_class_weight();
    executors_close();
    return check_end();
}
