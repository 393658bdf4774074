#include "state/piece.h"
#include "base/error.h"
#include "base/range.h"
#include "engine/engine.h"

bool piece_exists(const struct unit *unit, const struct parameter *parameter, enum piece_kind kind)
{
    return kind == PIECE_WEIGHT || (!unit->frozen && (kind == PIECE_M || !unit_uses_muon(unit, parameter->storage)));
}

enum dtype piece_dtype(const struct engine *engine)
{
    return engine->settings.memory.statistic;
}

struct parameter_piece piece_part(const struct parameter_piece *piece, struct parameter_slab slab)
{
    struct parameter_piece part = *piece;
    part.slab = slab;
    part.device = master_part(&piece->device, slab.first - piece->slab.first, slab.count);
    return part;
}

int piece_split(const struct parameter_piece *piece, int (*visit)(void *self, const struct parameter_piece *piece),
                void *self)
{
    const int64_t most = PIECE_BYTES / dtype_size(master_dtype(&piece->device)), count = piece->slab.count;
    int code = ERROR_NONE;
    for (int64_t done = 0; done < count && code == ERROR_NONE; done += most) {
        struct parameter_slab slab = {piece->slab.first + done, MIN(count - done, most)};
        struct parameter_piece part = piece_part(piece, slab);
        code = visit(self, &part);
    }
    return code;
}

/* -- Owned elements, and shares -------------------------------------------------------------------------------- */

static struct parameter_slab owned_slab(const struct unit *unit, const struct parameter *p,
                                        const struct store_shard *shard)
{
    (void)unit;
    return slab_of(p, shard->first, shard->weight.value.cols);
}

/* Returns part number `owner` of `owners` equal parts. */
static struct parameter_slab divided(int64_t first, int64_t count, int owner, int owners)
{
    const int64_t begin = count * owner / owners, end = count * (owner + 1) / owners;
    return (struct parameter_slab){first + begin, end - begin};
}

/* Returns the share of a shard. Ranks that own the same shard divide it. Tensor ranks that have the same part divide
 * the part, since their shards of it may differ. If two stages own the unit, the stage that computes it has the shares.
 */
static struct parameter_slab share_slab(const struct unit *unit, const struct parameter *p,
                                        const struct store_shard *shard)
{
    if (!unit_is_owned(unit))
        return (struct parameter_slab){0};
    const struct parameter_slab cut = divided(shard->first, shard->weight.value.cols, shard->owner, shard->owners);
    const struct parameter_slab part = divided(0, p->part.rows * p->part.cols, p->owner, p->owners);
    return slab_common(slab_of(p, cut.first, cut.count), part);
}

static struct master_weights memory_of(const struct store_shard *shard, enum piece_kind kind)
{
    return kind == PIECE_WEIGHT ? shard->weight
                                : (struct master_weights){.value = kind == PIECE_M ? shard->m : shard->v};
}

static struct parameter_piece piece_of(const struct parameter *p, const struct store_shard *shard, enum piece_kind kind,
                                       struct parameter_slab slab)
{
    const struct master_weights memory = memory_of(shard, kind);
    const int64_t first = slab.count > 0 ? p->offset + slab.first - shard->first : 0;
    return (struct parameter_piece){kind, p, 0, slab, master_part(&memory, first, slab.count)};
}

/* -- All pieces -------------------------------------------------------------------------------------------------- */

typedef struct parameter_slab slab_in(const struct unit *unit, const struct parameter *p,
                                      const struct store_shard *shard);

static int visit_all(struct engine *engine, int kinds, slab_in *slab_in_shard,
                     int (*visit)(void *self, const struct parameter_piece *piece), void *self)
{
    const struct model *model = engine->model;
    struct weight_store *store = engine->store;
    int code = ERROR_NONE;
    for (int kind = 0; kind < kinds; kind++) {
        int number = 0;
        for (int u = 0; u < model->unit_count; u++) {
            struct unit *unit = &model->units[u];
            for (int i = 0; i < unit->parameter_count && code == ERROR_NONE; i++, number++) {
                const struct parameter *p = &unit->parameters[i];
                if (!piece_exists(unit, p, (enum piece_kind)kind))
                    continue;
                const struct store_shard shard = store->class->shard(store, unit, p->storage);
                struct parameter_piece piece =
                    piece_of(p, &shard, (enum piece_kind)kind, slab_in_shard(unit, p, &shard));
                piece.number = number;
                code = visit(self, &piece);
            }
        }
    }
    return code;
}

struct piece_splitter {
    int (*visit)(void *self, const struct parameter_piece *piece);
    void *self;
};

static int split_piece(void *self, const struct parameter_piece *piece)
{
    const struct piece_splitter *splitter = self;
    return piece_split(piece, splitter->visit, splitter->self);
}

int piece_visit(struct engine *engine, int kinds, int (*visit)(void *self, const struct parameter_piece *piece),
                void *self)
{
    struct piece_splitter splitter = {visit, self};
    return visit_all(engine, kinds, owned_slab, split_piece, &splitter);
}

int piece_visit_owned(struct engine *engine, int kinds, int (*visit)(void *self, const struct parameter_piece *piece),
                      void *self)
{
    return visit_all(engine, kinds, owned_slab, visit, self);
}

int piece_visit_shares(struct engine *engine, int kinds, int (*visit)(void *self, const struct parameter_piece *piece),
                       void *self)
{
    return visit_all(engine, kinds, share_slab, visit, self);
}

int piece_visit_share_parts(struct engine *engine, int kinds,
                            int (*visit)(void *self, const struct parameter_piece *piece), void *self)
{
    struct piece_splitter splitter = {visit, self};
    return visit_all(engine, kinds, share_slab, split_piece, &splitter);
}
