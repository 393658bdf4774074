#include "estimate/estimate_report.h"
#include "base/bytes.h"
#include "base/log.h"
#include "setup/layout.h"
#include "setup/settings.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns the lower bound of a step's seconds, at the devices' peak with unquantized GEMMs; 0 if the peak is not known.
 */
static double seconds_at_peak(const struct estimate *f)
{
    double flops = f->token_flops[FLOPS_CAUSAL] * (double)f->step_tokens;
    return f->setup.peak > 0 ? flops / f->setup.peak / (double)f->ranks : 0;
}

static double epochs_of_run(const struct estimate *f)
{
    return f->epoch_steps > 0 ? (double)f->setup.steps / f->epoch_steps : 0;
}

/* -- Text -------------------------------------------------------------------------------------------------------- */

static void whole(const char *name, int64_t value)
{
    printf("  %-28s %18lld\n", name, (long long)value);
}

static void real(const char *name, double value)
{
    printf("  %-28s %18.2f\n", name, value);
}

static void mebibytes(const char *name, int64_t bytes)
{
    printf("  %-28s %18.1f\n", name, (double)bytes / (1 << 20));
}

static void print_model(const struct estimate *f)
{
    const struct model_settings *m = &f->setup.model;
    printf("model\n");
    printf("  %-28s %18s\n", "family", m->family->name);
    whole("layers", m->layers);
    whole("hidden", m->hidden);
    whole("ffn", m->ffn);
    whole("heads", m->heads);
    whole("kv heads", m->kv_heads);
    whole("head dimension", m->head_dim);
    whole("vocabulary", m->vocabulary);
    printf("  %-28s %18s\n", "tied head", m->tied ? "yes" : "no");
    whole("parameters", f->parameters);
    whole("trained parameters", f->trained);
    printf("  %-28s %18s\n", "quantized", f->quantized);
}

static void print_candidates(const struct layout_choice *choice, bool timed)
{
    enum { SHOWN = 12 };
    if (choice->count > 0)
        printf("layouts%37s %18s %12s\n", "memory, MiB", "received a step", "s a step");
    for (int i = 0; i < choice->count && i < SHOWN; i++) {
        const struct layout_candidate *c = &choice->candidates[i];
        char *text = layout_candidate_text(c), seconds[32] = "-";
        if (timed)
            snprintf(seconds, sizeof seconds, "%.4g", c->seconds);
        printf("  %-26s %15.1f %18.1f %12s%s%s\n", text, (double)c->need / (1 << 20), (double)c->moved / (1 << 20),
               seconds, c->fits ? "" : "  too large", i == 0 ? "  chosen" : "");
        free(text);
    }
    if (choice->count > SHOWN)
        printf("  and %d that are worse\n", choice->count - SHOWN);
}

static void print_memory(const struct estimate *f)
{
    const struct estimate_rank *rank = estimate_neediest(f);
    printf("memory of a rank, MiB\n");
    for (int c = 0; c < BUDGET_HOST; c++) {
        mebibytes(budget_category_name((enum budget_category)c), rank->memory[c]);
        if (c == BUDGET_WEIGHTS && rank->quantized > 0)
            mebibytes("  of which quantized weights", rank->quantized);
    }
    mebibytes("total", rank->need);
    if (f->setup.fits_recompute)
        log_print(stdout, "  %-28s %18s\n", "recompute policies, layers", f->setup.fitted_layers);
    if (f->setup.fits_recompute && f->setup.fitted_offload[0] != '\0')
        log_print(stdout, "  %-28s %18s\n", "offloaded, layers", f->setup.fitted_offload);
    if (f->setup.fits_head)
        printf("  %-28s %18lld\n", "tokens of a head slice", (long long)f->setup.head_tokens);
    if (rank->memory[BUDGET_HOST] > 0)
        mebibytes("offloaded, on host", rank->memory[BUDGET_HOST]);
    if (rank->snapshot > 0)
        mebibytes("snapshot, on host", rank->snapshot);
    printf("  %-28s %18.1f\n", "rows of two steps, on host", f->batches / (1 << 20));
}

static void print_arithmetic(const struct estimate *f)
{
    printf("FLOPs of training            %10s %18s\n", "a token", "a step");
    for (int c = 0; c < FLOPS_CONVENTIONS; c++)
        printf("  %-24s %12.4e %18.4e\n", flops_name((enum flops_convention)c), f->token_flops[c],
               f->token_flops[c] * (double)f->step_tokens);
    printf("  %-37s %18.4e\n", "ops of one rank, recompute included", estimate_neediest(f)->flops);
    if (f->setup.peak > 0)
        printf("  %-37s %18.4g\n",
               precision_quantizes(&f->setup.model.precision) ? "seconds a step at peak, unquantized"
                                                              : "seconds a step at peak, a lower bound",
               seconds_at_peak(f));
}

