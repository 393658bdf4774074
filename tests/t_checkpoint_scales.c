/* The state of delayed scaling passes through a checkpoint: a restart continues with it to the bit, and a run with
 * another recipe ignores it. Injected fault: scales that start again from their initial value.
 *
 * ranks: 4 */
#include "checkpoints.h"

#include "base/log.h"
#include "base/memory.h"
#include "file/hdf5_file.h"

#include <mpi.h>
#include <stdlib.h>

static bool same_scales(struct engine *a, struct engine *b)
{
    struct delayed_scaling x = delayed_scaling_fetch(&a->scaling, &a->streams[STREAM_COMPUTE]);
    struct delayed_scaling y = delayed_scaling_fetch(&b->scaling, &b->streams[STREAM_COMPUTE]);
    const bool same = memcmp(x.history.data, y.history.data, (size_t)tensor_extent(&x.history)) == 0 &&
                      memcmp(x.scale.data, y.scale.data, (size_t)tensor_extent(&x.scale)) == 0;
    delayed_scaling_host_destroy(&x);
    delayed_scaling_host_destroy(&y);
    return same;
}

/* Is the scaling as it was made? */
static bool scales_restart(struct training *t)
{
    struct training fresh;
    training_create(&fresh, world, &t->toy.model.settings, DTYPE_F32);
    const bool same = same_scales(&t->toy.engine, &fresh.toy.engine);
    training_destroy(&fresh);
    return same;
}

/* A training with other settings takes the checkpoint's weights and moments, and begins its histories again. */
static void check_other_recipe(const struct precision *other, struct training *saved, const char *path)
{
    struct model_settings settings = saved->toy.model.settings;
    struct training t;
    settings.precision = *other;
    training_create(&t, world, &settings, DTYPE_F32);
    CHECK(checkpoint_read(world, &t.toy.engine, path, true) == ERROR_NONE);
    CHECK(!t.toy.engine.scaling.restored && (!precision_delays(other) || scales_restart(&t)));
    CHECK(engine_updates(&t.toy.engine) == engine_updates(&saved->toy.engine));
    training_destroy(&t);
}

/* Where the file has the scales, in bytes. */
static int64_t place_of_scales(const char *path)
{
    hid_t file, dataset;
    CHECK(hdf5_open(&file, path) == ERROR_NONE);
    dataset = hdf5_open_dataset(file, "state/precision/scale");
    const int64_t place = (int64_t)H5Dget_offset(dataset);
    H5Dclose(dataset);
    H5Fclose(file);
    return place;
}

static void test_scales(void)
{
    struct model_settings settings = toy_settings(TOY_LLAMA);
    struct training saved, same, forgetful;
    struct checkpoint_meta meta;
    char *path = in_folder("scales.h5"), *final = in_folder("scales_final.h5");
    settings.precision = toy_precision(DECK_RECIPE_DELAYED);
    training_create(&saved, world, &settings, DTYPE_F32);
    engine_initialise(&saved.toy.engine, 5);
    train(&saved, 3);
    CHECK(!scales_restart(&saved) && !saved.toy.engine.scaling.restored);
    CHECK(save(&saved, path, true) == ERROR_NONE && save(&saved, final, false) == ERROR_NONE);
    CHECK(checkpoint_verify(world, path) == ERROR_NONE);
    check_noticed(path, path, place_of_scales(path) + 5);
    CHECK(checkpoint_read_meta(world, path, &meta) == ERROR_NONE && meta.scales);
    checkpoint_meta_destroy(&meta);
    CHECK(checkpoint_read_meta(world, final, &meta) == ERROR_NONE && !meta.scales);
    checkpoint_meta_destroy(&meta);

    struct precision others[] = {settings.precision, settings.precision, toy_precision(DECK_RECIPE_BLOCK),
                                 toy_precision(DECK_RECIPE_NONE)};
    others[0].history = 5;
    others[1].kinds[PRECISION_EIGHT].rules[OPERAND_GRADIENT].format ^= FORMAT_E4M3 ^ FORMAT_E5M2;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        check_other_recipe(&others[i], &saved, path);

    training_create(&same, world, &settings, DTYPE_F32);
    training_create(&forgetful, world, &settings, DTYPE_F32); /* the planted fault: scales that start again */
    CHECK(checkpoint_read(world, &same.toy.engine, path, true) == ERROR_NONE);
    CHECK(checkpoint_read(world, &forgetful.toy.engine, path, true) == ERROR_NONE);
    CHECK(same.toy.engine.scaling.restored && same_scales(&saved.toy.engine, &same.toy.engine));
    struct delayed_scaling *scaling = &forgetful.toy.engine.scaling;
    LAUNCH(&forgetful.toy.engine.streams[STREAM_COMPUTE], FILL, fill, .x = scaling->history, .value = 0);
    LAUNCH(&forgetful.toy.engine.streams[STREAM_COMPUTE], FILL, fill, .x = scaling->scale, .value = 1);
    engine_weights_written(&forgetful.toy.engine);
    double straight = train(&saved, 2), resumed = train(&same, 2), forgotten = train(&forgetful, 2);
    CHECK(resumed == straight && forgotten != straight);
    CHECK(same_bits(&saved.toy.engine, &same.toy.engine) && same_scales(&saved.toy.engine, &same.toy.engine));
    CHECK(!same_bits(&saved.toy.engine, &forgetful.toy.engine));

    struct comm *alone = comm_split(world, world->rank); /* on other ranks */
    struct training one;
    training_create(&one, alone, &settings, DTYPE_BF16);
    CHECK(checkpoint_read(alone, &one.toy.engine, path, true) == ERROR_NONE && one.toy.engine.scaling.restored);
    training_destroy(&one);
    comm_destroy(alone);
    training_destroy(&forgetful);
    training_destroy(&same);
    training_destroy(&saved);
    free(final);
    free(path);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    world = comm_open_mpi();
    log_open(world->rank);
    folder = rank_folder_create(world, "t_checkpoint_scales");

    test_scales();
    rank_folder_remove(world, folder);
    int failed = check_end();
    comm_destroy(world);
    MPI_Finalize();
    return failed;
}
