/* A whole plugin: a norm that halves its rows. Compiled as C and as C++, with every warning an error. */
#include "menagerie_plugin.h"

static const MenagerieHostApi *host;

static MenagerieStatus create(const MenagerieBuild *build, void **instance) {
    double factor = 0.0;
    static const MenagerieText option = MENAGERIE_TEXT("factor");
    if (build->real(build->context, option, &factor) != MENAGERIE_OK) {
        return MENAGERIE_ERROR;
    }
    *instance = NULL;
    return MENAGERIE_OK;
}

static void destroy(void *instance) {
    (void)instance;
}

static MenagerieStatus forward(void *instance, const MenagerieCall *call) {
    (void)instance;
    const MenagerieTensor *x = &call->inputs[0];
    const MenagerieTensor *y = &call->outputs[0];
    if (x->dtype != MENAGERIE_DTYPE_F32 || x->ndim != 2) {
        static const MenagerieText text = MENAGERIE_TEXT("rows of f32 are wanted");
        host->set_error(host->context, text);
        return MENAGERIE_ERROR;
    }
    for (int64_t i = 0; i < x->shape[0] * x->shape[1]; i++) {
        ((float *)y->data)[i] = ((const float *)x->data)[i] * 0.5f;
    }
    return MENAGERIE_OK;
}

static const MenagerieOptionDef options[] = {
    { MENAGERIE_TEXT("factor"), MENAGERIE_TEXT("What rows are multiplied with."), MENAGERIE_OPTION_DEF_REAL, 1,
      MENAGERIE_TEXT("0.5"), { NULL, 0 }, NULL, 0, { 0, 0 } },
};

static const MenagerieComponent halved = {
    MENAGERIE_HEADER(MenagerieComponent),
    MENAGERIE_COMPONENT_NORM,
    0,
    MENAGERIE_TEXT("halved"),
    MENAGERIE_TEXT("Half of the row."),
    options,
    1,
    NULL,
    0,
    create,
    destroy,
    forward,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
};

MENAGERIE_MANIFEST const MenagerieManifest MENAGERIE_PLUGIN_MANIFEST_V1 = {
    MENAGERIE_MANIFEST_MAGIC, sizeof(MenagerieManifest), MENAGERIE_ABI_MAJOR, MENAGERIE_ABI_MINOR,
    MENAGERIE_CAPABILITY_CPU_F32, 0, "", "acme/halved", "1.0.0", "", "", 0, { 0 }, { 0 },
};

MENAGERIE_EXPORT MenagerieStatus menagerie_plugin_init_v1(const MenagerieHostApi *api, const MenagerieRegistrar *registrar) {
    host = api;
    return registrar->add_component(registrar->context, &halved);
}
