/* The one file that knows cuDNN and its front end. */
#include "cuda/cudnn_attention.h"

/* keeps a JSON library, which only files of plans need, out of the compilation */
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

extern "C" {
#include "base/error.h"
}

#include <cstdio>
#include <exception>
#include <string>
#include <unordered_map>

namespace graphs = cudnn_frontend::graph;
using cudnn_frontend::DataType_t;
using tensor = std::shared_ptr<graphs::Tensor_attributes>;

/* Of tensors: by these the library finds the addresses. */
enum id : int64_t {
    Q = 1,
    K,
    V,
    O,
    D_O,
    DQ,
    DK,
    DV,
    STATISTICS,
    LENGTHS,
    Q_START,
    K_START,
    V_START,
    O_START,
    STATISTICS_START
};

struct cudnn_attention {
    struct attention_key key;
    graphs::Graph graph;
    int64_t workspace;
};

/* Of the process's one device; made with the first kernel and kept. */
static cudnnHandle_t library;

/* -- Describing -------------------------------------------------------------------------------------------------- */

namespace
{

/* The library sees [segments, heads, rows of a segment, head size]. Packed segments lie where a table of starts says
 * ("ragged"), others at a fixed distance. What is not full has a table of lengths ("padding mask"). */
class description
{
  public:
    description(const struct attention_key &from, graphs::Graph &to) : key(from), graph(to)
    {
        graph.set_io_data_type(DataType_t::BFLOAT16)
            .set_intermediate_data_type(DataType_t::FLOAT)
            .set_compute_data_type(DataType_t::FLOAT);
        q_start = starts(Q_START);
        k_start = starts(K_START);
        v_start = starts(V_START);
        o_start = starts(O_START);
        statistics_start = starts(STATISTICS_START);
        if (key.layout != ATTENTION_FULL)
            lengths = graph.tensor(column(LENGTHS, key.slots, DataType_t::INT32));
    }

    void forward()
    {
        auto options = graphs::SDPA_attributes();
        set_common(options);
        options.set_generate_stats(true);
        auto [o, statistics] =
            graph.sdpa(matrix(Q, key.heads, key.stride_q, q_start), matrix(K, key.kv_heads, key.stride_k, k_start),
                       matrix(V, key.kv_heads, key.stride_v, v_start), options);
        finish(o, O, key.heads, key.stride_o, o_start);
        statistics->set_output(true);
        place_statistics(*statistics);
    }

    void backward()
    {
        auto options = graphs::SDPA_backward_attributes();
        set_common(options);
        if (key.layout == ATTENTION_PACKED)
            options.set_max_total_seq_len_q(key.rows).set_max_total_seq_len_kv(key.rows);
        auto statistics = graphs::Tensor_attributes();
        place_statistics(statistics);
        auto [dq, dk, dv] = graph.sdpa_backward(
            matrix(Q, key.heads, key.stride_q, q_start), matrix(K, key.kv_heads, key.stride_k, k_start),
            matrix(V, key.kv_heads, key.stride_v, v_start), matrix(O, key.heads, key.stride_o, o_start),
            matrix(D_O, key.heads, key.stride_o, o_start), graph.tensor(statistics), options);
        finish(dq, DQ, key.heads, key.stride_q, q_start);
        finish(dk, DK, key.kv_heads, key.stride_k, k_start);
        finish(dv, DV, key.kv_heads, key.stride_v, v_start);
    }

  private:
    const struct attention_key &key;
    graphs::Graph &graph;
    tensor q_start, k_start, v_start, o_start, statistics_start, lengths;

    static graphs::Tensor_attributes column(id uid, int64_t count, DataType_t type)
    {
        return graphs::Tensor_attributes()
            .set_uid(uid)
            .set_dim({count, 1, 1, 1})
            .set_stride({1, 1, 1, 1})
            .set_data_type(type);
    }

    tensor starts(id uid)
    {
        return key.layout == ATTENTION_PACKED ? graph.tensor(column(uid, key.slots + 1, DataType_t::INT64)) : nullptr;
    }

    void place(graphs::Tensor_attributes &to, id uid, int64_t heads, int64_t stride, const tensor &start) const
    {
        to.set_uid(uid)
            .set_dim({key.slots, heads, key.longest, key.head_dim})
            .set_stride({key.longest * stride, key.head_dim, stride, 1})
            .set_data_type(DataType_t::BFLOAT16);
        if (start != nullptr)
            to.set_ragged_offset(start);
    }

