/* Layer hooks in C for the tests: one that is right, one that remembers, one that writes into what it is only shown. */
#include "menagerie_plugin.h"

#include <string.h>

static const MenagerieHostApi *host_api;

static MenagerieStatus failed(const char *why)
{
    MenagerieText text = { (const uint8_t *)why, strlen(why) };
    host_api->set_error(host_api->context, text);
    return MENAGERIE_ERROR;
}

/* Of what an instance keeps only `calls` changes. */
static struct {
    uint64_t layers;
    uint64_t calls;
} kept;

static MenagerieStatus create(const MenagerieBuild *build, void **instance)
{
    if (build->layer != -1 || build->layers == 0 || build->width == 0)
        return failed("a hook is made for a whole model");
    kept.layers = build->layers;
    *instance = &kept;
    return MENAGERIE_OK;
}

static void destroy(void *instance)
{
    (void)instance;
}

/* Rows times a factor. */
static MenagerieStatus times(const MenagerieHookCall *hook, float factor)
{
    const MenagerieCall *call = hook->call;
    if (call->n_inputs != 1 || call->n_outputs != 1 || hook->point != MENAGERIE_HOOK_CALL_AFTER)
        return failed("one array in and one out are wanted, after a layer");
    if (hook->layer >= kept.layers || call->n_sequences == 0 || !call->token_ids)
        return failed("there is no such layer, or nobody's rows, or rows of no tokens");
    const MenagerieTensor *x = call->inputs, *y = call->outputs;
    for (int64_t i = 0; i < x->shape[0] * x->shape[1]; i++)
        ((float *)y->data)[i] = factor * ((const float *)x->data)[i];
    return MENAGERIE_OK;
}

static MenagerieStatus doubled(void *instance, const MenagerieHookCall *hook)
{
    (void)instance;
    return times(hook, 2.0f);
}

static MenagerieStatus remembering(void *instance, const MenagerieHookCall *hook)
{
    (void)instance;
    return times(hook, 1.0f + 0.01f * (float)kept.calls++);
}

static MenagerieStatus scribbling(void *instance, const MenagerieHookCall *hook)
{
    (void)instance;
    ((float *)hook->call->inputs->data)[0] += 1.0f;
    return MENAGERIE_OK;
}

#define HOOK(text, effect, function)                                                                                            \
    {                                                                                                                           \
        .header = MENAGERIE_HEADER(MenagerieComponent), .family = MENAGERIE_COMPONENT_LAYER_HOOK,                               \
        .flags = effect | MENAGERIE_COMPONENT_AFTER_LAYERS | MENAGERIE_COMPONENT_IN_PREFILL | MENAGERIE_COMPONENT_IN_DECODE,    \
        .name = MENAGERIE_TEXT(text), .doc = MENAGERIE_TEXT("A hook in C."), .create = create, .destroy = destroy,              \
        .hook = function,                                                                                                       \
    }

static const MenagerieComponent hooks[] = {
    HOOK("doubled", MENAGERIE_COMPONENT_REPLACES, doubled),
    HOOK("remembering", MENAGERIE_COMPONENT_REPLACES, remembering),
    HOOK("scribbling", 0, scribbling),
};

MENAGERIE_MANIFEST const MenagerieManifest MENAGERIE_PLUGIN_MANIFEST_V1 = {
    MENAGERIE_MANIFEST_MAGIC, sizeof(MenagerieManifest), MENAGERIE_ABI_MAJOR, MENAGERIE_ABI_MINOR,
    MENAGERIE_CAPABILITY_CPU_F32, 0, "", "test/c-hooks", "0.1.0", "", "a C compiler", 0, { 0 }, { 0 },
};

MenagerieStatus menagerie_plugin_init_v1(const MenagerieHostApi *host, const MenagerieRegistrar *registrar)
{
    host_api = host;
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++)
        if (registrar->add_component(registrar->context, &hooks[i]) != MENAGERIE_OK)
            return MENAGERIE_ERROR;
    return MENAGERIE_OK;
}
