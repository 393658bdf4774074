/* What to change in a deck that does not fit. */
#ifndef TRAIN_FIT_ADVICE_H
#define TRAIN_FIT_ADVICE_H

#include "train/fit.h"

/* Writes fit->advice for a deck of which a rank may use fit->limit bytes; fit_check says how it is found. Local. */
void fit_advise(struct fit *fit, const struct deck *deck, const struct model_settings *model, int64_t ranks,
                struct executor *target);

#endif