    tensor matrix(id uid, int64_t heads, int64_t stride, const tensor &start) const
    {
        auto from = graphs::Tensor_attributes();
        place(from, uid, heads, stride, start);
        return graph.tensor(from);
    }

    void finish(const tensor &to, id uid, int64_t heads, int64_t stride, const tensor &start) const
    {
        to->set_output(true);
        place(*to, uid, heads, stride, start);
    }

    void place_statistics(graphs::Tensor_attributes &to) const
    {
        const int64_t heads = key.heads;
        to.set_uid(STATISTICS).set_dim({key.slots, heads, key.longest, 1}).set_data_type(DataType_t::FLOAT);
        if (key.layout == ATTENTION_PACKED)
            to.set_stride({heads * key.longest, 1, heads, 1}).set_ragged_offset(statistics_start);
        else
            to.set_stride({heads * key.longest, key.longest, 1, 1});
    }

    template <typename Options> void set_common(Options &options) const
    {
        options.set_name("attention").set_attn_scale(key.scale).set_causal_mask(key.causal != 0);
        if (key.layout != ATTENTION_FULL)
            options.set_padding_mask(true).set_seq_len_q(lengths).set_seq_len_kv(lengths);
    }
};

} // namespace

/* -- Building ---------------------------------------------------------------------------------------------------- */

/* Empty: it is built. */
static std::string build(struct cudnn_attention &attention, int64_t most_workspace)
{
    cudnnStatus_t started = library != nullptr ? CUDNN_STATUS_SUCCESS : cudnnCreate(&library);
    if (started != CUDNN_STATUS_SUCCESS)
        return std::string("it cannot be started: ") + cudnnGetErrorString(started);
    description what(attention.key, attention.graph);
    if (attention.key.backward)
        what.backward();
    else
        what.forward();
    auto status = attention.graph.build(library, {cudnn_frontend::HeurMode_t::A});
    if (status.is_bad())
        return status.get_message();
    status = attention.graph.get_workspace_size(attention.workspace);
    if (status.is_bad())
        return status.get_message();
    return attention.workspace > most_workspace ? "it needs " + std::to_string(attention.workspace >> 20) + " MiB" : "";
}

struct cudnn_attention *cudnn_attention_build(const struct attention_key *key, int64_t most_workspace, char *why,
                                              size_t why_bytes)
{
    auto *attention = new cudnn_attention{*key, {}, 0};
    std::string mistake;
    try {
        mistake = build(*attention, most_workspace);
    } catch (const std::exception &thrown) {
        mistake = thrown.what();
    }
    if (mistake.empty())
        return attention;
    snprintf(why, why_bytes, "%s", mistake.substr(0, mistake.find('\n')).c_str());
    delete attention;
    return nullptr;
}

int64_t cudnn_attention_workspace(const struct cudnn_attention *attention)
{
    return attention->workspace;
}

/* -- Running ----------------------------------------------------------------------------------------------------- */

void cudnn_attention_run(const struct cudnn_attention *attention, cudaStream_t stream,
                         const struct cudnn_attention_addresses *at)
{
    static cudaStream_t set = nullptr; /* what the library was told last: telling it is not free */
    if (stream != set && cudnnSetStream(library, stream) != CUDNN_STATUS_SUCCESS)
        error_fatal("cuDNN: it takes no stream of this device");
    set = stream;

    std::unordered_map<int64_t, void *> addresses = {
        {Q, at->q}, {K, at->k}, {V, at->v}, {O, at->o}, {STATISTICS, at->statistics}};
    if (attention->key.layout != ATTENTION_FULL)
        addresses.insert({LENGTHS, at->lengths});
    if (attention->key.backward)
        addresses.insert({{D_O, at->d_o}, {DQ, at->dq}, {DK, at->dk}, {DV, at->dv}});
    if (attention->key.layout == ATTENTION_PACKED)
        addresses.insert({{Q_START, at->q_start},
                          {K_START, at->k_start},
                          {V_START, at->v_start},
                          {O_START, at->o_start},
                          {STATISTICS_START, at->statistics_start}});
    auto status = attention->graph.execute(library, addresses, at->workspace);
    if (status.is_bad())
        error_fatal("cuDNN: attention: %s", status.get_message().c_str());
}

int64_t cudnn_attention_version(void)
{
    return static_cast<int64_t>(cudnnGetVersion());
}