/* Prints the predicted time of a step, exposed communication, and days for 1e12 tokens (as NeMo's benchmark). */
static void print_time(const struct estimate *f, const struct machine_rates *rates, bool timed)
{
    if (!timed) {
        printf(
            "time of a step: unknown; measure these CPUs with mpirun -n %lld cistron measure -o FILE, and name FILE in "
            "device.rates_file\n",
            (long long)(f->ranks < rates->node ? f->ranks : rates->node));
        return;
    }
    const struct estimate_rank *rank = estimate_slowest(f);
    const double speed = (double)f->step_tokens / rank->seconds;
    log_print(stdout, "time by the machine profile of %s\n",
              rates->device[0] != '\0' ? rates->device : "an H200, not measured");
    printf("  %-37s %18.4g\n", "seconds a step", rank->seconds);
    printf("  %-37s %18.4g\n", "of which communication", rank->exposed);
    if (stage_count(&f->setup.model.pipeline) > 1)
        printf("  %-37s %18.4g\n", "of which pipeline bubble", rank->bubble);
    printf("  %-37s %18.6g\n", "tokens/s", speed);
    printf("  %-37s %18.2f\n", "days for 1e12 tokens", flops_days(FLOPS_QUOTED_TOKENS, speed));
    for (int c = 0; c < FLOPS_CONVENTIONS && f->setup.peak > 0; c++) {
        char name[64];
        snprintf(name, sizeof name, "MFU, %s, %%", flops_name((enum flops_convention)c));
        printf("  %-37s %18.2f\n", name,
               100 * flops_utilisation(f->token_flops[c], speed, f->setup.peak * (double)f->ranks));
    }
}

static void print_traffic(const struct estimate *f)
{
    printf("what each rank receives a step, MiB\n");
    for (int g = 0; g < estimate_neediest(f)->groups; g++) {
        char name[64];
        snprintf(name, sizeof name, "group %s, %lld collectives", estimate_neediest(f)->traffic[g].group,
                 (long long)estimate_neediest(f)->traffic[g].collectives);
        mebibytes(name, estimate_neediest(f)->traffic[g].bytes);
    }
    if (estimate_neediest(f)->groups == 0)
        mebibytes("one rank alone", 0);
}

/* Prints what hosts send outside of steps. */
static void print_hosts(const struct host_traffic *hosts, const struct machine_rates *rates, bool timed)
{
    if (hosts == NULL)
        return;
    printf("messages of rank 0 between hosts %7s %18s %12s\n", "number", "MiB", "s");
    for (enum host_work work = 0; work < HOST_WORKS; work++) {
        char seconds[32] = "-";
        if (timed)
            snprintf(seconds, sizeof seconds, "%.3g", host_seconds(hosts, work, rates));
        printf("  %-28s %9lld %18.1f %12s\n", host_work_name(work), (long long)hosts->of[work].messages,
               (double)hosts->of[work].bytes / (1 << 20), seconds);
    }
    whole("communicators of a rank", hosts->communicators);
    whole("made in rounds", hosts->rounds);
    mebibytes("NCCL on a GPU, about", host_communicator_memory(hosts));
}

static void print_data(const struct estimate *f)
{
    printf("data\n");
    whole("tokens a step", f->step_tokens);
    whole("steps of the run", f->setup.steps);
    settings_warn(f->setup.deck);
    if (f->data_missing != NULL) {
        log_print(stdout, "  %-28s %18s  %s\n", "windows and tokens an epoch", "unknown:", f->data_missing);
        return;
    }
    whole("windows an epoch", f->epoch_windows);
    whole("tokens an epoch", f->epoch_tokens);
    real("steps an epoch, at least", f->epoch_steps);
    real("epochs of the run, at most", epochs_of_run(f));
    for (int d = 0; f->shares != NULL && d < f->stores.count && d < STORE_EPOCHS_SHOWN; d++)
        printf("  %-28s %18.1f  %s\n", "epochs of a store, at most", f->shares[d].epochs, f->shares[d].path);
    if (f->shares != NULL)
        store_epochs_warn(f->shares, f->stores.count);
}

static void print_files(const struct estimate *f)
{
    printf("files, MiB\n");
    mebibytes("checkpoint", f->disk.checkpoint);
    mebibytes("final model", f->disk.model);
    whole("checkpoints that stay, most", f->disk.checkpoints);
    mebibytes("disk, one being written", f->disk.total);
    if (f->disk.free >= 0)
        mebibytes("free at output.folder now", f->disk.free);
}

