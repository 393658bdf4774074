#include "architecture/settings.h"
#include "base/error.h"
#include "core/op.h"

#include <math.h>

/* Limits beyond which byte counts would overflow their types. */
enum { MAX_LAYERS = 100000, WIDEST_HEAD = 256 };
static const double MAX_PARAMETERS = 1e15;

static int check_task(const struct model_settings *s)
{
    const struct task_settings *task = &s->task;
    const char *name = task->head == DECK_HEAD_TOKEN ? "token" : task->head == DECK_HEAD_NONE ? "none" : "sequence";
    const bool regression = task->problem == DECK_PROBLEM_REGRESSION;
    if (task->head == DECK_HEAD_LM)
        return ERROR_NONE;
    if (s->family->task[task->head].architecture == NULL)
        return error_user("key model.head = \"%s\": models of family %s have no such head", name, s->family->name);
    if (task->head == DECK_HEAD_NONE)
        return ERROR_NONE;
    if (task->head == DECK_HEAD_TOKEN && regression)
        return error_user("key model.problem_type = \"regression\": needs model.head = \"sequence\"");
    if (task->head == DECK_HEAD_TOKEN && task->pooling != DECK_POOLING_AUTO)
        return error_user("key model.pooling: needs model.head = \"sequence\"");
    if (task->labels < (regression ? 1 : 2))
        return error_user("key model.num_labels = %lld: must be at least %d with model.head = \"%s\": the %s",
                          (long long)task->labels, regression ? 1 : 2, name,
                          regression ? "numbers of a sequence" : "number of classes");
    return ERROR_NONE;
}

static int check_experts(const struct model_settings *s)
{
    const bool mixture = s->family->experts > 0;
    if (s->experts > 0 && !mixture)
        return error_user("key model.num_local_experts = %lld: models of family %s have no experts",
                          (long long)s->experts, s->family->name);
    if (!mixture)
        return ERROR_NONE;
    if (s->experts < 1 || s->experts > EXPERTS_MOST)
        return error_user("key model.num_local_experts = %lld: must be from 1 to %d for family %s",
                          (long long)s->experts, EXPERTS_MOST, s->family->name);
    if (s->experts_per_token < 1 || s->experts_per_token > s->experts)
        return error_user("key model.num_experts_per_tok = %lld: must be from 1 to model.num_local_experts = %lld",
                          (long long)s->experts_per_token, (long long)s->experts);
    return ERROR_NONE;
}

int model_settings_check_sizes(const struct model_settings *s)
{
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = {{"layers", s->layers}, {"hidden", s->hidden},     {"ffn", s->ffn},
                 {"heads", s->heads},   {"kv_heads", s->kv_heads}, {"vocabulary", s->vocabulary}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].value <= 0)
            return error_user("key model.%s: not set, and neither model.preset nor data.train determines it; set it",
                              sizes[i].key);
    int code = check_task(s);
    if (code == ERROR_NONE)
        code = check_experts(s);
    if (code != ERROR_NONE)
        return code;
    double parameters = model_matrix_elements(s) + (double)s->vocabulary * (double)s->hidden;
    if (s->layers > MAX_LAYERS || parameters > MAX_PARAMETERS)
        return error_user(
            "keys of model: %lld layers and %.3g parameters; at most %d layers and %g parameters are possible",
            (long long)s->layers, parameters, MAX_LAYERS, MAX_PARAMETERS);
    if (s->heads % s->kv_heads != 0)
        return error_user("key model.kv_heads = %lld: must divide model.heads = %lld", (long long)s->kv_heads,
                          (long long)s->heads);
    if (s->head_dim <= 0)
        return error_user(
            "key model.head_dim: not set, and model.hidden = %lld is not a multiple of model.heads = %lld; set it",
            (long long)s->hidden, (long long)s->heads);
    if (s->head_dim % 2 != 0 || s->head_dim > WIDEST_HEAD)
        return error_user("key model.head_dim = %lld: must be even and at most %d", (long long)s->head_dim,
                          WIDEST_HEAD);
    if (model_has_window(s) && !model_causal(s))
        return error_user("key model.sliding_window = %lld: needs a causal model; set it to 0, or model.objective = "
                          "\"causal\"",
                          (long long)s->sliding_window);
    if ((float)s->norm_eps < 1e-35f) /* 0 in fp32, or nearly so */
        return error_user("key model.norm_eps = %g: must be from 1e-35 to 1, or 0 for the preset's", s->norm_eps);
    if (s->rope.factor > 1 && s->rope.type != DECK_ROPE_LINEAR &&
        !(s->rope.original > 0 && s->rope.low > 0 && s->rope.high > s->rope.low))
        return error_user("key model.rope_scaling.factor = %g: needs original > 0 and 0 < low < high in "
                          "model.rope_scaling, not %lld, %g, %g",
                          s->rope.factor, (long long)s->rope.original, s->rope.low, s->rope.high);
    return ERROR_NONE;
}

