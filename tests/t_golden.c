/* The model matches other implementations (tests/golden: Hugging Face transformers; a reference of AMPLIFY): logits,
 * loss, every gradient and 20 AdamW steps or more, on the oracle in double, and on the CPU executor in fp32 with every
 * recompute policy. Injected mutations (token dropout, forms of GELU and rope, direction, biases and more) each break a
 * bound.
 *
 * With "cuda", on a GPU. */
#include "check.h"

#include "base/error.h"
#include "base/memory.h"
#include "comm/comm.h"
#include "executors.h"
#include "ref/fetch.h"
#include "loader/masking.h"
#include "ref/golden.h"
#include "ref/reference.h"
#include "ref/wrapper.h"

#include <math.h>
#include <stdlib.h>

static const char *const cases[] = {"llama_gqa_padded",
                                    "llama_tied_scaled_padded",
                                    "llama_gqa_scaled_packed",
                                    "llama_mha_packed",
                                    "llama_biased",
                                    "qwen2_packed",
                                    "qwen2_window_padded",
                                    "qwen3_packed",
                                    "qwen3_yarn_padded",
                                    "llama_linear_packed",
                                    "mistral_packed",
                                    "mixtral_packed",
                                    "olmo2_packed",
                                    "olmo2_biased_padded",
                                    "esm2_padded",
                                    "esm2_packed",
                                    "esm2_tanh",
                                    "esm2_pad",
                                    "amplify_packed",
                                    "amplify_pad",
                                    "esmc_packed",
                                    "esmc_pad",
                                    "ntv2_packed",
                                    "ntv2_pad",
                                    "llama_lora",
                                    "llama_lora_tied",
                                    "esm2_lora",
                                    "amplify_lora",
                                    "amplify_lora_dropout"};
enum { CASES = sizeof cases / sizeof cases[0] };

struct bounds {
    double logits, gradients, losses;
};
static const struct bounds single_bounds = {1e-5, 1e-5, 1e-4}; /* relative L2, relative L2, relative */
/* fp64 against fp64: what is left is the fp32 of epsilons and softmax scales in op arguments (2^-24 relative) */
static const struct bounds double_bounds = {1e-6, 1e-6, 1e-6};

/* -- An executor that spoils arguments ---------------------------------------------------------------------------- */

enum mutation {
    NONE,
    NO_ROPE,
    ROPE_FORM,
    NO_SCALING,
    SOFTMAX_SCALE,
    KV_MAP,
    MASK_EDGE,
    WINDOW_EDGE,
    DIRECTION,
    NORM_EPS,
    NO_NORM_BIAS,
    NO_BIAS,
    NO_BIAS_GRADIENT,
    NO_DECODER_BIAS,
    NO_HEAD_GAIN,
    NO_PROJECTION_GAIN,
    NO_STREAM_FACTOR,
    NO_RESIDUAL,
    NO_EXPERT_WEIGHT,
    NO_AUXILIARY,
    NO_ROUTER_GRADIENT,
    GELU_FORM,
    HEAD_GELU_FORM,
    NO_TOKEN_DROPOUT,
    PADDED_RATIO,
    ROW_RATIO,
    PADDING_TRAINED,
    NO_FACTOR,
    NO_ADAPTER,
    NO_ADAPTER_GRADIENT,
    NO_DROPOUT,
    OTHER_DROPOUT,
    MUTATIONS
};
static const char *const mutation_names[MUTATIONS] = {"none",
                                                      "RoPE left out",
                                                      "RoPE's other form",
                                                      "RoPE scaling left out",
                                                      "softmax scale x 1.01",
                                                      "kv-head map shifted",
                                                      "mask edge off by one",
                                                      "sliding window off by one",
                                                      "causal or not",
                                                      "norm eps doubled",
                                                      "norm bias left out",
                                                      "bias left out",
                                                      "bias gradient left out",
                                                      "decoder bias left out",
                                                      "gains of q and k left out",
                                                      "gains of projections left out",
                                                      "factor of the stream left out",
                                                      "residual connection left out",
                                                      "experts' weights left out",
                                                      "auxiliary loss left out",
                                                      "router not trained",
                                                      "GELU's other form",
                                                      "GELU in the head",
                                                      "token dropout left out",
                                                      "ratio of padded row",
                                                      "ratio of packed row",
                                                      "padding trained",
                                                      "LoRA's factor left out",
                                                      "adapters left out",
                                                      "adapters in dx left out",
                                                      "dropout left out",
                                                      "another dropout in dx"};

