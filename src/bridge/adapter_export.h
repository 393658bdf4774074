/* Exports a checkpoint's adapters as a folder that peft loads (bridge/peft.h). */
#ifndef BRIDGE_ADAPTER_EXPORT_H
#define BRIDGE_ADAPTER_EXPORT_H

#include "bridge/export.h"

/* As export_run, for settings->adapter: writes the folder under a temporary name, and renames it. Its tensors' metadata
 * has a digest of the base (adapters_base_digest). Local. ERROR_USER: there is no checkpoint, it has no adapters, or
 * its head was trained too; the folder is not empty. ERROR_ENVIRONMENT. */
int adapter_export_run(const struct export_settings *settings);

#endif