int model_kv_replicas(const struct model_settings *s)
{
    const int ranks = tensor_ranks(&s->tensor);
    return s->kv_heads < ranks ? ranks / (int)s->kv_heads : 1;
}

int tensor_parallel_check(const struct model_settings *s, const char *name)
{
    const int ranks = tensor_ranks(&s->tensor);
    if (s->experts % ranks != 0)
        return error_user("%s = %d: must divide model.num_local_experts, %lld", name, ranks, (long long)s->experts);
    if (s->heads % ranks != 0)
        return error_user("%s = %d: must divide model.heads, %lld", name, ranks, (long long)s->heads);
    if (s->kv_heads % ranks != 0 && ranks % s->kv_heads != 0)
        return error_user("%s = %d: must divide model.kv_heads, %lld, or be a multiple of it", name, ranks,
                          (long long)s->kv_heads);
    if (s->experts == 0 && s->ffn % ranks != 0) /* experts are whole */
        return error_user("%s = %d: must divide model.ffn, %lld", name, ranks, (long long)s->ffn);
    if (s->vocabulary < ranks)
        return error_user("%s = %d: must be at most model.vocabulary, %lld", name, ranks, (long long)s->vocabulary);
    return ERROR_NONE;
}

int model_settings_check(const struct model_settings *s, const struct executor *executor)
{
    const int64_t widest = executor->class->widest_head;
    if (widest == 0 || s->head_dim <= widest)
        return ERROR_NONE;
    return error_user("key model.head_dim = %lld (model.hidden / model.heads if it is not set): at most %lld on a GPU; "
                      "with device.kind = \"cpu\" at most %d",
                      (long long)s->head_dim, (long long)widest, WIDEST_HEAD);
}

double model_stream_factor(const struct model_settings *s)
{
    enum { UNSCALED_LAYERS = 36 };
    return s->family->scaled_residual ? sqrt((double)s->layers / UNSCALED_LAYERS) : 1;
}

static int64_t norm_count(const struct model_settings *s)
{
    return s->family->layer_norm ? 2 * s->hidden : s->hidden;
}

static int64_t final_norm_count(const struct model_settings *s)
{
    return s->family->final_norm_unbiased ? s->hidden : norm_count(s);
}

static int64_t qk_norm_count(const struct model_settings *s)
{
    if (s->family->names.q_norm == NULL)
        return 0;
    return (s->family->whole_qk_norm ? s->heads + s->kv_heads : 2) * s->head_dim;
}

static int64_t task_head_count(const struct model_settings *s)
{
    const struct family_task *task = &s->family->task[s->task.head];
    const int64_t dense = task->dense != NULL ? s->hidden * s->hidden + s->hidden : 0;
    return final_norm_count(s) + dense + s->task.labels * s->hidden + (task->bias ? s->task.labels : 0);
}