void estimate_print(const struct estimate_report *report)
{
    const struct estimate *f = report->estimate;
    const struct memory_fit *fit = report->fit;
    print_model(f);
    char *layout = layout_text(f->setup.deck, f->ranks);
    printf("ranks\n");
    whole("ranks", f->ranks);
    whole("ranks of a node", report->rates->node);
    printf("  %-28s %18s\n", "layout", layout);
    free(layout);
    whole("threads of a rank", f->threads);
    whole("micro-batches of a rank", f->setup.micro_batches);
    if (f->idle_ranks > 0)
        whole("ranks without any row", f->idle_ranks);
    print_candidates(report->choice, report->timed);
    print_memory(f);
    print_arithmetic(f);
    print_time(f, report->rates, report->timed);
    print_traffic(f);
    print_hosts(report->hosts, report->rates, report->timed);
    print_data(f);
    print_files(f);
    char need[BYTES_TEXT], limit[BYTES_TEXT];
    printf("a rank needs %s of %s: %s\n", bytes_text(need, (double)fit->need), bytes_text(limit, (double)fit->limit),
           fit->need <= fit->limit ? "it fits" : "it does not fit");
}

/* -- JSON -------------------------------------------------------------------------------------------------------- */

static json_t *model_json(const struct estimate *f)
{
    const struct model_settings *m = &f->setup.model;
    return json_pack("{ss sI sI sI sI sI sI sI sb sI sI ss}", "family", m->family->name, "layers",
                     (json_int_t)m->layers, "hidden", (json_int_t)m->hidden, "ffn", (json_int_t)m->ffn, "heads",
                     (json_int_t)m->heads, "kv_heads", (json_int_t)m->kv_heads, "head_dim", (json_int_t)m->head_dim,
                     "vocabulary", (json_int_t)m->vocabulary, "tied", m->tied, "parameters", (json_int_t)f->parameters,
                     "trained_parameters", (json_int_t)f->trained, "quantized", f->quantized);
}

static json_t *memory_json(const struct estimate *f)
{
    json_t *memory = json_object();
    for (int c = 0; c < BUDGET_HOST; c++)
        json_object_set_new(memory, budget_category_name((enum budget_category)c),
                            json_integer(estimate_neediest(f)->memory[c]));
    json_object_set_new(memory, "total", json_integer(estimate_neediest(f)->need));
    return memory;
}

static json_t *flops_json(const struct estimate *f)
{
    json_t *flops = json_object();
    for (int c = 0; c < FLOPS_CONVENTIONS; c++)
        json_object_set_new(
            flops, flops_name((enum flops_convention)c),
            json_pack("{sf sf}", "token", f->token_flops[c], "step", f->token_flops[c] * (double)f->step_tokens));
    json_object_set_new(flops, "ops_of_a_rank", json_real(estimate_neediest(f)->flops));
    return flops;
}

static json_t *traffic_json(const struct estimate *f)
{
    json_t *traffic = json_object();
    for (int g = 0; g < estimate_neediest(f)->groups; g++)
        json_object_set_new(traffic, estimate_neediest(f)->traffic[g].group,
                            json_pack("{sI sI}", "collectives",
                                      (json_int_t)estimate_neediest(f)->traffic[g].collectives, "bytes",
                                      (json_int_t)estimate_neediest(f)->traffic[g].bytes));
    return traffic;
}

static json_t *hosts_json(const struct host_traffic *hosts, const struct machine_rates *rates, bool timed)
{
    json_t *all = json_pack("{si si sI}", "communicators", hosts->communicators, "rounds", hosts->rounds,
                            "communicator_memory", (json_int_t)host_communicator_memory(hosts));
    for (enum host_work work = 0; work < HOST_WORKS; work++) {
        const struct comm_traffic *t = &hosts->of[work];
        json_object_set_new(all, host_work_name(work),
                            json_pack("{sI sI sI sI so*}", "messages", (json_int_t)t->messages, "bytes",
                                      (json_int_t)t->bytes, "rounds", (json_int_t)t->rounds, "messages_of_all_ranks",
                                      (json_int_t)t->world_messages, "seconds",
                                      timed ? json_real(host_seconds(hosts, work, rates)) : NULL));
    }
    return all;
}

static json_t *layout_json(const struct estimate *f)
{
    const struct grid_numbers sizes = grid_sizes(&f->setup.shape, (int)f->ranks);
    return json_pack("{ss si si si}", "shard", layout_level((int)f->setup.engine.sharding.level), "replicas",
                     sizes.replicas, "shards", sizes.shard, "context", sizes.context);
}