struct planted {
    enum mutation mutation;
    const struct model_settings *settings;
};

static void mutate_attention(struct attention_forward_args *a, enum mutation mutation)
{
    static int32_t numbers[64];
    if (mutation == SOFTMAX_SCALE)
        a->scale *= 1.01f;
    if (mutation == WINDOW_EDGE && a->window > 0)
        a->window++;
    if (mutation == DIRECTION)
        a->causal = !a->causal, a->window = 0;
    if (mutation == KV_MAP) /* every key head is its right neighbour, the last one the first value head */
        a->k.data = tensor_at(&a->k, 0, a->head_dim);
    if (mutation == MASK_EDGE) { /* one key too many where attention is causal, elsewhere one too few */
        struct tensor *edge = a->causal ? &a->segments.q_offset : &a->segments.kv_length;
        for (int64_t i = 0; i < edge->cols; i++) {
            int32_t length = ((const int32_t *)edge->data)[i];
            numbers[i] = a->causal ? 1 : length - (length > 0);
        }
        edge->data = numbers;
    }
}

static void mutate_gemm(struct gemm_args *a, const struct planted *planted)
{
    bool decoder = a->bias.cols == planted->settings->vocabulary;
    if (planted->mutation == (decoder ? NO_DECODER_BIAS : NO_BIAS))
        a->bias = (struct tensor){0};
    if (planted->mutation == NO_BIAS_GRADIENT)
        a->sum_a = (struct tensor){0};
}

static void mutate(struct wrapper *wrapper, struct stream *stream, enum op op, const void *args)
{
    const struct planted *planted = wrapper->self;
    enum mutation mutation = planted->mutation;
    union {
        struct gemm_args gemm;
        struct embedding_forward_args embedding;
        struct embedding_backward_args embedding_backward;
        struct rope_args rope;
        struct rmsnorm_forward_args rmsnorm;
        struct head_norm_forward_args head_norm;
        struct layernorm_forward_args layernorm;
        struct attention_forward_args attention;
        struct route_backward_args route_backward;
        struct combine_forward_args combine;
        struct gelu_forward_args gelu;
        struct gelu_backward_args gelu_backward;
        struct dropout_args dropout;
    } a;
    static const float zeros[2048];
    if (op_info(op)->args_bytes > sizeof a) {
        wrapper_pass(wrapper, stream, op, args);
        return;
    }
    memcpy(&a, args, op_info(op)->args_bytes);
    if (op == OP_MULTIPLY && (mutation == NO_FACTOR || mutation == NO_STREAM_FACTOR))
        return;
    /* only adapters add a product to a tensor: to outputs of B transposed, and to input gradients */
    if (op == OP_GEMM && a.gemm.c.data == a.gemm.d.data &&
        mutation == (a.gemm.transpose_b ? NO_ADAPTER : NO_ADAPTER_GRADIENT))
        return;
    if (op == OP_DROPOUT && mutation == NO_DROPOUT)
        a.dropout.probability = 1e-12;
    if (op == OP_DROPOUT && mutation == OTHER_DROPOUT)
        a.dropout.salt += a.dropout.accumulate;
    if (op == OP_ROPE && mutation == NO_ROPE)
        return;
    if (op == OP_ROPE && mutation == ROPE_FORM)
        a.rope.interleaved = !a.rope.interleaved;
    if (op == OP_RMSNORM_FORWARD && mutation == NORM_EPS)
        a.rmsnorm.eps *= 2;
    if (op == OP_HEAD_NORM_FORWARD && mutation == NORM_EPS)
        a.head_norm.eps *= 2;
    if (op == OP_HEAD_NORM_FORWARD && mutation == NO_HEAD_GAIN) /* 0 and one_plus */
        a.head_norm.one_plus = true, a.head_norm.weight.data = (void *)zeros;
    if (op == OP_COMBINE_FORWARD && mutation == NO_EXPERT_WEIGHT)
        a.combine.weights = (struct tensor){0};
    if (op == OP_ROUTE_BACKWARD && mutation == NO_AUXILIARY)
        a.route_backward.load = a.route_backward.labels = (struct tensor){0};
    if (op == OP_ROUTE_BACKWARD && mutation == NO_ROUTER_GRADIENT) /* of equal gradients of weights */
        a.route_backward.d_weights.data = (void *)zeros;
    if (op == OP_LAYERNORM_FORWARD && mutation == NORM_EPS)
        a.layernorm.eps *= 2;
    if (op == OP_ADD && mutation == NO_RESIDUAL)
        return;
    /* queries and keys are columns of wider rows */
    if (op == OP_RMSNORM_FORWARD && mutation == NO_PROJECTION_GAIN && a.rmsnorm.x.stride > a.rmsnorm.x.cols)
        a.rmsnorm.one_plus = true, a.rmsnorm.weight.data = (void *)zeros;
    if (op == OP_LAYERNORM_FORWARD && mutation == NO_PROJECTION_GAIN && a.layernorm.x.stride > a.layernorm.x.cols)
        a.layernorm.one_plus = true, a.layernorm.weight.data = (void *)zeros;
    if (op == OP_LAYERNORM_FORWARD && mutation == NO_NORM_BIAS && tensor_present(&a.layernorm.bias))
        a.layernorm.bias.data = (void *)zeros;
    if (op == OP_ATTENTION_FORWARD)
        mutate_attention(&a.attention, mutation);
    if (op == OP_GEMM)
        mutate_gemm(&a.gemm, planted);
    if (op == OP_GELU_FORWARD || op == OP_GELU_BACKWARD) {
        bool *form = op == OP_GELU_FORWARD ? &a.gelu.tanh_form : &a.gelu_backward.tanh_form;
        bool head = (op == OP_GELU_FORWARD ? a.gelu.x.cols : a.gelu_backward.x.cols) == planted->settings->hidden;
        *form ^= mutation == (head ? HEAD_GELU_FORM : GELU_FORM);
    }
    if (op == OP_GELU_BACKWARD && mutation == NO_BIAS_GRADIENT)
        a.gelu_backward.sum = (struct tensor){0};
    if (op == OP_EMBEDDING_FORWARD && mutation == NO_TOKEN_DROPOUT)
        a.embedding.scale = (struct tensor){0};
    if (op == OP_EMBEDDING_BACKWARD && mutation == PADDING_TRAINED)
        a.embedding_backward.padding = -1;
    wrapper_pass(wrapper, stream, op, &a);
}

