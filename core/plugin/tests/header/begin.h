/* The plugin ABI of Menagerie, version 1: what a plugin in C or C++ is built against.
 *
 * Made from core/plugin/src/abi; to make it anew:
 * MENAGERIE_WRITE_GENERATED=1 cargo test -p menagerie-plugin --test c_header
 *
 * Rules that hold for all of it:
 * - Everything that a pointer leads to is borrowed: from the host for the call (or, in MenagerieBuild, for the life of the
 *   instance where that is said), from the plugin for the life of the process. Nobody frees the other side's memory.
 * - Every struct of functions or descriptions begins with a MenagerieHeader (MENAGERIE_HEADER). Within a major version
 *   fields are only added, at the end; a reader uses no more than `struct_size` bytes.
 * - Texts are UTF-8, not ended by a zero (MENAGERIE_TEXT makes one of a literal). Functions that can fail give a status; before
 *   MENAGERIE_ERROR the text has been given to `set_error`.
 * - No exception leaves a function: C++ catches them itself.
 *
 * A plugin exports two symbols, MENAGERIE_PLUGIN_MANIFEST_V1 and menagerie_plugin_init_v1, and nothing else
 * (-fvisibility=hidden).
 */
#ifndef MENAGERIE_PLUGIN_H
#define MENAGERIE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define MENAGERIE_ASSERT(condition) static_assert(condition, #condition)
extern "C" {
#else
#define MENAGERIE_ASSERT(condition) _Static_assert(condition, #condition)
#endif
