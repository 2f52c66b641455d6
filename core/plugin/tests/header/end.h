
/* The text of a string literal, also in the initializer of a static. */
#define MENAGERIE_TEXT(literal) { (const uint8_t *)(literal), sizeof(literal) - 1 }

/* The head of a struct of this version. */
#define MENAGERIE_HEADER(type) { (uint32_t)sizeof(type), MENAGERIE_ABI_MAJOR, MENAGERIE_ABI_MINOR }

/* In front of the two symbols that a plugin exports. */
#if defined(_WIN32)
#define MENAGERIE_EXPORT __declspec(dllexport)
#else
#define MENAGERIE_EXPORT __attribute__((visibility("default")))
#endif

/* In front of the definition of the manifest: the section from which hosts read it. */
#if defined(_MSC_VER)
#pragma section(".mngplug", read)
#define MENAGERIE_MANIFEST __declspec(allocate(".mngplug"))
#elif defined(__APPLE__)
#define MENAGERIE_MANIFEST __attribute__((used, section("__DATA,__mngplug")))
#else
#define MENAGERIE_MANIFEST __attribute__((used, section(".mngplug")))
#endif

/* What a plugin defines:
 *
 * MENAGERIE_MANIFEST const MenagerieManifest MENAGERIE_PLUGIN_MANIFEST_V1 = {
 *     MENAGERIE_MANIFEST_MAGIC, sizeof(MenagerieManifest), MENAGERIE_ABI_MAJOR, MENAGERIE_ABI_MINOR,
 *     MENAGERIE_CAPABILITY_CPU_F32, 0, "", "author/name", "1.0.0", "", "gcc", 0, { 0 }, { 0 } };
 */
extern MENAGERIE_EXPORT const MenagerieManifest MENAGERIE_PLUGIN_MANIFEST_V1;
MENAGERIE_EXPORT MenagerieStatus menagerie_plugin_init_v1(const MenagerieHostApi *host, const MenagerieRegistrar *registrar);

#ifdef __cplusplus
}
#endif

#endif
