/* Which build of the program this is. */
#ifndef BASE_BUILD_H
#define BASE_BUILD_H

enum { BUILD_ID_BYTES = 41 };

/* Writes the GNU build ID of the running program into id, as hexadecimal digits: a hash of what was linked, so two
 * builds have the same one only if they are the same to the byte. "" if the linker left none. Local.
 * Format: the note NT_GNU_BUILD_ID of ELF programs (elf(5)). */
void build_id(char id[BUILD_ID_BYTES]);

#endif