static const struct tokenizer *golden_tokenizer(const struct golden *g)
{
    return tokenizer_find(g->settings.family->tokenizer);
}

/* The token dropout of a batch with the wrong share of masks: of the whole row, padding included or not. */
static void mutate_scale(struct batch *batch, const struct tokenizer *tokenizer, enum mutation mutation)
{
    for (int64_t row = 0; row < batch->rows; row++) {
        int64_t at = row * batch->row_tokens, length = 0;
        for (int64_t s = 0; s < batch->max_segments; s++)
            length += batch->segment_length[row * batch->max_segments + s];
        if (mutation == PADDED_RATIO)
            length = batch->row_tokens;
        masking_scale(tokenizer, batch->tokens + at, length, batch->scale + at);
    }
}

/* -- One comparison ---------------------------------------------------------------------------------------------- */

struct run_outcome {
    double logits, gradients, losses, final;
    char worst[128];
    double *gradient_bits;
    int64_t gradient_count;
};

static void collect_gradients(struct engine *e, struct run_outcome *o)
{
    for (int u = 0; u < e->model->unit_count; u++)
        for (int s = 0; s < STORAGE_COUNT; s++) {
            struct store_shard shard = e->store->class->shard(e->store, &e->model->units[u], (enum storage_class)s);
            if (!tensor_present(&shard.gradient))
                continue;
            struct tensor host = fetch(&e->streams[0], &shard.gradient);
            o->gradient_bits =
                memory_grow(o->gradient_bits, (o->gradient_count + shard.gradient.cols) * (int64_t)sizeof(double));
            for (int64_t i = 0; i < shard.gradient.cols; i++)
                o->gradient_bits[o->gradient_count++] = reference_load(&host, 0, i);
            memory_free(host.data);
        }
}

