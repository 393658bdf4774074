/* Imports an adapter folder of peft (bridge/peft.h) with the checkpoint of its base, as a checkpoint of both. */
#ifndef BRIDGE_ADAPTER_IMPORT_H
#define BRIDGE_ADAPTER_IMPORT_H

#include "bridge/import.h"

/* Writes a checkpoint of step 0 with the weights of settings->base and the folder's adapters, and its head if it has
 * one. Needs memory for these and one piece of a tensor. Local. ERROR_USER, and nothing is written: the folder is not a
 * LoRA adapter that this program computes; a tensor is missing, is neither an adapter nor of the head, or has another
 * shape, NaN or infinity; the folder is an export of this program, and was made for a base with other weights.
 * ERROR_ENVIRONMENT. */
int adapter_import_run(const struct import_settings *settings);

#endif