static json_t *candidates_json(const struct layout_choice *choice, bool timed)
{
    json_t *all = json_array();
    for (const struct layout_candidate *c = choice->candidates; c < choice->candidates + choice->count; c++)
        json_array_append_new(all, json_pack("{ss sI sI sI sI so* sb}", "shard", layout_level(c->shard), "shard_size",
                                             (json_int_t)c->shard_size, "context", (json_int_t)c->context, "memory",
                                             (json_int_t)c->need, "moved", (json_int_t)c->moved, "seconds",
                                             timed ? json_real(c->seconds) : NULL, "fits", c->fits));
    return all;
}

static json_t *data_json(const struct estimate *f)
{
    json_t *data =
        json_pack("{sI sI}", "tokens_a_step", (json_int_t)f->step_tokens, "steps", (json_int_t)f->setup.steps);
    if (f->data_missing != NULL)
        json_object_set_new(data, "unknown", json_string(f->data_missing));
    else
        json_object_update_new(data, json_pack("{sI sI sf sf}", "windows_an_epoch", (json_int_t)f->epoch_windows,
                                               "tokens_an_epoch", (json_int_t)f->epoch_tokens, "steps_an_epoch",
                                               f->epoch_steps, "epochs", epochs_of_run(f)));
    json_t *stores = f->shares != NULL ? json_array() : NULL;
    for (int d = 0; stores != NULL && d < f->stores.count; d++)
        json_array_append_new(stores, json_pack("{ss sf}", "path", f->shares[d].path, "epochs", f->shares[d].epochs));
    if (stores != NULL)
        json_object_set_new(data, "stores", stores);
    return data;
}

void estimate_print_json(const struct estimate_report *report)
{
    const struct estimate *f = report->estimate;
    const struct memory_fit *fit = report->fit;
    json_t *files = json_pack("{sI sI sI sI}", "checkpoint", (json_int_t)f->disk.checkpoint, "final_model",
                              (json_int_t)f->disk.model, "checkpoints", (json_int_t)f->disk.checkpoints, "disk",
                              (json_int_t)f->disk.total);
    if (f->disk.free >= 0)
        json_object_set_new(files, "free", json_integer((json_int_t)f->disk.free));
    json_t *verdict = json_pack("{sI sI sb ss}", "need", (json_int_t)fit->need, "limit", (json_int_t)fit->limit, "fits",
                                fit->need <= fit->limit, "advice", fit->advice);
    json_t *all = json_pack("{so sI si sI sI so so so so so so}", "model", model_json(f), "ranks", (json_int_t)f->ranks,
                            "threads", f->threads, "micro_batches", (json_int_t)f->setup.micro_batches, "idle_ranks",
                            (json_int_t)f->idle_ranks, "memory", memory_json(f), "flops", flops_json(f), "traffic",
                            traffic_json(f), "data", data_json(f), "files", files, "fit", verdict);
    json_object_set_new(all, "layout", layout_json(f));
    if (report->timed)
        json_object_set_new(all, "time",
                            json_pack("{ss sf sf sf}", "rates", report->rates->device, "seconds",
                                      estimate_slowest(f)->seconds, "exposed", estimate_slowest(f)->exposed, "bubble",
                                      estimate_slowest(f)->bubble));
    if (report->hosts != NULL)
        json_object_set_new(all, "hosts", hosts_json(report->hosts, report->rates, report->timed));
    json_object_set_new(all, "node", json_integer(report->rates->node));
    if (report->choice->count > 0)
        json_object_set_new(all, "candidates", candidates_json(report->choice, report->timed));
    json_object_set_new(all, "weight_copies", json_integer(estimate_neediest(f)->quantized));
    json_object_set_new(all, "host_batches", json_real(f->batches));
    json_object_set_new(all, "host_offloaded", json_integer(estimate_neediest(f)->memory[BUDGET_HOST]));
    json_object_set_new(all, "host_snapshot", json_integer(estimate_neediest(f)->snapshot));
    if (f->setup.fits_recompute)
        json_object_update_new(all, json_pack("{ss ss}", "recompute_layers", f->setup.fitted_layers, "offload_layers",
                                              f->setup.fitted_offload));
    if (f->setup.fits_head)
        json_object_set_new(all, "head_tokens", json_integer(f->setup.head_tokens));
    if (f->setup.peak > 0)
        json_object_set_new(all, "seconds_at_peak", json_real(seconds_at_peak(f)));
    json_dumpf(all, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(all);
}