static struct run_outcome run_case(const struct golden *g, struct executor *inner, enum dtype dtype,
                                   enum deck_recompute recompute, enum mutation mutation, int64_t head_tokens,
                                   int steps)
{
    struct run_outcome o = {0};
    struct wrapper mutant;
    struct model_settings settings = g->settings;
    settings.recompute.others = recompute;
    struct planted planted = {mutation, &settings};
    wrapper_create(&mutant, inner, mutate, &planted);
    if (mutation == NO_SCALING)
        settings.rope.factor = 0;
    struct batch batch = g->batch;
    if (mutation == PADDED_RATIO || mutation == ROW_RATIO) {
        batch.scale = memory_allocate(batch.rows * batch.row_tokens * (int64_t)sizeof *batch.scale);
        mutate_scale(&batch, golden_tokenizer(g), mutation);
    }
    int64_t tokens = g->batch.rows * g->batch.row_tokens;
    struct model model;
    model_create(&model, &settings, tokens, head_tokens > 0 ? head_tokens : tokens);
    struct comm *self = comm_self();
    struct group *group = comm_group_create(self, NULL, "data");
    struct engine engine;
    struct engine_settings engine_settings = {.memory = {.compute = dtype,
                                                         .statistic = dtype == DTYPE_BF16 ? DTYPE_F32 : dtype,
                                                         .slots = {1},
                                                         .rows = g->batch.rows,
                                                         .row_tokens = g->batch.row_tokens,
                                                         .max_segments = g->batch.max_segments},
                                              .optimizer = g->optimizer};
    const struct parallel_groups groups = groups_replicated(group);
    engine_create(&engine, &mutant.executor, &model, &groups, &engine_settings);
    golden_load(g, &engine);
    struct schedule schedule = schedule_create(1, 1, false);

    struct engine_result result = engine_evaluate(&engine, &batch, 1);
    CHECK(result.labels == (double)g->batch.valid);
    if (head_tokens == 0) {
        double *logits = golden_engine_logits(g, &engine);
        o.logits = golden_distance(logits, g->logits, tokens * settings.vocabulary);
        free(logits);
    }
    result = engine_gradients(&engine, &schedule, &batch);
    o.gradients = golden_gradient_distance(g, &engine, result.labels, o.worst);
    collect_gradients(&engine, &o);
    for (int step = 0; step < steps; step++) {
        result = engine_step(&engine, &schedule, &batch, g->lr);
        double distance = fabs(result.loss_sum / result.labels / g->losses[step] - 1);
        if (!(distance <= o.losses))
            o.losses = distance;
        if (mutation == NONE && dtype != DTYPE_BF16)
            CHECK_NEAR(result.grad_norm, g->norms[step], 1e-4, 0);
    }
    char worst[128];
    if (steps == g->steps)
        o.final = golden_final_distance(g, &engine, worst);
    if (batch.scale != g->batch.scale)
        memory_free(batch.scale);
    schedule_destroy(&schedule);
    engine_destroy(&engine);
    model_destroy(&model);
    comm_group_destroy(group);
    comm_destroy(self);
    return o;
}

static bool within(const struct run_outcome *o, const struct bounds *b)
{
    return o->logits <= b->logits && o->gradients <= b->gradients && o->losses <= b->losses;
}

static void compare(const struct golden *g, const char *executor_name, struct executor *executor, enum dtype dtype,
                    const struct bounds *bounds)
{
    struct run_outcome o = run_case(g, executor, dtype, DECK_RECOMPUTE_NONE, NONE, 0, g->steps);
    printf("%s: %s %s: logits %.2e, gradients %.2e (%s), losses %.2e, final weights %.2e\n", g->path, executor_name,
           dtype_name(dtype), o.logits, o.gradients, o.worst, o.losses, o.final);
    CHECK(o.logits <= bounds->logits);
    CHECK(o.gradients <= bounds->gradients);
    CHECK(o.losses <= bounds->losses);
    /* what is dropped is made again bit for bit */
    for (int policy = DECK_RECOMPUTE_ONLY_NORMS; policy <= DECK_RECOMPUTE_FULL; policy++) {
        struct run_outcome r = run_case(g, executor, dtype, (enum deck_recompute)policy, NONE, 0, 0);
        CHECK(r.gradient_count == o.gradient_count &&
              memcmp(r.gradient_bits, o.gradient_bits, (size_t)o.gradient_count * sizeof(double)) == 0);
        free(r.gradient_bits);
    }
    /* the head in uneven slices */
    struct run_outcome sliced = run_case(g, executor, dtype, DECK_RECOMPUTE_NORMS, NONE, 100, 3);
    CHECK(within(&sliced, bounds));
    free(sliced.gradient_bits);
    free(o.gradient_bits);
}