static int64_t head_count(const struct model_settings *s)
{
    const struct family *family = s->family;
    if (s->task.head != DECK_HEAD_LM)
        return task_head_count(s);
    int64_t head = final_norm_count(s) + (s->tied ? 0 : s->vocabulary * s->hidden);
    if (family->decoder_bias)
        head += s->vocabulary;
    if (family->transform)
        head += s->hidden * s->hidden + s->hidden + norm_count(s);
    return head;
}

bool model_has_bias(const struct model_settings *s, int linear)
{
    const bool added = linear == LINEAR_QKV || linear == LINEAR_O ? s->attention_bias : s->mlp_bias;
    return s->family->bias[linear] || added;
}

/* Returns the elements of a block's matrices. */
static int64_t block_matrix_count(const struct model_settings *s)
{
    const int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    const int64_t mlp = MAX(s->experts, 1) * (s->family->gelu ? 2 : 3) * s->hidden * s->ffn;
    return s->hidden * (q + 2 * kv) + q * s->hidden + mlp + s->experts * s->hidden; /* with the router */
}

int64_t model_muon_count(const struct model_settings *s)
{
    return s->muon ? s->layers * block_matrix_count(s) : 0;
}

int64_t model_parameter_count(const struct model_settings *s)
{
    const struct family *family = s->family;
    int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim, block = block_matrix_count(s);
    block += 2 * norm_count(s) + qk_norm_count(s);
    const int64_t biases[LINEAR_COUNT] = {[LINEAR_QKV] = q + 2 * kv,
                                          [LINEAR_O] = s->hidden,
                                          [LINEAR_UP] = (family->gelu ? 1 : 2) * s->ffn,
                                          [LINEAR_DOWN] = s->hidden};
    for (int linear = 0; linear < LINEAR_COUNT; linear++)
        block += model_has_bias(s, linear) ? biases[linear] : 0;
    return s->vocabulary * s->hidden + s->layers * block + head_count(s);
}

int64_t model_adapter_count(const struct model_settings *s)
{
    const int64_t q = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim;
    const int64_t up = !s->family->gelu && s->family->names.gate == NULL ? 2 * s->ffn : s->ffn;
    const struct {
        int64_t inputs, outputs;
    } shapes[LORA_TARGETS] = {
        [LORA_Q] = {s->hidden, q},        [LORA_K] = {s->hidden, kv},    [LORA_V] = {s->hidden, kv},
        [LORA_O] = {q, s->hidden},        [LORA_GATE] = {s->hidden, up}, [LORA_UP] = {s->hidden, up},
        [LORA_DOWN] = {s->ffn, s->hidden}};
    int64_t count = 0;
    for (int t = 0; t < LORA_TARGETS; t++)
        if (s->lora.targets[t])
            count += shapes[t].inputs + shapes[t].outputs;
    return s->layers * s->lora.rank * count;
}

int64_t model_trained_count(const struct model_settings *s)
{
    if (s->lora.rank > 0)
        return model_adapter_count(s) + (model_trains_head(s) ? head_count(s) : 0);
    return s->freeze == DECK_FREEZE_TRUNK ? head_count(s) : model_parameter_count(s);
}

double model_head_elements(const struct model_settings *s)
{
    const double hidden = (double)s->hidden;
    if (s->task.head != DECK_HEAD_LM)
        return s->task.head == DECK_HEAD_TOKEN ? hidden * (double)s->task.labels : 0;
    return hidden * (double)s->vocabulary + (s->family->transform ? hidden * hidden : 0);
}

double model_matrix_elements(const struct model_settings *s)
{
    const struct family *family = s->family;
    double q = (double)s->heads * (double)s->head_dim, kv = (double)s->kv_heads * (double)s->head_dim;
    double hidden = (double)s->hidden, mlp = (family->gelu ? 2 : 3) * hidden * (double)s->ffn;
    if (s->experts > 0)
        mlp = (double)s->experts_per_token * mlp + (double)s->experts * hidden;
    return (double)s->layers * (hidden * (q + 2 * kv) + q * hidden + mlp) + model_head_elements(s);
}