/* The greedy continuation, through the cache of keys and values in calls of several tokens, is that of the file. */
static void test_continuation(const struct golden *g, struct executor *executor)
{
    enum { CALL = 7 };
    const int64_t positions = g->prompt_count + g->greedy_count;
    struct model model;
    model_create(&model, &g->settings, CALL, 1);
    struct comm *self = comm_self();
    struct group *group = comm_group_create(self, NULL, "data");
    const struct engine_settings settings = {.memory = {.use = MEMORY_GENERATE,
                                                        .compute = DTYPE_F32,
                                                        .statistic = DTYPE_F32,
                                                        .slots = {1},
                                                        .rows = 1,
                                                        .row_tokens = CALL,
                                                        .max_segments = 1},
                                             .sequences = 1,
                                             .positions = positions};
    const struct parallel_groups groups = groups_replicated(group);
    struct engine engine;
    engine_create(&engine, executor, &model, &groups, &settings);
    golden_load(g, &engine);
    int32_t tokens[2 * GOLDEN_TOKENS];
    memcpy(tokens, g->prompt, sizeof g->prompt);
    for (int64_t count = g->prompt_count; count < positions; count++) {
        struct tensor logits = {0};
        for (int64_t before; (before = engine_length(&engine, 0)) < count;) {
            const struct engine_piece piece = {0, tokens + before, MIN(count - before, CALL), true};
            logits = engine_extend(&engine, &piece, 1);
        }
        int32_t best = 0;
        for (int32_t v = 1; v < (int32_t)logits.cols; v++)
            best = tensor_get(&logits, 0, v) > tensor_get(&logits, 0, best) ? v : best;
        tokens[count] = best;
    }
    CHECK(memcmp(tokens + g->prompt_count, g->greedy, (size_t)g->greedy_count * sizeof *g->greedy) == 0);
    engine_destroy(&engine);
    model_destroy(&model);
    comm_group_destroy(group);
    comm_destroy(self);
}

/* Is the token in a sequence? */
static bool reads_padding(const struct batch *b, int64_t padding)
{
    for (int64_t s = 0; s < b->rows * b->max_segments; s++)
        for (int64_t t = 0; t < b->segment_length[s]; t++)
            if (b->tokens[b->segment_start[s] + t] == padding)
                return true;
    return false;
}

static bool applies(const struct golden *g, enum mutation mutation)
{
    const struct family *family = g->settings.family;
    const bool of_adapters = mutation >= NO_FACTOR, drops = g->settings.lora.dropout > 0;
    if (mutation >= NO_DROPOUT || (mutation == NO_ADAPTER_GRADIENT && drops)) /* dropout adds it, not a product */
        return mutation >= NO_DROPOUT && drops;
    if (of_adapters || g->settings.lora.rank > 0) /* the other mutations have models without adapters */
        return of_adapters && g->settings.lora.rank > 0;
    switch (mutation) {
    case NO_SCALING:
        return g->settings.rope.factor > 1;
    case KV_MAP:
        return g->settings.kv_heads < g->settings.heads;
    case WINDOW_EDGE:
        return model_has_window(&g->settings);
    case NO_NORM_BIAS:
        return family->layer_norm;
    case NO_BIAS:
    case NO_BIAS_GRADIENT:
        return model_has_bias(&g->settings, LINEAR_QKV);
    case NO_DECODER_BIAS:
        return family->decoder_bias;
    case NO_HEAD_GAIN:
        return family->names.q_norm != NULL && !family->whole_qk_norm;
    case NO_PROJECTION_GAIN:
        return family->whole_qk_norm;
    case NO_STREAM_FACTOR:
        return family->scaled_residual;
    case NO_RESIDUAL: /* only post-norm blocks have ops for it */
        return family->post_norm;
    case NO_EXPERT_WEIGHT:
    case NO_AUXILIARY:
    case NO_ROUTER_GRADIENT:
        return family->experts > 0;
    case GELU_FORM:
        return family->gelu;
    case HEAD_GELU_FORM:
        return family->transform;
    case NO_TOKEN_DROPOUT:
    case PADDED_RATIO:
        return g->settings.token_dropout;
    case PADDING_TRAINED:
        return reads_padding(&g->batch, family->padding);
    case ROW_RATIO:
        return g->settings.token_dropout && g->batch.max_segments > 1;
    default:
        return true;
    }
}

/* The factors that the loader makes are those that transformers has. */
static void test_scale(const struct golden *g)
{
    const struct batch *b = &g->batch;
    float *scale = memory_allocate(b->row_tokens * (int64_t)sizeof *scale);
    for (int64_t s = 0; s < b->rows * b->max_segments; s++) {
        int64_t start = b->segment_start[s], length = b->segment_length[s], different = 0;
        masking_scale(golden_tokenizer(g), b->tokens + start, length, scale);
        for (int64_t t = 0; t < length; t++)
            different += !(fabsf(scale[t] - b->scale[start + t]) <= 1e-6f * b->scale[start + t]);
        CHECK(different == 0);
    }
    memory_free(scale);
}

/* bf16 rounds what is stored, so the distance to the golden is that of any executor that does: the CPU's. Sums in
 * another order move it little. */
static void compare_rounded(const struct golden *g, const char *name, struct executor *executor, struct executor *cpu)
{
    struct run_outcome o = run_case(g, executor, DTYPE_BF16, DECK_RECOMPUTE_NONE, NONE, 0, g->steps);
    struct run_outcome c = run_case(g, cpu, DTYPE_BF16, DECK_RECOMPUTE_NONE, NONE, 0, g->steps);
    printf("%s: %s bf16: logits %.2e, gradients %.2e (%s), losses %.2e; cpu's %.2e, %.2e (%s), %.2e\n", g->path, name,
           o.logits, o.gradients, o.worst, o.losses, c.logits, c.gradients, c.worst, c.losses);
    CHECK(o.logits <= 1.5 * c.logits && o.gradients <= 1.5 * c.gradients);
    free(o.gradient_bits);
    free(c.gradient_bits);
}

/* Another executor: the goldens alone, in fp32 and bf16. */
static int run_named(const char *name)
{
    struct executor *executor = executor_named(name), *cpu = cpu_executor_create(2);
    for (int c = 0; c < CASES; c++) {
        struct golden g;
        golden_open(&g, cases[c]);
        compare(&g, name, executor, DTYPE_F32, &single_bounds);
        if (g.prompt_count > 0)
            test_continuation(&g, executor);
        compare_rounded(&g, name, executor, cpu);
        golden_close(&g);
    }
    executor->class->destroy(executor);
    cpu->class->destroy(cpu);
    return check_end();
}

int main(int count, char **arguments)
{
    if (count > 1)
        return run_named(arguments[1]);
    struct executor *reference = reference_executor_create(), *cpu = cpu_executor_create(2);
    int found[MUTATIONS] = {0};
    for (int c = 0; c < CASES; c++) {
        struct golden g;
        golden_open(&g, cases[c]);
        if (g.settings.token_dropout)
            test_scale(&g);
        struct run_outcome o = run_case(&g, reference, DTYPE_F64, DECK_RECOMPUTE_NORMS, NONE, 0, 3);
        printf("%s: oracle f64: logits %.2e, gradients %.2e (%s), losses %.2e\n", g.path, o.logits, o.gradients,
               o.worst, o.losses);
        CHECK(within(&o, &double_bounds));
        free(o.gradient_bits);
        compare(&g, "cpu", cpu, DTYPE_F32, &single_bounds);
        if (g.prompt_count > 0)
            test_continuation(&g, cpu);
        for (int m = NO_ROPE; m < MUTATIONS; m++) {
            if (!applies(&g, (enum mutation)m))
                continue;
            struct run_outcome mutated = run_case(&g, cpu, DTYPE_F32, DECK_RECOMPUTE_NORMS, (enum mutation)m, 0, 3);
            printf("    %-22s logits %.2e, gradients %.2e, losses %.2e\n", mutation_names[m], mutated.logits,
                   mutated.gradients, mutated.losses);
            CHECK(!within(&mutated, &single_bounds));
            found[m]++;
            free(mutated.gradient_bits);
        }
        golden_close(&g);
    }
    for (int m = NO_ROPE; m < MUTATIONS; m++)
        CHECK(found[m] > 0);
    reference->class->destroy(reference);
    cpu->class->destroy(cpu);
    return check_end();
}
